"""Compare two measurements of one test: which figures changed, and how certain that is.

docs/statistics.md describes the method, with its sources.
"""
