"""How to tell jaxprviz about a primitive of your own that holds jaxprs.

It is drawn without this: its jaxprs are found by looking, and wired where their types agree with the operands.  A rule
says the rest: how the operands reach the body, which of them are captured, what sort of border it is.

    from jaxprviz.primitives import one_body, register

    register("my_call", one_body("jaxpr"))

`one_body` is for a primitive with one body that gets the operands one to one.  For any other, write the function
`hold` of a `Rule`: it gets JAX's equation and returns one `held(...)` for each body.
"""

from __future__ import annotations

from jaxprviz._primitives import Held, Rule, held, one_body, register
from jaxprviz.program import Boundary, Role

__all__ = ["Boundary", "Held", "Role", "Rule", "held", "one_body", "register"]
