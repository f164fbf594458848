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
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from test_cases import FILES, load
from zoo import ZOO

import jaxprviz
from jaxprviz import _check, check
from jaxprviz._check import Claim, Outcome
from jaxprviz._facts import Crossing, Ground, Layout, Placement, Spread
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
        ("w", "captured: the value that is bound in question", Outcome.HOLDS),
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
    try:
        fn, args = case.build()
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
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


def test_a_wrong_capture_from_outside_of_the_device_scope_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device scope captures both; the function in it too, and each is compared with what was bound outside."""

    def fn(w: Any, v: Any, x: Any) -> Any:
        @jax.pmap
        def g(x: Any) -> Any:
            @jax.jit
            def inner(x: Any) -> Any:
                return x * w + v

            return inner(x)

        return g(x)

    args = (jnp.arange(3.0), jnp.arange(3.0) + 5, jnp.arange(12.0).reshape(4, 3))
    report = check(fn, *args)
    said = [claim for claim in report.claims if claim.says.startswith("captured")]
    assert [(claim.scope, claim.outcome) for claim in said] == [
        ("pmap g", Outcome.HOLDS),
        ("pmap g", Outcome.HOLDS),
        ("jit inner", Outcome.HOLDS),
        ("jit inner", Outcome.HOLDS),
    ]
    honest = _check.captures

    def lying(scope: Any) -> Any:
        found = honest(scope)
        return tuple(replace(one, origin=other.origin) for one, other in zip(found, found[::-1], strict=True))

    monkeypatch.setattr(_check, "captures", lying)
    failed = check(fn, *args).failed
    assert [(claim.scope, claim.variable) for claim in failed] == [
        ("pmap g", "w"),
        ("pmap g", "v"),
        ("jit inner", "w"),
        ("jit inner", "v"),
    ]


def test_a_wrong_shape_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a device is said to hold has the shape that is told, not only the same elements."""
    lie(monkeypatch, lambda layout: replace(layout, type=replace(layout.type, shape=(8, 2))))
    assert {claim.variable for claim in check(blocks, *SQUARE).failed} == {"w", "x", "result (result)"}


