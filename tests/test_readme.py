"""The README says what is so: its program draws its picture, and its calls are those of the package."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxprviz

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


PROGRAMS: list[str] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def drawn(code: str, **names: Any) -> jaxprviz.Figure:
    """What the last line of a program of the README draws."""
    names |= {"jax": jax, "jnp": jnp, "jaxprviz": jaxprviz}
    *statements, last = code.strip().splitlines()
    exec("\n".join(statements), names)
    return eval(last, names)


def test_the_named_scopes_are_drawn() -> None:
    _, code = PROGRAMS
    scopes = re.findall(r"named_scope&#160;.*?<B>(\w+)</B>", drawn(code).dot)
    assert scopes == ["attention", "mlp"]


@pytest.mark.locked
def test_the_picture_is_what_the_program_draws(request: pytest.FixtureRequest) -> None:
    figure = drawn(PROGRAMS[0], w=jnp.ones((2, 3)), x=jnp.ones((4, 2, 3)))
    picture = ROOT / "docs" / "question.svg"
    if request.config.getoption("--update"):
        figure.save(picture)
    assert figure.svg == picture.read_text(encoding="utf-8")


def test_the_calls_are_the_public_ones() -> None:
    (table,) = re.findall(r"\| call \|.*?\n\n", README, re.DOTALL)
    calls = set(re.findall(r"`(\w+)\(", table)) | set(re.findall(r"`(to_json|from_json)`", table))
    assert calls - {"build"} == {name for name in jaxprviz.__all__ if name[0].islower()}


def test_every_public_name_is_documented() -> None:
    for name in jaxprviz.__all__:
        assert getattr(jaxprviz, name).__doc__, name
    assert set(jaxprviz.__all__) <= set(dir(jaxprviz))
