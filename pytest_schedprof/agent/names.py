"""Finds functions in the code that the scheduler has loaded: their names and their sources."""

from __future__ import annotations

import importlib
import linecache
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType
from typing import Any

CodeLocation = tuple[str, str, int]
"""File, name and line of a frame, as a profiler reports them."""

SENT = "<dynamic-code>"
"""The file of code that was sent by value, since cloudpickle 3.1.3."""


def name_places(places: list[CodeLocation]) -> list[str]:
    """Return `module:qualname` for each place.

    Most profilers give the qualified name. Any other name is looked up among the functions of the
    module by name and line.
    """
    modules = {
        file: module
        for module in list(sys.modules.values())
        if issubclass(type(module), ModuleType) and (file := names_in(module).get("__file__"))
    }
    known: dict[str, list[tuple[str, CodeType]]] = {}
    return [_name(place, modules, known) for place in places]


def _name(
    place: CodeLocation,
    modules: dict[str, ModuleType],
    known: dict[str, list[tuple[str, CodeType]]],
) -> str:
    file, name, line = place
    module = modules.get(file)
    if file == SENT:
        if file not in known:
            known[file] = list(_sent_methods())
        return _sent(name, line, known[file]) or f"{SENT}:{name}"
    if module is None:
        return f"{module_of_file(file)}:{name}"
    if "." in name or name == "<module>":
        return f"{module.__name__}:{name}"
    if codes := _at_top_level(module, file, name, line):
        return f"{module.__name__}:{_qualname(name, line, codes)}"
    if file not in known:
        known[file] = [
            (qualname, code) for qualname, code in functions_of(module) if code.co_filename == file
        ]
    return f"{module.__name__}:{_qualname(name, line, known[file])}"


def _at_top_level(
    module: ModuleType, file: str, name: str, line: int
) -> list[tuple[str, CodeType]]:
    """Return the codes of the module's function of that name, if it has the line.

    Only they can have the line then. Most places are found so, and walking a module takes long.
    """
    function = names_in(module).get(name)
    if type(function) is not FunctionType or function.__code__.co_filename != file:
        return []
    code = function.__code__
    is_inside = code.co_name == name and code.co_firstlineno <= line <= _last_line(code)
    return list(_codes(function.__qualname__, code)) if is_inside else []


def _qualname(name: str, line: int, functions: list[tuple[str, CodeType]]) -> str:
    """Return the innermost function of that name whose lines include the line."""
    around = [
        (code.co_firstlineno, code.co_qualname)
        for _, code in functions
        if code.co_name == name and code.co_firstlineno <= line <= _last_line(code)
    ]
    return max(around)[1] if around else name


def _sent(name: str, line: int, methods: list[tuple[str, CodeType]]) -> str | None:
    """Return the full name of code that was sent by value, if it is a method."""
    for method, code in methods:
        qualname = method.partition(":")[2]
        if name in (qualname, code.co_name) and code.co_firstlineno <= line <= _last_line(code):
            return method
    return None


def _sent_methods() -> Iterator[tuple[str, CodeType]]:
    """Yield the methods of classes that were sent by value, as those of plugins, by full name.

    Functions are left out: they may be gone by now, and would have one name or another by chance.
    """
    # By identity: metaclasses may compare classes, and one of Python 3.14 warns when it does.
    seen: dict[int, type] = {}
    left: list[type] = [object]
    kind: type
    while left:
        for kind in type.__subclasses__(left.pop()):
            if id(kind) in seen:
                continue
            seen[id(kind)] = kind
            left.append(kind)
            for _, code in _functions(kind, kind.__module__, set()):
                if code.co_filename == SENT:
                    yield f"{kind.__module__}:{code.co_qualname}", code


def _last_line(code: CodeType) -> int:
    return max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)


def module_of_file(file: str) -> str:
    """Return a module's name by its file: the part after the longest matching `sys.path` entry."""
    if file.startswith("<frozen "):
        return file[len("<frozen ") : -1]
    path = file.replace("\\", "/")
    # Imports pass over what is no text, such as a Path.
    entries = [entry for entry in sys.path if isinstance(entry, str) and entry]
    for entry in sorted(entries, key=len, reverse=True):
        prefix = entry.replace("\\", "/").rstrip("/") + "/"
        if path.startswith(prefix):
            path = path[len(prefix) :]
            break
    else:
        path = path.rpartition("/")[2]
    return re.sub(r"(/__init__)?\.py$", "", path).replace("/", ".")


def codes_of(names: Sequence[str]) -> Iterator[CodeType]:
    """Yield the code of functions, in the modules that are imported."""
    for module in {name.partition(":")[0] for name in names} & sys.modules.keys():
        for qualname, code in functions_of(sys.modules[module]):
            if f"{module}:{qualname}" in names:
                yield code


