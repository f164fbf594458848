"""Compares what is claimed of a program's device scopes with what JAX really made."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprviz._captures import captures
from jaxprviz._facts import Capture, Crossing, Ground, Layout, Spread
from jaxprviz._flow import Flow, flow
from jaxprviz._grid import Bounds, bounds_of, parts_text
from jaxprviz._observe import FILLED, Observation, observe
from jaxprviz._placement import placement, places
from jaxprviz._run import Position
from jaxprviz._scope import Scope, path_text
from jaxprviz._text import one_line
from jaxprviz._words import (
    boundary_text,
    bytes_text,
    called,
    layout_text,
    result_name,
    spread_text,
    title_of,
)
from jaxprviz.program import Atom, Boundary, Literal


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
    """Runs a function and compares each claim about its device scopes with what JAX really made.

    Claimed, by `explain` and by the pictures, is how each variable enters and leaves a device scope (copied whole,
    or which part each device holds), which values are the same on every device, and that a captured variable
    is the one that was bound outside; also how arguments and results lie over devices.  Values are compared bit for
    bit.  To see how JAX lays the results, what a jit holds may be run once more as a whole: only where the
    program does not print or call the host.

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
    yield from _array_claims(run)
    yield from _middle_claims(run)
    stack = [Scope.root(run.program)]
    while stack:
        scope = stack.pop()
        yield from _border_claims(run, scope, facts)
        yield from _capture_claims(run, scope, facts)
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
        return claim(Outcome.NOT_SEEN, run.missing(scope, crossing.inside))
    wholes = _wholes(run, scope, outer)
    if wholes is None:
        return claim(Outcome.NOT_SEEN, "JAX keeps no array of it")
    weak = True
    for device, steps in sorted(inner.items()):
        around = device[: len(device) - len(layout.mesh.axes)]
        own = device[len(around) :]
        whole = wholes.get(around, ())
        if not whole:
            return claim(Outcome.NOT_SEEN, "the caller's array was not recorded")
        # Each run of the caller runs the scope once; of one of the two fewer runs may be kept.
        for array, block in zip(whole, steps, strict=False):
            part = _part(array, layout, own)
            if part is None or not _is_block(part, block, crossing):
                return claim(
                    Outcome.OTHERWISE if unequal else Outcome.FAILS,
                    f"on device {_position_text(layout, own)}: {_short(block)}, not {_short(part)}",
                )
            weak = weak and _parts_are_equal(array, layout)
    split = any(layout.spec or ())
    return claim(Outcome.WEAK if weak and split else Outcome.HOLDS)


def _is_block(part: np.ndarray, block: np.ndarray, crossing: Crossing) -> bool:
    """Whether what a device holds is the part that it is said to hold, in the shapes that are told."""
    local, inner = crossing.layout.manual.local, crossing.inner.shape
    told = local is not None and part.shape[: len(local)] == local and block.shape[: len(inner)] == inner
    return told and part.size == block.size and _same(part.reshape(block.shape), block)


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
    """An array on the host; a Python number is what JAX makes of it, keys are their numbers."""
    array = value if hasattr(value, "dtype") else jnp.asarray(value)
    is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(array) if is_key else array)


def _part(array: np.ndarray, layout: Layout, device: Position) -> np.ndarray | None:
    """The part of an array that a device is said to hold."""
    blocks, parts = layout.block(device), layout.parts
    if blocks is None or parts is None or array.ndim < len(parts):
        return None
    index = []
    for size, block, count in zip(array.shape, blocks, parts, strict=False):  # the numbers of a key come last
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


# --- what the program takes and returns ---------------------------------------------------------------------


def _array_claims(run: Observation) -> Iterator[Claim]:
    """That arguments and results lie as their types say, and as the program asks for."""
    body = run.program.main
    yield from _lying_claims(run, body.inputs, body.input_names, lambda: run.leaves, "argument")
    yield from _lying_claims(run, body.outputs, body.output_names, run.results, "result")


def _lying_claims(
    run: Observation,
    atoms: Sequence[Atom],
    names: Sequence[str | None],
    made: Callable[[], Sequence[Any] | None],
    what: str,
) -> Iterator[Claim]:
    root = Scope.root(run.program)
    where = places(run.program).of(root)
    told = [
        (position, place.ground, place.layout)
        for position, atom in enumerate(atoms)
        if isinstance(atom, int) and (place := where[atom]) is not None and place.layout is not None
        if place.ground is not Ground.COMPILER and not place.layout.free and place.layout.spec is not None
    ]
    arrays = made() if told else ()
    for position, ground, layout in told:
        name = names[position] or f"{what} {position + 1}"
        outcome, note = (
            Outcome.NOT_SEEN,
            "to see it, the program would have to print, or call the host, again",
        )
        if arrays is not None:
            outcome, note = _lying(arrays[position], ground, layout)
        yield Claim("", title_of(root), one_line(name), layout_text(layout), outcome, note)


