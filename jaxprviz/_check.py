"""Compares what is claimed of a program's device scopes with what JAX really made."""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxprviz._captures import captures
from jaxprviz._facts import Capture, Crossing, Ground, Layout, Spread
from jaxprviz._flow import Flow, flow
from jaxprviz._grid import Bounds, bounds_of, parts_text
from jaxprviz._placement import placement, places
from jaxprviz._run import Position
from jaxprviz._scope import Scope, path_text
from jaxprviz._text import one_line
from jaxprviz._values import Observation, observe
from jaxprviz._words import boundary_text, layout_text, result_name, spread_text, title_of
from jaxprviz.program import Atom, Literal


class Outcome(StrEnum):
    """What became of a claim.

    HOLDS: the values agree.  WEAK: they agree, and would also if the claim were another one: all parts are equal.
    FAILS: they do not agree.  OTHERWISE: the program asks for it, and JAX made it otherwise.  NOT_SEEN: there are no
    values to compare with.
    """

    HOLDS = "holds"
    WEAK = "holds, but the values would not tell"
    FAILS = "FAILS"
    OTHERWISE = "made otherwise"
    NOT_SEEN = "not seen"


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim, and what became of it.

    Attributes:
        path: the scope that it is about, as `draw` names it.
        scope: what that scope is.
        variable: the variable that it is about, in words.
        says: what is claimed.
        outcome: what became of it.
        note: what was seen instead, or why nothing was seen; empty when there is nothing to say.
    """

    path: str
    scope: str
    variable: str
    says: str
    outcome: Outcome
    note: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What `check` found; true when no claim fails.

    Attributes:
        name: the function's name.
        claims: every claim, in the order of the code.
        filled: whether example shapes were filled with numbers.
    """

    name: str
    claims: tuple[Claim, ...]
    filled: bool = False

    def __bool__(self) -> bool:
        return not self.failed

    @property
    def failed(self) -> tuple[Claim, ...]:
        """The claims that the values refute."""
        return tuple(claim for claim in self.claims if claim.outcome is Outcome.FAILS)

    def __repr__(self) -> str:
        return "\n".join([_summary(self), *(f"  {_line(claim)}" for claim in self.claims)])

    def _repr_html_(self) -> str:
        """The claims as a table, for a notebook."""
        cells = "".join(
            "<tr>"
            + "".join(
                f'<td style="text-align:left">{html.escape(text)}</td>'
                for text in (_where(claim), claim.variable, claim.says, str(claim.outcome), claim.note)
            )
            + "</tr>"
            for claim in self.claims
        )
        heads = "".join(
            f'<th style="text-align:left">{text}</th>'
            for text in ("where", "variable", "claim", "outcome", "")
        )
        return (
            f"<table><caption>{html.escape(_summary(self))}</caption><thead><tr>{heads}</tr></thead>"
            f"<tbody>{cells}</tbody></table>"
        )


def check(fn: Callable[..., Any], /, *args: Any, run_effects: bool = False, **kwargs: Any) -> Report:
    """Runs a function once and compares each claim about its device scopes with what JAX really made.

    Claimed, by `explain` and by the pictures, is how each variable enters and leaves a device scope (copied whole,
    or which part each device holds), which values are the same on every device, and that a captured variable
    is the one that was bound outside.  Values are compared bit for bit.

    Args:
        fn: a function, as for `draw`.
        *args: its arguments, as for `values`.  Of arrays whose parts are all equal the values can't tell
            which part a device holds; the report says so.
        run_effects: also run a program that prints or calls back to the host.
        **kwargs: keyword arguments of `fn`.

    Returns:
        The report: true when no claim fails.

    Raises:
        TraceError, DevicesError, VersionError: as `trace` does.
        RunError: as `values` does.
    """
    run = observe(fn, args, kwargs, run_effects=run_effects)
    return Report(run.program.main.name or "the program", tuple(_claims(run)), run.filled)


def _claims(run: Observation) -> Iterator[Claim]:
    facts = flow(run.program)
    yield from _result_claims(run)
    stack = [Scope.root(run.program)]
    while stack:
        scope = stack.pop()
        yield from _border_claims(run, scope, facts)
        yield from _capture_claims(run, scope)
        yield from _spread_claims(run, scope, facts)
        stack.extend(reversed(tuple(scope.children())))


