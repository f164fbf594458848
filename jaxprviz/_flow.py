"""How the value of each variable differs over the devices of the device scopes around it.

Inside a `shard_map` or a `pmap` each device computes on values of its own.  Along a mesh axis a value is surely
the same on every device when everything that it is made of is; what a spec splits, what `axis_index` tells and
what devices hand to each other may differ; a sum over the axis, or a gathering of it, is the same again.  Where
nothing can be known (a host's answer, wiring that is not known) that is said.  JAX's own types (`vma`) are not
enough: there are none where `check_vma` is off, and a value that is typed as varying may well be the same
(`pvary`, `all_gather`).

Facts are found for each place of a body by following the values through it, loops until nothing changes.  A body
that stands in several places with the same facts of its inputs is followed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import NamedTuple

from jaxprviz._facts import Spread
from jaxprviz._scope import Scope
from jaxprviz.program import (
    Atom,
    Body,
    Boundary,
    Call,
    DeviceScope,
    Equation,
    Kind,
    Mesh,
    Program,
    Role,
    Spec,
)

_Fact = int
"""What is known of one variable: a bit for each axis along which it may differ, and above those a bit for each
axis along which nothing is known.  0: the same everywhere.  What two values make is told by both: `a | b`."""


class _Effect(Enum):
    """What a collective does to what is known along its axes."""

    EQUAL = auto()  # each device gets the same
    DIFFER = auto()  # each device gets a part, or what another one had
    KEEP = auto()  # the value stays, only its type changes


_COLLECTIVES: dict[str, _Effect] = {
    "psum": _Effect.EQUAL,
    "psum_invariant": _Effect.EQUAL,
    "unreduced_psum": _Effect.EQUAL,
    "pmax": _Effect.EQUAL,
    "pmin": _Effect.EQUAL,
    "unreduced_pmax": _Effect.EQUAL,
    "unreduced_pmin": _Effect.EQUAL,
    "all_gather": _Effect.EQUAL,
    "all_gather_invariant": _Effect.EQUAL,
    "all_gather_reduced": _Effect.EQUAL,
    "reduce_scatter": _Effect.DIFFER,
    "unreduced_reduce_scatter": _Effect.DIFFER,
    "ppermute": _Effect.DIFFER,
    "all_to_all": _Effect.DIFFER,
    "ragged_all_to_all": _Effect.DIFFER,
    "psend": _Effect.DIFFER,
    "precv": _Effect.DIFFER,
    "axis_index": _Effect.DIFFER,
    "pbroadcast_dynamic": _Effect.DIFFER,
    "pgather": _Effect.KEEP,
    "pvary": _Effect.KEEP,
    "pcast": _Effect.KEEP,
    "preduced": _Effect.KEEP,
    "reduced_vary_cast": _Effect.KEEP,
    "reduced_vary_cast_p": _Effect.KEEP,
    "vary_unreduced_cast": _Effect.KEEP,
    "vary_unreduced_cast_p": _Effect.KEEP,
}

_ONE_TO_ONE = frozenset({"optimization_barrier", *_COLLECTIVES, "pbroadcast"})
"""Primitives each result of which comes from the operand in its place."""

_OUTSIDE_WORLD = frozenset(
    {
        "pure_callback",
        "io_callback",
        "buffer_callback",
        "ffi_call",
        "infeed",
        "rng_uniform",
        "call_exported",
        "call_hi_primitive",
        "call_hi_primitive_linearized",
        "tpu_custom_call",
        "triton_kernel_call",
        "pallas_call",
        "get_global",
        "empty",
        "empty2",
        "empty_ref",
        "inline_mgpu",
        "get_barrier_semaphore",
        "dma_start",
        "dma_wait",
        "semaphore_read",
        "semaphore_wait",
        "atomic_rmw",
        "atomic_cas",
    }
)
"""Primitives whose results are made by more than their operands: by a host, by hardware, by memory never
written."""

_QUIET_EFFECTS = frozenset(
    {
        "NamedAxisEffect",
        "ReadEffect",
        "WriteEffect",
        "AccumEffect",
        "InternalMutableArrayEffect",
        "ArrayEffect",
        "DebugEffect",
        "OrderedDebugEffect",
    }
)
"""Effects of equations whose results are made by their operands alone."""

_READERS = frozenset({"get", "freeze", "free_ref", "ref_get"})
"""Primitives that leave a mutable reference as it is."""

_MOST_ROUNDS = 16
"""A loop that has not come to rest after so many rounds is taken to mix all that it carries."""


class _Place(NamedTuple):
    """Where a body stands, as far as it matters to what is known in it.

    Attributes:
        axes: the axes over which it runs once a device, the outermost first.
        live: those of more than one device, as bits.
        hidden: those that stand for two axes, as bits: the name was given again further in.
        typed: whether JAX's types tell what varies.
    """

    axes: tuple[str, ...] = ()
    live: int = 0
    hidden: int = 0
    typed: bool = False


class _Key(NamedTuple):
    """What the facts of a body depend on: which body, what its inputs are, where it stands."""

    body: int
    inputs: tuple[_Fact, ...]
    place: _Place


@dataclass(slots=True)
class _Frame:
    """What is known of one body in one sort of place.

    Attributes:
        facts: one a variable.
        outputs: one an output.
        refs: of each input afterwards; only a mutable reference is then another than before.
        inner: the key of each body that it holds, by equation and position.
    """

    facts: list[_Fact]
    outputs: tuple[_Fact, ...] = ()
    refs: tuple[_Fact, ...] = ()
    inner: dict[tuple[int, int], _Key] = field(default_factory=dict)


class Flow:
    """How the variables of a program differ over its devices; `flow` makes it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._meshes: dict[str, set[object]] = {}
        for body in program.bodies:
            for equation in body.equations:
                if equation.device is not None:
                    mesh = equation.device.mesh
                    for name, _ in mesh.axes:
                        self._meshes.setdefault(name, set()).add((mesh.axes, mesh.ids))
        self._names = tuple(sorted(self._meshes))
        self._bit = {name: 1 << position for position, name in enumerate(self._names)}
        self._count = len(self._names)
        self._frames: dict[_Key, _Frame] = {}
        self._told: dict[_Key, tuple[Spread, ...]] = {}
        self._root = _Key(program.root, (0,) * len(program.main.inputs), _Place())
        self._frame(self._root)

    def of(self, scope: Scope) -> tuple[Spread, ...]:
        """What is known of each variable of a scope, by number.

        Args:
            scope: a scope of the program that the flow was made of.
        """
        key = self._root
        for step in scope.path:
            key = self._frames[key].inner[step]
        if key not in self._told:
            known: dict[_Fact, Spread] = {}
            facts = self._frames[key].facts
            self._told[key] = tuple(
                known[fact] if fact in known else known.setdefault(fact, self._spread(fact, key.place))
                for fact in facts
            )
        return self._told[key]

    def _spread(self, fact: _Fact, place: _Place) -> Spread:
        varying = {name for name, bit in self._bit.items() if fact & bit}
        unknown = {name for name, bit in self._bit.items() if fact & (bit << self._count)} - varying
        axes = frozenset(place.axes)
        return Spread(
            place.axes,
            frozenset(varying & axes),
            frozenset(unknown & axes),
            frozenset((varying | unknown) - axes),
        )

    # --- facts as bits --------------------------------------------------------------------------------------

    def _bits(self, names: Sequence[str]) -> int:
        found = 0
        for name in names:
            found |= self._bit.get(name, 0)
        return found

    def _both(self, mask: int) -> _Fact:
        """A mask of axes, for what may differ and for what is not known."""
        return mask | mask << self._count

    def _unknown(self, mask: int) -> _Fact:
        return mask << self._count

    def _axes_of(self, fact: _Fact) -> int:
        """The axes along which a fact does not say that the value is the same."""
        return (fact | fact >> self._count) & ((1 << self._count) - 1)

    def _of_one_mesh(self, mesh: Mesh) -> int:
        """The axes of a mesh that no other mesh of the program has as well."""
        return self._bits([name for name, _ in mesh.axes if len(self._meshes[name]) == 1])

    # --- bodies ---------------------------------------------------------------------------------------------

    def _frame(self, key: _Key) -> _Frame:
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = self._followed(key)
        return frame

    def _followed(self, key: _Key) -> _Frame:
        body = self._program.bodies[key.body]
        frame = _Frame([0] * len(body.types))
        facts = frame.facts
        for constant in body.constants:
            if constant.leaked:
                facts[constant.variable] = self._unknown(key.place.live)
        for variable, fact in zip(body.inputs, key.inputs, strict=True):
            facts[variable] = fact
        for position, equation in enumerate(body.equations):
            if not equation.calls:
                results = self._leaf(body, equation, facts, key.place)
            else:
                follow = _BY_PRIMITIVE.get(equation.primitive) or _BY_BOUNDARY.get(
                    equation.boundary, Flow._through_unknown
                )
                results = follow(self, _Step(body, position, equation, frame, key.place))
            for variable, fact in zip(equation.results, results, strict=True):
                facts[variable] = fact
        frame.outputs = tuple(_read(facts, atom) for atom in body.outputs)
        frame.refs = tuple(facts[variable] for variable in body.inputs)
        return frame

    def _leaf(self, body: Body, equation: Equation, facts: list[_Fact], place: _Place) -> Sequence[_Fact]:
        """The facts of the results of an equation without bodies; writes to references are noted."""
        operands = [_read(facts, atom) for atom in equation.operands]
        together = _join(operands)
        primitive, results = equation.primitive, len(equation.results)
        if primitive in _OUTSIDE_WORLD or not _QUIET_EFFECTS.issuperset(equation.effects):
            together |= self._unknown(place.live)
            made: Sequence[_Fact] = (together,) * results
        elif equation.axes or primitive in _ONE_TO_ONE:
            given = operands if len(operands) == results else [together] * results
            made = [self._exchanged(equation, fact, place) for fact in given]
        else:
            made = (together,) * results
        if primitive not in _READERS:
            for atom in equation.operands:
                if isinstance(atom, int) and body.types[atom].kind is Kind.REF:
                    facts[atom] |= together
        return made

    def _exchanged(self, equation: Equation, fact: _Fact, place: _Place) -> _Fact:
        """What a collective makes of a value."""
        axes, params = self._bits(equation.axes), dict(equation.params)
        effect = _COLLECTIVES.get(equation.primitive)
        if equation.primitive == "pbroadcast":  # up to 0.6 it changed the type alone
            effect = _Effect.EQUAL if "source" in params else _Effect.KEEP
        if effect is None:
            return fact | self._unknown(axes & place.live)
        if effect is _Effect.KEEP:
            return fact
        if effect is _Effect.DIFFER or "axis_index_groups" in params:  # each group has a result of its own
            return fact | axes & place.live
        return fact & ~self._both(axes & ~place.hidden)

    # --- equations that hold bodies -------------------------------------------------------------------------

    def _enter(self, step: _Step, call: int, inputs: Sequence[_Fact], place: _Place | None = None) -> _Frame:
        """Follows one of the bodies of an equation, and notes that it stands there."""
        held = step.equation.calls[call]
        key = _Key(held.body, tuple(inputs), step.place if place is None else place)
        frame = self._frame(key)
        step.frame.inner[step.position, call] = key
        return frame

    def _given(self, step: _Step, call: Call) -> list[_Fact]:
        """The facts of the inputs of a body by its wiring; what is not wired is not known."""
        operands = step.operands
        return [
            self._unwired(step, call, position) if operand is None else operands[operand]
            for position, operand in enumerate(call.inputs)
        ]

    def _unwired(self, step: _Step, call: Call, position: int) -> _Fact:
        """What is known of an input that no operand is known to feed: what JAX's types say, where they do."""
        body = self._program.bodies[call.body]
        kind = body.types[body.inputs[position]]
        if step.place.typed and kind.kind is Kind.ARRAY:
            return self._bits(kind.varying) & step.place.live
        return self._unknown(step.place.live)

    def _note_writes(self, step: _Step, call: Call, frame: _Frame, extra: _Fact = 0) -> None:
        """Hands what was written to references inside on to those outside."""
        for position, operand in enumerate(call.inputs):
            atom = None if operand is None else step.equation.operands[operand]
            if isinstance(atom, int) and step.body.types[atom].kind is Kind.REF:
                step.frame.facts[atom] |= frame.refs[position] | extra

    def _results(self, step: _Step, frames: Sequence[_Frame]) -> list[_Fact]:
        """The facts of an equation's results by its wiring; what is not wired is not known."""
        results: list[_Fact] = []
        for position in range(len(step.equation.results)):
            found = [
                frame.outputs[output]
                for call, frame in zip(step.equation.calls, frames, strict=True)
                if (output := call.outputs[position]) is not None
            ]
            results.append(_join(found) if found else self._not_known(step))
        return results

    def _not_known(self, step: _Step) -> _Fact:
        return _join(step.operands) | self._unknown(step.place.live)

    def _through(self, step: _Step) -> list[_Fact]:
        """Bodies that are run once, on what they are wired to."""
        frames = []
        for position, call in enumerate(step.equation.calls):
            frame = self._enter(step, position, self._given(step, call))
            self._note_writes(step, call, frame)
            frames.append(frame)
        return self._results(step, frames)

    def _through_unknown(self, step: _Step) -> list[_Fact]:
        """Bodies of which nobody knows what the equation does with them."""
        for position, call in enumerate(step.equation.calls):
            inputs = [self._unwired(step, call, place) for place in range(len(call.inputs))]
            self._enter(step, position, inputs)
        unknown = self._not_known(step)
        for atom in step.equation.operands:
            if isinstance(atom, int) and step.body.types[atom].kind is Kind.REF:
                step.frame.facts[atom] |= unknown
        return [unknown] * len(step.equation.results)

    def _through_elements(self, step: _Step) -> list[_Fact]:
        """A body that is run on elements of the operands and on what it made before, in an order of its own."""
        together = _join(step.operands)
        while True:
            frames = [
                self._enter(step, position, [together] * len(call.inputs))
                for position, call in enumerate(step.equation.calls)
            ]
            after = together | _join([fact for frame in frames for fact in (*frame.outputs, *frame.refs)])
            if after == together:
                break
            together = after
        for atom in step.equation.operands:
            if isinstance(atom, int) and step.body.types[atom].kind is Kind.REF:
                step.frame.facts[atom] |= together
        return [together] * len(step.equation.results)

    def _through_kernel(self, step: _Step) -> list[_Fact]:
        """A kernel: what it leaves in memory that it does not write is not known."""
        for position, call in enumerate(step.equation.calls):
            frame = self._enter(step, position, self._given(step, call))
            self._note_writes(step, call, frame, self._unknown(step.place.live))
        return [self._not_known(step)] * len(step.equation.results)

    def _through_branch(self, step: _Step) -> list[_Fact]:
        """One of several bodies runs: devices that choose another one get another result."""
        fed = {
            operand
            for call in step.equation.calls
            for operand, role in zip(call.inputs, call.roles, strict=True)
            if role is not Role.PREDICATE
        }
        choice = _join([fact for place, fact in enumerate(step.operands) if place not in fed])
        frames = []
        for position, call in enumerate(step.equation.calls):
            frame = self._enter(step, position, self._given(step, call))
            frames.append(frame)
        for call, frame in zip(step.equation.calls, frames, strict=True):
            self._note_writes(step, call, frame, choice)
        return [fact | choice for fact in self._results(step, frames)]

    def _through_scan(self, step: _Step) -> list[_Fact]:
        return self._looped(step, 0, lambda inputs: 0)

    def _through_while(self, step: _Step) -> list[_Fact]:
        """Devices whose condition differs run another number of steps."""
        labels = [call.label for call in step.equation.calls]
        condition, position = labels.index("cond"), labels.index("body")
        held, asked = step.equation.calls[condition], _carried(step.equation.calls[condition])
        carried = _carried(step.equation.calls[position])

        def trips(inputs: Sequence[_Fact]) -> _Fact:
            given = self._given(step, held)
            for outer, inner in zip(asked, carried, strict=True):
                given[outer] = inputs[inner]
            frame = self._enter(step, condition, given)
            self._note_writes(step, held, frame)
            return _join(frame.outputs)

        return self._looped(step, position, trips)

    def _looped(self, step: _Step, position: int, trips: Callable[[Sequence[_Fact]], _Fact]) -> list[_Fact]:
        """The results of a loop: its body is followed until what it carries does not change any more.

        Args:
            step: the loop.
            position: which of its bodies is run in each step; what it carries stands first in what it returns.
            trips: from the facts of that body's inputs to whether the number of steps differs.
        """
        call = step.equation.calls[position]
        body, carried = self._program.bodies[call.body], _carried(call)
        refs = [place for place, variable in enumerate(body.inputs) if body.types[variable].kind is Kind.REF]
        inputs = self._given(step, call)
        rounds = 0
        while True:
            rounds += 1
            count = trips(inputs)
            frame = self._enter(step, position, inputs)
            after = list(inputs)
            for output, place in enumerate(carried):
                after[place] |= frame.outputs[output] | count
            for place in refs:
                after[place] |= frame.refs[place] | count
            if rounds > _MOST_ROUNDS:
                for place in carried:
                    after[place] |= _join(after)
            if after == inputs:
                break
            inputs = after
        self._note_writes(step, call, frame, count)
        of_output = dict(enumerate(frame.outputs)) | {
            output: inputs[place] for output, place in enumerate(carried)
        }
        return [self._not_known(step) if output is None else of_output[output] for output in call.outputs]

    def _through_solve(self, step: _Step) -> list[_Fact]:
        """A linear solve: what its bodies hand to each other is made of its operands and of their results."""
        within = _join(step.operands)
        while True:
            frames = [
                self._enter(
                    step,
                    position,
                    [within if operand is None else step.operands[operand] for operand in call.inputs],
                )
                for position, call in enumerate(step.equation.calls)
            ]
            after = within | _join([fact for frame in frames for fact in frame.outputs])
            if after == within:
                return [within] * len(step.equation.results)
            within = after

    def _through_state(self, step: _Step) -> list[_Fact]:
        """A `run_state`: its results are what its references hold afterwards."""
        (call,) = step.equation.calls
        frame = self._enter(step, 0, self._given(step, call))
        self._note_writes(step, call, frame)
        if len(frame.refs) != len(step.equation.results):
            return [_join(frame.refs) | self._not_known(step)] * len(step.equation.results)
        return list(frame.refs)

    # --- device scopes --------------------------------------------------------------------------------------

    def _through_device(self, step: _Step) -> list[_Fact]:
        """A device scope: what its specs split may differ inside, and is one value again outside."""
        equation, (call,) = step.equation, step.equation.calls
        assert equation.device is not None
        border = _Border(self, equation.device, step.place, self._is_typed(step, call))
        operands = step.operands
        inputs = []
        for position, operand in enumerate(call.inputs):
            if operand is None:
                inputs.append(self._unwired(replace(step, place=border.inside), call, position))
            else:
                inputs.append(border.entering(operands[operand], equation.device.in_specs[operand]))
        frame = self._enter(step, 0, inputs, border.inside)
        for position, operand in enumerate(call.inputs):
            atom = None if operand is None else equation.operands[operand]
            if isinstance(atom, int) and operand is not None and step.body.types[atom].kind is Kind.REF:
                written = border.leaving(frame.refs[position], equation.device.in_specs[operand])
                step.frame.facts[atom] |= written
        return [
            border.leaving(
                self._unknown(border.inside.live) if output is None else frame.outputs[output], spec
            )
            for output, spec in zip(call.outputs, equation.device.out_specs, strict=True)
        ]

    def _is_typed(self, step: _Step, call: Call) -> bool:
        """Whether JAX's types tell inside a device scope what varies: they must for what its specs split."""
        device, body = step.equation.device, self._program.bodies[call.body]
        if device is None or not device.checked or (step.place.axes and not step.place.typed):
            return False
        return any(body.types[variable].varying for variable in body.inputs)


