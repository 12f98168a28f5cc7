"""The interface of backends, their registry, and what the built-in ones have in common."""
