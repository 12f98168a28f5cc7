"""Names and trees of pages, of samples that are written down."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from html import unescape
from importlib.resources import files

from pytest_schedprof.analysis.owners import owner_of
from pytest_schedprof.gates.limits import LIMITABLE_OWNERS
from pytest_schedprof.model.profile import SampleProfile, Stack, Thread
from pytest_schedprof.pages.naming import Names
from pytest_schedprof.pages.rendering import as_json, breakable
from pytest_schedprof.pages.tree import busy_stacks, call_tree

TRANSITION = "distributed.scheduler:SchedulerState._transition"
LOOP = "asyncio.base_events:BaseEventLoop._run_once"
WRITE = "distributed.comm.tcp:TCP.write"


def test_functions_are_named_as_the_record_has_them_wherever_the_code_lies() -> None:
    names = Names([TRANSITION, "distributed.core:Server.handle_comm", "tlz.dicttoolz:merge"])
    found = names(
        [
            ("/home/me/distributed/distributed/scheduler.py", "SchedulerState._transition", 1),
            ("/home/me/distributed/distributed/scheduler.py", "_transition", 1),  # Python 3.10
            ("C:\\env\\Lib\\site-packages\\distributed\\core.py", "Server.handle_comm", 1),
            ("/env/lib/python3.11/site-packages/toolz/dicttoolz.py", "merge", 1),
            ("/home/me/distributed/distributed/profile.py", "process", 1),
            ("/usr/lib/python3.11/selectors.py", "EpollSelector.select", 1),
            ("<frozen importlib._bootstrap>", "_find_and_load", 1),
            ("/somewhere/package/__init__.py", "f", 1),
            ("<string>", "<module>", 1),
        ]
    )
    assert found == [
        TRANSITION,
        TRANSITION,
        "distributed.core:Server.handle_comm",
        "tlz.dicttoolz:merge",  # loaded by another module's name
        "distributed.profile:process",  # beside what the record has
        "selectors:EpollSelector.select",
        "importlib._bootstrap:_find_and_load",
        "package:f",
        "<string>:<module>",
    ]


def profile(*samples: Stack) -> SampleProfile:
    stacks = tuple(dict.fromkeys(samples))
    return SampleProfile(
        "cputime", "", stacks, (Thread("", array("q", map(stacks.index, samples))),)
    )


def test_a_tree_holds_busy_samples_and_the_collector_apart() -> None:
    idle = (LOOP, "selectors:EpollSelector.select")
    collecting = (LOOP, TRANSITION, "distributed.gc:GCDiagnosis._gc_callback")
    found = busy_stacks(
        [profile((LOOP,), (LOOP, TRANSITION), (LOOP, TRANSITION), idle, collecting)]
    )
    assert found == {(LOOP,): 1, (LOOP, TRANSITION): 2, collecting[2:]: 1}
    tree = call_tree(found)
    assert [tree.functions[name] for name in tree.names] == [LOOP, TRANSITION, collecting[2]]
    assert (tree.depths, tree.own, tree.before) == ((0, 1, 0), (1, 2, 1), ())


def test_a_tree_of_two_sides_has_what_only_one_of_them_has() -> None:
    tree = call_tree(Counter({(LOOP, TRANSITION): 3}), Counter({(LOOP, WRITE): 5}))
    assert [tree.functions[name] for name in tree.names] == [LOOP, WRITE, TRANSITION]
    assert (tree.own, tree.before) == ((0, 0, 3), (0, 5, 0))


def test_stacks_may_be_deeper_than_pythons_own() -> None:
    assert call_tree({("a:f",) * 5000: 1}).depths == tuple(range(5000))


def test_every_owner_has_a_colour() -> None:
    style = (files("pytest_schedprof.pages") / "assets" / "owners.css").read_text()
    assert {*LIMITABLE_OWNERS, owner_of("numpy:f")} <= set(re.findall(r"--o-([\w-]+):", style))


def test_names_can_neither_end_their_element_nor_hide() -> None:
    text = "</script><!--\u2028\u2029'\"&"
    content = as_json([text])
    assert not set("<>&\u2028\u2029'") & set(content)
    shown = breakable(f"a.b::{text}[x_y]")
    assert "<script" not in shown
    assert unescape(shown.replace("<wbr>", "")) == f"a.b::{text}[x_y]"
