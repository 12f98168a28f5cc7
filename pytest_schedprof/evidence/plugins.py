"""Kinds of evidence made of users' own plugins of the scheduler."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import cloudpickle
from distributed import Scheduler, SchedulerPlugin

from pytest_schedprof.agent import instruments as plugins
from pytest_schedprof.clusters.in_process import Observer, observing
from pytest_schedprof.control.targets import complete
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.evidence.contract import (
    NONE_HERE,
    Brought,
    EvidenceUnavailableError,
    Kind,
    ObservedTest,
    RunFigures,
    as_json,
)
from pytest_schedprof.model.result import BackendResult

HOOK = "the hook pytest_schedprof_plugins"


class PluginKind(Kind, Observer, name="plugin", description="a plugin of the user", needs=[]):
    """Has a plugin on the scheduler during each run, and keeps what its `evidence` returns."""

    plugin: ClassVar[type[Any]]

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        self._number = 0
        self._answers: dict[int, Any] = {}

    @contextmanager
    def around(self, number: int) -> Iterator[None]:
        self._number = number
        if self.test.known_scheduler is None:
            with observing(self):
                yield
            return
        control = self.test.known_scheduler.control
        control.call(plugins.begin_plugin, self.name, by_value(self.plugin))
        try:
            yield
        finally:
            self._answers[number] = control.call(plugins.end_plugin, self.name)

    def begin(self, scheduler: Scheduler) -> None:
        plugin = self.plugin()
        scheduler.add_plugin(plugin, name=plugins.name_of(self.name))
        complete(plugin.start(scheduler))

    def end(self, scheduler: Scheduler) -> None:
        """Keep what the plugin tells of the last scheduler of the run."""
        self._answers[self._number] = plugins.end_plugin(self.name, scheduler)

    def bring(self, results: Sequence[BackendResult]) -> Brought:
        """Return what the plugin told of each run; limits can bound its numbers."""
        if not self._answers:
            raise EvidenceUnavailableError(NONE_HERE)
        for answer in self._answers.values():
            if not isinstance(answer, Mapping):
                name = self.plugin.__qualname__
                raise EvidenceUnavailableError(
                    f"evidence() of {name} must return a dict, got {answer!r:.99}"
                )
        rows = [{"take": number, **answer} for number, answer in self._answers.items()]
        return Brought(
            {f"{self.name}.json": as_json(rows)}, figures=figures_of(self.name, self._answers)
        )


def figures_of(name: str, answers: Mapping[int, Mapping[str, Any]]) -> list[RunFigures]:
    """Return the numbers of all runs, by the names that limits have for them."""
    figures: dict[str, dict[int, float]] = {}
    for run, answer in answers.items():
        for figure, value in answer.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                figures.setdefault(figure, {})[run] = float(value)
    return [
        RunFigures("figure", f"{name}:{figure}", by_run)
        for figure, by_run in sorted(figures.items())
    ]


def by_value(kind: type[Any]) -> bytes:
    """Pickle a class with its code: the scheduler may not have its module."""
    module = sys.modules[kind.__module__]
    is_new = kind.__module__ not in cloudpickle.list_registry_pickle_by_value()
    if is_new:
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(kind))
    finally:
        if is_new:
            with suppress(ValueError):
                cloudpickle.unregister_pickle_by_value(module)


def kind_of(plugin: Any) -> type[Kind]:
    """Return the kind of evidence of a plugin's class.

    Raises:
        SettingsError: for what cannot be one.
    """
    if not (isinstance(plugin, type) and issubclass(plugin, SchedulerPlugin)):
        raise _invalid(plugin, "it must be a class that derives from distributed.SchedulerPlugin")
    if not callable(getattr(plugin, "evidence", None)):
        raise _invalid(plugin, "it lacks the method evidence(), which returns a dict")
    description = (plugin.__doc__ or plugin.__qualname__).strip().partition("\n")[0]
    keywords = {"name": plugin.__dict__.get("name") or plugin.__name__.lower()}
    try:
        made = types.new_class(
            plugin.__name__,
            (PluginKind,),
            {**keywords, "description": description, "needs": ()},
            lambda body: body.update(plugin=plugin),
        )
    except ValueError as error:
        raise _invalid(plugin, str(error)) from None
    return made


def _invalid(plugin: Any, fault: str) -> SettingsError:
    return SettingsError(f"schedprof: {plugin!r} of {HOOK} cannot be used: {fault}")
