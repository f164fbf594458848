"""What an operand is to its equation, told from the bodies that it enters."""

from __future__ import annotations

from jaxprviz.program import Boundary, Equation, Role

_FIRST = (Role.CARRY, Role.SLICED, Role.INDEX, Role.CONST, Role.RESIDUAL, Role.OPERAND)
"""Of an operand that enters several bodies the role that says most."""


def operand_role(equation: Equation, position: int) -> Role:
    """The role of one operand of an equation.

    Args:
        equation: any equation.
        position: which of its operands.

    Returns:
        The role that the operand has in the bodies that it enters.  What enters none of several branches is
        `PREDICATE`; what else enters no body is `OPERAND` where the wiring is known, and `UNKNOWN` where it is
        not.  An operand of an equation without bodies is `OPERAND`, or `RESIDUAL` where the equation says so.
    """
    if not 0 <= position < len(equation.operands):
        raise IndexError(f"{equation.primitive} has {len(equation.operands)} operands, none at {position}")
    if not equation.calls:
        residuals = int(dict(equation.params).get("num_res", 0)) if equation.primitive == "custom_lin" else 0
        return Role.RESIDUAL if position < residuals else Role.OPERAND
    roles = {
        role
        for call in equation.calls
        for operand, role in zip(call.inputs, call.roles, strict=True)
        if operand == position
    }
    if roles:
        return next((role for role in _FIRST if role in roles), Role.UNKNOWN)
    if equation.boundary is Boundary.BRANCH:
        return Role.PREDICATE
    unwired = any(
        operand is None and role is Role.UNKNOWN
        for call in equation.calls
        for operand, role in zip(call.inputs, call.roles, strict=True)
    )
    return Role.UNKNOWN if unwired and equation.boundary is Boundary.UNKNOWN else Role.OPERAND
