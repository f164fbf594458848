"""How fast the picture follows a slider, in the browser and in the kernel, and what the import costs.

    python benchmarks/slider.py            prints the figures
    python benchmarks/slider.py --check    fails as well when one is over its bar

The program is that of the question, a `pmap` inside `jit`, on 4 simulated devices.  What moves is the batch,
and each position is a new one: a picture that was drawn before costs less.  Beside the explorer stands the
barest thing that could do it: a slider and an `ipywidgets.HTML` that shows stored pictures of the same size.
The ratio to that says more than milliseconds, which are those of the machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Locator, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from labdriver import Lab, browsing, serving  # noqa: E402  # pyright: ignore[reportMissingImports]

MOVES = 20
PROCESSES = 5

SETUP = """\
import json, time
import ipywidgets
import jax
import jax.numpy as jnp
from jaxprviz import explore

jax.config.update("jax_num_cpu_devices", 8)

def build(devices=4, batch=2, d=3):
    @jax.jit
    def f(w, x):
        def g(block):
            return w * block
        return jax.pmap(g)(x)
    w = jax.ShapeDtypeStruct((batch, d), jnp.float32)
    return f, (w, jax.ShapeDtypeStruct((devices, batch, d), jnp.float32))

explorer = explore(build, devices=(1, 8), batch=(1, 64), d=(1, 8))"""

KERNEL = f"""\
def timed(explorer, d):
    took = []
    for batch in range(3, {MOVES + 3}):
        start = time.perf_counter()
        explorer.controls["batch"].value = batch
        took.append(1000 * (time.perf_counter() - start))
        assert explorer.error is None and "f32[4,%d,%d]" % (batch, d) in explorer.viewer.svg
    return took

def with_arrays(devices=5, batch=2, d=3):
    f, (w, x) = build(devices, batch, d)
    return f, (jnp.ones(w.shape), jnp.ones(x.shape))

arrays = explore(with_arrays, devices=(1, 8), batch=(1, 64), d=(1, 8))
arrays.set(devices=4, batch=2, d=4)  # other pictures than those that are drawn already
print(json.dumps([timed(explorer, 3), timed(arrays, 4)]))"""

BARE = f"""\
stored = {{2: explorer.viewer.svg}}
for batch in range(3, {MOVES + 3}):
    explorer.set(batch=batch)
    stored[batch] = explorer.viewer.svg
explorer.set(batch={MOVES + 3})
slider = ipywidgets.IntSlider(2, 1, 64, description="bare")
html = ipywidgets.HTML(stored[2])
html.add_class("bare-picture")
slider.observe(lambda change: setattr(html, "value", stored[change.new]), "value")
ipywidgets.VBox([slider, html])"""

# Milliseconds from the key to the change of the document, and to the frame after it.
WATCH = """(holder) => {
    window.took = [];
    let start = null;
    window.watching?.abort();
    window.watching = new AbortController();
    const begin = () => { start = performance.now(); };
    addEventListener("keydown", begin, {capture: true, signal: watching.signal});
    const watcher = new MutationObserver(() => {
        if (start === null) return;
        const begun = start, changed = performance.now();
        start = null;
        const frame = () => took.push([changed - begun, performance.now() - begun]);
        requestAnimationFrame(() => setTimeout(frame));
    });
    watcher.observe(holder, {childList: true, subtree: true});
    watching.signal.addEventListener("abort", () => watcher.disconnect());
}"""

IMPORT = """\
import time
start = time.perf_counter()
import jax
jaxed = time.perf_counter()
import jaxprviz
alone = time.perf_counter()
jaxprviz.draw
drawing = time.perf_counter()
jaxprviz.explore
exploring = time.perf_counter()
print(jaxed - start, alone - jaxed, drawing - jaxed, exploring - jaxed)"""


@dataclass(frozen=True)
class Row:
    """One line of the report: what was measured, in milliseconds, and how much it may be."""

    about: str
    took: Sequence[float]
    bar: float | None = None
    base: Sequence[float] | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.took)

    @property
    def missed(self) -> bool:
        return self.bar is not None and self.median > self.bar

    def __str__(self) -> str:
        low, _, high = statistics.quantiles(self.took, n=4)
        parts = [
            f"{self.about:44}",
            f"{self.median:7.1f} ms",
            f"  quartiles {low:6.1f} {high:6.1f}",
            f"  most {max(self.took):6.1f}",
        ]
        if self.base is not None:
            parts.append(f"  {self.median / statistics.median(self.base):5.2f} times the bare one")
        if self.bar is not None:
            parts.append(f"  bar {self.bar:.0f}: {'MISSED' if self.missed else 'kept'}")
        return "".join(parts)


def moved(lab: Lab, slider: Locator, holder: Locator) -> list[tuple[float, float]]:
    """Moves a slider by keys, each once the picture of the one before is there."""
    slider.scroll_into_view_if_needed()
    slider.focus()
    holder.evaluate(WATCH)
    for number in range(MOVES):
        lab.page.keyboard.press("ArrowRight")
        lab.page.wait_for_function("number => window.took.length > number", arg=number)
        lab.page.wait_for_timeout(60)  # a reader does not press at once
    took = lab.page.evaluate("window.took")
    assert len(took) == MOVES
    return [(changed, shown) for changed, shown in took]


def in_browser() -> list[Row]:
    """The moves in the browser, and those in the kernel of the same notebook."""
    with tempfile.TemporaryDirectory() as folder:
        notebooks, home = Path(folder, "notebooks"), Path(folder, "home")
        notebooks.mkdir()
        home.mkdir()
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        cells = [new_code_cell(source) for source in (SETUP, "explorer", KERNEL, BARE)]
        nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), notebooks / "slider.ipynb")
        with (
            serving(notebooks, home) as server,
            sync_playwright() as playwright,
            browsing(playwright) as browser,
        ):
            lab = Lab(browser.new_page(viewport={"width": 1200, "height": 1400}), server)
            lab.open("slider.ipynb")
            lab.run_all()
            abstract, concrete = json.loads(lab.printed(2))
            explorer = lab.explorer()
            bare = moved(lab, lab.page.get_by_role("slider").last, lab.page.locator(".bare-picture"))
            ours = moved(lab, explorer.slider("batch"), explorer.root.locator(".jaxprviz-picture"))
            lab.close()
    bare_changed, bare_shown = zip(*bare, strict=True)
    changed, shown = zip(*ours, strict=True)
    return [
        Row("bare HTML: key to new picture", bare_changed),
        Row("bare HTML: key to the frame after it", bare_shown),
        Row("explorer: key to new picture", changed, 80, bare_changed),
        Row("explorer: key to the frame after it", shown, None, bare_shown),
        Row("explorer: the kernel's part of it", abstract, 30),
        Row("the same, build making new JAX arrays", concrete),
    ]


def importing() -> list[Row]:
    """What the package adds to `import jax`, in fresh processes."""
    times = []
    for _ in range(PROCESSES + 1):
        done = subprocess.run(
            [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True, cwd=ROOT
        )
        times.append([1000 * float(part) for part in done.stdout.split()])
    jax, alone, drawing, exploring = zip(*times[1:], strict=True)  # the first one fills the disk's cache
    return [
        Row("import jax", jax),
        Row("import jaxprviz on top", alone, 100),
        Row("the same, and first use of draw", drawing),
        Row("the same, and first use of draw and explore", exploring),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="exit with status 1 when a figure is over its bar"
    )
    check = parser.parse_args().check
    rows = [*importing(), *in_browser()]
    print(*rows, sep="\n")
    return int(check and any(row.missed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
