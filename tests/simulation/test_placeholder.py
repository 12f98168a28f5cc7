"""Tests of what stands in the place of results: no use of it goes unnoticed."""

from __future__ import annotations

import copy
import math
import operator
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from dask.base import is_dask_collection, tokenize
from dask.sizeof import sizeof

from pytest_schedprof.errors import PlaceholderError, SchedprofError
from pytest_schedprof.virtual.executor import Placeholder

VALUE: Any = Placeholder(("sum", 1), 1234)

USES: dict[str, Callable[[], object]] = {
    "add": lambda: VALUE + 1,
    "radd": lambda: 1 + VALUE,
    "matmul": lambda: VALUE @ VALUE,
    "less": lambda: VALUE < 3,
    "negative": lambda: -VALUE,
    "bool": lambda: not VALUE,
    "int": lambda: int(VALUE),
    "index": lambda: operator.index(VALUE),
    "round": lambda: round(VALUE, 2),
    "len": lambda: len(VALUE),
    "iter": lambda: list(VALUE),
    "contains": lambda: 3 in VALUE,
    "getitem": lambda: VALUE["x"],
    "setitem": lambda: operator.setitem(VALUE, 0, 1),
    "attribute": lambda: VALUE.shape,
    "method": lambda: VALUE.mean(),
    "call": lambda: VALUE(),
    "with": lambda: VALUE.__enter__(),
    "format": lambda: f"{VALUE:.2f}",
    "array": lambda: numpy.asarray(VALUE),
    "ufunc": lambda: numpy.ones(3) + VALUE,
    "stacked": lambda: numpy.stack([VALUE, VALUE]),
    "math": lambda: math.sqrt(VALUE),
    "sum": lambda: sum([VALUE, VALUE]),
}


@pytest.mark.parametrize("use", USES)
def test_each_use_of_the_value_names_the_task_and_clusters_that_compute(use: str) -> None:
    with pytest.raises(PlaceholderError) as caught:
        USES[use]()
    assert isinstance(caught.value, SchedprofError)
    text = str(caught.value)
    for part in ("('sum', 1)", "--schedprof-cluster=local", "docker", "address"):
        assert part in text
    assert "\n" not in text


def test_it_can_be_passed_on_and_compared() -> None:
    for again in (pickle.loads(pickle.dumps(VALUE)), copy.copy(VALUE), copy.deepcopy(VALUE)):
        assert again == VALUE
        assert hash(again) == hash(VALUE)
    for other in (Placeholder("sum", 1234), 1, None):
        assert other != VALUE
    assert [0, VALUE].index(VALUE) == 1
    assert (
        repr(VALUE) == f"{VALUE}" == ("<no value of ('sum', 1), as hollow workers compute nothing>")
    )


def test_dask_can_ask_for_its_size_and_name_and_whether_it_is_a_collection() -> None:
    assert sizeof(VALUE) == sys.getsizeof(VALUE) >= VALUE.nbytes
    assert tokenize(VALUE) == tokenize(pickle.loads(pickle.dumps(VALUE)))
    assert not is_dask_collection(VALUE)


@pytest.mark.parametrize(
    "name", ["__dask_graph__", "_ipython_display_", "_repr_html_", "dtype", "__next__"]
)
def test_who_only_looks_for_attributes_does_not_find_them(name: str) -> None:
    assert not hasattr(VALUE, name)
    assert getattr(VALUE, name, 7) == 7


def test_a_placeholder_half_made_has_no_attributes() -> None:
    """As while it is unpickled: then its key must not be asked for again and again."""
    half: Any = Placeholder.__new__(Placeholder)
    with pytest.raises(AttributeError, match="key"):
        half.key  # noqa: B018
