#!/bin/sh
# The mesh beside its peers, on the devices of this machine: scripts/bench/mesh.sh [KIND [N [SECTION..]]]. KIND is cuda, or cpu for
# virtual ones; N is how many (all GPUs). Sections: bits small sums moves mlp gpt large seven oss scale killed (all); sums:1024 and
# moves:1024 are those of at most so many KiB, bits:8 and small:8 those over eight devices alone. A table of both, with ratios: above 1 we
# are ahead. TESSERA_PEERS_PYTHON: a python3 that has PyTorch.
set -e
cd "$(dirname "$0")/../.."
case ${1:-} in
  -h | --help) exec sed -n '2,/^set/{/^#/s/^# *//p;}' scripts/bench/mesh.sh ;;
esac
kind=${1:-cuda}
count=${2:-$(nvidia-smi -L 2> /dev/null | grep -c '^GPU' || true)}
[ "$count" != 0 ] || [ $# -gt 1 ] || {
  echo "nvidia-smi lists no GPU: 'scripts/bench/mesh.sh cpu 4' takes virtual devices" >&2
  exit 2
}
[ $# -gt 2 ] && shift 2 || shift $#
[ $# -gt 0 ] || set -- bits small sums moves mlp gpt large seven oss scale killed
killed='' sections='' # what kills processes is a program of its own
for section; do
  if [ "$section" = killed ]; then killed=yes; else sections="$sections $section"; fi
done
out=build/bench/mesh
mkdir -p "$out"
: > "$out/peer"
: > "$out/ours"
python=${TESSERA_PEERS_PYTHON:-$(command -v python3 || true)}
if [ -n "$sections" ]; then
  if [ "$kind" = cuda ] && [ -n "$python" ] && "$python" -c 'import torch' 2> /dev/null; then
    NCCL_NVLS_ENABLE=0 "$python" scripts/bench/mesh/peer.py "$count" $sections > "$out/peer" 2> "$out/peer.log" || tail -3 "$out/peer.log" >&2
  fi
  # shellcheck disable=SC2086 # words of their own
  bin/tessera scripts/bench/mesh/ours.lua "$kind" "$count" $sections > "$out/ours"
fi
[ -z "$killed" ] || sh scripts/bench/mesh/killed.sh "$kind" "$count" >> "$out/ours" 2> "$out/killed.log" || cat "$out/killed.log" >&2
awk -F'\t' '
  FILENAME == ARGV[1] { peer[$1] = $2; next }
  { ratio = ""
    if ($1 in peer) ratio = sprintf("%.2f", $3 == "us" ? peer[$1] / $2 : $2 / peer[$1])
    printf "| %s | %s %s | %s | %s |\n", $1, $2, $3, ($1 in peer) ? peer[$1] : "", ratio }
  BEGIN { print "| row | ours | peer | ratio |\n| --- | ---: | ---: | ---: |" }' "$out/peer" "$out/ours"
