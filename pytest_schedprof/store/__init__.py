"""The directory of a run, its records, baselines and histories, on a local path or at a URL."""
