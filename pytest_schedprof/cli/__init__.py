"""The command `schedprof`: one file for each of its commands."""
