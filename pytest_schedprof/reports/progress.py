"""How far a test is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """As it is told of one of its runs."""

    done: int
    """Runs of the body that have ended, over all sides."""
    runs: int
    """How many there will be; 0 of a test in turns, which runs until it is decided."""
    tasks: int
    elapsed_s: float
    budget_s: float
    """Of a test in turns."""
    lasts_s: float = 0.0
    """How long the run at hand has lasted."""


def progress_text(progress: Progress) -> str:
    """One line, about the run at hand; empty where there is nothing to tell."""
    if progress.runs == 1:
        return f"schedprof: recording for {progress.lasts_s:.0f} s" if progress.lasts_s else ""
    run, seconds = progress.done + 1, progress.elapsed_s
    if not progress.runs:
        words = [f"run {run}", f"{seconds:.0f} s of at most {progress.budget_s:.0f} s"]
    else:
        words = [f"run {run} of {progress.runs}"]
        if progress.done:
            left = seconds / progress.done * (progress.runs - progress.done) - progress.lasts_s
            words.append(f"about {max(left, 0):.0f} s left")
    words.append(f"{progress.tasks:,} tasks done")
    if progress.lasts_s:
        words.append(f"this one takes {progress.lasts_s:.0f} s so far")
    return f"schedprof: {', '.join(words)}"
