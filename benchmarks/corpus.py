"""Read directories of patches of dask and distributed, reverse them, and name what they change."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROW = re.compile(
    r"^\| `(?P<commit>\w+)`(?: \((?P<number>\w*#\d+)\))? \| (?P<release>[\d.]+) \| (?P<what>.*)$"
)
"""A row of the table in README.md: commit, release that has the patch, what it did."""

HEADER = re.compile(r"^Release: (?P<release>[\d.]+)$", re.MULTILINE)
"""A line before the first file of a patch, where no README.md names its release."""

BUGS = re.compile(r"^#*\s*bugs\b", re.IGNORECASE)
"""The line of README.md after which patches are about bugs and not about performance."""

REMOVED = re.compile(r"^-(?!-- )(.*)$", re.MULTILINE)
FILE = re.compile(r"^\+\+\+ b/(\S+)", re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]\w+")


@dataclass(frozen=True, slots=True)
class Patch:
    """A change of distributed: in reverse it makes a regression of the release that has it."""

    path: Path
    release: str
    number: str = ""
    """Its pull request, such as `#8821`."""
    what: str = ""

    @property
    def text(self) -> str:
        """The whole patch."""
        return self.path.read_text()

    @property
    def files(self) -> list[str]:
        """Paths of the files that it changes, relative to site-packages."""
        return FILE.findall(self.text)

    @property
    def words(self) -> frozenset[str]:
        """All names in the lines that it removed, which a regression gets back."""
        return frozenset(WORD.findall("\n".join(REMOVED.findall(self.text))))


def read_corpus(directories: Sequence[Path], release: str = "") -> list[Patch]:
    """Return the performance patches of directories in the order of their releases.

    The release of a patch is in the table of README.md, or in a line `Release: 2025.4.0` at the
    head of the patch, or else the given one. Patches below a line that begins with "Bugs" are left
    out, and so are patches without a release.
    """
    patches = []
    for directory in directories:
        rows = dict(_rows(directory / "README.md"))
        paths = sorted(directory.glob("*.patch"))
        patches += [patch for path in paths if (patch := _patch(path, rows, release)) is not None]
    return sorted(
        patches, key=lambda patch: ([int(part) for part in patch.release.split(".")], patch.path)
    )


class PatchError(Exception):
    """A patch does not reverse; the text says why."""


def reverse(patch: Patch, site: Path) -> None:
    """Reverse a patch in a directory of packages, which it leaves as it is if that is impossible.

    With `--batch`, the program `patch` would apply it forwards where the directory lacks it.

    Raises:
        PatchError: if the directory does not have what the patch made.
    """
    program = shutil.which("patch")
    if program is None:
        raise PatchError("the program `patch` is not installed here")
    command = [program, "--reverse", "--strip=1", "--force", f"--input={patch.path.absolute()}"]
    for options in (["--dry-run"], []):
        done = subprocess.run([*command, *options], cwd=site, capture_output=True, text=True)
        if done.returncode:
            reason = " ".join((done.stdout + done.stderr).split())
            raise PatchError(f"it does not reverse in {patch.release}: {reason}")


def read_bugs(directory: Path) -> list[Patch]:
    """Return the patches below a line that begins with "Bugs" in the README.md of a directory."""
    rows = dict(_rows(directory / "README.md", is_bug=True))
    return [
        Patch(path, row.release, row.number, row.what)
        for path in sorted(directory.glob("*.patch"))
        if (row := rows.get(path.stem)) is not None
    ]


def _patch(path: Path, rows: dict[str, Patch | None], release: str) -> Patch | None:
    if path.stem in rows:
        row = rows[path.stem]
        return row and Patch(path, row.release, row.number, row.what)
    head = path.read_text().partition("diff --git")[0]
    match = HEADER.search(head)
    named = match["release"] if match else release
    return Patch(path, named) if named else None


def _rows(readme: Path, *, is_bug: bool = False) -> Iterator[tuple[str, Patch | None]]:
    """Yield what the table tells about each commit that mended a bug, or made it cheaper.

    It is None about the others.
    """
    is_below = False
    for line in readme.read_text().splitlines() if readme.exists() else ():
        is_below = is_below or bool(BUGS.match(line))
        if match := ROW.match(line):
            what = match["what"].strip("| ").partition(" | ")[0]
            row = Patch(readme, match["release"], match["number"] or "", what)
            yield match["commit"], row if is_below == is_bug else None


def changed_functions(patch: Patch, before: Path, after: Path) -> frozenset[str]:
    """Return the functions whose code differs between two trees, as `module:qualname`."""
    changed: set[str] = set()
    for file in patch.files:
        if file.endswith(".py"):
            old, new = (dict(_functions(tree / file)) for tree in (before, after))
            module = module_of(file)
            differing = {name for name in old | new if old.get(name) != new.get(name)}
            changed.update(f"{module}:{name}" for name in differing)
    return frozenset(changed)


def module_of(file: str) -> str:
    """Return the module in a file of site-packages."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _functions(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the qualified name and the syntax tree of each function in a file, if there is one."""
    if path.exists():
        yield from _in_node(ast.parse(path.read_text()), "")


def _in_node(node: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + child.name, ast.dump(child)
            yield from _in_node(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from _in_node(child, f"{prefix}{child.name}.")
        else:
            yield from _in_node(child, prefix)
