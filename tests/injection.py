"""Changes to the code of a running scheduler: known changes for tests and benchmarks to find.

These functions run inside the scheduler (`client.run_on_scheduler(plant, ...)`), so each one
has its own imports.
"""

from __future__ import annotations

from typing import Any


def plant(module: str, qualname: str, statement: str, dask_scheduler: Any = None) -> None:
    """Insert a statement at the start of a method; its name, file and module stay the same."""
    import ast
    import importlib
    import inspect
    import textwrap

    space = vars(importlib.import_module(module))
    class_name, _, name = qualname.rpartition(".")
    owner = space[class_name]
    method = inspect.getattr_static(owner, name)
    originals = space.setdefault("_before_planting", {})
    originals.setdefault(qualname, method)
    source = textwrap.indent(textwrap.dedent(inspect.getsource(originals[qualname])), " ")
    tree = ast.parse(f"class {class_name}:\n{source}")
    definition: Any = tree.body[0].body[0]  # type: ignore[attr-defined]
    has_docstring = ast.get_docstring(definition) is not None
    definition.body[has_docstring:has_docstring] = ast.parse(statement).body
    names: dict[str, Any] = {}
    file = inspect.getsourcefile(originals[qualname]) or ""
    exec(compile(ast.fix_missing_locations(tree), file, "exec"), space, names)
    setattr(owner, name, vars(names[class_name])[name])


def uproot(module: str, dask_scheduler: Any = None) -> None:
    """Restore all changed methods of a module."""
    import importlib

    space = vars(importlib.import_module(module))
    for qualname, method in space.pop("_before_planting", {}).items():
        class_name, _, name = qualname.rpartition(".")
        setattr(space[class_name], name, method)


def rename(module: str, qualname: str, name: str, dask_scheduler: Any = None) -> None:
    """Give a method another name, as a refactoring does."""
    import importlib

    space = vars(importlib.import_module(module))
    class_name, _, old = qualname.rpartition(".")
    owner = space[class_name]
    method = vars(owner)[old]
    space.setdefault("_before_planting", {}).setdefault(qualname, method)
    code = method.__code__.replace(co_name=name)
    code = code.replace(co_qualname=f"{class_name}.{name}")
    renamed = type(method)(code, method.__globals__, name, method.__defaults__, method.__closure__)
    renamed.__kwdefaults__ = method.__kwdefaults__
    renamed.__qualname__ = f"{class_name}.{name}"
    setattr(owner, name, renamed)
    setattr(owner, old, renamed)  # for its callers
