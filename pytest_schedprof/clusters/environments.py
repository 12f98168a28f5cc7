"""Make environments that differ from this one in the packages that were named, with uv."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from msgspec import Struct
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from pytest_schedprof.clusters.interpreters import environment_elsewhere, import_path, is_site
from pytest_schedprof.errors import ClusterError, SettingsError, without_secrets

LAYOUT = "2"
"""Version of the way in which environments are made; part of their hash."""

BUILD_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
"""Files that a checkout has one of; its dependencies are read from them at installation."""

UNUSED_DAYS, UNFINISHED_DAYS = 30, 1
NAME = re.compile(r".+-[0-9a-f]{16}")
MAKING = "making-"

PIN = re.compile(r"===?[^*,]+$|@[0-9a-f]{40}$")
"""Matches the end of a requirement that allows only one version or one commit."""

MODULE = "schedprof_behind"
LAST = f"~{MODULE}.pth"
"""Name of a file that `site` reads after all others. `site` reads it twice, so it only imports a
module, which runs once."""

BEHIND = """
# Made by pytest-schedprof: packages of the other environment come after those installed here.
import site
import sys
from importlib.machinery import PathFinder

# A checkout may be installed here by a finder that comes after the path finder.
sys.meta_path.remove(PathFinder)
sys.meta_path.append(PathFinder)
for path in {sites!a}:
    site.addsitedir(path)
"""


class Packages(Struct, frozen=True):
    """Packages of the other side, each in the form that uv accepts."""

    requirements: tuple[str, ...] = ()
    checkouts: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """Lines of a requirements file; checkouts are editable, so that changes take effect."""
        return [*self.requirements, *(f"-e {Path(path).as_uri()}" for path in self.checkouts)]

    def identity(self) -> list[str]:
        """Return the texts that identify an environment with these packages.

        The date is one of them unless all requirements are pinned: others are resolved every day.
        """
        pinned = all(PIN.search(requirement) for requirement in self.requirements)
        files = [Path(place, name) for place in self.checkouts for name in BUILD_FILES]
        built = [file.read_text("utf-8", "replace") for file in files if file.is_file()]
        return [*self.lines, *built, "" if pinned else time.strftime("%Y-%m-%d")]


def default_cache() -> Path:
    """Return the directory of environments in the user's cache directory.

    Raises:
        SettingsError: if this user has none, as in a container that runs as any user.
    """
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        raise SettingsError(
            "schedprof: there is no home directory to keep environments in: set XDG_CACHE_HOME"
        ) from None
    return base / "pytest-schedprof" / "environments"


def environment_of(packages: Packages, cache: Path, deadline: float) -> Path:
    """Return the interpreter of an environment with these packages, made if it is not cached.

    A new environment is renamed to its final name when it is complete, so that neither an interrupt
    nor another session that makes the same one leaves a broken one.
    """
    place = cache / name_of(packages)
    python = interpreter_in(place)
    try:
        if not python.exists():
            cache.mkdir(parents=True, exist_ok=True)
            _remove_unused(cache)
            made = Path(tempfile.mkdtemp(prefix=MAKING, dir=cache))
            try:
                make(packages, made, import_path(), deadline)
                if not python.exists():  # a directory there may have lost its interpreter
                    shutil.rmtree(place, ignore_errors=True)
                made.rename(place)
            except OSError:
                if not python.exists():  # otherwise another session was faster
                    raise
            finally:
                shutil.rmtree(made, ignore_errors=True)
        os.utime(place)  # marks it as in use
    except OSError as error:
        raise ClusterError(
            f"schedprof: no environment can be kept in {str(cache)!r}: {error}"
        ) from error
    return python


def _remove_unused(cache: Path) -> None:
    for place in cache.iterdir():
        with suppress(OSError):  # it may be a dangling link, or another session removes it
            days = (time.time() - place.stat().st_mtime) / 86400
            is_unfinished = place.name.startswith(MAKING) and days > UNFINISHED_DAYS
            if is_unfinished or (NAME.fullmatch(place.name) and days > UNUSED_DAYS):
                shutil.rmtree(place, ignore_errors=True)


def name_of(packages: Packages) -> str:
    """Return a readable name with a hash of everything that the environment depends on."""
    this_side = sorted(f"{name}=={version}" for name, version in installed(import_path()).items())
    parts = [LAYOUT, sys.version, sys.prefix, sys.base_prefix, *packages.identity(), *this_side]
    digest = sha256("\0".join(parts).encode()).hexdigest()[:16]
    words = [*packages.requirements, *(Path(path).name for path in packages.checkouts)]
    readable = re.sub(r"[^\w.=]+", "-", without_secrets("+".join(words))).strip("-")
    return f"{readable[:60]}-{digest}"


def interpreter_in(place: Path) -> Path:
    return place / "bin/python"


def make(packages: Packages, place: Path, path: Sequence[str], deadline: float) -> None:
    """Install packages, and what they need of which this side has no version that fits.

    Args:
        packages: what was named.
        place: directory of the environment.
        path: from where this side imports, whose packages come behind those of the environment.
        deadline: by the monotonic clock.

    Raises:
        ClusterError: if there is no uv, or it cannot install them.
    """
    venv.EnvBuilder(symlinks=True).create(place)
    differing = place / "requirements.txt"
    differing.write_text("\n".join(_differing(packages, place, path, deadline)), encoding="utf-8")
    python = f"--python={interpreter_in(place)}"
    _uv(packages, place, deadline, "install", python, "--no-deps", f"-r={differing}")
    own = next(place.rglob("site-packages"))
    sites = [entry for entry in path if is_site(entry)]
    (own / f"{MODULE}.py").write_text(BEHIND.format(sites=sites), encoding="utf-8")
    (own / LAST).write_text(f"import {MODULE}\n", encoding="utf-8")


def installed(path: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the version and source of each package, the source empty if it is an index.

    Of duplicates the first counts, which is the one imported.
    """
    packages: dict[str, tuple[str, str]] = {}
    for package in metadata.distributions(path=list(path)):
        origin = json.loads(package.read_text("direct_url.json") or "{}")
        source = origin.get("url", "") if "dir_info" in origin else ""
        if commit := origin.get("vcs_info"):
            source = f"{commit['vcs']}+{origin['url']}@{commit['commit_id']}"
        # What a broken removal leaves has metadata without a name, and since Python 3.15 none.
        with suppress(FileNotFoundError):
            about: Any = package.metadata or {}
            if name := about.get("Name"):
                packages.setdefault(canonicalize_name(name), (package.version, source))
    return packages


