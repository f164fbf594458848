"""Random programs: each equation and edge is read, captures are those of the program, claims hold when it is run.

    python -m pytest tests/test_random.py                                as in CI: the same programs each time
    JAXPRVIZ_PROGRAMS=20000 python -m pytest tests/test_random.py -s     another number of them
    JAXPRVIZ_SEED=7 python -m pytest tests/test_random.py -s             other ones
    JAXPRVIZ_SHRUNK=1 python -m pytest tests/test_random.py              what fails, made small first

A program that fails is printed as Python.
"""

from __future__ import annotations

import os
from typing import Any

import hypothesis
import jax
import pytest
from random_programs import properties
from random_programs.generator import programs
from random_programs.language import Generated

from jaxprviz import draw, explain, from_json, same_program, to_json, trace
from jaxprviz._check import check
from jaxprviz._pmap import fold_pmaps
from jaxprviz._render import render
from jaxprviz.errors import RunError, TraceError

PROGRAMS = int(os.environ.get("JAXPRVIZ_PROGRAMS", "2000"))
SEED = int(os.environ.get("JAXPRVIZ_SEED", "0"))
SHRUNK = bool(os.environ.get("JAXPRVIZ_SHRUNK"))
"""Whether a program that fails is made small before it is printed: this takes minutes."""

PARTS = 16
"""The programs are drawn in so many tests, for several processes to share."""

RUN = 5
"""About one program in so many is run for real."""

RENDERED = 12
"""About one picture in so many is rendered."""

OFTEN = (
    "jit",
    "scan",
    "tuple carry",
    "carry handed through",
    "fori_loop static",
    "fori_loop dynamic",
    "while_loop",
    "cond",
    "switch",
    "vmap",
    "grad",
    "value_and_grad",
    "jvp",
    "vjp",
    "linearize",
    "checkpoint",
    "custom_jvp",
    "custom_vjp",
    "pmap",
    "pmap in_axes None",
    "shard_map of 1 axes",
    "shard_map of 2 axes",
    "shard_map checked",
    "shard_map unchecked",
    "partly manual shard_map",
    "devices in another order",
    "psum",
    "pmax",
    "pmean",
    "all_gather",
    "psum_scatter",
    "ppermute",
    "all_to_all",
    "axis_index",
    "def function",
    "lambda function",
    "method function",
    "partial function",
    "default function",
    "plain call",
    "shadowed name",
    "pytree",
    "constant of np",
    "constant of jnp",
    "constant of number",
    "elementwise",
    "matmul",
    "reduction",
    "broadcast",
    "reshape",
    "transpose",
)
"""What must be in at least one of `RARE` programs, nine in ten of them in each part."""

RARE = 125


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int) -> None:
    count = max(1, PROGRAMS // PARTS)
    tally = properties.Tally()

    @hypothesis.seed(SEED * PARTS + part)
    @hypothesis.settings(
        max_examples=count,
        derandomize=False,
        database=None,
        suppress_health_check=(
            hypothesis.HealthCheck.too_slow,
            hypothesis.HealthCheck.data_too_large,
            hypothesis.HealthCheck.large_base_example,
        ),
        phases=(hypothesis.Phase.generate, *((hypothesis.Phase.shrink,) if SHRUNK else ())),
        report_multiple_bugs=False,
    )
    @hypothesis.given(programs(run=RUN, drawn=RENDERED))
    def holds(generated: Generated) -> None:
        check_program(generated, tally)

    holds()
    print(f"\n{tally}")
    check_tally(tally)


def check_program(generated: Generated, tally: properties.Tally) -> None:
    """All that must hold of one program."""
    tally.programs += 1
    if tally.programs % 50 == 0:
        jax.clear_caches()  # each program is another function: JAX would keep them all
    fn, args = generated.build()
    try:
        program = trace(fn, *args)
    except TraceError as error:  # JAX refuses it: it does so without us, too
        with pytest.raises(type(error.original or error)):
            jax.make_jaxpr(fn)(*args)
        tally.refused[f"{type(error.original).__name__}: {str(error.original)[:80]}"] += 1
        return
    jaxpr = jax.make_jaxpr(fn)(*args)
    tally.pieces.update(set(generated.pieces))
    check_view(generated, program, jaxpr, tally)
    assert same_program(program, trace(fn, *args))
    if generated.run:
        check_run(fn, args, tally)


def check_run(fn: Any, args: tuple[Any, ...], tally: properties.Tally) -> None:
    """That no claim is refuted when it is run."""
    try:
        report = check(fn, *args)
    except RunError as error:  # JAX can't run it either: a tracer leaked, or only lowering finds the mistake
        original = type(error.__cause__ or error)
        with pytest.raises(original):
            fn(*args)
        tally.claims[f"not run: {original.__name__}"] += 1
        return
    assert report, report
    tally.claims.update(claim.outcome.name for claim in report.claims)


def check_view(generated: Generated, program: Any, jaxpr: Any, tally: properties.Tally) -> None:
    """What must hold without running it."""
    properties.check_structure(program, jaxpr)
    folded = fold_pmaps(program)
    properties.check_folding(program, folded)
    assert from_json(to_json(folded)) == folded
    properties.check_captures(generated, folded, tally)
    properties.check_specs(generated, folded)
    properties.check_flow(folded)
    figure = draw(folded)
    assert draw(folded).dot == figure.dot
    properties.check_dot(figure.dot)
    assert explain(folded)
    if generated.drawn:
        assert b"</svg>" in render(figure.dot)


def check_tally(tally: properties.Tally) -> None:
    """That the programs were of all sorts, and that little was unknown."""
    refused = sum(tally.refused.values())
    assert refused <= 2 + tally.programs // 20, tally.refused
    if tally.programs >= RARE:
        wanted = tally.programs // RARE
        missing = [piece for piece in OFTEN if tally.pieces[piece] < wanted]
        assert len(missing) <= len(OFTEN) // 10, missing
    plain, unknown = tally.inputs["plain known"], tally.inputs["plain unknown"]
    assert unknown <= 2 + (plain + unknown) // 100, tally.inputs
