"""Hollow workers: they look real to a scheduler, but compute and transfer nothing."""
