"""Both ways of JAX to hold array constants give the same picture and the same sentences.

As constants of the nearest `jit`, handed down as captured operands; and, with JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS=1, as
literals in the equations.  The programs are those of both_ways.py; each way needs a JAX of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import jax
import pytest

from jaxprviz._constants import hoisted
from jaxprviz._renumber import renumbered
from jaxprviz.program import (
    Body,
    Boundary,
    Call,
    Constant,
    DeviceScope,
    Equation,
    Mesh,
    Program,
    Role,
    Type,
)

FOLDER = Path(__file__).parent
VARIABLE = "JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS"


@dataclass(frozen=True)
class Exempt:
    """Programs that JAX itself makes different when it holds constants in the other way.

    Attributes:
        names: their names; of each, in every JAX of the range, something differs.
        reason: what JAX does.
        parts: what differs: the picture alone, or the sentences as well.
        since: the first JAX of which it is true.
        until: the first JAX of which it is not true any more.
    """

    names: tuple[str, ...]
    reason: str
    parts: tuple[str, ...] = ("dot", "text")
    since: tuple[int, ...] = (0,)
    until: tuple[int, ...] = (99,)


def _all(of: str, *names: str) -> tuple[str, ...]:
    return tuple(f"own/{of}{name}" for name in names)


SAVED_BY_BRANCHES = (
    "What a branch multiplies by is saved for the backward pass: by the branch itself in one form, and in the other it "
    "is known there, as an operand or as a literal.  These are other equations."
)

TANGENTS_LAST = (
    "Forward differentiation puts the tangents behind all operands, the constants among them: the inputs of a body "
    "stand in another order."
)

EXEMPT = (
    Exempt(
        ("own/in_custom_root", *_all("vmap of ", "in_custom_root"), *_all("grad of ", "in_custom_root")),
        "Operands that hold the constants of custom_root's other functions, which its body does not read: as literals "
        "they are nowhere in the jaxpr.",
    ),
    Exempt(
        _all(
            "vmap of ",
            "in_cond",
            "cond_one_branch",
            "cond_same_in_both",
            "cond_numpy_in_both",
            "in_switch",
            "switch_of_two",
        ),
        "A cond that is batched by its predicate becomes selections, one for each operand: of the constants too when "
        "they are operands.  These are other equations.",
    ),
    Exempt(
        _all(
            "jvp of ",
            "scan_with_captures",
            "scan_in_scan",
            "in_while",
            "in_cond",
            "cond_numpy_in_both",
            "in_switch",
            "switch_of_two",
        ),
        TANGENTS_LAST,
        parts=("dot",),
    ),
    Exempt(
        _all("jvp of ", "scan_unchanged_carry", "in_custom_root"),
        f"{TANGENTS_LAST}  So do they in the sentence that lists them.",
    ),
    Exempt(_all("jvp of ", "pmap_axes"), TANGENTS_LAST, since=(0, 8)),
    Exempt(
        (*_all("jvp of ", "in_pmap", "models_in_jit"), *_all("grad of ", "in_pmap", "models_in_jit")),
        "A jit that captures traced variables is passed the constants too.  After differentiation JAX keeps no names, "
        "so it is not said whether it captures any.",
    ),
    Exempt(_all("jvp of ", "closed_over"), "As jvp of in_pmap.", until=(0, 8)),
    Exempt(_all("grad of ", "cond_numpy_in_both", "in_switch"), SAVED_BY_BRANCHES, until=(0, 10)),
    Exempt(_all("grad of ", "switch_of_two"), SAVED_BY_BRANCHES, parts=("dot",), until=(0, 10)),
    Exempt(
        _all("grad of ", "cond_numpy_in_both", "in_switch", "switch_of_two"),
        SAVED_BY_BRANCHES,
        since=(0, 11),
    ),
    Exempt(
        _all("grad of ", "in_scan"),
        "NumPy arrays are wrapped anew wherever they are read, by differentiation once more.",
        until=(0, 9),
    ),
    Exempt(
        ("own/in_pmap", *_all("vmap of ", "in_pmap")),
        "A pmap keeps no names, so it is not said where the captured operands end.",
        until=(0, 8),
    ),
    Exempt(
        ("cases/47_pallas_captures_const",),
        "A kernel refuses to capture an array; as a literal it is none.",
        parts=("dot", "text", "refused"),
    ),
)


def told(folder: Path, literals: bool) -> dict[str, dict[str, str]]:
    """What is made of each program, with constants held in one of the ways."""
    out = folder / f"{int(literals)}.json"
    variables = {
        **os.environ,
        VARIABLE: str(int(literals)),
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": "8",
        "PYTHONPATH": str(FOLDER.parent),
    }
    subprocess.run([sys.executable, FOLDER / "both_ways.py", out], env=variables, check=True)
    return json.loads(out.read_text(encoding="utf-8"))


def test_both_ways(tmp_path: Path) -> None:
    one, other = told(tmp_path, literals=False), told(tmp_path, literals=True)
    assert list(one) == list(other)
    assert len(one) > 300
    differ = {
        (name, part)
        for name, parts in one.items()
        for part in parts.keys() | other[name].keys()
        # As data the operands are those that JAX passes.
        if part != "json" and parts.get(part) != other[name].get(part)
    }
    exempt = [e for e in EXEMPT if e.since <= jax.__version_info__ < e.until]
    wanted = {(name, part) for e in exempt for name in e.names for part in e.parts}
    assert sorted(differ) == sorted(wanted)


# --- the view alone -----------------------------------------------------------------------------------------

F4, F34 = Type("float32", (4,), 4), Type("float32", (3, 4), 4)


def _body(
    equations: tuple[Equation, ...], types: tuple[Type, ...], constants: int, outputs: tuple[int, ...]
) -> Body:
    baked = tuple(Constant(variable, f"c{variable}", "") for variable in range(constants))
    return Body("f", types, baked, (constants,), ("x",), equations, outputs, ("result",))


def test_without_literals_a_program_stays_as_it_is() -> None:
    program = Program((_body((), (F4, F4), 1, (0,)),), 0, "0.10.2", 1)
    assert hoisted(program, [{}]) is program


@pytest.mark.parametrize(
    ("equation", "wanted"),
    [
        (
            Equation(
                "scan",
                (0,),
                (1,),
                calls=(Call(0, "", (0,), (0,), (False,), (Role.CARRY,)),),
                boundary=Boundary.LOOP,
            ),
            Equation(
                "scan",
                (0, 1),
                (2,),
                calls=(Call(0, "", (0, 1), (0,), (True, False), (Role.CONST, Role.CARRY)),),
                boundary=Boundary.LOOP,
            ),
        ),
        (
            Equation(
                "shard_map",
                (0,),
                (1,),
                calls=(Call(0, "", (0,), (0,), (False,), (Role.OPERAND,)),),
                boundary=Boundary.DEVICE,
                device=DeviceScope(Mesh((("d", 2),)), ("d",), ((("d",),),), ((("d",),),)),
            ),
            Equation(
                "shard_map",
                (0, 1),
                (2,),
                calls=(Call(0, "", (0, 1), (0,), (True, False), (Role.OPERAND, Role.OPERAND)),),
                boundary=Boundary.DEVICE,
                device=DeviceScope(Mesh((("d", 2),)), ("d",), (((),), (("d",),)), ((("d",),),)),
            ),
        ),
    ],
    ids=["scan", "shard_map"],
)
def test_a_literal_is_handed_down(equation: Equation, wanted: Equation) -> None:
    add = Equation("add", (1, 0), (2,))
    inner = Body("g", (F4, F4, F4), (Constant(0, "w", ""),), (1,), ("y",), (add,), (2,), ("result",))
    outer = _body((equation,), (F4, F4), 0, (1,))
    found = hoisted(Program((inner, outer), 1, "0.10.2", 1), [{0: "w"}, {}])
    assert found == Program(
        (
            Body(
                "g",
                (F4, F4, F4),
                (),
                (0, 1),
                (None, "y"),
                (Equation("add", (1, 0), (2,)),),
                (2,),
                ("result",),
            ),
            Body("f", (F4, F4, F4), (Constant(0, "w", ""),), (1,), ("x",), (wanted,), (2,), ("result",)),
        ),
        1,
        "0.10.2",
        1,
    )


def test_a_jit_keeps_its_own() -> None:
    inner = Body(
        "g",
        (F4, F4, F4),
        (Constant(0, "w", ""),),
        (1,),
        ("y",),
        (Equation("add", (1, 0), (2,)),),
        (2,),
        ("result",),
    )
    call = Equation(
        "jit", (0,), (1,), calls=(Call(0, "", (0,), (0,), (False,), (Role.OPERAND,)),), boundary=Boundary.CALL
    )
    program = Program((inner, _body((call,), (F4, F4), 0, (1,))), 1, "0.10.2", 1)
    assert hoisted(program, [{0: "w"}, {}]) == program


def test_variables_are_numbered_as_they_stand() -> None:
    body = Body(
        "f",
        (F4, F34, F4),
        (Constant(1, "w", ""),),
        (0,),
        ("x",),
        (Equation("add", (0, 1), (2,)),),
        (2,),
        ("result",),
    )
    assert renumbered(body) == Body(
        "f",
        (F34, F4, F4),
        (Constant(0, "w", ""),),
        (1,),
        ("x",),
        (Equation("add", (1, 0), (2,)),),
        (2,),
        ("result",),
    )
