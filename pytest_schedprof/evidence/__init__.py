"""Evidence of a test from dask's own instruments, and the one list of its built-in kinds.

The settings import this module at every start of pytest, so it imports nothing.
"""

KINDS = ("span", "report", "memory", "tasks", "transfers", "workers", "local", "phases")
"""The names of the kinds, in the order in which `all` takes them: each has a module of its name."""

ALL = "all"
"""Stands for every kind, installed ones included."""
