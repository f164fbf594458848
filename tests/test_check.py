"""Claims compared with what JAX really made; and that a wrong claim is refuted."""

from __future__ import annotations

import collections
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from test_cases import FILES, load

import jaxprviz
from jaxprviz import _check, check
from jaxprviz._check import Claim, Outcome
from jaxprviz._facts import Crossing, Layout, Placement, Spread
from jaxprviz._flow import Flow
from jaxprviz.errors import JaxprvizError, RunError

W = jnp.arange(6.0).reshape(2, 3)
X = jnp.arange(24.0).reshape(4, 2, 3)
OLD = jax.__version_info__ < (0, 8)


def mesh(*sizes: int) -> Any:
    names = ("data", "model")[: len(sizes)]
    return jax.make_mesh(sizes, names, axis_types=(AxisType.Auto,) * len(sizes))


def question(w: Any, x: Any) -> Any:
    @jax.pmap
    def g(x: Any) -> Any:
        return w * x

    return g(x)


def told(report: jaxprviz.Report) -> list[tuple[str, str, Outcome]]:
    return [(claim.variable, claim.says, claim.outcome) for claim in report.claims]


def test_the_question() -> None:
    report = check(jax.jit(question), W, X)
    assert report
    # Up to 0.7 a jit around a pmap gives every device the whole result.
    first = Outcome.OTHERWISE if OLD else Outcome.HOLDS
    assert told(report) == [
        ("result", "axis 0 split over 4 devices", first),
        ("w", "copied whole to 4 devices", Outcome.HOLDS),
        ("x", "axis 0 split over 4 devices", Outcome.HOLDS),
        ("result (result)", "axis 0 split over 4 devices", Outcome.HOLDS),
        ("the result of mul", "can differ from device to device", Outcome.HOLDS),
    ]


def test_example_shapes_are_filled_with_numbers_that_tell() -> None:
    shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in (W, X)]
    report = check(question, *shapes)
    assert report and report.filled
    assert "Example shapes were filled with numbers." in repr(report)
    assert Outcome.WEAK not in {claim.outcome for claim in report.claims}


def test_equal_parts_do_not_tell() -> None:
    report = check(question, jnp.ones((2, 3)), jnp.ones((4, 2, 3)))
    assert report
    assert {claim.outcome for claim in report.claims if claim.says.startswith("axis 0")} >= {Outcome.WEAK}


def test_copies_that_differ_are_found() -> None:
    """`out_axes=None` promises copies; here each device has another value."""
    report = check(jax.pmap(lambda x: x * 2, out_axes=None), X)
    (claim,) = [claim for claim in report.claims if claim.outcome is Outcome.OTHERWISE and claim.path]
    assert (claim.variable, claim.says) == ("result (result)", "copied whole to 4 devices; copies may differ")
    assert claim.note.startswith("on device ")


