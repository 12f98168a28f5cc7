"""The search for the commit or release of a regression: what to measure next, and why."""
