"""Private names of dask that are used: each is in one list, and in the installed release."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import pytest_schedprof
from pytest_schedprof.agent.touchpoints import TOUCHPOINTS
from pytest_schedprof.judge.owners import OWNERS, SIDES

PACKAGE = Path(pytest_schedprof.__file__).parent
LISTED = {name for point in TOUCHPOINTS for names in point.names for name in names.split(" | ")}

OF_OTHERS = {
    # asyncio and the rest of the standard library
    *("_SubParsersAction", "_acquire_restore", "_asdict", "_callback", "_current_frames"),
    *("_enter_task", "_exit", "_filters_mutated", "_find_and_load", "_get_running_loop"),
    *("_is_owned", "_leave_task", "_ready", "_release_save", "_replace", "_run_exitfuncs"),
    *("_scheduled", "_set_running_loop", "_shutdown", "_ssock", "_waiters", "_write_to_self"),
    *("_CRLock", "_PySimpleQueue", "_active_limbo_lock", "_allocate_lock", "_bootstrap"),
    *("_getframe", "_global_shutdown_lock"),
    # pytest
    "_tw",
}
"""Private attributes that are not dask's."""

OF_SOME_RELEASES = {
    "dask._expr:*",
    "dask._task_spec:*",
    "distributed.client:_*Expr.*",
    "distributed.scheduler:Scheduler._match_graph_with_tasks*",
    "distributed.scheduler:Scheduler._remove_done_tasks*",
    "distributed.scheduler:_cull*",
    "distributed.worker:_run_*",
    "distributed.worker:apply_function*",
}
"""Patterns of owners that not every supported release has functions of."""


def exists(name: str) -> bool:
    """Whether the installed release has a name, which only instances may have."""
    module, _, qualname = name.partition(":")
    *owners, last = qualname.split(".")
    try:
        holder: Any = import_module(module)
        for owner in owners:
            holder = getattr(holder, owner)
    except (ImportError, AttributeError):
        return False
    sources = map(inspect.getsource, holder.__mro__[:-1]) if isinstance(holder, type) else ()
    return hasattr(holder, last) or any(f"self.{last}" in source for source in sources)


@pytest.mark.parametrize("names", [name for point in TOUCHPOINTS for name in point.names])
def test_the_installed_release_has_each_name(names: str) -> None:
    assert any(map(exists, names.split(" | ")))


def test_a_name_that_is_gone_is_noticed() -> None:
    assert not exists("distributed.scheduler:Scheduler._comms_of_yore")
    assert not exists("distributed.yore:Scheduler._comms")


def of_dask() -> list[str]:
    patterns = {pattern for _, patterns in (*OWNERS, *SIDES) for pattern in patterns}
    return sorted(
        pattern
        for pattern in patterns - OF_SOME_RELEASES
        if re.match(r"(dask|distributed|tornado)\b", pattern)
    )


@pytest.mark.parametrize("pattern", of_dask())
def test_the_installed_release_has_functions_of_each_owner(pattern: str) -> None:
    module, _, qualname = pattern.partition(":")
    holder: Any = import_module(module.partition("*")[0].rstrip("."))
    *owners, last = qualname.split(".")
    for owner in owners:
        holder = getattr(holder, owner)
    assert [name for name in dir(holder) if fnmatchcase(name, last)]


def test_every_private_name_that_is_used_is_in_the_list() -> None:
    listed = LISTED | {re.split("[.:]", name)[-1] for name in LISTED}
    apart = (PACKAGE / "agent" / "touchpoints.py", PACKAGE / "judge" / "owners.py")
    files = [path for path in PACKAGE.rglob("*.py") if path not in apart]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text()))]
    known = listed | OF_OTHERS | {name for node in nodes for name in names_given_in(node)}
    assert {name for node in nodes for name in used(node)} - known == set()


def names_given_in(node: ast.AST) -> Iterator[str]:
    """Yield the name that the package itself gives to something."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield from [node.attr] if ast.unparse(node).startswith("self.") else []


def used(node: ast.AST) -> Iterator[str]:
    """Yield private names, and names of dask's functions in strings, that are used."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if re.fullmatch(r"(dask|distributed|tornado)[\w.]*:[\w.]+", node.value):
            yield node.value
    elif isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr):
        yield node.attr
    elif isinstance(node, ast.ImportFrom) and re.match("dask|distributed|torn", node.module or ""):
        yield from (
            f"{node.module}:{alias.name}" for alias in node.names if alias.name.startswith("_")
        )


def test_the_files_that_use_them_are_there() -> None:
    files = {file for point in TOUCHPOINTS for file in point.used_by.split(", ")}
    assert [file for file in sorted(files) if not (PACKAGE / file).is_file()] == []
