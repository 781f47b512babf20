// heed serve: the live page. A program without it has serve_absent.cc.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "cli/command.h"
#include "heed/error.h"
#include "heed/io.h"
#include "serve/api.h"
#include "serve/page.h"
#include "serve/server.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

struct ServeCommand {
  std::vector<std::string> models;
  std::optional<int64_t> port;
  std::string host = "127.0.0.1";
  bool open = false;
};

constexpr int kMorePorts = 20;     // that are tried where --port is not given
constexpr double kPatience = 0.7;  // seconds that a computation has to end after Ctrl-C

// Opens the link in a browser, without a shell. False where no browser is found.
bool open_browser(const std::string& link) {
  const pid_t first = fork();
  if (first < 0) return false;
  if (first == 0) {
    // The browser outlives heed and has nothing of it: no sockets, no output, no signals of its terminal.
    setsid();
    for (int descriptor = 3; descriptor < 1024; ++descriptor) close(descriptor);
    const int nothing = open("/dev/null", O_RDWR);
    for (int descriptor = 0; descriptor < 3; ++descriptor) dup2(nothing, descriptor);
    for (const char* program : {"xdg-open", "sensible-browser", "open"})
      execlp(program, program, link.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  // Only a program that is not there fails at once; a browser may run on.
  for (int i = 0; i < 20; ++i) {
    int status = 0;
    if (waitpid(first, &status, WNOHANG) == first) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

// The folders as messages may name them, and as they were found; those above them are nobody's business.
std::vector<std::string> parents_of(const std::vector<fs::path>& folders) {
  std::vector<std::string> parents;
  for (const fs::path& folder : folders) {
    const fs::path found = io::find_model_folder(folder.string());
    for (fs::path path : {folder, found, fs::absolute(found).lexically_normal()}) {
      if (!path.has_filename()) path = path.parent_path();
      parents.push_back(path.parent_path().string());
    }
  }
  return parents;
}

int run_serve(const ServeCommand& o, Context& context) {
  const std::vector<fs::path> folders(o.models.begin(), o.models.end());
  serve::Worker worker([&folders] { return std::make_unique<serve::Api>(folders); });
  serve::ServerOptions options;
  options.host = o.host;
  options.port = static_cast<int>(o.port.value_or(serve::kDefaultPort));
  options.more_ports = o.port ? 0 : kMorePorts;
  options.page = serve::live_page();
  options.hidden_folders = parents_of(folders);
  install_signal_handlers();
  serve::Server server(worker, options);
  for (const std::string& line : worker.lines()) message(context, line);
  if (!server.token().empty())
    message(
        context,
        "Others can reach this address. The link has the token that lets them in; the connection is not encrypted.");
  print_line(server.link());
  flush_output();
  if (o.open && !open_browser(server.link())) message(context, "No browser was found; open the link yourself.");
  while (!stop_requested() && server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  require(stop_requested(), "serve", "a socket that listens; the system has closed it");
  server.stop();
  // What still computes is not waited for: nothing of it is kept.
  if (!worker.stop(kPatience)) std::_Exit(interrupted_status());
  return interrupted_status();
}

}  // namespace

void add_serve_command(Options& options) {
  auto o = std::make_shared<ServeCommand>();
  options.add("MODEL", o->models, "Folders of models, or of a training in progress; or names in Hugging Face's cache")
      .takes("DIR")
      .required();
  options.add("--port", o->port, "Port to listen at; 0 takes a free one")
      .range(0, 65535)
      .shows(fmt::format("{}, or one of the next {} that is free", serve::kDefaultPort, kMorePorts));
  options.add("--host", o->host, "Address to listen at; other machines need the whole link, with its token")
      .takes("ADDRESS");
  options.flag("--open", o->open, "Open the page in the browser");
  options.footer(
      "Writes the link of the page to standard output, and serves it until Ctrl-C.\n"
      "Examples:\n"
      "  heed serve demo/en-zh --open\n"
      "  heed serve demo/en-zh demo/shakespeare --port 8000\n"
      "  heed serve demo/en-zh --host 0.0.0.0\n");
  options.on_run([o](Context& context) { return run_serve(*o, context); });
}

}  // namespace heed::cli
