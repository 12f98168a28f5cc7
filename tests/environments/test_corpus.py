"""Tests of reversing the patches of `benchmarks/backtest.py`: good and bad never change places."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

PLACE = Path(__file__).parents[2] / "benchmarks"

BAD, GOOD = "def f():\n    return sorted(range(9))\n", "def f():\n    return range(9)\n"

PATCH = """\
Release: 2025.4.0
diff --git a/distributed/one.py b/distributed/one.py
--- a/distributed/one.py
+++ b/distributed/one.py
@@ -1,2 +1,2 @@
 def f():
-    return sorted(range(9))
+    return range(9)
"""

pytestmark = pytest.mark.skipif(not shutil.which("patch"), reason="there is no program `patch`")


@pytest.fixture
def corpus(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark's module, whose directory has modules with names of others."""
    monkeypatch.syspath_prepend(PLACE)
    yield importlib.import_module("corpus")
    del sys.modules["corpus"]


def test_a_patch_is_reversed_once_and_never_applied_forwards(corpus: Any, tmp_path: Path) -> None:
    (tmp_path / "1a2b3c.patch").write_text(PATCH)
    (patch,) = corpus.read_corpus([tmp_path])
    file = tmp_path / "site" / "distributed" / "one.py"
    file.parent.mkdir(parents=True)
    file.write_text(GOOD)
    corpus.reverse(patch, tmp_path / "site")
    assert file.read_text() == BAD
    with pytest.raises(corpus.PatchError, match=r"does not reverse in 2025\.4\.0"):
        corpus.reverse(patch, tmp_path / "site")
    assert file.read_text() == BAD
    assert [path.name for path in file.parent.iterdir()] == ["one.py"]
