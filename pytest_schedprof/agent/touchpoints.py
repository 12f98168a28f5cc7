"""Every name of dask, tornado and Python that is used though it is private, or known by heart.

Whoever changes one of them in dask finds here what breaks in this package. The test
`tests/backends/test_touchpoints.py` looks each of them up in the installed release, and finds those
that are used but not listed. The patterns by which samples have owners are in `judge/owners.py`,
where the same test looks them up.

A name is `module:qualname`. Names with a bar between them are those of several releases: each
release has one of them.
"""

from __future__ import annotations

from typing import NamedTuple


class Touchpoint(NamedTuple):
    """Names that are used for one purpose."""

    used_by: str
    """File of this package."""
    breaks: str
    """What is wrong if one of the names goes, changes its meaning, or is called by another way."""
    names: tuple[str, ...]


TOUCHPOINTS = (
    # Which schedulers, clients and workers are in a process
    Touchpoint(
        "agent/traffic.py",
        "messages and bytes are not counted: no connection is the scheduler's",
        (
            "distributed.scheduler:Scheduler._instances",
            "distributed.scheduler:Scheduler._comms",
        ),
    ),
    Touchpoint(
        "clusters/in_process.py, control/control.py, evidence/in_process.py, agent/counts.py",
        "a test without the fixture: its scheduler, clients and workers are not found",
        (
            "distributed.scheduler:Scheduler._instances",
            "distributed.client:Client._instances",
            "distributed.worker:Worker._instances",
        ),
    ),
    Touchpoint(
        "clusters/in_process.py, agent/facts.py",
        "the number of tasks, by which all costs are divided, lacks those before a restart",
        (
            "distributed.scheduler:Scheduler._clear_task_state",
            "distributed.client:Client._start",
        ),
    ),
    # The line to the scheduler
    Touchpoint(
        "control/control.py",
        "the recorder's connection hangs, or connects again, when the scheduler is gone",
        (
            "distributed.client:Client._ensure_connected",
            "distributed.client:Client._reconnect",
        ),
    ),
    Touchpoint(
        "control/control.py",
        "the agent cannot be called on workers",
        ("distributed.client:Client._run",),
    ),
    Touchpoint(
        "control/reachability.py",
        "an address is not tried out before it is used: errors name no reason",
        (
            "distributed.client:_maybe_call_security_loader",
            "distributed.client:Future._result",
        ),
    ),
    # What is wrapped or looked for on the scheduler
    Touchpoint(
        "agent/patches.py",
        "viztracer's trace_sparse and log_sparse miss transitions, which are called by this table",
        ("distributed.scheduler:SchedulerState._TRANSITIONS_TABLE",),
    ),
    Touchpoint(
        "agent/stalls.py",
        "stalls: a callback of tornado has the name of tornado's runner",
        ("tornado.ioloop:IOLoop._run_callback",),
    ),
    Touchpoint(
        "agent/choice.py",
        "counts: what is offloaded to another thread is not counted",
        ("distributed.utils:_offload_executor",),
    ),
    Touchpoint(
        "agent/counts.py",
        "counts: what runs by the clock counts too, so two runs of a test differ",
        (
            "distributed.active_memory_manager:ActiveMemoryManagerExtension.run_once",
            "distributed.scheduler:Scheduler._check_no_workers",
            "distributed.scheduler:Scheduler.check_idle",
            "distributed.scheduler:Scheduler.check_worker_ttl",
            "distributed.scheduler:Scheduler.client_heartbeat",
            "distributed.scheduler:Scheduler.heartbeat_worker",
            "distributed.scheduler:Scheduler.identity",
            "distributed.semaphore:SemaphoreExtension._check_lease_timeout",
            "distributed.stealing:WorkStealing.balance",
            "distributed.client:as_completed.__next__",
            "distributed.client:as_completed.__anext__",
        ),
    ),
    Touchpoint(
        "agent/counts.py",
        "counts: nobody notices that another tool took the interpreter's hook meanwhile",
        ("distributed.scheduler:SchedulerState._transition",),
    ),
    Touchpoint(
        "judge/figures.py",
        "comparisons report calls and bytecodes that differ between runs of the same code",
        (
            "distributed.scheduler:SchedulerState._transition_processing_memory",
            "distributed.scheduler:TaskGroup.add_duration",
            "distributed.scheduler:TaskPrefix.add_duration",
        ),
    ),
    # Recording and replaying work
    Touchpoint(
        "replay/recorder.py",
        "a recorder costs more: the scheduler calls it at each transition while it unpacks graphs",
        ("distributed.scheduler:Scheduler._create_taskstate_from_graph",),
    ),
    Touchpoint(
        "replay/acting.py",
        "a replay does not see when tasks end",
        ("distributed.client:Future._state",),
    ),
    # dask's own instruments
    Touchpoint(
        "evidence/phases.py",
        "the client's CPU time of a phase is counted as that of another, or as none",
        (
            "distributed.client:collections_to_expr | distributed.client:Client.collections_to_dsk",
            "dask._expr:Expr.optimize | distributed.client:Client.collections_to_dsk",
            "distributed.client:serialize | distributed.protocol:serialize",
            "distributed.protocol:loads",
        ),
    ),
    Touchpoint(
        "evidence/local.py",
        "evidence of local schedulers: dask's profilers cannot be read",
        (
            "dask.diagnostics.profile:ResourceProfiler._dt",
            "dask.diagnostics.profile:CacheProfiler._metric_name",
        ),
    ),
    # Clusters in virtual time
    Touchpoint(
        "virtual/patches.py, virtual/conductor.py, virtual/loop.py, virtual/node.py",
        "a test on a cluster in virtual time waits in real time, or for ever",
        (
            "distributed.client:Client._ensure_connected",
            "distributed.client:Client._gather",
            "distributed.client:Client._periodic_callbacks",
            "distributed.client:Client._scatter",
            "distributed.client:Client._start_arg",
            "distributed.client:Client._timeout",
            "tornado.ioloop:PeriodicCallback._timeout",
            "distributed.client:sync",
            "distributed.utils:sync",
            "distributed.utils:LoopRunner._start_unlocked",
            "distributed.utils:_offload_executor",
        ),
    ),
    Touchpoint(
        "virtual/blocked.py",
        "a test in virtual time waits for ever if functions wait for a thread of a pool",
        (
            "asyncio.base_events:BaseEventLoop._default_executor",
            "concurrent.futures.thread:ThreadPoolExecutor._max_workers",
        ),
    ),
    Touchpoint(
        "virtual/server.py, virtual/node.py",
        "a cluster in virtual time cannot start",
        (
            "distributed.core:Server._address",
            "distributed.core:Server._comms",
            "distributed.comm.inproc:InProcListener._handle_stream",
            "distributed.comm.inproc:Manager._ip",
        ),
    ),
    Touchpoint(
        "virtual/hollow_worker.py",
        "a coroutine cannot be run on hollow workers without waiting for it",
        ("distributed.core:Server._ongoing_background_tasks",),
    ),
    Touchpoint(
        "virtual/node.py",
        "hollow workers cannot be made, or take several times as long for an event",
        (
            "distributed.worker_state_machine:StateMachineEvent._classes",
            "distributed.worker_state_machine:TaskState._instances",
            "distributed.worker_state_machine:WorkerState._handle_event",
        ),
    ),
    Touchpoint(
        "virtual/choices.py",
        "decisions: the states of the workers that were not chosen are missing",
        (
            "distributed.scheduler:SchedulerState._calc_occupancy",
            "distributed.scheduler:WorkerState._network_occ",
        ),
    ),
    Touchpoint(
        "virtual/orders.py",
        "graphs keep the order of the sets in the test's process: sessions decide in other ways",
        (
            "distributed.scheduler:_materialize_graph",
            "dask._task_spec:GraphNode._dependencies | "
            "distributed.client:Client.collections_to_dsk",
        ),
    ),
    Touchpoint(
        "virtual/shuffles.py",
        "tasks of shuffles cannot run on hollow workers",
        ("distributed.shuffle:_core",),
    ),
    Touchpoint(
        "virtual/stories.py",
        "an error in a state machine ends no run in virtual time",
        ("distributed.scheduler:SchedulerState._transition",),
    ),
    # Tests that make their own clusters, in virtual time
    Touchpoint(
        "virtual/races.py",
        "a test that fails under a seed cannot wait before the line that fails",
        (
            "asyncio:_get_running_loop",
            "asyncio.tasks:_enter_task",
            "asyncio.tasks:_leave_task",
            "asyncio.base_events:BaseEventLoop._run_once",
        ),
    ),
    Touchpoint(
        "virtual/calm.py",
        "messages of a test pass through real sockets, which take no turns: it hangs",
        ("tornado.netutil:socket", "tornado.tcpclient:socket"),
    ),
    Touchpoint(
        "virtual/calm.py, virtual/sameness.py",
        "runs differ: sets have the order of addresses, sizes are drawn, names and numbers go on "
        "from test to test, and work that is offloaded takes no turns",
        (
            "distributed.active_memory_manager:ActiveMemoryManagerPolicy.__hash__",
            "distributed.client:Client.__hash__",
            "distributed.comm.core:Comm.__hash__",
            "distributed.core:ConnectionPool.__hash__",
            "distributed.core:Server.__hash__",
            "distributed.core:rpc.__hash__",
            "distributed.scheduler:TaskGroup.__hash__",
            "distributed.worker_state_machine:TaskState.__hash__",
            "dask.sizeof:random",
            "distributed.diskutils:WorkDir",
            "distributed.client:Future._uid",
            "distributed.client:Future._counter",
            "distributed.scheduler:TaskState._run_id_iterator",
            "distributed.utils_comm:_round_robin_counter",
            "distributed.comm.inproc:global_manager",
            "distributed.comm.inproc:os",
            "distributed.utils:_offload_executor",
        ),
    ),
    Touchpoint(
        "agent/counts.py",
        "counts differ by what an earlier test has imported, logged, or left open",
        (
            "cloudpickle.cloudpickle:_find_imported_submodules",
            "distributed.client:Client.__del__",
            "distributed.comm.tcp:TCP._get_finalizer",
            "distributed.utils:DequeHandler.clear",
            "distributed.utils:DequeHandler.clear_all_instances",
            "distributed.utils:DequeHandler.emit",
            "distributed.utils:_getmodulename_with_path",
        ),
    ),
    Touchpoint(
        "virtual/sameness.py",
        "counts differ by what an earlier test has filled",
        (
            "cloudpickle.cloudpickle:_extract_code_globals_cache",
            "dask._expr:Expr | distributed.client:Client.collections_to_dsk",
            "dask.utils:Dispatch._lazy",
            "dask.utils:Dispatch._lookup",
            "tornado.ioloop:IOLoop._ioloop_for_asyncio",
        ),
    ),
    Touchpoint(
        "virtual/sameness.py",
        "runs differ: names of files and random numbers go on from test to test",
        ("dask.array.random:_cached_states", "random:_urandom", "tempfile:_name_sequence"),
    ),
    Touchpoint(
        "virtual/threads.py",
        "threads of a test take no turns: it hangs, or its runs differ",
        (
            "concurrent.futures.thread:_global_shutdown_lock",
            "queue:_PySimpleQueue",
            "threading:Thread._bootstrap",
            "threading:_CRLock",
            "threading:_active_limbo_lock",
            "threading:_allocate_lock",
        ),
    ),
    Touchpoint(
        "virtual/calm.py",
        "a failure under a seed tells of ports, in place of scheduler, workers and clients",
        (
            "distributed.client:Client._instances",
            "distributed.scheduler:Scheduler._instances",
            "distributed.worker:Worker._instances",
        ),
    ),
    Touchpoint(
        "virtual/calm.py",
        "a test whose workers are processes hangs, instead of running as an ordinary one",
        ("distributed.nanny:Nanny.__init__",),
    ),
    # What is told apart when two runs are compared
    Touchpoint(
        "model/profile.py",
        "a table of dask that an earlier test filled counts as a regression",
        ("dask.utils:Dispatch.dispatch",),
    ),
)