# --- what crosses a border ----------------------------------------------------------------------------------


def _border_claims(run: Observation, scope: Scope, facts: Flow) -> Iterator[Claim]:
    """That each device holds, of what enters and leaves a device scope, the part that is claimed.

    Of an array whose copies may differ, since an unchecked scope made them, it is only asked for.
    """
    placed, parent, equation = placement(scope), scope.parent, scope.equation
    if placed is None or parent is None or equation is None:
        return
    outside = facts.of(parent)
    for crossing in placed.entering:
        atom = equation.operands[crossing.position]
        unequal = isinstance(atom, int) and bool(outside[atom].unequal)
        yield _border_claim(run, scope, crossing, atom, _atom_text(parent, atom), unequal)
    for crossing in placed.leaving:
        result = equation.results[crossing.position]
        name = result_name(parent, result) or _atom_text(parent, result)
        yield _border_claim(run, scope, crossing, result, f"{name} (result)", bool(outside[result].unequal))


def _border_claim(
    run: Observation, scope: Scope, crossing: Crossing, outer: Atom, name: str, unequal: bool
) -> Claim:
    layout = crossing.layout.manual

    def claim(outcome: Outcome, note: str = "") -> Claim:
        says = layout_text(crossing.layout) + ("; copies may differ" if unequal else "")
        return Claim(path_text(scope.path), boundary_text(scope), one_line(name), says, outcome, note)

    if crossing.layout.spec is None:
        return claim(Outcome.NOT_SEEN, "nothing is claimed")
    if crossing.inside is None:
        return claim(Outcome.NOT_SEEN, "it is a number inside, or the wiring is not known")
    inner = run.steps(scope, crossing.inside)
    if inner is None:
        return claim(
            Outcome.NOT_SEEN, run.missing(scope) if run.record(scope) is None else "its values are no numbers"
        )
    wholes = _wholes(run, scope, outer)
    if wholes is None:
        return claim(Outcome.NOT_SEEN, "JAX keeps no array of it: nothing reads it")
    weak = True
    for device, steps in sorted(inner.items()):
        around = device[: len(device) - len(layout.mesh.axes)]
        own = device[len(around) :]
        whole = wholes.get(around, ())
        if len(whole) != len(steps):
            return claim(Outcome.NOT_SEEN, "the caller's array was recorded another number of times")
        for array, block in zip(whole, steps, strict=True):
            part = _part(array, layout, own)
            if part is None or part.size != block.size or not _same(part.reshape(block.shape), block):
                return claim(
                    Outcome.OTHERWISE if unequal else Outcome.FAILS,
                    f"on device {_position_text(layout, own)}: {_short(block)}, not {_short(part)}",
                )
            weak = weak and _parts_are_equal(array, layout)
    split = any(layout.spec or ())
    return claim(Outcome.WEAK if weak and split and inner else Outcome.HOLDS)


def _wholes(run: Observation, scope: Scope, outer: Atom) -> Mapping[Position, Sequence[np.ndarray]] | None:
    """The caller's array, by the position of the device scopes around the caller."""
    parent = scope.parent
    assert parent is not None
    record = run.record(parent)
    if isinstance(outer, Literal):
        return None
    if record is None:
        arrays = run.outer(parent, outer)
        return None if arrays is None else {(): [_host(array) for array in arrays]}
    return run.steps(parent, outer)


def _host(value: Any) -> np.ndarray:
    """An array on the host; a Python number is what JAX makes of it."""
    return np.asarray(value if hasattr(value, "dtype") else jnp.asarray(value))


def _part(array: np.ndarray, layout: Layout, device: Position) -> np.ndarray | None:
    """The part of an array that a device is said to hold."""
    blocks, parts = layout.block(device), layout.parts
    if blocks is None or parts is None or array.ndim != len(parts):
        return None
    index = []
    for size, block, count in zip(array.shape, blocks, parts, strict=True):
        length = size // count
        index.append(slice(None) if block is None else slice(block * length, (block + 1) * length))
    return array[tuple(index)]


