"""Devices: simulating them before JAX starts, and showing which slice of an array each of them holds."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxprviz import _jax
from jaxprviz._captures import first_scopes
from jaxprviz._draw import view
from jaxprviz._facts import Crossing, Layout
from jaxprviz._figure import Figure
from jaxprviz._grid import Grid, bounds_of, grid_dot, grid_of_layout, in_rows, parts_text
from jaxprviz._placement import placement
from jaxprviz._scope import Scope
from jaxprviz._words import layout_text, result_name
from jaxprviz.errors import DevicesError, JaxprvizError
from jaxprviz.program import Program

_FORCED = re.compile(r"--xla_force_host_platform_device_count=(\d+)")


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices that JAX has.

    Attributes:
        count: how many.
        kind: `"cpu"`, `"gpu"` or `"tpu"`.
    """

    count: int
    kind: str

    def __repr__(self) -> str:
        kind = "simulated CPU" if self.kind == "cpu" else self.kind.upper()
        return f"{self.count} {kind} device{'' if self.count == 1 else 's'}"


def use_devices(count: int = 8, *, accelerators: bool = False) -> Devices:
    """Makes JAX start with a number of devices: simulated ones on the CPU, so that every machine has them.

    Call it before anything else uses JAX: JAX counts its devices once, when it starts.  A second call with no
    more devices changes nothing.

    Args:
        count: how many devices.
        accelerators: take the GPUs or TPUs of this machine instead.

    Returns:
        The devices that there now are.

    Raises:
        DevicesError: JAX has started already with fewer devices, or the machine has not so many accelerators.
    """
    asked = f"use_devices({count}) was asked for {count} devices"
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise DevicesError(
            f"use_devices({count!r}) was called",
            "the number of devices is a whole number from 1 on",
            "Try use_devices(8).",
        )
    if not _jax.has_started() and not accelerators:
        forced = _FORCED.search(os.environ.get("XLA_FLAGS", ""))
        if forced is None:
            jax.config.update("jax_num_cpu_devices", count)
        elif int(forced[1]) < count:
            raise DevicesError(
                asked,
                f"the environment variable XLA_FLAGS sets {forced[1]}, and JAX takes only one of the two",
                f"Take {forced[0]} out of XLA_FLAGS and restart Python.",
            )
        jax.config.update("jax_platforms", "cpu")
    there = Devices(jax.device_count(), jax.default_backend())
    if there.count >= count:
        return there
    if accelerators:
        raise DevicesError(
            asked,
            f"this machine has {there}",
            f"Restart Python (in a notebook: the kernel), then simulate them: use_devices({count}).",
        )
    raise DevicesError(
        asked,
        f"JAX has started already, with {there}, and counts its devices only then",
        f"Restart Python (in a notebook: Kernel, Restart) and call use_devices({count}) before anything uses "
        "JAX.",
    )


def show_placement(value: Any, /, *args: Any, name: str | None = None, **kwargs: Any) -> Figure:
    """Draws which slice of an array each device holds, one cell a device.

    Args:
        value: a `jax.Array` (what its shards really are), a `jax.ShapeDtypeStruct` with a sharding, a
            program, or a function with its example arguments (what the program asks for).
        *args: the function's arguments.
        name: of an array, what to call it (default `"array"`); of a program, the variable that enters or
            leaves a device scope.  None draws every one of them.
        **kwargs: keyword arguments of the function.

    Returns:
        The figure; its text lists the slices.

    Raises:
        JaxprvizError: the value lies on no devices, or the program has no such variable.
    """
    if isinstance(value, Program) or (callable(value) and not hasattr(value, "sharding")):
        grids = _grids_of_program(view(value, args, kwargs), name)
    else:
        grids = [_grid_of_array(value, name or "array")]
    text = "\n".join(grid.text() for grid in grids)
    return Figure(
        None, grid_dot(grids), text, f"Placement of {', '.join(dict.fromkeys(grid.name for grid in grids))}"
    )


def _grids_of_program(program: Program, name: str | None) -> list[Grid]:
    asked = f"show_placement was asked for {'the variables' if name is None else name} of {program.main.name}"
    found: dict[str, Grid] = {}
    there: dict[str, None] = {}
    for scope in first_scopes(program):
        for outer, crossing in _crossings(scope):
            there[outer] = None
            layout = crossing.layout
            if name not in (None, outer) or layout.spec is None or layout.free:
                continue
            if all(isinstance(size, int) for size in layout.type.shape):
                device = scope.equation.device if scope.equation is not None else None
                part = device is not None and device.mesh != layout.mesh
                grid = grid_of_layout(layout, outer, part=part)
                found[grid.text()] = grid
    if found:
        return list(found.values())
    if not there:
        raise JaxprvizError(
            asked,
            "the program has no device scope (pmap or shard_map), so it does not say how its variables lie",
            "Run it and pass an array of its result: show_placement(f(x)).",
        )
    raise JaxprvizError(
        asked,
        "no variable of that name with a known placement enters or leaves a device scope",
        f"Those that do: {', '.join(there)}.",
    )


def _crossings(scope: Scope) -> list[tuple[str, Crossing]]:
    placed, parent, equation = placement(scope), scope.parent, scope.equation
    if placed is None or parent is None or equation is None:
        return []
    found = []
    for crossing in placed.entering:
        atom = equation.operands[crossing.position]
        outer = parent.name(atom) if isinstance(atom, int) else None
        found.append((outer or f"operand {crossing.position}", crossing))
    for crossing in placed.leaving:
        outer = result_name(parent, equation.results[crossing.position])
        found.append((outer or f"result {crossing.position}", crossing))
    return found


def _grid_of_array(array: Any, name: str) -> Grid:
    sharding, shape = getattr(array, "sharding", None), getattr(array, "shape", None)
    if sharding is None or shape is None:
        raise JaxprvizError(
            f"show_placement was given a value of type {type(array).__name__}",
            "it has no sharding, so it lies on no device",
            "Pass a jax.Array, for instance jnp.asarray(x) or jax.device_put(x, sharding).",
        )
    kind = _jax.read_type(jax.ShapeDtypeStruct(shape, array.dtype))
    mesh = sharding.mesh if isinstance(sharding, jax.sharding.NamedSharding) else None
    layout = None
    if mesh is not None:
        layout = Layout(kind, _jax.read_mesh(mesh), _jax.read_spec(sharding.spec, len(shape)))
        if isinstance(mesh, jax.sharding.AbstractMesh):
            return grid_of_layout(layout, name)
    indices = sharding.devices_indices_map(tuple(shape))
    if mesh is None:
        devices = sorted(indices, key=lambda device: device.id)
        columns = len(devices)
    else:
        grid = np.asarray(mesh.devices)
        devices = list(grid.flat)
        columns = grid.shape[-1] if grid.ndim > 1 else len(devices)
    bounds = [bounds_of(indices[device], tuple(shape)) for device in devices]
    return Grid(
        name,
        kind.short,
        tuple(shape),
        kind.itemsize,
        layout_text(layout) if layout is not None else parts_text(bounds),
        () if layout is None else tuple(axis for axis, _ in layout.mesh.axes),
        *in_rows([f"device {device.id}" for device in devices], bounds, columns),
    )
