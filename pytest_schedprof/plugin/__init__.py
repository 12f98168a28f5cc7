"""The pytest plugin: hooks, fixtures, and everything else that imports pytest."""
