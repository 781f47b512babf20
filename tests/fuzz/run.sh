#!/bin/sh
# Runs every fuzzer that has been built for so many seconds, and prints what each did. Fails where one found something.
#   [JOBS=1] [LENGTH=4096] tests/fuzz/run.sh BUILD SECONDS [TARGET...]
# JOBS of them run at a time; no input is longer than LENGTH bytes (with 512, most parsers get 1.3 to 1.6 times as many
# executions in the same time). Inputs that reached new code are kept in BUILD/corpus, findings in BUILD/findings: the
# next run goes on from there.
set -eu

here=$(dirname "$0")
build=$1
seconds=$2
shift 2

run_one() {
  name=$1
  log="$build/logs/$name.log"
  status=0
  # No allocation may be larger than 1 GiB and some: what an .npz of a few bytes may unpack to. Reports do not say where
  # memory was allocated, which saves a tenth of the time; BUILD/TARGET FINDING says it. Choosing inputs by how rare their
  # features are (entropic) takes a quarter of the time. Nobody else writes into the corpus (reload).
  ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:malloc_context_size=0 UBSAN_OPTIONS=print_stacktrace=1 \
    "$build/$name" -max_total_time="$seconds" -timeout=20 -entropic=0 -rss_limit_mb=3072 -malloc_limit_mb=1536 \
    -max_len="${LENGTH:-4096}" -reload=0 -print_final_stats=1 -verbosity=1 \
    -artifact_prefix="$build/findings/$name-" "$build/corpus/$name" >"$log" 2>&1 || status=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  spent=$(sed -n 's/^Done [0-9]* runs in \([0-9]*\) second.*/\1/p' "$log")
  [ "$status" -eq 0 ] && found=none || found="see $log"
  printf '%-16s %14s %9s  %s\n' "$name" "${runs:--}" "${spent:--}" "$found"
  [ "$found" = none ]
}

if [ "${1-}" = --one ]; then
  run_one "$2"
  exit
fi

if [ $# -eq 0 ]; then
  for file in "$here"/*.cc; do
    name=$(basename "$file" .cc)
    case $name in target | driver | memory_file | one_thread) ;; *) set -- "$@" "$name" ;; esac
  done
fi
for name in "$@"; do
  [ -x "$build/$name" ] || { echo "run.sh: expected the name of a file in tests/fuzz; found $name" >&2; exit 2; }
done
mkdir -p "$build/corpus" "$build/findings" "$build/logs"
"$build/write_seeds" "$build/corpus"
printf '%-16s %14s %9s  %s\n' target executions seconds findings
printf '%s\n' "$@" | xargs -n 1 -P "${JOBS:-1}" "$0" "$build" "$seconds" --one ||
  { echo "A fuzzer found something: its log is named above." >&2; exit 1; }
