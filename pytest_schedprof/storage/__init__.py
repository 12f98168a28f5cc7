"""Storage of results: directories of runs, records, baselines and histories. Knows no pytest."""
