"""How each primitive holds its bodies: one entry a primitive.

An entry says where the bodies are, how the operands reach their inputs, which inputs are captured variables,
and what sort of border the equation draws.  A primitive without an entry goes by `DEFAULT`: bodies are found
by looking, wired by position where the types agree, and the rest is unknown.  The rules were found
by tracing, on JAX 0.7.2, 0.8.3, 0.9.2, 0.10.2 and 0.12.0.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from jaxprviz import _jax
from jaxprviz._read_kernels import host_function, index_kernel
from jaxprviz.errors import PrimitiveError
from jaxprviz.program import Boundary, Kernel, Role, Type


@dataclass(frozen=True, slots=True)
class Held:
    """One body that an equation holds: the fields of `Call`, with JAX's jaxpr in the place of a number.

    Attributes:
        jaxpr: the jaxpr, open or closed.
        label: which of the equation's bodies it is; empty when it is the only one and needs no word.
        inputs: for each input of the body the position of the operand that feeds it; None where that is not
            known, or where the equation makes the value itself.
        outputs: for each result of the equation the position of the body's output that it comes from; None
            where that is not known.
        captured: for each input whether it is a captured variable; None where that is not known.
        roles: for each input what it is to the equation.
        fed: whether operands feed its constants too, in front of its inputs: they are then inputs like them.
    """

    jaxpr: Any
    label: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    captured: tuple[bool | None, ...]
    roles: tuple[Role, ...]
    fed: bool = False


Hold = Callable[[Any], Sequence[Held]]
"""From JAX's equation to the bodies that it holds."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How one primitive holds its bodies.

    Attributes:
        boundary: what sort of border it draws.
        hold: from the equation to the bodies that it holds.
        hidden: the parameters that are not shown: the bodies, and what `hold` has taken from them.
        needs: the parameters that `hold` reads.  An equation without them is of another primitive that has the
            same name, or of a JAX that has changed: it goes by `DEFAULT`.
        name: from the equation to the name of the function that it calls; None takes its parameter `name`.
        words: what is shown as a parameter in the place of a body: pairs of a name and a text.
        kernel: from the equation to what it says about a kernel's grid.
    """

    boundary: Boundary
    hold: Hold
    hidden: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    name: Callable[[Any], str | None] | None = None
    words: Callable[[Any], Sequence[tuple[str, str]]] | None = None
    kernel: Callable[[Any], Kernel] | None = None


# --- one body -----------------------------------------------------------------------------------------------


def held(
    equation: Any,
    jaxpr: Any,
    label: str = "",
    *,
    operands: Sequence[int | None] | None = None,
    roles: Sequence[Role] | None = None,
    captured: Sequence[bool | None] | int | None = None,
    outputs: Sequence[int | None] | None = None,
    fed: bool = False,
) -> Held:
    """One body of an equation; what is not given is found as far as it can be.

    Args:
        equation: JAX's equation.
        jaxpr: the body, open or closed: one of the equation's parameters.
        label: which of the equation's bodies it is (`"forward"`); empty when it is the only one.
        operands: for each input of the body the position of the operand that feeds it (None: not known, or
            made by the primitive itself).  Not given: one to one, where there are as many of each; else not
            known.
        roles: for each input what it is.  Not given: `Role.OPERAND`, where an operand is known to feed it.
        captured: for each input whether it is a captured variable, or how many of the leading ones are.  Not
            given: those whose name JAX leaves empty, which is how it marks what a traced function captured.
        outputs: for each result of the equation the position of the output of the body that it comes from.
            Not given: one to one, where there are as many of each; else not known.
        fed: whether operands feed the constants of the jaxpr too; they are then the first of its inputs.  A
            jaxpr that carries no values for its constants is fed in any case.

    Returns:
        The body, for a rule to return.
    """
    body = _jax.open_jaxpr(jaxpr)
    # An open jaxpr that does not carry its constants gets them as operands: they are what it captured.
    fed = fed or len(body.constvars) != len(_jax.constants(jaxpr))
    names = _jax.arg_names(body)
    if fed:
        names = (*("",) * len(body.constvars), *names)
    total, results = len(names), len(equation.outvars)
    if operands is None:
        operands = range(total) if total == len(equation.invars) else (None,) * total
        if roles is None and total != len(equation.invars):
            roles = (Role.UNKNOWN,) * total
    if roles is None:
        roles = (Role.OPERAND,) * total
        if captured is None:
            captured = tuple(None if name is None else name == "" for name in names)
    if captured is None:
        captured = tuple(_is_captured(name, role) for name, role in zip(names, roles, strict=False))
    elif isinstance(captured, int):
        captured = tuple(position < captured for position in range(total))
    if outputs is None:
        outputs = tuple(range(results)) if len(body.outvars) == results else (None,) * results
    return Held(jaxpr, label, tuple(operands), tuple(outputs), tuple(captured), tuple(roles), fed)


def _count(jaxpr: Any, fed: bool = False) -> int:
    """How many inputs a body has, those of its constants included that operands feed."""
    return len(_inputs(jaxpr, fed))


def _inputs(jaxpr: Any, fed: bool = False) -> Sequence[Any]:
    body = _jax.open_jaxpr(jaxpr)
    fed = fed or len(body.constvars) != len(_jax.constants(jaxpr))
    return (*body.constvars, *body.invars) if fed else body.invars


def one_body(
    param: str,
    boundary: Boundary = Boundary.CALL,
    *,
    captured: str | int | None = None,
    hidden: Sequence[str] = (),
) -> Rule:
    """The rule of a primitive that holds one body, fed by its operands one to one.

    Args:
        param: the parameter that holds the jaxpr.
        boundary: what sort of border it draws.
        captured: how many of the leading inputs are captured variables, or the parameter that says it; None
            goes by the names that JAX keeps.
        hidden: further parameters that are not shown.
    """

    def hold(equation: Any) -> Sequence[Held]:
        count = equation.params[captured] if isinstance(captured, str) else captured
        return (held(equation, equation.params[param], captured=count),)

    counted = (captured,) if isinstance(captured, str) else ()
    return Rule(boundary, hold, frozenset(hidden), frozenset((param, *counted)))


def _with_rule_of_its_own(param: str, hidden: Sequence[str]) -> Rule:
    """The rule of a function that has its own derivative: its names tell what it captures, or else a count.

    The count is of what it captured when it was traced.  Traced a second time, as by `vmap` or `jax.grad`, it gets
    all of that handed: then nothing is counted, and that says nothing.
    """

    def hold(equation: Any) -> Sequence[Held]:
        jaxpr, count = equation.params[param], equation.params["num_consts"]
        named = any(_jax.arg_names(_jax.open_jaxpr(jaxpr)))
        return (held(equation, jaxpr, captured=count if count and not named else None),)

    return Rule(
        Boundary.DIFFERENTIATION, hold, frozenset(("num_consts", *hidden)), frozenset((param, "num_consts"))
    )


def _is_captured(name: str | None, role: Role) -> bool | None:
    """Whether an input is captured, by the name that JAX keeps.

    Inputs that a loop hands on or slices never are, whatever their name; where there is no name, those among
    the constants are not known: a loop moves values that never change there, captured or not.
    """
    if role not in (Role.CONST, Role.OPERAND, Role.UNKNOWN):
        return False
    return None if name is None else name == ""


def _spread(
    equation: Any,
    jaxpr: Any,
    label: str,
    operands: Sequence[int | None],
    spans: Sequence[tuple[Role, int]],
    captured: int | None = None,
) -> Held:
    """A body whose inputs fall into spans of roles; of another length, as no JAX of those tried has it: unwired."""
    roles = [role for role, length in spans for _ in range(length)]
    if len(roles) != _count(jaxpr):
        return _unwired(equation, jaxpr, label)
    return held(equation, jaxpr, label, operands=operands, roles=roles, captured=captured)


def _unwired(equation: Any, jaxpr: Any, label: str = "") -> Held:
    """A body of which nobody knows what feeds it; what has a name is no captured variable."""
    total = _count(jaxpr)
    body = held(equation, jaxpr, label, operands=(None,) * total, roles=(Role.UNKNOWN,) * total)
    return replace(body, captured=tuple(False if mark is False else None for mark in body.captured))


def _no_outputs(equation: Any) -> tuple[None, ...]:
    """The outputs of a body that makes none of the equation's results."""
    return (None,) * len(equation.outvars)


