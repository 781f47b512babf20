#!/bin/sh
# Compiles the kernels and the attention for 64-bit ARM, and runs the attention's tests on an emulated processor.
#   tools/test_neon.sh [FILTER]      FILTER: which tests (a --gtest_filter); by default all but two that take long
#
# On ARM the portable path is NEON: vectors of four, with a fused multiply-add. The golden hashes among the tests were
# made on x86, so they show that the bits are the same. Needs Debian's cross compiler, qemu-user, and Highway, zlib and
# GoogleTest for arm64; installs them where it is run as root.
set -eu
cd "$(dirname "$0")/.."
filter=${1:--AttentionBits.OfABatchLargerThanTheCache*:AttentionPromise.AThousandRepeatsUnderLoad*}
out=build/neon

if ! command -v qemu-aarch64 >/dev/null || ! command -v aarch64-linux-gnu-g++ >/dev/null ||
   [ ! -e /usr/lib/aarch64-linux-gnu/libhwy.so ] || [ ! -e /usr/lib/aarch64-linux-gnu/libgtest.a ]; then
  install="dpkg --add-architecture arm64 && apt-get update -q && apt-get install -y --no-install-recommends qemu-user
           g++-aarch64-linux-gnu libhwy-dev:arm64 zlib1g-dev:arm64 libgtest-dev:arm64"
  if [ "$(id -u)" -ne 0 ]; then
    echo "test_neon needs packages that are not installed. As root, run:" >&2
    echo "  $install" >&2
    exit 1
  fi
  sh -c "$(echo $install)" >&2
fi

mkdir -p "$out"
cat > "$out/compile.sh" <<'COMPILE'
set -eu
object=$1/$(echo "$2" | tr / _).o
[ "$object" -nt "$2" ] && [ "${HEED_REBUILD:-0}" = 0 ] && exit 0
echo "$2"
# +crypto: what Highway compiles its NEON code for.
aarch64-linux-gnu-g++ -std=c++20 -march=armv8-a+crypto -O2 -DNDEBUG -ffp-contract=off -fopenmp-simd -Wall -Wextra \
  -Wconversion -Wshadow -Werror -DHWY_SHARED_DEFINE -DHWY_COMPILE_ONLY_STATIC -DHEED_PORTABLE_ONLY \
  -DHEED_SOURCE_DIR="\"$PWD\"" -DHEED_LIBRARY_FOLDER="\"lib\"" -I include -I src -I tests -c "$2" -o "$object"
COMPILE
# Headers are not followed: everything again when one has changed.
if [ -n "$(find include src tests -name '*.h' -newer "$out/attention_test" 2>/dev/null)" ]; then export HEED_REBUILD=1; fi
# Without the tests across ranks, because their ranks are threads: see below.
{ find src/base src/tensor src/kernels src/ops src/formats src/distributed src/attention -name "*.cc" -not -path "*/plugin/*" | sort
  ls tests/attention/*_test.cc | grep -v /across_ranks; } |
  xargs -P "$(nproc)" -n 1 sh "$out/compile.sh" "$out"
# One thread, whatever the tests ask for: with qemu-user 7.2 programs that start threads come to a stop in
# pthread_create, ten lines without heed too.
echo "#include <cerrno>
extern \"C\" int pthread_create(void*, const void*, void* (*)(void*), void*) { return EAGAIN; }" >"$out/no_threads.cc"
aarch64-linux-gnu-g++ -o "$out/attention_test" "$out/no_threads.cc" "$out"/*.o -lgtest_main -lgtest -lhwy -lz
QEMU_LD_PREFIX=/usr/aarch64-linux-gnu qemu-aarch64 "$out/attention_test" --gtest_filter="$filter" --gtest_brief=1