def _lying(array: Any, ground: Ground, layout: Layout) -> tuple[Outcome, str]:
    """Whether an array lies as it is said to: on each device the elements, and the bytes."""
    if not hasattr(array, "addressable_shards"):
        return Outcome.NOT_SEEN, "it lies on no device"
    seen = {shard.device.id: bounds_of(shard.index, array.shape) for shard in array.addressable_shards}
    return _compared(seen, {int(shard.data.nbytes) for shard in array.addressable_shards}, ground, layout)


def _compared(
    seen: Mapping[int, Bounds], sizes: set[int], ground: Ground, layout: Layout
) -> tuple[Outcome, str]:
    """Whether the parts and the bytes that the devices hold are those that they are said to hold."""
    said = {
        device: _claimed_bounds(layout, index)
        for device, index in zip(
            layout.mesh.ids or range(layout.mesh.size),
            itertools.product(*(range(size) for _, size in layout.mesh.axes)),
            strict=True,
        )
    }
    if seen == said and layout.local_nbytes in (None, *sizes) and len(sizes) == 1:
        return Outcome.HOLDS, ""
    otherwise = ground is Ground.ASKED
    note = f"JAX laid it {parts_text(list(seen.values()))}, {_bytes_note(sizes)} a device"
    return Outcome.OTHERWISE if otherwise else Outcome.FAILS, note


def _bytes_note(sizes: set[int]) -> str:
    return " or ".join(bytes_text(size) for size in sorted(sizes))


def _claimed_bounds(layout: Layout, device: Position) -> Bounds:
    blocks, parts = layout.block(device) or (), layout.parts or ()
    found = []
    for size, block, count in zip(layout.type.shape, blocks, parts, strict=True):
        length = int(size) // count
        found.append((0, int(size)) if block is None else (block * length, (block + 1) * length))
    return tuple(found)


_LOOPS_KEEP_TYPES = jax.__version_info__ >= (0, 9)
"""Before, JAX does not hold the compiler to the type that a loop's result has on an Explicit mesh."""


# --- what lies in the middle --------------------------------------------------------------------------------


def _middle_claims(run: Observation) -> Iterator[Claim]:
    """That arrays outside of the device scopes, neither arguments nor results of the program, lie as is claimed.

    What a device scope returns is compared value by value at its border.
    """
    told = list(_middle(run))
    found = run.shardings([(scope, variable) for scope, variable, _, _ in told]) if told else ()
    for (scope, variable, ground, layout), seen in zip(told, found, strict=True):
        outcome, note = _lying_in_the_middle(seen, ground, layout)
        name = one_line(_atom_text(scope, variable))
        title = boundary_text(scope) if scope.parent is not None else title_of(scope)
        yield Claim(path_text(scope.path), title, name, layout_text(layout), outcome, note)


def _middle(run: Observation) -> Iterator[tuple[Scope, int, Ground, Layout]]:
    """The variables in the middle of which it is claimed how they lie, in the order of the code."""
    where = places(run.program)
    stack = [Scope.root(run.program)]
    while stack:
        scope = stack.pop()
        if run.axes(scope):
            continue
        stack.extend(reversed(tuple(scope.children())))
        of_program = {*run.program.main.inputs, *run.program.main.outputs} if scope.parent is None else set()
        of_devices = {
            result for equation in scope.body.equations if equation.device for result in equation.results
        }
        of_loops = {
            result
            for equation in scope.body.equations
            if equation.boundary is Boundary.LOOP and not _LOOPS_KEEP_TYPES
            for result in equation.results
        }
        for variable, place in enumerate(where.of(scope)):
            if place is None or place.layout is None or variable in of_program or variable in of_devices:
                continue
            if (
                place.ground in (Ground.TYPE, Ground.ASKED)
                and not place.layout.free
                and place.layout.spec is not None
            ):
                ground = Ground.ASKED if variable in of_loops else place.ground
                yield scope, variable, ground, place.layout


def _lying_in_the_middle(seen: Sequence[Any] | str, ground: Ground, layout: Layout) -> tuple[Outcome, str]:
    """Whether an array lies as it is said to, each time that the compiler meets it."""
    if isinstance(seen, str):
        return Outcome.NOT_SEEN, seen
    shape = tuple(map(int, layout.type.shape))
    wrong = Outcome.OTHERWISE if ground is Ground.ASKED else Outcome.FAILS
    for sharding in seen:
        try:
            parts = {
                device.id: bounds_of(index, shape)
                for device, index in sharding.devices_indices_map(shape).items()
            }
        except ValueError:  # JAX's word for that: IndivisibleError, which is one
            return wrong, "JAX cuts it into parts that are not equal"
        whole, count = layout.type.nbytes or 0, math.prod(shape)
        sizes = {
            whole * math.prod(end - start for start, end in part) // max(count, 1) for part in parts.values()
        }
        outcome, note = _compared(parts, sizes, ground, layout)
        if outcome is not Outcome.HOLDS:
            return outcome, note
    return Outcome.HOLDS, ""


# --- captured variables -------------------------------------------------------------------------------------


def _capture_claims(run: Observation, scope: Scope, facts: Flow) -> Iterator[Claim]:
    """That what a device scope, or a function in one, captures is what was bound outside."""
    if run.axes(scope):
        for capture in captures(scope):
            bound = facts.of(capture.origin.scope)[capture.origin.variable]
            yield _capture_claim(run, capture, bool(bound.unequal))