def names_in(module: ModuleType) -> dict[str, Any]:
    """Return what a module has; a lazy one, which any attribute would load, has little yet."""
    names: dict[str, Any] = object.__getattribute__(module, "__dict__")
    return names


def functions_of(module: ModuleType) -> Iterator[tuple[str, CodeType]]:
    """Yield every function that the module defines, including nested ones, with its code.

    A module may have put an object of another kind in its place, of which nothing is known.
    """
    if not issubclass(type(module), ModuleType):
        return
    seen: set[int] = set()
    names = names_in(module)
    for value in list(names.values()):
        yield from _functions(value, names["__name__"], seen)


# What is unknown is asked for its type alone: `isinstance` reads `__class__`, by which lazy proxies
# are evaluated.


def _functions(value: Any, module: str, seen: set[int]) -> Iterator[tuple[str, CodeType]]:
    if id(value) in seen:
        return
    seen.add(id(value))
    is_class, is_function = issubclass(type(value), type), type(value) is FunctionType
    if (is_class or is_function) and value.__module__ != module:
        return
    if is_class:
        for member in list(vars(value).values()):
            yield from _functions(member, module, seen)
        return
    wrapped = _inside(value)
    for inner in wrapped:
        yield from _functions(inner, module, seen)
    if is_function and not wrapped:  # a wrapper's code is its decorator's
        yield from _codes(value.__qualname__, value.__code__)


def _inside(value: Any) -> list[Any]:
    """Return what a descriptor or decorator wraps; no attribute of unknown objects is read."""
    kind = type(value)
    if issubclass(kind, property):
        return [value.fget, value.fset, value.fdel]
    if issubclass(kind, (staticmethod, classmethod)):
        return [value.__func__]
    attributes = getattr(value, "__dict__", {}) if kind.__module__ == "functools" else {}
    wrapped = attributes.get("func")  # functools.cached_property
    if kind is FunctionType:
        wrapped = value.__dict__.get("__wrapped__")
    elif kind.__name__ == "_lru_cache_wrapper":
        wrapped = value.__wrapped__
    return [wrapped] if wrapped is not None else []


def _codes(qualname: str, code: CodeType) -> Iterator[tuple[str, CodeType]]:
    yield qualname, code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(f"{qualname}.<locals>.{constant.co_name}", constant)


def find_functions(expressions: dict[str, str], most: int) -> dict[str, list[str]]:
    """Return the functions that each pattern matches, at most `most` of each.

    Only modules that the scheduler has imported are searched.
    """
    compiled = {pattern: re.compile(text) for pattern, text in expressions.items()}
    functions: dict[str, list[str]] = {pattern: [] for pattern in compiled}
    for name, module in sorted(sys.modules.items()):
        left = [p for p in compiled if len(functions[p]) < most and _may_name(p, name)]
        for qualname, _ in functions_of(module) if left else ():
            for pattern in left:
                if compiled[pattern].fullmatch(f"{name}:{qualname}"):
                    functions[pattern].append(f"{name}:{qualname}")
    return {pattern: names[:most] for pattern, names in functions.items()}


def _may_name(pattern: str, module: str) -> bool:
    """Whether the module's name starts with the pattern's module part up to its first wildcard."""
    head = re.split(r"[*?]", pattern.partition(":")[0], maxsplit=1)[0]
    return module.startswith(head)


Text = tuple[str, int, str]
"""File, first line, and text of a function."""


def sources_of(names: Sequence[str]) -> dict[str, Text]:
    """Return the source of each function that has one."""
    left = set(names)
    texts: dict[str, Text] = {}
    for module in sorted({name.partition(":")[0] for name in names} & sys.modules.keys()):
        for qualname, code in functions_of(sys.modules[module]):
            name = f"{module}:{qualname}"
            if name in left and (text := text_of(code)):
                left.remove(name)
                texts[name] = (code.co_filename, code.co_firstlineno, text)
    return texts


def text_of(code: CodeType) -> str:
    """Return the lines of a code object; empty if its file cannot be read.

    They end with the last line of an instruction, so that no parser is needed.
    """
    lines = linecache.getlines(code.co_filename)
    last = max(_last_lines(code), default=0)
    return "".join(lines[code.co_firstlineno - 1 : last])


def _last_lines(code: CodeType) -> Iterator[int]:
    yield code.co_firstlineno
    yield from (line for _, _, line in code.co_lines() if line)
    yield from (end for _, end, _, _ in code.co_positions() if end)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _last_lines(constant)


def import_early(name: str, dask_scheduler: Any = None) -> None:
    """Import a module, or leave it if that is not possible: the test may need no function of it.

    A module that skips its tests raises no `Exception`.
    """
    with suppress(BaseException):
        importlib.import_module(name)
