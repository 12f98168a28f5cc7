"""A cluster in virtual time: the real scheduler, hollow workers, and one clock for both.

Scheduler and workers live in one process (`node`), whose event loop (`loop`) skips the time in
which nothing happens. In the test's process the `conductor` lets clients run only while the test
waits for them. Both processes run in turns (`Turns` in `loop`), so no message is on its way while
the clock moves.
"""
