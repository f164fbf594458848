"""The controls that set the parameters of a function: sliders, choices, check boxes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets
from ipywidgets.widgets.interaction import fixed, interactive

from jaxprviz.errors import JaxprvizError

_ABBREVIATIONS = (
    "A control is (lowest, highest), (lowest, highest, step), a list or dict of choices, a bool, a number, "
    "a str, an ipywidgets widget with a value, or ipywidgets.fixed(value)."
)

_PLAIN = (bool, int, float, complex, str, type(None))
"""Values that are written the same in every process."""

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def controls_for(
    function: Callable[..., Any], abbreviations: Mapping[str, Any], optional: Mapping[str, Any], asked: str
) -> dict[str, Any]:
    """Makes the controls of a function's parameters, in the order of its signature.

    A parameter with a default and without an abbreviation gets none.

    Args:
        function: what the controls are for.
        abbreviations: by parameter what `ipywidgets.interact` takes for it.
        optional: those abbreviations that say nothing when `function` has no such parameter.
        asked: what was asked for, for errors.

    Returns:
        By parameter a widget with a value, or an `ipywidgets.fixed`.

    Raises:
        JaxprvizError: abbreviations and parameters do not fit.
    """
    defaults = _defaults(function, abbreviations, asked)
    for name, abbreviation in abbreviations.items():
        if name not in defaults and not (name in optional and abbreviation == optional[name]):
            raise JaxprvizError(
                asked,
                f"build takes no parameter named {name!r}",
                f"Its parameters are: {', '.join(defaults) or 'none'}.",
            )
    for name, default in defaults.items():
        if name not in abbreviations and default is inspect.Parameter.empty:
            raise JaxprvizError(
                asked,
                f"build needs {name!r}, and no control was given for it",
                f"Give it one, for example {name}=(1, 8), or give the parameter a default.",
            )
    made = {
        name: _control(name, abbreviations[name], default, asked)
        for name, default in defaults.items()
        if name in abbreviations
    }
    longest = max(map(len, made), default=0)
    for name, control in made.items():
        if control is not abbreviations[name]:
            # ipywidgets cuts off labels that are longer than its default width.
            control.style.description_width = f"{max(longest, 8) + 1}ch"
    return made


def _defaults(function: Callable[..., Any], names: Mapping[str, Any], asked: str) -> dict[str, Any]:
    """The parameters that can be passed by name, with their defaults."""
    if not callable(function):
        raise JaxprvizError(
            asked, "build is not a function", "Pass a function of the controls that returns (function, args)."
        )
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError as error:
        raise JaxprvizError(
            asked, "the parameters of build are not known", "Wrap it in a function of yours."
        ) from error
    kinds = {parameter.kind for parameter in parameters}
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        raise JaxprvizError(
            asked, "build has parameters that cannot be passed by name", "Remove the `/` from its signature."
        )
    found = {parameter.name: parameter.default for parameter in parameters if parameter.kind in _NAMED}
    if inspect.Parameter.VAR_KEYWORD in kinds:
        found |= {name: inspect.Parameter.empty for name in names if name not in found}
    return found


def _control(name: str, abbreviation: Any, default: Any, asked: str) -> Any:
    """The widget that ipywidgets makes of an abbreviation."""
    try:
        control = interactive.widget_from_abbrev(abbreviation, default)
    except (TypeError, ValueError) as error:
        raise JaxprvizError(asked, f"{name}={abbreviation!r}: {error}", _ABBREVIATIONS) from error
    if not isinstance(control, ipywidgets.ValueWidget | fixed):
        raise JaxprvizError(asked, f"no control can be made of {name}={abbreviation!r}", _ABBREVIATIONS)
    if not getattr(control, "description", name):
        control.set_trait("description", name)
    return control


def put(control: Any, name: str, value: Any, asked: str) -> None:
    """Sets a control; where a slider would move a value into its range in silence, that is an error.

    Raises:
        JaxprvizError: the control cannot have that value.
    """
    wrong = f"{name} cannot be {value!r}"
    try:
        control.value = value
    except Exception as error:
        raise JaxprvizError(asked, wrong, str(error)) from error
    if control.value != value:
        raise JaxprvizError(asked, wrong, f"The nearest value that it can have is {control.value!r}.")


def values_of(controls: Mapping[str, Any]) -> dict[str, Any]:
    """What the controls stand at."""
    return {name: control.get_interact_value() for name, control in controls.items()}


def position_text(controls: Mapping[str, Any]) -> str:
    """What the controls stand at, as text that is the same in every process; fixed ones left out."""
    shown = {name: control for name, control in controls.items() if not isinstance(control, fixed)}
    return ", ".join(f"{name}={_value_text(control)}" for name, control in shown.items())


def _value_text(control: Any) -> str:
    """The value of a control; where that has no stable text, the label of the choice."""
    value = control.get_interact_value()
    if isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(isinstance(p, _PLAIN) for p in value)):
        return repr(value)
    label = getattr(control, "label", None)
    stable = isinstance(label, str) and label and " at 0x" not in label
    return str(label) if stable else f"<{type(value).__name__}>"
