"""Time to trace, to read, to find facts and to draw, in microseconds an equation.

    python benchmarks/read.py
    python benchmarks/read.py 10000     no program of more equations than that

Each program is traced by `jax.make_jaxpr` too, in the same run: reading adds to it, and is never slower than it.
Equations are counted as JAX holds them: the body of a function that is called from many places once.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxprviz._captures import all_captures, captures
from jaxprviz._describe import describe
from jaxprviz._dot import dot
from jaxprviz._flow import flow
from jaxprviz._fold import fold
from jaxprviz._placement import placement
from jaxprviz._pmap import fold_pmaps
from jaxprviz._read import read
from jaxprviz.program import Program

REPEATS = 5
LONG = 10_000
"""Equations from which on each time is taken once."""


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

        return level(depth - 1)(x)

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


def scans(count: int) -> Callable[..., Any]:
    def f(x, w):
        for _ in range(count):
            x, _ = jax.lax.scan(lambda c, _: (jnp.sin(c) * w, None), x, None, length=3)
        return x

    return f


CASES = (
    *((f"{count:,} equations in a row", unrolled, count) for count in (100, 1_000, 10_000, 100_000)),
    ("30 jits in each other", nested, 30),
    ("200 jits in each other", nested, 200),
    ("1,000 calls of one jitted function", calls, 1_000),
    ("5,000 calls of one jitted function", calls, 5_000),
    ("300 scans in a row", scans, 300),
)


def median(work: Callable[[], Any], repeats: int) -> float:
    """Seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


FACTS: dict[str, Callable[[Program], object]] = {
    "captures": all_captures,
    "flow": lambda program: [flow(program)],
    "describe": describe,
    "draw": lambda program: dot(program, fold(program), captures, placement),
}


def measured(make: Callable[[int], Callable[..., Any]], size: int) -> dict[str, float]:
    """Microseconds an equation, by what is done."""
    x = jnp.ones(3)
    jaxpr = jax.make_jaxpr(make(size))(x, x)
    program = fold_pmaps(read(jaxpr))
    count = sum(len(body.equations) for body in program.bodies)
    repeats = 1 if count >= LONG else REPEATS
    # A function made anew each time: JAX keeps what it traced of the old one.
    seconds = {
        "make_jaxpr": median(lambda: jax.make_jaxpr(make(size))(x, x), repeats),
        "read": median(lambda: read(jaxpr), repeats),
        **{name: median(lambda fact=fact: fact(program), repeats) for name, fact in FACTS.items()},
    }
    return {name: each / count * 1e6 for name, each in seconds.items()}


def main() -> None:
    sys.setrecursionlimit(20_000)  # JAX itself needs that for 200 jits in each other
    most = int(sys.argv[1]) if len(sys.argv) > 1 else max(size for _, _, size in CASES)
    print(f"JAX {jax.__version__}, median of {REPEATS}, microseconds an equation")
    columns = ("make_jaxpr", "read", *FACTS)
    print(f"{'':36}{''.join(f'{name:>11}' for name in columns)}{'read/make_jaxpr':>17}")
    for name, make, size in CASES:
        if size <= most:
            each = measured(make, size)
            numbers = "".join(f"{each[column]:11.1f}" for column in columns)
            print(f"{name:36}{numbers}{each['read'] / each['make_jaxpr']:17.2f}", flush=True)


if __name__ == "__main__":
    main()
