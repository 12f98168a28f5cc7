"""Shared by the package's own tests and examples."""

from __future__ import annotations

pytest_plugins = ["pytester"]
