#!/bin/sh
# Installs the build tree $1 into a fresh prefix and builds the ten-line program against it, once by find_package and once
# by pkg-config. Both must print the worked example's weights.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
expected="0.4536 0.4294 0.1170"

check() {
  found=$("$2")
  [ "$found" = "$expected" ] || { echo "$1: expected \"$expected\"; found \"$found\"" >&2; exit 1; }
  echo "$1: $found"
}

cmake --install "$build" --prefix "$work/prefix" >/dev/null
cmake -S "$here" -B "$work/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/consumer" >/dev/null
check find_package "$work/consumer/consumer"

pc=$(dirname "$(find "$work/prefix" -name heed.pc)")
flags=$(PKG_CONFIG_PATH="$pc" pkg-config --cflags --libs heed)
# shellcheck disable=SC2086
c++ "$here/main.cc" $flags -o "$work/by-pkg-config"
check pkg-config "$work/by-pkg-config"
"$work/prefix/bin/heed" --version
