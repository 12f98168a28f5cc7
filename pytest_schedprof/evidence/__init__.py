"""Evidence of a test from dask's own instruments, and the one list of its built-in kinds.

The settings import this module at every start of pytest, so it imports nothing.
"""

KINDS = {
    "span": "pytest_schedprof.evidence.span:SpanKind",
    "report": "pytest_schedprof.evidence.report:ReportKind",
    "memory": "pytest_schedprof.evidence.memory:MemoryKind",
    "tasks": "pytest_schedprof.evidence.tasks:TasksKind",
    "transfers": "pytest_schedprof.evidence.transfers:TransfersKind",
    "workers": "pytest_schedprof.evidence.workers:WorkersKind",
    "local": "pytest_schedprof.evidence.local:LocalKind",
    "phases": "pytest_schedprof.evidence.phases:PhasesKind",
}
"""The name of each kind and where its class is, in the order in which `all` takes them."""

ALL = "all"
"""Stands for every kind, installed ones included."""
