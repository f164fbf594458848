"""One run of a program, told by the paths and variables of the program as it is drawn."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxprviz._inspect import inspected
from jaxprviz._pmap import fold_pmaps
from jaxprviz._read import Reader, Variables
from jaxprviz._run import (
    Position,
    Record,
    Recording,
    calls_host,
    effects_of,
    has_abstract_mesh,
    is_cut_up,
    is_of_other_devices,
    run_plainly,
    run_recorded,
)
from jaxprviz._scope import Path, Scope
from jaxprviz._trace import Traced, traced
from jaxprviz.errors import JaxprvizError, RunError
from jaxprviz.program import Program

FILLED = "Example shapes were filled with numbers."


@dataclass(frozen=True, slots=True)
class Observation:
    """A program, as it is drawn, and what one run of it showed.

    Attributes:
        program: the program, with its pmaps folded.
        recording: what was seen, by JAX's own paths and variables.
        filled: whether example shapes were filled with numbers.
        leaves: the arrays that the program was given, one an input.
    """

    program: Program
    recording: Recording
    filled: bool
    leaves: tuple[Any, ...]
    _marked: Program
    _traced: Traced

    def results(self) -> tuple[Any, ...] | None:
        """What the program returns, one an output, each lying where JAX puts it.

        May run the program once more; None where that is not done, because it does something outside of itself.
        """
        found = self._traced
        if self.recording.records and not self.recording.whole and not is_cut_up(found.jaxpr):
            return self.recording.results
        if self.recording.records and calls_host(found.jaxpr):
            return None
        return _explained(found, lambda: run_plainly(found.jaxpr, self.leaves))

    def shardings(self, asked: Sequence[tuple[Scope, int]]) -> list[Sequence[Any] | str]:
        """How variables outside of the device scopes lie where JAX compiles the program, which is not run for that.

        Args:
            asked: scopes, and variables of theirs by number.

        Returns:
            For each variable the shardings that it has, one for each time that the compiler meets it; or why there
            are none.
        """
        found = self._traced
        keys = [(self._path(scope), self._key(scope, variable)) for scope, variable in asked]
        try:
            seen = inspected(found.jaxpr, self.leaves, keys)
        except Exception as error:
            # That it runs in pieces is no promise that JAX compiles it whole; what it says is passed on.
            return [f"JAX does not compile the program whole: {_first_line(error)}"] * len(keys)
        return [seen.get(key) or "the compiler does not tell" for key in keys]

    def scopes(self) -> Iterator[Scope]:
        """The device scopes and all scopes in them, in the order of the code."""
        stack = [Scope.root(self.program)]
        while stack:
            scope = stack.pop()
            if self.axes(scope):
                yield scope
            stack.extend(reversed(tuple(scope.children())))

    def axes(self, scope: Scope) -> tuple[tuple[str, int], ...]:
        """Name and size of the mesh axes over which a scope runs once a device, the outermost first."""
        if scope.parent is None:
            return ()
        around, device = self.axes(scope.parent), scope.equation.device if scope.equation else None
        if device is None:
            return around
        return (*around, *(axis for axis in device.mesh.axes if axis[0] in device.manual))

    def record(self, scope: Scope) -> Record | None:
        """What was seen of a scope; None when it is outside of device scopes, or was not watched, or not run."""
        return self.recording.records.get(self._path(scope)) if self.recording.records else None

    def steps(self, scope: Scope, variable: int) -> Mapping[Position, Sequence[np.ndarray]] | None:
        """By device, the values of a variable of a device scope, of the runs that are kept; None where there are
        none.
        """
        record, key = self.record(scope), self._key(scope, variable)
        if record is None or not record.steps:
            return None
        if key in self.recording.literals:
            value = np.asarray(self.recording.literals[key])
            return {device: [value] * len(steps) for device, steps in record.steps.items()}
        if not all(key in step for steps in record.steps.values() for step in steps):
            return None
        return {device: [step[key] for step in steps] for device, steps in record.steps.items()}

    def coordinates(self, scope: Scope, device: Position) -> list[tuple[int, ...] | None]:
        """Which run each run of a device scope is: `Recording.coordinates`."""
        return self.recording.coordinates(self._path(scope), device)

    def outer(self, scope: Scope, variable: int) -> Sequence[Any] | None:
        """The arrays that a variable outside of the device scopes was, one a run; None where there are none."""
        key, own = self._key(scope, variable), self._path(scope)
        if key in self.recording.literals:
            return [self.recording.literals[key]] * len(self.recording.outer.get(own, ()))
        # An array that is baked into the wrapper of a pmap is drawn around it, and was seen inside.
        for path, runs in self.recording.outer.items():
            if path[: len(own)] == own and runs and all(key in run for run in runs):
                return [run[key] for run in runs]
        return None

    def missing(self, scope: Scope, variable: int) -> str:
        """Why there are no values of a variable of a device scope."""
        here: Scope | None = scope
        while here is not None:
            why = self.recording.unwatched.get(self._path(here))
            if why is not None:
                return why
            here = here.parent
        record = self.record(scope)
        if record is None or not record.counts:
            return "no device ran it"
        return f"it is no array of numbers: {scope.body.types[variable].short}"

    def _key(self, scope: Scope, variable: int) -> int:
        """The `id` of JAX's variable."""
        text = self._marked.bodies[scope.number].types[variable].dtype
        return int(text.rpartition(_MARK)[2])

    def _path(self, scope: Scope) -> Path:
        """JAX's own path to a scope."""
        if scope.parent is None:
            return ()
        equation, call = scope.path[-1]
        marked = self._marked.bodies[scope.parent.number].equations[equation]
        outer = self._path(scope.parent)
        _, position, primitive = marked.scopes[-1].split(_MARK)
        inner = (*outer, (int(position), call))
        # A pmap that was folded from a jit that holds nothing but a shard_map.
        return (*inner, (0, 0)) if (primitive, marked.primitive) == ("jit", "pmap") else inner