def summed(w: Any, x: Any) -> Any:
    @jax.shard_map(mesh=mesh(2, 4), in_specs=(P("model"), P("data", "model")), out_specs=P("data"))
    def block(w: Any, x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            return carry + row @ w, carry.sum()

        carry, sums = lax.scan(step, x[0, :] @ w * 0, x)
        return lax.psum(carry, "model")[None] + 0 * lax.psum(sums.sum(), "model")

    return block(w, x)


def test_two_axes_with_a_loop_inside() -> None:
    report = check(summed, jnp.arange(8.0 * 3).reshape(8, 3), jnp.arange(4.0 * 8).reshape(4, 8))
    assert report, report
    outcomes = collections.Counter(claim.outcome for claim in report.claims)
    assert set(outcomes) == {Outcome.HOLDS}
    assert outcomes[Outcome.HOLDS] > 15


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_cases(file: Path) -> None:
    """No claim about a case is refuted by running it."""
    case = load(file)
    if case.EXPECT.get("norun"):
        pytest.skip("the case says that it can't be run")
    fn, args = case.build()
    try:
        report = check(fn, *args, run_effects=True)
    except JaxprvizError:
        expect = case.EXPECT
        refused = expect.get("raises") or expect.get("run_raises") or expect.get("message_says")
        assert refused or expect.get("raises_by_version") or expect.get("would_capture")
        return
    assert report.failed == ()


# --- lies ---------------------------------------------------------------------------------------------------


def lie(monkeypatch: pytest.MonkeyPatch, changed: Callable[[Layout], Layout]) -> None:
    """Makes the claims of how a variable crosses a border wrong."""
    honest = _check.placement

    def lying(scope: Any) -> Placement | None:
        placed = honest(scope)
        if placed is None:
            return None

        def wrong(crossing: Crossing) -> Crossing:
            return replace(crossing, layout=changed(crossing.layout))

        return Placement(tuple(map(wrong, placed.entering)), tuple(map(wrong, placed.leaving)))

    monkeypatch.setattr(_check, "placement", lying)


def blocks(w: Any, x: Any) -> Any:
    @jax.shard_map(mesh=mesh(2, 2), in_specs=(P(), P("data")), out_specs=P("data"), check_vma=False)
    def block(w: Any, x: Any) -> Any:
        return x @ w

    return block(w, x)


SQUARE = (jnp.arange(16.0).reshape(4, 4), jnp.arange(16.0).reshape(4, 4) + 7)


def swapped(spec: Any) -> Any:
    return tuple(tuple({"data": "model", "model": "data"}[name] for name in names) for names in spec)


@pytest.mark.parametrize(
    ("changed", "refuted"),
    [
        (lambda layout: replace(layout, spec=swapped(layout.spec)), {"x", "result (result)"}),
        (lambda layout: replace(layout, spec=layout.spec[::-1]), {"x", "result (result)"}),
        (lambda layout: replace(layout, spec=((),) * 2), {"x", "result (result)"}),
        (lambda layout: replace(layout, spec=(("data",), ())), {"w"}),
        (lambda layout: replace(layout, spec=(("data", "model"), ())), {"w", "x", "result (result)"}),
    ],
)
def test_a_wrong_claim_at_a_border_is_refuted(
    monkeypatch: pytest.MonkeyPatch, changed: Callable[[Layout], Layout], refuted: set[str]
) -> None:
    assert check(blocks, *SQUARE)
    lie(monkeypatch, changed)
    report = check(blocks, *SQUARE)
    assert not report
    assert {claim.variable for claim in report.failed} == refuted


def test_a_wrong_claim_of_sameness_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Flow.of

    def lying(self: Flow, scope: Any) -> tuple[Spread, ...]:
        return tuple(replace(spread, varying=frozenset()) for spread in honest(self, scope))

    monkeypatch.setattr(Flow, "of", lying)
    report = check(blocks, *SQUARE)
    assert {(claim.variable, claim.says) for claim in report.failed} == {
        ("the result of dot_general", "the same on all of data and model")
    }


def test_a_wrong_capture_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(w: Any, v: Any, x: Any) -> Any:
        @jax.shard_map(mesh=mesh(4), in_specs=(P(), P(), P("data")), out_specs=P("data"))
        def block(w: Any, v: Any, x: Any) -> Any:
            @jax.jit
            def inner(x: Any) -> Any:
                return x * w + v

            return inner(x)

        return block(w, v, x)

    args = (jnp.arange(3.0), jnp.arange(3.0) + 5, jnp.arange(12.0).reshape(4, 3))
    assert check(fn, *args)
    honest = _check.captures

    def lying(scope: Any) -> Any:
        found = honest(scope)
        return (
            tuple(replace(one, origin=other.origin) for one, other in zip(found, found[::-1], strict=True))
            if len(found) == 2
            else found
        )

    monkeypatch.setattr(_check, "captures", lying)
    assert {claim.variable for claim in check(fn, *args).failed} == {"w", "v"}


def test_results_that_jax_lays_otherwise() -> None:
    """What a jit asks for is how its results lie; without it the report tells."""
    over = mesh(4)
    asked = jax.jit(lambda x: x * 2, out_shardings=NamedSharding(over, P("data")))
    report = check(asked, jnp.arange(8.0))
    assert told(report) == [("result", "axis 0 split by data=4", Outcome.HOLDS)]


# --- effects, donations -------------------------------------------------------------------------------------


def test_effects_are_not_run_unasked_and_never_twice() -> None:
    seen: list[float] = []

    def fn(x: Any) -> Any:
        def g(x: Any) -> Any:
            jax.debug.callback(lambda v: seen.append(float(v)), x.sum())
            return x * 2

        return jax.pmap(g)(x)

    with pytest.raises(RunError, match="it prints, or calls back to the host"):
        check(fn, X)
    assert seen == []
    assert check(fn, X, run_effects=True)
    jax.effects_barrier()
    assert sorted(seen) == sorted(float(row.sum()) for row in X)


def test_what_is_donated_is_kept() -> None:
    x = jnp.arange(24.0).reshape(4, 2, 3)
    assert check(jax.jit(question, donate_argnums=1), W, x)
    assert check(jax.pmap(lambda x: x + 1, donate_argnums=0), x)
    assert np.array_equal(x, np.arange(24.0).reshape(4, 2, 3))


def test_a_program_that_fails() -> None:
    def fn(x: Any) -> Any:
        def fail(v: Any) -> Any:
            raise ValueError("no such day")

        def block(x: Any) -> Any:
            return jax.pure_callback(fail, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

        return jax.shard_map(block, mesh=mesh(2), in_specs=P("data"), out_specs=P("data"))(x)

    with pytest.raises(RunError) as caught:
        check(fn, jnp.arange(4.0))
    assert caught.value.asked == "jaxprviz was asked to run fn"
    assert "JAX refuses it, or it fails" in caught.value.wrong


def test_no_device_scope_is_run_for_nothing() -> None:
    calls: list[int] = []

    def fn(x: Any) -> Any:
        return jax.pure_callback(lambda v: calls.append(1) or v, jax.ShapeDtypeStruct((3,), jnp.float32), x)

    report = check(fn, jnp.arange(3.0))
    assert (report.claims, calls) == ((), [])
    assert repr(report) == "fn: nothing is claimed of devices."


def test_the_table_is_escaped() -> None:
    claim = Claim("0", "pmap <b>", "<script>", "x", Outcome.HOLDS, "")
    page = jaxprviz.Report("<i>", (claim,))._repr_html_()
    assert "<script>" not in page and "<b>" not in page and "<i>" not in page