class _Border:
    """What crossing the border of a device scope does to what is known of a value."""

    def __init__(self, flow: Flow, device: DeviceScope, outside: _Place, typed: bool) -> None:
        self._flow = flow
        self._device = device
        self._outer = flow._bits(outside.axes)
        self._manual = flow._bits(device.manual)
        sizes = dict(device.mesh.axes)
        self._live = flow._bits([name for name in device.manual if sizes[name] > 1])
        axes = (*outside.axes, *(name for name in device.manual if name not in outside.axes))
        hidden = outside.hidden | self._manual & self._outer
        self.inside = _Place(axes, outside.live | self._live, hidden, typed)

    def entering(self, fact: _Fact, spec: Spec | None) -> _Fact:
        """From the fact of an operand to that of the body's input.

        Copies that may differ already, since an unchecked scope made them, differ inside as well.  On another
        mesh it is not known where they lie.
        """
        flow = self._flow
        split = flow._unknown(self._live) if spec is None else self._split(spec) & self._live
        unequal = flow._axes_of(fact) & ~self._outer
        strange = unequal & ~flow._of_one_mesh(self._device.mesh)
        return fact | split | (flow._unknown(self._live) if strange else 0)

    def leaving(self, fact: _Fact, spec: Spec | None) -> _Fact:
        """From the fact of an output of the body to that of the result: parts are put together again."""
        split = 0 if spec is None else self._split(spec)
        unspecified = self._flow._unknown(self._live & ~self._outer) if spec is None else 0
        return fact & ~self._flow._both(split & self._manual & ~self._outer) | unspecified

    def _split(self, spec: Spec) -> int:
        return self._flow._bits([name for names in spec for name in names])


