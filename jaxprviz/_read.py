"""From JAX's jaxpr to a `Program`: the one reader of jaxprs.

Each distinct jaxpr is read once, however many equations hold it, so the work is linear in the number of
distinct equations.
"""

from __future__ import annotations

import re
import types
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprviz import _jax
from jaxprviz._constants import hoisted
from jaxprviz._primitives import Rule, bodies_of, rule_of
from jaxprviz._read_devices import collective_axes, device_scope, shardings
from jaxprviz._read_names import (
    arguments_after_self,
    closure,
    looked_up,
    map_names,
    name_inside,
    old_pmap_captures,
    parts_read,
    pmap_names,
    without_guess,
)
from jaxprviz._read_refs import index_text
from jaxprviz.program import (
    Atom,
    Body,
    Call,
    Constant,
    Equation,
    Literal,
    Program,
    Source,
)

_SHOWN = 8
"""Arrays of at most so many elements are shown with their values; larger ones are not fetched."""

_LONGEST = 160
"""Characters of a parameter's text."""

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+|<axis 0x[0-9a-fA-F]+>")

_NUMPY = re.compile(r"\bnp\.\w+\(([^()]*)\)")
"""How NumPy writes a number inside a tuple: `np.int64(1)`."""


def read(jaxpr: Any, name: str | None = None, constant_names: Mapping[int, str] | None = None) -> Program:
    """Reads a jaxpr.

    Args:
        jaxpr: a closed jaxpr, as `jax.make_jaxpr` returns it.
        name: the name of the traced function; None takes the one that JAX keeps.
        constant_names: the Python name of an array, by its `id`, for arrays that may have been baked in.
    """
    return Reader.program(jaxpr, name, constant_names)


