"""How the variables of a program lie over the devices, by what the program asks for.

Two rules make up everything here (JAX's own documentation of `shard_map` and `pmap` states both): along each
array axis that a spec gives to mesh axes, an array is cut into as many equal parts as those axes have
devices, the first axis being the major one; along each mesh axis that the spec does not name, every device
holds a copy.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from jaxprviz._facts import Crossing, Ground, Layout, Place, Placement
from jaxprviz._scope import Path, Scope
from jaxprviz.program import (
    Atom,
    Body,
    Boundary,
    DeviceScope,
    Equation,
    Kind,
    Mesh,
    Program,
    Sharding,
    Spec,
    Type,
)


def placement(scope: Scope) -> Placement | None:
    """What enters and leaves a device scope; None when the scope is none."""
    equation, call, parent = scope.equation, scope.call, scope.parent
    if equation is None or call is None or parent is None or equation.device is None:
        return None
    device, body = equation.device, scope.body
    inside = {
        operand: body.inputs[position] for position, operand in enumerate(call.inputs) if operand is not None
    }
    mesh = own_mesh(scope, device)
    entering = tuple(
        Crossing(
            position,
            _crossing_layout(_type(parent.body, atom), mesh, device, device.in_specs[position]),
            body.types[inside[position]] if position in inside else _type(parent.body, atom),
            inside.get(position),
        )
        for position, atom in enumerate(equation.operands)
    )
    leaving = []
    for position, result in enumerate(equation.results):
        output = call.outputs[position]
        atom = None if output is None else body.outputs[output]
        outer = parent.body.types[result]
        leaving.append(
            Crossing(
                position,
                _crossing_layout(outer, mesh, device, device.out_specs[position]),
                outer if atom is None else _type(body, atom),
                atom if isinstance(atom, int) else None,
            )
        )
    return Placement(entering, tuple(leaving))


def _crossing_layout(kind: Type, mesh: Mesh, device: DeviceScope, spec: Spec | None) -> Layout:
    """How a variable lies at the border of a device scope: by the spec, and by its type over Explicit axes."""
    typed = explicit_spec(kind, mesh, set(device.manual))
    left = [name for name, _ in mesh.axes if name not in device.manual]
    known = {name for name in left if kind.mesh is not None and name in _of_kind(kind.mesh, "explicit")}
    if spec is not None and typed is not None:
        spec = tuple((*own, *more) for own, more in zip(full(spec, len(typed)), typed, strict=True))
    return Layout(kind, mesh, spec, tuple(name for name in left if name not in known))


def explicit_spec(kind: Type, mesh: Mesh, without: Collection[str]) -> Spec | None:
    """How a type splits its axes over the axes of a mesh, some left out; None when it says nothing of that."""
    if kind.spec is None:
        return None
    names = {name for name, _ in mesh.axes} - set(without)
    return tuple(tuple(name for name in split if name in names) for split in full(kind.spec, len(kind.shape)))


def full(spec: Spec, rank: int) -> Spec:
    """A spec with an entry for every axis of an array of this rank."""
    return (*spec, *((),) * (rank - len(spec)))


def _of_kind(mesh: Mesh, kind: str) -> set[str]:
    return {name for (name, _), its in zip(mesh.axes, mesh.kinds, strict=False) if its == kind}


def own_mesh(scope: Scope, device: DeviceScope) -> Mesh:
    """The mesh of a device scope without the axes over which it runs once a device already.

    Inside a shard_map over `data` a shard_map over `model` works on what one position along `data` holds.
    """
    outer = manual_axes(scope.parent) if scope.parent is not None else frozenset()
    return device.mesh.without(outer - set(device.manual))


def manual_axes(scope: Scope) -> frozenset[str]:
    """The mesh axes over which a scope runs once a device: those of all device scopes around it."""
    found: set[str] = set()
    here: Scope | None = scope
    while here is not None:
        if here.equation is not None and here.equation.device is not None:
            found.update(here.equation.device.manual)
        here = here.parent
    return frozenset(found)


def _type(body: Body, atom: Atom) -> Type:
    return body.types[atom] if isinstance(atom, int) else atom.type


def _device_mesh(scope: Scope) -> Mesh | None:
    """The mesh of the innermost device scope around."""
    here: Scope | None = scope
    while here is not None:
        if here.equation is not None and here.equation.device is not None:
            return here.equation.device.mesh
        here = here.parent
    return None


class Places:
    """Where the arrays of a program lie outside of what runs once a device; `places` makes it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._own: dict[int, tuple[Place | None, ...]] = {}
        self._found: dict[Path, tuple[Place | None, ...]] = {}
        self._meshes = _meshes(program)

    def of(self, scope: Scope) -> tuple[Place | None, ...]:
        """Where each variable of a scope lies, by number; None where that is not asked: no mesh, or no axis of
        it over which the scope does not run once a device already.

        Args:
            scope: a scope of the program.
        """
        if scope.path not in self._found:
            self._found[scope.path] = self._placed(scope)
        return self._found[scope.path]

    def _placed(self, scope: Scope) -> tuple[Place | None, ...]:
        manual = manual_axes(scope)
        placed = list(self._of_body(scope.number))
        for variable, place in zip(scope.body.inputs, self._inputs(scope), strict=True):
            if placed[variable] is None:
                placed[variable] = place
        rest = self._compiler(scope, manual)
        return tuple(
            _within(place, manual) if place is not None else _undecided(rest, kind)
            for place, kind in zip(placed, scope.body.types, strict=True)
        )

    def _compiler(self, scope: Scope, manual: frozenset[str]) -> Mesh | tuple[()] | None:
        """The mesh over which the compiler decides; empty where there are several, None where there is none."""
        around = _device_mesh(scope)
        meshes = self._meshes if around is None else (Mesh(around.axes),)
        left = {mesh for mesh in (mesh.without(manual) for mesh in meshes) if mesh.axes}
        return None if not left else left.pop() if len(left) == 1 else ()

    def _inputs(self, scope: Scope) -> Sequence[Place | None]:
        """Where the inputs of a scope lie, by what stands around it."""
        equation, call, parent, body = scope.equation, scope.call, scope.parent, scope.body
        if equation is None or call is None or parent is None:
            given = self._program.shardings or (None,) * len(body.inputs)
            return [
                None if sharding is None else _of_sharding(Ground.GIVEN, body.types[variable], sharding)
                for variable, sharding in zip(body.inputs, given, strict=True)
            ]
        around = self.of(parent) if equation.boundary in _SAME_VALUE else ()
        found: list[Place | None] = []
        for variable, operand in zip(body.inputs, call.inputs, strict=True):
            asked = equation.in_shardings[operand] if operand is not None and equation.in_shardings else None
            atom = None if operand is None else equation.operands[operand]
            if asked is not None:
                found.append(_of_sharding(Ground.ASKED, body.types[variable], asked))
            else:
                outer = around[atom] if isinstance(atom, int) and around else None
                found.append(None if outer is None or outer.ground is Ground.COMPILER else outer)
        return found

    def _of_body(self, number: int) -> tuple[Place | None, ...]:
        """Where the variables of a body lie by what is said inside it."""
        if number in self._own:
            return self._own[number]
        body = self._program.bodies[number]
        found: list[Place | None] = [_by_type(kind) for kind in body.types]
        for equation in body.equations:
            for position, result in enumerate(equation.results):
                if found[result] is None:
                    found[result] = self._result(body, equation, position)
        self._own[number] = tuple(found)
        return self._own[number]

    def _result(self, body: Body, equation: Equation, position: int) -> Place | None:
        kind = body.types[equation.results[position]]
        asked = equation.out_shardings[position] if equation.out_shardings else None
        if asked is not None:
            return _of_sharding(Ground.ASKED, kind, asked)
        if equation.device is not None:
            spec = equation.device.out_specs[position]
            return Place(Ground.ASKED, _crossing_layout(kind, equation.device.mesh, equation.device, spec))
        if equation.boundary in _SAME_VALUE and len(equation.calls) == 1:
            output = equation.calls[0].outputs[position]
            held = self._program.bodies[equation.calls[0].body]
            atom = None if output is None else held.outputs[output]
            return self._of_body(equation.calls[0].body)[atom] if isinstance(atom, int) else None
        return None