@pytest.mark.parametrize("what", ["argument", "result"])
def test_a_wrong_claim_of_how_an_array_lies_is_refuted(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    over = mesh(4)
    x = jax.device_put(jnp.arange(16.0).reshape(4, 4), NamedSharding(over, P("data")))
    fn = jax.jit(lambda x: x * 2, out_shardings=NamedSharding(over, P("data")))
    says = "axis 0 split by data=4"
    assert told(check(fn, x)) == [("x", says, Outcome.HOLDS), ("result", says, Outcome.HOLDS)]
    honest = _check.places

    class Lying:
        def __init__(self, program: Any) -> None:
            self.program, self.honest = program, honest(program)

        def of(self, scope: Any) -> Any:
            body = self.program.main
            return [
                replace(place, ground=Ground.TYPE, layout=replace(place.layout, spec=((), ("data",))))
                if place is not None
                and place.layout is not None
                and scope.parent is None
                and number in (body.inputs if what == "argument" else body.outputs)
                else place
                for number, place in enumerate(self.honest.of(scope))
            ]

    monkeypatch.setattr(_check, "places", Lying)
    (claim,) = check(fn, x).failed
    assert claim.variable == ("x" if what == "argument" else "result")
    assert claim.says == "axis 1 split by data=4"
    assert claim.note == "JAX laid it in 4 parts on 4 devices, 16 bytes a device"


def middle(x: Any) -> Any:
    over = mesh(4)

    @jax.jit
    def turned(y: Any) -> Any:
        return lax.with_sharding_constraint(y + 1, NamedSharding(over, P(None, "data")))

    y = lax.with_sharding_constraint(x * 2, NamedSharding(over, P("data")))
    return turned(y).sum()


def test_what_lies_in_the_middle() -> None:
    report = check(jax.jit(middle), jnp.arange(16.0).reshape(4, 4))
    assert [(claim.path, claim.says, claim.outcome) for claim in report.claims] == [
        ("0", "axis 0 split by data=4", Outcome.HOLDS),
        ("0", "axis 1 split by data=4", Outcome.HOLDS),
        ("0/2", "axis 0 split by data=4", Outcome.HOLDS),
        ("0/2", "axis 1 split by data=4", Outcome.HOLDS),
    ]


def test_asking_how_the_middle_lies_runs_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    def telling(x: Any) -> Any:
        jax.debug.print("seen {}", x.sum())
        return middle(x)

    report = check(jax.jit(telling), jnp.arange(16.0).reshape(4, 4), run_effects=True)
    jax.effects_barrier()
    assert {claim.outcome for claim in report.claims} == {Outcome.HOLDS}
    assert capfd.readouterr().out.count("seen") <= 1


def test_the_middle_of_a_loop_on_an_explicit_mesh() -> None:
    over = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Explicit,))

    @jax.jit
    def looped(x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            return jnp.sin(carry), None

        return jax.sharding.reshard(lax.scan(step, x, None, length=2)[0], P(None)).sum()

    with jax.set_mesh(over):
        report = check(looped, jax.device_put(jnp.arange(8.0), NamedSharding(over, P("data"))))
    # Before 0.9 the compiler lays what the scan gives as the reshard behind it wants it.
    loose = jax.__version_info__ < (0, 9)
    otherwise = [claim.variable for claim in report.claims if claim.outcome is not Outcome.HOLDS]
    assert report
    assert otherwise == (["the result of scan"] if loose else [])
    inside = [claim.says for claim in report.claims if claim.scope == "scan step"]
    assert inside == ["axis 0 split by data=4"] * 2


@pytest.mark.parametrize("ground", [Ground.TYPE, Ground.ASKED])
def test_a_wrong_claim_of_the_middle_is_refuted(monkeypatch: pytest.MonkeyPatch, ground: Ground) -> None:
    honest = _check.places

    class Lying:
        def __init__(self, program: Any) -> None:
            self.honest = honest(program)

        def of(self, scope: Any) -> Any:
            return [
                replace(place, ground=ground, layout=replace(place.layout, spec=place.layout.spec[::-1]))
                if place is not None
                and place.ground is Ground.ASKED
                and place.layout is not None
                and place.layout.spec is not None
                else place
                for place in self.honest.of(scope)
            ]

    monkeypatch.setattr(_check, "places", Lying)
    report = check(jax.jit(middle), jnp.arange(16.0).reshape(4, 4))
    wrong = Outcome.FAILS if ground is Ground.TYPE else Outcome.OTHERWISE
    assert [claim.outcome for claim in report.claims] == [wrong] * 4
    assert report.claims[0].note == "JAX laid it in 4 parts on 4 devices, 16 bytes a device"


def test_results_that_jax_lays_otherwise() -> None:
    """What a jit asks for is how its results lie; where it can't be, the report tells how they do."""
    over = mesh(4)
    asked = jax.jit(lambda x: x * 2, out_shardings=NamedSharding(over, P("data")))
    report = check(asked, jnp.arange(8.0))
    assert told(report) == [("result", "axis 0 split by data=4", Outcome.HOLDS)]

    def uneven(x: Any) -> Any:
        return lax.with_sharding_constraint(x * 2, NamedSharding(over, P("data")))

    try:
        jax.jit(uneven)(jnp.arange(6.0))
    except ValueError:  # on some JAX it can't be run at all
        with pytest.raises(RunError, match="not divisible"):
            check(jax.jit(uneven), jnp.arange(6.0))
        return
    report = check(jax.jit(uneven), jnp.arange(6.0))
    assert report
    says = "axis 0 split by data=4"
    assert [(claim.path, claim.says, claim.outcome) for claim in report.claims] == [
        ("", says, Outcome.OTHERWISE),
        ("0", says, Outcome.OTHERWISE),
    ]
    assert "bytes a device" in report.claims[0].note
    assert report.claims[1].note == "JAX cuts it into parts that are not equal"


# --- which run is which -------------------------------------------------------------------------------------


def counted(x: Any) -> Any:
    """Each device takes a branch in steps of its own, in which the counter is the same on all."""

    @jax.shard_map(mesh=mesh(4), in_specs=P("data"), out_specs=P("data"))
    def block(x: Any) -> Any:
        mine = lax.axis_index("data")

        def step(carry: Any, n: Any) -> Any:
            more = lax.cond((mine + n) % 2 == 0, lambda: (n * 2).astype(jnp.float32), lambda: 1.0 + n)
            count = lax.while_loop(lambda k: k < mine + n, lambda k: k + 1, 0)
            return carry + more + count, None

        return lax.scan(step, x, jnp.arange(4), unroll=2)[0]

    return block(x)


def test_runs_of_several_devices_are_told_apart() -> None:
    report = check(counted, jnp.arange(4.0))
    assert report, report
    assert {claim.outcome for claim in report.claims} == {Outcome.HOLDS}
    inner = [claim for claim in report.claims if claim.scope.startswith("cond") and claim.variable == "n"]
    assert {claim.says for claim in inner} >= {"the same on all of data"}


def test_a_branch_that_no_device_takes_is_not_seen() -> None:
    def g(x: Any) -> Any:
        return lax.cond(x > 100, lambda: x * 2, lambda: x)

    report = check(lambda x: jax.pmap(g)(x), jnp.arange(4.0))
    assert report
    unseen = [(claim.scope, claim.note) for claim in report.claims if claim.outcome is Outcome.NOT_SEEN]
    assert set(unseen) == {("cond true <lambda>", "no device ran it")}
    assert "true" not in {claim.scope for claim in report.claims if claim.outcome is Outcome.HOLDS}


# --- other arrays -------------------------------------------------------------------------------------------


def test_keys_are_compared_by_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(keys: Any) -> Any:
        return jax.pmap(lambda k: jax.random.normal(k))(keys)

    keys = jax.random.split(jax.random.key(0), 4)
    report = check(fn, keys)
    assert {claim.outcome for claim in report.claims} == {Outcome.HOLDS}
    lie(monkeypatch, lambda layout: replace(layout, spec=((),) * len(layout.spec or ())))
    assert "keys" in {claim.variable for claim in check(fn, keys).failed}


def test_numbers_that_are_none_equal_themselves() -> None:
    report = check(lambda x: jax.pmap(jnp.log)(x), -jnp.arange(1.0, 5.0))
    assert report
    assert "with these values it does not differ" in {claim.note for claim in report.claims}


def test_references_around_a_device_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    """They can't be handed from piece to piece, so the program is run as a whole."""

    def fn(x: Any) -> Any:
        total = jax.new_ref(x)

        def step(row: Any, _: Any) -> Any:
            made = jax.shard_map(lambda y: y * 2, mesh=mesh(4), in_specs=P("data"), out_specs=P("data"))(row)
            total[...] += made
            return made, None

        row, _ = lax.scan(step, x, None, length=2)
        return total[...] + row

    report = check(jax.jit(fn), jnp.arange(4.0))
    borders = [(claim.says, claim.outcome) for claim in report.claims if claim.says.startswith("axis 0")]
    assert report
    assert borders == [("axis 0 split by data=4", Outcome.HOLDS)] * 2
    lie(monkeypatch, lambda layout: replace(layout, spec=((),)))
    assert len(check(jax.jit(fn), jnp.arange(4.0)).failed) == 2


def test_what_jax_refuses_is_told() -> None:
    """Two meshes in one jit."""

    def fn(x: Any) -> Any:
        for size in (4, 2):
            x = jax.shard_map(lambda y: y * 2, mesh=mesh(size), in_specs=P("data"), out_specs=P("data"))(x)
        return x

    with pytest.raises(RunError, match="parts of it lie on different devices"):
        check(jax.jit(fn), jnp.arange(4.0))


def test_constants_that_are_literals() -> None:
    """What JAX bakes in is compared, whichever way it holds it."""
    c = np.arange(4.0, dtype=np.float32)

    def fn(x: Any) -> Any:
        return jax.pmap(lambda row: row * c + jax.jit(lambda v: v + c)(row))(x)

    report = check(fn, jnp.arange(4.0))
    assert report
    assert Outcome.NOT_SEEN not in {claim.outcome for claim in report.claims}


@pytest.mark.parametrize("name", ZOO)
def test_zoo(name: str) -> None:
    """No claim about a program of the zoo is refuted by running it; those without device scopes claim nothing."""
    fn, args = ZOO[name]()
    program = jaxprviz.trace(fn, *args)
    report = check(fn, *args, run_effects=True)
    assert report.failed == ()
    holds = Outcome.HOLDS in {claim.outcome for claim in report.claims}
    assert holds == any(equation.device for body in program.bodies for equation in body.equations)


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


@pytest.mark.parametrize("pure", [False, True])
def test_a_program_that_calls_the_host_is_run_once(pure: bool) -> None:
    """Also where seeing how JAX lays the results would take a second run."""
    calls: list[int] = []

    def told_host(value: Any) -> Any:
        calls.append(1)
        return np.asarray(value)

    def fn(x: Any) -> Any:
        def block(x: Any) -> Any:
            if pure:
                return jax.pure_callback(told_host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
            jax.debug.callback(told_host, x)
            return x * 2

        return jax.shard_map(block, mesh=mesh(4), in_specs=P("data"), out_specs=P("data"))(x)

    report = check(jax.jit(fn), jnp.arange(8.0), run_effects=True)
    jax.effects_barrier()
    assert report
    assert len(calls) == 4
    assert report.claims[0].outcome is Outcome.NOT_SEEN


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


def test_a_mesh_without_devices() -> None:
    nowhere = AbstractMesh((4,), ("data",), axis_types=(AxisType.Auto,))

    def fn(x: Any) -> Any:
        return jax.shard_map(lambda x: x * 2, mesh=nowhere, in_specs=P("data"), out_specs=P("data"))(x)

    with pytest.raises(RunError) as caught:
        check(fn, jax.ShapeDtypeStruct((8,), jnp.float32))
    assert caught.value.wrong.startswith(
        "a device scope speaks of a mesh that has no devices, an AbstractMesh"
    )


def test_jax_stops_at_numbers_that_are_none() -> None:
    def fn(x: Any) -> Any:
        return jax.shard_map(jnp.log, mesh=mesh(2), in_specs=P("data"), out_specs=P("data"))(x)

    with jax.debug_nans(True), pytest.raises(RunError, match="a number that is none, or infinite"):
        check(fn, -jnp.arange(1.0, 5.0))


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
