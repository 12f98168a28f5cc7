"""Make the certificate of docker-compose.tls.yml, in docker/tls/ or a given directory.

It is its own authority and that of all parts, as in dask's `Security.temporary()`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from distributed.security import Security

USER = 1000
"""The user of the image: as root, the key is made that user's; else it is one's own."""


def main(directory: Path) -> None:
    """Write cert.pem and key.pem."""
    security = Security.temporary()
    directory.mkdir(exist_ok=True)
    files = {"cert.pem": security.tls_ca_file, "key.pem": security.tls_scheduler_key}
    for name, text in files.items():
        path = directory / name
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_text(text)
        if os.geteuid() == 0:
            os.chown(path, USER, -1)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "tls")
