"""Shares, costs, limits, comparisons, change points and explanations. Pure."""
