"""Time to trace and to read, in microseconds an equation, beside `jax.make_jaxpr` of the same function.

    python benchmarks/read.py

Reading is what jaxprviz adds to tracing; describing walks what was read once more.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxprviz._describe import describe
from jaxprviz._pmap import fold_pmaps
from jaxprviz._read import read
from jaxprviz._trace import trace

REPEATS = 5


def unrolled(count: int) -> Callable[..., Any]:
    def f(x, w):
        for _ in range(count):
            x = jax.lax.add(x, w)
        return x

    return f


def nested(depth: int) -> Callable[..., Any]:
    def f(x, w):
        def level(n):
            inner = (lambda v: v * w) if n == 0 else level(n - 1)
            return jax.jit(lambda v: inner(v) + w)

        return level(depth)(x)

    return f


def calls(count: int) -> Callable[..., Any]:
    @jax.jit
    def inner(x, w):
        return jnp.tanh(x) * w

    def f(x, w):
        for _ in range(count):
            x = inner(x, w)
        return x

    return f


CASES = (
    *((f"{count:,} equations in a row", unrolled, count) for count in (100, 1_000, 10_000)),
    ("30 jits in each other", nested, 30),
    ("1,000 calls of one jitted function", calls, 1_000),
)


def median(work: Callable[[], Any]) -> float:
    """Seconds."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    x = jnp.ones(3)
    print(f"JAX {jax.__version__}, median of {REPEATS}, microseconds an equation")
    print(f"{'':36}{'make_jaxpr':>11}{'read':>8}{'ratio':>7}{'trace':>8}{'describe':>9}")
    for name, make, size in CASES:
        # A function made anew each time: JAX keeps what it traced of the old one.
        jaxpr = jax.make_jaxpr(make(size))(x, x)
        program = fold_pmaps(read(jaxpr))
        count = sum(len(body.equations) for body in program.bodies)
        columns = {
            "make_jaxpr": median(lambda make=make, size=size: jax.make_jaxpr(make(size))(x, x)),
            "read": median(lambda jaxpr=jaxpr: read(jaxpr)),
            "trace": median(lambda make=make, size=size: trace(make(size), x, x)),
            "describe": median(lambda program=program: describe(program)),
        }
        each = {key: seconds / count * 1e6 for key, seconds in columns.items()}
        ratio = each["read"] / each["make_jaxpr"]
        print(
            f"{name:36}{each['make_jaxpr']:11.1f}{each['read']:8.1f}{ratio:7.2f}"
            f"{each['trace']:8.1f}{each['describe']:9.1f}"
        )


if __name__ == "__main__":
    main()
