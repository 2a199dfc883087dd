#!/bin/sh
# Checks the include direction. Folders: lib <- devices <- text <- net <- ir <- vm <- jit <- repl; rooms of a folder as
# they stand in `rooms`, a line of which may include itself and the lines above it. Only repl
# includes LuaJIT, only jit LLVM, only devices/driver names a driver's API, and nobody else includes
# from there.
set -eu
cd "$(dirname "$0")/.."
rooms="lib/elem lib/ops lib/lua lib lib/shard
devices
devices/driver
text
net/http
net
ir/text ir/compose
ir/graph
ir/mesh
ir/adjoint ir/tile
ir/jets ir/rules ir/tile/gpu ir/tile/product ir/tile/run ir/persistent
ir/tile/debug
ir/tile/pass ir/sched ir/sched/product
ir/lower ir/lower/conv ir/lower/fft ir/lower/index ir/lower/sort
vm/kernels/simd
vm/kernels
vm/kernels/attention vm/kernels/blas vm/kernels/fft vm/kernels/gemm vm/kernels/pointwise vm/kernels/rows
vm/core
vm/fft vm/gemm vm/rows
vm/blas
vm/drive
vm/code vm/exec
vm/mesh
vm
jit/code
jit/gpu
jit/emit/cpu jit/emit/simt jit/emit/roles
jit/compile
jit/device
jit/persistent
jit/launch
jit/collective
jit/build
jit/tune
jit/eager
jit/trace jit jit/patch
jit/mesh
jit/user
repl/edit
repl
repl/lua"
bad=0
includes=$(grep -rnE --include='*.[ch]' --include='*.inc' --include='*.def' '^#include "[a-z_]+/' \
  lib devices text net ir vm jit repl | sed -E 's/^([^:]*):([0-9]+):#include "([^"]*)".*/\1 \2 \3/')
printf '%s\n--\n%s\n' "$rooms" "$includes" | awk '
  $1 == "--" { list = 1; next }
  !list { n++; for (i = 1; i <= NF; i++) rank[$i] = n; next }
  {
    from = $1; to = $3
    sub("/[^/]*$", "", from); sub("/[^/]*$", "", to)
    if (!(from in rank)) { print "layers: " $1 ": the room " from " is not in scripts/layers.sh"; bad = 1 }
    else if (!(to in rank) || rank[to] > rank[from]) {
      print "layers: " $1 ":" $2 ": " from " must not include " to; bad = 1
    }
  }
  END { exit bad }' >&2 || bad=1
for from in lib devices text net ir vm jit repl; do
  if [ "$from" != repl ] && grep -rnE --include='*.[ch]' '<(lua|lualib|lauxlib|luajit)\.h>' "$from" >&2; then
    echo "layers: only repl includes LuaJIT" >&2
    bad=1
  fi
  if [ "$from" != jit ] && grep -rnE --include='*.[ch]' '<llvm' "$from" >&2; then
    echo "layers: only jit includes LLVM" >&2
    bad=1
  fi
  if grep -rnE --include='*.[ch]' '<(cuda|hip/|level_zero/|CL/)|"devices/driver/' "$from" |
      grep -v '^devices/driver/' >&2; then
    echo "layers: only devices/driver names a driver" >&2
    bad=1
  fi
  if grep -rnE --include='*.[ch]' '\bcu(Init|Mem|Ctx|Stream|Event|Launch|Module|Device|Func)[A-Z][A-Za-z]*\(' \
      "$from" | grep -v '^devices/driver/cuda' >&2; then
    echo "layers: only devices/driver/cuda*.c calls CUDA's driver" >&2
    bad=1
  fi
done
[ $bad = 0 ] && echo "layers: in order"
exit $bad
