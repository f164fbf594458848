# make lab                        JupyterLab on the first lesson
# make lab PYTHON=python3.12      with another Python (3.11 to 3.14)
# make lab JUPYTER_ARGS=--no-browser
# make test                       every test
# make test STEPS="unit browser"  some of them (tools/test.py lists them)
# make notebooks                  the lessons run, their outputs stored
# make lock                       the pins, resolved anew (LOCK_ARGS=--upgrade: the newest)
# make format                     the code, formatted
# make clean                      what the others installed, removed

PYTHON ?=
JUPYTER_ARGS ?=
STEPS ?=
LOCK_ARGS ?=

# What makes the environment: the Python that was named, else the one that is in it already, else python3.
RUN := $(or $(PYTHON),$(shell test -x .venv/bin/python && echo .venv/bin/python || echo python3))
OLD := jaxprviz needs Python 3.11 or newer, and $(RUN) is older or does not run. Name another: PYTHON=python3.12

.PHONY: lab test notebooks lock format clean environment

lab: environment
	@exec .venv/bin/python tools/lab.py $(JUPYTER_ARGS)

test: environment
	@.venv/bin/python tools/test.py $(STEPS)

notebooks: environment
	@.venv/bin/python tools/notebooks.py

lock: environment
	@.venv/bin/python tools/lock.py $(LOCK_ARGS)

format: environment
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

clean:
	rm -rf .venv .lanes

environment:
	@$(RUN) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo 'make: $(OLD)' >&2; exit 1; }
	@$(RUN) tools/environment.py --python='$(PYTHON)'
