"""What a reader may ask of a picture, and what is said where it can't be."""

from __future__ import annotations

from typing import Any

import jax
import pytest

from jaxprviz import draw
from jaxprviz.errors import JaxprvizError


def f(x: Any) -> Any:
    @jax.jit
    def g(x: Any) -> Any:
        return jax.lax.cond(x > 0, lambda x: x * 2, lambda x: x - 1, x)

    return g(x) + 1


@pytest.mark.parametrize("budget", ["x", 2.5, True, -1, None])
def test_budget(budget: Any) -> None:
    with pytest.raises(JaxprvizError) as caught:
        draw(f, 1.0, budget=budget)
    assert str(caught.value) == (
        f"draw(..., budget={budget!r}): the budget is about how many boxes the picture may have: a whole number, "
        "not below 0\nLeave it out, or pass a number: budget=100."
    )


@pytest.mark.parametrize("choice", ["open", "closed"])
@pytest.mark.parametrize(
    ("given", "wrong", "remedy"),
    [
        ("7", "the program has no scope '7'", "Those on the outermost level are: '0' (g)."),
        (
            ["0", "0/2/1"],
            "the program has no scope '0/2/1'",
            "There are no scopes inside 0/2 (<lambda>).",
        ),
        (
            "0/1",
            "the program has no scope '0/1'",
            "Those inside 0 (g) are: '0/2' (<lambda>), '0/2.1' (<lambda>).",
        ),
        ("g", "the program has no scope 'g'", "Those on the outermost level are: '0' (g)."),
        (
            3,
            "it takes paths of scopes",
            'Pass a path as the picture shows it, or several: {choice}="0/2", {choice}=["0/2", "1"].',
        ),
    ],
)
def test_paths(choice: str, given: Any, wrong: str, remedy: str) -> None:
    with pytest.raises(JaxprvizError) as caught:
        draw(f, 1.0, **{choice: given})
    error = caught.value
    assert (error.asked, error.wrong, error.remedy) == (
        f"draw(..., {choice}={given!r})",
        wrong,
        remedy.format(choice=choice),
    )


def test_a_path_alone_is_a_list_of_it() -> None:
    assert draw(f, 1.0, closed="0").dot == draw(f, 1.0, closed=["0"]).dot
    opened = draw(f, 1.0, budget=1, open=("0/2", "0/2.1")).dot
    assert draw(f, 1.0, budget=1, open=["0/2.0", "0/2.1"]).dot == opened
    assert opened != draw(f, 1.0, budget=1).dot
