"""Gives every jaxpr that somebody else's code traces to jaxprviz, and lists what does not hold.

    python -m pytest -p corpus --corpus=DIR path/of/their/tests    the jaxprs of a test suite (PYTHONPATH=tools)
    python tools/corpus.py harnesses [NUMBER [PART]]               JAX's own examples of its primitives
    python tools/corpus.py numpy                                   jax.numpy, jax.scipy, jax.nn, jax.lax, jax.random
    python tools/corpus.py run SCRIPT                              the jaxprs of a script

What has to hold is in `invariants`.  A problem of each kind is written once, with the jaxpr, into DIR
(`--report` of the other commands).
"""

from __future__ import annotations

import argparse
import collections
import inspect
import itertools
import os
import re
import runpy
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import stages
from jax._src.interpreters import mlir

sys.path.insert(0, str(Path(__file__).parent.parent))

from invariants import Problem, distinct, picture, problems

from jaxprviz import _jax
from jaxprviz._pmap import fold_pmaps
from jaxprviz._read import read
from jaxprviz._render import render

LARGEST = 20_000
"""Jaxprs with more equations are counted, not read."""


class Collector:
    """The jaxprs so far, each kind of problem once."""

    def __init__(self, folder: Path | None = None, rendered: int = 40) -> None:
        self.folder = folder
        self.seen: set[int] = set()
        self.waiting: list[tuple[Any, str | None]] = []
        self.kinds: collections.Counter[str] = collections.Counter()
        self.first: dict[str, tuple[str, Problem]] = {}
        self.primitives: collections.Counter[str] = collections.Counter()
        self.too_large = 0
        self._render_left, self._unrendered = rendered, 0

    def add(self, jaxpr: Any, where: str) -> None:
        """Checks a jaxpr, unless one of the same equations was checked before."""
        print_ = fingerprint(jaxpr)
        if print_ in self.seen:
            return
        self.seen.add(print_)
        if sum(len(one.eqns) for one in distinct(jaxpr)) > LARGEST:
            self.too_large += 1
            return
        for one in distinct(jaxpr):
            self.primitives.update(equation.primitive.name for equation in one.eqns)
        found = problems(jaxpr)
        self._unrendered += 1
        if self._render_left and self._unrendered >= 25:
            self._render_left, self._unrendered = self._render_left - 1, 0
            found += self._rendered(jaxpr)
        for problem in found:
            self.kinds[problem.kind] += 1
            if problem.kind not in self.first:
                self.first[problem.kind] = (where, problem)
                self._write(problem, where, jaxpr)

    @staticmethod
    def _rendered(jaxpr: Any) -> list[Problem]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                render(picture(fold_pmaps(read(jaxpr))))
        except Exception as error:
            return [Problem(f"render: {type(error).__name__}", str(error))]
        return []

    def later(self, jaxpr: Any, where: str | None = None) -> None:
        """Keeps a jaxpr until `check_waiting`: it may just be in the making."""
        self.waiting.append((jaxpr, where))

    def check_waiting(self, where: str) -> None:
        waiting, self.waiting = self.waiting, []
        for jaxpr, place in waiting:
            self.add(jaxpr, place or where)

    def _write(self, problem: Problem, where: str, jaxpr: Any) -> None:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"\W+", "_", problem.kind)[:80]
            text = f"{problem.kind}\n{where}\n\n{problem.text}\n\n{jaxpr}\n"
            (self.folder / f"{name}.txt").write_text(text, encoding="utf-8")

    def report(self) -> str:
        lines = [
            f"{len(self.seen)} different jaxprs, {sum(self.primitives.values())} equations of "
            f"{len(self.primitives)} primitives; {self.too_large} too large; JAX {jax.__version__}"
        ]
        for kind, count in self.kinds.most_common():
            where, problem = self.first[kind]
            lines.append(f"{count:6}  {kind}\n        {where}: {_last_line(problem.text)[:300]}")
        return "\n".join([*lines, "" if self.kinds else "no problem"])


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return (lines[-1] if lines and lines[0].startswith("Traceback") else lines[0] if lines else "").strip()


def fingerprint(jaxpr: Any) -> int:
    """The same number for jaxprs of the same equations and types, whatever the numbers in them."""
    parts: list[Any] = []
    for one in distinct(jaxpr):
        parts.append((len(one.invars), len(one.outvars), len(one.constvars)))
        parts.extend(
            (equation.primitive.name, *(str(var.aval) for var in (*equation.invars, *equation.outvars)))
            for equation in one.eqns
        )
    return hash(tuple(parts))