# --- loops and branches -------------------------------------------------------------------------------------


def _scan(equation: Any) -> Sequence[Held]:
    params = equation.params
    total = len(equation.invars)
    if "num_consts" in params:
        consts, carry = int(params["num_consts"]), int(params["num_carry"])
    else:  # from 0.12 on three groups: constants, carry, sliced
        groups = params["ft_in"].unpack()
        consts, carry = len(groups[0]), len(groups[1])
    spans = ((Role.CONST, consts), (Role.CARRY, carry), (Role.SLICED, total - consts - carry))
    return (_spread(equation, params["jaxpr"], "", range(total), spans),)


def _while(equation: Any) -> Sequence[Held]:
    params = equation.params
    first, second = int(params["cond_nconsts"]), int(params["body_nconsts"])
    carry = range(first + second, len(equation.invars))

    def of(name: str, consts: range) -> Held:
        spans = ((Role.CONST, len(consts)), (Role.CARRY, len(carry)))
        return _spread(equation, params[f"{name}_jaxpr"], name, (*consts, *carry), spans)

    cond = of("cond", range(first))
    return (replace(cond, outputs=_no_outputs(equation)), of("body", range(first, first + second)))


def _cond(equation: Any) -> Sequence[Held]:
    branches = equation.params["branches"]
    count = len(equation.invars) - 1
    labels = ("false", "true") if len(branches) == 2 else tuple(f"branch {k}" for k in range(len(branches)))
    bodies = [
        _spread(equation, branch, label, range(1, count + 1), ((Role.OPERAND, count),))
        for branch, label in zip(branches, labels, strict=True)
    ]
    # What any branch captures is an input of all of them: a branch captures only what it reads.
    return tuple(replace(body, captured=_where_read(body)) for body in bodies)


