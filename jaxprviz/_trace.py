"""From a function and example arguments to a `Program`: the one place that calls `jax.make_jaxpr`."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from jaxprviz import _jax
from jaxprviz._mistakes import explained, no_slices, too_many_devices
from jaxprviz._names import name_of, reachable_arrays
from jaxprviz._read import read
from jaxprviz.errors import TraceError
from jaxprviz.program import Program


def trace(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Program:
    """Traces a function and reads what JAX traced; nothing of it is run.

    Args:
        fn: any callable: a function, lambda, partial, bound method, callable object, or what `jax.jit`,
            `jax.pmap`, `jax.grad` and the like return.
        *args: example arguments: arrays, `jax.ShapeDtypeStruct`, numbers, and trees of them.  Only shapes and
            types count.  What is no array and no number (a string, a function, an object that is no tree) is
            passed to `fn` as it is, and so are the static arguments of a jitted function.  Of a tree that
            holds such things, a model with its activation, the arrays alone are traced.
        **kwargs: the same by keyword.

    Returns:
        The program, as JAX holds it: `draw` and `explain` fold the pair that is a pmap on newer JAX to a
        `pmap`.

    Raises:
        TraceError: `fn` can't be called, or it (or JAX) refuses the arguments.  `error.original` is the
            exception.
        DevicesError: the program wants more devices than there are.
        VersionError: this JAX is too old.
    """
    return traced(fn, args, kwargs).program


@dataclass(frozen=True, slots=True)
class Traced:
    """A traced function, with what it takes to run it.

    Attributes:
        program: what was read.
        jaxpr: what JAX traced.
        leaves: the example arguments that it takes, one an input.
        name: the function's name.
        constant_names: the Python names of the arrays that it can reach, by their `id`.
    """

    program: Program
    jaxpr: Any
    leaves: tuple[Any, ...]
    name: str
    constant_names: Mapping[int, str]


def traced(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
    """What `trace` gives, with the jaxpr and the arrays that it takes; raises as `trace` does."""
    _jax.require_supported()
    if not callable(fn):
        raise TraceError(
            f"jaxprviz was asked to trace {_value_text(fn)}",
            f"{'an array' if _has_shape(fn) else f'a value of type {type(fn).__name__}'} can't be called",
            "Pass the function itself and then its arguments: draw(f, x, y), not draw(f(x, y)).",
        )
    asked = f"jaxprviz was asked to trace {_call_text(fn, args, kwargs)}"
    constant_names = reachable_arrays(fn)
    try:
        with _jax.whole_tracebacks(), _jax.names_kept():
            jaxpr, leaves = _make_jaxpr(fn, args, kwargs)
    except Exception as error:
        problem = explained(error, asked)
        if isinstance(problem, TraceError):
            problem.original = error
        raise problem from None
    lying = tuple(map(_jax.sharding_of, leaves))
    known = any(lying) and len(lying) == len(_jax.open_jaxpr(jaxpr).invars)
    program = replace(read(jaxpr, name_of(fn), constant_names), shardings=lying if known else ())
    _require_devices(program, asked)
    return Traced(program, jaxpr, leaves, name_of(fn), constant_names)


def _make_jaxpr(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...]]:
    """The jaxpr, and the arrays that it takes."""
    declared = _declared_static(fn, args, kwargs)
    fn, args, kwargs = _without_other_leaves(fn, args, kwargs, declared)
    static = {place for place, value in _places(args, kwargs) if not _is_dynamic(value)} | declared
    try:
        return _make_jaxpr_of_rest(fn, args, kwargs, static)
    except ValueError as error:
        # A pmapped function tells its static arguments only by refusing to have them traced.
        refused = _TRACED_STATIC.search(str(error))
        if refused is None or int(refused["place"]) in static:
            raise
        static.add(int(refused["place"]))
    return _make_jaxpr_of_rest(fn, args, kwargs, static)


_TRACED_STATIC = re.compile(r"Static argument \(index (?P<place>\d+)\) of type .*Tracer")


def _make_jaxpr_of_rest(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], static: set[Place]
) -> tuple[Any, tuple[Any, ...]]:
    if static:
        fn = _closed_over(fn, args, kwargs, static)
        args = tuple(value for place, value in enumerate(args) if place not in static)
        kwargs = {name: value for name, value in kwargs.items() if name not in static}
    return jax.make_jaxpr(fn)(*args, **kwargs), tuple(jax.tree.leaves((args, kwargs)))


Place = int | str
"""An argument by its position or by its keyword."""


def _places(args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[Place, Any]]:
    return [*enumerate(args), *kwargs.items()]


def _is_dynamic(value: Any) -> bool:
    """Whether an argument is traced: a tree whose leaves, if it has any, are arrays and numbers."""
    return all(_jax.is_array(leaf) for leaf in jax.tree.leaves(value))


def _without_other_leaves(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], static: set[Place]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """`fn` as a function of the arrays in trees that hold other things too, as a model holds its activation.

    The other things, numbers among them, are given to `fn` as they are.
    """
    mixed = {
        place: jax.tree.flatten(value)
        for place, value in _places(args, kwargs)
        if place not in static and _is_mixed(value)
    }
    if not mixed:
        return fn, args, kwargs

    def whole(place: Place, value: Any) -> Any:
        if place not in mixed:
            return value
        leaves, shape = mixed[place]
        arrays = iter(jax.tree.leaves(value))
        return shape.unflatten([next(arrays) if _has_shape(leaf) else leaf for leaf in leaves])

    def arrays_of(place: Place, value: Any) -> Any:
        if place not in mixed:
            return value
        leaves, shape = mixed[place]
        return shape.unflatten([leaf if _has_shape(leaf) else None for leaf in leaves])

    @functools.wraps(fn, updated=())
    def call(*given: Any, **named: Any) -> Any:
        return fn(
            *(whole(place, value) for place, value in enumerate(given)),
            **{name: whole(name, value) for name, value in named.items()},
        )

    return (
        call,
        tuple(arrays_of(place, value) for place, value in enumerate(args)),
        {name: arrays_of(name, value) for name, value in kwargs.items()},
    )


def _is_mixed(value: Any) -> bool:
    """Whether a tree holds arrays and things that are none."""
    leaves = jax.tree.leaves(value)
    return any(map(_has_shape, leaves)) and not all(map(_jax.is_array, leaves))


def _has_shape(leaf: Any) -> bool:
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def _declared_static(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> set[Place]:
    """The arguments that a jitted or pmapped function declares static.

    JAX tells them only indirectly: they are missing from the names of what it traces.
    """
    values = [
        (place, value) for place, value in _places(args, kwargs) if isinstance(value, (bool, int, str, tuple))
    ]
    if not values:
        return set()
    names = _traced_names(fn, args, kwargs)
    if names is None:
        return set()
    try:
        bound = inspect.signature(fn).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return set()  # no signature, or arguments that do not fit it: JAX will say so
    positional = list(bound.signature.parameters)[: len(args)]
    return {
        place
        for place, _ in values
        if (positional[place] if isinstance(place, int) and place < len(positional) else place) not in names
    }


def _traced_names(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> set[str] | None:
    """The names of the arguments that JAX traces of a jitted function; None for other callables."""
    if not (hasattr(fn, "trace") and hasattr(fn, "lower")):
        return None
    names = _jax.arg_names(_jax.open_jaxpr(fn.trace(*args, **kwargs).jaxpr))
    return {name.split("[")[0].split(".")[0] for name in names if name}


def _closed_over(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], static: set[Place]
) -> Callable[..., Any]:
    """`fn` as a function of its other arguments only."""

    def call(*dynamic: Any, **named: Any) -> Any:
        left = iter(dynamic)
        positional = [value if place in static else next(left) for place, value in enumerate(args)]
        fixed = {name: value for name, value in kwargs.items() if name in static}
        return fn(*positional, **fixed, **named)

    functools.update_wrapper(call, fn, updated=())
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return call
    kept = [
        parameter
        for place, (name, parameter) in enumerate(signature.parameters.items())
        if place not in static and name not in static
    ]
    call.__signature__ = signature.replace(parameters=kept)  # pyright: ignore[reportFunctionMemberAccess]
    return call


def _require_devices(program: Program, asked: str) -> None:
    """JAX 0.7 traces a pmap over more devices than there are, and fails only when it runs."""
    for body in program.bodies:
        for equation in body.equations:
            if equation.primitive != "pmap" or equation.device is None:
                continue
            name, size = equation.name or "the function", equation.device.mesh.size
            if size == 0:
                raise no_slices(asked, name)
            if size > program.devices:
                raise too_many_devices(asked, name, size, program.devices)


def _call_text(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    parts = [_value_text(value) for value in args] + [
        f"{name}={_value_text(value)}" for name, value in kwargs.items()
    ]
    return f"{name_of(fn)}({_shortened(', '.join(parts))})"


def _value_text(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _jax.read_type(jax.ShapeDtypeStruct(value.shape, value.dtype)).short
    if isinstance(value, (bool, int, float, complex, str, type(None))):
        return _shortened(repr(value), 40)
    return type(value).__name__


def _shortened(text: str, longest: int = 200) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
