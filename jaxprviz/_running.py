"""How the inner programs run, as sentences: loops, branches, kernels, rules for derivatives, what the host does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from jaxprviz._roles import operand_role
from jaxprviz._scope import Scope
from jaxprviz._spelling import spelled
from jaxprviz._text import one_line
from jaxprviz._trees import tree_names
from jaxprviz._words import atom_name, boundary_text, some_names, title_of
from jaxprviz.program import Atom, Block, Equation, Role

_WRITES = frozenset(("swap", "addupdate"))


def running_lines(scopes: Iterable[Scope]) -> list[str]:
    """One sentence for each equation of the kinds that `_SENTENCES` tells of, and for each reference written."""
    lines: list[str] = []
    for scope in scopes:
        written: dict[str, list[str]] = {}
        for position, equation in enumerate(scope.body.equations):
            sentence = _SENTENCES.get(equation.primitive)
            if sentence is not None:
                lines += (one_line(line) for line in sentence(scope, position, equation))
            elif equation.primitive in _WRITES and not _is_a_kernels_own(scope, equation.operands[0]):
                what = atom_name(scope, equation.operands[0])
                written.setdefault(what, []).append(spelled(equation.primitive))
        for name, by in written.items():
            lines.append(f"In {title_of(scope)}, {name} is written in place ({some_names(by)}).")
    return lines


def _is_a_kernels_own(scope: Scope, atom: Atom) -> bool:
    """Whether a reference was made for the kernel that a scope is, to be written."""
    call = scope.call
    if call is None or atom not in scope.body.inputs:
        return False
    return call.roles[scope.body.inputs.index(atom)] in (Role.OUTPUT, Role.SCRATCH)


def _names(scope: Scope, role: Role) -> str:
    """The names of a body's inputs that have a role, as the body calls them, or as they are called outside."""
    call, body = scope.call, scope.body
    assert call is not None
    named = [
        scope.name(variable) or _outer_name(scope, variable)
        for variable, one in zip(body.inputs, call.roles, strict=True)
        if one is role
    ]
    return tree_names(named)


def _outer_name(scope: Scope, variable: int) -> str:
    outer = scope.outside(variable)
    kind = scope.body.types[variable].short
    if scope.parent is None or outer is None:
        return f"an array {kind}"
    return atom_name(scope.parent, outer)


def _parts(*parts: tuple[str, str]) -> str:
    return "".join(f"; {words}: {names}" for words, names in parts if names)


def _scan(scope: Scope, position: int, equation: Equation) -> Iterator[str]:
    inner, params = scope.child(position), dict(equation.params)
    length = params.get("length", "?")
    order = ", from the last to the first" if params.get("reverse") == "True" else ""
    steps = "1 step" if length == "1" else f"{length} steps"
    handed = _parts(
        ("handed on from step to step", _names(inner, Role.CARRY)),
        ("one slice a step", _names(inner, Role.SLICED)),
        ("the same in each step", _names(inner, Role.CONST)),
    )
    yield f"{boundary_text(inner)}: {steps}{order}{handed}."


def _while(scope: Scope, position: int, equation: Equation) -> Iterator[str]:
    cond, body = scope.child(position, 0), scope.child(position, 1)
    handed = _parts(
        ("handed on from step to step", _names(body, Role.CARRY)),
        ("the same in each step", _names(body, Role.CONST)),
        ("the same in each test", _names(cond, Role.CONST)),
    )
    test = title_of(cond) if title_of(cond) != title_of(body) else f"its test {title_of(cond)}"
    yield f"{boundary_text(body)}: as long as {test} says so, how often is known only when it runs{handed}."


def _cond(scope: Scope, position: int, equation: Equation) -> Iterator[str]:
    decides = [
        atom_name(scope, _decider(scope, position, atom))
        for place, atom in enumerate(equation.operands)
        if operand_role(equation, place) is Role.PREDICATE
    ]
    # An operand that no branch reads is none that decides: what decides stands in front.
    if not decides:
        return
    branches = [
        f"{title_of(scope.child(position, number))} ({call.label})"
        for number, call in enumerate(equation.calls)
    ]
    yield f"{spelled(equation.primitive)}: {decides[0]} decides which one runs: {some_names(branches)}."


_CASTS = frozenset(("convert_element_type", "clamp"))
"""What JAX does to the number that chooses a branch, whatever the program says."""


_NEAR = 8
"""How many equations in front of a branch are looked at for that."""


def _decider(scope: Scope, position: int, atom: Atom) -> Atom:
    """What chooses a branch, before JAX has made a number within bounds of it."""
    for equation in reversed(scope.body.equations[max(0, position - _NEAR) : position]):
        variables = [one for one in equation.operands if isinstance(one, int)]
        if equation.results == (atom,) and equation.primitive in _CASTS and len(variables) == 1:
            (atom,) = variables
    return atom


