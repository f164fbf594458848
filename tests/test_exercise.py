"""Exercises: stub and solution from one text, the verdicts, what a notebook shows of hints and solution."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

from jaxprviz._exercise import Attempt, Exercise, Folded, Judgement, Outcome, Verdict

SOURCE = """
def answer(x):
    y = x + 1
    # --- stub
    # # write here
    #
    # return y
    # --- solution

    return 2 * y  # doubled
    # --- end
"""


def made(*judgements: Judgement) -> Exercise:
    return Exercise(SOURCE, lambda: (jnp.arange(3),), judgements, ("think", "double < it"))


ANY = Judgement(lambda attempt: True, "fine", Outcome.CORRECT)


def test_stub_and_solution_differ_only_where_the_text_says_so() -> None:
    exercise = made(ANY)
    assert exercise.stub == "def answer(x):\n    y = x + 1\n    # write here\n\n    return y"
    assert exercise.solved == "def answer(x):\n    y = x + 1\n\n    return 2 * y  # doubled"


def test_the_first_line_that_fits_decides() -> None:
    exercise = made(
        Judgement(lambda attempt: attempt.error is not None, lambda attempt: f"raised: {attempt.problem}"),
        Judgement(lambda attempt: int(attempt.value[0]) == 0, "not yet changed", Outcome.NOT_ATTEMPTED),
        ANY,
    )
    assert exercise.check(lambda x: x) == Verdict(Outcome.NOT_ATTEMPTED, "not yet changed")
    assert exercise.check(lambda x: x + 1) == Verdict(Outcome.CORRECT, "fine")
    refused = exercise.check(lambda x: jnp.ones(2) + x)
    assert refused.outcome is Outcome.INCORRECT
    assert refused.message.startswith("raised: tracing it failed with TypeError: add got incompatible shapes")


def test_an_answer_is_traced_and_run() -> None:
    attempt = Attempt.of(lambda x: x * 2, (jnp.arange(3),))
    assert attempt.program is not None
    assert [equation.primitive for equation in attempt.program.main.equations] == ["mul"]
    assert attempt.value.tolist() == [0, 2, 4]
    assert (attempt.error, attempt.problem) == (None, "")


def test_what_is_no_function_is_an_error() -> None:
    attempt = Attempt.of(..., (jnp.arange(3),))
    assert (attempt.program, attempt.value) == (None, None)
    assert attempt.problem == "a value of type ellipsis can't be called"


@pytest.mark.parametrize(
    ("outcome", "text", "is_true"),
    [
        (Outcome.CORRECT, "Correct. So it is.", True),
        (Outcome.INCORRECT, "Not yet. So it is.", False),
        (Outcome.NOT_ATTEMPTED, "Not attempted. So it is.", False),
    ],
)
def test_a_verdict_says_what_it_is(outcome: Outcome, text: str, is_true: bool) -> None:
    verdict = Verdict(outcome, "So it is.")
    assert repr(verdict) == text
    assert bool(verdict) is is_true


def test_hints_and_solution_are_shown_folded() -> None:
    exercise = made(ANY)
    hints = exercise.hint()
    assert hints == Folded([("Hint 1 of 2", "think", False), ("Hint 2 of 2", "double < it", False)])
    assert hints._repr_html_() == (
        "<details><summary>Hint 1 of 2</summary><p>think</p></details>"
        "<details><summary>Hint 2 of 2</summary><p>double &lt; it</p></details>"
    )
    assert repr(hints) == "Hint 1 of 2\nthink\n\nHint 2 of 2\ndouble < it"
    solution = exercise.solution()
    assert solution == Folded([("Solution", exercise.solved, True)])
    assert solution._repr_html_() == (
        "<details><summary>Solution</summary><pre><code>def answer(x):\n    y = x + 1\n\n"
        "    return 2 * y  # doubled</code></pre></details>"
    )


def test_a_single_hint_is_not_numbered() -> None:
    exercise = Exercise(SOURCE, lambda: (), (ANY,), ("think",))
    assert exercise.hint() == Folded([("Hint", "think", False)])
