"""Where results are kept: names, files, records. Knows no pytest."""
