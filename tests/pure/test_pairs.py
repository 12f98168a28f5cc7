"""Tests of the picture of bandwidth between pairs of workers."""

from __future__ import annotations

from xml.etree import ElementTree

from pytest_schedprof.evidence.transfers import MOST, Moved, draw_pairs

SVG = "{http://www.w3.org/2000/svg}"


def titles(picture: bytes) -> list[str]:
    return [str(title.text) for title in ElementTree.fromstring(picture).iter(f"{SVG}title")]


def test_a_pair_has_its_bandwidth_and_the_faster_one_is_darker() -> None:
    pairs = {("a", "<b>"): Moved(4_000_000, 2.0, 3), ("<b>", "a"): Moved(80_000_000, 1.0, 1)}
    picture = draw_pairs(pairs)
    assert titles(picture) == [
        "<b> to a: 80 MB/s, 80000000 bytes in 1 transfers",
        "a to <b>: 2 MB/s, 4000000 bytes in 3 transfers",
    ]
    fast, slow = (
        str(bar.get("fill"))
        for bar in ElementTree.fromstring(picture).iter(f"{SVG}rect")
        if bar.get("fill") != "white"
    )
    assert fast < slow


def test_of_many_workers_those_are_drawn_that_moved_most() -> None:
    pairs = {(f"w{n:03}", "hub"): Moved(1000 + n, 1.0, 1) for n in range(2 * MOST)}
    drawn = titles(draw_pairs(pairs))
    assert len(drawn) == MOST - 1
    assert drawn[-1].startswith(f"w{2 * MOST - 1:03} to hub")


def test_transfers_that_took_no_time_have_no_bandwidth() -> None:
    assert titles(draw_pairs({("a", "b"): Moved(5, 0.0, 1)}))[0].startswith("a to b: 0 MB/s")
