"""Who may import whom: the rooms of the package, held to their walls."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import pytest_schedprof

PACKAGE = Path(pytest_schedprof.__file__).parent
NAME = "pytest_schedprof"

PURE_ROOMS = (
    "model",
    "analysis",
    "comparison",
    "diagnosis",
    "gates",
    "formats",
    "storage",
    "reports",
    "pages",
)
FORBIDDEN_TO_PURE = {"pytest", "_pytest", "distributed", "dask", "viztracer", "memray"}
AGENT_MAY_IMPORT = {"distributed", "dask", "tornado", "psutil", "cloudpickle"}
KNOW_PYTEST = {
    "plugin",
    "fixtures",
    "options",
    "settings",
    "layers",
    "scaling",
    "baselines",
    "against",
    "hookspecs",
    "callbacks",
    "collecting",
    "running",
    "progress",
}

TIMEOUT_S = 60


@dataclass(frozen=True)
class Import:
    """One imported name, in full: a module, or a module and what is taken from it."""

    name: str
    typing_only: bool

    @property
    def root(self) -> str:
        return self.name.partition(".")[0]


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def is_typing_only(node: ast.If) -> bool:
    return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def walk(nodes: list[ast.stmt], package: str, typing_only: bool = False) -> Iterator[Import]:
    """Every import, at whatever depth: in functions, classes, branches."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, typing_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base]).strip(".")
            yield Import(base, typing_only)
            yield from (Import(f"{base}.{alias.name}", typing_only) for alias in node.names)
        else:
            typed = typing_only or (isinstance(node, ast.If) and is_typing_only(node))
            body = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)]
            orelse = node.orelse if isinstance(node, ast.If) else []
            yield from walk([each for each in body if each not in orelse], package, typed)
            yield from walk(orelse, package, typing_only)
            for block in ast.iter_child_nodes(node):
                if isinstance(block, (ast.ExceptHandler, ast.match_case)):
                    yield from walk(block.body, package, typing_only)


def imports_of_source(source: str, package: str = NAME) -> set[Import]:
    return set(walk(ast.parse(source).body, package))


def imports_of(module: str) -> set[Import]:
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return imports_of_source(path.read_text(encoding="utf-8"), package)


def in_room(room: str) -> list[str]:
    prefix = f"{NAME}.{room}"
    return [name for name in MODULES if name == prefix or name.startswith(prefix + ".")]


PURE_MODULES = [module for room in PURE_ROOMS for module in in_room(room)]


@pytest.mark.parametrize("room", [*PURE_ROOMS, "agent"])
def test_every_room_of_the_rule_exists_and_holds_modules(room: str) -> None:
    assert len(in_room(room)) >= 2


def test_the_walk_finds_imports_wherever_they_hide() -> None:
    source = """
import a.b as c
from d import e
from . import f
from ..g import h
if TYPE_CHECKING:
    import i
else:
    import j
def function():
    try:
        import k
    except ImportError:
        from l.m import n
    finally:
        import o
class Class:
    async def method(self):
        async with x:
            while y:
                import p
match z:
    case 1:
        import q
"""
    found = imports_of_source(source, "package.room")
    assert {each.name for each in found if not each.typing_only} == {
        *("a.b", "d", "d.e", "package.room", "package.room.f", "package.g", "package.g.h"),
        *("j", "k", "l.m", "l.m.n", "o", "p", "q"),
    }
    assert {each.name for each in found if each.typing_only} == {"i"}


@pytest.mark.parametrize("module", PURE_MODULES)
def test_pure_rooms_import_neither_pytest_nor_dask_nor_a_profiler(module: str) -> None:
    assert {each.root for each in imports_of(module)} & FORBIDDEN_TO_PURE == set()


@pytest.mark.parametrize("module", PURE_MODULES)
def test_pure_rooms_import_of_this_package_pure_rooms_and_errors_alone(module: str) -> None:
    allowed = {*PURE_MODULES, f"{NAME}.errors"}
    own = {each.name for each in imports_of(module) if each.name in MODULES}
    assert own <= allowed


