"""Named scopes as scopes of a view: the same equations, the same wiring."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from zoo import ZOO

from jaxprviz import draw, trace
from jaxprviz._draw import view
from jaxprviz._named import NAMED, name_scopes
from jaxprviz._scope import Scope
from jaxprviz.program import Atom, Boundary, Equation, Literal, Program


def _model(layers: int) -> Any:
    def block(w: Any, x: Any) -> Any:
        with jax.named_scope("attention"):
            x = x + jnp.tanh(x @ w)
        with jax.named_scope("mlp"):
            return x + jnp.sin(x @ w)

    def model(w: Any, x: Any) -> Any:
        for layer in range(layers):
            with jax.named_scope(f"layer_{layer}"):
                x = block(w[layer], x)
        return x.sum()

    return model


def _args(layers: int) -> tuple[Any, ...]:
    return jax.ShapeDtypeStruct((layers, 4, 4), jnp.float32), jax.ShapeDtypeStruct((2, 4), jnp.float32)


_Origin = tuple[str, Any]
"""Where a value comes from: which equation of the program binds it, counted in the order of the code, and where."""


def _wiring(program: Program) -> list[tuple[str, tuple[_Origin, ...]]]:
    """Each equation with where its operands come from, as if there were no named scopes."""
    counter = iter(range(10**6))
    found: list[tuple[str, tuple[_Origin, ...]]] = []

    def walk(scope: Scope, values: dict[int, Any]) -> list[Any]:
        body = scope.body
        for constant in body.constants:
            values[constant.variable] = ("constant", (body.name, constant.text))

        def read(atom: Atom) -> Any:
            return ("number", atom.text) if isinstance(atom, Literal) else values[atom]

        for position, equation in enumerate(body.equations):
            given = [read(atom) for atom in equation.operands]
            if equation.primitive == NAMED:
                child = scope.child(position)
                made = walk(child, dict(zip(child.body.inputs, given, strict=True)))
            else:
                number = next(counter)
                found.append((equation.primitive, tuple(given)))
                for call in range(len(equation.calls)):
                    child = scope.child(position, call)
                    walk(child, {v: ("inner", (number, call, at)) for at, v in enumerate(child.body.inputs)})
                made = [("equation", (number, at)) for at in range(len(equation.results))]
            values.update(zip(equation.results, made, strict=True))
        return [read(atom) for atom in body.outputs]

    root = Scope.root(program)
    outputs = walk(root, {v: ("argument", at) for at, v in enumerate(root.body.inputs)})
    return [*found, ("outputs", tuple(outputs))]


def _groups(program: Program) -> Iterator[Equation]:
    for body in program.bodies:
        yield from (equation for equation in body.equations if equation.primitive == NAMED)


@pytest.mark.parametrize("name", ZOO)
def test_every_equation_is_there_once_and_reads_what_it_read(name: str) -> None:
    fn, args = ZOO[name]()
    program = view(fn, args, {})
    assert _wiring(name_scopes(program)) == _wiring(program)


@pytest.mark.parametrize("transform", [lambda f: f, jax.grad, jax.jit, lambda f: jax.jit(jax.grad(f))])
def test_of_models_too(transform: Any) -> None:
    program = trace(transform(_model(3)), *_args(3))
    named = name_scopes(program)
    assert _wiring(named) == _wiring(program)
    assert {equation.boundary for equation in _groups(named)} == {Boundary.NAME}
    assert all(call.captured == (False,) * len(call.inputs) for one in _groups(named) for call in one.calls)


def test_nested_scopes_are_nested() -> None:
    named = name_scopes(trace(_model(2), *_args(2)))
    scope = Scope.root(named)
    layers = [equation.name for equation in scope.body.equations if equation.primitive == NAMED]
    assert layers == ["layer_0", "layer_1"]
    inner = [equation.name for equation in scope.child(0).body.equations if equation.primitive == NAMED]
    assert inner == ["attention", "mlp"]


def test_a_program_without_named_scopes_stays_as_it_is() -> None:
    program = trace(lambda x: jnp.sin(x) * 2, 1.0)
    assert name_scopes(program) == program


def test_a_deep_model_folds_by_its_layers() -> None:
    """24 layers are 24 boxes, in place of the runs of equations that say nothing of the layers."""
    figure = draw(_model(24), *_args(24), named_scopes=True)
    names = re.findall(r"<B>(layer_\d+)</B>", figure.dot)
    assert sorted(set(names), key=lambda name: int(name[6:])) == [f"layer_{layer}" for layer in range(24)]
    assert "layer_0" not in draw(_model(24), *_args(24)).dot
