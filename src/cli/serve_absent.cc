// heed serve in a program that was built without the server: says how to get it.
#include "cli/command.h"
#include "heed/error.h"

namespace heed::cli {

void add_serve_command(Options& options) {
  options.accept_anything();
  options.footer(
      "This program was built without the live page, because cpp-httplib was not found or CMake was told so\n"
      "(-DHEED_SERVE=OFF). `tools/install_packages.sh build` and `make` build it with the page.\n"
      "Example:\n"
      "  heed serve demo/en-zh --open\n");
  options.on_run([](Context&) -> int {
    throw Error(
        "this program was built without the live page; `tools/install_packages.sh build` and `make` build it with it "
        "(CMake: -DHEED_SERVE=ON)");
  });
}

}  // namespace heed::cli
