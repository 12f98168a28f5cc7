"""Code that runs inside the scheduler's process; it travels there as source.

Modules import each other relatively, for there the package has another name.

Imports only the standard library and what a scheduler surely has. Nothing here may block
the event loop for long, or stay behind after the last call but as an imported module.
"""
