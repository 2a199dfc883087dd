#!/bin/sh
# What somebody with a card runs: that results are right there, then how fast it is, as one table.
#   sh scripts/bench/on_card.sh [DEVICE] [> table.md]
# DEVICE is "cuda:0", "hip:0", "level_zero:0", "opencl:0", "cpu", ..; without one the first GPU that there
# is. It needs bin/tessera and nothing else. Environment:
#   SECONDS_A_ROW=n   a size is left out where its call would take longer (2 by default)
#   RUNS=n            measurements of a row, of which the median counts (7 by default)
#   OCL_ICD_VENDORS   the folder of OpenCL's drivers: for opencl:0 on a CPU that is
#                     build/python/opencl where scripts/python.sh was run, if nothing else is said
# Ends with 1 where results are wrong, with 2 where there is no such device.
set -eu
cd "$(dirname "$0")/../.."
program=${TESSERA:-bin/tessera}
[ -x "$program" ] || { echo "on_card: there is no $program: run make first" >&2; exit 2; }
[ $# -le 1 ] || { echo "usage: scripts/bench/on_card.sh [DEVICE]" >&2; exit 2; }
case ${1:-} in
  -*) echo "usage: scripts/bench/on_card.sh [DEVICE]" >&2; exit 2 ;;
  opencl*)
    if [ -z "${OCL_ICD_VENDORS:-}" ] && [ -e build/python/opencl/cpu.icd ]; then
      export OCL_ICD_VENDORS="$PWD/build/python/opencl"
      export LD_LIBRARY_PATH="$PWD/build/python/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    fi ;;
esac
name=$("$program" scripts/bench/on_card.lua "${1:-}" name) || exit $?
status=0
for section in head products attention copies element-wise steps; do
  rc=0
  "$program" scripts/bench/on_card.lua "$name" "$section" || rc=$?
  [ "$rc" -lt 128 ] || echo "| $section | the driver ended the process by signal $((rc - 128)) | | | |"
  # OpenCL's compilers are said by TESSERA_OPENCL_OPTIONS not to optimise (devices/driver/opencl_run.c says where that is usual).
  if [ "$rc" -ge 128 ] && [ -z "${TESSERA_OPENCL_OPTIONS:-}" ]; then
    case $name in opencl*)
      rc=0
      echo "| $section | again, by code that the driver does not optimise | | | |"
      TESSERA_OPENCL_OPTIONS=-cl-opt-disable "$program" scripts/bench/on_card.lua "$name" "$section" || rc=$?
      [ "$rc" -lt 128 ] || echo "| $section | the driver ended the process by signal $((rc - 128)) | | | |" ;;
    esac
  fi
  [ "$rc" -eq 0 ] || status=1
done
exit $status