class Reader:
    """The state of one reading: the bodies so far, and where each jaxpr went."""

    variables: type[Variables]
    """What numbers the variables of a body."""

    def __init__(self, constant_names: Mapping[int, str]) -> None:
        self.bodies: list[Body] = []
        self.literals: list[dict[int, Hashable]] = []
        self._constant_names = constant_names
        self._numbers: dict[tuple[int, str | None, bool, bool], int] = {}
        self._alive: list[Any] = []  # an id stays the jaxpr's own only while the jaxpr lives

    @classmethod
    def program(
        cls, jaxpr: Any, name: str | None = None, constant_names: Mapping[int, str] | None = None
    ) -> Program:
        """Reads a jaxpr, as `read` does."""
        reader = cls(constant_names or {})
        root = reader.body(jaxpr, name)
        program = Program(tuple(reader.bodies), root, jax.__version__, jax.device_count())
        return hoisted(program, reader.literals)

    def body(self, closed: Any, name: str | None = None, derived: bool = False, fed: bool = False) -> int:
        """The number of a jaxpr's body; reads it when it is new.

        Args:
            closed: the jaxpr.
            name: the name of its function; None takes the one that JAX keeps.
            derived: whether differentiation made the equation that holds it.
            fed: whether operands feed its constants too: they are then the first of its inputs.
        """
        key = (id(closed), name, derived, fed)
        if key not in self._numbers:
            self._alive.append(closed)
            body, literals = self._read(closed, name, derived, fed)
            self._numbers[key] = len(self.bodies)
            self.bodies.append(body)
            self.literals.append(literals)
        return self._numbers[key]

    def _read(
        self, closed: Any, given_name: str | None, derived: bool, fed: bool
    ) -> tuple[Body, dict[int, Hashable]]:
        """A body, and those of its constants that are array literals: `hoisted` tells where they belong."""
        jaxpr = _jax.open_jaxpr(closed)
        variables = self.variables()
        constants = [
            self._constant(variables.new(var), value)
            for var, value in zip(jaxpr.constvars, _values(closed, jaxpr), strict=True)
            if not fed
        ]
        inputs = tuple(
            variables.new(var) for var in ((*jaxpr.constvars, *jaxpr.invars) if fed else jaxpr.invars)
        )
        literals: dict[Hashable, int] = {}

        def atom(var: Any) -> Atom:
            if not _jax.is_literal(var):
                return variables.number(var)
            if not np.ndim(var.val) and not isinstance(var.val, jax.Array):
                return Literal(_scalar_text(var.val), _jax.read_type(var.aval))
            key = _jax.array_key(var.val, jaxpr)
            if key not in literals:
                literals[key] = variables.new(var)
                constants.append(self._constant(literals[key], var.val))
            return literals[key]

        equations = tuple(self._equation(equation, variables, atom, derived) for equation in jaxpr.eqns)
        outputs = tuple(atom(var) for var in jaxpr.outvars)

        function, file, line = _jax.function_of(jaxpr)
        pmapped, mapped = _jax.is_pmap_function(jaxpr), _jax.is_map_function(jaxpr)
        code = _jax.body_code(jaxpr, None if pmapped or mapped else function)
        if code is None and function is None:  # a pmap up to 0.5 keeps the name in its equation alone
            code = _jax.body_code(jaxpr, given_name)
        own = {given_name, function, code.co_name if code is not None else None}
        equations = tuple(_named_here(equation, own) for equation in equations)
        names = tuple(name or None for name in _jax.arg_names(jaxpr))
        if _jax.is_file_of_jax(file):  # what a function that JAX puts around the user's calls `args`
            names = tuple(None if name and name.startswith("args[") else name for name in names)
        if pmapped or mapped:
            function, file, line = (
                (code.co_name, code.co_filename, code.co_firstlineno) if code else (None, None, None)
            )
            names = pmap_names(jaxpr, code) if pmapped else map_names(jaxpr, code)
        if fed:
            names = (*(None,) * len(jaxpr.constvars), *names)
        body = Body(
            name=given_name or function,
            types=tuple(variables.types),
            constants=tuple(
                replace(constant, name=name_inside(constant.name, code)) for constant in constants
            ),
            inputs=inputs,
            input_names=names,
            equations=equations,
            outputs=outputs,
            output_names=_jax.result_paths(jaxpr),
            closure=closure(code),
            globals=looked_up(code),
            parts=parts_read(code),
            arguments=arguments_after_self(code),
            source=Source(function, line, _jax.public_file(file)) if function and file and line else None,
            wrapper=pmapped,
        )
        return body, {variable: key for key, variable in literals.items()}

    def _constant(self, variable: int, value: Any) -> Constant:
        name = self._constant_names.get(id(value))
        if _jax.is_tracer(value):
            return Constant(variable, name, "", leaked=True)
        return Constant(variable, name, _array_text(value))

    def _equation(self, equation: Any, variables: Variables, atom: Any, derived: bool) -> Equation:
        primitive = equation.primitive.name
        rule = rule_of(equation)
        operands = tuple(atom(var) for var in equation.invars)
        held = bodies_of(equation, rule)
        device = device_scope(equation)
        asked_in, asked_out = shardings(equation)
        name = rule.name(equation) if rule.name is not None else equation.params.get("name")
        own = None
        transforms = _jax.transform_names(equation)
        derived = derived or "jvp" in transforms or "transpose" in transforms
        if primitive == "xla_pmap":
            own = name
            held = tuple(old_pmap_captures(equation, body) for body in held)
        calls = tuple(
            Call(
                self.body(body.jaxpr, own, derived, body.fed),
                body.label,
                body.inputs,
                body.outputs,
                body.captured,
                body.roles,
            )
            for body in held
        )
        source = _jax.source_of(equation, self._paths(calls, len(equation.outvars), device is not None))
        if derived and source is not None:
            source = replace(source, assigned=())  # the names are those of what it is the derivative of
        if primitive == "xla_pmap" and None in calls[0].captured:
            self.bodies[calls[0].body] = without_guess(self.bodies[calls[0].body])
        if calls and (
            self.bodies[calls[0].body].wrapper or (device is not None and not isinstance(name, str))
        ):
            name = self.bodies[calls[0].body].name
        return Equation(
            primitive="pmap" if primitive == "xla_pmap" else primitive,
            operands=operands,
            results=tuple(variables.new(var) for var in equation.outvars),
            name=name if isinstance(name, str) and (calls or rule.name is not None) else None,
            params=_params(equation, rule),
            calls=calls,
            boundary=rule.boundary if calls else None,
            device=device,
            axes=collective_axes(equation) if not calls else (),
            source=source,
            scopes=_jax.scope_names(equation),
            effects=_jax.effect_names(equation),
            transforms=transforms,
            in_shardings=asked_in,
            out_shardings=asked_out,
            kernel=rule.kernel(equation) if rule.kernel is not None else None,
        )

    def _paths(self, calls: Sequence[Call], count: int, on_devices: bool) -> tuple[str | None, ...] | None:
        """For each result of an equation where it stands in what its function returns; None when not known.

        None in the place of all for an equation without bodies, and for those whose body returns a flat list of
        what its function returns: device scopes.
        """
        if not calls or on_devices or self.bodies[calls[0].body].wrapper:
            return None

        def paths(position: int) -> Iterator[str]:
            for call in calls:
                output = call.outputs[position]
                names = self.bodies[call.body].output_names
                path = None if output is None or output >= len(names) else names[output]
                if path is not None:
                    yield path

        return tuple(next(paths(position), None) for position in range(count))


