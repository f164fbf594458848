"""`make lab`: the notebooks trusted, JupyterLab open on the first lesson.

Runs in the environment that tools/environment.py made; its arguments go to `jupyter lab`.
"""

from __future__ import annotations

import os
import subprocess
import sys

from environment import MAIN, ROOT

_FIRST = "notebooks/00_start_here.ipynb"


def main() -> None:
    os.chdir(ROOT)
    # The environment's own commands first, as if it were activated: lessons may start processes.
    os.environ["PATH"] = os.pathsep.join((str(MAIN.python.parent), os.environ.get("PATH", "")))
    jupyter = str(MAIN.command("jupyter"))
    # JupyterLab shows neither pictures nor sliders of a notebook that it does not trust.
    notebooks = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("notebooks/*.ipynb"))
    subprocess.run([jupyter, "trust", *notebooks], check=True, stdout=subprocess.DEVNULL)
    root = ["--allow-root"] if os.geteuid() == 0 else []
    os.execv(jupyter, [jupyter, "lab", *root, *sys.argv[1:], _FIRST])


if __name__ == "__main__":
    main()
