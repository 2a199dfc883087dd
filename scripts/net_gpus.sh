#!/bin/sh
# Two processes with a GPU each, connected by NCCL, beside one process with both:
#   sh scripts/net_gpus.sh [path of libnccl.so.2]
# Needs two GPUs, `make` and `make build/release/tests/net/world_test`. Prints times, and whether bits agree.
set -eu
cd "$(dirname "$0")/.."
[ -z "${1:-}" ] || export TESSERA_NCCL="$1"
port=${MASTER_PORT:-29400}
to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
both() { # what two processes run, started as torchrun does it
  for r in 0 1; do
    RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TESSERA_FLIGHT=$to \
      timeout 300 "$@" > "$to/out.$r" 2> "$to/err.$r" &
  done
  wait
  port=$((port + 10))
}
failed=0
for part in bytes mismatch; do
  both build/release/tests/net/world_test ranks $part gpu
  cat "$to"/err.? "$to"/out.?
  [ "$(cat "$to"/out.? | grep -c 'is well')" = 2 ] || failed=1
done
bin/tessera tests/net/_gpus.lua 2 > "$to/alone"
both bin/tessera tests/net/_gpus.lua 2
cat "$to"/err.?
if cmp "$to/alone" "$to/out.0"; then
  echo "the same bits: $(wc -l < "$to/alone") lines"
else
  diff "$to/alone" "$to/out.0" || failed=1
fi
exit $failed