_SAME_VALUE = frozenset({Boundary.CALL, Boundary.NAME})
"""Borders at which an array is the same inside and outside."""


def places(program: Program) -> Places:
    """Where the arrays of a program lie outside of its device scopes.

    What a type says of an Explicit mesh is so; how the actual arguments lay, and what the program asks for (by
    constraints, shardings of a jit, specs of a device scope), is told as that; all else over the axes of a mesh
    is for the compiler to decide.

    Args:
        program: with or without its pmaps folded.
    """
    return Places(program)


def _by_type(kind: Type) -> Place | None:
    """Where an array lies by its type, over the axes of an Explicit mesh."""
    if kind.spec is None or kind.mesh is None:
        return None
    free = tuple(name for name, _ in kind.mesh.axes if name in _of_kind(kind.mesh, "auto"))
    return Place(Ground.TYPE, Layout(kind, kind.mesh, kind.spec, free))


def _of_sharding(ground: Ground, kind: Type, sharding: Sharding) -> Place:
    return Place(ground, Layout(kind, sharding.mesh, sharding.spec, sharding_free(sharding)))


def sharding_free(sharding: Sharding) -> tuple[str, ...]:
    """The mesh axes over which a sharding lets the compiler decide.

    Along the axes of the array that are left free it may use any mesh axis that is left.
    """
    used = {name for names in sharding.spec for name in names}
    return tuple(name for name, _ in sharding.mesh.axes if name not in used) if sharding.free else ()


def _within(place: Place, manual: frozenset[str]) -> Place | None:
    """What is left of a place where the program runs once a device along some axes."""
    layout = place.layout
    if layout is None or not manual & {name for name, _ in layout.mesh.axes}:
        return place
    mesh = layout.mesh.without(manual)
    if not mesh.axes:
        return None
    spec = explicit_spec(replace(layout.type, spec=layout.spec), mesh, ())
    free = tuple(name for name in layout.free if name not in manual)
    return Place(place.ground, Layout(layout.type, mesh, spec, free))


def _undecided(mesh: Mesh | tuple[()] | None, kind: Type) -> Place | None:
    if mesh is None or kind.kind is not Kind.ARRAY:
        return None
    if not isinstance(mesh, Mesh):
        return Place(Ground.COMPILER, None)
    free = tuple(name for name, _ in mesh.axes)
    return Place(Ground.COMPILER, Layout(kind, mesh, ((),) * len(kind.shape), free))


def _meshes(program: Program) -> tuple[Mesh, ...]:
    """The meshes that a program speaks of, by names and sizes of their axes."""
    found: dict[Mesh, None] = {}
    for sharding in program.shardings:
        if sharding is not None:
            found[Mesh(sharding.mesh.axes)] = None
    for body in program.bodies:
        for kind in body.types:
            if kind.mesh is not None:
                found[Mesh(kind.mesh.axes)] = None
        for equation in body.equations:
            if equation.device is not None:
                found[Mesh(equation.device.mesh.axes)] = None
            for sharding in (*equation.in_shardings, *equation.out_shardings):
                if sharding is not None:
                    found[Mesh(sharding.mesh.axes)] = None
    return tuple(found)
