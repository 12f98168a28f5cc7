"""What stands in the place of a result, because hollow workers compute nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from pytest_schedprof.errors import MissingValueError, PlaceholderError

CALCULATIONS = (
    "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift",
    "rshift", "and", "or", "xor",
)  # fmt: skip

OTHER_USES = (
    "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "bool", "int", "float", "complex",
    "index", "bytes", "round", "trunc", "floor", "ceil", "len", "length_hint", "iter", "reversed",
    "contains", "getitem", "setitem", "delitem", "call", "enter", "exit", "array",
)  # fmt: skip

USES = [f"__{name}__" for name in (*CALCULATIONS, *OTHER_USES)]
USES += [f"__r{name}__" for name in CALCULATIONS]
"""Names of the methods that Python and numpy call when a value is used, but for equality.

There is no `__next__` and no `__await__`: libraries would take it for an iterator or an awaitable.
"""

KINDS_THAT_COMPUTE = (
    "For real results take --schedprof-cluster=local, docker, or the address of a scheduler"
)

OWN = ("key", "nbytes")


def _refusal(use: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *args: object, **keywords: object) -> NoReturn:
        raise PlaceholderError(_complaint(self, use))

    refuse.__name__ = use
    return refuse


def _complaint(placeholder: Any, use: str) -> str:
    return (
        f"schedprof: no worker computed {placeholder.key!r}, so its value cannot be used ({use}): "
        f"clusters 'simulated' and 'virtual' have placeholders of results. {KINDS_THAT_COMPUTE}"
    )


class _NoValue:
    """Refuses whatever a value could be used for."""

    __slots__ = ()

    locals().update({use: _refusal(use) for use in USES})


@dataclass(frozen=True, slots=True)
class Placeholder(_NoValue):
    """The result of a task on a simulated or virtual cluster.

    It can be passed on, kept, compared for equality, hashed and pickled. Any other use is an error
    that names the task.
    """

    key: object
    nbytes: int
    """The reported size of the result."""

    def __sizeof__(self) -> int:
        return self.nbytes

    def __format__(self, spec: str) -> str:
        if spec:
            raise PlaceholderError(_complaint(self, f"format {spec!r}"))
        return repr(self)

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse attributes; libraries that look for special ones just do not find them."""
        if name.startswith("_") or name in OWN:
            raise AttributeError(name)
        raise MissingValueError(_complaint(self, f".{name}"))
