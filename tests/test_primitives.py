"""How primitives hold their bodies: those of JAX, by `zoo`, and those that a user defines with public means."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import Primitive
from zoo import ZOO

import jaxprviz
from jaxprviz._captures import first_scopes, is_captured, is_residual
from jaxprviz._draw import draw
from jaxprviz._pmap import fold_pmaps
from jaxprviz._primitives import _ENTERED
from jaxprviz._roles import operand_role
from jaxprviz._running import running_lines
from jaxprviz._scope import Scope
from jaxprviz._trace import trace
from jaxprviz.errors import PrimitiveError
from jaxprviz.primitives import Boundary, Role, Rule, held, one_body, register
from jaxprviz.program import Call, Kernel, Program

VERSION = jax.__version_info__


def program_of(name: str) -> Program:
    fn, args = ZOO[name]()
    return fold_pmaps(trace(fn, *args))


# --- what is read of each ----------------------------------------------------------------------------------


def told(program: Program) -> str:
    """All that is read of the primitives of a program, as text: bodies, roles, captures, kernels, sentences."""
    scopes = list(first_scopes(program))
    lines = []
    for scope in scopes:
        for position, equation in enumerate(scope.body.equations):
            if equation.calls or equation.kernel is not None or equation.name is not None:
                roles = ", ".join(
                    operand_role(equation, place).value for place in range(len(equation.operands))
                )
                border = "no body" if equation.boundary is None else equation.boundary.value
                lines.append(f"{equation.primitive} {equation.name}: {border}; operands: {roles}")
            if equation.kernel is not None:
                lines += _kernel_lines(equation.kernel)
            for call in range(len(equation.calls)):
                lines += _call_lines(scope.child(position, call))
    return "\n".join([*lines, "", *running_lines(scopes), ""])


def _kernel_lines(kernel: Kernel) -> Iterator[str]:
    yield f"  grid {kernel.grid}"
    for block in kernel.blocks:
        yield f"  {block and (block.shape, block.index, block.space)}"


def _call_lines(scope: Scope) -> Iterator[str]:
    call = scope.call
    assert call is not None
    yield f"  {call.label or 'body'} {scope.title()}; results from {call.outputs}"
    for position, variable in enumerate(scope.body.inputs):
        captured = {True: ", captured", False: "", None: ", captured or not: unknown"}
        words = ", residual" if is_residual(scope, position) else captured[is_captured(scope, position)]
        name, fed = scope.name(variable), call.inputs[position]
        kind = scope.body.types[variable].short
        yield f"    {name} {kind} from {fed}: {call.roles[position].value}{words}"


# From which version of JAX on a program is traced otherwise than before: each has a text of its own.
CHANGED = {
    "compute_on": (0, 11),
    "custom_root": (0, 11),
    "custom_gradient": (0, 11),
}


@pytest.mark.parametrize("name", ZOO)
def test_what_is_read(name: str, golden: Callable[[str, str], None]) -> None:
    since = CHANGED.get(name)
    suffix = f".{'.'.join(map(str, since))}" if since is not None and since <= VERSION else ""
    if name == "nested":  # what is saved for the way back differs from each to the next
        suffix = f".{VERSION[0]}.{VERSION[1]}"
    golden(f"primitives/{name}{suffix}.txt", told(program_of(name)))


def test_every_text_is_used() -> None:
    """No text is left over of a program that was renamed."""
    stored = {path.name.split(".")[0] for path in (Path(__file__).parent / "golden/primitives").glob("*.txt")}
    version_bound = {
        "closed_call",
        "core_call",
        "custom_dce",
        "custom_transpose",
        "freeze",
        "jit_inline",
        "pallas_prefetch",
        "pallas_run_scoped",
        "pallas_scratch",
    }
    assert stored - version_bound == set(ZOO) - version_bound


# --- after transformations ---------------------------------------------------------------------------------


def _scalar(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: sum(leaf.sum() for leaf in jax.tree.leaves(fn(*args)))


def _floats(args: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(place for place, arg in enumerate(args) if jnp.issubdtype(arg.dtype, jnp.floating))


def _only_floats(fn: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function of the floating arguments alone: the others have no derivatives."""
    floats = _floats(args)

    def call(*given: Any) -> Any:
        whole = list(args)
        for place, arg in zip(floats, given, strict=True):
            whole[place] = arg
        return fn(*whole)

    return call, tuple(args[place] for place in floats)


