"""Code that runs inside the scheduler's process; it travels there by value.

Imports only the standard library and what a scheduler surely has. Nothing here may block
the event loop for long or stay behind after the last call.
"""