def _capture_claim(run: Observation, capture: Capture, unequal: bool) -> Claim:
    scope, origin = capture.scope, capture.origin
    wrong = Outcome.OTHERWISE if unequal else Outcome.FAILS  # of copies that may differ there is no one value
    says = f"captured: the value that is bound in {title_of(origin.scope)}"

    def claim(outcome: Outcome, note: str = "") -> Claim:
        name = one_line(capture.name or _atom_text(scope, capture.variable))
        return Claim(path_text(scope.path), boundary_text(scope), name, says, outcome, note)

    inner = run.steps(scope, capture.variable)
    if inner is None:
        return claim(Outcome.NOT_SEEN, run.missing(scope, capture.variable))
    for device, steps in sorted(inner.items()):
        bound = _bound(run, capture, device, len(steps))
        if bound is None:
            return claim(Outcome.NOT_SEEN, "the value outside was not recorded")
        for value, outer in zip(steps, bound, strict=True):
            if outer is None:
                return claim(Outcome.NOT_SEEN, "which run belongs to which is not known")
            if outer.shape != value.shape:
                return claim(Outcome.NOT_SEEN, "each device gets a part of it")
            if not _same(outer, value):
                return claim(wrong, f"inside it is {_short(value)}, outside {_short(outer)}")
    return claim(Outcome.HOLDS)


def _bound(
    run: Observation, capture: Capture, device: Position, count: int
) -> Sequence[np.ndarray | None] | None:
    """What a captured variable was where it is bound, for each of so many runs of the scope that captures it.

    None for a run of which that is not known.
    """
    scope, origin = capture.scope, capture.origin
    depth = len(run.axes(origin.scope))
    runs = run.coordinates(scope, device)[:count]
    if run.record(origin.scope) is None:
        arrays = run.outer(origin.scope, origin.variable)
        if not arrays:
            return None
        hosts = list(map(_host, arrays))
        if len(hosts) == 1:
            return [hosts[0]] * count
        # The number of the run of the outermost device scope is that of the body around it.
        near = all(run.axes(one) for one in origin.through)
        return [hosts[at[0]] if near and at is not None and at[0] < len(hosts) else None for at in runs]
    steps = run.steps(origin.scope, origin.variable)
    if steps is None:
        return None
    around = device[:depth]
    there = dict(zip(run.coordinates(origin.scope, around), steps.get(around, ()), strict=False))
    length = len(next(iter(there), None) or ())
    return [there.get(at[:length]) if at is not None and length else None for at in runs]


# --- the same on every device -------------------------------------------------------------------------------


def _spread_claims(run: Observation, scope: Scope, facts: Flow) -> Iterator[Claim]:
    """That values differ over no axis along which they are said to be the same."""
    if not run.axes(scope):
        return
    inputs = set(scope.body.inputs) if placement(scope) is not None else set()
    for variable, spread in enumerate(facts.of(scope)):
        # How an input enters is claimed at the border; of what is not known nothing is claimed.
        if variable not in inputs and (spread.same or spread.varying):
            yield _spread_claim(run, scope, variable, spread)


def _spread_claim(run: Observation, scope: Scope, variable: int, spread: Spread) -> Claim:
    def claim(outcome: Outcome, note: str = "") -> Claim:
        name = one_line(_atom_text(scope, variable))
        return Claim(path_text(scope.path), boundary_text(scope), name, spread_text(spread), outcome, note)

    steps = run.steps(scope, variable)
    if steps is None:
        return claim(Outcome.NOT_SEEN, run.missing(scope, variable))
    axes, same = [name for name, _ in run.axes(scope)], set(spread.same)
    groups: dict[object, tuple[Position, np.ndarray]] = {}
    seen: dict[object, set[bytes]] = {}
    for device in sorted(steps):
        group = tuple(index for name, index in zip(axes, device, strict=True) if name not in same)
        for which, value in zip(run.coordinates(scope, device), steps[device], strict=False):
            if which is None:
                return claim(Outcome.NOT_SEEN, "which run belongs to which is not known")
            first, expected = groups.setdefault((group, which), (device, value))
            if not _same(expected, value):
                return claim(Outcome.FAILS, f"{_short(expected)} on {first}, {_short(value)} on {device}")
            seen.setdefault(which, set()).add(value.tobytes())
    differ = any(len(values) > 1 for values in seen.values())
    told = differ or not spread.varying or len(steps) == 1
    return claim(Outcome.HOLDS, "" if told else "with these values it does not differ")


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
            return f"the result of {called(equation)}"
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
    filled = f"  {FILLED}" if report.filled else ""
    return f"{one_line(report.name)}: of {len(report.claims)} claims {told}.{filled}"


_COUNTED = {
    Outcome.HOLDS: "hold",
    Outcome.WEAK: "hold, though the values would not tell",
    Outcome.FAILS: "FAIL",
    Outcome.OTHERWISE: "were made otherwise",
    Outcome.NOT_SEEN: "were not seen",
}
