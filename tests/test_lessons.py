"""The lessons: their exercises and helpers, and the form of the notebooks."""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxprviz import same_program
from jaxprviz._exercise import Exercise, Outcome
from jaxprviz.errors import RenderError
from jaxprviz.lessons import pmap_inside_jit, start_here

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EXERCISES = {"00_start_here": start_here.exercise, "07_pmap_inside_jit": pmap_inside_jit.exercise}

MODERN = jax.__version_info__ >= (0, 8)

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
each_exercise = pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)


def function_of(source: str) -> Callable[..., Any]:
    names: dict[str, Any] = {"jax": jax, "jnp": jnp}
    exec(source, names)
    return names["answer"]


# --- exercises ---------------------------------------------------------------------------------------------


@each_exercise
@pytest.mark.filterwarnings("ignore:The function jit:UserWarning")
def test_the_solution_is_correct_and_the_stub_is_not_attempted(exercise: Exercise) -> None:
    assert exercise.check(function_of(exercise.solved)).outcome is Outcome.CORRECT
    assert exercise.check(function_of(exercise.stub)).outcome is Outcome.NOT_ATTEMPTED
    assert exercise.check(...).outcome is Outcome.NOT_ATTEMPTED


@each_exercise
def test_an_answer_that_does_not_fit_the_arguments_is_told(exercise: Exercise) -> None:
    verdict = exercise.check(lambda w: w)
    assert verdict.outcome is Outcome.INCORRECT
    assert verdict.message.startswith("It does not run: tracing it failed with TypeError:")


def own_g(w, x):
    return w * x


OWN_WEIGHTS: dict[str, tuple[Callable[..., Any], str]] = {
    "axis 0 of w": (
        lambda w, x: jax.pmap(own_g)(w, x),
        "JAX refuses it: pmap of own_g splits axes of different sizes over the devices: axis 0 of w has 2, "
        "axis 0 of x has 4. Axis 0 of w does not count the devices: look at the shape of w for the axis that "
        "does. in_axes takes one entry for each argument, none of them negative.",
    ),
    "passed whole, one slice used": (
        lambda w, x: jax.pmap(lambda w, x: w[:, :, 0] * x, in_axes=(None, 0))(w, x),
        "Each of the 4 devices holds a whole f32[2,3,4]: 384 bytes in all. A captured variable, and one with "
        "in_axes=None, is copied whole. Pass w to g, and name the axis of w to split.",
    ),
    "captured whole, own slice used": (
        lambda w, x: jax.pmap(lambda x: w[:, :, jax.lax.axis_index("i")] * x, axis_name="i")(x),
        "The numbers are right, but each of the 4 devices holds a whole f32[2,3,4]: 384 bytes in all. A "
        "captured variable, and one with in_axes=None, is copied whole. Pass w to g, and name the "
        "axis of w to split.",
    ),
    "passed whole": (
        lambda w, x: jax.pmap(own_g, in_axes=(None, 0))(w, x),
        "Inside g the shapes of w and x do not fit. When pmap splits w along its last axis, g sees f32[2,3] "
        "of it, as it does of x.",
    ),
    "turned round": (
        lambda w, x: jax.pmap(own_g)(w.T, x),
        "Inside g the shapes of w and x do not fit. When pmap splits w along its last axis, g sees f32[2,3] "
        "of it, as it does of x.",
    ),
    "as a decorator": (
        lambda w, x: jax.pmap(in_axes=(2, 0))(own_g)(w, x),  # pyright: ignore[reportCallIssue]
        "pmap takes its function first: write jax.pmap(g, in_axes=...)(w, x), without the decorator.",
    ),
    "split and indexed": (
        lambda w, x: jax.pmap(lambda w, x: w[:, :, 0] * x, in_axes=(2, 0))(w, x),
        "g already sees its own f32[2,3] of w: there is no axis left to index.",
    ),
    "no pmap": (
        lambda w, x: jnp.moveaxis(w, 2, 0) * x,
        "Nothing in it runs once on each device: there is no pmap (and no shard_map). Keep the pmap, and "
        "split w with it.",
    ),
    "weights in the wrong order": (
        lambda w, x: jax.pmap(own_g, in_axes=(2, 0))(w[:, :, ::-1], x),
        "Each device has weights of its own, but device 0 has made other numbers than w[:, :, 0] * x[0].",
    ),
}


@pytest.mark.parametrize("mistake", OWN_WEIGHTS)
@pytest.mark.filterwarnings("ignore:The function jit:UserWarning")
def test_own_weights_tells_the_likely_mistakes(mistake: str) -> None:
    answer, message = OWN_WEIGHTS[mistake]
    verdict = pmap_inside_jit.exercise.check(jax.jit(answer))
    assert (verdict.outcome, verdict.message) == (Outcome.INCORRECT, message)


@pytest.mark.skipif(not MODERN, reason="up to 0.7 JAX fails on out_axes=1 inside jit")
def test_own_weights_tells_that_the_results_were_stacked_elsewhere() -> None:
    answer = jax.jit(lambda w, x: jax.pmap(own_g, in_axes=(2, 0), out_axes=1)(w, x))
    assert pmap_inside_jit.exercise.check(answer).message == (
        "The result has the shape (2, 4, 3), not (4, 2, 3): the devices' results belong side by side along "
        "axis 0, as pmap's out_axes=0 puts them."
    )