def _kernel(scope: Scope, position: int, equation: Equation) -> Iterator[str]:
    kernel = equation.kernel
    if kernel is None:
        return
    letters = "ijklmn"[: len(kernel.grid)]
    over = f" ({', '.join(letters)})" if letters and len(letters) == len(kernel.grid) else ""
    grid = f"a grid of {' × '.join(map(str, kernel.grid))} steps{over}" if kernel.grid else "one step"
    given = len(equation.operands)
    names = [
        *(atom_name(scope, atom) for atom in equation.operands),
        *(scope.name(result) or "the result" for result in equation.results),
    ]
    indices = [
        name for place, name in enumerate(names[:given]) if operand_role(equation, place) is Role.INDEX
    ]
    blocks = [_block_text(name, block) for name, block in zip(names, kernel.blocks, strict=False) if block]
    given_too = f"; given to the block indices: {some_names(indices)}" if indices else ""
    cut = "".join(f"; {text}" for text in blocks)
    yield f"{boundary_text(scope.child(position))}: a kernel of {grid}{given_too}{cut}."


def _block_text(name: str, block: Block) -> str:
    sizes = ",".join("squeezed" if size is None else str(size) for size in block.shape)
    where = f", block {block.index}" if block.index is not None else ", which block is not known"
    space = f", in {block.space}" if block.space is not None else ""
    return f"{name} in blocks [{sizes}]{where}{space}"


def _host(scope: Scope, position: int, equation: Equation) -> Iterator[str]:
    params = dict(equation.params)
    ordered = params.get("ordered") == "True" or any("Ordered" in effect for effect in equation.effects)
    text = f' of "{params["fmt"]}"' if "fmt" in params else ""
    primitive = spelled(equation.primitive)
    head = primitive if text else f"{primitive} {equation.name or ''}".strip()
    yield (
        f"{head}{text} in {title_of(scope)}: runs on the host{', in order' if ordered else ''}; not run by drawing; "
        f"gives back {_results(scope, equation)}."
    )


def _foreign(scope: Scope, position: int, equation: Equation) -> Iterator[str]:
    yield (
        f"{spelled(equation.primitive)} {equation.name} in {title_of(scope)}: compiled code from outside of JAX; "
        f"gives back {_results(scope, equation)}."
    )


def _results(scope: Scope, equation: Equation) -> str:
    return ", ".join(scope.body.types[result].short for result in equation.results) or "nothing"


def _rule(words: str) -> Callable[[Scope, int, Equation], Iterator[str]]:
    def sentence(scope: Scope, position: int, equation: Equation) -> Iterator[str]:
        if equation.calls:
            yield f"{boundary_text(scope.child(position))}: {words}."

    return sentence


def _remat(scope: Scope, position: int, equation: Equation) -> Iterator[str]:
    again = dict(equation.params).get("differentiated") == "True"
    words = (
        "what it made on the way forward is computed again here"
        if again
        else "for gradients it is computed again, and what it makes is not kept"
    )
    yield f"{boundary_text(scope.child(position))}: {words}."


def _solve(scope: Scope, position: int, equation: Equation) -> Iterator[str]:
    titles = {
        call.label: title_of(scope.child(position, number)) for number, call in enumerate(equation.calls)
    }
    right = [
        _outer_name(scope.child(position, number), variable)
        for number, call in enumerate(equation.calls)
        if call.label == "solve"
        for variable, role in zip(scope.child(position, number).body.inputs, call.roles, strict=True)
        if role is Role.OPERAND
    ]
    solved = f" = {some_names(right)}" if right else ""
    back = f"; its transpose by {titles['transpose_solve']}" if "transpose_solve" in titles else ""
    yield (
        f"{spelled(equation.primitive)}: solves {titles.get('matvec', 'a linear map')}(x){solved} "
        f"by {titles.get('solve', 'its solver')}{back}."
    )


_REMAT_NAMES = ("remat2", "checkpoint", "remat")
_HOST_NAMES = ("io_callback", "pure_callback", "debug_callback", "debug_print")

_SENTENCES: dict[str, Callable[[Scope, int, Equation], Iterator[str]]] = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "pallas_call": _kernel,
    **dict.fromkeys(_HOST_NAMES, _host),
    "ffi_call": _foreign,
    **dict.fromkeys(_REMAT_NAMES, _remat),
    "custom_jvp_call": _rule("its derivative is a rule of its own"),
    **dict.fromkeys(("custom_vjp_call", "custom_vjp_call_jaxpr"), _rule("its gradient is a rule of its own")),
    "call_hi_primitive": _rule("its derivative is a rule of its own"),
    "linear_call": _rule("a linear map whose transpose is a function of its own"),
    "custom_transpose_call": _rule("a linear map whose transpose is a function of its own"),
    "custom_vmap_call": _rule("vmap uses a rule of its own for it"),
    "custom_partitioning": _rule("how it is split over devices is a rule of its own"),
    "custom_linear_solve": _solve,
}
"""What is said of an equation, by its primitive."""
