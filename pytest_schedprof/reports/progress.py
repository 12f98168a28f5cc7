"""How far a test is that runs several times."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """Between two of its runs."""

    done: int
    """Runs of the body that have ended, over all sides."""
    runs: int
    """How many there will be; 0 of a test in turns, which runs until it is decided."""
    tasks: int
    elapsed_s: float
    budget_s: float
    """Of a test in turns."""


def progress_text(progress: Progress) -> str:
    """One line, about the run that begins."""
    run, seconds = progress.done + 1, progress.elapsed_s
    if not progress.runs:
        words = [f"run {run}", f"{seconds:.0f} s of at most {progress.budget_s:.0f} s"]
    else:
        words = [f"run {run} of {progress.runs}"]
        if progress.done:
            left = seconds / progress.done * (progress.runs - progress.done)
            words.append(f"about {left:.0f} s left")
    words.append(f"{progress.tasks:,} tasks done")
    return f"schedprof: {', '.join(words)}"
