#!/bin/sh
# Installs the build tree $1 (only its component $2, where given) into a fresh prefix and builds programs against it, once by
# find_package and once by pkg-config. They must print the worked example's weights and what crosses the library's border. A
# shared library must export names of heed alone.
set -eu
build=$1
component=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
weights="0.4536 0.4294 0.1170"
border="an error, a model, an observer, 6 missing files"

check() {  # what, expected, program
  found=$("$3")
  [ "$found" = "$2" ] || { echo "$1: expected \"$2\"; found \"$found\"" >&2; exit 1; }
  echo "$1: $found"
}

cmake --install "$build" --prefix "$work/prefix" ${component:+--component "$component"} >/dev/null
shared=$(find "$work/prefix" -name libheed.so)
kind=static
[ -z "$shared" ] || kind=shared
[ -z "$component" ] || [ "$component" = "$kind" ] || { echo "component $component installed a $kind library" >&2; exit 1; }

cmake -S "$here" -B "$work/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/consumer" >"$work/log" || { cat "$work/log" >&2; exit 1; }
check "$kind, find_package" "$weights" "$work/consumer/main"
check "$kind, find_package" "$border" "$work/consumer/border"

pc=$(dirname "$(find "$work/prefix" -name heed.pc)")
flags=$(PKG_CONFIG_PATH="$pc" pkg-config --cflags --libs heed)
for name in main border; do
  # shellcheck disable=SC2086
  c++ -Wall -Wextra -Werror -fvisibility=hidden "$here/$name.cc" $flags -Wl,-rpath,"$(dirname "$pc")" -o "$work/$name"
done
check "$kind, pkg-config" "$weights" "$work/main"
check "$kind, pkg-config" "$border" "$work/border"

if [ "$kind" = shared ]; then
  nm -DC --defined-only "$shared" | cut -c 20- >"$work/exported"
  ours='^((typeinfo|typeinfo name|vtable|VTT|guard variable) for |(non-virtual|virtual) thunk to )?heed::'
  if grep -Ev "$ours" "$work/exported" >"$work/wrong" || grep -E 'heed::(kernels|simd|N_)|anonymous' "$work/exported" >"$work/wrong"
  then
    echo "$shared exports what is not public:" >&2
    head -n 20 "$work/wrong" >&2
    exit 1
  fi
  echo "exports $(wc -l <"$work/exported") names, all of heed"
fi
[ -n "$component" ] || "$work/prefix/bin/heed" --version
