"""The built-in backends. A module of this package is a backend of its name: its `BACKEND`."""