@dataclass(frozen=True, slots=True)
class _Step:
    """An equation that holds bodies, on the way through the body that it stands in."""

    body: Body
    position: int
    equation: Equation
    frame: _Frame
    place: _Place

    @property
    def operands(self) -> list[_Fact]:
        """The facts of its operands, as they are now."""
        return [_read(self.frame.facts, atom) for atom in self.equation.operands]


_Follow = Callable[[Flow, _Step], list[_Fact]]

_BY_PRIMITIVE: dict[str, _Follow] = {
    "scan": Flow._through_scan,
    "while": Flow._through_while,
    "custom_linear_solve": Flow._through_solve,
    "run_state": Flow._through_state,
}

_BY_BOUNDARY: dict[Boundary | None, _Follow] = {
    Boundary.CALL: Flow._through,
    Boundary.DIFFERENTIATION: Flow._through,
    Boundary.NAME: Flow._through,
    Boundary.LOOP: Flow._through_elements,
    Boundary.BRANCH: Flow._through_branch,
    Boundary.DEVICE: Flow._through_device,
    Boundary.KERNEL: Flow._through_kernel,
}


def flow(program: Program) -> Flow:
    """Follows the values of a program through its device scopes.

    Args:
        program: with or without its pmaps folded.

    Returns:
        What `Flow.of` tells of each scope.  The time is linear in the number of equations of the distinct
        bodies, times the number of different facts with which each is entered.
    """
    return Flow(program)


def _carried(call: Call) -> list[int]:
    """The positions of the inputs that a loop hands on from step to step."""
    return [place for place, role in enumerate(call.roles) if role is Role.CARRY]


def _read(facts: Sequence[_Fact], atom: Atom) -> _Fact:
    return facts[atom] if isinstance(atom, int) else 0


def _join(facts: Sequence[_Fact]) -> _Fact:
    found = 0
    for fact in facts:
        found |= fact
    return found
