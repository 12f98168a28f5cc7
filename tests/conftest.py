"""Fixtures of all tests."""

from __future__ import annotations

import pytest
from support import Project


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """A user's project with the plugin installed."""
    return Project(pytester)
