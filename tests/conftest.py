"""What all tests share: eight simulated devices, and stored texts to compare with."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"

import hypothesis
import jax
import pytest

# Before anything asks JAX for a device: their number is fixed from then on.
jax.config.update("jax_num_cpu_devices", 8)

# The same examples in every run, on machines of any speed.
hypothesis.settings.register_profile("jaxprviz", derandomize=True, deadline=None)
hypothesis.settings.load_profile("jaxprviz")

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write the texts in tests/golden/ anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with the stored one: `golden("question.dot", text)`; `pytest --update` stores it."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.is_file():
            pytest.fail(
                f"tests/golden/{name} is missing; `pytest --update` writes it: read it before you commit it"
            )
        assert text == path.read_text(encoding="utf-8"), (
            f"tests/golden/{name} differs; `pytest --update` stores it"
        )

    return compare