def observe(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, run_effects: bool
) -> Observation:
    """Runs a function once, with its device scopes watched; raises as `values` does."""
    found = traced(fn, args, kwargs)
    asked = _asked(found)
    effects = effects_of(found.jaxpr)
    if effects and not run_effects:
        raise RunError(
            asked,
            f"it has effects ({', '.join(effects)}): it prints, or calls back to the host",
            "If it may be run for that once more, pass run_effects=True.",
        )
    leaves = tuple(_filled(leaf, asked) for leaf in found.leaves)
    filled = any(one is not other for one, other in zip(leaves, found.leaves, strict=True))
    program = fold_pmaps(found.program)
    if not any(equation.device for body in program.bodies for equation in body.equations):
        return Observation(program, Recording({}, {}, {}), filled, leaves, fold_pmaps(_marked(found)), found)
    recording = _explained(found, lambda: run_recorded(found.jaxpr, leaves))
    return Observation(program, recording, filled, leaves, fold_pmaps(_marked(found)), found)


def _asked(found: Traced) -> str:
    return f"jaxprviz was asked to run {found.name}"


_Run = TypeVar("_Run")


def _explained(found: Traced, run: Callable[[], _Run]) -> _Run:
    """What a run gives; raises RunError when JAX refuses it, or it fails."""
    try:
        return run()
    except JaxprvizError:
        raise
    except Exception as error:
        raise _run_error(found, error) from error


def _run_error(found: Traced, error: Exception) -> RunError:
    first = _first_line(error)
    for fits, wrong, remedy in _FAILURES:
        if fits(found, error):
            return RunError(_asked(found), f"{wrong} ({first})", remedy)
    return RunError(
        _asked(found),
        f"JAX refuses it, or it fails: {first}",
        "See that the function runs with these arguments by itself.",
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return textwrap.shorten(
        f"{type(error).__name__}: {lines[0] if lines else 'no message'}", 200, placeholder=" …"
    )


_FAILURES: tuple[tuple[Callable[[Traced, Exception], bool], str, str], ...] = (
    (
        lambda found, error: has_abstract_mesh(found.jaxpr),
        "a device scope speaks of a mesh that has no devices, an AbstractMesh",
        "Pass arrays that lie on a mesh of devices, or make the mesh of them: jax.make_mesh((4,), ('data',)).",
    ),
    (
        lambda found, error: isinstance(error, FloatingPointError),
        "it computes a number that is none, or infinite, and JAX is set to stop there",
        "To see on which device, switch jax_debug_nans and jax_debug_infs off and call jaxprviz.values.",
    ),
    (
        lambda found, error: is_of_other_devices(error),
        "parts of it lie on different devices",
        "Give all arrays and device scopes of one jit the same devices.",
    ),
    (
        lambda found, error: "RESOURCE_EXHAUSTED" in str(error),
        "the devices have not enough memory for it",
        "Pass smaller arrays.",
    ),
)
"""How JAX fails, what is wrong then, and what to do."""


def _filled(leaf: Any, asked: str) -> Any:
    """An array for an example shape: its numbers are all different, as far as its type has so many."""
    if not isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    if jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
        raise RunError(
            asked,
            f"an argument is an example shape of type {leaf.dtype}, for which there are no numbers",
            "Pass a real one, for instance jax.random.key(0).",
        )
    count = int(np.prod(leaf.shape))
    numbers = np.arange(count).reshape(leaf.shape)
    if jnp.issubdtype(leaf.dtype, jnp.inexact):
        numbers = (numbers + 1) / max(count, 1)
    elif leaf.dtype == bool:
        numbers = numbers % 3 == 0
    elif jnp.issubdtype(leaf.dtype, jnp.integer):
        numbers = numbers % (int(jnp.iinfo(leaf.dtype).max) + 1)
    array = jnp.asarray(numbers, leaf.dtype)
    sharding = getattr(leaf, "sharding", None)
    mesh = getattr(sharding, "mesh", None)
    return jax.device_put(array, sharding) if isinstance(mesh, jax.sharding.Mesh) else array


_MARK = "\0"


class _MarkedVariables(Variables):
    """Variables whose types hold the `id` of JAX's own."""

    def new(self, var: Any) -> int:
        number = super().new(var)
        kind = self.types[number]
        self.types[number] = replace(kind, dtype=f"{kind.dtype}{_MARK}{id(var)}")
        return number


class _MarkedReader(Reader):
    """Reads a program of the same form, in which variables and equations tell what they are in JAX's jaxpr.

    The views that are drawn move them about, and keep their marks.
    """

    variables = _MarkedVariables

    def _read(self, closed: Any, given_name: str | None, derived: bool, fed: bool) -> Any:
        body, literals = super()._read(closed, given_name, derived, fed)
        marked = tuple(
            replace(equation, scopes=(*equation.scopes, f"{_MARK}{position}{_MARK}{equation.primitive}"))
            for position, equation in enumerate(body.equations)
        )
        return replace(body, equations=marked), literals


def _marked(found: Traced) -> Program:
    return _MarkedReader.program(found.jaxpr, found.name, found.constant_names)
