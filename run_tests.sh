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
exec .venv/bin/python -m pytest "${select[@]}" "$@"
