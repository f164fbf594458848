"""Runs a traced program for real and records what its device scopes compute.

The second place that touches JAX's internals: the jaxpr that was traced is run as it is, but each body inside a
device scope ends with a host callback that records the body's variables, with the device's position along each
manual axis.  Nothing that the program computes is changed by that.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxprviz import _jax
from jaxprviz._primitives import Held, bodies_of, rule_of
from jaxprviz._scope import Path
from jaxprviz.program import Role

MOST_STEPS = 64
"""Of a body in a loop so many runs a device are kept, and fewer where they are large: `MOST_BYTES`."""

MOST_BYTES = 2**25
"""The values of so many runs a device are kept as take no more bytes than this; those of the first run always."""

_WATCHED = frozenset(
    {
        "jit",
        "pjit",
        "closed_call",
        "core_call",
        "eval_jaxpr",
        "remat2",
        "checkpoint",
        "custom_jvp_call",
        "custom_vjp_call",
        "scan",
        "while",
        "cond",
        "shard_map",
        "xla_pmap",
    }
)
"""The primitives whose bodies may hold a host callback wherever they stand."""

_QUIET = frozenset(
    {
        "NamedAxisEffect",
        "ReadEffect",
        "WriteEffect",
        "AccumEffect",
        "InternalMutableArrayEffect",
        "ArrayEffect",
    }
)
"""Effects that nobody outside of the program sees."""

_HOST = frozenset(
    {"pure_callback", "io_callback", "debug_callback", "debug_print", "buffer_callback", "ffi_call"}
)
"""Primitives that leave the program, some of them without an effect that says so."""

_NESTED_TELL = jax.__version_info__ >= (0, 10)
"""Before, a shard_map in a partly manual one can neither call the host nor tell its position along the outer axes."""

Position = tuple[int, ...]
"""A device by its index along each manual axis, those of the outermost device scope first."""

Step = Mapping[int, np.ndarray]
"""What one device computed in one run of a body: the values of its variables, by the `id` of JAX's own."""


