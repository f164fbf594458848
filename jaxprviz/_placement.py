"""How the variables of a program lie over the devices, by what the program asks for.

Two rules make up everything here (JAX's own documentation of `shard_map` and `pmap` states both): along each
array axis that a spec gives to mesh axes, an array is cut into as many equal parts as those axes have
devices, the first axis being the major one; along each mesh axis that the spec does not name, every device
holds a copy.
"""

from __future__ import annotations

from jaxprviz._facts import Crossing, Layout, Placement
from jaxprviz._scope import Scope
from jaxprviz.program import Atom, Body, Type


def placement(scope: Scope) -> Placement | None:
    """What enters and leaves a device scope; None when the scope is none."""
    equation, call, parent = scope.equation, scope.call, scope.parent
    if equation is None or call is None or parent is None or equation.device is None:
        return None
    device, body = equation.device, scope.body
    inside = {
        operand: body.inputs[position] for position, operand in enumerate(call.inputs) if operand is not None
    }
    free = tuple(name for name, _ in device.mesh.axes if name not in device.manual)
    entering = tuple(
        Crossing(
            position,
            Layout(_type(parent.body, atom), device.mesh, device.in_specs[position], free),
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
                Layout(outer, device.mesh, device.out_specs[position], free),
                outer if atom is None else _type(body, atom),
                atom if isinstance(atom, int) else None,
            )
        )
    return Placement(entering, tuple(leaving))


def _type(body: Body, atom: Atom) -> Type:
    return body.types[atom] if isinstance(atom, int) else atom.type
