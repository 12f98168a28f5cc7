"""Interpreters for the other side of a comparison, found or made."""
