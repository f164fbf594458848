"""The view that shows a pmap as a pmap.

From JAX 0.8 on `jax.pmap(g)` traces to a `jit` named `_fun` around a `shard_map` over one axis, with a
`squeeze` of that axis in front of what `g` does and a `broadcast_in_dim` behind it.  `fold_pmaps` puts one
equation `pmap` in the place of the pair and takes the adapters away, so that the body is `g` as it was
written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from jaxprviz._renumber import renumbered
from jaxprviz.program import Atom, Body, DeviceScope, Equation, Program, Type


def fold_pmaps(program: Program) -> Program:
    """The same program with one equation `pmap` for each pmap.

    A pair of another form than the one described above is left as it is; where an array is not squeezed (the
    residuals of a gradient are not), the body sees its axis, shortened.
    """
    if not any(body.wrapper for body in program.bodies):
        return program
    bodies = list(program.bodies)
    folded: dict[int, _Pair] = {}
    for number in range(len(bodies)):  # callees stand before callers
        body = bodies[number] = _with_pmaps(bodies[number], folded)
        pair = _pair(body, bodies)
        if pair is not None:
            folded[number] = pair
            held = pair.equation.calls[0].body
            bodies[held] = _named(_without_adapters(bodies[held], pair.device))
            folded[number] = pair = replace(pair, name=bodies[held].name)
            # What is lowered can be the wrapper itself, that no equation calls.
            own = _as_pmap(pair.equation, pair, pair.equation.operands, pair.equation.results)
            bodies[number] = replace(body, equations=(own,))
    return _without_unused(replace(program, bodies=tuple(bodies)))


@dataclass(frozen=True, slots=True)
class _Pair:
    """The body of a `jit` that holds nothing but a `shard_map`.

    Attributes:
        wrapper: that body.
        equation: the `shard_map` in it.
        device: what it says about devices, as a pmap's.
        name: the pmapped function's name.
        places: for each result of the `shard_map` its place among the wrapper's outputs; None when unused.
    """

    wrapper: Body
    equation: Equation
    device: DeviceScope
    name: str | None
    places: tuple[int | None, ...]


def _pair(body: Body, bodies: list[Body]) -> _Pair | None:
    if not body.wrapper or len(body.equations) != 1:
        return None
    equation = body.equations[0]
    if (
        equation.primitive != "shard_map"
        or equation.device is None
        or not bodies[equation.calls[0].body].wrapper
    ):
        return None
    if not all(isinstance(atom, int) for atom in equation.operands):
        return None
    if len(set(body.outputs)) != len(body.outputs) or not set(body.outputs) <= set(equation.results):
        return None
    places = tuple(
        body.outputs.index(result) if result in body.outputs else None for result in equation.results
    )
    mesh = replace(equation.device.mesh, kinds=())  # a pmap up to 0.7 has no mesh
    device = replace(equation.device, mapped=True, mesh=mesh)
    return _Pair(body, equation, device, bodies[equation.calls[0].body].name, places)


def _with_pmaps(body: Body, folded: Mapping[int, _Pair]) -> Body:
    """A body with `pmap` equations in the place of the calls of folded wrappers."""
    if not any(call.body in folded for equation in body.equations for call in equation.calls):
        return body
    types, constants = list(body.types), list(body.constants)

    def new(type_: Type) -> int:
        types.append(type_)
        return len(types) - 1

    def pmap(equation: Equation) -> Equation:
        pair = folded.get(equation.calls[0].body) if len(equation.calls) == 1 else None
        if pair is None:
            return equation
        outer: dict[int, Atom] = dict(zip(pair.wrapper.inputs, equation.operands, strict=True))
        for constant in pair.wrapper.constants:  # arrays baked into the wrapper are baked in here
            outer[constant.variable] = new(pair.wrapper.types[constant.variable])
            constants.append(replace(constant, variable=outer[constant.variable]))
        results = tuple(
            new(pair.wrapper.types[result]) if place is None else equation.results[place]
            for result, place in zip(pair.equation.results, pair.places, strict=True)
        )
        operands = tuple(outer[atom] for atom in pair.equation.operands if isinstance(atom, int))
        return _as_pmap(equation, pair, operands, results)

    equations = tuple(pmap(equation) for equation in body.equations)
    return renumbered(replace(body, types=tuple(types), constants=tuple(constants), equations=equations))


def _as_pmap(
    equation: Equation, pair: _Pair, operands: tuple[Atom, ...], results: tuple[int, ...]
) -> Equation:
    """An equation as one `pmap`."""
    return replace(
        equation,
        primitive="pmap",
        operands=operands,
        results=results,
        name=pair.name,
        params=(),
        calls=pair.equation.calls,
        boundary=pair.equation.boundary,
        device=pair.device,
        in_shardings=(),
        out_shardings=(),
    )


def _without_adapters(body: Body, device: DeviceScope) -> Body:
    """The body of a pmap as its function was written: without what JAX puts around it."""
    uses = Counter(atom for equation in body.equations for atom in equation.operands if isinstance(atom, int))
    uses.update(atom for atom in body.outputs if isinstance(atom, int))
    readers = {atom: k for k, equation in enumerate(body.equations) for atom in equation.operands}
    binders = {result: k for k, equation in enumerate(body.equations) for result in equation.results}
    types, outputs = list(body.types), list(body.outputs)
    gone: set[int] = set()
    same: dict[int, Atom] = {}

    for variable, spec in zip(body.inputs, device.in_specs, strict=True):
        axis = _split_axis(spec)
        position = readers.get(variable)
        if axis is None or position is None or uses[variable] != 1:
            continue
        equation = body.equations[position]
        if equation.primitive == "squeeze" and dict(equation.params)["dimensions"] == f"({axis},)":
            (result,) = equation.results
            types[variable] = body.types[result]
            same[result] = variable
            gone.add(position)

    for place, (atom, spec) in enumerate(zip(body.outputs, device.out_specs, strict=True)):
        axis = _split_axis(spec)
        if axis is None or not isinstance(atom, int) or atom not in binders or uses[atom] != 1:
            continue
        equation = body.equations[binders[atom]]
        inner = equation.operands[0] if equation.operands else None
        shape = body.types[atom].shape
        if (
            equation.primitive == "broadcast_in_dim"
            and inner is not None
            and len(equation.operands) == 1
            and (body.types[inner] if isinstance(inner, int) else inner.type).shape
            == shape[:axis] + shape[axis + 1 :]
        ):
            outputs[place] = inner
            gone.add(binders[atom])

    equations = tuple(equation for position, equation in enumerate(body.equations) if position not in gone)
    kept = replace(body, types=tuple(types), equations=equations, outputs=tuple(outputs))
    return renumbered(kept, lambda atom: same.get(atom, atom) if isinstance(atom, int) else atom)


def _named(body: Body) -> Body:
    """A body that only calls one function, as that of `jax.pmap(jax.jit(f))`, with that function's name."""
    if body.name is not None or len(body.equations) != 1:
        return body
    (equation,) = body.equations
    straight = equation.operands == body.inputs and equation.results == body.outputs
    return replace(body, name=equation.name) if straight else body


def _split_axis(spec: tuple[tuple[str, ...], ...] | None) -> int | None:
    """The one array axis that is split."""
    split = [axis for axis, names in enumerate(spec or ()) if names]
    return split[0] if len(split) == 1 else None


def _without_unused(program: Program) -> Program:
    """A program without the bodies that no equation holds any more."""
    used: set[int] = set()
    stack = [program.root]
    while stack:
        number = stack.pop()
        if number not in used:
            used.add(number)
            stack.extend(
                call.body for equation in program.bodies[number].equations for call in equation.calls
            )
    order = sorted(used)
    place = {number: position for position, number in enumerate(order)}

    def moved(equation: Equation) -> Equation:
        if not equation.calls:
            return equation
        return replace(equation, calls=tuple(replace(call, body=place[call.body]) for call in equation.calls))

    bodies = tuple(
        replace(program.bodies[number], equations=tuple(map(moved, program.bodies[number].equations)))
        for number in order
    )
    return replace(program, bodies=bodies, root=place[program.root])
