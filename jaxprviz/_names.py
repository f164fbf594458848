"""The Python names of the arrays that a function can reach: what a baked constant is called."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

_DEEPEST = 4
"""How many functions, objects or containers inside each other are looked through."""


def name_of(fn: Any) -> str:
    """What a callable is called: its `__name__`, that of the function inside a partial, or its class."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    name = getattr(fn, "__name__", None)
    return name if isinstance(name, str) else type(fn).__name__


def reachable_arrays(fn: Any) -> Mapping[int, str]:
    """The Python name of each array that a callable can reach, by the array's `id`.

    Looked through are closure cells, the globals that the code names, the arguments held by a partial, the
    object of a bound method, and dicts, lists and plain objects in them.  A first name found stays.
    """
    found: dict[int, str] = {}
    seen: dict[int, Any] = {}  # an id stays the value's own only while the value lives
    for name, value in _held(fn):
        _collect(name, value, _DEEPEST, found, seen)
    return found


def _collect(name: str, value: Any, depth: int, found: dict[int, str], seen: dict[int, Any]) -> None:
    if isinstance(value, (jax.Array, np.ndarray)):
        found.setdefault(id(value), name)
        return
    if (
        depth == 0
        or id(value) in seen
        or isinstance(value, (str, bytes, int, float, complex, type, types.ModuleType))
    ):
        return
    seen[id(value)] = value
    if isinstance(value, Mapping):
        inside = [(f"{name}[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        inside = [(f"{name}[{position}]", item) for position, item in enumerate(value)]
    elif _is_function(value):
        inside = list(_held(value))
    elif isinstance(getattr(value, "__dict__", None), dict):
        inside = [(f"{name}.{key}", item) for key, item in vars(value).items()]
    else:
        return
    for inner_name, item in inside:
        _collect(inner_name, item, depth - 1, found, seen)


def _is_function(value: Any) -> bool:
    """Whether a value is known by its code, and not, as a model that can be called, by its attributes."""
    return isinstance(value, (types.FunctionType, types.MethodType, functools.partial)) or (
        callable(value) and getattr(value, "__wrapped__", None) is not None
    )


def _held(fn: Any) -> Iterator[tuple[str, Any]]:
    """The names that a callable's code can use, with what they stand for."""
    if isinstance(fn, functools.partial):
        yield from _held(fn.func)
        yield from fn.keywords.items()
        yield from ((f"argument {position}", value) for position, value in enumerate(fn.args))
        return
    if isinstance(fn, types.MethodType):
        yield "self", _Attributes(fn.__self__)
        yield from _held(fn.__func__)
        return
    inner = getattr(fn, "__wrapped__", None)
    if inner is not None:
        yield from _held(inner)
        return
    if not isinstance(fn, types.FunctionType):
        call = type(fn).__call__ if callable(fn) else None
        if isinstance(call, types.FunctionType):  # an object that can be called
            yield "self", _Attributes(fn)
            yield from _held(call)
        return
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # a cell that is not filled yet
    for name in _global_names(fn.__code__):
        if name in fn.__globals__:
            yield name, fn.__globals__[name]


class _Attributes:
    """The attributes of an object that can be called, so that they are looked through and not its code."""

    def __init__(self, owner: Any) -> None:
        self.__dict__.update(getattr(owner, "__dict__", {}))


def _global_names(code: types.CodeType) -> list[str]:
    """The global names that a function's code uses, those of the functions defined in it included."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _global_names(constant)
    return names