def _linearized(fn: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        out, tangent = jax.linearize(fn, *args)
        return out, tangent(*args)

    return call


def _vjp(fn: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        out, back = jax.vjp(fn, *args)
        return back(out)

    return call


TRANSFORMS: dict[str, Callable[[Callable[..., Any], int], Callable[..., Any]]] = {
    "grad": lambda fn, count: jax.grad(_scalar(fn), argnums=tuple(range(count))),
    "vjp": lambda fn, count: _vjp(fn),
    "jvp": lambda fn, count: lambda *args: jax.jvp(fn, args, args),
    "linearize": lambda fn, count: _linearized(fn),
}


@pytest.mark.parametrize("transform", [*TRANSFORMS, "vmap"])
@pytest.mark.parametrize("name", ZOO)
def test_after_a_transformation(name: str, transform: str) -> None:
    fn, args = ZOO[name]()
    if transform == "vmap":
        made: Callable[..., Any] = jax.vmap(fn)
        args = tuple(jnp.stack([arg, arg]) for arg in args)
    else:
        fn, args = _only_floats(fn, args)
        made = TRANSFORMS[transform](fn, len(args))
    try:
        jax.make_jaxpr(made)(*args)
    except Exception as error:
        pytest.skip(f"JAX refuses it: {type(error).__name__}")
    figure = draw(made, *args)
    assert figure.dot.startswith("digraph")
    assert figure.program is not None
    require_sound(figure.program)


@pytest.mark.parametrize("name", ZOO)
def test_is_sound_and_drawn(name: str) -> None:
    fn, args = ZOO[name]()
    figure = draw(fn, *args)
    assert figure.dot.startswith("digraph")
    assert figure.program is not None
    require_sound(figure.program)


def require_sound(program: Program) -> None:
    """That each body is fed what fits it, wherever it is said what feeds it, and that nothing is missing."""
    for body in program.bodies:
        for equation in body.equations:
            assert (equation.boundary is not None) == bool(equation.calls)
            for place in range(len(equation.operands)):
                assert operand_role(equation, place) in Role
            for call in equation.calls:
                inner = program.bodies[call.body]
                counts = {len(inner.inputs), len(call.inputs), len(call.captured), len(call.roles)}
                assert counts == {len(inner.inputs)}, (equation.primitive, counts)
                assert len(call.outputs) == len(equation.results)
                for position, operand in enumerate(call.inputs):
                    if operand is None:
                        continue
                    atom = equation.operands[operand]
                    outer = body.types[atom] if isinstance(atom, int) else atom.type
                    wanted = inner.types[inner.inputs[position]]
                    if equation.device is not None or equation.boundary is Boundary.KERNEL:
                        assert outer.dtype == wanted.dtype, equation.primitive
                    elif call.roles[position] is Role.SLICED and equation.primitive == "scan":
                        assert outer.shape[1:] == wanted.shape, equation.primitive
                    elif not equation.primitive.startswith(("scatter", "reduce", "select")):
                        assert outer.shape == wanted.shape, (equation.primitive, outer, wanted)


# --- combiners, the host -----------------------------------------------------------------------------------


def test_a_combiner_that_is_one_primitive_is_a_word() -> None:
    """JAX's own `add` of a scatter is no body; a function of the user's own is."""
    sine = program_of("scatter_apply").main.equations
    assert [(dict(one.params).get("by"), one.calls) for one in sine if one.primitive == "scatter"] == [
        ("sin", ())
    ]
    added = program_of("scatter").main.equations
    assert not any(one.calls for one in added if one.primitive.startswith("scatter"))
    (own,) = [one for one in program_of("reduce").main.equations if one.primitive == "reduce"]
    assert own.calls == (
        Call(own.calls[0].body, "", (1, 0), (0,), (False, False), (Role.CARRY, Role.SLICED)),
    )


# --- primitives of a user's own ----------------------------------------------------------------------------

twice_p = Primitive("twice_of_tests")
twice_p.multiple_results = True
twice_p.def_abstract_eval(lambda *avals, **params: next(iter(_closed(params))).out_avals)


def _closed(value: Any) -> Iterator[Any]:
    """The closed jaxprs of some parameters; a primitive of the tests is typed by the first."""
    if hasattr(value, "out_avals"):
        yield value
    elif isinstance(value, functools.partial):
        yield from _closed(value.keywords)
    elif dataclasses.is_dataclass(value):
        yield from _closed([getattr(value, field.name) for field in dataclasses.fields(value)])
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _closed(item)


def jaxpr(fn: Callable[..., Any], *args: Any) -> Any:
    return jax.make_jaxpr(fn)(*args)


X = jnp.ones(3)


@pytest.fixture(autouse=True)
def _own_rules() -> Iterator[None]:
    """Rules that a test enters are gone after it."""
    before = dict(_ENTERED)
    yield
    _ENTERED.clear()
    _ENTERED.update(before)


def test_one_body_without_a_rule() -> None:
    """Found, and wired where the types agree; whether it captures is by the names: both are arguments."""

    def f(w: Any, x: Any) -> Any:
        return twice_p.bind(w, x, body=jaxpr(lambda w, x: x * w, w, x))[0]

    program = trace(f, X, X)
    (equation,) = program.main.equations
    assert equation.boundary is Boundary.UNKNOWN
    assert equation.calls == (Call(0, "", (0, 1), (0,), (False, False), (Role.OPERAND, Role.OPERAND)),)
    assert draw(f, X, X).dot.startswith("digraph")


def test_one_body_with_an_entry() -> None:
    register("twice_of_tests", one_body("body", Boundary.LOOP, captured="count", hidden=["count"]))

    def f(w: Any, x: Any) -> Any:
        return twice_p.bind(w, x, body=jaxpr(lambda w, x: x * w, w, x), count=1)[0]

    program = trace(f, X, X)
    (equation,) = program.main.equations
    assert (equation.boundary, equation.params) == (Boundary.LOOP, ())
    assert equation.calls == (Call(0, "", (0, 1), (0,), (True, False), (Role.OPERAND, Role.OPERAND)),)
    way = "bound as argument w of f; it enters twice_of_tests <lambda>, where mul reads it."
    assert f"<lambda> captures w f32[3], {way}" in str(jaxprviz.explain(f, X, X))


def test_two_bodies_with_an_entry() -> None:
    def hold(equation: Any) -> list[Any]:
        test, step = equation.params["bodies"]
        roles = [Role.CONST, Role.CARRY]
        return [
            held(equation, test, "test", operands=[0, 1], roles=roles, captured=1, outputs=[None]),
            held(equation, step, "step", operands=[1], roles=[Role.CARRY]),
        ]

    register("twice_of_tests", Rule(Boundary.LOOP, hold, frozenset({"bodies"})))

    def f(limit: Any, x: Any) -> Any:
        step, test = jaxpr(jnp.sin, x), jaxpr(lambda limit, x: (x < limit).all(), limit, x)
        return twice_p.bind(limit, x, all=step, bodies=(test, step))[0]

    (equation,) = trace(f, X, X).main.equations
    assert [dataclasses.replace(call, body=0) for call in equation.calls] == [
        Call(0, "test", (0, 1), (None,), (True, False), (Role.CONST, Role.CARRY)),
        Call(0, "step", (1,), (0,), (False,), (Role.CARRY,)),
    ]
    assert [operand_role(equation, place) for place in (0, 1)] == [Role.CONST, Role.CARRY]


@dataclasses.dataclass(frozen=True, eq=False)
class _Wrapped:
    """A parameter that holds jaxprs where only a look inside finds them."""

    first: Any
    others: dict[str, Any]

    @property
    def jaxpr(self) -> Any:
        raise RuntimeError("not to be asked")


class _Named(dict[str, Any]):
    """A dict that can be a parameter: JAX wants to hash them."""

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return id(self)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda one: _Wrapped(one, {"b": 1}),
        lambda one: functools.partial(max, key=one),
        lambda one: _Named(a=(1, _Named(b=(one,)))),
        lambda one: (None, 1.0, one, "text"),
    ],
    ids=["dataclass", "partial", "containers", "tuple"],
)
def test_bodies_that_hide(wrap: Callable[[Any], Any]) -> None:
    def f(x: Any) -> Any:
        return twice_p.bind(x, hidden=wrap(jaxpr(jnp.sin, x)))[0]

    (equation,) = trace(f, X).main.equations
    assert equation.calls == (Call(0, "", (0,), (0,), (False,), (Role.OPERAND,)),)