def _where_read(body: Held) -> tuple[bool | None, ...]:
    """Which inputs are captured, when those that nothing reads are not."""
    jaxpr = _jax.open_jaxpr(body.jaxpr)
    read = {id(var) for equation in jaxpr.eqns for var in equation.invars} | {
        id(var) for var in jaxpr.outvars
    }
    inputs = _inputs(body.jaxpr, body.fed)
    return tuple(
        captured if id(var) in read else False for captured, var in zip(body.captured, inputs, strict=True)
    )


# --- differentiation and batching ---------------------------------------------------------------------------


def _linear_solve(equation: Any) -> Sequence[Held]:
    jaxprs, lengths = equation.params["jaxprs"], equation.params["const_lengths"]
    total = len(equation.invars)
    right = range(sum(filter(None, lengths)), total)
    bodies, start = [], 0
    for label in jaxprs._fields:
        jaxpr, count = getattr(jaxprs, label), getattr(lengths, label)
        if jaxpr is not None:
            consts = range(start, start + count)
            own = _count(jaxpr) - count
            makes = label == "solve"
            # Only the solver sees the right side itself; the others get what the equation makes of it.
            rest = right if makes and own == len(right) else (None,) * own
            spans = ((Role.CONST, count), (Role.OPERAND if makes else Role.UNKNOWN, own))
            body = _spread(equation, jaxpr, label, (*consts, *rest), spans, captured=count)
            bodies.append(body if makes else replace(body, outputs=_no_outputs(equation)))
        start += count
    return tuple(bodies)


