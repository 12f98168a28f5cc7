"""Modules that a session of pytest imports for the plugin although it does not use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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

PROGRAM = """
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
    command = [sys.executable, "-c", PROGRAM, *options]
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    output = subprocess.check_output(command, cwd=directory, env=environment, text=True)
    return set(output.splitlines()[-1].split()[1:])


@pytest.mark.parametrize("more", [(), ("--collect-only",)])
def test_unused_session_imports_only_these_modules(tmp_path: Path, more: tuple[str, ...]) -> None:
    bare = modules_of(tmp_path, TESTS["unused"], *more)
    plugin = ("-p", "pytest_schedprof.plugin.hooks")
    assert modules_of(tmp_path, TESTS["unused"], *plugin, *more) - bare == OURS
    assert not (tmp_path / ".schedprof").exists()


@pytest.mark.parametrize(
    ("test", "argument"), [("marked", "-v"), ("unused", "--schedprof-rate=50")]
)
def test_settings_are_read_when_needed(tmp_path: Path, test: str, argument: str) -> None:
    used = modules_of(tmp_path, TESTS[test], "-p", "pytest_schedprof.plugin.hooks", argument)
    assert "pytest_schedprof.measuring.settings" in used
