"""Tests of imports: the rules of the rooms, what is declared, and what an unused session loads."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from configparser import ConfigParser
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from imports import (
    AGENT_MAY_IMPORT,
    MODULES,
    NAME,
    NEWER_STDLIB,
    PACKAGE,
    imports_of,
    modules_imported_by_name,
)
from packaging.requirements import Requirement
from packaging.version import Version

import pytest_schedprof

TABLE = PACKAGE.parent / "docs" / "architecture.md"
ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \|([^|]*)\|([^|]*)\|$", re.MULTILINE)

PROFILERS = {"viztracer", "memray"}
FORBIDDEN = {
    "pure": {"pytest", "_pytest", "distributed", "dask", *PROFILERS},
    "no pytest": {"pytest", "_pytest"},
    "no distributed": {"distributed", "dask"},
}
"""Packages that a rule of the table forbids."""


@dataclass(frozen=True)
class Room:
    """A row of the table."""

    name: str
    imports: frozenset[str]
    rules: frozenset[str]


def words(cell: str) -> frozenset[str]:
    return frozenset(word.strip() for word in cell.split(",") if word.strip())


ROOMS = {
    name: Room(name, words(imports), words(rules))
    for name, imports, rules in ROW.findall(TABLE.read_text(encoding="utf-8"))
}
PURE_ROOMS = [room.name for room in ROOMS.values() if "pure" in room.rules]


def in_room(room: str) -> list[str]:
    prefix = f"{NAME}.{room}"
    return [name for name in MODULES if name == prefix or name.startswith(prefix + ".")]


PURE_MODULES = [module for room in PURE_ROOMS for module in in_room(room)]


def room_of(module: str) -> str:
    """The room that a module is in; empty for the package's own `__init__`."""
    return [*module.split("."), ""][1]


ARROWS = {
    room: {
        room_of(imported.name)
        for module in in_room(room)
        for imported in imports_of(module)
        if imported.name in MODULES
    }
    - {room, ""}
    for room in {room_of(module) for module in MODULES} - {""}
}
"""The rooms that each room imports, imports for types included."""


def test_a_room_imports_the_rooms_of_its_row() -> None:
    assert {name: room.imports for name, room in ROOMS.items()} == ARROWS


def test_files_that_the_page_names_exist() -> None:
    walks = TABLE.read_text(encoding="utf-8").partition("## Three walks")[2].partition("\n## ")[0]
    named = re.findall(r"`(\w+/[\w/.]+)`", walks)
    assert named
    assert [name for name in named if not (PACKAGE / name).is_file()] == []


def test_rooms_stand_above_those_that_they_import() -> None:
    order = list(ROOMS)
    for room in ROOMS.values():
        below = order[order.index(room.name) + 1 :]
        assert room.imports <= set(below), room.name


def test_pure_rooms_import_pure_rooms_alone() -> None:
    for room in PURE_ROOMS:
        assert ROOMS[room].imports <= set(PURE_ROOMS), room


def test_rules_of_the_table_are_known() -> None:
    assert {rule for room in ROOMS.values() for rule in room.rules} == set(FORBIDDEN)


def test_modules_keep_the_rules_of_their_room() -> None:
    for module in MODULES.keys() - {NAME}:
        forbidden = {name for rule in ROOMS[room_of(module)].rules for name in FORBIDDEN[rule]}
        roots = {imported.root for imported in imports_of(module) if not imported.typing_only}
        assert roots & forbidden == set(), module


NO_NOUNS = {
    *("of", "what", "whom", "whose", "where", "there", "here", "some", "several"),
    *("each", "found", "told", "wanted", "asked", "gone", "begun"),
}


def test_names_of_variables_say_what_a_thing_is() -> None:
    for module, path in MODULES.items():
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
        in_files = {id(node.target) for node in nodes if isinstance(node, ast.AnnAssign)}
        stored = (node for node in nodes if isinstance(node, ast.Name) and id(node) not in in_files)
        names = {node.id for node in stored if isinstance(node.ctx, ast.Store)}
        names |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        assert names & NO_NOUNS == set(), module


