"""One file for each backend; beside them their contract and their registry."""
