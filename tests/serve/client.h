// A client that can send anything.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

namespace heed::serve::test {

class Client {
 public:
  explicit Client(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { leave(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  // False: the server does not listen any more.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  void end_sending() const { shutdown(socket_, SHUT_WR); }
  void leave() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }
  // What comes until the end, or until there is `enough`.
  std::string receive(const std::string& enough = {}, double seconds = 20) {
    std::string all;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < deadline) {
      pollfd one = {socket_, POLLIN, 0};
      if (poll(&one, 1, 100) <= 0) continue;
      char bytes[4096];
      const ssize_t got = recv(socket_, bytes, sizeof bytes, 0);
      if (got <= 0) {
        ended_ = true;
        break;
      }
      all.append(bytes, static_cast<size_t>(got));
      if (!enough.empty() && all.find(enough) != std::string::npos) break;
    }
    return all;
  }
  [[nodiscard]] bool ended() const { return ended_; }  // the server has closed the connection

 private:
  int socket_;
  bool connected_ = false, ended_ = false;
};

struct Answered {
  int status = 0;  // 0: no answer
  std::map<std::string, std::string> headers;
  std::string body;
};

inline std::string without_chunks(std::string_view chunks) {
  std::string body;
  while (!chunks.empty()) {
    const size_t line = chunks.find("\r\n");
    if (line == std::string_view::npos) break;
    const size_t size = std::strtoul(std::string(chunks.substr(0, line)).c_str(), nullptr, 16);
    if (size == 0) break;
    body += chunks.substr(line + 2, size);
    chunks.remove_prefix(std::min(line + 2 + size + 2, chunks.size()));
  }
  return body;
}

// Without what says that the answer is still to come.
inline std::string without_interim(std::string text) {
  while (text.starts_with("HTTP/1.1 1")) text.erase(0, std::min(text.find("\r\n\r\n"), text.size() - 4) + 4);
  return text;
}

inline Answered parse_answer(const std::string& text) {
  Answered answer;
  const size_t end = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.1 ") || end == std::string::npos) return answer;
  answer.status = std::atoi(text.c_str() + 9);
  for (size_t at = text.find("\r\n") + 2; at < end + 2;) {
    const size_t stop = text.find("\r\n", at), colon = text.find(": ", at);
    answer.headers[text.substr(at, colon - at)] += text.substr(colon + 2, stop - colon - 2);
    at = stop + 2;
  }
  answer.body = text.substr(end + 4);
  if (answer.headers.count("Transfer-Encoding") != 0) answer.body = without_chunks(answer.body);
  return answer;
}

inline std::string host_line(int port) { return "Host: 127.0.0.1:" + std::to_string(port) + "\r\n"; }

inline std::string post_text(int port, const std::string& name, const std::string& body,
                             const std::string& headers = "") {
  return "POST /api/v1/" + name + " HTTP/1.1\r\n" + host_line(port) + "Content-Type: application/json\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

inline Answered ask(int port, const std::string& text) {
  Client client(port);
  client.send(text);
  return parse_answer(client.receive());
}
inline Answered get(int port, const std::string& path, const std::string& headers = "") {
  return ask(port, "GET " + path + " HTTP/1.1\r\n" + host_line(port) + headers + "\r\n");
}
inline Answered post(int port, const std::string& name, const std::string& body, const std::string& headers = "") {
  return ask(port, post_text(port, name, body, headers));
}

}  // namespace heed::serve::test
