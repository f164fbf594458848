"""What the lesson on pmap inside jit uses: a recording of an older JAX, a stopwatch, and the exercise."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprviz._captures import all_captures, first_scopes
from jaxprviz._draw import same_program, view
from jaxprviz._exercise import Attempt, Exercise, Judgement, Outcome
from jaxprviz._facts import Crossing
from jaxprviz._placement import placement
from jaxprviz._words import bytes_text
from jaxprviz.lessons._recording import Recording, load


def recorded() -> Recording:
    """What JAX 0.4.38 made of the lesson's program."""
    return load("jit_pmap_0_4_38.json")


def times_as_long(
    first: Callable[..., Any], second: Callable[..., Any], *args: Any, rounds: int = 20
) -> float:
    """How many times as long a call of `first` takes as one of `second`: the median over pairs of calls."""

    def seconds(fn: Callable[..., Any]) -> float:
        start = time.perf_counter()
        jax.block_until_ready(fn(*args))
        return time.perf_counter() - start

    for fn in (first, second):
        seconds(fn)  # compiles
    return statistics.median(seconds(first) / seconds(second) for _ in range(rounds))


# --- the exercise ------------------------------------------------------------------------------------------

_SOURCE = """
@jax.jit
def answer(w, x):  # w: f32[2,3,4], w[:, :, k] is for device k    x: f32[4,2,3]
    # --- stub
    # @jax.pmap
    # def g(x):
    #     return w[:, :, 0] * x
    #
    # return g(x)
    # --- solution
    def g(w, x):
        return w * x

    return jax.pmap(g, in_axes=(2, 0))(w, x)
    # --- end
"""

_DEVICES = 4


def _example() -> tuple[jax.Array, jax.Array]:
    w = jnp.arange(6.0 * _DEVICES).reshape(2, 3, _DEVICES)
    return w, jnp.ones((_DEVICES, 2, 3))


def _is_stub(attempt: Attempt) -> bool:
    if attempt.program is None:
        return False
    names: dict[str, Any] = {"jax": jax, "jnp": jnp}
    exec(exercise.stub, names)
    stub = view(names["answer"], attempt.arguments, {})
    return bool(same_program(attempt.program, stub)) and bool(all_captures(attempt.program))


def _crossings(attempt: Attempt) -> list[Crossing]:
    """What enters the device scopes."""
    if attempt.program is None:
        return []
    placements = (placement(scope) for scope in first_scopes(attempt.program))
    return [crossing for placed in placements if placed is not None for crossing in placed.entering]


def _copied(attempt: Attempt) -> Crossing | None:
    """An array that several devices hold the same part of."""
    return next(
        (crossing for crossing in _crossings(attempt) if crossing.layout.copies not in (1, None)), None
    )


def _expected(attempt: Attempt) -> np.ndarray:
    w, x = map(np.asarray, attempt.arguments)
    return np.moveaxis(w, 2, 0) * x


def _is_right(attempt: Attempt) -> bool:
    value, expected = attempt.value, _expected(attempt)
    return np.shape(value) == expected.shape and bool(np.allclose(np.asarray(value), expected))


def _bytes(attempt: Attempt) -> tuple[str, str]:
    """What one device and all of them hold of the first array that enters: the weights."""
    layout = _crossings(attempt)[0].layout
    return bytes_text(layout.local_nbytes or 0), bytes_text(layout.total_nbytes or 0)


def _tell_copied(attempt: Attempt) -> str:
    crossing = _copied(attempt)
    assert crossing is not None
    layout = crossing.layout
    numbers = "The numbers are right, but each" if _is_right(attempt) else "Each"
    return (
        f"{numbers} of the {layout.mesh.size} devices holds a whole {layout.type.short}: "
        f"{bytes_text(layout.total_nbytes or 0)} in all. A captured variable, and one with in_axes=None, is "
        "copied whole. Pass w to g, and name the axis of w to split."
    )


def _tell_wrong(attempt: Attempt) -> str:
    value, expected = attempt.value, _expected(attempt)
    if np.shape(value) != expected.shape:
        return (
            f"The result has the shape {np.shape(value)}, not {expected.shape}: the devices' results belong "
            "side by side along axis 0, as pmap's out_axes=0 puts them."
        )
    wrong = [k for k in range(_DEVICES) if not np.allclose(np.asarray(value)[k], expected[k])]
    return (
        f"Each device has weights of its own, but device {wrong[0]} has made other numbers than "
        f"w[:, :, {wrong[0]}] * x[{wrong[0]}]."
    )


def _tell_right(attempt: Attempt) -> str:
    one, everywhere = _bytes(attempt)
    return f"One device holds {one} of weights, its own, and all of them {everywhere}: none is there twice."


_JUDGEMENTS = (
    Judgement(
        lambda attempt: not callable(attempt.answer),
        "That is no function: run the cell that defines answer, and pass answer itself.",
        Outcome.NOT_ATTEMPTED,
    ),
    Judgement(
        _is_stub, "This is still the stub: g captures w. Change it, then check again.", Outcome.NOT_ATTEMPTED
    ),
    Judgement(
        lambda attempt: "axes of different sizes" in attempt.problem,
        lambda attempt: (
            f"JAX refuses it: {attempt.problem}. Axis 0 of w does not count the devices: look at the shape "
            "of w for the axis that does. in_axes takes one entry for each argument, none of them negative."
        ),
    ),
    Judgement(
        lambda attempt: "broadcast" in attempt.problem,
        "Inside g the shapes of w and x do not fit. When pmap splits w along its last axis, g sees f32[2,3] "
        "of it, as it does of x.",
    ),
    Judgement(
        lambda attempt: "'fun'" in attempt.problem,
        "pmap takes its function first: write jax.pmap(g, in_axes=...)(w, x), without the decorator.",
    ),
    Judgement(
        lambda attempt: "indices" in attempt.problem or "indexed" in attempt.problem,
        "g already sees its own f32[2,3] of w: there is no axis left to index.",
    ),
    Judgement(
        lambda attempt: attempt.error is not None,
        lambda attempt: f"It does not run: {attempt.problem}.",
    ),
    Judgement(
        lambda attempt: not _crossings(attempt),
        "Nothing in it runs once on each device: there is no pmap (and no shard_map). Keep the pmap, and "
        "split w with it.",
    ),
    Judgement(lambda attempt: _copied(attempt) is not None, _tell_copied),
    Judgement(lambda attempt: not _is_right(attempt), _tell_wrong),
    Judgement(lambda attempt: True, _tell_right, Outcome.CORRECT),
)

exercise = Exercise(
    source=_SOURCE,
    example=_example,
    judgements=_JUDGEMENTS,
    hints=(
        "What is captured is copied whole. So w must not be captured: make it an argument of g.",
        "pmap(g, in_axes=(a, b)) splits axis a of g's first argument and axis b of its second. The axis of w "
        "that counts the devices is its last one.",
    ),
)
"""Give each device weights of its own, when the axis that counts the devices comes last."""
