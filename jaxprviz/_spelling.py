"""What a primitive is called in the code of those who use it: pictures show that; tooltips keep JAX's own name."""

from __future__ import annotations

SPELLED: dict[str, str] = {
    "pjit": "jit",
    "remat": "jax.checkpoint",
    "remat2": "jax.checkpoint",
    "checkpoint": "jax.checkpoint",
    "custom_jvp_call": "custom_jvp",
    "custom_vjp_call": "custom_vjp",
    "custom_vjp_call_jaxpr": "custom_vjp",
    "custom_vmap_call": "custom_vmap",
    "custom_dce_call": "custom_dce",
    "custom_transpose_call": "custom_transpose",
    "xla_metadata_call": "set_xla_metadata",
    "psum_invariant": "psum",
    "all_gather_invariant": "all_gather",
    "reduce_scatter": "psum_scatter",
    "sharding_constraint": "with_sharding_constraint",
    "debug_print": "jax.debug.print",
    "debug_callback": "jax.debug.callback",
}


def spelled(primitive: str) -> str:
    """JAX's name of a primitive as its users write it; itself where they write it so."""
    return SPELLED.get(primitive, primitive)
