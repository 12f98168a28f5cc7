"""Code that runs inside the scheduler's process, where it is sent as source.

Modules import each other relatively, because the package has another name there.

They import only the standard library and packages that every scheduler has. They must not block
the event loop for long, and after the last call nothing of them may remain but imported modules.
"""