def _differing(packages: Packages, place: Path, path: Sequence[str], deadline: float) -> list[str]:
    """Return what has to be installed, as lines of a requirements file.

    uv keeps the versions that its output file names, if they fit. It knows nothing of checkouts, so
    each one of this side that something needs is tried as a constraint.
    """
    this_side = installed(path)
    for requirement in packages.requirements:
        with suppress(InvalidRequirement):  # a URL without a name
            this_side.pop(canonicalize_name(Requirement(requirement).name), None)
    pins = [f"{name}=={version}" for name, (version, _) in this_side.items()]

    def resolved(constraints: Sequence[str]) -> list[str]:
        files = {"named": packages.lines, "constraints": constraints, "resolved": pins}
        for name, lines in files.items():
            (place / name).write_text("\n".join(lines), encoding="utf-8")
        options = ("--no-header", "--no-annotate", f"--python={sys.executable}", "-c=constraints")
        _uv(packages, place, deadline, "compile", "named", "-o=resolved", *options)
        return (place / "resolved").read_text(encoding="utf-8").splitlines()

    needed = resolved(())
    checkouts: list[str] = []
    for name in [line.partition("==")[0] for line in needed]:
        if source := this_side.get(name, ("", ""))[1]:
            with suppress(ClusterError):  # a dependency excludes its version
                needed = resolved([*checkouts, f"{name} @ {source}"])
                checkouts.append(f"{name} @ {source}")
    return [line for line in needed if line not in {*pins, *checkouts}]


def uv_program() -> str:
    """Return the path of uv.

    Raises:
        ClusterError: if it is not installed.
    """
    try:
        from uv import find_uv_bin

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        if program := shutil.which("uv"):
            return program
    raise ClusterError(
        "schedprof: uv makes environments with other packages, and is not installed here; "
        "pip install 'pytest-schedprof[against]', or name an interpreter that has the packages"
    )