def _custom_vmap(equation: Any) -> Sequence[Held]:
    captured = equation.params["in_tree"].children()[0].num_leaves
    return (held(equation, equation.params["call"], captured=captured),)


def _own_nothing(param: str) -> Hold:
    """One body in one parameter, traced from no function that could capture."""
    return lambda equation: (held(equation, equation.params[param], captured=0),)


def _first_of(*params: str) -> Hold:
    """One body, in the first of these parameters that there is: it was renamed."""
    return lambda equation: (
        held(equation, next(equation.params[param] for param in params if param in equation.params)),
    )


def _hi(equation: Any) -> Sequence[Held]:
    """The body of a primitive of JAX's new kind, which is an object with parameters of its own."""
    prim = equation.params["_prim"]
    leading = _HI_CAPTURES.get(type(prim).__name__)
    bodies = _found(equation, dict(getattr(prim, "params", {})))
    if leading is None or len(bodies) != 1:
        return bodies
    captured, taken = leading(prim)
    (body,) = bodies
    total, operands = _count(body.jaxpr), len(equation.invars)
    wired = (*range(captured), *range(captured + taken, operands))[:total]
    if len(wired) != total:
        return bodies
    return (held(equation, body.jaxpr, operands=wired, captured=captured),)


def _hi_leaves(prim: Any, *places: int) -> int:
    """How many arrays there are in these arguments of such a primitive."""
    children = prim.in_tree.children()
    return sum(children[place].num_leaves for place in places)


# How many operands the function of such a primitive captured, which stand in front, and how many that follow
# them the body does not get.
_HI_CAPTURES: dict[str, Callable[[Any], tuple[int, int]]] = {
    "CustomRoot": lambda prim: (_hi_leaves(prim, 0), 0),
    "CustomVJPTraced": lambda prim: (_hi_leaves(prim, 0), _hi_leaves(prim, 1)),
    "CustomJVPTraced": lambda prim: (_hi_leaves(prim, 0), 0),
}


def _hi_name(equation: Any) -> str | None:
    prim = equation.params["_prim"]
    name = getattr(getattr(prim, "traced", None), "fun_name", None)
    return name if isinstance(name, str) else type(prim).__name__


# --- references and kernels ---------------------------------------------------------------------------------


def _pallas(equation: Any) -> Sequence[Held]:
    """A kernel: its references are made by the equation, of the operands, for the results, and to work in."""
    jaxpr, mapping = equation.params["jaxpr"], equation.params["grid_mapping"]
    indices, results = int(mapping.num_index_operands), int(mapping.num_outputs)
    inputs = int(mapping.num_inputs)
    # The sizes of a grid that are known only when it runs stand in front.
    first = len(equation.invars) - indices - inputs
    total = _count(jaxpr)
    scratch = total - indices - inputs - results
    spans = ((Role.INDEX, indices), (Role.OPERAND, inputs), (Role.OUTPUT, results), (Role.SCRATCH, scratch))
    operands = (*range(first, len(equation.invars)), *(None,) * (results + scratch))
    return (_spread(equation, jaxpr, "", operands, spans, captured=0),)


def _scoped(equation: Any) -> Sequence[Held]:
    """A function that works in memory made for it; what it captures are the constants of its jaxpr."""
    jaxpr = equation.params["jaxpr"]
    body = _jax.open_jaxpr(jaxpr)
    captured, own = len(body.constvars), len(body.invars)
    if captured != len(equation.invars):
        return _anywhere(equation)
    roles = (*(Role.OPERAND,) * captured, *(Role.SCRATCH,) * own)
    operands = (*range(captured), *(None,) * own)
    return (held(equation, jaxpr, operands=operands, roles=roles, captured=captured, fed=True),)


