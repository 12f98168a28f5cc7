"""Readers and writers of profile files. Pure: bytes in, data out."""

from __future__ import annotations

import msgspec

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Raised for bytes that are no JSON, no UTF-8, or nested too deeply."""
