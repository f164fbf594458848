"""What each device really computed: a program run once, with the values of its device scopes recorded."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprviz._pmap import fold_pmaps
from jaxprviz._read import Reader, Variables
from jaxprviz._run import MOST_STEPS, Position, Recording, is_cut_up, run_plainly, run_recorded
from jaxprviz._scope import Path, Scope, path_text
from jaxprviz._text import one_line
from jaxprviz._trace import Traced, traced
from jaxprviz._words import boundary_text
from jaxprviz.errors import JaxprvizError, RunError
from jaxprviz.program import Kind, Program, Type

_QUIET = frozenset(
    {
        "NamedAxisEffect",
        "ReadEffect",
        "WriteEffect",
        "AccumEffect",
        "InternalMutableArrayEffect",
        "ArrayEffect",
    }
)
"""Effects that nobody outside of the program sees."""

_MOST_ROWS = 16
_MOST_NUMBERS = 6


@dataclass(frozen=True, slots=True)
class Seen:
    """What the devices held of one variable.

    Attributes:
        number: the variable's number in its scope.
        name: its Python name; None where none is known.
        type: its type on one device.
        steps: one a device, in the mesh's order: the values that it had there, one a run of the scope (several in a
            loop, none in a branch that the device did not take; the first 64 runs are kept).
        missing: why there are no values; None when there are.
    """

    number: int
    name: str | None
    type: Type
    steps: tuple[tuple[np.ndarray, ...], ...] = ()
    missing: str | None = None

    @property
    def rows(self) -> np.ndarray:
        """The values, one row a device: shape (devices, *shape); with an axis for the runs after the first where
        each device had the same number of several.

        Raises:
            RunError: there are none, or not the same number on each device.
        """
        counts = {len(steps) for steps in self.steps}
        if self.missing is not None or len(counts) != 1 or counts == {0}:
            why = self.missing or f"the devices ran it {sorted(counts)} times"
            raise RunError(
                f"the values of {self.name or f'variable {self.number}'} as one array",
                why,
                "Look at .steps: the values of each device by themselves.",
            )
        stacked = [np.stack(steps) for steps in self.steps]
        return np.stack([steps[0] if len(steps) == 1 else steps for steps in stacked])


@dataclass(frozen=True, slots=True)
class SeenScope:
    """What was seen of one scope.

    Attributes:
        path: its path, as `draw` names it.
        title: what it is.
        axes: name and size of the mesh axes over which it runs once a device, the outermost first.
        devices: the positions along these axes, one a device, in the order of `Seen.steps`.
        runs: how often each device ran it.
        variables: one a variable.
    """

    path: str
    title: str
    axes: tuple[tuple[str, int], ...]
    devices: tuple[Position, ...]
    runs: tuple[int, ...]
    variables: tuple[Seen, ...]

    def __getitem__(self, which: str | int) -> Seen:
        """A variable by its Python name, or by its number.  Raises RunError when there is none, or several."""
        found = [seen for seen in self.variables if which in (seen.name, seen.number)]
        if len(found) == 1:
            return found[0]
        names = ", ".join(dict.fromkeys(seen.name for seen in self.variables if seen.name)) or "none"
        raise RunError(
            f"the values of {which!r} in {self.title}",
            "no variable is called so there" if not found else f"{len(found)} variables are called so there",
            f"Those with names: {names}.  Each can be had by its number: {0} to {len(self.variables) - 1}.",
        )


@dataclass(frozen=True, slots=True)
class Values:
    """What `values` saw.

    Attributes:
        program: the program, as `draw` shows it.
        scopes: the device scopes and what stands in them, in the order of the code.
        results: what the program returned, one an output.
        filled: whether example shapes were filled with numbers.
    """

    program: Program
    scopes: tuple[SeenScope, ...]
    results: tuple[Any, ...] = field(repr=False)
    filled: bool = False

    def __getitem__(self, path: str) -> SeenScope:
        """A scope by its path.  Raises RunError when there is none."""
        for scope in self.scopes:
            if scope.path == path:
                return scope
        there = ", ".join(f"{scope.path} ({scope.title})" for scope in self.scopes) or "none"
        raise RunError(f"the values at {path!r}", "no device scope stands there", f"There are: {there}.")

    def __repr__(self) -> str:
        return "\n\n".join(_scope_text(scope) for scope in self.scopes) or "The program has no device scope."

    def _repr_html_(self) -> str:
        """The tables, for a notebook."""
        return "".join(map(_scope_html, self.scopes)) or "<p>The program has no device scope.</p>"


def values(fn: Callable[..., Any], /, *args: Any, run_effects: bool = False, **kwargs: Any) -> Values:
    """Runs a function once and tells what each device computed in its device scopes.

    The program is run as JAX traced it, equation by equation outside of the device scopes (so a loop around one is
    run step by step), on the devices that there are.

    Args:
        fn: a function, as for `draw`.
        *args: its arguments.  A `jax.ShapeDtypeStruct` is filled with numbers that are all different; what
            the function donates is kept.
        run_effects: also run a program that prints or calls back to the host.
        **kwargs: keyword arguments of `fn`.

    Returns:
        The values of each variable, one row a device: `values(f, w, x)["0"]["w"].rows`.

    Raises:
        TraceError, DevicesError, VersionError: as `trace` does.
        RunError: the program has effects and `run_effects` is not set, or it fails when it is run.
    """
    run = observe(fn, args, kwargs, run_effects=run_effects)
    scopes = tuple(_seen_scope(run, scope) for scope in run.scopes())
    return Values(run.program, scopes, run.recording.results, run.filled)


# --- running ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Observation:
    """A program, as it is drawn, and what one run of it showed.

    Attributes:
        program: the program, with its pmaps folded.
        recording: what was seen, by JAX's own paths and variables.
        filled: whether example shapes were filled with numbers.
    """

    program: Program
    recording: Recording
    filled: bool
    _marked: Program
    _traced: Traced
    _leaves: tuple[Any, ...]

    def results(self) -> tuple[Any, ...]:
        """What the program returns, one an output, each lying where JAX puts it; may run it once more."""
        if not self.recording.records or is_cut_up(self._traced.jaxpr):
            return run_plainly(self._traced.jaxpr, self._leaves)
        return self.recording.results

    def scopes(self) -> Iterator[Scope]:
        """The device scopes and all scopes in them, in the order of the code; not those that were never entered."""
        stack = [Scope.root(self.program)]
        while stack:
            scope = stack.pop()
            if scope.parent is not None and self.record(scope) is not None:
                yield scope
            stack.extend(reversed(tuple(scope.children())))

    def record(self, scope: Scope) -> Any:
        """What was seen of a scope; None when it is outside of device scopes, or was not watched."""
        return self.recording.records.get(self._path(scope)) if self.recording.records else None

    def steps(self, scope: Scope, variable: int) -> Mapping[Position, Sequence[np.ndarray]] | None:
        """By device, the values of a variable of a device scope; None where there are none."""
        record, key = self.record(scope), self._key(scope, variable)
        if record is None or not all(key in step for steps in record.steps.values() for step in steps):
            return None
        return {device: [step[key] for step in steps] for device, steps in record.steps.items()}

    def outer(self, scope: Scope, variable: int) -> Sequence[Any] | None:
        """The arrays that a variable outside of the device scopes was, one a run; None where there are none."""
        key, own = self._key(scope, variable), self._path(scope)
        # An array that is baked into the wrapper of a pmap is drawn around it, and was seen inside.
        for path, runs in self.recording.outer.items():
            if path[: len(own)] == own and runs and all(key in run for run in runs):
                return [run[key] for run in runs]
        return None

    def missing(self, scope: Scope) -> str:
        """Why nothing was seen of a scope."""
        here: Scope | None = scope
        while here is not None:
            name = self.recording.unwatched.get(self._path(here))
            if name is not None:
                return f"what {name} holds can't be watched"
            here = here.parent
        return "it was not run"

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
    asked = f"jaxprviz was asked to run {found.name}"
    effects = sorted({type(effect).__name__ for effect in found.jaxpr.effects} - _QUIET)
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
        return Observation(program, Recording({}, {}, {}, ()), filled, program, found, leaves)
    try:
        recording = run_recorded(found.jaxpr, leaves)
    except JaxprvizError:
        raise
    except Exception as error:
        raise run_error(asked, error) from error
    return Observation(program, recording, filled, fold_pmaps(_marked(found)), found, leaves)


def run_error(asked: str, error: Exception) -> RunError:
    """What is said when JAX refuses to run a program."""
    lines = str(error).strip().splitlines()
    first = lines[0] if lines else "no message"
    return RunError(
        asked,
        f"JAX refuses it, or it fails: {type(error).__name__}: {first}",
        "See that the function runs with these arguments by itself.",
    )


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


# --- from what JAX holds to what is drawn -------------------------------------------------------------------

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


# --- tables -------------------------------------------------------------------------------------------------


def _seen_scope(run: Observation, scope: Scope) -> SeenScope:
    record = run.record(scope)
    devices = tuple(sorted(record.counts))
    return SeenScope(
        path_text(scope.path),
        boundary_text(scope),
        record.axes,
        devices,
        tuple(record.counts[device] for device in devices),
        tuple(_seen(run, scope, variable, devices) for variable in range(len(scope.body.types))),
    )


def _seen(run: Observation, scope: Scope, variable: int, devices: Sequence[Position]) -> Seen:
    kind, name = scope.body.types[variable], scope.name(variable)
    steps = run.steps(scope, variable)
    if steps is None:
        numbers = kind.kind is Kind.ARRAY and not kind.dtype.startswith("key<")
        why = "it was not recorded" if numbers else f"it is no array of numbers: {kind.short}"
        return Seen(variable, name, kind, missing=why)
    return Seen(variable, name, kind, tuple(tuple(steps.get(device, ())) for device in devices))


def _scope_text(scope: SeenScope) -> str:
    head = _heading(scope)
    lines = []
    for label, kind, cells in _table(scope):
        lines.append(f"{label}: {kind}")
        lines += [f"  {device:>12}  {text}" for device, text in cells]
    return "\n".join([head, *lines])


def _scope_html(scope: SeenScope) -> str:
    rows = []
    for label, kind, cells in _table(scope):
        for place, (device, text) in enumerate(cells):
            first = (
                f'<th scope="row" rowspan="{len(cells)}" style="text-align:left">{html.escape(label)}<br>'
                f"<small>{html.escape(kind)}</small></th>"
                if place == 0
                else ""
            )
            rows.append(
                f'<tr>{first}<td>{html.escape(device)}</td><td style="text-align:left"><code>{html.escape(text)}'
                "</code></td></tr>"
            )
    return (
        f"<table><caption>{html.escape(_heading(scope))}</caption><thead><tr><th>variable</th><th>device</th>"
        f"<th>values</th></tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _heading(scope: SeenScope) -> str:
    over = " × ".join(f"{name}={size}" if name else f"{size} devices" for name, size in scope.axes)
    path = f" at {scope.path}" if scope.path else ""
    return one_line(f"{scope.title}{path} over {over}")


def _table(scope: SeenScope) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """For each variable what it is called, its type, and a row a device."""
    for seen in scope.variables:
        label = one_line(seen.name or f"variable {seen.number}")
        if seen.missing is not None:
            yield label, seen.type.short, [("", f"not seen: {seen.missing}")]
            continue
        cells = [
            (_device_text(scope, device), _steps_text(steps, runs))
            for device, steps, runs in zip(scope.devices, seen.steps, scope.runs, strict=True)
        ]
        more = len(cells) - _MOST_ROWS
        yield (
            label,
            seen.type.short,
            cells if more <= 0 else [*cells[:_MOST_ROWS], ("", f"… {more} more devices")],
        )


def _device_text(scope: SeenScope, device: Position) -> str:
    return ", ".join(
        f"{name}={index}" if name else f"device {index}"
        for (name, _), index in zip(scope.axes, device, strict=True)
    )


def _steps_text(steps: Sequence[np.ndarray], runs: int) -> str:
    shown = "; ".join(map(_array_text, steps[:3]))
    if runs > 3:
        shown += f"; … {runs} runs" + (f", the first {MOST_STEPS} kept" if runs > MOST_STEPS else "")
    return shown


def _array_text(array: np.ndarray) -> str:
    flat = array.ravel()
    shown = " ".join(_number_text(value) for value in flat[:_MOST_NUMBERS])
    more = " …" if flat.size > _MOST_NUMBERS else ""
    return shown + more if array.ndim == 0 else f"[{shown}{more}]"


def _number_text(value: Any) -> str:
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return str(value)
    return f"{complex(value):.4g}" if np.iscomplexobj(value) else f"{float(value):.4g}"
