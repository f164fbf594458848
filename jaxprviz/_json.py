"""A program as JSON text and back, without loss: what another JAX version traced is drawn like a live one.

What a field may hold is read from the annotations of the dataclasses in `program`; they can grow without a
change here.  A field that equals its default is left out, and one that is left out is read as its default: so
text that was written before a field with a default was added can still be read.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import types
import typing
from typing import Any

from jaxprviz.errors import SaveError
from jaxprviz.program import Body, Call, Program

SCHEMA = 1
"""The version of the text.  It grows when older text means something else, not when a field with a default is
added."""

_WIDTH = 110

_ASKED = "read a program from JSON"
_REMEDY = 'Read a file that `figure.save("....json")` wrote; make it again if it was changed.'


class _MismatchError(Exception):
    """A value that is not what its place asks for."""


def to_json(program: Program) -> str:
    """A program as JSON text: the same text for equal programs, with short values on one line."""
    return _lay_out({"schema": SCHEMA, "program": encode(program)}, 0) + "\n"


def from_json(text: str) -> Program:
    """The program that `to_json` made the text from.

    Raises:
        SaveError: the text is no JSON, is of another schema, or does not describe a program.
    """
    if not isinstance(text, str):
        raise SaveError(_ASKED, f"it is a value of type {type(text).__name__}, not a text", _REMEDY)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SaveError(_ASKED, f"it is no JSON ({error})", _REMEDY) from None
    if not isinstance(data, dict) or data.keys() != {"schema", "program"}:
        raise SaveError(_ASKED, "it is not the JSON of a program", _REMEDY)
    if data["schema"] != SCHEMA or type(data["schema"]) is not int:
        wrong = f"its schema is {_short(data['schema'])}, and this version of jaxprviz reads schema {SCHEMA}"
        raise SaveError(
            _ASKED, wrong, "Read it with the version of jaxprviz that wrote it, or make it again."
        )
    try:
        program = decode(Program, data["program"], "program")
        _check(program)
    except _MismatchError as error:
        raise SaveError(_ASKED, str(error), _REMEDY) from None
    except RecursionError:
        # Lists in lists so deep that the message about them could not be made.
        raise SaveError(_ASKED, "it is nested too deeply", _REMEDY) from None
    return program


def encode(value: Any) -> Any:
    """A value of one of the dataclasses as what the module json writes."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: encode(held)
            for field in dataclasses.fields(value)
            if (held := getattr(value, field.name)) != field.default or type(held) is not type(field.default)
        }
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    return value.value if isinstance(value, enum.Enum) else value


def decode(wanted: Any, data: Any, where: str) -> Any:
    """The value of type `wanted` that `encode` turned into `data`.

    Args:
        wanted: a dataclass, an enumeration, int, str, bool, None, a tuple, or a union of those.
        data: what the module json read.
        where: the place of `data`, for the message.

    Raises:
        _MismatchError: `data` is no such value.
        TypeError: `wanted` is a type that this module does not know.
    """
    kind, arguments = _kind(wanted)
    return _DECODERS[kind](wanted, arguments, data, where)


@functools.cache
def _kind(wanted: Any) -> tuple[str, tuple[Any, ...]]:
    """Which decoder a type needs, and the types that it is made of."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (types.UnionType, typing.Union):
        return "union", arguments
    if origin is tuple:
        return ("list" if arguments[1:] == (Ellipsis,) else "row"), arguments
    if wanted in (int, str, bool, types.NoneType):
        return "plain", ()
    if dataclasses.is_dataclass(wanted):
        return "record", ()
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        return "enum", ()
    raise TypeError(f"no JSON for {wanted}")


@functools.cache
def _fields(wanted: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """The types of a dataclass's fields by name, and the names of those without a default."""
    hints = typing.get_type_hints(wanted)
    fields = dataclasses.fields(wanted)
    needed = frozenset(field.name for field in fields if field.default is dataclasses.MISSING)
    return {field.name: hints[field.name] for field in fields}, needed


