#!/bin/sh
# Checks the include direction: lib <- devices <- ir <- vm <- jit <- repl. Each
# folder includes itself and what stands left of it; only repl includes LuaJIT,
# only jit LLVM, only devices/ names a driver's API.
set -eu
cd "$(dirname "$0")/.."
order="lib devices ir vm jit repl"
bad=0
rank() {
  n=0
  for d in $order; do
    [ "$d" = "$1" ] && { echo $n; return; }
    n=$((n + 1))
  done
  echo -1
}
for from in $order; do
  [ -d "$from" ] || continue
  mine=$(rank "$from")
  for hit in $(grep -rnoE --include='*.[ch]' --include='*.inc' --include='*.def' \
      '^#include "[a-z_]+/' "$from" | sed -E 's/:#include "/:/; s,/$,,'); do
    to=${hit##*:}
    theirs=$(rank "$to")
    if [ "$theirs" -lt 0 ] || [ "$theirs" -gt "$mine" ]; then
      echo "layers: ${hit%:*}: $from must not include $to" >&2
      bad=1
    fi
  done
  if [ "$from" != repl ] && grep -rnE --include='*.[ch]' '<(lua|lualib|lauxlib|luajit)\.h>' "$from" >&2; then
    echo "layers: only repl includes LuaJIT" >&2
    bad=1
  fi
  if [ "$from" != jit ] && grep -rnE --include='*.[ch]' '<llvm' "$from" >&2; then
    echo "layers: only jit includes LLVM" >&2
    bad=1
  fi
  if [ "$from" != devices ] && grep -rnE --include='*.[ch]' '<(cuda|hip/|level_zero/)' "$from" >&2; then
    echo "layers: only devices names a driver" >&2
    bad=1
  fi
  if grep -rnE --include='*.[ch]' '\bcu(Init|Mem|Ctx|Stream|Event|Launch|Module|Device|Func)[A-Z][A-Za-z]*\(' \
      "$from" | grep -v '^devices/cuda' >&2; then
    echo "layers: only devices/cuda*.c calls CUDA's driver" >&2
    bad=1
  fi
done
[ $bad = 0 ] && echo "layers: in order"
exit $bad
