"""What each device really computed: a program run once, with the values of its device scopes recorded."""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxprviz._observe import FILLED, Observation, observe
from jaxprviz._run import MOST_STEPS, Position
from jaxprviz._scope import Scope, path_text
from jaxprviz._text import one_line
from jaxprviz._words import boundary_text
from jaxprviz.errors import RunError
from jaxprviz.program import Program, Type

_MOST_ROWS = 16
_MOST_NUMBERS = 6
_MOST_RUNS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What the devices held of one variable.

    Attributes:
        number: the variable's number in its scope.
        name: its Python name; None where none is known.
        type: its type on one device.
        steps: one a device, in the mesh's order: the values that it had there, one a run of the scope (several in a
            loop, none in a branch that the device did not take), as far as they are kept.  Of keys, their numbers.
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
            why = self.missing or f"the devices ran it {' or '.join(map(str, sorted(counts)))} times"
            raise RunError(
                f"the values of {self.name or f'variable {self.number}'} as one array",
                why,
                "Look at .steps: the values of each device by themselves.",
            )
        stacked = [np.stack(steps) for steps in self.steps]
        return np.stack([steps[0] if len(steps) == 1 else steps for steps in stacked])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SeenScope:
    """What was seen of one scope.

    Attributes:
        path: its path, as `draw` names it.
        title: what it is.
        axes: name and size of the mesh axes over which it runs once a device, the outermost first.
        devices: the positions along these axes, one a device, in the mesh's order.
        runs: how often each device ran it.
        kept: of so many runs a device the values are kept: of the first ones.
        variables: one a variable.
    """

    path: str
    title: str
    axes: tuple[tuple[str, int], ...]
    devices: tuple[Position, ...]
    runs: tuple[int, ...]
    kept: int
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
            f"Those with names: {names}.  Each can be had by its number: 0 to {len(self.variables) - 1}.",
        )

    def __repr__(self) -> str:
        return _scope_text(self)

    def _repr_html_(self) -> str:
        """The table, for a notebook."""
        return _scope_html(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
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
    results: tuple[Any, ...]
    filled: bool = False

    def __getitem__(self, path: str) -> SeenScope:
        """A scope by its path.  Raises RunError when there is none."""
        for scope in self.scopes:
            if scope.path == path:
                return scope
        there = ", ".join(f"{scope.path} ({scope.title})" for scope in self.scopes) or "none"
        raise RunError(f"the values at {path!r}", "no device scope stands there", f"There are: {there}.")

    def named(self, name: str) -> dict[str, Seen]:
        """The variables of a Python name, by the path of their scope: the last one of that name in each.

        Raises:
            RunError: there is none.
        """
        found = {scope.path: seen for scope in self.scopes for seen in scope.variables if seen.name == name}
        if found:
            return found
        there = dict.fromkeys(seen.name for scope in self.scopes for seen in scope.variables if seen.name)
        raise RunError(
            f"the values of {name!r}",
            "no variable of the device scopes is called so",
            f"Those with names: {', '.join(there) or 'none'}.",
        )

    def __repr__(self) -> str:
        return "\n\n".join([*map(_scope_text, self.scopes), *self._notes()])

    def _repr_html_(self) -> str:
        """The tables, for a notebook."""
        return "".join([*map(_scope_html, self.scopes), *(f"<p>{note}</p>" for note in self._notes())])

    def _notes(self) -> Iterator[str]:
        if not self.scopes:
            yield "The program has no device scope."
        if self.filled:
            yield FILLED


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


# --- tables -------------------------------------------------------------------------------------------------


def _seen_scope(run: Observation, scope: Scope) -> SeenScope:
    record, axes = run.record(scope), run.axes(scope)
    devices = tuple(itertools.product(*(range(size) for _, size in axes)))
    return SeenScope(
        path_text(scope.path),
        boundary_text(scope),
        axes,
        devices,
        tuple(0 if record is None else record.counts.get(device, 0) for device in devices),
        MOST_STEPS if record is None else record.kept,
        tuple(_seen(run, scope, variable, devices) for variable in range(len(scope.body.types))),
    )


def _seen(run: Observation, scope: Scope, variable: int, devices: Sequence[Position]) -> Seen:
    kind, name = scope.body.types[variable], scope.name(variable)
    steps = run.steps(scope, variable)
    if steps is None:
        return Seen(variable, name, kind, missing=run.missing(scope, variable))
    return Seen(variable, name, kind, tuple(tuple(steps.get(device, ())) for device in devices))


def _scope_text(scope: SeenScope) -> str:
    head = _heading(scope)
    lines = []
    for label, kind, cells in _table(scope):
        lines.append(f"{label}: {kind}".removesuffix(": "))
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
    reasons = {seen.missing for seen in scope.variables}
    if len(reasons) == 1 and None not in reasons:
        yield "all variables", "", [("", f"not seen: {reasons.pop()}")]
        return
    for seen in scope.variables:
        label = one_line(seen.name or f"variable {seen.number}")
        if seen.missing is not None:
            yield label, seen.type.short, [("", f"not seen: {seen.missing}")]
            continue
        cells = [
            (_device_text(scope, device), _steps_text(steps, runs, scope.kept))
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


def _steps_text(steps: Sequence[np.ndarray], runs: int, kept: int) -> str:
    if not steps:
        return "not run on this device"
    shown = "; ".join(map(_array_text, steps[:_MOST_RUNS]))
    if runs > min(len(steps), _MOST_RUNS):
        shown += f"; … {runs} runs"
    if runs > kept:
        shown += ", only the first kept" if kept == 1 else f", the first {kept} kept"
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