def install(collector: Collector) -> None:
    """From now on each jaxpr that is traced by `jit` and `make_jaxpr`, or lowered, is kept."""
    lower, trace = mlir.lower_jaxpr_to_module, stages.Traced.__init__

    def lowered(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if _jax.is_jaxpr(value):
                collector.later(value)
        return lower(*args, **kwargs)

    def traced(self: Any, *args: Any, **kwargs: Any) -> None:
        trace(self, *args, **kwargs)
        collector.later(self.jaxpr)

    mlir.lower_jaxpr_to_module = lowered
    stages.Traced.__init__ = traced


# --- as a plugin of pytest ----------------------------------------------------------------------------------

_COLLECTOR: Collector | None = None


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--corpus", default="corpus-report", help="the folder for what does not hold")


def pytest_configure(config: Any) -> None:
    global _COLLECTOR
    _COLLECTOR = Collector(Path(config.getoption("--corpus")))
    install(_COLLECTOR)
    # A suite that takes too long is stopped with SIGTERM: what was found so far is still told.
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("stopped"))


def pytest_runtest_teardown(item: Any) -> None:
    if _COLLECTOR is not None:
        _COLLECTOR.check_waiting(item.nodeid)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _COLLECTOR is not None:
        terminalreporter.section("jaxprs")
        terminalreporter.write_line(_COLLECTOR.report())


# --- corpora that JAX carries -------------------------------------------------------------------------------

Example = tuple[str, Callable[..., Any], tuple[Any, ...]]
"""A name, a function and example arguments."""


def harnesses() -> Iterator[Example]:
    """JAX's own examples of its primitives."""
    from jax._src.internal_test_util import test_harnesses

    for harness in test_harnesses.all_harnesses:
        if harness.filter("cpu"):
            # The generator starts anew for each, so that a selection has the arguments of the whole.
            yield harness.fullname, harness.dyn_fun, tuple(harness.dyn_args_maker(np.random.RandomState(0)))


def functions(every: int = 1) -> Iterator[Example]:
    """The functions of JAX's public modules, with the first small arguments that each of them takes.

    Args:
        every: of so many functions one.
    """
    modules = [jnp, jnp.linalg, jnp.fft, jax.nn, jax.lax, jax.lax.linalg, jax.random, jax.image]
    modules += [
        jax.scipy.special,
        jax.scipy.linalg,
        jax.scipy.stats,
        jax.scipy.signal,
        jax.scipy.sparse.linalg,
    ]
    modules += [
        jax.scipy.stats.norm,
        jax.scipy.stats.multivariate_normal,
        jax.scipy.interpolate,
        jax.scipy.fft,
    ]
    named = [(module, name) for module in modules for name in sorted(vars(module)) if name[0] != "_"]
    for module, name in named[::every]:
        function = getattr(module, name, None)
        if not callable(function) or inspect.isclass(function):
            continue
        for arguments in _arguments(module is jax.random):
            example = (f"{module.__name__}.{name}", function, arguments)
            if jaxpr_of(example) is not None:
                yield example
                break


def _arguments(random: bool) -> Iterator[tuple[Any, ...]]:
    matrix, vector, whole = jnp.eye(3) * 2.0, jnp.arange(1.0, 4.0) / 4, jnp.arange(3)
    if random:
        for key in (jax.random.key(0), jax.random.PRNGKey(0)):
            yield (key,)
            for more in ((vector,), (vector, vector), (3,), (vector, matrix), (matrix, vector), (3, vector)):
                yield (key, *more)
        return
    for count in (1, 2, 3, 4):
        for kind in (matrix, vector, whole, whole > 0, vector[0], jnp.ones((1, 4, 4, 2))):
            yield (kind,) * count
    yield from itertools.product((matrix, vector), (vector, whole, 1, (3, 3)), (vector, 0, 1))
    yield from itertools.product((matrix, vector, [vector, vector]), (1, (1,), (3, 3), "linear", jnp.float16))


