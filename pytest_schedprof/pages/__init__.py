"""Pages of a run, made of nothing but its directory: no scheduler, no network."""
