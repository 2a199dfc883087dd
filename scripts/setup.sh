#!/bin/sh
# Installs what the build and the tests need from Debian's packages, when it is
# missing and we may. Says what to install otherwise.
set -eu
packages="gcc make pkg-config libluajit-5.1-dev libluajit-5.1-common lua-cjson-dev liblapack-dev libblas-dev
          gfortran libc6-dev libffi-dev"
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
