#!/usr/bin/env bash
# Set everything up and run the tests; --all adds the long ones. Other arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")"
source ./setup.sh
select=(-m "not long")
if [ "${1:-}" = "--all" ]; then
    select=()
    shift
fi
# one process a core, each on one thread; a file's tests stay together, since they share what they made, and the
# longest files come first (tests/conftest.py), lest one core wait for them in the end
exec .venv/bin/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder "${select[@]}" "$@"
