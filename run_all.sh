#!/usr/bin/env bash
# Set everything up and run the main job. Arguments are passed on: ./run_all.sh --task e2e
set -euo pipefail
cd "$(dirname "$0")"
source ./setup.sh
exec .venv/bin/skipbench run quick "$@"
