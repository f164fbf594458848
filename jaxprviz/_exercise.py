"""Exercises: a task with a stub, a check that says what is wrong, hints, and a solution.

Stub and solution are made from one text, so that they cannot come to differ in anything but what the learner
is to change.  An answer is judged by a table: the first line that fits decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from typing import Any

from jaxprviz._draw import view
from jaxprviz.errors import JaxprvizError
from jaxprviz.program import Program

_COMMENT = re.compile(r"# ?")

_SOLUTION, _STUB, _END = "# --- solution", "# --- stub", "# --- end"


class Outcome(StrEnum):
    """What became of an answer."""

    CORRECT = "Correct"
    INCORRECT = "Not yet"
    NOT_ATTEMPTED = "Not attempted"


@dataclass(frozen=True, repr=False)
class Verdict:
    """What `Exercise.check` says; true when the answer is correct.

    Attributes:
        outcome: correct, incorrect or not attempted.
        message: what is wrong, or what was shown.
    """

    outcome: Outcome
    message: str

    def __bool__(self) -> bool:
        return self.outcome is Outcome.CORRECT

    def __repr__(self) -> str:
        return f"{self.outcome}. {self.message}"


@dataclass(frozen=True)
class Attempt:
    """An answer, traced and run.

    Attributes:
        answer: the function.
        arguments: what it was called with.
        program: what it traces to; None when it can't be traced.
        value: what it returned; None when it could not be run.
        error: why it could not be traced or run; None when it could.
    """

    answer: Any
    arguments: tuple[Any, ...]
    program: Program | None
    value: Any
    error: Exception | None

    @property
    def problem(self) -> str:
        """What is wrong by `error`, in one sentence; empty without one."""
        return self.error.wrong if isinstance(self.error, JaxprvizError) else str(self.error or "")

    @classmethod
    def of(cls, answer: Any, arguments: tuple[Any, ...]) -> Attempt:
        """Traces an answer and runs it."""
        program = value = error = None
        try:
            program = view(answer, arguments, {})
            value = answer(*arguments)
        except Exception as raised:  # whatever a learner's function may raise: the verdict tells it
            error = raised
        return cls(answer, arguments, program, value, error)


@dataclass(frozen=True)
class Judgement:
    """One line of the table that an answer is judged by.

    Attributes:
        fits: whether this line is about the attempt.
        message: what to say then: a text, or a function of the attempt that makes it.
        outcome: the verdict then.
    """

    fits: Callable[[Attempt], bool]
    message: str | Callable[[Attempt], str]
    outcome: Outcome = Outcome.INCORRECT

    def verdict(self, attempt: Attempt) -> Verdict:
        return Verdict(self.outcome, self.message if isinstance(self.message, str) else self.message(attempt))


class Folded(tuple[tuple[str, str, bool], ...]):
    """Texts that a notebook shows folded, each under its title; a terminal prints them.

    Each entry is a title, a text, and whether the text is code.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        return "".join(
            f"<details><summary>{escape(title)}</summary>{_html(text, code)}</details>"
            for title, text, code in self
        )

    def __repr__(self) -> str:
        return "\n\n".join(f"{title}\n{text}" for title, text, _ in self)


def _html(text: str, code: bool) -> str:
    return f"<pre><code>{escape(text)}</code></pre>" if code else f"<p>{escape(text)}</p>"


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    Attributes:
        source: stub and solution in one text.  What stands between `# --- solution` and `# --- stub` is the
            solution's alone; between `# --- stub` and `# --- end` the stub's alone, written as comments.
        example: makes the arguments that the answer is called with.
        judgements: what an answer is judged by, in order; the last one fits every answer.
        hints: from a nudge to all but the solution.
    """

    source: str
    example: Callable[[], tuple[Any, ...]]
    judgements: tuple[Judgement, ...]
    hints: tuple[str, ...]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the answer is called with."""
        return self.example()

    @property
    def stub(self) -> str:
        """The code that a learner starts from."""
        return _chosen(self.source, of_stub=True)

    @property
    def solved(self) -> str:
        """The code that solves it."""
        return _chosen(self.source, of_stub=False)

    def check(self, answer: Any) -> Verdict:
        """Traces and runs an answer and says whether it is right, and if not, what is likely wrong."""
        attempt = Attempt.of(answer, self.arguments)
        return next(line.verdict(attempt) for line in self.judgements if line.fits(attempt))

    def hint(self) -> Folded:
        """The hints, folded: open one at a time."""
        last = len(self.hints)
        titles = ["Hint"] if last == 1 else [f"Hint {number} of {last}" for number in range(1, last + 1)]
        return Folded((title, text, False) for title, text in zip(titles, self.hints, strict=True))

    def solution(self) -> Folded:
        """The solution, folded."""
        return Folded([("Solution", self.solved, True)])


def _chosen(source: str, *, of_stub: bool) -> str:
    """The stub or the solution out of the text that holds both."""
    return "\n".join(_lines(source.strip("\n").splitlines(), of_stub))


def _lines(lines: Iterable[str], of_stub: bool) -> Iterable[str]:
    part = _END
    for line in lines:
        if line.strip() in (_SOLUTION, _STUB, _END):
            part = line.strip()
        elif part == _END or (part == _SOLUTION and not of_stub):
            yield line
        elif part == _STUB and of_stub:
            yield _COMMENT.sub("", line, count=1).rstrip()
