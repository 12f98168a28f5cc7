"""Compare what the package imports with what pyproject.toml declares."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from configparser import ConfigParser
from functools import cache
from pathlib import Path

from imports import (
    AGENT_MAY_IMPORT,
    MODULES,
    NAME,
    NEWER_STDLIB,
    imports_of,
    modules_imported_by_name,
)
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

FOR_DEVELOPERS = {"benchmarks", "coverage", "docs", "lint", "test", "typing"}
"""Extras with the tools of this repository. All others are for users of the package."""

NOT_IMPORTED = {
    "cryptography": "distributed imports it to make temporary certificates",
    "py-spy": "a program, which is run and never imported",
    "xarray": "examples define graphs by it",
    "zarr": "examples define graphs by it",
}
"""Declared distributions that nothing imports, with the reason why they are declared."""


def declared(lines: Iterable[str]) -> dict[str, Requirement]:
    requirements = map(Requirement, lines)
    return {normalised(requirement.name): requirement for requirement in requirements}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


CORE = declared(PROJECT["dependencies"])
EXTRAS = PROJECT["optional-dependencies"]
OPTIONAL = declared(line for name in EXTRAS.keys() - FOR_DEVELOPERS for line in EXTRAS[name])


@cache
def imported() -> dict[str, set[str]]:
    """Third-party packages that the package imports, each with the modules that do so."""
    users: dict[str, set[str]] = {}
    for module in MODULES:
        names = {module_import.root for module_import in imports_of(module)}
        names |= {imported.partition(".")[0] for imported in modules_imported_by_name(module)}
        if module.startswith(f"{NAME}.agent."):  # runs where the scheduler does
            names -= AGENT_MAY_IMPORT - CORE.keys()
        for name in names - {NAME, *sys.stdlib_module_names, *NEWER_STDLIB}:
            users.setdefault(normalised(name), set()).add(module)
    return users


def test_every_import_is_declared() -> None:
    undeclared = {name: by for name, by in imported().items() if name not in {**CORE, **OPTIONAL}}
    assert undeclared == {}


def test_every_declared_dependency_is_imported() -> None:
    assert {*CORE, *OPTIONAL} - imported().keys() == NOT_IMPORTED.keys()


def test_lowest_versions_are_those_that_tox_tests() -> None:
    config = ConfigParser(interpolation=None)
    config.read(ROOT / "tox.ini", encoding="utf-8")
    tested = declared(config["testenv:lowest"]["deps"].split())
    for name in CORE:
        assert versions(tested[name], "==") == versions(CORE[name], ">="), name


def versions(requirement: Requirement, operator: str) -> list[Version]:
    return [
        Version(specifier.version)
        for specifier in requirement.specifier
        if specifier.operator == operator
    ]
