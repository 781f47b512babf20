// The server of the live page: HTTP around a Worker. docs/serve.md says what can be asked for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/page.h"
#include "serve/worker.h"

namespace heed::serve {

inline constexpr int kDefaultPort = 8017;

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = kDefaultPort;
  int more_ports = 0;  // of the ports after it, so many are tried while they are in use
  // What requests must carry. Where it is empty, and the host is not this machine alone, a random one is made.
  std::string token = {};
  Page page = {};
  std::vector<std::string> hidden_folders = {};  // whose names no answer may have
};

class Server {
 public:
  // Listens and answers, from now on. Throws Error where it cannot listen.
  Server(Worker& worker, const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] int port() const;
  [[nodiscard]] const std::string& token() const;
  [[nodiscard]] std::string link() const;  // with the token in its fragment, which browsers do not send
  [[nodiscard]] bool is_running() const;   // false also where the system took the socket away
  // Ends all connections; the worker is told to stop, and may go on for a moment.
  void stop();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace heed::serve
