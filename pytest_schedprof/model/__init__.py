"""Frozen data that the rooms hand to each other. Pure: no pytest, no distributed."""
