"""Finding the commit or release of a regression: versions are measured until one is left."""