# --- what joins elements ------------------------------------------------------------------------------------


def _joined(*params: str, inputs: Callable[[Any], tuple[Sequence[int], Sequence[tuple[Role, int]]]]) -> Hold:
    """The functions that join elements, where they are more than a word; fed as `inputs` tells."""

    def hold(equation: Any) -> Sequence[Held]:
        operands, spans = inputs(equation)
        bodies = []
        for param in params:
            jaxpr = equation.params.get(param)
            if jaxpr is not None and _word(jaxpr) is None:
                label = param.removesuffix("_jaxpr") if len(params) > 1 else ""
                body = _spread(equation, jaxpr, label, operands, spans, captured=0)
                bodies.append(replace(body, outputs=_no_outputs(equation)) if label == "select" else body)
        return tuple(bodies)

    return hold


def _words(*params: str) -> Callable[[Any], Sequence[tuple[str, str]]]:
    """The functions that join elements and are a primitive alone: `add`."""

    def words(equation: Any) -> Sequence[tuple[str, str]]:
        found = ((param, _word(equation.params.get(param))) for param in params)
        return tuple(
            ("by" if len(params) == 1 else param.removesuffix("_jaxpr"), word)
            for param, word in found
            if word and not equation.primitive.name.endswith(word)
        )

    return words


def _word(jaxpr: Any) -> str | None:
    """The primitive that a function does nothing but call; empty for one that does nothing, None for others."""
    if jaxpr is None:
        return ""
    body = _jax.open_jaxpr(jaxpr)
    if not body.eqns:
        return ""
    (equation, *more) = body.eqns
    plain = all(any(atom is var for var in body.invars) for atom in equation.invars)
    ends = len(equation.outvars) == len(body.outvars) and all(
        one is other for one, other in zip(equation.outvars, body.outvars, strict=True)
    )
    bare = not any(True for value in equation.params.values() for _ in _jax.sub_jaxprs(value))
    return equation.primitive.name if not more and plain and ends and bare else None


def _element_and_update(equation: Any) -> tuple[Sequence[int], Sequence[tuple[Role, int]]]:
    """An element of the array and one of the updates."""
    return (0, 2), ((Role.SLICED, 2),)


def _so_far_and_next(equation: Any) -> tuple[Sequence[int], Sequence[tuple[Role, int]]]:
    """The value so far, which begins with the last half of the operands, and an element."""
    half = len(equation.invars) // 2
    return (*range(half, 2 * half), *range(half)), ((Role.CARRY, half), (Role.SLICED, half))


def _two_elements(equation: Any) -> tuple[Sequence[int], Sequence[tuple[Role, int]]]:
    """Two elements of the array."""
    return (0, 0), ((Role.SLICED, 2),)


# --- bodies that are looked for -----------------------------------------------------------------------------


def _anywhere(equation: Any) -> Sequence[Held]:
    """Bodies found by looking through the parameters."""
    return _found(equation, equation.params) if equation.params else ()


def _found(equation: Any, params: dict[str, Any]) -> Sequence[Held]:
    found = [(name, jaxpr) for name in params for jaxpr in _jax.sub_jaxprs(params[name])]
    if not found:
        return ()
    found.sort(key=itemgetter(0))
    names = [name for name, _ in found]
    labels = [f"{name} {k}" if names.count(name) > 1 else name for k, name in enumerate(names)]
    if len(found) == 1:
        labels = [""]
    return tuple(
        replace(_by_type(equation, jaxpr), label=label)
        for label, (_, jaxpr) in zip(labels, found, strict=True)
    )


def _by_type(equation: Any, jaxpr: Any) -> Held:
    """A body that is wired one to one where not only the counts but all the types agree."""
    body = _jax.open_jaxpr(jaxpr)
    straight = _same_types(_inputs(jaxpr), equation.invars)
    found = held(equation, jaxpr) if straight else _unwired(equation, jaxpr)
    outputs = _same_types(body.outvars, equation.outvars)
    return found if outputs else replace(found, outputs=_no_outputs(equation))


