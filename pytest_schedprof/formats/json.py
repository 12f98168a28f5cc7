"""What the JSON of others can do to a reader."""

from __future__ import annotations

import msgspec

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Raised for bytes that are no JSON, no UTF-8, or nested without end."""