def transformed(example: Example) -> Iterator[Example]:
    """A function alone and as it is differentiated, mapped, repeated and jitted."""
    name, function, arguments = example
    yield example

    def total(*args: Any) -> Any:
        leaves = jax.tree.leaves(function(*args))
        return sum(jnp.sum(leaf.real) for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.inexact))

    floats = tuple(
        place for place, value in enumerate(arguments) if _is_array(value) and value.dtype == jnp.float32
    )
    arrays = tuple(place for place, value in enumerate(arguments) if _is_array(value))
    if floats:
        yield f"grad of {name}", jax.grad(total, floats), arguments
        yield f"jit of grad of jit of {name}", jax.jit(jax.grad(jax.jit(total), floats)), arguments
        yield f"grad of remat of {name}", jax.grad(jax.checkpoint(total), floats), arguments
    if len(arrays) < len(arguments) or not arrays:
        return
    batch = _stacked(arguments)
    yield f"vmap of {name}", jax.vmap(function), batch
    yield f"map of {name}", lambda *args: jax.lax.map(lambda one: function(*one), args), batch
    yield f"jit of vmap of jit of {name}", jax.jit(jax.vmap(jax.jit(function))), batch
    yield f"capture of {name}", lambda *args: jax.jit(lambda x: (x, function(*args)))(1.0), arguments
    if len(jax.devices()) >= 2:
        yield f"pmap of {name}", jax.pmap(function), batch
        yield f"jit of pmap of vmap of {name}", jax.jit(jax.pmap(jax.vmap(function))), _stacked(batch)
        yield f"shard_map of {name}", _over_devices(jax.vmap(function)), batch
        yield (
            f"capture in shard_map of {name}",
            _over_devices(lambda x: (x, function(*arguments))),
            (jnp.ones(2),),
        )
        if floats:
            yield (
                f"grad of shard_map of {name}",
                jax.grad(_over_devices(jax.vmap(total), summed=True), floats),
                batch,
            )
    if floats and len(floats) == len(arguments):
        yield f"jvp of {name}", lambda *args: jax.jvp(function, args, args), arguments
        yield f"linearize of {name}", lambda *args: jax.linearize(function, *args)[1](*args), arguments
        yield f"grad of vmap of {name}", jax.grad(jax.vmap(total), floats), batch
        stepped = jax.grad(
            lambda *args: jax.lax.scan(lambda c, one: (c + total(*one), c), 0.0, args)[0], floats
        )
        yield f"grad of scan of {name}", stepped, batch


def _stacked(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(jnp.stack([value, value]) for value in arrays)


def _over_devices(function: Callable[..., Any], summed: bool = False) -> Callable[..., Any]:
    """A function of arrays that are split over two devices."""
    mesh = jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:2])
    split = jax.sharding.PartitionSpec("data")
    if not summed:
        return jax.shard_map(function, mesh=mesh, in_specs=split, out_specs=split, check_vma=False)

    def sum_(*args: Any) -> Any:
        return jax.lax.psum(jnp.sum(function(*args)), "data")

    return jax.shard_map(sum_, mesh=mesh, in_specs=split, out_specs=jax.sharding.PartitionSpec())


def _is_array(value: Any) -> bool:
    return isinstance(value, (jax.Array, np.ndarray))


def jaxpr_of(example: Example) -> Any:
    """The jaxpr of an example; None where JAX refuses to trace it."""
    _, function, arguments = example
    static = tuple(place for place, value in enumerate(arguments) if not _traceable(value))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # A function of its own: `jit` does not bear each callable that there is.
            return jax.make_jaxpr(lambda *args: function(*args), static_argnums=static)(*arguments)
    except Exception:
        return None  # not of every function there is a gradient, and not every one takes a batch


def _traceable(value: Any) -> bool:
    return all(map(_is_array, jax.tree.leaves(value)))


def run(examples: Iterator[Example], collector: Collector, more: bool = True) -> None:
    for example in examples:
        for variant in transformed(example) if more else (example,):
            jaxpr = jaxpr_of(variant)
            if jaxpr is not None:
                collector.add(jaxpr, variant[0])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("harnesses", "numpy", "run"))
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--report", type=Path, default=Path("corpus-report"))
    parser.add_argument("--plain", action="store_true", help="no gradients, batches and so on")
    given = parser.parse_args(arguments)
    jax.config.update("jax_num_cpu_devices", 8)
    collector = Collector(given.report)
    if given.what == "run":
        install(collector)
        sys.argv = given.rest
        runpy.run_path(given.rest[0], run_name="__main__")
        collector.check_waiting(given.rest[0])
    elif given.what == "numpy":
        run(functions(), collector, not given.plain)
    else:
        step, first = (int(given.rest[at]) if len(given.rest) > at else at ^ 1 for at in (0, 1))
        run(itertools.islice(harnesses(), first, None, step), collector, not given.plain)
    print(collector.report())
    return bool(collector.kinds)


if __name__ == "__main__":
    sys.exit(main())