def test_docstrings_describe_arguments_that_exist() -> None:
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_bytes())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            section = (ast.get_docstring(node) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
            names = {
                argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)
            }
            assert {*re.findall(r"^    (\w+):", section, re.MULTILINE)} <= names, (
                module,
                node.name,
            )


def test_no_module_imports_itself_in_a_circle() -> None:
    for module in MODULES:
        direct = {imported.name for imported in imports_of(module) if not imported.typing_only}
        others = sorted((direct & MODULES.keys()) - {module, NAME})
        assert module not in reached_from(others), module


def test_the_top_level_holds_few_modules() -> None:
    loose = {path.stem for path in PACKAGE.glob("*.py")}
    assert loose == {"__init__", "__main__", "errors"}


def test_no_room_takes_the_name_of_a_public_function() -> None:
    # A package that was imported is an attribute of its parent, and hides what has that name.
    assert set(pytest_schedprof.__all__).isdisjoint(ROOMS)


def test_the_agent_imports_only_what_a_scheduler_surely_has() -> None:
    for module in in_room("agent"):
        imported = imports_of(module)
        roots = {item.root for item in imported if not item.name.startswith(f"{NAME}.agent")}
        assert roots <= {*sys.stdlib_module_names, *NEWER_STDLIB, *AGENT_MAY_IMPORT}, module
        # The package has another name where the agent runs.
        assert f"from {NAME}" not in MODULES[module].read_text(encoding="utf-8")


def reached_from(modules: list[str]) -> set[str]:
    """Modules of this package that are imported with these, directly or indirectly."""
    reached, waiting = set[str](), list(modules)
    while waiting:
        reached.add(module := waiting.pop())
        imported = {item.name for item in imports_of(module) if not item.typing_only}
        waiting += (imported & MODULES.keys()) - reached
    return reached


def test_processes_of_clusters_need_nothing_but_what_distributed_brings() -> None:
    # Their interpreter may be another one, without this package's dependencies.
    reached = reached_from([f"{NAME}.clusters.fork_server", f"{NAME}.virtual.hollow_worker"])
    assert {f"{NAME}.clusters.nodes", f"{NAME}.clusters.process"} <= reached
    needed = {
        imported.root
        for module in reached
        for imported in imports_of(module)
        if not imported.typing_only
    }
    assert needed <= {*sys.stdlib_module_names, *AGENT_MAY_IMPORT, NAME}


def loaded_with(modules: str, directory: Path) -> set[str]:
    """Return the modules that a fresh interpreter has after it imported some."""
    program = f"import {modules}, sys; print(*sys.modules)"
    output = subprocess.check_output(
        [sys.executable, "-c", program], cwd=directory, env={}, text=True
    )
    return set(output.split())


def test_importing_the_pure_rooms_loads_neither_pytest_nor_dask_nor_a_profiler(
    tmp_path: Path,
) -> None:
    loaded = loaded_with(", ".join(PURE_MODULES), tmp_path)
    assert set(PURE_MODULES) <= loaded
    assert loaded & {*FORBIDDEN["pure"], f"{NAME}.plugin"} == set()


def test_commands_that_read_results_load_neither_distributed_nor_dask(tmp_path: Path) -> None:
    """They ask all backends what they declare."""
    loaded = loaded_with(", ".join([*in_room("backends"), *in_room("report")]), tmp_path)
    assert loaded & FORBIDDEN["no distributed"] == set()


def test_importing_the_package_loads_nothing_but_itself(tmp_path: Path) -> None:
    loaded = loaded_with(NAME, tmp_path)
    assert {name for name in loaded if name.startswith(NAME)} == {NAME}
    assert loaded & {*FORBIDDEN["pure"], "msgspec"} == set()


