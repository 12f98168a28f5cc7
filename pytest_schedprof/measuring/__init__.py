"""Measuring one test: plan, run, record, judge. `profiling.py` describes the path."""
