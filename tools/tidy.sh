#!/bin/sh
# Runs clang-tidy with the checks of .clang-tidy over src/ and, through it, include/: of the build folder $1, $2 files at a time.
# More arguments are the files to look at instead.
set -eu
cd "$(dirname "$0")/.."
build=$1
jobs=$2
shift 2
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(git ls-files 'src/*.cc')

# shellcheck disable=SC2016
printf '%s\n' "$@" | xargs -P "$jobs" -n 1 sh -c '
  found=$(clang-tidy -p "$0" --quiet "$1" 2>/dev/null) || { printf "%s\n" "$found"; exit 1; }
' "$build" || { echo "clang-tidy found what is above; .clang-tidy says what it looks for" >&2; exit 1; }
echo "clang-tidy finds nothing in $# files"
