"""Tests of a scheduler of which Cython compiled a module: it is told apart."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import distributed
import pytest
from support import Project

STORY = """
@pytest.mark.schedprof
def test_story(schedprof_scheduler):
    def tell(dask_scheduler):
        return dask_scheduler.story("a key")

    assert schedprof_scheduler.client.run_on_scheduler(tell) == []
"""

OPTIONS = ("--schedprof=counts", "--schedprof-cluster=simulated", "--schedprof-workers=1")

NOTE = "note: compiled in the scheduler: distributed._stories; the functions of a compiled module *"


def compile_with_cython(module: Path) -> None:
    """Compile a module in its place, as a package built by Cython has it."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        if "CI" in os.environ:
            pytest.fail(f"there is no compiler {compiler}")
        pytest.skip(f"there is no compiler {compiler}")
    command = [sys.executable, "-m", "Cython.Build.Cythonize", "-3", "--inplace", str(module)]
    environ = {**os.environ, "CFLAGS": "-O0"}
    subprocess.run(command, check=True, env=environ, cwd=module.parents[1], capture_output=True)
    module.unlink()


@pytest.mark.slow
def test_a_compiled_module_is_told_and_its_functions_are_missing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = project.path / "built" / "distributed"
    shutil.copytree(
        Path(distributed.__file__).parent, copy, ignore=shutil.ignore_patterns("tests", "*.pyc")
    )
    compile_with_cython(copy / "_stories.py")
    monkeypatch.setenv("PYTHONPATH", str(copy.parent))
    project.is_apart = True
    result = project.run_test(STORY, *OPTIONS)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([NOTE])
    kept = project.result()
    assert kept.environment is not None
    assert kept.environment.compiled == ("distributed._stories",)
    costs = kept.backends[0].costs
    assert costs is not None
    seen = {figure.function for figure in costs.functions}
    assert any(name.endswith(".story") for name in seen), seen
    assert not any(name.startswith("distributed._stories:") for name in seen)
