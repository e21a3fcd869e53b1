# Sourced by run_all.sh and run_tests.sh: a virtual environment with the locked packages and this checkout in it.
# Nothing is installed twice: the lock's checksum is noted once everything is in place.
unset PYTHONDONTWRITEBYTECODE # what is imported is compiled once, not at every start
python=${PYTHON:-python3}
wanted=$(cat requirements.lock pyproject.toml | sha256sum)
if [ "$(cat .venv/installed 2>/dev/null)" != "$wanted" ]; then
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "skipbench needs Python 3.11 or newer; set PYTHON to one" >&2
        exit 2
    }
    echo "Setting up .venv (once) …" >&2
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    .venv/bin/python -m pip install --quiet --quiet --disable-pip-version-check --no-compile --no-deps -r requirements.lock
    .venv/bin/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
    .venv/bin/skipbench list > /dev/null
    echo "$wanted" > .venv/installed
fi