@pytest.mark.parametrize("module", in_room("agent"))
def test_the_agent_imports_only_what_a_scheduler_surely_has(module: str) -> None:
    imported = imports_of(module)
    roots = {each.root for each in imported if not each.name.startswith(f"{NAME}.agent")}
    assert roots <= {*sys.stdlib_module_names, *AGENT_MAY_IMPORT}
    # Where it runs the package has another name.
    assert f"from {NAME}" not in MODULES[module].read_text(encoding="utf-8")


@pytest.mark.parametrize("module", in_room("environments"))
def test_environments_know_neither_pytest_nor_dask(module: str) -> None:
    assert {each.root for each in imports_of(module)} & FORBIDDEN_TO_PURE == set()


def reached_from(modules: list[str]) -> set[str]:
    """Modules of this package that come with these."""
    reached, wanted = set[str](), list(modules)
    while wanted:
        reached.add(module := wanted.pop())
        imported = {each.name for each in imports_of(module) if not each.typing_only}
        wanted += (imported & MODULES.keys()) - reached
    return reached


def test_processes_of_clusters_need_nothing_but_what_distributed_brings() -> None:
    # Their interpreter may be another, which has none of this package's dependencies.
    reached = reached_from([f"{NAME}.clusters.process", *in_room("simulation")])
    assert f"{NAME}.clusters.nodes" in reached
    needed = {
        each.root for module in reached for each in imports_of(module) if not each.typing_only
    }
    assert needed <= {*sys.stdlib_module_names, *AGENT_MAY_IMPORT, NAME}


def test_only_five_modules_know_pytest() -> None:
    importers = {
        module
        for module in MODULES
        for each in imports_of(module)
        if each.root in ("pytest", "_pytest") and not each.typing_only
    }
    assert f"{NAME}.plugin" in importers
    assert importers <= {f"{NAME}.{name}" for name in KNOW_PYTEST}


def run_python(*arguments: str, cwd: Path) -> str:
    """What a fresh interpreter prints; the settings of the session that runs this are its own."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV_"))
    }
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_importing_the_pure_rooms_loads_neither_pytest_nor_dask_nor_a_profiler(
    tmp_path: Path,
) -> None:
    program = f"import {', '.join(PURE_MODULES)}, sys, json; print(json.dumps(list(sys.modules)))"
    loaded = set(json.loads(run_python("-c", program, cwd=tmp_path)))
    assert set(PURE_MODULES) <= loaded
    assert loaded & {*FORBIDDEN_TO_PURE, f"{NAME}.plugin"} == set()


def test_importing_the_package_loads_nothing_but_itself(tmp_path: Path) -> None:
    program = f"import {NAME}, sys, json; print(json.dumps(list(sys.modules)))"
    loaded = set(json.loads(run_python("-c", program, cwd=tmp_path)))
    assert {name for name in loaded if name.startswith(NAME)} == {NAME}
    assert loaded & {*FORBIDDEN_TO_PURE, "msgspec"} == set()


CONFTEST = """
import json, pathlib, sys

def pytest_unconfigure():
    pathlib.Path("loaded.json").write_text(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize("arguments", [(), ("--collect-only",)])
def test_a_session_that_profiles_nothing_loads_neither_distributed_nor_msgspec(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    loaded = loaded_by_pytest(tmp_path, *arguments)
    assert f"{NAME}.plugin" in loaded
    others = loaded_by_pytest(tmp_path, *arguments, "-p", "no:schedprof")
    ours = loaded - others  # other installed plugins load what they please
    assert ours & {"distributed", "dask", "msgspec", "tornado", "viztracer", "memray"} == set()
    assert not (tmp_path / ".schedprof").exists()


def loaded_by_pytest(path: Path, *arguments: str) -> set[str]:
    """The modules that a session over one test has loaded when it ends."""
    (path / "conftest.py").write_text(CONFTEST)
    (path / "test_it.py").write_text("def test_it():\n    assert True\n")
    run_python("-m", "pytest", "-p", "no:cacheprovider", *arguments, cwd=path)
    return set(json.loads((path / "loaded.json").read_text()))