def _same_types(ones: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(ones) == len(others) and all(
        (one.kind, one.shape, one.dtype) == (other.kind, other.shape, other.dtype)
        for one, other in zip(_types(ones), _types(others), strict=True)
    )


def _types(variables: Sequence[Any]) -> Iterator[Type]:
    return (_jax.read_type(variable.aval) for variable in variables)


# --- the table ----------------------------------------------------------------------------------------------


def _rule(
    boundary: Boundary, hold: Hold, needs: Sequence[str], hidden: Sequence[str] = (), **more: Any
) -> Rule:
    return Rule(boundary, hold, frozenset(hidden), frozenset(needs), **more)


def _nothing(equation: Any) -> Sequence[Held]:
    """No body."""
    return ()


DEFAULT = _rule(Boundary.UNKNOWN, _anywhere, ())

_JIT = one_body(
    "jaxpr",
    hidden=(
        "name",
        "keep_unused",
        "inline",
        "compiler_options_kvs",
        "resource_env",
        "in_shardings",
        "out_shardings",
        "in_layouts",
        "out_layouts",
        "donated_invars",
        "ctx_mesh",
    ),
)
_REMAT = one_body("jaxpr", Boundary.DIFFERENTIATION)
_CLOSED = _rule(Boundary.CALL, _own_nothing("call_jaxpr"), ("call_jaxpr",), ("name",))
_SCATTER = _rule(
    Boundary.LOOP,
    _joined("update_jaxpr", inputs=_element_and_update),
    ("update_jaxpr",),
    ("update_jaxpr", "update_consts"),
    words=_words("update_jaxpr"),
)
_REDUCE = _rule(
    Boundary.LOOP,
    _joined("jaxpr", inputs=_so_far_and_next),
    ("jaxpr",),
    ("jaxpr", "computation", "consts"),
    words=_words("jaxpr"),
)
_HOST = _rule(
    Boundary.CALL,
    _nothing,
    ("callback",),
    ("callback", "result_avals", "sharding", "partitioned", "effect"),
    name=lambda equation: host_function(equation.params["callback"]),
)

RULES: dict[str, Rule] = {
    "jit": _JIT,
    "pjit": _JIT,  # its name up to 0.6
    "closed_call": _CLOSED,
    "core_call": _CLOSED,
    "call": _CLOSED,  # how JAX names its core_call
    "eval_jaxpr": _CLOSED,
    "compute_on": one_body("jaxpr", hidden=("compiler_options_json",)),
    "xla_metadata_call": one_body("jaxpr"),
    "composite": _rule(
        Boundary.CALL, _first_of("call_jaxpr", "jaxpr"), ("name", "version"), ("name", "version")
    ),
    "custom_partitioning": one_body(
        "call", hidden=("in_tree", "out_tree", "static_args", "decode_shardings", "sharding_rule")
    ),
    "custom_dce_call": one_body("fun_jaxpr", captured="num_consts", hidden=("num_consts",)),
    "fused_call": one_body("jaxpr", Boundary.KERNEL),
    "cudnn_fusion": one_body("jaxpr", Boundary.KERNEL, hidden=("name",)),
    "remat2": _REMAT,
    "checkpoint": _REMAT,
    "remat": _REMAT,
    "custom_jvp_call": _with_rule_of_its_own("call_jaxpr", ("jvp_jaxpr_fun", "jvp_jaxpr_thunk")),
    "custom_vjp_call": _with_rule_of_its_own("call_jaxpr", ("fwd_jaxpr_thunk", "bwd", "out_trees")),
    "custom_vjp_call_jaxpr": _with_rule_of_its_own(  # its name up to 0.5
        "fun_jaxpr", ("fwd_jaxpr_thunk", "bwd", "out_trees")
    ),
    "custom_lin": _rule(
        Boundary.DIFFERENTIATION, _nothing, (), ("bwd", "in_zeros", "out_avals", "symbolic_zeros")
    ),
    "custom_linear_solve": _rule(
        Boundary.DIFFERENTIATION, _linear_solve, ("jaxprs", "const_lengths"), ("jaxprs", "const_lengths")
    ),
    "linear_call": one_body(
        "callee",
        Boundary.DIFFERENTIATION,
        captured="num_callee_consts",
        hidden=("num_callee_consts", "num_res", "transpose_thunk", "transpose"),
    ),
    "custom_transpose_call": one_body(
        "call_jaxpr",
        Boundary.DIFFERENTIATION,
        hidden=("lin_tree", "out_tree", "out_types", "res_tree", "transpose_jaxpr_thunk"),
    ),
    "custom_vmap_call": _rule(
        Boundary.CALL, _custom_vmap, ("call", "in_tree"), ("rule", "in_tree", "out_tree")
    ),
    "call_hi_primitive": _rule(Boundary.DIFFERENTIATION, _hi, ("_prim",), ("_prim",), name=_hi_name),
    "call_hi_primitive_linearized": _rule(
        Boundary.DIFFERENTIATION, _hi, ("_prim",), ("_prim",), name=_hi_name
    ),
    "scan": _rule(
        Boundary.LOOP,
        _scan,
        ("jaxpr", "length"),
        ("linear", "_split_transpose", "ft_in", "ft_out", "num_consts", "num_carry"),
    ),
    "while": _rule(
        Boundary.LOOP,
        _while,
        ("cond_jaxpr", "body_jaxpr", "cond_nconsts", "body_nconsts"),
        ("cond_nconsts", "body_nconsts"),
    ),
    "cond": _rule(Boundary.BRANCH, _cond, ("branches",)),
    **dict.fromkeys(
        ("scatter", "scatter-add", "scatter_add", "scatter-sub", "scatter-mul", "scatter_mul"), _SCATTER
    ),
    **dict.fromkeys(("scatter-min", "scatter_min", "scatter-max", "scatter_max", "scatter-apply"), _SCATTER),
    "reduce": _REDUCE,
    "reduce_window": _REDUCE,
    "select_and_scatter": _rule(
        Boundary.LOOP,
        _joined("select_jaxpr", "scatter_jaxpr", inputs=_two_elements),
        ("select_jaxpr", "scatter_jaxpr"),
        ("select_jaxpr", "select_consts", "scatter_jaxpr", "scatter_consts"),
        words=_words("select_jaxpr", "scatter_jaxpr"),
    ),
    "run_state": _rule(Boundary.CALL, _first_of("jaxpr"), ("jaxpr",), ("which_linear", "is_initialized")),
    "run_scoped": _rule(Boundary.CALL, _scoped, ("jaxpr",), ("collective_axes", "ref_transforms")),
    "core_map": _rule(Boundary.KERNEL, _scoped, ("jaxpr",), ("compiler_params", "cost_estimate", "debug")),
    "pallas_call": _rule(
        Boundary.KERNEL,
        _pallas,
        ("jaxpr", "grid_mapping"),
        (
            "grid_mapping",
            "backend",
            "compiler_params",
            "cost_estimate",
            "debug",
            "out_avals",
            "name",
            "mesh",
            "metadata",
        ),
        kernel=index_kernel,
    ),
    "io_callback": _HOST,
    "pure_callback": _HOST,
    "debug_callback": _HOST,
    "debug_print": _rule(
        Boundary.CALL,
        _nothing,
        ("fmt",),
        ("has_placeholders", "in_tree", "logging_record", "np_printoptions", "partitioned", "static_args"),
        name=lambda equation: "print",
    ),
    "ffi_call": _rule(
        Boundary.CALL,
        _nothing,
        ("target_name",),
        (
            "target_name",
            "custom_call_api_version",
            "legacy_backend_config",
            "input_layouts",
            "output_layouts",
            "result_avals",
        ),
        name=lambda equation: str(equation.params["target_name"]),
    ),
    "shard_map": one_body(
        "jaxpr",
        Boundary.DEVICE,
        hidden=(
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
    ),
    "xla_pmap": one_body(
        "call_jaxpr",
        Boundary.DEVICE,
        hidden=(
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
    ),
}

_ENTERED: dict[str, Rule] = {}
"""The rules that users have entered."""


def register(primitive: str, rule: Rule) -> None:
    """Enters the rule of a primitive, so that its equations are drawn as the rule tells.

    A rule that was entered before for the same name is replaced.

    Args:
        primitive: the primitive's name: `my_call_p.name`.
        rule: how it holds its bodies; `one_body` makes that of the most common sort.

    Raises:
        PrimitiveError: the name is that of one of JAX's own primitives, which have their rules; or an argument
            is of another type.
    """
    asked = f"jaxprviz was asked to enter a rule for the primitive {primitive!r}"
    if not isinstance(primitive, str):
        raise PrimitiveError(
            asked,
            f"that is of type {type(primitive).__name__}, not a name",
            'Give the primitive\'s name: register("my_call", rule), or register(my_call_p.name, rule).',
        )
    if not isinstance(rule, Rule):
        raise PrimitiveError(
            asked,
            f"the rule is of type {type(rule).__name__}, not a Rule",
            'Make one: register("my_call", one_body("jaxpr")).',
        )
    if primitive in RULES:
        raise PrimitiveError(
            asked,
            "JAX has a primitive of this name, and its rule is in the table already",
            "Give your primitive a name of its own.",
        )
    _ENTERED[primitive] = rule


def rule_of(equation: Any) -> Rule:
    """The rule of an equation's primitive; `DEFAULT` when it has none of its own."""
    name = equation.primitive.name
    rule = RULES.get(name) or _ENTERED.get(name)
    return rule if rule is not None and rule.needs <= equation.params.keys() else DEFAULT


def bodies_of(equation: Any, rule: Rule) -> tuple[Held, ...]:
    """The bodies that an equation holds.

    Raises:
        PrimitiveError: a rule that a user has entered does not fit the equation.
    """
    bodies = tuple(rule.hold(equation))
    if bodies and _ENTERED.get(equation.primitive.name) is rule:
        for body in bodies:
            _require_fit(equation.primitive.name, equation, body)
    return bodies


def _require_fit(name: str, equation: Any, body: Held) -> None:
    inputs, outputs = _count(body.jaxpr, body.fed), len(_jax.open_jaxpr(body.jaxpr).outvars)
    operands, results = len(equation.invars), len(equation.outvars)
    lengths = (
        ("operands", body.inputs, inputs, "input of the body"),
        ("roles", body.roles, inputs, "input of the body"),
        ("captured", body.captured, inputs, "input of the body"),
        ("outputs", body.outputs, results, "result of the equation"),
    )
    for what, given, wanted, each in lengths:
        if len(given) != wanted:
            _refuse(name, f"{what} has {len(given)} entries", f"{wanted}: one for each {each}")
    for what, given, count in (("operands", body.inputs, operands), ("outputs", body.outputs, outputs)):
        beyond = [place for place in given if place is not None and not 0 <= place < count]
        if beyond:
            _refuse(name, f"{what} names position {beyond[0]}", f"positions from 0 to {count - 1}, or None")


def _refuse(name: str, wrong: str, wanted: str) -> None:
    raise PrimitiveError(
        f"jaxprviz was asked to read an equation of {name!r} by the rule that was entered for it",
        wrong,
        f"It takes {wanted}.  Mend the rule and enter it again with register({name!r}, ...).",
    )
