#!/bin/sh
# What limits kernels of a GPU by :profile's sentence, beside Nsight Compute's speed of light: a table in Markdown.
#   sh scripts/bench/limits.sh [ROW...]
# Environment: NCU, its program; DEV, the device (cuda:0).
set -e
cd "$(dirname "$0")/../.."
ncu=${NCU:-$(command -v ncu || ls /usr/local/cuda/bin/ncu 2> /dev/null || true)}
if [ -z "$ncu" ]; then
  echo "limits.sh: Nsight Compute (ncu) is not found; NCU=path names it" >&2
  exit 1
fi
out=build/bench/limits
mkdir -p "$out"
rm -f "$out"/*
metrics=gpu__time_duration.sum,sm__throughput.avg.pct_of_peak_sustained_elapsed
metrics=$metrics,gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed
rows=${*:-$(bin/tessera scripts/bench/limits.lua --names)}
for row in $rows; do
  bin/tessera scripts/bench/limits.lua "$row" > "$out/$row.ours"
  "$ncu" --csv --cache-control none --metrics "$metrics" bin/tessera scripts/bench/limits.lua "$row" run > "$out/$row.ncu"
done
"$ncu" --version | tail -n 1 > "$out/version"
bin/tessera scripts/bench/limits.lua --table "$out" $rows
