"""Records what an older JAX makes of a lesson's program, so that the lesson can show it beside today's.

    uv venv --python 3.11 /somewhere/j0438
    uv pip install -p /somewhere/j0438/bin/python "jax==0.4.38"
    /somewhere/j0438/bin/python tools/record.py jaxprviz/lessons/jit_pmap_0_4_38.json

Needs only that JAX: of jaxprviz the reader alone is used, which draws nothing.  Written are the program that
was traced, as `jaxprviz.to_json` writes it, and what a run of it showed ("observed"): how the result lies
over the devices, what JAX warned of, which collectives the compiled program has, and how many times as long
as `pmap(step)` a call of `jit(pmap(step))` took.  All but the last comes out the same on each machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

DEVICES = 8
USED = 4
"""Of the devices the question's program uses so many."""

ROUNDS = 30


def question() -> Any:
    """The program of the lesson on pmap inside jit."""

    @jax.jit
    def f(w, x):
        @jax.pmap
        def g(x):
            return w * x

        return g(x)

    return f


def observe() -> dict[str, Any]:
    """What a run of the program shows."""
    f, w, x = question(), jnp.ones((2, 3)), jnp.ones((USED, 2, 3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = f(w, x)
        compiled = f.lower(w, x).compile().as_text()
    shards = sorted(result.addressable_shards, key=lambda shard: shard.device.id)
    return {
        "shape": list(result.shape),
        "held": [
            [list(part.indices(size)[:2]) for part, size in zip(shard.index, result.shape, strict=True)]
            for shard in shards
        ],
        "warnings": list(dict.fromkeys(str(one.message) for one in caught)),
        "collectives": [name for name in COLLECTIVES if f"{name}(" in compiled],
        "slower": slower(),
    }


COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")


def slower() -> float:
    """How many times as long as `pmap(step)` a call of `jit(pmap(step))` takes: the median of many pairs."""
    w, x = jnp.ones((256, 256)), jnp.ones((DEVICES, 256, 256))
    alone = jax.pmap(lambda x: jnp.tanh(x @ w))
    inside = jax.jit(alone)

    def seconds(fn: Callable[..., Any]) -> float:
        start = time.perf_counter()
        jax.block_until_ready(fn(x))
        return time.perf_counter() - start

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = alone(x)  # from now on it lies where pmap wants it
        for fn in (alone, inside):
            seconds(fn)
        ratios = [seconds(inside) / seconds(alone) for _ in range(ROUNDS)]
    return round(statistics.median(ratios), 1)


def traced() -> Any:
    """The program's jaxpr.  It is assigned to nothing: a result is called by the name that it is given."""
    return jax.make_jaxpr(question())(jnp.ones((2, 3)), jnp.ones((USED, 2, 3)))


def record() -> str:
    """The recording, as JSON text."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from jaxprviz._json import to_json
    from jaxprviz._read import read

    told = to_json(read(traced(), "f")).removesuffix("\n}\n")
    observed = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in observe().items())
    return f'{told},\n "observed": {{\n{observed}\n }}\n}}\n'


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="where to write the recording")
    arguments = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "cpu"  # JAX reads both when it starts, with the first array
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
    arguments.file.write_text(record(), encoding="utf-8")
    print(f"Wrote {arguments.file}, by JAX {jax.__version__}.")


if __name__ == "__main__":
    main()