@pytest.mark.filterwarnings("ignore:The function jit:UserWarning")
def test_own_weights_accepts_other_ways() -> None:
    told = "One device holds 24 bytes of weights, its own, and all of them 96 bytes: none is there twice."
    mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    split_last, split = jax.sharding.PartitionSpec(None, None, "i"), jax.sharding.PartitionSpec("i")

    def sharded(w, x):
        def g(w, x):
            return jnp.moveaxis(w, 2, 0) * x

        return jax.shard_map(g, mesh=mesh, in_specs=(split_last, split), out_specs=split)(w, x)

    moved = jax.jit(lambda w, x: jax.pmap(own_g)(jnp.moveaxis(w, 2, 0), x))
    for answer in (moved, sharded, jax.pmap(own_g, in_axes=(2, 0))):
        verdict = pmap_inside_jit.exercise.check(answer)
        assert (verdict.outcome, verdict.message) == (Outcome.CORRECT, told)


def _default(w, x):
    @jax.jit
    def g(x, w=w):
        return w * x

    return g(x) + 1.0


def _captured_elsewhere(w, x):
    @jax.jit
    def g(x):
        return w * x + 1.0

    return g(x)


def _sum(w, x):
    @jax.jit
    def g(w, x):
        return w + x

    return g(w, x) + 1.0


def _forgotten(w, x):
    @jax.jit
    def g(w, x):
        return w * x

    return g(x) + 1.0  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("answer", "outcome", "start"),
    [
        (_default, Outcome.NOT_ATTEMPTED, "g captures w, as it does in the stub"),
        (_captured_elsewhere, Outcome.INCORRECT, "Something is captured still"),
        (_sum, Outcome.INCORRECT, "The result is no longer w * x + 1."),
        (_forgotten, Outcome.INCORRECT, "It does not run: tracing it failed with TypeError"),
        (lambda w, x: w * x + 1.0, Outcome.INCORRECT, "Nothing is captured, but there is no frame of g left"),
    ],
)
def test_the_first_exercise_tells_the_likely_mistakes(
    answer: Callable[..., Any], outcome: Outcome, start: str
) -> None:
    verdict = start_here.exercise.check(jax.jit(answer))
    assert verdict.outcome is outcome
    assert verdict.message.startswith(start)


def test_the_first_exercise_says_that_the_program_stayed_the_same() -> None:
    exercise = start_here.exercise
    stub, solved = function_of(exercise.stub), function_of(exercise.solved)
    assert same_program(stub, solved, *exercise.arguments)
    assert "it is the program of the stub, step by step" in exercise.check(solved).message


# --- helpers -----------------------------------------------------------------------------------------------


def test_the_setup_is_checked() -> None:
    lines = start_here.check_setup().splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "works   tracing",
        "works   devices",
        "works   pictures",
        "works   sliders",
    ]
    assert lines[1] == "works   devices: 8 simulated CPU devices"


def test_a_check_that_fails_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> str:
        raise RenderError("a picture was asked for", "there is no Graphviz", "Install it.")

    def misses() -> str:
        raise ImportError("No module named 'anywidget'")

    monkeypatch.setattr(start_here, "_CHECKS", {"pictures": fails, "sliders": misses})
    assert start_here.check_setup() == (
        "FAILS   pictures: a picture was asked for: there is no Graphviz\n"
        "        Install it.\n"
        "FAILS   sliders: ImportError: No module named 'anywidget'"
    )


def test_times_as_long_compares_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(pmap_inside_jit.time, "perf_counter", lambda: now[0])

    def lasts(seconds: float) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            now[0] += seconds
            return x

        return call

    assert pmap_inside_jit.times_as_long(lasts(6.0), lasts(2.0), jnp.ones(1), rounds=3) == 3.0


# --- the form of the notebooks -----------------------------------------------------------------------------

SETUP = "import jaxprviz\n\njaxprviz.use_devices(8)"


def read(path: Path) -> Any:
    nbformat = pytest.importorskip("nbformat")
    return nbformat.read(path, as_version=4)


def html_of(cells: list[Any]) -> Iterator[str]:
    for cell in cells:
        for output in cell.get("outputs", ()):
            yield output.get("data", {}).get("text/html", "")


def images(html: str) -> list[dict[str, str | None]]:
    found: list[dict[str, str | None]] = []

    class Images(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag == "img":
                found.append(dict(attrs))

    parser = Images()
    parser.feed(html)
    parser.close()
    return found


@pytest.mark.locked
def test_the_notebooks_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS] == list(EXERCISES)


@pytest.mark.locked
@each_notebook
def test_it_begins_with_what_to_expect_and_the_set_up(path: Path) -> None:
    first, second = read(path).cells[:2]
    assert first.source.startswith(f"# {path.stem[:2]} · ")
    assert re.search(r"\*\*\d+ minutes\.\*\*", first.source)
    assert "Afterwards you can" in first.source
    assert (second.cell_type, second.source) == ("code", SETUP)


