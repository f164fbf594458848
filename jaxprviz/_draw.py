"""The public calls that take a function and its arguments: each traces, and then tells what it found."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from jaxprviz._captures import captures
from jaxprviz._choices import checked_budget, checked_paths
from jaxprviz._describe import describe
from jaxprviz._dot import dot
from jaxprviz._figure import Figure
from jaxprviz._fold import BUDGET, fold
from jaxprviz._named import name_scopes
from jaxprviz._placement import placement
from jaxprviz._pmap import fold_pmaps
from jaxprviz._same import Comparison, compare
from jaxprviz._text import Text
from jaxprviz.errors import TraceError
from jaxprviz.program import Program


def draw(
    fn: Callable[..., Any] | Program,
    /,
    *args: Any,
    budget: int = BUDGET,
    open: Collection[str] = (),
    closed: Collection[str] = (),
    named_scopes: bool = False,
    **kwargs: Any,
) -> Figure:
    """Draws the program that a function traces to.

    Args:
        fn: a function, or a program that was traced or loaded before (then without arguments).
        *args: example arguments, as for `trace`.
        budget: about how many boxes the picture may have; what does not fit is folded.
        open: paths of scopes that stand open whatever they cost: `"0/2"` is the body of equation 2 of the
            body of equation 0.
        closed: paths of scopes that stay folded.
        named_scopes: whether each `jax.named_scope` is drawn as a scope of its own, that can be folded; paths
            are then those of this picture.
        **kwargs: keyword arguments of `fn`.  A function that has one named `budget`, `open`, `closed` or
            `named_scopes` itself is traced first: `draw(trace(f, x, budget=3))`.

    Returns:
        The figure.  A notebook shows it; `figure.save("f.svg")` keeps it.

    Raises:
        TraceError, DevicesError, VersionError: as `trace` does.
        JaxprvizError: the budget is no number, or the program has no scope of such a path.
        RenderError: when the figure is shown or saved and Graphviz can't draw it.
    """
    program = view(fn, args, kwargs)
    drawn = name_scopes(program) if named_scopes else program
    folded = fold(
        drawn,
        budget=checked_budget(budget),
        open=checked_paths(drawn, "open", open),
        closed=checked_paths(drawn, "closed", closed),
    )
    name = program.main.name or "program"
    return Figure(program, dot(drawn, folded, captures, placement), describe(program), name)


def explain(fn: Callable[..., Any] | Program, /, *args: Any, **kwargs: Any) -> Text:
    """Says in sentences what a function traces to.

    Who captures what, where that is bound and which boundaries it crosses; what is baked in; and for each
    variable that enters or leaves a device scope what the caller holds, what one device holds, how many
    copies there are, and the bytes of one and of all.  Placement is what the program asks for.

    Args:
        fn: a function, or a program that was traced or loaded before.
        *args: example arguments, as for `trace`.
        **kwargs: the same by keyword.

    Returns:
        The sentences, as a string that shows itself without quotes.

    Raises:
        TraceError, DevicesError, VersionError: as `trace` does.
    """
    return Text(describe(view(fn, args, kwargs)))


def same_program(
    first: Callable[..., Any] | Program, second: Callable[..., Any] | Program, /, *args: Any, **kwargs: Any
) -> Comparison:
    """Tells whether two functions trace to the same program, up to names and up to what is captured or
    passed.

    Args:
        first: a function, or a program.
        second: the other one.
        *args: the example arguments of both, as for `trace`; none when both are programs.
        **kwargs: the same by keyword.

    Returns:
        A comparison that is true when they are the same; otherwise it lists the first differences, by path.

    Raises:
        TraceError, DevicesError, VersionError: as `trace` does.
    """
    if isinstance(first, Program) and isinstance(second, Program) and (args or kwargs):
        raise TraceError(
            "jaxprviz was given two programs and arguments",
            "programs are traced already: they take no arguments",
            "Pass the two programs alone, or a function, the other one, and their arguments.",
        )
    one, two = (
        view(fn, () if isinstance(fn, Program) else args, {} if isinstance(fn, Program) else kwargs)
        for fn in (first, second)
    )
    return compare(one, two)


def view(fn: Callable[..., Any] | Program, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
    """The program of a function with its pmaps folded."""
    if isinstance(fn, Program):
        if args or kwargs:
            raise TraceError(
                "jaxprviz was given a program and arguments",
                "a program is traced already: it takes no arguments",
                "Pass the program alone, or the function with its arguments.",
            )
        return fold_pmaps(fn)
    from jaxprviz._trace import trace  # drawing a stored program needs no JAX

    return fold_pmaps(trace(fn, *args, **kwargs))