def _record(wanted: Any, arguments: tuple[Any, ...], data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise _MismatchError(f"{where} is {_short(data)}, not a {wanted.__name__}")
    types_, needed = _fields(wanted)
    if missing := sorted(needed - data.keys()):
        raise _MismatchError(f"{where} lacks {', '.join(missing)}")
    if unknown := sorted(data.keys() - types_.keys()):
        raise _MismatchError(
            f"{where} has {_short(unknown[0])}, which this version of jaxprviz does not know"
        )
    return wanted(**{name: decode(types_[name], item, f"{where}.{name}") for name, item in data.items()})


def _union(wanted: Any, arguments: tuple[Any, ...], data: Any, where: str) -> Any:
    """The member of a union whose JSON looks like `data`: no two members of the unions here look alike."""
    for member in arguments:
        if isinstance(data, _LOOKS[_kind(member)[0]] or member) and (
            type(data) is not bool or member is bool
        ):
            return decode(member, data, where)
    names = (getattr(member, "__name__", "a list") for member in arguments)
    raise _MismatchError(f"{where} is {_short(data)}, not one of {', '.join(names)}")


def _list(wanted: Any, arguments: tuple[Any, ...], data: Any, where: str) -> Any:
    if not isinstance(data, list):
        raise _MismatchError(f"{where} is {_short(data)}, not a list")
    return tuple(decode(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(data))


def _row(wanted: Any, arguments: tuple[Any, ...], data: Any, where: str) -> Any:
    if not isinstance(data, list) or len(data) != len(arguments):
        raise _MismatchError(f"{where} is {_short(data)}, not a list of {len(arguments)}")
    pairs = enumerate(zip(arguments, data, strict=True))
    return tuple(decode(member, item, f"{where}[{index}]") for index, (member, item) in pairs)


def _enum(wanted: Any, arguments: tuple[Any, ...], data: Any, where: str) -> Any:
    known = [member for member in wanted if member.value == data]
    if not known:
        raise _MismatchError(
            f"{where} is {_short(data)}, not one of {', '.join(str(member.value) for member in wanted)}"
        )
    return known[0]


def _plain(wanted: Any, arguments: tuple[Any, ...], data: Any, where: str) -> Any:
    # Python counts True as an int; JSON does not.
    if type(data) is not wanted:
        raise _MismatchError(f"{where} is {_short(data)}, not {wanted.__name__}")
    return data


_DECODERS = {"record": _record, "union": _union, "list": _list, "row": _row, "enum": _enum, "plain": _plain}

_LOOKS: dict[str, type | None] = {
    "record": dict, "list": list, "row": list, "enum": str, "plain": None, "union": None,
}  # fmt: skip
"""What the JSON of a member of a union is read as; None for the type itself."""


def _check(program: Program) -> None:
    """Raises _MismatchError where one part of a program refers to another that is not there."""
    _below(len(program.bodies), [program.root], "program.root")
    for number, body in enumerate(program.bodies):
        where = f"program.bodies[{number}]"
        known = len(body.types)
        _below(known, [constant.variable for constant in body.constants], f"{where}.constants")
        _below(known, body.inputs, f"{where}.inputs")
        _below(known, body.outputs, f"{where}.outputs")
        _as_many(body.inputs, body.input_names, f"{where}.input_names")
        _as_many(body.outputs, body.output_names, f"{where}.output_names")
        for position, equation in enumerate(body.equations):
            there = f"{where}.equations[{position}]"
            _below(known, equation.operands, f"{there}.operands")
            _below(known, equation.results, f"{there}.results")
            if equation.device is not None:
                _as_many(equation.operands, equation.device.in_specs, f"{there}.device.in_specs")
                _as_many(equation.results, equation.device.out_specs, f"{there}.device.out_specs")
            for index, call in enumerate(equation.calls):
                # Only bodies that stand before this one: no body holds itself.
                _below(number, [call.body], f"{there}.calls[{index}].body")
                _check_call(
                    program.bodies[call.body], call, len(equation.operands), f"{there}.calls[{index}]"
                )
                _as_many(equation.results, call.outputs, f"{there}.calls[{index}].outputs")


def _check_call(held: Body, call: Call, operands: int, where: str) -> None:
    _below(operands, call.inputs, f"{where}.inputs")
    _below(len(held.outputs), call.outputs, f"{where}.outputs")
    for name in ("inputs", "captured", "roles"):
        _as_many(held.inputs, getattr(call, name), f"{where}.{name}")


def _below(count: int, numbers: typing.Sequence[object], where: str) -> None:
    for number in numbers:
        if isinstance(number, int) and not 0 <= number < count:
            raise _MismatchError(f"{where} refers to number {number} of {count}")


def _as_many(these: typing.Sequence[object], those: typing.Sequence[object], where: str) -> None:
    if len(these) != len(those):
        raise _MismatchError(f"{where} has {len(those)} entries, not {len(these)}")


def _short(data: Any) -> str:
    text = json.dumps(data)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _lay_out(data: Any, indent: int) -> str:
    """JSON text in which a list or an object stands on one line when it fits there."""
    line = json.dumps(data)
    if len(line) + indent <= _WIDTH or not isinstance(data, dict | list):
        return line
    inner = " " * (indent + 1)
    if isinstance(data, dict):
        parts = [f"{json.dumps(key)}: {_lay_out(value, indent + 1)}" for key, value in data.items()]
    else:
        parts = [_lay_out(value, indent + 1) for value in data]
    first, last = "{}" if isinstance(data, dict) else "[]"
    return first + "\n" + ",\n".join(inner + part for part in parts) + "\n" + " " * indent + last
