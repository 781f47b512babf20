// One client's connection, and all of them. Every wait has an end, so a slow client costs a place and nothing more.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace heed::serve {

class Connections;

class Connection {
 public:
  Connection(int socket, const Connections& all);  // closes the socket at the end
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The request line and the headers with the empty line. Throws Refused, and ClientGone where nothing comes any more.
  [[nodiscard]] std::string read_head();
  [[nodiscard]] std::string read_body(int64_t bytes);
  // All of it; false: the client has gone, or takes it too slowly.
  [[nodiscard]] bool write(std::string_view bytes) const;
  // Whether the client has gone. A client that has only ended its sending still wants its answer, and looks the same
  // until something is sent to it: so it is sent `harmless`, once and then every few seconds. If it has gone, its
  // system refuses these bytes.
  [[nodiscard]] bool gone(std::string_view harmless);
  // After the answer: takes what the client still sends, for a moment. Closing a socket that has unread bytes would
  // take the answer away from the client.
  void linger() const;

  // From another thread: whatever waits here ends.
  void end() const;
  [[nodiscard]] bool is_reading() const { return reading_; }
  [[nodiscard]] Clock::time_point since() const { return since_; }

 private:
  void receive(Clock::time_point deadline);  // some more bytes

  int socket_;
  const Connections& all_;
  std::atomic<bool> reading_{true};
  Clock::time_point since_ = Clock::now();
  Clock::time_point asked_ = {};  // when harmless bytes were last sent
  std::string bytes_;             // received and not yet used
};

class Connections {
 public:
  [[nodiscard]] bool add(Connection& connection);  // false: all have been ended
  void remove(Connection& connection);
  void end_all();
  // While connections wait for a place, clients that have not yet sent their request lose theirs, those first that have
  // taken longest. Each asks this for itself while it waits.
  [[nodiscard]] bool must_leave(const Connection& connection) const;
  void set_waiting(size_t count) { waiting_ = count; }

 private:
  mutable std::mutex mutex_;
  std::set<Connection*> all_;
  std::atomic<size_t> waiting_{0};
  bool ended_ = false;
};

// A socket that listens at `host`, on `port` or one of the `more` after it; port 0 takes a free one. Throws Error.
struct Listening {
  int socket = -1;
  int port = 0;
  bool loopback = false, any = false;  // what the address is: of this machine only; all addresses
};
[[nodiscard]] Listening listen_at(const std::string& host, int port, int more);

}  // namespace heed::serve
