"""What the first lesson uses: a check of everything that the lessons need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets
import jax
import jax.numpy as jnp
import numpy as np

import jaxprviz
from jaxprviz._captures import all_captures
from jaxprviz._draw import same_program, view
from jaxprviz._exercise import Attempt, Exercise, Judgement, Outcome
from jaxprviz._scope import Scope
from jaxprviz._text import Text
from jaxprviz.errors import JaxprvizError, RenderError


def check_setup() -> Text:
    """Tries everything that the lessons need, and says for each whether it works and, if not, what to do."""
    return Text("\n".join(_tried(what, how) for what, how in _CHECKS.items()))


def _tried(what: str, how: Callable[[], str]) -> str:
    try:
        return f"works   {what}: {how()}"
    except (JaxprvizError, ImportError) as error:
        told = f"{type(error).__name__}: {error}" if isinstance(error, ImportError) else str(error)
        return f"FAILS   {what}: " + told.replace("\n", "\n        ")


def _square(x: jax.Array) -> jax.Array:
    return x * x


def _tracing() -> str:
    program = jaxprviz.trace(_square, _EXAMPLE)
    return f"x * x is {len(program.main.equations)} equation to JAX {program.jax}"


def _picture() -> str:
    figure = jaxprviz.draw(_square, _EXAMPLE)
    if "mul" not in figure.svg:
        raise RenderError("a picture of x * x was asked for", "it does not show the multiplication", _REPORT)
    return "Graphviz drew one"


def _sliders() -> str:
    explorer = jaxprviz.explore(lambda d=3: (_square, (jax.ShapeDtypeStruct((d,), "float32"),)), d=(1, 8))
    explorer.set(d=5)
    if explorer.error is not None or "f32[5]" not in explorer.text:
        raise JaxprvizError("a slider was moved", explorer.error or "the picture did not follow", _REPORT)
    return f"one moved, and its picture followed (ipywidgets {ipywidgets.__version__})"


_EXAMPLE = jax.ShapeDtypeStruct((3,), "float32")

_REPORT = "Restart the kernel and run the cells again; if that does not help, install the lessons anew."

_CHECKS: dict[str, Callable[[], str]] = {
    "tracing": _tracing,
    "devices": lambda: str(jaxprviz.use_devices(8)),
    "pictures": _picture,
    "sliders": _sliders,
}


# --- the exercise ---------------------------------------------------------------------------------------

_SOURCE = """
@jax.jit
def answer(w, x):
    @jax.jit
    # --- stub
    # def g(x):
    # --- solution
    def g(w, x):
    # --- end
        return w * x

    # --- stub
    # return g(x) + 1.0
    # --- solution
    return g(w, x) + 1.0
    # --- end
"""


def _stub() -> jaxprviz.Program:
    names: dict[str, Any] = {"jax": jax}
    exec(exercise.stub, names)
    return view(names["answer"], exercise.arguments, {})


def _is_right(attempt: Attempt) -> bool:
    w, x = map(np.asarray, attempt.arguments)
    return np.shape(attempt.value) == x.shape and bool(np.allclose(np.asarray(attempt.value), w * x + 1))


def _depth(attempt: Attempt) -> int:
    """How many frames lie inside each other."""

    def below(scope: Scope) -> int:
        return max((1 + below(child) for child in scope.children()), default=0)

    return 0 if attempt.program is None else below(Scope.root(attempt.program))


def _tell_right(attempt: Attempt) -> str:
    if attempt.program is None or not same_program(attempt.program, _stub()):
        return "Nothing is captured, and the result is the same."
    return (
        "Nothing is captured. And yet it is the program of the stub, step by step: JAX had handed w to g all "
        "along. Now the code says so."
    )


exercise = Exercise(
    source=_SOURCE,
    example=lambda: (jnp.arange(6.0).reshape(2, 3), jnp.ones((2, 3))),
    judgements=(
        Judgement(
            lambda attempt: not callable(attempt.answer),
            "That is no function: run the cell that defines answer, and pass answer itself.",
            Outcome.NOT_ATTEMPTED,
        ),
        Judgement(
            lambda attempt: attempt.error is not None,
            lambda attempt: f"It does not run: {attempt.problem}. Does g get as many arguments as it takes?",
        ),
        Judgement(lambda attempt: not _is_right(attempt), "The result is no longer w * x + 1."),
        Judgement(
            lambda attempt: (
                attempt.program is not None
                and bool(all_captures(attempt.program))
                and bool(same_program(attempt.program, _stub()))
            ),
            "g captures w, as it does in the stub: the picture has an orange line. (A default value, w=w, "
            "captures it too.) Change g, then check again.",
            Outcome.NOT_ATTEMPTED,
        ),
        Judgement(
            lambda attempt: attempt.program is not None and bool(all_captures(attempt.program)),
            lambda attempt: "Something is captured still: look for the orange line in your picture.",
        ),
        Judgement(
            lambda attempt: _depth(attempt) < 2,
            "Nothing is captured, but there is no frame of g left either. Keep g, and hand it what it uses.",
        ),
        Judgement(
            lambda attempt: True,
            _tell_right,
            Outcome.CORRECT,
        ),
    ),
    hints=("What g uses and does not list is captured. So list it: g takes w and x.",),
)
"""Make a captured variable an argument."""