@pytest.mark.locked
@each_notebook
def test_it_ends_with_three_lines(path: Path) -> None:
    _, _, lines = read(path).cells[-1].source.partition("## Three lines to take away\n")
    assert re.findall(r"^(\d)\. ", lines, re.MULTILINE) == ["1", "2", "3"]


@pytest.mark.locked
@each_notebook
def test_two_questions_and_the_default_picture_stand_before_each_slider(path: Path) -> None:
    cells = read(path).cells
    sliders = [number for number, cell in enumerate(cells) if "jaxprviz.explore(" in cell.source]
    assert sliders
    for number in sliders:
        above = [cell for cell in cells[:number] if cell.cell_type == "code"][-1]
        assert above.source.endswith("fn, args = build()\njaxprviz.draw(fn, *args)")
        assert set(above.outputs[0].data) == {"text/html", "image/svg+xml", "text/plain"}
        question = [cell for cell in cells[: cells.index(above)] if cell.cell_type == "markdown"][-1].source
        asked, _, answers = question.partition("<details>")
        assert re.findall(r"^(\d)\. ", asked, re.MULTILINE) == ["1", "2"]
        assert re.findall(r"^(\d)\. ", answers, re.MULTILINE) == ["1", "2"]


@pytest.mark.locked
@each_notebook
def test_its_exercise_is_the_stub(path: Path) -> None:
    cells = read(path).cells
    (stub,) = [cell for cell in cells if "def answer(" in cell.source]
    assert stub.source == EXERCISES[path.stem].stub
    checked = next(cell for cell in cells if "exercise.check(answer)" in cell.source)
    assert checked.outputs[0].data["text/plain"].startswith("Not attempted. ")


@pytest.mark.locked
@each_notebook
def test_each_cell_fits_a_screen(path: Path) -> None:
    for cell in read(path).cells:
        lines = cell.source.splitlines()
        assert len(lines) <= 30, lines[0]
        assert cell.cell_type == "markdown" or max(map(len, lines)) <= 110


@pytest.mark.locked
@each_notebook
def test_each_picture_has_an_alt_text(path: Path) -> None:
    cells = read(path).cells
    found = [image for html in html_of(cells) for image in images(html)]
    drawn = [output for cell in cells for output in cell.get("outputs", ()) if "image/svg+xml" in str(output)]
    assert len(found) == len(drawn) > 0
    for image in found:
        assert re.match(r"[\w ]+.*: .{20,}", image["alt"] or ""), image["alt"]
    for cell in cells:
        if cell.cell_type == "markdown":
            assert "![](" not in cell.source and images(cell.source) == []


@pytest.mark.locked
@each_notebook
def test_its_pictures_hold_no_path_of_a_machine(path: Path) -> None:
    found = [image["src"] or "" for html in html_of(read(path).cells) for image in images(html)]
    assert found
    for source in found:
        head, _, data = source.partition(",")
        assert head == "data:image/svg+xml;base64"
        assert (
            re.search(r"/(?:root|home|Users|work|tmp)/|0x[0-9a-f]{6}", base64.b64decode(data).decode())
            is None
        )


@pytest.mark.locked
@each_notebook
def test_it_is_small(path: Path) -> None:
    assert path.stat().st_size <= 400 * 1024


@pytest.mark.locked
@each_notebook
def test_it_keeps_nothing_volatile(path: Path) -> None:
    notebooks = pytest.importorskip("notebooks")
    stored = read(path)
    stripped = copy.deepcopy(stored)
    notebooks.strip(stripped)
    assert stripped == stored
    for cell in stored.cells:
        for output in cell.get("outputs", ()):
            assert output.output_type != "error"
            assert output.get("name") != "stderr"


@pytest.mark.locked
@each_notebook
def test_its_links_lead_somewhere(path: Path) -> None:
    text = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    for link in links:
        if not link.startswith("https://"):
            assert (path.parent / link).is_file(), link


@pytest.mark.locked
def test_running_a_notebook_stores_only_what_lasts() -> None:
    notebooks = pytest.importorskip("notebooks")
    nbformat = pytest.importorskip("nbformat")
    source = "import ipywidgets\nprint('a')\nprint('b', flush=True)\nprint('c')\nipywidgets.IntSlider(3)"
    cells = [nbformat.v4.new_code_cell(source, id="one"), nbformat.v4.new_code_cell("6 * 7", id="two")]
    cells[0].metadata["execution"] = {"iopub.execute_input": "2020-01-01"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"widgets": {}, "language_info": {"name": "x"}})
    notebooks.run(notebook, ROOT / "notebooks")
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    first, second = notebook.cells
    assert (first.metadata, first.execution_count, second.execution_count) == ({}, 1, 2)
    printed, shown = first.outputs
    assert printed == {"output_type": "stream", "name": "stdout", "text": "a\nb\nc\n"}
    assert shown.data == {"text/plain": "IntSlider(value=3)"}
    assert second.outputs[0].data == {"text/plain": "42"}
