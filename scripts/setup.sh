#!/bin/sh
# Installs what the build and the tests need from Debian's packages, when it is
# missing and we may. Says what to install otherwise. Arguments: more packages.
set -eu
packages="gcc make pkg-config libluajit-5.1-dev libluajit-5.1-common lua-cjson-dev liblapack-dev libblas-dev
          gfortran libc6-dev libffi-dev libutf8proc-dev libpcre2-dev $*"
# LLVM generates code while the program runs. The newest that this system offers; it comes from
# Debian's security archive, and without it the program is built without a JIT.
offered() { apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [0-9]'; }
llvm=
for v in 22 21 20 19; do
  [ -e "/usr/lib/llvm-$v/lib/libLLVMPasses.a" ] && llvm=none && break
done
if [ -z "$llvm" ] && [ "$(id -u)" = 0 ]; then
  offered llvm-22-dev || offered llvm-19-dev || apt-get update -qq
  for v in 22 21 20 19; do
    offered "llvm-$v-dev" && llvm="llvm-$v-dev lld-$v" && break
  done
fi
[ -z "$llvm" ] || [ "$llvm" = none ] || packages="$packages $llvm libstdc++-12-dev zlib1g-dev libzstd-dev"
# A terminal for the tests of the prompt, which are skipped without it.
[ "$(id -u)" != 0 ] || ! offered libvterm-dev || packages="$packages libvterm-dev"
# Two MPIs for the tests of programs over several processes, which are skipped without them.
[ "$(id -u)" != 0 ] || ! offered openmpi-bin || packages="$packages openmpi-bin"
[ "$(id -u)" != 0 ] || ! offered mpich || packages="$packages mpich"
# A browser for the tests of profiles' pages and timelines, which are skipped without it.
[ "$(id -u)" != 0 ] || ! offered chromium-headless-shell || packages="$packages chromium-headless-shell"
# A loader of OpenCL's drivers, and the compiler of Intel's GPUs: for tests of SPIR-V, which are
# skipped without them.
[ "$(id -u)" != 0 ] || ! offered ocl-icd-libopencl1 || packages="$packages ocl-icd-libopencl1"
[ "$(id -u)" != 0 ] || ! offered intel-opencl-icd || packages="$packages intel-opencl-icd"
# An event loop with HTTP, for --serve, which the program is built without if it is missing.
[ "$(id -u)" != 0 ] || ! offered libevent-dev || packages="$packages libevent-dev"
missing=
for p in $packages; do
  dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ]; then
  echo "these packages are missing; as root: apt-get install$missing" >&2
  exit 1
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null
