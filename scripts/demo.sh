#!/bin/sh
# Sets up, builds, runs the main job on real input.
set -eu
cd "$(dirname "$0")/.."
sh scripts/setup.sh
make -j2 --no-print-directory
exec bin/tessera examples/gpt_char.lua
