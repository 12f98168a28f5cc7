"""Tests of pictures of samples, which other tools or a parser read back."""

from __future__ import annotations

from array import array
from xml.etree import ElementTree

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_schedprof.backends.pyspy import PySpyBackend
from pytest_schedprof.backends.sampling import WRITERS
from pytest_schedprof.formats.pictures import WIDTH, frame_spans, write_flamegraph, write_raw
from pytest_schedprof.formats.speedscope import Frame, Samples, SpeedscopeFile

FILE = SpeedscopeFile(
    frames=[
        Frame("run", "a.py", 1),
        Frame("Class.work;fast", "a b.py", 300),
        Frame("Class.work;fast", "a b.py", 301),
        Frame("<lambda>"),
    ],
    stacks=[(0, 1), (0, 2), (0, 1, 3)],
    threads=[
        Samples("event loop", array("q", [0, 1, 0, 2, 0]), empty=0, seconds=0.01),
        Samples("other", array("q", [2]), empty=1, seconds=0.01),
    ],
)


def test_raw_has_a_line_for_each_line_of_code_whatever_its_thread() -> None:
    assert write_raw(FILE).decode().splitlines() == [
        "run (a.py:1);Class.work:fast (a b.py:300) 3",
        "run (a.py:1);Class.work:fast (a b.py:300);<lambda> 2",
        "run (a.py:1);Class.work:fast (a b.py:301) 1",
    ]


SVG = "{http://www.w3.org/2000/svg}"

STACKS = st.lists(st.lists(st.sampled_from("abc"), max_size=5), max_size=30)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@st.composite
def files(draw: st.DrawFn) -> SpeedscopeFile:
    """Any file that the reader can return, with names that Python itself would not produce."""
    frames = draw(st.lists(st.builds(Frame, TEXTS, st.none() | TEXTS), min_size=1, max_size=6))
    frame = st.integers(0, len(frames) - 1)
    stacks = draw(st.lists(st.lists(frame, min_size=1, max_size=6).map(tuple), min_size=1))
    orders = st.lists(st.integers(0, len(stacks) - 1), max_size=40)
    threads = draw(st.lists(orders, max_size=3))
    samples = [Samples(f"t{n}", array("q", order), 0, 0.003) for n, order in enumerate(threads)]
    return SpeedscopeFile(frames, stacks, samples)


def file_of(*stacks: str, seconds: float = 0.01) -> SpeedscopeFile:
    """A file with one thread; each letter of a stack is a function."""
    distinct = list(dict.fromkeys(stacks))
    letters = sorted(set("".join(stacks)))
    return SpeedscopeFile(
        [Frame(letter, f"{letter}.py", 1) for letter in letters],
        [tuple(letters.index(letter) for letter in stack) for stack in distinct],
        [Samples("loop", array("q", map(distinct.index, stacks)), 0, seconds)],
    )


@given(STACKS)
def test_spans_tell_which_stack_there_was_at_any_moment(stacks: list[list[str]]) -> None:
    spans = list(frame_spans((stack, 1) for stack in stacks))
    for moment, stack in enumerate(stacks):
        there = [span for span in spans if span.start <= moment < span.end]
        assert [s.label for s in sorted(there, key=lambda span: span.depth)] == stack


def boxes_of(file: SpeedscopeFile) -> dict[str, ElementTree.Element]:
    """Boxes of a flame graph, by the text of their titles."""
    groups = ElementTree.fromstring(write_flamegraph(file)).findall(f"{SVG}g")
    return {str(group.findtext(f"{SVG}title")): group[1] for group in groups}


def test_flame_graph_gives_each_frame_its_part_wherever_it_was_sampled() -> None:
    boxes = boxes_of(file_of("ab", "d", "ab", "ac"))
    assert list(boxes) == [
        "all: 4 samples, 100.0%",
        "loop: 4 samples, 100.0%",
        "a (a.py): 3 samples, 75.0%",
        "d (d.py): 1 samples, 25.0%",
        "b (b.py): 2 samples, 50.0%",
        "c (c.py): 1 samples, 25.0%",
    ]
    assert float(boxes["a (a.py): 3 samples, 75.0%"].get("width", 0)) == WIDTH * 0.75


@settings(max_examples=25)
@given(files())
@example(SpeedscopeFile([Frame("<script>&amp;")], [(0,)], [Samples("t", array("q", [0]), 0)]))
def test_flame_graph_is_xml_and_fits_its_page(file: SpeedscopeFile) -> None:
    root = ElementTree.fromstring(write_flamegraph(file))
    for box in root.iter(f"{SVG}rect"):
        x, y, width, height = (float(box.get(name, -1)) for name in ("x", "y", "width", "height"))
        assert x >= 0
        assert x + width <= WIDTH + 0.02
        assert y >= 0
        assert y + height <= float(root.get("height", 0))
    assert {element.tag for element in root.iter()} <= {
        SVG + tag for tag in ("svg", "style", "g", "title", "rect", "text")
    }


def test_formats_are_checked_and_nothing_is_made_unasked() -> None:
    PySpyBackend(rate_hz=100, options={"formats": ["speedscope", *WRITERS]})
    backend = PySpyBackend(rate_hz=100, options={"formats": ["speedscope"]})
    assert backend.extras(b"garbage") == {}
