"""Safe names for test IDs: readable, injective, short, never outside their directory."""

from __future__ import annotations

import re
from hashlib import blake2b

MAX_SLUG = 120
"""Well under the 255 bytes that a file system allows, for the path around it counts too."""


def safe_name(test_id: str) -> str:
    """A directory name for a test: an ASCII slug, and always a hash of the exact ID.

    The hash alone makes the name unique: IDs that differ in case only, or in characters
    that a slug cannot hold, still get names that differ on any file system.
    """
    digest = blake2b(test_id.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    slug = re.sub(r"[^A-Za-z0-9_.]+", "-", test_id.replace("::", "-")).strip("-.")
    return f"{slug[:MAX_SLUG].rstrip('-.') or 'test'}-{digest}"
