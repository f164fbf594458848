"""How each primitive holds its bodies: one entry a primitive.

An entry says where the bodies are, how the operands reach their inputs, which inputs are captured variables,
and what sort of border the equation draws.  A primitive without an entry goes by `DEFAULT`: bodies are found
by looking, wired by position where the counts agree, and the rest is unknown.  The rules were found
by tracing, on JAX 0.7.2, 0.10.2 and 0.12.0.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxprviz import _jax
from jaxprviz.program import Boundary, Role, Type


@dataclass(frozen=True, slots=True)
class Held:
    """One body that an equation holds: the fields of `Call`, with JAX's jaxpr in the place of a number."""

    jaxpr: Any
    label: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    captured: tuple[bool | None, ...]
    roles: tuple[Role, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """How one primitive holds its bodies.

    Attributes:
        boundary: what sort of border it draws.
        hold: from the equation to the bodies that it holds.
        params: the parameters that are not shown: the bodies, and what `hold` has taken from them.
    """

    boundary: Boundary
    hold: Callable[[Any], Sequence[Held]]
    hidden: frozenset[str] = frozenset()


Spans = tuple[tuple[Role, int], ...]


def _held(equation: Any, jaxpr: Any, label: str, operands: Sequence[int | None], spans: Spans) -> Held:
    """A body whose inputs are fed by `operands` and fall into `spans` of roles, constants first.

    Its outputs are the results of the equation, one to one, where the counts agree.  Captured is what JAX
    marks with an empty name; where it keeps no names, inputs outside the constants are not captured, and
    those among them are not known: a loop moves values that never change there, captured or not.
    """
    body = _jax.open_jaxpr(jaxpr)
    roles = tuple(role for role, length in spans for _ in range(length))
    captured = tuple(_is_captured(name, role) for name, role in zip(_jax.arg_names(body), roles, strict=True))
    count = len(equation.outvars)
    outputs = tuple(range(count)) if len(body.outvars) == count else (None,) * count
    return Held(jaxpr, label, tuple(operands), outputs, captured, roles)


def _is_captured(name: str | None, role: Role) -> bool | None:
    if role not in (Role.CONST, Role.OPERAND, Role.UNKNOWN):
        return False
    return None if name is None else name == ""


def _positional(jaxpr: Any, equation: Any) -> Held:
    """A body whose inputs are the operands, one to one, where the counts agree; else nothing is known."""
    body = _jax.open_jaxpr(jaxpr)
    count = len(body.invars)
    if count == len(equation.invars):
        return _held(equation, jaxpr, "", range(count), ((Role.OPERAND, count),))
    return _unwired(jaxpr, equation)


def _unwired(jaxpr: Any, equation: Any) -> Held:
    """A body of which nobody knows what feeds it; what has a name is no captured variable."""
    count = len(_jax.open_jaxpr(jaxpr).invars)
    held = _held(equation, jaxpr, "", (None,) * count, ((Role.UNKNOWN, count),))
    return replace(held, captured=tuple(False if captured is False else None for captured in held.captured))


def _one(param: str) -> Callable[[Any], Sequence[Held]]:
    """One body in one parameter, fed one to one."""
    return lambda equation: (_positional(equation.params[param], equation),)


def _leading(param: str, number: str) -> Callable[[Any], Sequence[Held]]:
    """One body, fed one to one, of whose inputs the first `number` are captured."""

    def hold(equation: Any) -> Sequence[Held]:
        held = _positional(equation.params[param], equation)
        count = int(equation.params[number])
        return (replace(held, captured=_first(count, len(held.captured))),)

    return hold


def _first(count: int, total: int) -> tuple[bool, ...]:
    """Captured are the first `count` of `total` inputs."""
    return tuple(position < count for position in range(total))


def _scan(equation: Any) -> Sequence[Held]:
    params = equation.params
    total = len(equation.invars)
    if "num_consts" in params:
        consts, carry = int(params["num_consts"]), int(params["num_carry"])
    else:  # from 0.12 on three groups: constants, carry, sliced
        groups = params["ft_in"].unpack()
        consts, carry = len(groups[0]), len(groups[1])
    spans = ((Role.CONST, consts), (Role.CARRY, carry), (Role.SLICED, total - consts - carry))
    return (_held(equation, params["jaxpr"], "", range(total), spans),)


def _while(equation: Any) -> Sequence[Held]:
    params = equation.params
    first, second = int(params["cond_nconsts"]), int(params["body_nconsts"])
    carry = range(first + second, len(equation.invars))

    def held(name: str, consts: range) -> Held:
        spans = ((Role.CONST, len(consts)), (Role.CARRY, len(carry)))
        return _held(equation, params[f"{name}_jaxpr"], name, (*consts, *carry), spans)

    cond = held("cond", range(first))
    return (replace(cond, outputs=_no_outputs(equation)), held("body", range(first, first + second)))


def _no_outputs(equation: Any) -> tuple[None, ...]:
    """The outputs of a body that makes none of the equation's results."""
    return (None,) * len(equation.outvars)


def _cond(equation: Any) -> Sequence[Held]:
    branches = equation.params["branches"]
    count = len(equation.invars) - 1
    labels = ("false", "true") if len(branches) == 2 else tuple(f"branch {k}" for k in range(len(branches)))
    held = [
        _held(equation, branch, label, range(1, count + 1), ((Role.OPERAND, count),))
        for branch, label in zip(branches, labels, strict=True)
    ]
    # What any branch captures is an input of all of them: a branch captures only what it reads.
    return tuple(replace(body, captured=_where_read(body)) for body in held)


def _where_read(held: Held) -> tuple[bool | None, ...]:
    """Which inputs are captured, when those that nothing reads are not."""
    body = _jax.open_jaxpr(held.jaxpr)
    read = {id(var) for equation in body.eqns for var in equation.invars} | {id(var) for var in body.outvars}
    return tuple(
        captured if id(var) in read else False
        for captured, var in zip(held.captured, body.invars, strict=True)
    )


def _linear_solve(equation: Any) -> Sequence[Held]:
    jaxprs, lengths = equation.params["jaxprs"], equation.params["const_lengths"]
    held, start = [], 0
    for label in jaxprs._fields:
        jaxpr, count = getattr(jaxprs, label), getattr(lengths, label)
        if jaxpr is not None:
            total = len(_jax.open_jaxpr(jaxpr).invars)
            operands = (*range(start, start + count), *(None,) * (total - count))
            spans = ((Role.CONST, count), (Role.UNKNOWN, total - count))
            body = replace(_held(equation, jaxpr, label, operands, spans), captured=_first(count, total))
            held.append(body if label == "solve" else replace(body, outputs=_no_outputs(equation)))
        start += count
    return tuple(held)


def _anywhere(equation: Any) -> Sequence[Held]:
    """Bodies found by looking through the parameters."""
    found = [
        (name, jaxpr) for name, value in sorted(equation.params.items()) for jaxpr in _jax.sub_jaxprs(value)
    ]
    if len(found) == 1:
        return (_by_type(found[0][1], equation),)
    names = [name for name, _ in found]
    labels = [f"{name} {k}" if names.count(name) > 1 else name for k, name in enumerate(names)]
    return tuple(
        replace(_by_type(jaxpr, equation), label=label)
        for label, (_, jaxpr) in zip(labels, found, strict=True)
    )


def _by_type(jaxpr: Any, equation: Any) -> Held:
    """A body that is wired one to one where not only the counts but all the types agree."""
    body = _jax.open_jaxpr(jaxpr)
    held = _positional if _same_types(body.invars, equation.invars) else _unwired
    outputs = _same_types(body.outvars, equation.outvars)
    found = held(jaxpr, equation)
    return found if outputs else replace(found, outputs=_no_outputs(equation))


def _same_types(ones: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(ones) == len(others) and all(
        (one.kind, one.shape, one.dtype) == (other.kind, other.shape, other.dtype)
        for one, other in zip(_types(ones), _types(others), strict=True)
    )


def _types(variables: Sequence[Any]) -> Iterator[Type]:
    return (_jax.read_type(variable.aval) for variable in variables)


def _scatter(equation: Any) -> Sequence[Held]:
    """What joins an element of the array and one of the updates."""
    jaxpr = equation.params["update_jaxpr"]
    return () if jaxpr is None else (_held(equation, jaxpr, "", (0, 2), ((Role.SLICED, 2),)),)


def _reduce(equation: Any) -> Sequence[Held]:
    """What joins the elements: it hands on the value so far, beginning with the last half of the operands."""
    half = len(equation.invars) // 2
    operands = (*range(half, 2 * half), *range(half))
    spans = ((Role.CARRY, half), (Role.SLICED, half))
    return (_held(equation, equation.params["jaxpr"], "", operands, spans),)


def _rule(boundary: Boundary, hold: Callable[[Any], Sequence[Held]], *hidden: str) -> Rule:
    return Rule(boundary, hold, frozenset(hidden))


_JIT_PARAMS = ("in_shardings", "out_shardings", "in_layouts", "out_layouts", "donated_invars", "ctx_mesh")
_JIT = _rule(
    Boundary.CALL,
    _one("jaxpr"),
    "name",
    "keep_unused",
    "inline",
    "compiler_options_kvs",
    "resource_env",
    *_JIT_PARAMS,
)

DEFAULT = _rule(Boundary.UNKNOWN, _anywhere)

RULES: dict[str, Rule] = {
    "jit": _JIT,
    "pjit": _JIT,  # its name up to 0.6
    "closed_call": _rule(Boundary.CALL, _one("call_jaxpr")),
    "core_call": _rule(Boundary.CALL, _one("call_jaxpr")),
    "eval_jaxpr": _rule(Boundary.CALL, _one("call_jaxpr")),
    "remat2": _rule(Boundary.DIFFERENTIATION, _one("jaxpr")),
    "checkpoint": _rule(Boundary.DIFFERENTIATION, _one("jaxpr")),
    "custom_jvp_call": _rule(
        Boundary.DIFFERENTIATION, _leading("call_jaxpr", "num_consts"), "jvp_jaxpr_fun", "jvp_jaxpr_thunk"
    ),
    "custom_vjp_call": _rule(
        Boundary.DIFFERENTIATION, _leading("call_jaxpr", "num_consts"), "fwd_jaxpr_thunk", "bwd"
    ),
    "custom_linear_solve": _rule(Boundary.DIFFERENTIATION, _linear_solve),
    "scan": _rule(Boundary.LOOP, _scan, "linear", "_split_transpose", "ft_in", "ft_out"),
    "while": _rule(Boundary.LOOP, _while),
    "cond": _rule(Boundary.BRANCH, _cond),
    **dict.fromkeys(
        ("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"),
        _rule(Boundary.LOOP, _scatter, "update_consts"),
    ),
    "reduce": _rule(Boundary.LOOP, _reduce, "computation", "consts"),
    "reduce_window": _rule(Boundary.LOOP, _reduce, "computation", "consts"),
    "shard_map": _rule(
        Boundary.DEVICE,
        _one("jaxpr"),
        "mesh",
        "in_specs",
        "out_specs",
        "manual_axes",
        "newly_manual_axes",
        "auto",
        "check_vma",
        "check_rep",
        "rewrite",
        "in_names",
        "out_names",
    ),
    "xla_pmap": _rule(
        Boundary.DEVICE,
        _one("call_jaxpr"),
        "name",
        "axis_name",
        "axis_size",
        "global_axis_size",
        "in_axes",
        "out_axes",
        "devices",
        "backend",
        "donated_invars",
        "is_explicit_global_axis_size",
    ),
}


def rule_of(primitive: str) -> Rule:
    """The rule of a primitive; `DEFAULT` when it has none of its own."""
    return RULES.get(primitive, DEFAULT)
