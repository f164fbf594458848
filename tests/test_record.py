"""The recording of an older JAX: what it holds, how it is loaded, and how it was made."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import pytest
import record

from jaxprviz import draw, explain, from_json, same_program
from jaxprviz.lessons import _recording, pmap_inside_jit

FILE = Path(_recording.__file__).with_name("jit_pmap_0_4_38.json")

TEXT = """\
f(w: f32[2,3], x: f32[4,2,3]) -> result: f32[4,2,3]
3 equations (the pmap counts as one), traced by JAX 0.4.38.

Captured variables
  g captures w f32[2,3], bound as argument w of f; it enters pmap g, where mul reads it.

What pmap g asks for over 4 devices
  w f32[2,3] (captured): copied whole to 4 devices; one device holds f32[2,3], 24 bytes; \
4 copies, 96 bytes in all.
  x f32[4,2,3]: axis 0 split over 4 devices; one device holds f32[1,2,3], 24 bytes; 1 copy, 96 bytes in all; \
g sees f32[2,3] (the split axis is gone).
  result f32[4,2,3]: axis 0 split over 4 devices; one device holds f32[1,2,3], 24 bytes; \
1 copy, 96 bytes in all; g makes f32[2,3] (the split axis is gone)."""


def test_what_was_recorded_reads_like_a_program_of_today() -> None:
    assert explain(pmap_inside_jit.recorded().program).strip() == TEXT


def test_what_was_recorded_is_drawn() -> None:
    figure = draw(pmap_inside_jit.recorded().program)
    assert figure.svg.startswith("<")
    assert ">captured<" in figure.svg


def test_what_a_run_showed() -> None:
    then = pmap_inside_jit.recorded()
    whole = ((0, 4), (0, 2), (0, 3))
    assert (then.program.jax, then.shape) == ("0.4.38", (4, 2, 3))
    assert then.held == (whole,) * 4
    assert then.collectives == ("all-reduce",)
    (warning,) = then.warnings
    assert warning.startswith("The jitted function f includes a pmap. Using jit-of-pmap can lead to")
    assert 2 < then.slower < 6


def test_the_result_is_drawn_as_it_lay() -> None:
    figure = pmap_inside_jit.recorded().result()
    lines = [f"  device {number} holds result[:, :, :], 96 bytes" for number in range(4)]
    head = "result f32[4,2,3]: copied whole to 4 devices, in JAX 0.4.38."
    assert figure.text == "\n".join([head, *lines])
    assert figure.title == "Placement of result in JAX 0.4.38"


def test_the_program_part_is_a_program_as_jaxprviz_stores_it() -> None:
    data = json.loads(FILE.read_text(encoding="utf-8"))
    assert set(data) == {"schema", "program", "observed"}
    del data["observed"]
    assert from_json(json.dumps(data)) == pmap_inside_jit.recorded().program


def test_the_recorder_runs_the_program_of_the_lesson() -> None:
    import jax.numpy as jnp

    @jax.jit
    def f(w, x):
        @jax.pmap
        def g(x):
            return w * x

        return g(x)

    assert same_program(record.question(), f, jnp.ones((2, 3)), jnp.ones((4, 2, 3)))


@pytest.mark.skipif(jax.__version_info__ < (0, 8), reason="up to 0.7 jit(pmap) copies the result")
def test_the_recorder_sees_that_todays_jax_keeps_the_result_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "slower", lambda: 1.0)
    rows = [[[number, number + 1], [0, 2], [0, 3]] for number in range(4)]
    assert record.observe() == {
        "shape": [4, 2, 3],
        "held": rows,
        "warnings": [],
        "collectives": [],
        "slower": 1.0,
    }


def test_a_recording_is_json_that_the_lesson_can_load(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = {"shape": [4], "held": [[[0, 4]]], "warnings": ["w"], "collectives": [], "slower": 1.0}
    monkeypatch.setattr(record, "observe", lambda: seen)
    monkeypatch.setattr(_recording, "__file__", str(tmp_path / "module.py"))
    (tmp_path / "made.json").write_text(record.record(), encoding="utf-8")
    then = _recording.load("made.json")
    assert then.program.jax == jax.__version__
    assert (then.shape, then.held, then.warnings, then.collectives) == ((4,), (((0, 4),),), ("w",), ())
