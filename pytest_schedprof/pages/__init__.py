"""HTML pages of a run, made from its directory alone: without a scheduler or network."""
