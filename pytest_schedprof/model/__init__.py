"""Frozen data that is passed between the rooms. Pure: no pytest, no distributed."""