def test_bodies_that_do_not_fit_are_unwired() -> None:
    def f(x: Any, y: Any) -> Any:
        other = jaxpr(lambda a: (a, a), jax.ShapeDtypeStruct((2, 2), jnp.float32))
        same = jaxpr(jnp.add, x, y)
        return twice_p.bind(x, y, a_first=same, more=(same, other))[0]

    (equation,) = trace(f, X, X).main.equations
    assert [call.label for call in equation.calls] == ["a_first", "more 1", "more 2"]
    assert [(call.inputs, call.outputs) for call in equation.calls] == [
        ((0, 1), (0,)),
        ((0, 1), (0,)),
        ((None,), (None,)),
    ]
    assert equation.calls[2].roles == (Role.UNKNOWN,)


def test_constants_that_operands_feed() -> None:
    """An open jaxpr whose constants are operands captured them: it does not bake them in."""

    def f(w: Any, x: Any) -> Any:
        closed = jaxpr(lambda w, x: x * w, w, x)
        body = closed.jaxpr
        if body is closed:
            pytest.skip("a jaxpr of this JAX always carries its constants")
        moved = body.replace(
            constvars=body.invars[:1],
            invars=body.invars[1:],
            debug_info=body.debug_info._replace(arg_names=("x",)),
        )
        return twice_p.bind(w, x, a_type=closed, body=moved)[0]

    register("twice_of_tests", one_body("body", hidden=["a_type"]))
    program = trace(f, X, X)
    (equation,) = program.main.equations
    assert equation.calls == (Call(0, "", (0, 1), (0,), (True, False), (Role.OPERAND, Role.OPERAND)),)
    assert program.bodies[0].constants == ()


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda e: [held(e, e.params["body"], operands=[0])], "operands has 1 entries"),
        (lambda e: [held(e, e.params["body"], operands=[0, 7])], "operands names position 7"),
        (lambda e: [held(e, e.params["body"], roles=[Role.CARRY])], "roles has 1 entries"),
        (lambda e: [held(e, e.params["body"], outputs=[])], "outputs has 0 entries"),
    ],
)
def test_a_rule_that_does_not_fit(rule: Any, words: str) -> None:
    register("twice_of_tests", Rule(Boundary.CALL, rule))

    def f(w: Any, x: Any) -> Any:
        return twice_p.bind(w, x, body=jaxpr(jnp.add, w, x))[0]

    with pytest.raises(PrimitiveError, match=words):
        trace(f, X, X)