class Variables:
    """The numbers and types of one body's variables, in the order in which they are bound."""

    def __init__(self) -> None:
        self.types: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []

    def new(self, var: Any) -> int:
        """Numbers a variable that is bound here."""
        self._alive.append(var)
        self._numbers[id(var)] = len(self.types)
        self.types.append(_jax.read_type(var.aval))
        return len(self.types) - 1

    def number(self, var: Any) -> int:
        return self._numbers[id(var)]


Reader.variables = Variables


def _values(closed: Any, jaxpr: Any) -> Sequence[Any]:
    values = _jax.constants(closed)
    return values if len(values) == len(jaxpr.constvars) else (None,) * len(jaxpr.constvars)


def _named_here(equation: Equation, own: set[str | None]) -> Equation:
    """An equation whose results have names only when the statement that assigns them is the function's own."""
    source = equation.source
    if source is None or source.function in own or not source.assigned:
        return equation
    return replace(equation, source=replace(source, assigned=()))


# --- text ---------------------------------------------------------------------------------------------------


def _scalar_text(value: Any) -> str:
    plain: type[Any]
    for plain in (bool, int, float, complex):  # JAX has subclasses of these, whose own text holds their type
        if isinstance(value, plain):
            return repr(plain(value))
    if getattr(value, "dtype", None) == jax.dtypes.float0:  # of no bytes at all
        return "0"
    try:
        return str(np.asarray(value)[()])
    except (TypeError, ValueError):
        return str(value)  # an extended type, such as a key


def _array_text(value: Any) -> str:
    """The values of a small array; empty for a large one, or one that is no plain array."""
    if not isinstance(value, (np.ndarray, np.generic, jax.Array)) or int(np.size(value)) > _SHOWN:
        return ""
    if jnp.issubdtype(value.dtype, jax.dtypes.extended) or not getattr(value, "is_fully_addressable", True):
        return ""
    return np.array2string(np.asarray(value), separator=", ").replace("\n", "")


def _params(equation: Any, rule: Rule) -> tuple[tuple[str, str], ...]:
    index = index_text(equation)
    if index is not None:
        return (("index", index),)
    params = equation.params
    if not params:
        return ()
    shown = list(rule.words(equation)) if rule.words is not None else []
    for name in sorted(params):
        value = params[name]
        if (
            name in rule.hidden
            or value is None
            or callable(value)
            or any(True for _ in _jax.sub_jaxprs(value))
        ):
            continue
        shown.append((name, _param_text(value)))
    return tuple(sorted(shown) if rule.words is not None else shown)


def _param_text(value: Any) -> str:
    if isinstance(value, (set, frozenset)):
        text = "{" + ", ".join(sorted(map(str, value))) + "}"
    elif isinstance(value, types.FunctionType):
        text = value.__name__
    else:
        text = str(value)
    text = " ".join(_NUMPY.sub(r"\1", _ADDRESS.sub("", text)).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
