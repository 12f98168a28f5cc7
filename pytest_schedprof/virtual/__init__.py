"""A cluster in virtual time: the real scheduler, hollow workers, and one clock for both.

Scheduler and workers live in one process (`node`), whose event loop (`loop`) skips the time in
which nothing happens. The test's process has the `conductor`, which lets its clients run only while
the test waits for them. Both hand each other the turn (`turns`), so no message is ever on its way
while the clock moves.
"""