def test_a_rule_for_a_primitive_without_its_parameter() -> None:
    """A primitive that has another's name is read by looking."""
    register("twice_of_tests", one_body("elsewhere"))
    (equation,) = trace(lambda x: twice_p.bind(x, body=jaxpr(jnp.sin, x)), X).main.equations
    assert (equation.boundary, len(equation.calls)) == (Boundary.UNKNOWN, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("scan", one_body("jaxpr")), "JAX has a primitive of this name"),
        ((twice_p, one_body("jaxpr")), "not a name"),
        (("mine", "jaxpr"), "not a Rule"),
    ],
)
def test_rules_that_are_refused(arguments: Any, words: str) -> None:
    with pytest.raises(PrimitiveError, match=words):
        register(*arguments)


def test_the_page_about_it() -> None:
    """The code of docs/primitives.md runs, and explain says what the page says that it does."""
    text = (Path(__file__).parents[1] / "docs/primitives.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(code, "<docs/primitives.md>", "exec"), names)
    (said,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert said.strip() in str(names["text"])
    assert names["twice"](jnp.float32(3), jnp.float32(2)) == 18

    search_p = Primitive("search")
    search_p.multiple_results = True
    search_p.def_abstract_eval(lambda *avals, test, step, num_captured: step.out_avals)

    def search(limit: Any, x: Any) -> Any:
        test, step = jaxpr(lambda limit, x: (x < limit).all(), limit, x), jaxpr(jnp.sin, x)
        return search_p.bind(limit, x, test=test, step=step, num_captured=1)[0]

    (equation,) = trace(search, X, X).main.equations
    assert [(call.label, call.inputs, call.captured) for call in equation.calls] == [
        ("test", (0, 1), (True, False)),
        ("step", (1,), (False,)),
    ]


# --- names -------------------------------------------------------------------------------------------------


def test_what_lax_map_calls_has_the_users_names() -> None:
    def f(w: Any, xs: Any) -> Any:
        def row(pair: Any) -> Any:
            return pair["a"] * w

        return jax.lax.map(row, xs)

    program = trace(f, X, {"a": jnp.ones((4, 3))})
    (scope,) = Scope.root(program).children()
    assert scope.title() == "row"
    assert [scope.name(variable) for variable in scope.body.inputs] == ["w", "pair['a']"]


def test_branches_tell_each_others_arguments() -> None:
    """A branch without an equation has no code to ask."""
    scopes = list(first_scopes(program_of("switch")))[1:]
    told = [[is_captured(scope, position) for position in (0, 1)] for scope in scopes]
    assert told == [[False, False], [True, False], [False, False]]


def test_a_partial_under_pmap_captures_or_is_unknown() -> None:
    def f(w: Any, x: Any) -> Any:
        return jax.pmap(functools.partial(jnp.multiply, w), devices=jax.devices()[:4])(x)

    def mul(w: Any, x: Any) -> Any:
        return x * w

    def g(w: Any, x: Any) -> Any:
        return jax.pmap(functools.partial(mul, w), devices=jax.devices()[:4])(x)

    for fn in (f, g):
        program = fold_pmaps(trace(fn, X, jnp.ones((4, 3))))
        (scope,) = Scope.root(program).children()
        assert is_captured(scope, 0) in ((True,) if VERSION >= (0, 8) else (True, None))
        assert is_captured(scope, 1) is False


def test_a_pmap_is_one_equation() -> None:
    (equation,) = program_of("pmap").main.equations
    assert (equation.primitive, equation.name, equation.boundary) == ("pmap", "g", Boundary.DEVICE)