def _uv(packages: Packages, place: Path, deadline: float, *arguments: str) -> None:
    """Run `uv pip` in a directory without settings of a project."""
    command = [uv_program(), "--color=never", "pip", *arguments]
    try:
        status, output = run(command, deadline=deadline, cwd=place)
    except subprocess.TimeoutExpired:
        problem = "was not installed in time; see whether the network answers"
    else:
        if not status:
            return
        problem = f"cannot be installed: {cause_of(output)}"
    raise ClusterError(f"schedprof: {' '.join(packages.lines)!r} {problem}")


def cause_of(output: str) -> str:
    """Return the cause of a failure from the output of uv, in one line."""
    said = output.partition("error: ")[2] or output
    error, *causes = (part.strip() for part in re.split(r"^\s*cause: ", said, flags=re.MULTILINE))
    root = causes[-1] if causes else ""
    if "stderr" in root:  # of a build: its last line tells most
        root = root.splitlines()[-1]
    return ": ".join(" ".join(part.split()) for part in (error, root) if part) or "no reason"


def run(
    command: Sequence[str], *, deadline: float, cwd: Path, more: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a program elsewhere and return its exit status and its output.

    Raises:
        subprocess.TimeoutExpired: if it did not end by the deadline and was killed.
        OSError: if there is no such program, or it cannot run here.
    """
    environ = {**environment_elsewhere(), **(more or {})}
    with tempfile.TemporaryFile() as output:  # children of the program might hold a pipe open
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environ,
            cwd=cwd,
            start_new_session=True,
        )
        try:
            status = process.wait(max(0.0, deadline - time.monotonic()))
        except BaseException:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # its children too
            process.kill()
            process.wait()
            raise
        output.seek(0)
        return status, output.read().decode(errors="replace")


OLDEST_PYTHON = "3.11"
OLDEST_DISTRIBUTED = "2024.8.0"

FORMS = (
    "a Python interpreter, an environment's directory, a requirement such as "
    "distributed==2026.7.0, a source checkout, or settings such as workers=200"
)

COMMAND = re.compile(r"python[\d.]*(\.exe)?")
LOOSE = re.compile(r"\s*([<>=!~]=?=?|@)\s*")
SEPARATOR = re.compile(r"(?:,\s*|\s+)(?![<>=!~])")

MARK = "schedprof: "

QUESTION = """
import json, platform, sys
# The working directory may be a package's checkout.
sys.path[:] = [path for path in sys.path if path]
facts = {"implementation": platform.python_implementation(), "python": platform.python_version()}
try:
    import dask, distributed
    facts["versions"] = {"dask": dask.__version__, "distributed": distributed.__version__}
    import pytest, pytest_schedprof
    facts["tests"] = True
except Exception as error:
    facts["trouble"] = "%s: %s" % (type(error).__name__, str(error).split("\\n")[0])
print("\\nschedprof: " + json.dumps(facts))
"""
"""A program for every version of Python, so that an old one can report its version."""

ASKING_S = 30.0
MOST_WORDS = 80


class Interpreter(Struct, frozen=True):
    """An interpreter that can run a scheduler and its workers."""

    path: Path
    python: str
    """Version of Python."""
    versions: Mapping[str, str]
    """Versions of dask and distributed there."""
    has_plugin: bool
    """Whether it can run pytest with this plugin."""


MAKING_S = 900.0
"""Time limit for making an environment: packages may have to be built."""


def interpreter_for(
    spec: str, cache: Path | None = None, timeout_s: float = MAKING_S
) -> Interpreter:
    """Return the interpreter that a text names, or one with the packages that it names.

    Args:
        spec: an interpreter or its environment's directory; or requirements and source
            checkouts, for which an environment is made.
        cache: directory of cached environments, or None for the user's.
        timeout_s: for making a new environment.

    Raises:
        SettingsError: if it is no interpreter, or none that can run a scheduler.
        ClusterError: if an environment could not be made, or the interpreter does not answer.
    """
    path = read_spec(spec)
    label = repr(str(path))
    if isinstance(path, Packages):
        label = repr(spec.strip())
        path = environment_of(path, cache or default_cache(), time.monotonic() + timeout_s)
    try:
        facts = _facts(path, label)
        python, versions = facts["python"], facts.get("versions")
        if facts["implementation"] != "CPython":
            raise UnfitError(f"is {facts['implementation']}; profilers know CPython alone")
        if Version(python.rstrip("+")) < Version(OLDEST_PYTHON):  # 3.15.0a5+ is later than 3.15.0a5
            raise UnfitError(f"is Python {python}; it must be {OLDEST_PYTHON} or newer")
        if versions is None:
            raise UnfitError(
                f"cannot import distributed ({facts['trouble']}); install it there: "
                f"{path} -m pip install distributed"
            )
        release = Version(versions["distributed"])
        # A checkout without tags has a version of 0.
        if Version(OLDEST_DISTRIBUTED) > release and release.release != (0,):
            raise UnfitError(f"has distributed {release}; it must be {OLDEST_DISTRIBUTED} or newer")
    except UnfitError as error:
        raise SettingsError(f"schedprof: {label} {error}") from None
    return Interpreter(path, python, versions, facts.get("tests", False))


class UnfitError(Exception):
    """Why an interpreter cannot run a scheduler."""


def read_spec(spec: str) -> Path | Packages:
    """Return the path of an existing interpreter, or packages.

    Raises:
        SettingsError: if the text names neither.
    """
    spec = spec.strip()
    if COMMAND.fullmatch(spec) and (command := shutil.which(spec)):
        return _place(command)  # the PATH may have relative directories
    # As a whole: a path may have spaces. `Path.exists` raises an error if the text is too long.
    if _is_path(spec) and os.path.exists(place := _place(spec)):
        if any((place / name).is_file() for name in BUILD_FILES):
            return Packages((), (str(place),))
        path = interpreter_in(place) if place.is_dir() else place
        if path.exists():
            return path
        raise SettingsError(
            f"schedprof: {str(place)!r} is neither an environment (no bin/python in it) nor a "
            f"source checkout (no {' or '.join(BUILD_FILES[:2])}); give {FORMS}"
        )
    words = [word for word in SEPARATOR.split(LOOSE.sub(r"\1", spec)) if word]
    if not words:
        raise SettingsError(f"schedprof: nothing was named to compare with; give {FORMS}")
    requirements = tuple(word for word in words if not _is_path(word))
    checkouts = tuple(str(_place(word)) for word in words if _is_path(word))
    for checkout in checkouts:  # all else uv checks
        if not os.path.exists(checkout):
            raise SettingsError(f"schedprof: there is nothing at {checkout!r}; give {FORMS}")
    return Packages(requirements, checkouts)


def _is_path(text: str) -> bool:
    """Return whether uv takes it for a path: `./distributed` is one, `distributed` is not."""
    return "://" not in text and (text[:1] in (".", "~") or os.sep in text)


def _place(text: str) -> Path:
    """Make a path absolute without following links: an environment's interpreter is a link."""
    return Path(os.path.abspath(os.path.expanduser(text)))


def _facts(path: Path, label: str) -> dict[str, Any]:
    """Return what an interpreter says of itself."""
    if not path.exists():
        raise SettingsError(f"schedprof: there is no interpreter at {str(path)!r}; give {FORMS}")
    try:
        deadline = time.monotonic() + ASKING_S
        _, output = run([str(path), "-c", QUESTION], deadline=deadline, cwd=path.parent)
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"schedprof: {label} did not say within {ASKING_S:g} s which Python it is"
        ) from None
    except OSError as error:
        raise UnfitError(f"is no Python ({error.strerror}); give {FORMS}") from None
    answers = [line for line in output.splitlines() if line.startswith(MARK)]
    try:
        facts: dict[str, Any] = json.loads(answers[-1].removeprefix(MARK))
    except (IndexError, ValueError):
        words = (output.strip().splitlines() or ["nothing"])[-1][:MOST_WORDS]
        raise UnfitError(f"is no Python (it said {words!r}); give {FORMS}") from None
    return facts