@dataclass(slots=True)
class Record:
    """What was seen of one body at one path.

    Attributes:
        axes: name and size of the manual axes around it, the outermost first.
        kept: of so many runs a device the values are kept: of the first ones.
        steps: for each device the runs of the body that are kept, in order.
        counts: for each device how many runs there were.
        within: for each device and each run, also those not kept, the number of the run of the body around it
            in which it stood, from 0; None where that is not known.
    """

    axes: tuple[tuple[str, int], ...]
    kept: int = MOST_STEPS
    steps: dict[Position, list[Step]] = field(default_factory=dict)
    counts: dict[Position, int] = field(default_factory=dict)
    within: dict[Position, list[int | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recording:
    """What one run of a program showed.

    Attributes:
        outer: by path, for each body outside of the device scopes that holds one, and for each of its runs (the
            first `MOST_STEPS`), the arrays that enter or leave the equations in which device scopes stand, by
            the `id` of JAX's variables.
        records: by path, for each body that was watched.
        unwatched: by path, why a body can't be watched.
        results: what the program returned, one an output.
        literals: the arrays that are written into equations, by the `id` of the literal.
        whole: whether the program was run as a whole; `outer` is empty then, and `records` has all bodies.
    """

    outer: Mapping[Path, Sequence[Mapping[int, Any]]]
    records: Mapping[Path, Record]
    unwatched: Mapping[Path, str]
    results: tuple[Any, ...] = ()
    literals: Mapping[int, Any] = field(default_factory=dict)
    whole: bool = False

    def coordinates(self, path: Path, device: Position) -> list[tuple[int, ...] | None]:
        """For each run of a body on one device which one it is: the number of the run of its device scope, and for
        each body from there on inwards its number among the runs in the same run of the body around it.

        So runs on several devices can be told to be the same one, although each device takes branches of its own.
        """
        record = self.records[path]
        count = record.counts.get(device, 0)
        parent = self.records.get(path[:-1]) if path else None
        if parent is None:
            return [(run,) for run in range(count)]
        around = self.coordinates(path[:-1], device[: len(parent.axes)])
        met: Counter[int] = Counter()
        found: list[tuple[int, ...] | None] = []
        for run in record.within.get(device, []):
            outer = around[run] if run is not None and run < len(around) else None
            if run is None or outer is None:
                found.append(None)
                continue
            found.append((*outer, met[run]))
            met[run] += 1
        return found


def run_recorded(closed: Any, leaves: Sequence[Any]) -> Recording:
    """Runs a jaxpr once.

    Outside of the device scopes it is run in pieces, equation by equation, so that the arrays at their borders are
    those that JAX made, on the devices where it put them.  Where that can't be done it is run as a whole: then what
    stands outside is recorded like what stands inside.

    Args:
        closed: a closed jaxpr, as `jax.make_jaxpr` returns it.
        leaves: the arrays that it takes.  They are kept, whatever the program donates.
    """
    if _hands_on_references(closed):
        return _run_whole(closed, leaves)
    try:
        return _run_in_pieces(closed, leaves)
    except Exception as error:
        # What the host was told is not told twice.
        if not is_of_other_devices(error) or calls_host(closed):
            raise
        return _run_whole(closed, leaves)


def is_of_other_devices(error: Exception) -> bool:
    """Whether JAX refuses to run something because its parts lie on different devices."""
    return type(error).__name__ == "DeviceAssignmentMismatchError" or "incompatible devices" in str(error)


def _run_in_pieces(closed: Any, leaves: Sequence[Any]) -> Recording:
    watcher = _Watcher()
    results = tuple(watcher.evaluate(closed, leaves, ()))
    jax.block_until_ready(results)
    return watcher.recording(closed, results, whole=False)


def _run_whole(closed: Any, leaves: Sequence[Any]) -> Recording:
    watcher = _Watcher()
    watched = watcher.body(closed, (), (), None)
    results = run_plainly(watched, leaves)
    jax.effects_barrier()
    return watcher.recording(closed, results, whole=True)


def _hands_on_references(closed: Any) -> bool:
    """Whether mutable references cross the borders of the pieces in which a program is run; they can't."""
    return any(
        any(hasattr(var.aval, "inner_aval") for var in (*equation.invars, *equation.outvars))
        or (
            _leads_to_devices(equation)
            and equation.primitive.name in _FOLLOWED
            and any(
                _hands_on_references(inner)
                for value in equation.params.values()
                for inner in _jax.sub_jaxprs(value)
            )
        )
        for equation in opened(closed).eqns
    )


def run_plainly(closed: Any, leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Runs a jaxpr once as it is, so that its results lie where JAX puts them; what it donates is kept."""
    jaxpr = opened(closed)
    kept = reclosed(closed, jaxpr.replace(eqns=list(map(_undonated, jaxpr.eqns))))
    return tuple(jax.block_until_ready(jex.jaxpr_as_fun(kept)(*leaves)))


def calls_host(closed: Any) -> bool:
    """Whether a program does something outside of itself when it runs: prints, or calls the host or foreign code."""
    jaxpr = opened(closed)
    return bool(effects_of(closed)) or any(
        equation.primitive.name in _HOST
        or any(calls_host(inner) for value in equation.params.values() for inner in _jax.sub_jaxprs(value))
        for equation in jaxpr.eqns
    )


def effects_of(closed: Any) -> list[str]:
    """The names of the effects of a program that are seen outside of it, sorted."""
    return sorted({type(effect).__name__ for effect in opened(closed).effects} - _QUIET)


def has_abstract_mesh(closed: Any) -> bool:
    """Whether an outermost device scope speaks of a mesh that has no devices; one in another takes those of that."""
    return any(
        isinstance(equation.params["mesh"], jax.sharding.AbstractMesh)
        if equation.primitive.name == "shard_map"
        else any(
            has_abstract_mesh(inner) for value in equation.params.values() for inner in _jax.sub_jaxprs(value)
        )
        for equation in opened(closed).eqns
    )


def is_cut_up(closed: Any) -> bool:
    """Whether `run_recorded` runs what a jit holds in several pieces, so that its results can lie elsewhere."""
    return any(
        _leads_to_devices(equation)
        and equation.primitive.name in _FOLLOWED
        and not all(
            _jax.is_pmap_function(opened(body)) for body in equation.params.values() if _jax.is_jaxpr(body)
        )
        for equation in opened(closed).eqns
    )


class _Watcher:
    """The state of one rewriting, and what the callbacks then record."""

    def __init__(self) -> None:
        self.outer: dict[Path, list[Mapping[int, Any]]] = {}
        self.records: dict[Path, Record] = {}
        self.unwatched: dict[Path, str] = {}
        self.branches: set[Path] = set()
        self._parts: dict[object, Callable[[dict[Any, Any]], None]] = {}
        self._lock = threading.Lock()

    def evaluate(self, closed: Any, values: Sequence[Any], path: Path) -> list[Any]:
        """The results of a body outside of the device scopes, run equation by equation.

        So the arrays at the borders of the device scopes are those that JAX made, on the devices where it put them.
        What stands between two device scopes is run as one.
        """
        jaxpr = opened(closed)
        held: dict[Any, Any] = dict(zip(jaxpr.constvars, _jax.constants(closed), strict=True))
        held.update(zip(jaxpr.invars, values, strict=True))
        waiting: list[Any] = []
        for position, equation in enumerate(jaxpr.eqns):
            if not _leads_to_devices(equation):
                waiting.append(equation)
                continue
            self._together(jaxpr, waiting, held, (path, position, len(waiting)))
            waiting = []
            self._alone(jaxpr, equation, held, path, position)
        self._together(jaxpr, waiting, held, (path, len(jaxpr.eqns), len(waiting)))
        border = _at_borders(jaxpr)
        steps = self.outer.setdefault(path, [])
        if len(steps) < MOST_STEPS:
            steps.append({id(var): held[var] for var in border})
        return [_value(atom, held) for atom in jaxpr.outvars]

    def _together(self, jaxpr: Any, equations: list[Any], held: dict[Any, Any], key: object) -> None:
        if not equations:
            return
        if key not in self._parts:
            self._parts[key] = _part(jaxpr, equations, jax.jit)
        self._parts[key](held)

    def _alone(self, jaxpr: Any, equation: Any, held: dict[Any, Any], path: Path, position: int) -> None:
        """Runs an equation in which device scopes stand; what it calls, equation by equation in its turn."""
        name = equation.primitive.name
        follow = _FOLLOWED.get(name)
        if follow is None:
            key = (path, position)
            if key not in self._parts:
                watched = self._equation(equation, path, position, ())
                # Up to 0.7 a pmap inside of a jit is another program: its results lie elsewhere.
                around = _as_it_is if name == "xla_pmap" else jax.jit
                self._parts[key] = _part(jaxpr, [watched], around)
            self._parts[key](held)
            # Before the next run starts: else what the devices report of the two could come in another order.
            jax.block_until_ready([held[var] for var in equation.outvars])
            jax.effects_barrier()
            return
        bodies = list(bodies_of(equation, rule_of(equation)))
        given = [_value(atom, held) for atom in equation.invars]

        def evaluate(number: int, values: Sequence[Any]) -> list[Any]:
            return self.evaluate(bodies[number].jaxpr, values, (*path, (position, number)))

        held.update(zip(equation.outvars, follow(equation, bodies, given, evaluate), strict=True))

    def body(self, closed: Any, path: Path, axes: tuple[tuple[Any, int], ...], holder: Any) -> Any:
        """A jaxpr that also records what it computes; `holder` is the equation that holds it, if one does."""
        jaxpr = opened(closed)
        equations, effects = [], set(jaxpr.effects)
        variables = {id(var): var for var in (*jaxpr.constvars, *jaxpr.invars)}
        record = self.records[path] = Record(tuple((_jax.axis_name(name), size) for name, size in axes))
        if holder is not None and holder.primitive.name == "cond":
            self.branches.add(path)
        for position, equation in enumerate(jaxpr.eqns):
            # Also results that nothing reads: what is recorded of a loop then comes after all of its steps.
            new = read_by_all(self._equation(equation, path, position, axes))
            variables.update(zip(map(id, equation.outvars), new.outvars, strict=True))
            effects |= {effect for effect in new.effects if effect not in equation.effects}
            equations.append(new)
        watch = {key: var for key, var in variables.items() if _can_be_recorded(var)}
        record.kept = _runs_kept(watch.values())
        around = _run_around(holder) if holder is not None else lambda count, ended: count
        callback = self._callback(path, record, list(watch), around)
        told = _axis_indices(axes)
        unwrapped = {key: _numbers_of_key(var) for key, var in watch.items() if _is_key(var)}
        given = [unwrapped[key].outvars[0] if key in unwrapped else var for key, var in watch.items()]
        seen = _call_of(callback, [*(equation.outvars[0] for equation in told), *given])
        context = jaxpr.eqns[-1].ctx if jaxpr.eqns else None
        added = [
            equation if context is None else equation.replace(ctx=context)
            for equation in (*told, *unwrapped.values(), seen)
        ]
        return reclosed(
            closed, jaxpr.replace(eqns=[*equations, *added], effects=frozenset(effects | seen.effects))
        )

    def _equation(self, equation: Any, path: Path, position: int, axes: tuple[tuple[Any, int], ...]) -> Any:
        held = list(bodies_of(equation, rule_of(equation)))
        if not held:
            return equation
        why = _unwatchable(equation, axes)
        if why is not None:
            for number in range(len(held)):
                self.unwatched[(*path, (position, number))] = why
            return equation
        inside = (*axes, *_manual_axes(equation))
        new = [
            self.body(body.jaxpr, (*path, (position, number)), inside, equation)
            for number, body in enumerate(held)
        ]
        changed = with_bodies(equation, held, new)
        if "unroll" not in changed.params:
            return changed
        # The steps of an unrolled loop may report in any order.
        return changed.replace(params={**changed.params, "unroll": 1})

    def recording(self, closed: Any, results: tuple[Any, ...], *, whole: bool) -> Recording:
        """What was recorded of a jaxpr that has run."""
        self._settle()
        literals: dict[int, Any] = {}
        _collect_literals(opened(closed), literals, set())
        return Recording(self.outer, self.records, self.unwatched, results, literals, whole)

    def _settle(self) -> None:
        """Branches that were taken each time stand in one run each of the body around them.

        The compiler puts a branch in place of its equation where it knows that it is taken, and the branch may then
        report after the body around it.
        """
        for path in self.branches:
            record, parent = self.records[path], self.records.get(path[:-1])
            for device, count in record.counts.items():
                if parent is not None and parent.counts.get(device) == count:
                    record.within[device] = list(range(count))

    def _callback(
        self, path: Path, record: Record, keys: list[int], around: Callable[[int, int], int | None]
    ) -> Callable[..., None]:
        count_axes = len(record.axes)
        parent = self.records.get(path[:-1])

        def callback(*values: Any) -> None:
            device = tuple(int(value) for value in values[:count_axes])
            with self._lock:
                count = record.counts.get(device, 0)
                record.counts[device] = count + 1
                ended = 0 if parent is None else parent.counts.get(device[: len(parent.axes)], 0)
                record.within.setdefault(device, []).append(around(count, ended))
                if count < record.kept:
                    arrays = [np.array(value) for value in values[count_axes:]]
                    record.steps.setdefault(device, []).append(dict(zip(keys, arrays, strict=True)))

        return callback


def _unwatchable(equation: Any, axes: tuple[tuple[Any, int], ...]) -> str | None:
    """Why the bodies of an equation can't be watched, which stands where the program runs once a device along some
    axes; None when they can.
    """
    name = equation.primitive.name
    if name not in _WATCHED:
        return f"what {name} holds can't be watched"
    if name == "shard_map" and axes and not _NESTED_TELL:
        return "JAX before 0.10 can't call the host from a shard_map in another"
    return None


def _run_around(equation: Any) -> Callable[[int, int], int | None]:
    """In which run of the body around it a run of a body stands, by the equation that holds it: from its own number,
    and the number of runs of the body around that have ended.

    What a body reads of an equation is there when that equation has ended, and so have all runs of its bodies.
    """
    name = equation.primitive.name
    if name == "scan":
        length = int(equation.params["length"])
        return lambda count, ended: count // length
    if name in ("while", "cond"):
        return lambda count, ended: ended if equation.outvars else None
    return lambda count, ended: count


def read_by_all(equation: Any) -> Any:
    """An equation with variables also for the results that nothing reads."""
    if not any(map(_is_dropped, equation.outvars)):
        return equation
    kept = [jex.Var(var.aval) if _is_dropped(var) else var for var in equation.outvars]
    return equation.replace(outvars=kept)


def _runs_kept(variables: Iterable[Any]) -> int:
    """The values of how many runs of a body are kept."""
    size = sum(_jax.read_type(var.aval).nbytes or 0 for var in variables)
    return max(1, min(MOST_STEPS, MOST_BYTES // max(size, 1)))


def _has_devices(jaxpr: Any, kinds: Sequence[str] = ("shard_map", "xla_pmap")) -> bool:
    """Whether a device scope stands in a jaxpr, at any depth."""
    return any(_leads_to_devices(equation, kinds) for equation in jaxpr.eqns)


def _leads_to_devices(equation: Any, kinds: Sequence[str] = ("shard_map", "xla_pmap")) -> bool:
    """Whether an equation is a device scope, or holds one."""
    return equation.primitive.name in kinds or any(
        _has_devices(opened(inner), kinds)
        for value in equation.params.values()
        for inner in _jax.sub_jaxprs(value)
    )


def _at_borders(jaxpr: Any) -> set[Any]:
    """What enters or leaves the equations in which device scopes stand."""
    found: set[Any] = set()
    for equation in jaxpr.eqns:
        if _leads_to_devices(equation):
            found.update(var for var in equation.invars if not _jax.is_literal(var))
            found.update(equation.outvars)
    return found


def _collect_literals(jaxpr: Any, found: dict[int, Any], met: set[int]) -> None:
    """The values of the literals of a jaxpr and of those in it."""
    if id(jaxpr) in met:
        return
    met.add(id(jaxpr))
    for equation in jaxpr.eqns:
        found.update((id(atom), atom.val) for atom in equation.invars if _jax.is_literal(atom))
        for value in equation.params.values():
            for inner in _jax.sub_jaxprs(value):
                _collect_literals(opened(inner), found, met)
    found.update((id(atom), atom.val) for atom in jaxpr.outvars if _jax.is_literal(atom))


def _manual_axes(equation: Any) -> tuple[tuple[Any, int], ...]:
    """Name (as JAX holds it) and size of the axes over which the body of an equation runs once a device."""
    params = equation.params
    if equation.primitive.name == "xla_pmap":
        return ((params["axis_name"], int(params["global_axis_size"])),)
    if equation.primitive.name != "shard_map":
        return ()
    mesh = params["mesh"]
    manual = params.get("newly_manual_axes", params.get("manual_axes", mesh.axis_names))
    return tuple((name, int(size)) for name, size in mesh.shape.items() if name in manual)


def _can_be_recorded(var: Any) -> bool:
    """Whether a variable is an array of numbers or of keys: no reference, no token."""
    aval = var.aval
    dtype = getattr(aval, "dtype", None)
    if dtype is None or hasattr(aval, "inner_aval") or dtype == jax.dtypes.float0:
        return False
    if jnp.issubdtype(dtype, jax.dtypes.extended) and not _is_key(var):
        return False
    return all(isinstance(size, int) for size in aval.shape)


def _is_key(var: Any) -> bool:
    return jnp.issubdtype(var.aval.dtype, jax.dtypes.prng_key)


def _numbers_of_key(var: Any) -> Any:
    """The equation that makes numbers of keys."""
    keys = jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype)
    (equation,) = opened(jax.make_jaxpr(jax.random.key_data)(keys)).eqns
    # JAX keeps what it traced: it gives the same equation, with the same variable, for other keys too.
    return equation.replace(invars=[var], outvars=[jex.Var(equation.outvars[0].aval)])


def _axis_indices(axes: tuple[tuple[Any, int], ...]) -> list[Any]:
    """Equations that tell the position of the device."""
    found = []
    for name, size in axes:
        traced = jax.make_jaxpr(lambda name=name: lax.axis_index(name), axis_env=[(name, size)])()
        found.append(opened(traced).eqns[-1])
    return found


def _call_of(callback: Callable[..., None], variables: Sequence[Any]) -> Any:
    """The equation that gives variables to a function on the host."""
    traced = jax.make_jaxpr(lambda *values: jax.debug.callback(callback, *values))(
        *(np.float32(0) for _ in variables)
    )
    return opened(traced).eqns[-1].replace(invars=list(variables))


def _debug_effects(jaxpr: Any) -> set[Any]:
    return {effect for effect in jaxpr.effects if type(effect).__name__ == "DebugEffect"}


def with_bodies(equation: Any, held: Sequence[Held], new: Sequence[Any]) -> Any:
    """An equation with its bodies replaced.

    Args:
        equation: an equation of a jaxpr.
        held: its bodies, as `bodies_of` gives them.
        new: what takes their places, in the same order.
    """
    queues: dict[int, list[Any]] = {}
    for body, one in zip(held, new, strict=True):
        queues.setdefault(id(body.jaxpr), []).append(one)
    params = {key: _swapped(value, queues) for key, value in equation.params.items()}
    effects = set(equation.effects).union(*(_debug_effects(opened(one)) for one in new))
    return equation.replace(params=params, effects=frozenset(effects))


def _swapped(value: Any, queues: Mapping[int, list[Any]]) -> Any:
    """A parameter with its jaxprs replaced, wherever in it they stand; each is used once, in order."""
    if id(value) in queues:
        queue = queues[id(value)]
        return queue.pop(0) if len(queue) > 1 else queue[0]
    if isinstance(value, tuple) and type(value) is not tuple and hasattr(value, "_fields"):
        return type(value)(*(_swapped(item, queues) for item in value))
    if type(value) in (tuple, list):
        return type(value)(_swapped(item, queues) for item in value)
    return value


def _part(
    jaxpr: Any, equations: Sequence[Any], around: Callable[[Any], Callable[..., Any]]
) -> Callable[[dict[Any, Any]], None]:
    """Some equations of a jaxpr as a function: it takes the values that are held, and adds what they make."""
    bound = [var for equation in equations for var in equation.outvars]
    equations = list(map(read_by_all, equations))
    made = [var for equation in equations for var in equation.outvars]
    inner = set(made)
    read = dict.fromkeys(
        atom
        for equation in equations
        for atom in equation.invars
        if not _jax.is_literal(atom) and atom not in inner
    )
    part = jaxpr.replace(
        constvars=[],
        invars=list(read),
        outvars=made,
        eqns=list(map(_undonated, equations)),
        effects=frozenset().union(*(equation.effects for equation in equations)),
        debug_info=jaxpr.debug_info.with_unknown_names(),
    )
    call = around(jex.jaxpr_as_fun(_closed(part)))

    def run(held: dict[Any, Any]) -> None:
        held.update(zip(bound, call(*(held[var] for var in read)), strict=True))

    return run


def _as_it_is(call: Callable[..., Any]) -> Callable[..., Any]:
    return call


def _value(atom: Any, held: Mapping[Any, Any]) -> Any:
    return atom.val if _jax.is_literal(atom) else held[atom]


Evaluate = Callable[[int, Sequence[Any]], list[Any]]
"""Runs one of the bodies of an equation."""


def _follow_call(equation: Any, bodies: Sequence[Held], given: list[Any], evaluate: Evaluate) -> list[Any]:
    params = equation.params
    return _put(evaluate(0, _put(given, params.get("in_shardings"))), params.get("out_shardings"))


def _follow_scan(equation: Any, bodies: Sequence[Held], given: list[Any], evaluate: Evaluate) -> list[Any]:
    roles, params = bodies[0].roles, equation.params
    consts = [value for value, role in zip(given, roles, strict=True) if role is Role.CONST]
    carry = [value for value, role in zip(given, roles, strict=True) if role is Role.CARRY]
    sliced = [value for value, role in zip(given, roles, strict=True) if role is Role.SLICED]
    count, length = len(carry), int(params["length"])
    stacked: list[list[Any]] = [[] for _ in equation.outvars[count:]]
    order = range(length)
    for step in reversed(order) if params["reverse"] else order:
        results = evaluate(0, [*consts, *carry, *(value[step] for value in sliced)])
        carry = results[:count]
        for rows, value in zip(stacked, results[count:], strict=True):
            rows.insert(0, value) if params["reverse"] else rows.append(value)
    empty = (
        [jnp.zeros(var.aval.shape, var.aval.dtype) for var in equation.outvars[count:]] if not length else []
    )
    return [*carry, *(empty or [jnp.stack(rows) for rows in stacked])]


def _follow_while(equation: Any, bodies: Sequence[Held], given: list[Any], evaluate: Evaluate) -> list[Any]:
    first = int(equation.params["cond_nconsts"])
    second = first + int(equation.params["body_nconsts"])
    carry = given[second:]
    while bool(evaluate(0, [*given[:first], *carry])[0]):
        carry = evaluate(1, [*given[first:second], *carry])
    return carry


def _follow_cond(equation: Any, bodies: Sequence[Held], given: list[Any], evaluate: Evaluate) -> list[Any]:
    return evaluate(min(max(int(given[0]), 0), len(bodies) - 1), given[1:])


_Follow = Callable[[Any, Sequence[Held], list[Any], Evaluate], list[Any]]

_FOLLOWED: dict[str, _Follow] = {
    **dict.fromkeys(_WATCHED - {"shard_map", "xla_pmap"}, _follow_call),
    "scan": _follow_scan,
    "while": _follow_while,
    "cond": _follow_cond,
}
"""How an equation outside of the device scopes is run, of which a body holds one."""


def _undonated(equation: Any) -> Any:
    """An equation that donates nothing."""
    if not any(equation.params.get("donated_invars") or ()):
        return equation
    return equation.replace(params={**equation.params, "donated_invars": (False,) * len(equation.invars)})


def _put(values: Sequence[Any], shardings: Sequence[Any] | None) -> list[Any]:
    """Arrays, laid over devices where a jit asks for it."""
    return [
        jax.device_put(value, sharding)
        if isinstance(sharding, jax.sharding.NamedSharding) and isinstance(sharding.mesh, jax.sharding.Mesh)
        else value
        for value, sharding in zip(values, shardings or (None,) * len(values), strict=True)
    ]


def _is_dropped(var: Any) -> bool:
    """Whether nothing reads the result that a variable stands for; JAX holds none for it."""
    return type(var).__name__ == "DropVar"


def _closed(jaxpr: Any) -> Any:
    """A jaxpr without constants, closed; from 0.12 on it is so already."""
    return jaxpr if hasattr(jaxpr, "consts") else jex.ClosedJaxpr(jaxpr, ())


def opened(value: Any) -> Any:
    """The jaxpr without its constants, which alone can be replaced; from 0.12 on both are one."""
    return getattr(value, "jaxpr", value)


def reclosed(closed: Any, jaxpr: Any) -> Any:
    """A rewritten jaxpr with the constants that the one before it had."""
    return jaxpr if opened(closed) is closed else closed.replace(jaxpr=jaxpr)
