#!/bin/sh
# make bench: builds the two C workers, looks for the peers' Python, and starts
# the driver. Environment:
#   TESSERA_PEERS_PYTHON  a python3 that has PyTorch, NumPy, SciPy, JAX (or some of them)
#   ONLY=word             rows whose name or section contains the word
#   ROUNDS=n              rounds of a row (7 by default)
#   THREADS=n            only this number of threads
#   DEV=cuda             the rows of a GPU instead
#   CLOCK=cpu            processor time instead of wall time, with one thread: for a
#                        machine that has other work
#   STAT=best            the shortest of all turns instead of the median: likewise
#   OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=0  threads of PyTorch's that wait for each other sleep: with
#                        several of them on such a machine they would wait for those that do not run
#   WRITE=1               as --write: put the tables into docs/performance.md; with ONLY=section that one
set -e
cd "$(dirname "$0")/../.."
out=build/bench
mkdir -p "$out"
rm -f "$out"/answers.* "$out"/worker.*
cc=${CC:-cc}

build() { # build NAME LIBS...: an absent result means that the peer is not there
  name=$1
  shift
  rm -f "$out/$name"
  "$cc" -std=gnu11 -O2 -march=native -o "$out/$name" "scripts/bench/$name.c" "$@" -lpthread \
    2> "$out/$name.log" || true
}
build machine -lutil
build onednn -ldnnl -lm
if [ ! -x "$out/machine" ]; then
  cat "$out/machine.log" >&2
  exit 1
fi

for word in "$@"; do
  case $word in
    --write) WRITE=1 ;;
    *) echo "usage: scripts/bench/run.sh [--write]" >&2; exit 2 ;;
  esac
done
TESSERA_PEERS_PYTHON=${TESSERA_PEERS_PYTHON:-$(command -v python3 || true)}
if [ "$CLOCK" = cpu ]; then THREADS=1; fi
export TESSERA_PEERS_PYTHON ONLY ROUNDS THREADS CLOCK STAT WRITE DEV

# Workers that wait for their turn are stopped, and could not see that the driver has ended.
go_on() {
  for file in "$out"/worker.*.pid; do
    if [ -f "$file" ]; then kill -CONT "$(cat "$file")" 2> /dev/null || true; fi
  done
}
trap go_on EXIT
trap 'exit 130' INT TERM
bin/tessera scripts/bench/main.lua
