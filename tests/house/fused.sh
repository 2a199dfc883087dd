#!/bin/sh
# No kernel may hold vfmaddsub or vfmsubadd: fused.sh BUILD_FOLDER. gcc fuses complex
# multiplies into them in spite of -ffp-contract=off, which changes bits between
# instruction sets; vm/kernels/rows/reduce_cprod.h shows the barrier that prevents it.
set -eu
command -v objdump >/dev/null || { echo "fused: objdump is missing (binutils)"; exit 1; }
bad=0 seen=0
for o in "$1"/vm/kernels/*.o "$1"/vm/kernels/*/*.o; do
  [ -e "$o" ] || { echo "fused: no objects in $1/vm/kernels"; exit 1; }
  seen=$((seen + 1))
  found=$(objdump -d --no-show-raw-insn "$o" |
    awk '/^[0-9a-f]+ <.*>:$/ { f = $2 } /vfm(addsub|subadd)/ { n[f]++ }
         END { for (f in n) print "    " f " " n[f] }')
  [ -z "$found" ] && continue
  echo "fused: $o"
  echo "$found"
  bad=1
done
echo "fused: $seen objects"
exit $bad
