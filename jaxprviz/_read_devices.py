"""What equations say about devices: the axes of collectives, device scopes, shardings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxprviz import _jax
from jaxprviz.program import DeviceScope, Mesh, Sharding, Spec

_COLLECTIVE_AXES = ("axes", "axis_name", "axes_names", "axis_names")


def collective_axes(equation: Any) -> tuple[str, ...]:
    """The mesh axes that a collective works along.  Numbers among them are axes of the array, from vmap."""
    for key in _COLLECTIVE_AXES:
        value = equation.params.get(key)
        if value is None:
            continue
        names = value if isinstance(value, (tuple, list)) else (value,)
        named = tuple(_jax.axis_name(name) for name in names if isinstance(name, str) or _jax.is_axis(name))
        if named:
            return named
    return ()


def device_scope(equation: Any) -> DeviceScope | None:
    read_device = _DEVICE_SCOPES.get(equation.primitive.name)
    return None if read_device is None else read_device(equation)


def _shard_map(equation: Any) -> DeviceScope:
    params = equation.params
    mesh = _jax.read_mesh(params["mesh"])
    names = tuple(name for name, _ in mesh.axes)
    if "auto" in params:
        manual = set(names) - set(map(_jax.axis_name, params["auto"]))  # up to 0.6
    else:
        manual = set(map(_jax.axis_name, params.get("newly_manual_axes", params.get("manual_axes", names))))
    return DeviceScope(
        mesh=mesh,
        manual=tuple(name for name in names if name in manual),
        in_specs=_specs(params, "in", equation.invars),
        out_specs=_specs(params, "out", equation.outvars),
        mapped=False,
        checked=bool(params.get("check_vma", params.get("check_rep", False))),
    )


def _specs(params: Mapping[str, Any], side: str, variables: Sequence[Any]) -> tuple[Spec | None, ...]:
    ranks = [len(getattr(var.aval, "shape", ())) for var in variables]
    if f"{side}_specs" in params:
        return tuple(
            _jax.read_spec(spec, rank) for spec, rank in zip(params[f"{side}_specs"], ranks, strict=True)
        )
    return tuple(  # up to 0.5: for each array a dict from its axes to mesh axes
        tuple(tuple(map(_jax.axis_name, names.get(axis, ()))) for axis in range(rank))
        for names, rank in zip(params[f"{side}_names"], ranks, strict=True)
    )


def _xla_pmap(equation: Any) -> DeviceScope:
    params = equation.params
    axis = _jax.axis_name(params["axis_name"])

    def spec(var: Any, mapped: int | None) -> Spec:
        return tuple((axis,) if place == mapped else () for place in range(len(var.aval.shape)))

    return DeviceScope(
        mesh=Mesh(((axis, int(params["global_axis_size"])),), _jax.device_ids(params.get("devices") or ())),
        manual=(axis,),
        in_specs=tuple(map(spec, equation.invars, params["in_axes"])),
        out_specs=tuple(map(spec, equation.outvars, params["out_axes"])),
        mapped=True,
    )


_DEVICE_SCOPES = {"shard_map": _shard_map, "xla_pmap": _xla_pmap}


Shardings = tuple[Sharding | None, ...]


def shardings(equation: Any) -> tuple[Shardings, Shardings]:
    """How an equation asks for its operands and its results to lie; empty where it says nothing of any."""
    place_of = _SHARDINGS.get(equation.primitive.name)
    if place_of is None:
        return (), ()
    asked_in, asked_out = place_of(equation.params)
    return _read_shardings(asked_in, equation.invars), _read_shardings(asked_out, equation.outvars)


def _read_shardings(asked: Sequence[Any], variables: Sequence[Any]) -> Shardings:
    if len(asked) != len(variables):
        return ()
    ranks = (len(getattr(var.aval, "shape", ())) for var in variables)
    read = tuple(_jax.read_sharding(sharding, rank) for sharding, rank in zip(asked, ranks, strict=True))
    return read if any(read) else ()


def _of_jit(params: Mapping[str, Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    return params.get("in_shardings", ()), params.get("out_shardings", ())


_SHARDINGS: dict[str, Callable[[Mapping[str, Any]], tuple[Sequence[Any], Sequence[Any]]]] = {
    "jit": _of_jit,
    "pjit": _of_jit,
    "sharding_constraint": lambda params: ((), (params["sharding"],)),
    "reshard": lambda params: ((), (params["dst_sharding"],)),
    "device_put": lambda params: ((), params["devices"]),
}
