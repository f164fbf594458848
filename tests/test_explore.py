"""The explorer without a browser and without JAX: a stand-in draws the arguments that it is given."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import ipywidgets
import pytest

from jaxprviz._controls import controls_for
from jaxprviz._explore import Explorer, explore
from jaxprviz._viewer import Viewer
from jaxprviz.errors import JaxprvizError, TraceError

DEFAULTS = {"devices": (1, 8), "batch": (1, 16)}


@dataclass(frozen=True)
class Drawn:
    """What the stand-in draws."""

    svg: str
    text: str
    alt: str = ""


def stand_in(fn: Any, *args: Any, **kwargs: Any) -> Drawn:
    said = f"{fn}{args}{kwargs or ''}"
    return Drawn(f"<svg>{said}</svg>", said)


def exploring(build: Any, draw: Any = stand_in, **abbreviations: Any) -> Explorer:
    given = {**DEFAULTS, **abbreviations}
    return Explorer(build, controls_for(build, given, DEFAULTS, "explore(build)"), draw)


def shown(explorer: Explorer) -> dict[str, Any]:
    viewer = explorer.viewer
    return {"svg": viewer.svg, "text": viewer.text, "message": viewer.message, "stale": viewer.stale}


def divided(devices: int, batch: int) -> tuple[str, tuple[int, int]]:
    if batch % devices:
        raise ValueError(f"batch {batch} cannot be divided by {devices} devices")
    return "f", (devices, batch)


def test_the_first_picture_is_that_of_the_middle_of_the_sliders() -> None:
    explorer = exploring(divided)
    assert repr(explorer) == "Explorer(devices=4, batch=8)"
    assert shown(explorer) == {"svg": "<svg>f(4, 8)</svg>", "text": "f(4, 8)", "message": "", "stale": False}
    assert (explorer.error, explorer.exception, explorer.text) == (None, None, "f(4, 8)")
    assert explorer.figure == Drawn("<svg>f(4, 8)</svg>", "f(4, 8)")


def test_its_children_are_the_controls_and_the_viewer() -> None:
    explorer = exploring(divided)
    assert explorer.children == (*explorer.controls.values(), explorer.viewer)
    assert list(explorer.controls) == ["devices", "batch"]
    assert {type(control) for control in explorer.controls.values()} == {ipywidgets.IntSlider}
    assert explorer._dom_classes == ("jaxprviz-explorer",)


def test_the_picture_follows_a_slider() -> None:
    explorer = exploring(divided)
    explorer.controls["devices"].value = 2
    assert shown(explorer) == {"svg": "<svg>f(2, 8)</svg>", "text": "f(2, 8)", "message": "", "stale": False}


def test_an_impossible_position_keeps_the_last_picture_and_says_why() -> None:
    explorer = exploring(divided)
    explorer.controls["devices"].value = 3
    assert shown(explorer) == {
        "svg": "<svg>f(4, 8)</svg>",
        "text": "f(4, 8)",
        "message": "No picture for devices=3, batch=8.\n"
        "ValueError: batch 8 cannot be divided by 3 devices\n"
        "The grey picture below is still that of devices=4, batch=8.",
        "stale": True,
    }
    assert explorer.error == "ValueError: batch 8 cannot be divided by 3 devices"
    assert type(explorer.exception) is ValueError
    assert explorer.text == "f(4, 8)"

    explorer.controls["devices"].value = 2
    assert shown(explorer) == {"svg": "<svg>f(2, 8)</svg>", "text": "f(2, 8)", "message": "", "stale": False}
    assert (explorer.error, explorer.exception) == (None, None)


def test_an_impossible_first_position_has_a_message_and_no_picture() -> None:
    def build(devices: int = 3, batch: int = 8) -> Any:
        return divided(devices, batch)

    explorer = exploring(build)
    assert shown(explorer) == {
        "svg": "",
        "text": "",
        "message": "No picture for devices=3, batch=8.\nValueError: batch 8 cannot be divided by 3 devices",
        "stale": False,
    }
    assert (explorer.figure, explorer.text) == (None, "")
    explorer.set(devices=8)
    assert shown(explorer)["svg"] == "<svg>f(8, 8)</svg>"


def test_errors_of_the_package_are_told_in_their_own_words() -> None:
    def draw(fn: Any, devices: int, batch: int) -> Drawn:
        if devices > 4:
            raise TraceError("draw f", f"there are not {devices} devices", "Use fewer.")
        return stand_in(fn, devices, batch)

    explorer = exploring(divided, draw)
    explorer.set(devices=8)
    assert explorer.error == "draw f: there are not 8 devices\nUse fewer."
    assert explorer.viewer.message == (
        "No picture for devices=8, batch=8.\n"
        "draw f: there are not 8 devices\nUse fewer.\n"
        "The grey picture below is still that of devices=4, batch=8."
    )


def test_a_figure_that_cannot_be_rendered_is_a_message_too() -> None:
    class Unrenderable:
        text = "f"

        @property
        def svg(self) -> str:
            raise JaxprvizError("draw f", "Graphviz is missing", "Install it.")

    explorer = exploring(divided, lambda *args: stand_in(*args) if args[1] == 4 else Unrenderable())
    explorer.set(devices=2)
    assert explorer.error == "draw f: Graphviz is missing\nInstall it."
    assert explorer.viewer.svg == "<svg>f(4, 8)</svg>"
    assert explorer.figure == Drawn("<svg>f(4, 8)</svg>", "f(4, 8)")


def test_long_messages_are_cut_in_the_picture_and_whole_in_error() -> None:
    long = "\n".join(f"line {number}" for number in range(50))

    def build(devices: int) -> Any:
        raise RuntimeError(long)

    explorer = exploring(build)
    assert explorer.error == f"RuntimeError: {long}"
    assert explorer.viewer.message.splitlines() == [
        "No picture for devices=4.",
        "RuntimeError: line 0",
        *(f"line {number}" for number in range(1, 8)),
        "... (the whole of it is in the explorer's `.exception`)",
    ]


def test_an_interrupt_passes() -> None:
    def build(devices: int) -> Any:
        if devices == 5:
            raise KeyboardInterrupt
        return "f", (devices,)

    explorer = exploring(build)
    with pytest.raises(KeyboardInterrupt):
        explorer.controls["devices"].value = 5
    assert shown(explorer) == {"svg": "<svg>f(4,)</svg>", "text": "f(4,)", "message": "", "stale": False}


def test_set_moves_all_and_draws_once() -> None:
    calls = []

    def build(devices: int, batch: int) -> Any:
        calls.append((devices, batch))
        return divided(devices, batch)

    explorer = exploring(build)
    explorer.set(devices=8, batch=16)
    assert calls == [(4, 8), (8, 16)]
    assert repr(explorer) == "Explorer(devices=8, batch=16)"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"batch": 2, "devices": 99},
            "Explorer.set(batch=2, devices=99): devices cannot be 99\n"
            "The nearest value that it can have is 8.",
        ),
        (
            {"batch": 2, "device": 2},
            "Explorer.set(batch=2, device=2): there is no control 'device'\n"
            "The controls are: devices, batch.",
        ),
        (
            {"batch": 2, "devices": "many"},
            "Explorer.set(batch=2, devices='many'): devices cannot be 'many'\n",
        ),
    ],
)
def test_set_moves_nothing_when_it_cannot_move_all(values: dict[str, Any], told: str) -> None:
    explorer = exploring(divided)
    with pytest.raises(JaxprvizError) as caught:
        explorer.set(**values)
    assert str(caught.value).startswith(told)
    assert repr(explorer) == "Explorer(devices=4, batch=8)"
    assert shown(explorer) == {"svg": "<svg>f(4, 8)</svg>", "text": "f(4, 8)", "message": "", "stale": False}
    explorer.controls["devices"].value = 2
    assert explorer.text == "f(2, 8)"


def test_the_newest_position_wins_over_one_that_is_still_being_drawn() -> None:
    def build(devices: int, batch: int) -> Any:
        if devices == 5:
            explorer.controls["devices"].value = 6
        if devices == 7:
            explorer.controls["devices"].value = 2
            raise ValueError("too late to matter")
        return "f", (devices, batch)

    explorer = exploring(build)
    explorer.controls["devices"].value = 5
    assert shown(explorer) == {"svg": "<svg>f(6, 8)</svg>", "text": "f(6, 8)", "message": "", "stale": False}
    explorer.controls["devices"].value = 7
    assert shown(explorer) == {"svg": "<svg>f(2, 8)</svg>", "text": "f(2, 8)", "message": "", "stale": False}


def test_keyword_arguments_and_lists_reach_draw() -> None:
    assert exploring(lambda devices: ("f", [devices], {"k": 1})).text == "f(4,){'k': 1}"
    assert exploring(lambda devices: ("f", [devices])).text == "f(4,)"


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ((len, 3), "tuple of (builtin_function_or_method, int)"),
        (None, "NoneType"),
        ((len, (3,), 4), "tuple of (builtin_function_or_method, tuple, int)"),
    ],
)
def test_what_build_must_return(result: Any, kind: str) -> None:
    def build(devices: int) -> Any:
        return result

    assert exploring(build).error == (
        f"explore(build): build returned {kind}\n"
        "Return (function, args) or (function, args, kwargs), args being a tuple: `return f, (w, x)`."
    )


def test_every_abbreviation_of_interact() -> None:
    own = ipywidgets.BoundedIntText(value=3, min=1, max=5)

    def build(devices, steps, choice, named, flag, amount, word, widget, held, kept=7, start=2):
        return "f", (devices, steps, choice, named, flag, amount, word, widget, held, kept, start)

    explorer = exploring(
        build,
        steps=(0, 10, 5),
        choice=["a", "b"],
        named={"first": len, "second": 2},
        flag=True,
        amount=1.5,
        word="text",
        widget=own,
        held=ipywidgets.fixed(object),
        start=(1, 4),
    )
    assert {name: type(control).__name__ for name, control in explorer.controls.items()} == {
        "devices": "IntSlider",
        "steps": "IntSlider",
        "choice": "Dropdown",
        "named": "Dropdown",
        "flag": "Checkbox",
        "amount": "FloatSlider",
        "word": "Text",
        "widget": "BoundedIntText",
        "held": "fixed",
        "start": "IntSlider",
    }
    assert explorer.controls["widget"] is own
    assert own.description == "widget"
    assert explorer.text == f"f{(4, 5, 'a', len, True, 1.5, 'text', 3, object, 7, 2)}"
    assert repr(explorer) == (
        "Explorer(devices=4, steps=5, choice='a', named=first, flag=True, amount=1.5, word='text', widget=3, "
        "start=2)"
    )
    assert explorer.controls["held"] not in explorer.children
    explorer.set(held=3, named=2, start=4)
    assert explorer.text == f"f{(4, 5, 'a', 2, True, 1.5, 'text', 3, 3, 7, 4)}"


def test_labels_are_not_cut_off() -> None:
    explorer = exploring(lambda devices, number_of_microbatches: ("f", ()), number_of_microbatches=(1, 4))
    assert {control.style.description_width for control in explorer.controls.values()} == {"23ch"}


def test_a_choice_without_a_stable_text_is_told_by_its_type() -> None:
    explorer = exploring(lambda devices, kind: ("f", ()), kind=[object(), object()])
    assert repr(explorer) == "Explorer(devices=4, kind=<object>)"


def test_a_build_that_takes_any_name_gets_every_control() -> None:
    assert repr(exploring(lambda **values: ("f", ()), d=(1, 3))) == "Explorer(devices=4, batch=8, d=2)"


@pytest.mark.parametrize(
    ("build", "given", "told"),
    [
        (
            lambda devices, d: None,
            {},
            "build needs 'd', and no control was given for it\n"
            "Give it one, for example d=(1, 8), or give the parameter a default.",
        ),
        (
            lambda devices: None,
            {"d": (1, 4)},
            "build takes no parameter named 'd'\nIts parameters are: devices.",
        ),
        (
            lambda: None,
            {"batch": (1, 4)},
            "build takes no parameter named 'batch'\nIts parameters are: none.",
        ),
        (
            lambda devices, /: None,
            {},
            "build has parameters that cannot be passed by name\nRemove the `/` from its signature.",
        ),
        (3, {}, "build is not a function\nPass a function of the controls that returns (function, args)."),
        (lambda devices: None, {"devices": (8, 1)}, "devices=(8, 1): "),
        (lambda devices: None, {"devices": ipywidgets.Label}, "no control can be made of devices="),
        (
            lambda devices: None,
            {"devices": ipywidgets.Output()},
            "no control can be made of devices=Output()\n",
        ),
        (lambda devices: None, {"devices": (1, 2, 3, 4)}, "no control can be made of devices=(1, 2, 3, 4)\n"),
    ],
)
def test_controls_that_do_not_fit(build: Any, given: dict[str, Any], told: str) -> None:
    with pytest.raises(JaxprvizError) as caught:
        exploring(build, **given)
    assert str(caught.value).startswith(f"explore(build): {told}")


def test_the_viewer_is_written_the_same_in_every_process() -> None:
    code = (
        "from jaxprviz._viewer import Viewer\n"
        "from IPython.core.formatters import DisplayFormatter\n"
        "print(repr(Viewer(message='m')))"
    )
    said = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert said == ["Viewer(message='m', stale=False)\n"] * 2


@pytest.mark.skipif(
    ipywidgets.__version__.startswith("7."), reason="ipywidgets 7 sends nothing where there is no kernel"
)
def test_one_move_is_one_message_to_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = exploring(divided)
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(
        Viewer, "send_state", lambda self, key=None: sent.append(dict.fromkeys(sorted(key or ()), True))
    )
    explorer.controls["devices"].value = 2
    explorer.controls["devices"].value = 3
    assert [list(keys) for keys in sent] == [["svg", "text"], ["message", "stale"]]


def test_explore_draws_with_the_real_pipeline() -> None:
    import jax
    import jax.numpy as jnp

    def build(devices: int, batch: int, d: int = 3) -> Any:
        def f(w: Any, x: Any) -> Any:
            def g(block: Any) -> Any:
                return w * block

            return jax.pmap(g)(x)

        w = jax.ShapeDtypeStruct((batch, d), jnp.float32)
        x = jax.ShapeDtypeStruct((devices, batch, d), jnp.float32)
        return jax.jit(f), (w, x)

    explorer = explore(build, devices=(1, 8), batch=(1, 4), d=(1, 4))
    explorer.set(devices=4, batch=2, d=3)
    assert (explorer.error, repr(explorer)) == (None, "Explorer(devices=4, batch=2, d=3)")
    before = explorer.viewer.svg
    assert "f32[4,2,3]" in before
    explorer.set(devices=6)
    assert "f32[6,2,3]" in explorer.viewer.svg
    assert explorer.viewer.svg != before
    assert explorer.text == explorer.viewer.text


def test_an_exception_that_is_no_sentence_gets_one() -> None:
    def build(batch: int = 2) -> Any:
        return {}["zz"]

    assert exploring(build).error == (
        "build failed: it raised KeyError: 'zz'\nThe whole exception is in the explorer's `.exception`."
    )

    def silent(batch: int = 2) -> Any:
        raise AssertionError

    assert exploring(silent).error == (
        "build failed: it raised AssertionError\nThe whole exception is in the explorer's `.exception`."
    )
