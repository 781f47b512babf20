// heed bench in a program that was built without the benchmarks: says how to get them.
#include "cli/command.h"
#include "heed/error.h"

namespace heed::cli {

void add_bench_command(Options& options) {
  options.accept_anything();
  options.footer(
      "This program was built without its benchmarks, as `make demo` does to be quick.\n"
      "`make` builds it with them, and `make bench` runs them. (CMake: -DHEED_BUILD_BENCH=ON)\n"
      "Example:\n"
      "  heed bench attention\n");
  options.has_json();
  options.on_run([](Context&) -> int {
    throw Error(
        "this program was built without its benchmarks; `make` builds it with them (CMake: -DHEED_BUILD_BENCH=ON)");
  });
}

}  // namespace heed::cli
