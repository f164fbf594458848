"""Draws programs of the language, with Hypothesis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from random_programs.language import (
    Assign,
    Expression,
    Function,
    Generated,
    MeshText,
    Parameter,
    Shape,
    Sort,
    Spec,
    Statement,
    Style,
    Value,
    callable_text,
)

_LARGEST = 512
"""Elements of the largest array."""

_NAMES = ("w", "x", "y", "h", "bias", "scale", "table", "state")

_UNARY = (
    "jnp.sin({0})",
    "jnp.tanh({0})",
    "-{0}",
    "{0} * 0.5",
    "1.0 - {0}",
    "jax.nn.sigmoid({0})",
    "jnp.abs({0})",
)
_BINARY = ("{0} + {1}", "{0} * {1}", "{0} - {1}", "jnp.maximum({0}, {1})", "jnp.where({0} > {1}, {0}, {1})")
_REDUCTION = ("jnp.sum({0}, axis={axis})", "jnp.max({0}, axis={axis})", "jnp.mean({0}, axis={axis})")

_ANYWHERE = frozenset({Style.DEF, Style.LAMBDA, Style.METHOD, Style.PARTIAL, Style.DEFAULT})
_DEF = frozenset({Style.DEF})


@dataclass
class _Frame:
    """A function that is being written.

    Attributes:
        parent: the function around it.
        own: what it binds, by name.
        outside: the names that it, or a function in it, takes from outside.
        statements: its lines so far.
        axes: the mesh axes over which it runs once a device, with their sizes.
        checked: whether the device scope around it checks what varies.
        mapped: whether it stands in a pmap.
        reverse: whether it is differentiated backwards.
        derived: whether it is differentiated.
        mesh: the mesh of the device scope around it, when some axes of it are left.
        plain: whether a pmap may stand in it.
    """

    parent: _Frame | None = None
    own: dict[str, Value] = field(default_factory=dict)
    outside: set[str] = field(default_factory=set)
    statements: list[Statement] = field(default_factory=list)
    axes: dict[str, int] = field(default_factory=dict)
    checked: bool = False
    mapped: bool = False
    reverse: bool = False
    derived: bool = False
    mesh: MeshText | None = None
    plain: bool = True

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1

    def visible(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        if self.parent is not None:
            found.update(self.parent.visible())
        hidden = {value.root for value in self.own.values()}
        found = {name: value for name, value in found.items() if value.root not in hidden}
        found.update(self.own)
        return found


class _Writer:
    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw
        self._number = 0
        self._functions = 0
        self.pieces: list[str] = []
        self.budget = 0
        self.meshes: tuple[MeshText, ...] = ()
        self.devices = 1

    # --- choices --------------------------------------------------------------------------------------------

    def one(self, options: Sequence[Any]) -> Any:
        return options[0] if len(options) == 1 else self._draw(st.sampled_from(list(options)))

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def chance(self, percent: int) -> bool:
        return self._draw(st.integers(0, 99)) >= 100 - percent

    # --- variables ------------------------------------------------------------------------------------------

    def fresh(self, frame: _Frame, stem: str | None = None) -> str:
        """A name for a new variable; now and then one that hides another outside."""
        taken = {value.root for value in frame.own.values()} | frame.outside
        stem = stem or self.one(_NAMES)
        if frame.parent is not None and self.chance(4):
            hidden = [
                value.root
                for value in frame.parent.visible().values()
                if value.root not in taken and value.name == value.root and not value.root.startswith("of_")
            ]
            if hidden:
                self.pieces.append("shadowed name")
                return self.one(hidden)
        return f"{stem}{self.next()}"

    def next(self) -> int:
        self._number += 1
        return self._number

    def value(self, name: str, shape: Shape, **more: Any) -> Value:
        return Value(self.next(), name, shape, **more)

    def read(self, frame: _Frame, value: Value) -> Value:
        """Notes in each function on the way that it takes the variable from outside."""
        here: _Frame | None = frame
        while here is not None and here.own.get(value.name) != value:
            here.outside.add(value.root)
            here = here.parent
        return value

    def bind(self, frame: _Frame, value: Value) -> Value:
        frame.own[value.name] = value
        return value

    def pick(
        self, frame: _Frame, shape: Shape | None = None, sorts: Sequence[Sort] = (Sort.TRACED,)
    ) -> Value | None:
        """A variable that can be read: rather one of the function's own, and rather a late one."""
        values = [
            value
            for value in frame.visible().values()
            if value.sort in sorts and not value.whole and (shape is None or value.shape == shape)
        ]
        if not values:
            return None
        own = [value for value in values if value in frame.own.values()]
        outer = [value for value in values if value not in frame.own.values()]
        group = own if own and (not outer or self.chance(55)) else outer
        return self.read(frame, self.one(list(reversed(group))))

    def traced(self, frame: _Frame) -> Value:
        value = self.pick(frame)
        assert value is not None
        return value

    def second(self, frame: _Frame) -> Value:
        """A second operand: of any sort."""
        sorts = self.one([(Sort.TRACED,), (Sort.TRACED,), (Sort.TRACED,), (Sort.BAKED,), (Sort.NUMBER,)])
        whole = [value for value in frame.own.values() if value.whole]
        if whole and self.chance(30):
            return self.read(frame, whole[0])
        return self.pick(frame, sorts=sorts) or self.traced(frame)

    # --- expressions ----------------------------------------------------------------------------------------

    def line(
        self,
        frame: _Frame,
        form: str,
        reads: Sequence[Value],
        shape: Shape,
        varying: frozenset[str] | None = None,
    ) -> Value:
        """Writes `new = form`."""
        joined = frozenset().union(*(value.varying for value in reads)) if varying is None else varying
        target = self.value(self.fresh(frame), shape, varying=joined)
        frame.statements.append(Assign((target,), Expression(form, tuple(reads))))
        return self.bind(frame, target)

    def combined(self, one: Value, two: Value) -> tuple[str, Shape]:
        """The form of something made of two variables, and its shape."""
        if one.shape == two.shape or not two.shape:
            return self.one(_BINARY), one.shape
        if not one.shape:
            return self.one(_BINARY), two.shape
        if (
            len(one.shape) == 2
            and len(two.shape) in (1, 2)
            and one.shape[1] == two.shape[0]
            and self.chance(70)
        ):
            return "jnp.tanh({0} @ {1})", (one.shape[0], *two.shape[1:])
        return "{0} * jnp.mean({1})", one.shape

    def ending(self, frame: _Frame, shape: Shape) -> Expression:
        """An expression of a shape that reads a variable of that shape where there is one."""
        one = self.pick(frame, shape) or self.traced(frame)
        two = self.second(frame)
        if one.shape != shape:
            body = "jnp.mean({0})" if one.shape else "{0}"
            form = f"jnp.broadcast_to({body}, {shape}) + 1.0" if shape else f"{body} * 2.0"
            return Expression(form, (one,))
        form, made = self.combined(one, two)
        if made != shape:
            return Expression("jnp.sin({0})", (one,))
        return Expression(form, (one, two))

    def simple(self, frame: _Frame) -> None:
        """One line without functions."""
        one = self.traced(frame)
        kind = self.integer(0, 9)
        if kind <= 3:
            two = self.second(frame)
            form, shape = self.combined(one, two)
            self.pieces.append("matmul" if "@" in form else "elementwise")
            self.line(frame, form, (one, two), shape)
        elif kind <= 5 or not one.shape:
            self.pieces.append("elementwise")
            self.line(frame, self.one(_UNARY), (one,), one.shape)
        elif kind == 6:
            axis = self.integer(0, len(one.shape) - 1)
            self.pieces.append("reduction")
            form = self.one(_REDUCTION).replace("{axis}", str(axis))
            self.line(frame, form, (one,), (*one.shape[:axis], *one.shape[axis + 1 :]))
        elif kind == 7 and math.prod(one.shape) * 2 <= _LARGEST:
            self.pieces.append("broadcast")
            self.line(frame, f"jnp.broadcast_to({{0}}, {(2, *one.shape)})", (one,), (2, *one.shape))
        elif kind == 8 and len(one.shape) > 1:
            self.pieces.append("transpose")
            self.line(frame, "jnp.transpose({0})", (one,), one.shape[::-1])
        elif len(one.shape) > 1:
            self.pieces.append("reshape")
            self.line(frame, "jnp.reshape({0}, (-1,))", (one,), (math.prod(one.shape),))
        else:
            self.pieces.append("elementwise")
            self.line(frame, "jnp.cos({0})", (one,), one.shape)

    # --- functions ------------------------------------------------------------------------------------------

    def function(
        self,
        frame: _Frame,
        stem: str,
        shapes: Sequence[Shape],
        finish: Callable[[_Frame, tuple[Value, ...]], tuple[Expression, tuple[Value, ...]]],
        *,
        border: str | None,
        styles: frozenset[Style] = _ANYWHERE,
        varying: Sequence[frozenset[str]] | None = None,
        trees: Sequence[tuple[str, ...]] = (),
        whole_first: bool = False,
        nothing_last: bool = False,
        inside: dict[str, Any] | None = None,
        **more: Any,
    ) -> tuple[Function, tuple[Value, ...]]:
        """Writes a function of arguments of these shapes.

        Args:
            frame: the function that it is defined in.
            stem: the beginning of its name.
            shapes: of its arguments.
            finish: from the function's own frame and arguments to its result.
            border: the primitive that holds it.
            styles: how it may be written.
            varying: along which axes its arguments may differ.
            trees: for its first arguments the keys of the dict that they are; empty for an array.
            whole_first: whether its first argument is a whole number.
            nothing_last: whether it has one more argument, which is None.
            inside: what is otherwise in its frame than in the one around.
            more: fields of `Function`.

        Returns:
            The function, and what `finish` tells of the results.
        """
        self._functions += 1
        name = f"{stem}{self._functions}"
        derived = bool(more.pop("derived", False)) or frame.derived
        fields = {
            "axes": frame.axes,
            "checked": frame.checked,
            "mapped": frame.mapped,
            "reverse": frame.reverse,
        }
        fields |= {"mesh": frame.mesh, "plain": frame.plain, "derived": derived, **(inside or {})}
        own = _Frame(parent=frame, **fields)
        varying = varying or [frozenset()] * len(shapes)
        parameters = []
        for position, (shape, differs) in enumerate(zip(shapes, varying, strict=True)):
            argument = self.fresh(own)
            keys = trees[position] if position < len(trees) else ()
            whole = whole_first and position == 0
            if not keys:
                leaves = (self.value(argument, shape, varying=differs, whole=whole),)
            else:
                self.pieces.append("pytree")
                leaves = tuple(self.value(f"{argument}['{key}']", shape, varying=differs) for key in keys)
            for leaf in leaves:
                self.bind(own, leaf)
            parameters.append(Parameter(argument, leaves))
        if nothing_last:
            parameters.append(Parameter(f"none{self.next()}", ()))
        style = self.one(sorted(styles, key=lambda style: style.value)) if self.chance(40) else Style.DEF
        if style not in styles:
            style = Style.DEF
        bound = []
        if style in (Style.METHOD, Style.PARTIAL, Style.DEFAULT):
            for _ in range(self.integer(1, 2)):
                outside = self.traced(frame)
                if outside in [other for _, other in bound]:
                    continue
                stem_ = self.one(_NAMES)
                inner = f"self.{stem_}{self.next()}" if style is Style.METHOD else self.fresh(own)
                if inner == outside.root or inner in own.own:
                    inner = f"{stem_}{self.next()}"
                bound.append((replace(outside, number=self.next(), name=inner), outside))
                self.bind(own, bound[-1][0])
        own_leaves = tuple(leaf for parameter in parameters for leaf in parameter.leaves)
        if style is not Style.LAMBDA:
            if border in ("shard_map", "pmap"):
                for _ in range(self.integer(0, 2) if own.axes else 0):
                    self.collective(own)
            self.body(own)
        result, told = finish(own, own_leaves)
        if own.statements and style is Style.LAMBDA:
            style = Style.DEF
        self.pieces.append(f"{style.name.lower()} function")
        written = Function(
            name,
            tuple(parameters),
            tuple(own.statements),
            result,
            border,
            style,
            tuple(bound),
            derived=derived,
            **more,
        )
        frame.statements.append(written)
        return written, told

    def body(self, frame: _Frame) -> None:
        """Some lines and pieces."""
        for _ in range(self.integer(0, 2)):
            self.simple(frame)
        while self.budget > 0 and frame.depth < 5 and self.chance(70 if frame.depth < 2 else 45):
            self.budget -= 1
            self.piece(frame)
            if self.chance(30):
                self.simple(frame)

    def result_of(
        self, shape: Shape | None = None, count: int = 1
    ) -> Callable[..., tuple[Expression, tuple[Value, ...]]]:
        """Ends a function with results of a shape, or of any."""

        def finish(frame: _Frame, own: tuple[Value, ...]) -> tuple[Expression, tuple[Value, ...]]:
            del own
            texts, reads, told = [], [], []
            for _ in range(count):
                wanted = self.traced(frame).shape if shape is None else shape
                ended = self.ending(frame, wanted)
                texts.append(self.shifted(ended.form, len(reads)))
                reads += ended.reads
                told.append(Value(0, "", wanted, varying=_joined(ended.reads)))
            form = texts[0] if count == 1 else f"({', '.join(texts)})"
            return Expression(form, tuple(reads)), tuple(told)

        return finish

    @staticmethod
    def shifted(form: str, by: int) -> str:
        """A form whose places count from another number on."""
        return form.replace("{1}", f"{{{by + 1}}}").replace("{0}", f"{{{by}}}") if by else form

    # --- pieces ---------------------------------------------------------------------------------------------

    def piece(self, frame: _Frame) -> None:
        kinds: list[Callable[[_Frame], None]] = [
            self.jit, self.jit, self.scan, self.scan, self.cond, self.switch, self.fori, self.vmap, self.grad,
            self.checkpoint, self.custom_jvp, self.custom_vjp, self.jvp, self.vjp, self.plain,
        ]  # fmt: skip
        if not frame.reverse:
            kinds += [self.fori_dynamic, self.while_loop, self.linearize]
        if frame.axes:
            kinds += [self.collective] * 8
        elif self.meshes:
            kinds += [self.shard_map] * 6
        if frame.plain and not frame.axes and self.devices > 1:
            kinds += [self.pmap] * 4
        if frame.mesh is not None and not frame.mapped:
            kinds += [self.inner_shard_map] * 4
        self.one(kinds)(frame)

    def assigned(
        self,
        frame: _Frame,
        form: str,
        reads: Sequence[Value],
        told: Sequence[Value],
        same: Sequence[tuple[int, Value]] = (),
        pattern: str = "",
    ) -> tuple[Value, ...]:
        """Writes `a, b = form` and binds the results."""
        targets = tuple(self.value(self.fresh(frame), value.shape, varying=value.varying) for value in told)
        if len({target.name for target in targets}) < len(targets):
            targets = tuple(replace(target, name=f"out{target.number}") for target in targets)
        pairs = tuple((targets[position], value) for position, value in same)
        frame.statements.append(
            Assign(
                targets,
                Expression(form, tuple(reads)),
                pairs,
                pattern.format(*(target.name for target in targets)),
            )
        )
        for target in targets:
            self.bind(frame, target)
        return targets

    def some(self, frame: _Frame, low: int = 1, high: int = 2) -> tuple[Value, ...]:
        return tuple(self.traced(frame) for _ in range(self.integer(low, high)))

    def plain(self, frame: _Frame) -> None:
        """A function that is called as it is."""
        given = self.some(frame)
        written, told = self.function(
            frame,
            "part",
            [value.shape for value in given],
            self.result_of(),
            border=None,
            varying=[value.varying for value in given],
        )
        written = self.rewritten(frame, written, passed=_passed(written, given, [True] * len(given)))
        self.pieces.append("plain call")
        self.assigned(frame, f"{callable_text(written)}({_places(len(given))})", given, told)

    def rewritten(self, frame: _Frame, function: Function, **changes: Any) -> Function:
        changed = replace(function, **changes)
        frame.statements[frame.statements.index(function)] = changed
        return changed

    def jit(self, frame: _Frame) -> None:
        given = self.some(frame, 0, 3)
        trees: list[tuple[str, ...]] = [()] * len(given)
        values, texts = [], []
        for position, value in enumerate(given):
            if self.chance(15):
                keys = ("a", "b")[: self.integer(1, 2)]
                trees[position] = keys
                texts.append(
                    "⟨" + ", ".join(f"'{key}': {{{len(values) + k}}}" for k, key in enumerate(keys)) + "⟩"
                )
                values += [value] * len(keys)
            else:
                texts.append(f"{{{len(values)}}}")
                values.append(value)
        written, told = self.function(
            frame,
            "step",
            [value.shape for value in given],
            self.result_of(count=self.integer(1, 2)),
            border="jit",
            trees=trees,
            varying=[value.varying for value in given],
        )
        self.pieces.append("jit")
        call = callable_text(written)
        if self.chance(60) or written.style is not Style.DEF:
            call = f"jax.jit({call})"
        else:
            self.rewritten(frame, written, decorators=("@jax.jit",))
        for _ in range(self.one([1, 1, 1, 2, 3])):
            self.assigned(frame, f"{call}({', '.join(texts)})", values, told)

    def carried(self, frame: _Frame) -> tuple[Value, str]:
        """What a loop begins with."""
        value = self.traced(frame)
        if frame.checked:
            return replace(value, varying=frozenset(frame.axes)), f"vary({{0}}, {tuple(frame.axes)})"
        return value, "{0}"

    def carry_on(self, count: int, own: tuple[Value, ...], frame: _Frame) -> list[Expression]:
        """What a step hands on: each made of what it was given, or that itself."""
        found = []
        for position in range(count):
            if count > 1 and position == count - 1 and self.chance(45):
                self.pieces.append("carry handed through")
                found.append(Expression("{0}", (own[position],)))
                continue
            second = self.second(frame)
            form, shape = self.combined(own[position], second)
            if shape != own[position].shape:
                form = "{0} * jnp.mean({1})"
            found.append(Expression(form, (self.read(frame, own[position]), second)))
        return found

    def joined(self, expressions: Sequence[Expression]) -> tuple[list[str], list[Value]]:
        texts, reads = [], []
        for expression in expressions:
            texts.append(self.shifted(expression.form, len(reads)))
            reads += expression.reads
        return texts, reads

    def scan(self, frame: _Frame) -> None:
        count = self.one([1, 1, 2])
        begins = [self.carried(frame) for _ in range(count)]
        sliced = self.pick(frame)
        xs = (
            sliced
            if sliced is not None and sliced.shape and sliced.shape[0] > 0 and self.chance(70)
            else None
        )
        length = xs.shape[0] if xs is not None else 3
        through = False

        def finish(own: _Frame, leaves: tuple[Value, ...]) -> tuple[Expression, tuple[Value, ...]]:
            nonlocal through
            made = self.carry_on(count, leaves, own)
            through = made[-1].form == "{0}"
            texts, reads = self.joined(made)
            out = self.ending(own, self.traced(own).shape) if self.chance(60) else None
            carry = texts[0] if count == 1 else f"({', '.join(texts)})"
            told = [replace(value, shape=value.shape) for value, _ in begins]
            if out is None:
                return Expression(f"{carry}, None", tuple(reads)), tuple(told)
            shape = _shape_of(out, own)
            if shape is None or math.prod(shape) * length > _LARGEST:
                return Expression(f"{carry}, None", tuple(reads)), tuple(told)
            text = self.shifted(out.form, len(reads))
            told.append(Value(0, "", (length, *shape), varying=_joined((*reads, *out.reads))))
            return Expression(f"{carry}, {text}", (*reads, *out.reads)), tuple(told)

        # A carry of several is one argument: a tuple that is taken apart by its places.
        shapes = [value.shape for value, _ in begins] + ([xs.shape[1:]] if xs is not None else [])
        varying = [value.varying for value, _ in begins] + ([xs.varying] if xs is not None else [])
        if count == 1:
            written, told = self.function(
                frame, "step", shapes, finish, border="scan", varying=varying, nothing_last=xs is None
            )
        else:
            written, told = self.tuple_function(frame, shapes, varying, count, xs is None, finish)
        reads = [value for value, _ in begins]
        originals = [self.original(frame, value) for value in reads]
        texts = [text.replace("{0}", f"{{{k}}}") for k, (_, text) in enumerate(begins)]
        init = texts[0] if count == 1 else f"({', '.join(texts)})"
        rest = "None, length=3" if xs is None else f"{{{count}}}"
        every = [*originals, *([xs] if xs is not None else [])]
        pattern = ", ".join(f"{{{k}}}" for k in range(count))
        pattern = f"({pattern}), " if count > 1 else f"{pattern}, "
        pattern += f"{{{count}}}" if len(told) > count else "_"
        same = [(count - 1, originals[-1])] if through and count > 1 and not frame.checked else []
        self.pieces.append("scan")
        self.assigned(
            frame, f"lax.scan({callable_text(written)}, {init}, {rest})", every, told, same, pattern
        )

    def original(self, frame: _Frame, value: Value) -> Value:
        """The variable as it is bound, whatever its type was changed to on the way."""
        return frame.visible()[value.name]

    def tuple_function(
        self,
        frame: _Frame,
        shapes: Sequence[Shape],
        varying: Sequence[frozenset[str]],
        count: int,
        alone: bool,
        finish: Any,
    ) -> tuple[Function, tuple[Value, ...]]:
        """A step whose carry is a tuple: `step(carry, x)`, with `carry[0]`, `carry[1]`."""
        self._functions += 1
        name = f"step{self._functions}"
        own = _Frame(
            parent=frame,
            axes=frame.axes,
            checked=frame.checked,
            mapped=frame.mapped,
            reverse=frame.reverse,
            derived=frame.derived,
            mesh=frame.mesh,
            plain=frame.plain,
        )
        carry, x = f"carry{self.next()}", f"x{self.next()}"
        leaves = tuple(
            self.bind(own, self.value(f"{carry}[{k}]", shapes[k], varying=varying[k])) for k in range(count)
        )
        last = () if alone else (self.bind(own, self.value(x, shapes[count], varying=varying[count])),)
        self.pieces.append("tuple carry")
        self.body(own)
        result, told = finish(own, (*leaves, *last))
        written = Function(
            name,
            (Parameter(carry, leaves), Parameter(x, last)),
            tuple(own.statements),
            result,
            "scan",
            derived=frame.derived,
        )
        frame.statements.append(written)
        return written, told

    def fori(self, frame: _Frame) -> None:
        self.fori_of(frame, "3", ())
        self.pieces.append("fori_loop static")

    def fori_dynamic(self, frame: _Frame) -> None:
        bound = self.traced(frame)
        mean = "jnp.mean({1})" if bound.shape else "{1}"
        self.fori_of(frame, f"({mean} > 0.0).astype(int) + 2", (bound,))
        self.pieces.append("fori_loop dynamic")

    def fori_of(self, frame: _Frame, stop: str, more: tuple[Value, ...]) -> None:
        begin, text = self.carried(frame)

        def finish(own: _Frame, leaves: tuple[Value, ...]) -> tuple[Expression, tuple[Value, ...]]:
            (made,) = self.carry_on(1, leaves[1:], own)
            return made, (begin,)

        written, told = self.function(
            frame,
            "step",
            [(), begin.shape],
            finish,
            border="fori",
            whole_first=True,
            varying=[frozenset(), begin.varying],
        )
        form = f"lax.fori_loop(0, {stop}, {callable_text(written)}, {text})"
        self.assigned(frame, form, (self.original(frame, begin), *more), told)

    def while_loop(self, frame: _Frame) -> None:
        begin, text = self.carried(frame)
        self._functions += 1
        number = self._functions
        own = _Frame(parent=frame, axes=frame.axes, checked=frame.checked, derived=frame.derived, plain=False)
        state = self.bind(own, self.value(f"state{self.next()}", begin.shape, varying=begin.varying))
        count = self.value(f"count{self.next()}", (), whole=True)
        outer = self.pick(frame)
        reads: tuple[Value, ...] = (count,)
        form = "{0} < 3"
        if outer is not None and self.chance(70):
            self.read(own, outer)
            mean = "jnp.mean({1})" if outer.shape else "{1}"
            form, reads = f"({{0}} < 3) & ({mean} < 100.0)", (count, outer)
            if frame.checked or frame.axes:  # each device decides alone: no axis is crossed here
                form, reads = "{0} < 3", (count,)
        test = Function(
            f"test{number}",
            (
                Parameter(
                    f"pair{number}",
                    (replace(count, name=f"pair{number}[0]"), replace(state, name=f"pair{number}[1]")),
                ),
            ),
            (),
            Expression(form, (replace(count, name=f"pair{number}[0]"), *reads[1:])),
            "while",
            derived=frame.derived,
        )
        frame.statements.append(test)
        pair = f"pair{self.next()}"
        body = _Frame(
            parent=frame,
            axes=frame.axes,
            checked=frame.checked,
            derived=frame.derived,
            mesh=frame.mesh,
            reverse=frame.reverse,
            mapped=frame.mapped,
            plain=frame.plain,
        )
        first = self.bind(body, self.value(f"{pair}[0]", (), whole=True))
        second = self.bind(body, self.value(f"{pair}[1]", begin.shape, varying=begin.varying))
        self.body(body)
        (made,) = self.carry_on(1, (second,), body)
        texts, values = self.joined([Expression("{0} + 1", (first,)), made])
        step = Function(
            f"step{number}",
            (Parameter(pair, (first, second)),),
            tuple(body.statements),
            Expression(f"({', '.join(texts)})", tuple(values)),
            "while",
            derived=frame.derived,
        )
        frame.statements.append(step)
        self.pieces.append("while_loop")
        begin_text = text
        self.assigned(
            frame,
            f"lax.while_loop({test.name}, {step.name}, (0, {begin_text}))[1]",
            (self.original(frame, begin),),
            (begin,),
        )

    def branches(self, frame: _Frame, count: int) -> None:
        given = self.some(frame, 0, 2)
        shape = self.traced(frame).shape
        # Devices that choose another branch must not wait for each other in it.
        alone = {"axes": {}} if frame.axes else {}

        def finish(own: _Frame, leaves: tuple[Value, ...]) -> tuple[Expression, tuple[Value, ...]]:
            del leaves
            ended = self.ending(own, shape)
            if frame.checked:
                ended = Expression(f"vary({ended.form}, {tuple(frame.axes)})", ended.reads)
            return ended, (Value(0, "", shape, varying=_joined(ended.reads)),)

        written, told = [], []
        for position in range(count):
            function, results = self.function(
                frame,
                ("no", "yes", "other")[position],
                [value.shape for value in given],
                finish,
                border="cond",
                varying=[value.varying for value in given],
                inside=alone | {"mesh": None},
            )
            # JAX keeps no names of a branch's arguments: there they go by the names of what is given.
            written.append(
                self.rewritten(frame, function, passed=_passed(function, given, [False] * len(given)))
            )
            told += results
        choice = self.traced(frame)
        mean = "jnp.mean({0})" if choice.shape else "{0}"
        names = ", ".join(callable_text(function) for function in written)
        places = _places(len(given), 1)
        form = (
            f"lax.cond({mean} > 0.0, {names}{', ' if given else ''}{places})"
            if count == 2
            else f"lax.switch(({mean} * 3.0).astype(int), [{names}]{', ' if given else ''}{places})"
        )
        everything = frozenset(frame.axes) if frame.checked else frozenset[str]()
        result = Value(0, "", shape, varying=_joined(told) | choice.varying | everything)
        self.assigned(frame, form, (choice, *given), (result,))

    def cond(self, frame: _Frame) -> None:
        self.branches(frame, 2)
        self.pieces.append("cond")

    def switch(self, frame: _Frame) -> None:
        self.branches(frame, 3)
        self.pieces.append("switch")

    def vmap(self, frame: _Frame) -> None:
        given = [value for value in self.some(frame, 1, 2) if value.shape]
        if not given:
            self.simple(frame)
            return
        size = given[0].shape[0]
        axes: list[int | None] = [
            0 if value.shape[0] == size and (k == 0 or self.chance(60)) else None
            for k, value in enumerate(given)
        ]
        shapes = [
            value.shape if axis is None else value.shape[1:] for value, axis in zip(given, axes, strict=True)
        ]
        written, told = self.function(
            frame,
            "each",
            shapes,
            self.result_of(),
            border=None,
            varying=[value.varying for value in given],
            inside={"plain": False, "mesh": None},
        )
        self.rewritten(frame, written, passed=_passed(written, given, [axis is None for axis in axes]))
        results = [replace(value, shape=(size, *value.shape)) for value in told]
        if any(math.prod(value.shape) > 4 * _LARGEST for value in results):
            frame.statements.pop()
            return
        self.pieces.append("vmap")
        form = f"jax.vmap({callable_text(written)}, in_axes={_tuple(axes)})({_places(len(given))})"
        self.assigned(frame, form, given, results)

    def differentiated(
        self, frame: _Frame, given: Sequence[Value], scalar: bool, reverse: bool
    ) -> tuple[Function, tuple[Value, ...]]:
        written, told = self.function(
            frame,
            "loss" if scalar else "curve",
            [value.shape for value in given],
            self.result_of(()) if scalar else self.result_of(),
            border=None,
            derived=True,
            varying=[value.varying for value in given],
            inside={"reverse": reverse or frame.reverse, "plain": False, "mesh": None},
        )
        # Of several arguments the first is the one to be differentiated.
        written = self.rewritten(
            frame, written, passed=_passed(written, given, [k > 0 for k in range(len(given))])
        )
        return written, told

    def grad(self, frame: _Frame) -> None:
        given = self.some(frame)
        written, told = self.differentiated(frame, given, scalar=True, reverse=True)
        call, places = callable_text(written), _places(len(given))
        result = replace(given[0], varying=given[0].varying)
        if self.chance(50):
            self.pieces.append("grad")
            self.assigned(frame, f"jax.grad({call})({places})", given, (result,))
        else:
            self.pieces.append("value_and_grad")
            self.assigned(frame, f"jax.value_and_grad({call})({places})", given, (*told, result))

    def jvp(self, frame: _Frame) -> None:
        one = self.traced(frame)
        written, told = self.differentiated(frame, (one,), scalar=False, reverse=False)
        self.pieces.append("jvp")
        form = f"jax.jvp({callable_text(written)}, ({{0}},), (jnp.cos({{0}}),))"
        self.assigned(frame, form, (one,), (*told, *told))

    def linearize(self, frame: _Frame) -> None:
        one = self.traced(frame)
        written, told = self.differentiated(frame, (one,), scalar=False, reverse=True)
        self.pieces.append("linearize")
        name = f"linear{self.next()}"
        (out,) = self.assigned(
            frame, f"jax.linearize({callable_text(written)}, {{0}})", (one,), told, (), f"{{0}}, {name}"
        )
        del out
        self.assigned(frame, f"{name}(jnp.cos({{0}}))", (one,), told)

    def vjp(self, frame: _Frame) -> None:
        one = self.traced(frame)
        written, told = self.differentiated(frame, (one,), scalar=False, reverse=True)
        self.pieces.append("vjp")
        name = f"pull{self.next()}"
        (out,) = self.assigned(
            frame, f"jax.vjp({callable_text(written)}, {{0}})", (one,), told, (), f"{{0}}, {name}"
        )
        # Of a sum the pullback hands back what it is given.
        same = ((0, out),) if out.shape == one.shape else ()
        self.assigned(frame, f"{name}({{0}})[0]", (out,), (one,), same)

    def checkpoint(self, frame: _Frame) -> None:
        given = self.some(frame)
        written, told = self.function(
            frame,
            "layer",
            [value.shape for value in given],
            self.result_of(),
            border="checkpoint",
            varying=[value.varying for value in given],
            inside={"plain": False},
        )
        # Differentiated it is traced into its caller, as rules of one's own are.
        written = self.rewritten(frame, written, passed=_passed(written, given, [False] * len(given)))
        self.pieces.append("checkpoint")
        form = f"jax.checkpoint({callable_text(written)})({_places(len(given))})"
        self.assigned(frame, form, given, told)

    def custom_jvp(self, frame: _Frame) -> None:
        one = self.traced(frame)
        written, told = self.function(
            frame,
            "rule",
            [one.shape],
            self.result_of(one.shape),
            border="custom_jvp_call",
            styles=_DEF,
            varying=[one.varying],
            decorators=("@jax.custom_jvp",),
            inside={"plain": False, "mesh": None},
        )
        value, slope = f"{written.name}(*primals)", "jnp.cos(primals[0]) * tangents[0]"
        rule = f"{written.name}.defjvp(lambda primals, tangents: ({value}, {slope}))"
        self.rewritten(frame, written, after=(rule,), passed=_passed(written, (one,), (False,)))
        self.pieces.append("custom_jvp")
        self.assigned(frame, f"{written.name}({{0}})", (one,), told)

    def custom_vjp(self, frame: _Frame) -> None:
        one = self.traced(frame)
        written, told = self.function(
            frame,
            "rule",
            [one.shape],
            self.result_of(one.shape),
            border="custom_vjp_call",
            styles=_DEF,
            varying=[one.varying],
            decorators=("@jax.custom_vjp",),
            inside={"plain": False, "mesh": None},
        )
        forward, backward = f"({written.name}(given), given)", "(jnp.cos(kept) * back,)"
        rule = f"{written.name}.defvjp(lambda given: {forward}, lambda kept, back: {backward})"
        self.rewritten(frame, written, after=(rule,), passed=_passed(written, (one,), (False,)))
        self.pieces.append("custom_vjp")
        self.assigned(frame, f"{written.name}({{0}})", (one,), told)

    # --- devices --------------------------------------------------------------------------------------------

    def spec(
        self, shape: Shape, axes: dict[str, int], must: frozenset[str] = frozenset(), grow: bool = False
    ) -> Spec | None:
        """A spec for an array of this shape; each of `must` stands in it.  None where that can't be."""
        left, found = list(axes), []
        for size in shape:
            names: list[str] = []
            for name in list(left):
                length = axes[name] * math.prod(axes[one] for one in names)
                fits = grow or size % length == 0
                if fits and (name in must or self.chance(45)) and len(names) < 2:
                    names.append(name)
                    left.remove(name)
            found.append(tuple(self.one([names, names[::-1]]) if len(names) > 1 else names))
        if must & set(left):
            return None
        return tuple(found)

    def shard_map(self, frame: _Frame) -> None:
        mesh = self.one(self.meshes)
        axes = dict(mesh.axes)
        checked = self.chance(50)
        manual = axes
        if len(axes) > 1 and self.chance(40):
            name = self.one(list(axes))
            manual = {name: axes[name]}
            self.pieces.append("partly manual shard_map")
        self.device_scope(frame, mesh, manual, checked, inner=False)
        self.pieces.append(f"shard_map of {len(manual)} axes")
        self.pieces.append(f"shard_map {'checked' if checked else 'unchecked'}")

    def inner_shard_map(self, frame: _Frame) -> None:
        assert frame.mesh is not None
        left = {name: size for name, size in frame.mesh.axes if name not in frame.axes}
        if not left:
            self.simple(frame)
            return
        self.device_scope(frame, frame.mesh, left, frame.checked, inner=True)
        self.pieces.append("shard_map in shard_map")

    def device_scope(
        self, frame: _Frame, mesh: MeshText, manual: dict[str, int], checked: bool, inner: bool
    ) -> None:
        given = self.some(frame, 1, 3)
        specs: list[Spec] = [self.spec(value.shape, manual) or () for value in given]
        shapes = [_local(value.shape, spec, manual) for value, spec in zip(given, specs, strict=True)]
        varying = [
            value.varying | {name for names in spec for name in names}
            for value, spec in zip(given, specs, strict=True)
        ]
        axes = {**frame.axes, **manual}
        out: list[Spec] = []

        def finish(own: _Frame, leaves: tuple[Value, ...]) -> tuple[Expression, tuple[Value, ...]]:
            del leaves
            value = self.traced(own)
            ended = self.ending(own, value.shape)
            differs = _joined(ended.reads) & set(manual)
            form = ended.form
            must = differs if checked else frozenset[str]()
            spec = self.spec(value.shape, manual, must, grow=True)
            if spec is None:  # what differs is summed up, so that it does not
                form, spec = f"lax.psum({form}, {tuple(sorted(differs))})", ((),) * len(value.shape)
            elif checked and {name for names in spec for name in names} - differs:
                form = f"vary({form}, {tuple(name for names in spec for name in names)})"
            out.append(spec)
            whole = tuple(
                size * math.prod(manual[name] for name in names)
                for size, names in zip(value.shape, spec, strict=True)
            )
            return Expression(form, ended.reads), (
                Value(0, "", whole, varying=_joined(ended.reads) - set(manual)),
            )

        written, told = self.function(
            frame,
            "local",
            shapes,
            finish,
            border="shard_map",
            varying=varying,
            specs=tuple(specs),
            inside={
                "axes": axes,
                "checked": checked,
                "plain": False,
                "mesh": mesh if len(manual) < len(mesh.axes) and not inner else None,
            },
        )
        if math.prod(told[0].shape) > 4 * _LARGEST:
            frame.statements.pop()
            return
        entering = "".join(f"{_spec_text(spec)}, " for spec in specs)
        which = "" if inner else f"mesh={mesh.name}, "
        some = f"axis_names=⟨{', '.join(map(repr, manual))}⟩, " if len(manual) < len(mesh.axes) else ""
        form = (
            f"jax.shard_map({callable_text(written)}, {which}{some}in_specs=({entering}), "
            f"out_specs={_spec_text(out[0])}, check_vma={checked})({_places(len(given))})"
        )
        self.assigned(frame, form, given, told)

    def pmap(self, frame: _Frame) -> None:
        given = self.some(frame, 1, 3)
        fitting = [[axis for axis, size in enumerate(value.shape) if size == self.devices] for value in given]
        if not any(fitting):
            first = self.line(
                frame,
                f"jnp.stack([{{0}} * (k + 1.0) for k in range({self.devices})])",
                (given[0],),
                (self.devices, *given[0].shape),
            )
            given, fitting = (first, *given[1:]), [[0], *fitting[1:]]
        axes = [
            self.one(places) if places and (not any(fitting[:k]) or self.chance(70)) else None
            for k, places in enumerate(fitting)
        ]
        named = self.chance(70)
        shapes = [
            value.shape if axis is None else (*value.shape[:axis], *value.shape[axis + 1 :])
            for value, axis in zip(given, axes, strict=True)
        ]
        specs = tuple(
            tuple(("i" if named else "",) if place == axis else () for place in range(len(value.shape)))
            for value, axis in zip(given, axes, strict=True)
        )
        written, told = self.function(
            frame,
            "device",
            shapes,
            self.result_of(),
            border="pmap",
            specs=specs,
            inside={
                "axes": {"i": self.devices} if named else {},
                "plain": False,
                "mapped": True,
                "checked": False,
                "mesh": None,
            },
        )
        results = [replace(value, shape=(self.devices, *value.shape)) for value in told]
        if any(math.prod(value.shape) > 4 * _LARGEST for value in results):
            frame.statements.pop()
            return
        self.pieces.append("pmap")
        if None in axes:
            self.pieces.append("pmap in_axes None")
        name = ", axis_name='i'" if named else ""
        form = f"jax.pmap({callable_text(written)}, in_axes={_tuple(axes)}{name})({_places(len(given))})"
        self.assigned(frame, form, given, results)

    def collective(self, frame: _Frame) -> None:
        name = self.one(list(frame.axes))
        size = frame.axes[name]
        one = self.traced(frame)
        both = tuple(frame.axes)
        typed = f"vary({{0}}, {(name,)})" if frame.checked else "{0}"
        kinds = ["psum", "psum", "pmean", "pmax", "ppermute", "axis_index", "all_gather"]
        if one.shape and one.shape[0] % size == 0:
            kinds += ["psum_scatter", "all_to_all"] * 2
        if len(both) > 1:
            kinds.append("psum of both")
        kind = self.one(kinds)
        differs = one.varying | {name}
        match kind:
            case "psum" | "pmean" | "pmax":
                form, shape, differs = f"lax.{kind}({typed}, '{name}')", one.shape, one.varying - {name}
            case "psum of both":
                typed = f"vary({{0}}, {both})" if frame.checked else "{0}"
                form, shape, differs = f"lax.psum({typed}, {both})", one.shape, frozenset[str]()
            case "ppermute":
                shift = self.integer(1, size) if size > 1 else 1
                pairs = [(k, (k + shift) % size) for k in range(size)]
                form, shape = f"lax.ppermute({typed}, '{name}', {pairs})", one.shape
            case "axis_index":
                form, shape = f"{{0}} * lax.axis_index('{name}').astype(jnp.float32)", one.shape
            case "all_gather":
                if math.prod(one.shape) * size > _LARGEST:
                    return
                if one.shape and self.chance(50):
                    form = f"lax.all_gather({typed}, '{name}', axis=0, tiled=True)"
                    shape = (one.shape[0] * size, *one.shape[1:])
                else:
                    form, shape = f"lax.all_gather({typed}, '{name}')", (size, *one.shape)
            case "psum_scatter":
                form = f"lax.psum_scatter({typed}, '{name}', scatter_dimension=0, tiled=True)"
                shape = (one.shape[0] // size, *one.shape[1:])
            case _:
                form = f"lax.all_to_all({typed}, '{name}', split_axis=0, concat_axis=0, tiled=True)"
                shape = one.shape
        self.pieces.append(kind)
        self.line(frame, form, (one,), shape, differs)


def _passed(
    function: Function, given: Sequence[Value], same: Sequence[bool]
) -> tuple[tuple[Value, Value, bool], ...]:
    return tuple(zip(function.leaves, given, same, strict=True))


def _joined(values: Sequence[Value]) -> frozenset[str]:
    return frozenset().union(*(value.varying for value in values))


def _shape_of(expression: Expression, frame: _Frame) -> Shape | None:
    """The shape of what `ending` made: that of its first variable."""
    del frame
    if expression.form.startswith(("jnp.broadcast_to", "jnp.mean")):
        return None
    one, *two = expression.reads
    if "@" in expression.form:
        return None
    return two[0].shape if two and not one.shape and "mean" not in expression.form else one.shape


def _places(count: int, start: int = 0) -> str:
    return ", ".join(f"{{{k}}}" for k in range(start, start + count))


def _tuple(items: Sequence[Any]) -> str:
    return f"({''.join(f'{item!r}, ' for item in items)})"


def _spec_text(spec: Spec) -> str:
    entries = [repr(names[0]) if len(names) == 1 else repr(names) if names else "None" for names in spec]
    while entries and entries[-1] == "None":
        entries.pop()
    return f"P({', '.join(entries)})"


def _local(shape: Shape, spec: Spec, axes: dict[str, int]) -> Shape:
    return tuple(
        size // math.prod(axes[name] for name in names) for size, names in zip(shape, spec, strict=True)
    )


_SHAPES: tuple[Shape, ...] = ((8,), (4,), (8, 4), (4, 4), (4, 8), (8, 8), (2, 4, 4), ())


@st.composite
def programs(draw: Callable[[Any], Any], largest: int = 6, run: int = 10, drawn: int = 20) -> Generated:
    """Programs of up to `largest` pieces, one in `run` to be run and one in `drawn` to be rendered."""
    writer = _Writer(draw)
    to_be_run, to_be_drawn = writer.chance(100 // run), writer.chance(100 // drawn)
    module, main = _Frame(), _Frame()
    main.parent = module
    constants = []
    for kind in draw(st.lists(st.sampled_from(["np", "jnp", "number"]), max_size=3)):
        name = f"{'rate' if kind == 'number' else 'table'}{writer.next()}"
        shape = () if kind == "number" else writer.one(_SHAPES)
        value = writer.value(name, shape, sort=Sort.NUMBER if kind == "number" else Sort.BAKED)
        size = math.prod(shape)
        text = (
            "0.25"
            if kind == "number"
            else f"{kind}.linspace(0.1, 1.0, {size}, dtype=np.float32).reshape({shape})"
        )
        constants.append(Assign((value,), Expression(text)))
        writer.bind(module, value)
        writer.pieces.append(f"constant of {kind}")
    around = writer.one(["nothing", "mesh", "mesh", "pmap", "pmap", "mesh"])
    if around == "mesh":
        count = writer.one([2, 4, 8])
        order = draw(st.permutations(range(count))) if writer.chance(30) else range(count)
        flat = MeshText("mesh1", (("a", count),), tuple(order))
        square = MeshText("mesh2", (("a", 2), ("b", count // 2)), tuple(order))
        writer.meshes = writer.one([(flat,), (square,), (flat, square)] if count > 2 else [(flat,)])
        if tuple(order) != tuple(range(count)):
            writer.pieces.append("devices in another order")
    elif around == "pmap":
        writer.devices = writer.one([2, 4, 8])
    parameters = []
    for _ in range(writer.integer(1, 3)):
        name = f"{writer.one(_NAMES)}{writer.next()}"
        if writer.chance(15):
            writer.pieces.append("pytree")
            leaves = tuple(writer.value(f"{name}['{key}']", writer.one(_SHAPES)) for key in ("a", "b"))
        else:
            leaves = (writer.value(name, writer.one(_SHAPES)),)
        for leaf in leaves:
            writer.bind(main, leaf)
        parameters.append(Parameter(name, leaves))
    writer.budget = writer.one([2, 3, 4, 5, largest])
    if writer.chance(30):
        kind = writer.one([Sort.BAKED, Sort.NUMBER])
        shape = writer.one(_SHAPES) if kind is Sort.BAKED else ()
        name = f"here{writer.next()}"
        text = f"np.full({shape}, 0.5, np.float32)" if kind is Sort.BAKED else "0.75"
        value = writer.bind(main, writer.value(name, shape, sort=kind))
        main.statements.append(Assign((value,), Expression(text)))
    while writer.budget > 0:
        writer.budget -= 1
        writer.piece(main)
    if around != "nothing" and "psum" not in writer.pieces and writer.chance(60):
        writer.budget = 1
        (writer.shard_map if around == "mesh" else writer.pmap)(main)
    writer.body(main)
    results = [writer.traced(main) for _ in range(writer.integer(1, 2))]
    ends = [Expression("{0} * 1.5", (value,)) for value in results]
    texts, reads = writer.joined(ends)
    result = Expression(texts[0] if len(texts) == 1 else f"({', '.join(texts)})", tuple(reads))
    function = Function("main", tuple(parameters), tuple(main.statements), result)
    partly = "partly manual shard_map" in writer.pieces
    return Generated(
        function,
        tuple(constants),
        writer.meshes,
        partly or writer.chance(30),
        to_be_run,
        to_be_drawn,
        tuple(writer.pieces),
    )
