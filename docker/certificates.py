"""Make the certificate of docker-compose.tls.yml, in docker/tls/ or a given directory.

It is self-signed, and the scheduler, the workers and the client share it, as with dask's
`Security.temporary()`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from distributed.security import Security

USER = 1000
"""User ID of `dask` in the image. When root runs this script, the files are given to that user."""


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
