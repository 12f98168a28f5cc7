"""Two measurements of one test compared: what rose, what fell, and how sure that is.

The method, with its sources, is in docs/statistics.md.
"""
