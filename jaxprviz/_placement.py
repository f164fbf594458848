"""How the variables of a program lie over the devices, by what the program asks for.

Two rules make up everything here (JAX's own documentation of `shard_map` and `pmap` states both): along each
array axis that a spec gives to mesh axes, an array is cut into as many equal parts as those axes have
devices, the first axis being the major one; along each mesh axis that the spec does not name, every device
holds a copy.
"""

from __future__ import annotations

from jaxprviz._facts import Crossing, Layout, Placement
from jaxprviz._scope import Scope
from jaxprviz.program import Atom, Body, DeviceScope, Mesh, Type


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
    free = tuple(name for name, _ in mesh.axes if name not in device.manual)
    entering = tuple(
        Crossing(
            position,
            Layout(_type(parent.body, atom), mesh, device.in_specs[position], free),
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
                Layout(outer, mesh, device.out_specs[position], free),
                outer if atom is None else _type(body, atom),
                atom if isinstance(atom, int) else None,
            )
        )
    return Placement(entering, tuple(leaving))


def own_mesh(scope: Scope, device: DeviceScope) -> Mesh:
    """The mesh of a device scope without the axes over which it runs once a device already.

    Inside a shard_map over `data` a shard_map over `model` works on what one position along `data` holds.
    """
    outer: set[str] = set()
    around = scope.parent
    while around is not None:
        if around.equation is not None and around.equation.device is not None:
            outer.update(around.equation.device.manual)
        around = around.parent
    return device.mesh.without(outer - set(device.manual))


def _type(body: Body, atom: Atom) -> Type:
    return body.types[atom] if isinstance(atom, int) else atom.type
