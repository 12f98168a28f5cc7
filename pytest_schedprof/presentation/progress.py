"""The line that says how far a test is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a test during one of its runs."""

    done: int
    """Finished runs of the body, on all sides together."""
    runs: int
    """Planned runs of the body; 0 for a test in turns, which runs until it is decided."""
    tasks: int
    elapsed_s: float
    budget_s: float
    """Seconds that a test in turns may take."""
    lasts_s: float = 0.0
    """Seconds since the current run began."""


def progress_text(progress: Progress) -> str:
    """Return a line about the current run; empty if there is nothing to say."""
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
        words.append(f"this run has taken {progress.lasts_s:.0f} s so far")
    return f"schedprof: {', '.join(words)}"