def _parts_are_equal(array: np.ndarray, layout: Layout) -> bool:
    """Whether the values can't tell which part a device holds."""
    positions = itertools.product(*(range(size) for _, size in layout.mesh.axes))
    parts = [part for device in positions if (part := _part(array, layout, device)) is not None]
    return all(_same(parts[0], part) for part in parts[1:])


def _position_text(layout: Layout, device: Position) -> str:
    named = zip((name for name, _ in layout.mesh.axes), device, strict=True)
    return ", ".join(f"{name}={index}" if name else str(index) for name, index in named)


# --- what the program returns -------------------------------------------------------------------------------


def _result_claims(run: Observation) -> Iterator[Claim]:
    """That the results lie as their types say, and as the program asks for."""
    root = Scope.root(run.program)
    body = root.body
    where = places(run.program).of(root)
    told = [
        (position, place.ground, place.layout)
        for position, atom in enumerate(body.outputs)
        if isinstance(atom, int) and (place := where[atom]) is not None and place.layout is not None
        if place.ground in (Ground.TYPE, Ground.ASKED)
        and not place.layout.free
        and place.layout.spec is not None
    ]
    if not told:
        return
    results = run.results()
    for position, ground, layout in told:
        name = body.output_names[position] or "result"
        seen = _bounds_by_device(results[position])
        said = {
            device: _claimed_bounds(layout, index)
            for device, index in zip(
                layout.mesh.ids or range(layout.mesh.size),
                itertools.product(*(range(size) for _, size in layout.mesh.axes)),
                strict=True,
            )
        }
        wrong = Outcome.FAILS if ground is Ground.TYPE else Outcome.OTHERWISE
        outcome, note = (
            (Outcome.HOLDS, "") if seen == said else (wrong, f"JAX laid it {parts_text(list(seen.values()))}")
        )
        yield Claim("", title_of(root), one_line(name), layout_text(layout), outcome, note)


def _bounds_by_device(array: Any) -> dict[int, Bounds]:
    return {shard.device.id: bounds_of(shard.index, array.shape) for shard in array.addressable_shards}


def _claimed_bounds(layout: Layout, device: Position) -> Bounds:
    blocks, parts = layout.block(device) or (), layout.parts or ()
    found = []
    for size, block, count in zip(layout.type.shape, blocks, parts, strict=True):
        length = int(size) // count
        found.append((0, int(size)) if block is None else (block * length, (block + 1) * length))
    return tuple(found)


# --- captured variables -------------------------------------------------------------------------------------


def _capture_claims(run: Observation, scope: Scope) -> Iterator[Claim]:
    """That what a function in a device scope captures is what was bound outside, where both are in one."""
    if scope.parent is None or placement(scope) is not None or run.record(scope.parent) is None:
        return
    for capture in captures(scope):
        yield _capture_claim(run, capture)


