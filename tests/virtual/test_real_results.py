"""Tests of workloads that need real results: one line says which task and which clusters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array
import dask.bag
import pytest
from at_work import at_work, inc
from distributed import Client, WorkerPlugin, futures_of, wait
from support import wait_for

from pytest_schedprof.clusters.own import SimulatedCluster
from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.errors import PlaceholderError
from pytest_schedprof.virtual.shuffles import IS_KNOWN

pytest.importorskip("pandas")


@pytest.fixture(scope="module", params=[VirtualCluster, SimulatedCluster])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client of four hollow workers."""
    with at_work(request.param) as client:
        yield client


class Counter:
    """An actor."""

    def more(self) -> int:
        return 1


class Plugin(WorkerPlugin):
    name = "of-a-user"


def frame() -> Any:
    return dask.datasets.timeseries(end="2000-01-05", freq="1h", partition_freq="12h", seed=1)


NEEDS: dict[str, Callable[[], object]] = {
    "rows of a frame": lambda: len(frame().persist()),
    "divisions": lambda: frame().set_index("id").persist(),
    "order": lambda: frame().sort_values("x").persist(),
    "sizes of chunks": lambda: (lambda x: x[x > 0].compute_chunk_sizes())(
        dask.array.ones(10, chunks=2)
    ),
    "an array": lambda: dask.array.ones((20, 20), chunks=10).compute() + 1,
    "elements": lambda: list(dask.bag.from_sequence(range(10)).map(inc).compute()),
    "columns": lambda: frame().head().columns,
}


@pytest.mark.slow
@pytest.mark.parametrize("what", NEEDS)
def test_what_needs_a_result_names_its_task(client: Client, what: str) -> None:
    with pytest.raises(PlaceholderError, match=r"no worker computed .*--schedprof-cluster=local"):
        NEEDS[what]()


@pytest.mark.skipif(not IS_KNOWN, reason="hollow workers take part from distributed 2024.12 on")
def test_a_rechunk_by_messages_needs_no_results(client: Client) -> None:
    with dask.config.set({"array.rechunk.method": "p2p"}):
        rechunked = client.persist(dask.array.ones((40, 40), chunks=(10, 40)).rechunk((40, 10)))
    wait(rechunked)
    assert {future.status for future in futures_of(rechunked)} == {"finished"}


def test_placeholders_are_fine_as_arguments(client: Client) -> None:
    placeholder: Any = client.submit(inc, 1, pure=False).result()
    future = client.submit(inc, (placeholder, [placeholder], {"x": placeholder}), pure=False)
    wait(future)
    assert future.status == "finished"
    assert client.scatter(placeholder).result() == placeholder


def test_an_actor_is_placed_but_has_no_methods(client: Client) -> None:
    future = client.submit(Counter, actor=True, key="the-counter")
    wait(client.submit(inc, future, pure=False))
    actor: Any = future.result()
    with pytest.raises(PlaceholderError, match=r"'the-counter'.*more.*--schedprof-cluster=local"):
        actor.more()


def test_plugins_and_files_that_do_nothing_are_told(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "some_module.py"
    file.write_text("x = 1")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client.register_plugin(Plugin())
        client.upload_file(str(file))

        def is_said(name: str) -> bool:
            wait(client.submit(inc, 1, pure=False))  # lets virtual time go by
            texts = [str(warning.message) for warning in caught]
            return any(name in text and "does nothing" in text for text in texts)

        wait_for(lambda: is_said("'of-a-user'"), "a warning about the plugin")
        wait_for(lambda: is_said("some_module.py"), "a warning about the file")
