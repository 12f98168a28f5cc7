"""Remarks about a run for the lines of a pull request, before and after their places are known."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that got worse, or may have: in a function if it is known, else in a test."""

    verdict: Verdict
    """What comes of it: a failure, or a doubt."""
    test_id: str
    text: str
    function: Function = ""
    file: str = ""
    """File of the function as the scheduler had loaded it; empty if it is not known."""
    first: int = 0
    """Lines of that file; 0 if they are not known."""
    last: int = 0


@dataclass(frozen=True, slots=True)
class Annotation:
    """A remark at lines of a file in the checkout."""

    remark: Remark
    file: str
    """Path below the root of the checkout."""
    first: int
    last: int
