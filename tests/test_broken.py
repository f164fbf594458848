"""Programs that once made a picture or a sentence say what is not so: each with what is right."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxprviz import explain, trace
from jaxprviz.program import Program

W, X = jnp.ones((2, 3)), jnp.ones((4, 2, 3))


def section(text: str, title: str) -> list[str]:
    """The sentences under a title."""
    lines = text.splitlines()
    if title not in lines:
        return []
    start = lines.index(title) + 1
    end = lines.index("", start) if "" in lines[start:] else len(lines)
    return [line.strip() for line in lines[start:end]]


def captured(text: str) -> list[str]:
    return section(text, "Captured variables")


def names(program: Program) -> list[tuple[str, str]]:
    """The equations whose results have a name, as (name, primitive)."""
    return [
        (name, equation.primitive)
        for body in program.bodies
        for equation in body.equations
        if equation.source is not None
        for name in equation.source.assigned
    ]


def test_the_only_equation_is_a_jit_that_captures() -> None:
    def f(w, x):
        return jax.jit(lambda y: y * w)(x)

    assert captured(explain(f, W, X)) == [
        "<lambda> captures w f32[2,3], bound as argument w of f; it enters jit <lambda>."
    ]


def test_each_level_of_nested_jits_is_counted() -> None:
    def f(w, x):
        @jax.jit
        def outer(y):
            @jax.jit
            def inner(z):
                return z * w

            return inner(y)

        return outer(x)

    assert captured(explain(f, W, X)) == [
        "outer captures w f32[2,3], bound as argument w of f; it enters jit outer.",
        "inner captures w f32[2,3], bound as argument w of f; it enters jit outer, then jit inner.",
    ]


def test_a_captured_number_is_no_argument() -> None:
    def f(x):
        number = jnp.float32(2)
        return jax.pmap(lambda y: y + number)(x)

    text = explain(f, X)
    if jax.__version_info__ >= (0, 8):  # before, JAX keeps no names there
        assert captured(text) == [
            "<lambda> captures the number 2.0 f32[], bound as a number written into f; it enters pmap <lambda>."
        ]
    assert "  the number 2.0 f32[]" in text
    assert "argument number" not in text


def test_a_loops_carry_is_not_its_first_value() -> None:
    def f(w, xs):
        def body(c, x):
            return c + jax.jit(lambda y: y * c)(x), None

        return jax.lax.scan(body, w, xs)

    assert captured(explain(f, W, X)) == [
        "<lambda> captures c f32[2,3], bound as argument c of body; it enters jit <lambda>."
    ]


def test_one_step_of_a_loop_does_not_capture_all_slices() -> None:
    def f(ws, x):
        def body(c, w):
            return jax.jit(lambda y: y * w)(c), None

        return jax.lax.scan(body, x, ws)

    assert captured(explain(f, jnp.ones((5, 2, 3)), X)) == [
        "<lambda> captures w f32[2,3], bound as argument w of body; it enters jit <lambda>."
    ]


def test_a_capture_is_bound_where_the_function_around_has_it_as_argument() -> None:
    def f(w, x):
        @jax.jit
        def h(a, y):
            return jax.jit(lambda z: z * a)(y)

        return h(w, x) + h(w + 1, x)

    assert captured(explain(f, W, X)) == [
        "<lambda> captures a f32[2,3], bound as argument a of h; it enters jit <lambda>."
    ]


def test_what_is_put_into_a_container_has_not_its_name() -> None:
    def f(w):
        params = {"w": w * 2}
        pair = [w * 3, w * 4]
        kept: list[jax.Array] = []
        nothing = kept.append(w * 5)
        return params, pair, nothing, kept

    assert names(trace(f, W)) == []


def test_what_is_assigned_has_its_name() -> None:
    def f(w, flag):
        h = w * 2
        k = jnp.tanh(w @ w.T)
        m = w * 3 if flag else -w
        h += 1
        first, second = jnp.split(w, 2)
        return h, k, m, first, second

    assert names(trace(f, W, "yes")) == [
        ("h", "mul"),
        ("k", "tanh"),
        ("m", "mul"),
        ("h", "add"),
        ("first", "split"),
        ("second", "split"),
    ]


def test_the_name_that_a_helper_gives_is_not_the_callers() -> None:
    def helper(v):
        r = v * 2
        return r  # noqa: RET504 - the name is what is tested

    def f(w, x):
        h = helper(w)

        @jax.jit
        def g(y):
            return y * h

        return g(x) + 1

    (said,) = captured(explain(f, W, X))
    assert said.startswith("g captures a variable f32[2,3], bound as the result of mul in f (line ")
    assert said.endswith(", in helper); it enters jit g.")


def test_a_derivative_has_not_the_name_of_what_it_is_derived_from() -> None:
    @jax.jit
    def inner(w):
        k = jnp.sin(w)
        return k * 2

    def f(w):
        h = jnp.sin(w)
        return (h * inner(w)).sum()

    assert names(trace(f, W)) == [("k", "sin"), ("h", "sin")]
    assert names(trace(jax.grad(f), W)) == []


def test_the_result_of_an_inner_pmap_is_not_that_of_the_program() -> None:
    def f(x):
        return jax.pmap(lambda y: y * 2)(jax.pmap(lambda y: y + 1)(x))

    made = [line.strip().split(":")[0] for line in explain(f, X).splitlines() if " makes " in line]
    assert made == ["the result of <lambda> f32[4,2,3]", "result f32[4,2,3]"]
