"""Gives the variables of a body that was edited their numbers in the order in which they stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from jaxprviz.program import Atom, Body


def renumbered(body: Body, instead: Callable[[Atom], Atom] = lambda atom: atom) -> Body:
    """A body with its variables numbered in the order in which they stand; `instead` replaces each atom."""
    order = [constant.variable for constant in body.constants]
    order += body.inputs
    order += [result for equation in body.equations for result in equation.results]
    number = {variable: position for position, variable in enumerate(order)}

    def atom(value: Atom) -> Atom:
        value = instead(value)
        return number[value] if isinstance(value, int) else value

    return replace(
        body,
        types=tuple(body.types[variable] for variable in order),
        constants=tuple(replace(constant, variable=number[constant.variable]) for constant in body.constants),
        inputs=tuple(number[variable] for variable in body.inputs),
        equations=tuple(
            replace(
                equation,
                operands=tuple(map(atom, equation.operands)),
                results=tuple(number[result] for result in equation.results),
            )
            for equation in body.equations
        ),
        outputs=tuple(map(atom, body.outputs)),
    )
