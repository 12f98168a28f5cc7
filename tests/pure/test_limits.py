"""Tests of the limit language: what it accepts, its errors, how layers merge, and patterns."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_schedprof.errors import LimitError, SettingsError
from pytest_schedprof.judge.limits import LIMITABLE_OWNERS, MOST, merge_limits, parse_limit
from pytest_schedprof.judge.owners import NOT_SCHEDULER
from pytest_schedprof.judge.phases import CLIENT_OWNERS
from pytest_schedprof.model.limit import Limit
from pytest_schedprof.model.metric import ANY_KIND, BYTES, MEASURES, METRICS, NUMBER, TIME, Subject
from pytest_schedprof.model.profile import compile_pattern, has_wildcard

WORDS = st.text("abz_AZ09.*?<>-é", min_size=1, max_size=12)
FUNCTIONS = st.builds("{}:{}".format, WORDS, WORDS)
PERCENTS = st.integers(0, 1_000_000).map(lambda number: f"{number / 10_000:.4f}")
"""Percentages from 0 to 100 with four decimals."""

SPACES = st.sampled_from(["", " ", "  ", "\t", "\n"])
DIGITS = "9" * 400
TOKENS = [
    *METRICS, *"()<=*?:@+,%.-", "<=", "baseline", "baseline * ", DIGITS, "0", "30", "1.5", "a:b",
    "@comm", "idle", "kB", "us", "pp", "\x1b[31m", "\n", "\0", "\udcff", "é", "²", "٣", "nan",
    "inf", "1e400", " ",
]  # fmt: skip
SOUP = st.lists(st.sampled_from(TOKENS), max_size=12).map("".join)


FIGURES = st.text("ab_Z09.*?-é", min_size=1, max_size=12)
PREFIXES = st.text("ab_Z09.*?<>+-é", min_size=1, max_size=12)
UNITS = {id(BYTES): ("B", "GiB"), id(TIME): ("us", "min", "h"), id(NUMBER): ("",)}


@st.composite
def texts_of_evidence(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from([name for name in METRICS if METRICS[name].evidence]))
    metric = METRICS[name]
    pattern = draw(st.sampled_from(metric.choices) if metric.choices else PREFIXES)
    if metric.evidence == ANY_KIND:
        pattern = f"queue:{draw(FIGURES)}"
    subject = f"({pattern})" if Subject.FUNCTIONS in metric.subjects else ""
    if Subject.FUNCTIONS | Subject.WHOLE in metric.subjects and draw(st.booleans()):
        subject = ""
    amount = f"{draw(st.integers(1, 10**5))}{draw(st.sampled_from(UNITS[id(metric.units)]))}"
    bound = draw(st.sampled_from([amount, "baseline", "baseline * 1.05", f"baseline + {amount}"]))
    return f"{metric.spelling or name}{subject} <= {bound}"


@st.composite
def limit_texts(draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        parts = ["share", "(", "@" + draw(st.sampled_from(LIMITABLE_OWNERS)), ")"]
    else:
        parts = [draw(st.sampled_from(["share", "self"])), "(", draw(FUNCTIONS), ")"]
    parts += ["<=", draw(PERCENTS), "%"]
    return "".join(draw(SPACES) + part for part in parts) + draw(SPACES)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("share(distributed.scheduler:SchedulerState._transition) <= 30%", 0.3),
        ("share(a:b) <= 0%", 0.0),
        ("share(a:b) <= 100%", 1.0),
        ("share(a:b) <= 0.0000005%", 5e-9),
        ("share(a:b) <= 12.34567890123%", 0.1234567890123),
        ("share(@graph-intake) <= 12.5%", 0.125),
        *((f"share(@{owner}) <= 30%", 0.3) for owner in LIMITABLE_OWNERS),
    ],
)
def test_a_limit_has_a_metric_a_pattern_and_a_bound_as_a_fraction(text: str, bound: float) -> None:
    limit = parse_limit(text)
    pattern = text.partition("(")[2].partition(")")[0].strip()
    assert (limit.metric, limit.pattern) == ("share", pattern)
    assert limit.bound == pytest.approx(bound)
    assert limit.owner == (pattern.removeprefix("@") if "@" in pattern else None)
    assert parse_limit(str(limit)) == limit


@pytest.mark.parametrize("owner", CLIENT_OWNERS)
def test_of_the_client_there_is_cpu_alone(owner: str) -> None:
    limit = parse_limit(f"cpu(@{owner}) <= 60us")
    assert limit.is_of_client
    assert str(limit) == f"cpu(@{owner}) <= 60us"
    assert parse_limit(f"growth(cpu, @{owner}) <= 1.1").is_of_client
    with pytest.raises(LimitError, match="has only cpu"):
        parse_limit(f"share(@{owner}) <= 30%")
    with pytest.raises(LimitError, match=f"@{owner} has no baseline"):
        parse_limit(f"cpu(@{owner}) <= baseline * 1.1")


@given(limit_texts() | texts_of_evidence())
def test_rendering_and_parsing_again_gives_the_same_limit(text: str) -> None:
    parsed = parse_limit(text)
    assert bool(parsed.evidence) == (not text.strip().startswith(("share", "self")))
    assert parse_limit(str(parsed)) == parsed


@pytest.mark.parametrize(
    ("text", "column", "expected", "rest"),
    [
        ("", 1, "a metric: share, self", "the end"),
        ("shar(a:b) <= 3%", 1, "(did you mean 'share'?)", "'shar(a:b) <= 3%'"),
        ("share", 6, "share(distributed.scheduler:*) <= 30%", "the end"),
        ("share() <= 3%", 7, "module:qualname", "') <= 3%'"),
        ("share(a:b()) <= 3%", 7, "module:qualname", "'a:b()) <= 3%'"),
        ("share(_transition) <= 3%", 7, "as *:*._transition for any", "'_transition) <= 3%'"),
        ("share(@transition) <= 3%", 7, "(did you mean 'transitions'?)", "'@transition) <= 3%'"),
        ("self(@comm) <= 3%", 6, "write share(@comm)", "'@comm) <= 3%'"),
        ("share(a:b", 10, "')'", "the end"),
        ("share(a:b) < 3%", 12, "'<=' (a limit is an upper bound)", "'< 3%'"),
        ("share(a:b) <= 0.3", 18, "a bound in percent, as in 30%,", "the end"),
        ("share(a:b) <= 3", 16, "a bound in percent, as in 3%,", "the end"),
        ("share(a:b) <= -3%", 15, "a bound in percent", "'-3%'"),
        ("share(a:b) <= 1e1%", 16, "a bound in percent", "'e1%'"),
        ("share(a:b) <= 100.1%", 15, "at most 100%", "'100.1%'"),
        ("share(a:b) <= 3% x", 18, "the end of the limit", "'x'"),
        ("growth <= 1", 8, "'('", "'<= 1'"),
        ("growth(share) <= 1", 8, "a metric that can grow (did you mean", "'share) <= 1'"),
        ("growth(byte) <= 1", 8, "(did you mean 'bytes_", "'byte) <= 1'"),
        ("growth(calls, b) <= 1", 15, "module:qualname", "'b) <= 1'"),
        ("growth(peak, a:b) <= 1", 12, "')'", "', a:b) <= 1'"),
        ("growth(seconds) <= 1", 15, "', ' and a function", "') <= 1'"),
        ("growth(calls) <= 3%", 19, "a number without a unit", "'%'"),
        ("growth(calls) <= baseline", 18, "growth has no baseline", "'baseline'"),
        ("share(@comm) <= baseline + 2%", 29, "points, as in baseline + 2pp", "'%'"),
        ("share(@comm) <= 2pp", 18, "in percent, as in 30%, or the baseline", "'pp'"),
        ("cpu <= baseline * 0", 20, "a factor above 0", "the end"),
        ("cpu <= baseline - 2us", 17, "the end of the limit", "'- 2us'"),
        ("cpu <= baseline + 2", 20, "a number with its unit", "the end"),
        ("memory <= 4GiB", 8, "'(' and a measure, as in memory(process) <= 6.1B", "'<= 4GiB'"),
        (
            "memory(mangd) <= 4GiB",
            8,
            f"(did you mean 'managed'?): {', '.join(MEASURES)}",
            "'mangd) <= 4GiB'",
        ),
        (
            "memory(process) <= 4",
            21,
            "a number with its unit (B, kB, MB, GB, KiB, MiB, GiB), as in 4B",
            "the end",
        ),
        (
            "transfers(bites) <= 1MB",
            10,
            "there is also transfers(bytes) and transfers(count)",
            "'(bites) <= 1MB'",
        ),
        ("phase(sendg) <= 1ms", 7, "(did you mean 'sending'?)", "'sendg) <= 1ms'"),
        ("phase <= 1ms", 7, "'(' and a phase, as in phase(construction) <= 6.1s", "'<= 1ms'"),
        ("duration(@comm) <= 1ms", 10, "the prefix of a task's key", "'@comm) <= 1ms'"),
        ("figure(longest) <= 1", 8, "kind:figure, as in queue:longest", "'longest) <= 1'"),
        ("figure <= 1", 8, "'(' and a figure, as in figure(queue:longest) <= 6.1", "'<= 1'"),
        (
            "growth(memory) <= 1",
            14,
            "', ' and a measure, as in growth(memory, process)",
            "') <= 1'",
        ),
        ("growth(transfers(bytes), x) <= 1", 24, "takes no pattern", "', x) <= 1'"),
        ("transitions(@comm) <= 1", 12, "'<=': transitions is of the whole", "'(@comm) <= 1'"),
        ("growth(transitions, @comm) <= 1", 19, "')': transitions is of", "', @comm) <= 1'"),
        *(
            (f"share(@{owner}) <= 3%", 7, "an owner", f"'@{owner}) <= 3%'")
            for owner in sorted(NOT_SCHEDULER)
        ),
    ],
)
def test_an_error_names_the_column_what_could_stand_there_and_what_does(
    text: str, column: int, expected: str, rest: str
) -> None:
    with pytest.raises(LimitError) as caught:
        parse_limit(text)
    assert isinstance(caught.value, SettingsError)
    message = str(caught.value)
    assert message.startswith(f"schedprof: limit {text!r}: column {column}: expected ")
    assert expected in message
    assert message.endswith(f"; found {rest}")


def _check_outcome(text: str) -> None:
    try:
        parsed = parse_limit(text)
    except LimitError as error:
        message = str(error)
        match = re.search(r": column (\d+): expected ", message)
        assert match
        assert 1 <= int(match.group(1)) <= len(text) + 1
        assert message.isprintable()
        assert len(message) < 2000
    else:
        assert parsed.metric not in ("share", "self") or (parsed.bound <= 1 and parsed.pattern)
        assert 0 <= parsed.bound <= MOST
        assert 0 <= parsed.factor <= MOST
        assert parse_limit(str(parsed)) == parsed


@settings(max_examples=150)
@given(SOUP | st.text(alphabet=st.characters(exclude_categories=())))
def test_any_text_and_any_soup_of_tokens_gives_a_limit_or_a_limit_error(text: str) -> None:
    _check_outcome(text)


@given(limit_texts() | texts_of_evidence(), st.data())
def test_a_limit_with_a_typing_mistake_gives_a_limit_or_a_limit_error(
    text: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(text) - 1))
    _check_outcome(text[:at] + text[at + 1 :])
    _check_outcome(text[:at])
    _check_outcome(text[:at] + data.draw(st.characters()) + text[at:])


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (f"share(a:b) <= {'9' * 10_000}%", "at most 100%"),
        (f"bytecodes <= {DIGITS}", r"a number of at most 1e\+15; found '9999"),
        (f"peak <= {DIGITS} GB", r"a number of at most 1e\+15; found '9999"),
        (f"cpu <= baseline * {DIGITS}", r"a number of at most 1e\+15; found '9999"),
        (f"cpu <= baseline + {DIGITS}us", r"a number of at most 1e\+15; found '9999"),
        (f"growth(calls, a:b) <= {DIGITS}", r"a number of at most 1e\+15; found '9999"),
    ],
    ids=range(6),
)
def test_a_limit_that_would_always_hold_is_refused(text: str, most: str) -> None:
    with pytest.raises(LimitError, match=f"expected .*{most}"):
        parse_limit(text)


LIMITS = st.builds(
    Limit,
    st.sampled_from(["share", "self"]),
    st.sampled_from(["a:b", "a:*", "c:d"]),
    st.sampled_from([0.1, 0.2, 0.3]),
)


@given(st.lists(st.lists(LIMITS)))
def test_merging_keeps_each_key_once_with_the_bound_said_last(layers: list[list[Limit]]) -> None:
    merged = merge_limits(layers)
    said = [limit for layer in layers for limit in layer]
    last = {limit.key: limit for limit in said}
    assert len(merged) == len(last)
    assert {limit.key: limit for limit in merged} == last
    assert [limit.key for limit in merged] == list(dict.fromkeys(limit.key for limit in said))


@pytest.mark.parametrize(
    "text",
    [
        *(f"share(a:b) <= {share}" for share in ("30%", "7%", "12.5%", "0%", "100%", "0.1%")),
        "growth(bytecodes) <= 1.05",
        "growth(calls, a:b*) <= 1.2",
        "growth(cpu) <= 1.1",
        "growth(memory, process) <= 1.1",
        "growth(transfers(bytes)) <= 1",
        "growth(duration, inc) <= 0.1",
        "duration <= 5ms",
        "memory(*) <= 4GiB",
        "transfers <= 100",
    ],
)
def test_other_forms_are_written_as_they_are_read(text: str) -> None:
    limit = parse_limit(text)
    assert str(limit) == text
    assert bool(limit.evidence) == any(
        kind in text for kind in ("memory", "transfers(", "duration")
    )
    assert len(merge_limits([[parse_limit(text)], [parse_limit("growth(peak) <= 1")]])) == 2


def test_keys_are_what_users_wrote_but_for_spaces() -> None:
    far, near = parse_limit("share(a:b) <= 30%"), parse_limit("share( a:b ) <= 60%")
    assert merge_limits([[far], [near]]) == (near,)
    assert merge_limits([[far], [parse_limit("share(a:*) <= 30%")]])[0] is far
    assert merge_limits([]) == merge_limits([[], []]) == ()


def matches(pattern: str, name: str) -> bool:
    return compile_pattern(pattern).fullmatch(name) is not None


def obviously_matches(pattern: str, name: str) -> bool:
    """Match by the definition: `*` is any run, `?` is one character, all else is literal."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(obviously_matches(pattern[1:], name[skip:]) for skip in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and obviously_matches(pattern[1:], name[1:])


@settings(max_examples=100)
@given(
    st.text("ab*?", max_size=8) | st.text("a<.:*?\n[(+", max_size=6),
    st.text("ab", max_size=8) | st.text("a<.:\n[(+", max_size=6),
)
def test_a_pattern_matches_what_its_definition_says(pattern: str, name: str) -> None:
    assert matches(pattern, name) == obviously_matches(pattern, name)
    assert has_wildcard(pattern) == bool({"*", "?"} & set(pattern))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "pattern",
    ["*" * 1000 + "x:y", "*a" * 1000 + "b", "*?" * 150 + "b", "*a?" * 80 + "*b", "a*" * 90 + "b"],
)
def test_a_hostile_pattern_is_as_fast_as_any(pattern: str) -> None:
    """Tried again and again, one of these would take longer than the tests have time."""
    assert not matches(pattern, "a" * 200)
    assert matches(pattern[:-1] + "*", "a" * 2000 + "x:")