def _capture_claim(run: Observation, capture: Capture) -> Claim:
    scope, origin = capture.scope, capture.origin
    says = f"captured: the value that is bound in {title_of(origin.scope)}"

    def claim(outcome: Outcome, note: str = "") -> Claim:
        name = one_line(capture.name or _atom_text(scope, capture.variable))
        return Claim(path_text(scope.path), boundary_text(scope), name, says, outcome, note)

    inner = run.steps(scope, capture.variable)
    if inner is None:
        return claim(
            Outcome.NOT_SEEN, run.missing(scope) if run.record(scope) is None else "its values are no numbers"
        )
    if any(placement(step) is not None for step in origin.through):
        return claim(Outcome.HOLDS, "see the device scope that it enters")
    outer = run.steps(origin.scope, origin.variable)
    if outer is None:
        return claim(Outcome.NOT_SEEN, "the value outside was not recorded")
    for device, steps in sorted(inner.items()):
        bound = outer.get(device, ())
        # Each run of the scope stands in one run of the scope that binds the variable, in order.
        if not bound or (len(bound) > 1 and len(steps) % len(bound)):
            return claim(Outcome.NOT_SEEN, "which run belongs to which is not known")
        each = len(steps) // len(bound) or 1
        for position, value in enumerate(steps):
            if not _same(bound[min(position // each, len(bound) - 1)], value):
                if len(bound) > 1:
                    return claim(Outcome.NOT_SEEN, "which run belongs to which is not known")
                return claim(Outcome.FAILS, f"inside it is {_short(value)}, outside {_short(bound[0])}")
    return claim(Outcome.HOLDS)


# --- the same on every device -------------------------------------------------------------------------------


def _spread_claims(run: Observation, scope: Scope, facts: Flow) -> Iterator[Claim]:
    """That values differ over no axis along which they are said to be the same."""
    record = run.record(scope)
    if record is None:
        return
    axes = [name for name, _ in record.axes]
    inputs = set(scope.body.inputs) if placement(scope) is not None else set()
    for variable, spread in enumerate(facts.of(scope)):
        if variable in inputs or not spread.axes:
            continue  # how it enters is claimed at the border
        yield _spread_claim(run, scope, variable, spread, axes)


def _spread_claim(
    run: Observation, scope: Scope, variable: int, spread: Spread, axes: Sequence[str]
) -> Claim:
    def claim(outcome: Outcome, note: str = "") -> Claim:
        name = one_line(_atom_text(scope, variable))
        return Claim(path_text(scope.path), boundary_text(scope), name, spread_text(spread), outcome, note)

    steps = run.steps(scope, variable)
    if steps is None:
        return claim(Outcome.NOT_SEEN, "its values are no numbers")
    same = set(spread.same)
    groups: dict[tuple[int, ...], list[Position]] = {}
    for device in sorted(steps):
        key = tuple(index for name, index in zip(axes, device, strict=True) if name not in same)
        groups.setdefault(key, []).append(device)
    for devices in groups.values():
        first, *others = devices
        for device in others:
            for one, other in zip(steps[first], steps[device], strict=False):
                if not _same(one, other):
                    return claim(Outcome.FAILS, f"{_short(one)} on {first}, {_short(other)} on {device}")
    differ = len({_key(steps[device]) for device in steps}) > 1
    return claim(
        Outcome.HOLDS, "" if differ or not spread.varying else "with these values it does not differ"
    )


def _key(steps: Sequence[np.ndarray]) -> tuple[bytes, ...]:
    return tuple(array.tobytes() for array in steps)


# --- values and words ---------------------------------------------------------------------------------------


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays are equal bit for bit; one that is no number equals itself."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return one.tobytes() == other.tobytes() or bool(
        np.all((one == other) | ((one != one) & (other != other)))
    )


def _short(array: np.ndarray | None) -> str:
    if array is None:
        return "something else"
    text = np.array2string(array.ravel()[:4], precision=4, separator=" ")
    return text.replace("]", " …]") if array.size > 4 else text


def _atom_text(scope: Scope, atom: Atom) -> str:
    if isinstance(atom, Literal):
        return f"the number {atom.text}"
    name = scope.name(atom)
    if name is not None:
        return name
    for equation in scope.body.equations:
        if atom in equation.results:
            return f"the result of {equation.name or equation.primitive}"
    return "an array"


def _where(claim: Claim) -> str:
    return f"{claim.scope} ({claim.path})" if claim.path else claim.scope


def _line(claim: Claim) -> str:
    note = f" ({claim.note})" if claim.note else ""
    return f"{claim.outcome}: {claim.variable} in {_where(claim)}: {claim.says}{note}"


def _summary(report: Report) -> str:
    counts = {outcome: sum(claim.outcome is outcome for claim in report.claims) for outcome in Outcome}
    if not report.claims:
        return f"{one_line(report.name)}: nothing is claimed of devices."
    told = ", ".join(f"{count} {_COUNTED[outcome]}" for outcome, count in counts.items() if count)
    filled = "  Example shapes were filled with numbers." if report.filled else ""
    return f"{one_line(report.name)}: of {len(report.claims)} claims {told}.{filled}"


_COUNTED = {
    Outcome.HOLDS: "hold",
    Outcome.WEAK: "hold, though the values would not tell",
    Outcome.FAILS: "FAIL",
    Outcome.OTHERWISE: "were made otherwise",
    Outcome.NOT_SEEN: "were not seen",
}
