"""Hollow workers: a scheduler takes them for real ones, and they compute and transfer nothing."""
