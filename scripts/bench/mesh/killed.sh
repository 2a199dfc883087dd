#!/bin/sh
# Processes with a device each train together, the last is killed, and the others say who is dead: sh scripts/bench/mesh/killed.sh KIND N.
# Prints a row of the benchmark: the longest time from the kill to such an error. cuda: as torchrun starts them, connected by NCCL
# (TESSERA_NCCL); cpu: by mpirun of Open MPI.
set -eu
cd "$(dirname "$0")/../../.."
kind=$1 n=$2
case $kind in
  cuda | cpu) ;;
  *) echo "section killed: processes have devices of cuda or cpu, not '$kind'" >&2; exit 2 ;;
esac
case $n in
  '' | 0* | 1 | *[!0-9]*) echo "section killed: it takes two processes or more, not '$n'" >&2; exit 2 ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TESSERA_FLIGHT="$folder"
if [ "$kind" = cuda ]; then
  r=0
  while [ $r -lt "$n" ]; do
    RANK=$r WORLD_SIZE=$n LOCAL_RANK=$r LOCAL_WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=$((29400 + $$ % 500)) \
      timeout 120 bin/tessera scripts/bench/mesh/killed.lua "$folder" 2> "$folder/err.$r" &
    r=$((r + 1))
  done
else
  timeout 120 mpirun.openmpi --allow-run-as-root --oversubscribe --enable-recovery -n "$n" bin/tessera --threads=1 \
    scripts/bench/mesh/killed.lua "$folder" > "$folder/err.0" 2>&1 &
fi
waited=0
while [ "$(cat "$folder"/rank.* 2> /dev/null | grep -c 'goes on')" -lt "$n" ]; do
  sleep 0.2
  waited=$((waited + 1))
  if [ $waited -gt 400 ]; then
    cat "$folder"/err.* >&2
    echo "they did not begin" >&2
    exit 1
  fi
done
kill -9 "$(sed -n 's/goes on //p' "$folder/rank.$((n - 1))")"
killed=$(date +%s.%N)
wait || true
cat "$folder"/rank.* | awk -v n="$n" -v killed="$killed" -v dead="rank $((n - 1)) " '
  /goes on/ { next }
  { told++; if (index($0, dead) && /is dead/) named++; if ($1 - killed > most) most = $1 - killed; print $0 > "/dev/stderr" }
  END { printf "killed rank named by %d of %d others, at most\t%.2f\ts\n", named, n - 1, most; exit told != n - 1 || named != told }'