def test_pytest_imports_the_hooks_as_python_does(tmp_path: Path) -> None:
    program = (
        "import pytest, sys; pytest.main(['--markers']); "
        "print(sys.modules['pytest_schedprof.plugin.hooks'].__spec__.loader)"
    )
    output = subprocess.check_output([sys.executable, "-c", program], cwd=tmp_path, text=True)
    assert "SourceFileLoader" in output.splitlines()[-1]


ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]

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


CONDA = {"dask": "dask-core", "msgpack": "msgpack-python"}
"""Names that conda-forge has for packages of other names on PyPI."""


def test_the_conda_recipe_is_valid_and_declares_what_the_package_does() -> None:
    reason = "there is a wheel of rattler-build for Linux on x86-64"
    rattler = pytest.importorskip("rattler_build", reason=reason)
    (rendered,) = rattler.Stage0Recipe.from_file(ROOT / "recipe" / "recipe.yaml").render()
    recipe = rendered.recipe.to_dict()
    names = [(CONDA.get(name, name), dependency.specifier) for name, dependency in CORE.items()]
    needed = {f"{name} {specifier}" for name, specifier in names}
    assert {*recipe["requirements"]["run"]} == {f"python {PROJECT['requires-python']}", *needed}
    backends = [line.replace(">", " >") for line in PYPROJECT["build-system"]["requires"]]
    assert recipe["requirements"]["host"] == ["python 3.11.*", "pip", *backends]
    assert recipe["package"]["version"] == pytest_schedprof.__version__
    scripts = [f"{name} = {place}" for name, place in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    assert recipe["about"]["summary"] == PROJECT["description"]


def versions(requirement: Requirement, operator: str) -> list[Version]:
    return [
        Version(specifier.version)
        for specifier in requirement.specifier
        if specifier.operator == operator
    ]


OURS = {
    "pytest_schedprof",
    "pytest_schedprof.clusters",
    "pytest_schedprof.evidence",
    "pytest_schedprof.plugin",
    "pytest_schedprof.plugin.hooks",
    "pytest_schedprof.plugin.hookspecs",
    "pytest_schedprof.plugin.stash",
    "pytest_schedprof.measuring",
    "pytest_schedprof.measuring.options",
}
"""All that an unused session may import beyond what pytest imports itself."""

SESSION = """
import sys
import pytest

code = pytest.main(sys.argv[1:])
print("modules:", *sorted(sys.modules))
sys.exit(code)
"""

TESTS = {
    "unused": "def test_one():\n    pass\n",
    "marked": "import pytest\n@pytest.mark.schedprof(backend='off')\ndef test_one():\n    pass\n",
}


def modules_of(directory: Path, test: str, *arguments: str) -> set[str]:
    """Return the modules that a session of one test has imported at its end."""
    (directory / "pytest.ini").write_text("[pytest]\n")
    (directory / "test_one.py").write_text(test)
    options = ("-q", "-p", "no:cacheprovider", *arguments, "test_one.py")
    command = [sys.executable, "-c", SESSION, *options]
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    output = subprocess.check_output(command, cwd=directory, env=environment, text=True)
    return set(output.splitlines()[-1].split()[1:])


def test_unused_session_imports_only_these_modules(tmp_path: Path) -> None:
    bare = modules_of(tmp_path, TESTS["unused"])
    plugin = ("-p", "pytest_schedprof.plugin.hooks")
    assert modules_of(tmp_path, TESTS["unused"], *plugin) - bare == OURS
    assert not (tmp_path / ".schedprof").exists()


@pytest.mark.parametrize(
    ("test", "argument"), [("marked", "-v"), ("unused", "--schedprof-rate=50")]
)
def test_settings_are_read_when_needed(tmp_path: Path, test: str, argument: str) -> None:
    used = modules_of(tmp_path, TESTS[test], "-p", "pytest_schedprof.plugin.hooks", argument)
    assert "pytest_schedprof.measuring.settings" in used
