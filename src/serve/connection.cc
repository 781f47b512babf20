#include "serve/connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "serve/request.h"
#include "serve/worker.h"

namespace heed::serve {
namespace {

using std::chrono::milliseconds;

constexpr auto kHeadTime = std::chrono::seconds(10), kBodyTime = std::chrono::seconds(20);
constexpr auto kWriteTime = std::chrono::seconds(10);  // and one more for each 100 kB
constexpr int64_t kSlowestBytes = 100'000;
constexpr auto kTurn = milliseconds(100);  // after this, a place may be given to another client
constexpr auto kLinger = milliseconds(500);
constexpr auto kAskAgain = std::chrono::seconds(5);  // whether a client that has ended its sending is still there

// Waits until the socket is ready for `events`. False: the time is over.
bool wait_for(int socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd one = {socket, events, 0};
    const int ready = poll(&one, 1, static_cast<int>(std::min<int64_t>(left, 1000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace

Connection::Connection(int socket, const Connections& all) : socket_(socket), all_(all) {
  const int flags = fcntl(socket_, F_GETFL), on = 1;
  if (flags >= 0) fcntl(socket_, F_SETFL, flags | O_NONBLOCK);
  fcntl(socket_, F_SETFD, FD_CLOEXEC);
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Connection::~Connection() { close(socket_); }

void Connection::receive(Clock::time_point deadline) {
  char buffer[16 << 10];
  for (;;) {
    const ssize_t got = recv(socket_, buffer, sizeof buffer, 0);
    if (got > 0) {
      bytes_.append(buffer, static_cast<size_t>(got));
      return;
    }
    if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) throw ClientGone{};
    if (errno == EINTR || wait_for(socket_, POLLIN, std::min(deadline, Clock::now() + kTurn))) continue;
    if (Clock::now() >= deadline) throw Refused(408, "the request came too slowly");
    if (all_.must_leave(*this)) throw ClientGone{};
  }
}

std::string Connection::read_head() {
  constexpr std::string_view kEnd = "\r\n\r\n";
  const Clock::time_point deadline = Clock::now() + kHeadTime;
  for (size_t searched = 0;;) {
    const size_t end = bytes_.find(kEnd, searched);
    if (end != std::string::npos && end + kEnd.size() <= static_cast<size_t>(kMostHead)) {
      std::string head = bytes_.substr(0, end + kEnd.size());
      bytes_.erase(0, head.size());
      return head;
    }
    if (bytes_.size() >= static_cast<size_t>(kMostHead)) throw Refused(431, "expected fewer or shorter headers");
    if (!can_begin_request(bytes_))
      throw Refused(400, "expected a request of HTTP/1.1, without TLS: http://, not https://");
    searched = bytes_.size() - std::min(bytes_.size(), kEnd.size() - 1);
    receive(deadline);
  }
}

std::string Connection::read_body(int64_t bytes) {
  const Clock::time_point deadline = Clock::now() + kBodyTime;
  while (bytes_.size() < static_cast<size_t>(bytes)) receive(deadline);
  reading_ = false;
  std::string body = bytes_.substr(0, static_cast<size_t>(bytes));
  bytes_.clear();  // one request a connection
  return body;
}

bool Connection::write(std::string_view bytes) const {
  const Clock::time_point deadline =
      Clock::now() + kWriteTime + std::chrono::seconds(static_cast<int64_t>(bytes.size()) / kSlowestBytes);
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else {
      const bool later = sent == 0 || errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
      if (!later || !wait_for(socket_, POLLOUT, deadline)) return false;
    }
  }
  return true;
}

bool Connection::gone(std::string_view harmless) {
  pollfd one = {socket_, POLLRDHUP, 0};
  if (poll(&one, 1, 0) != 1) return false;
  if (one.revents != POLLRDHUP) return true;
  const Clock::time_point now = Clock::now();
  if (asked_ != Clock::time_point{} && now < asked_ + kAskAgain) return false;
  asked_ = now;
  return !write(harmless);
}

void Connection::linger() const {
  shutdown(socket_, SHUT_WR);
  const Clock::time_point deadline = Clock::now() + kLinger;
  char buffer[16 << 10];
  while (wait_for(socket_, POLLIN, deadline)) {
    const ssize_t got = recv(socket_, buffer, sizeof buffer, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) return;
  }
}

void Connection::end() const { shutdown(socket_, SHUT_RDWR); }

bool Connections::add(Connection& connection) {
  const std::lock_guard lock(mutex_);
  if (!ended_) all_.insert(&connection);
  return !ended_;
}

void Connections::remove(Connection& connection) {
  const std::lock_guard lock(mutex_);
  all_.erase(&connection);
}

void Connections::end_all() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  for (const Connection* connection : all_) connection->end();
}

bool Connections::must_leave(const Connection& connection) const {
  const size_t waiting = waiting_;
  if (waiting == 0) return false;
  const std::lock_guard lock(mutex_);
  size_t slower = 0;
  for (const Connection* other : all_) slower += other->is_reading() && other->since() < connection.since() ? 1 : 0;
  return slower < waiting;
}

}  // namespace heed::serve
