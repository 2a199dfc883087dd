#!/bin/sh
# Sets up, builds, passes all tests.
set -eu
cd "$(dirname "$0")/.."
sh scripts/setup.sh
sh scripts/python.sh
exec make -j2 --no-print-directory test
