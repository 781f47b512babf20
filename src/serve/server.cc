// The only file that includes cpp-httplib. heed reads requests itself (connection.h, request.h, guard.h), strictly and
// with limits, and hands cpp-httplib only "GET /": that library accepts connections and writes answers.
#include "serve/server.h"

#include <httplib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "serve/connection.h"
#include "serve/guard.h"
#include "serve/request.h"

namespace heed::serve {
namespace {

constexpr const char* kNoContent = "default-src 'none'; frame-ancestors 'none'";  // for what is no page
constexpr size_t kMostThreads = 192;                                              // connections at once
constexpr size_t kMostQueued = 256;  // connections that wait for one of these; others are closed

// Threads that are started when they are needed. When all are taken, the slowest clients lose their places.
class Threads : public httplib::TaskQueue {
 public:
  explicit Threads(Connections& connections) : connections_(connections) {}

  void enqueue(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    tasks_.push_back(std::move(task));
    if (tasks_.size() <= idle_) {
      wake_.notify_one();
      return;
    }
    if (threads_.size() < kMostThreads && start()) return;
    std::function<void()> refused;
    if (tasks_.size() > kMostQueued) {
      refused = std::move(tasks_.front());
      tasks_.pop_front();
    }
    connections_.set_waiting(tasks_.size());
    lock.unlock();
    if (!refused) return;
    refusing() = true;
    refused();
    refusing() = false;
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      wake_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  // Set while a task only has to close its connection.
  static bool& refusing() {
    thread_local bool set = false;
    return set;
  }

 private:
  bool start() {
    try {
      threads_.emplace_back([this] { run(); });
      return true;
    } catch (const std::system_error&) {  // the system has no more threads: those that are there go on
      return false;
    }
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      wake_.wait(lock, [this] { return ended_ || !tasks_.empty(); });
      --idle_;
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      connections_.set_waiting(tasks_.size() > idle_ ? tasks_.size() - idle_ : 0);
      lock.unlock();
      task();
      lock.lock();
    }
  }

  Connections& connections_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool ended_ = false;
};

// What httplib reads: a request that heed has already checked. What it writes goes to the client.
class CheckedRequest : public httplib::Stream {
 public:
  CheckedRequest(const Connection& connection, bool head_only)
      : connection_(connection), request_(head_only ? "HEAD / HTTP/1.1\r\n\r\n" : "GET / HTTP/1.1\r\n\r\n") {}

  [[nodiscard]] bool is_readable() const override { return true; }
  [[nodiscard]] bool is_writable() const override { return true; }
  ssize_t read(char* to, size_t size) override {
    const size_t count = std::min(size, request_.size());
    request_.copy(to, count);
    request_.remove_prefix(count);
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* from, size_t size) override {
    return connection_.write({from, size}) ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  void get_local_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  [[nodiscard]] socket_t socket() const override { return -1; }

 private:
  const Connection& connection_;
  std::string_view request_;
};

using Answer = std::function<void(httplib::Response&)>;

class Listener : public httplib::Server {
 public:
  Listener(Worker& worker, const ServerOptions& options) : worker_(worker), options_(options) {
    listening_ = listen_at(options.host, options.port, options.more_ports);
    svr_sock_ = listening_.socket;
    if (options_.token.empty() && !listening_.loopback) options_.token = random_token();
    rules_ = rules_for(options_.host, listening_.any, listening_.port, options_.token);
    new_task_queue = [this] { return new Threads(connections_); };
    set_pre_routing_handler([](const httplib::Request&, httplib::Response& response) {
      (*current())(response);
      return HandlerResponse::Handled;
    });
    set_default_headers({{"X-Content-Type-Options", "nosniff"},
                         {"X-Frame-Options", "DENY"},
                         {"Referrer-Policy", "no-referrer"},
                         {"Cross-Origin-Opener-Policy", "same-origin"},
                         {"Cross-Origin-Resource-Policy", "same-origin"},
                         {"Cache-Control", "no-store"}});
  }

  void end_connections() { connections_.end_all(); }
  [[nodiscard]] const Listening& listening() const { return listening_; }
  [[nodiscard]] const ServerOptions& options() const { return options_; }

 private:
  // How the request of this thread is answered.
  static const Answer*& current() {
    thread_local const Answer* answer = nullptr;
    return answer;
  }

  bool process_and_close_socket(int socket) override {
    Connection connection(socket, connections_);
    if (Threads::refusing() || !connections_.add(connection)) return false;
    try {
      bool head_only = false;
      const Answer answer = answer_to(connection, head_only);
      current() = &answer;
      CheckedRequest request(connection, head_only);
      bool closed = false;
      if (process_request(request, true, closed, nullptr)) connection.linger();
    } catch (const ClientGone&) {
    } catch (const std::exception&) {  // not enough memory for an answer: the connection is closed without one
    }
    connections_.remove(connection);
    return true;
  }

  Answer answer_to(Connection& connection, bool& head_only) {
    try {
      const std::string lines = connection.read_head();
      head_only = lines.starts_with("HEAD ");  // errors too
      const Head head = parse_head(lines);
      const Asked asked = check(head, rules_, [this](std::string_view name) { return worker_.kind(name); });
      if (head.find("expect")) (void)connection.write("HTTP/1.1 100 Continue\r\n\r\n");
      const std::string body = connection.read_body(asked.body_bytes);
      if (asked.page)
        return [this](httplib::Response& response) {
          give(response, 200, "text/html; charset=utf-8", options_.page.html, options_.page.policy);
        };
      nlohmann::json request = asked.kind == Kind::get ? parse_query(head.query) : parse_body(body);
      const std::string_view working = head.is_old ? "" : "HTTP/1.1 102 Processing\r\n\r\n";  // 1.0 has no such answers
      const auto gone = [&connection, working] { return connection.gone(working); };
      if (asked.kind != Kind::stream) {
        return [reply = worker_.call(asked.name, std::move(request), gone)](httplib::Response& response) {
          give(response, 200, reply.type, reply.body);
        };
      }
      std::shared_ptr<Worker::Run> run = worker_.open(asked.name, std::move(request), gone);
      // Within a stream: a chunk with a comment.
      const auto left = [&connection] { return connection.gone("3\r\n:\n\n\r\n"); };
      return [this, run, left](httplib::Response& response) { give_events(response, run, left); };
    } catch (const ClientGone&) {
      throw;
    } catch (...) {
      return [this, error = std::current_exception()](httplib::Response& response) { give_error(response, error); };
    }
  }

  static void give(httplib::Response& response, int status, const std::string& type, const std::string& body,
                   const std::string& policy = kNoContent) {
    response.status = status;
    response.set_header("Content-Security-Policy", policy);
    response.set_content(body, type);
  }

  [[nodiscard]] std::string error_json(const std::string& message) const {
    using Json = nlohmann::json;
    return Json{{"error", public_message(message, options_.hidden_folders)}}.dump(-1, ' ', false,
                                                                                  Json::error_handler_t::replace);
  }

  // Status, JSON and a header for what was thrown. What is neither Error nor lack of memory is a mistake of heed's, and
  // its text could say anything.
  struct Failure {
    int status;
    std::string json, header;
  };
  [[nodiscard]] Failure failure_of(const std::exception_ptr& error) const {
    try {
      std::rethrow_exception(error);
    } catch (const Refused& refused) {
      return {refused.status(), error_json(refused.what()), refused.header()};
    } catch (const Error& wrong) {
      return {400, error_json(wrong.what()), ""};
    } catch (const std::bad_alloc&) {
      return {503, error_json("not enough memory for this request"), ""};
    } catch (...) {
      return {500, error_json("this request failed inside heed"), ""};
    }
  }

  void give_error(httplib::Response& response, const std::exception_ptr& error) const {
    const Failure failure = failure_of(error);
    give(response, failure.status, "application/json", failure.json);
    const size_t colon = failure.header.find(": ");
    if (colon != std::string::npos)
      response.set_header(failure.header.substr(0, colon), failure.header.substr(colon + 2));
  }

  void give_events(httplib::Response& response, const std::shared_ptr<Worker::Run>& run,
                   const Worker::Gone& gone) const {
    response.status = 200;
    response.set_header("Content-Security-Policy", kNoContent);
    response.set_chunked_content_provider("text/event-stream", [this, run, gone](size_t, httplib::DataSink& sink) {
      Worker::Event event;
      bool more = true;
      try {
        auto next = run->next(gone);
        if (!next) {
          sink.done();
          return true;
        }
        event = std::move(*next);
      } catch (const ClientGone&) {
        return false;
      } catch (...) {
        event = {"error", failure_of(std::current_exception()).json};
        more = false;
      }
      const std::string text = "event: " + event.name + "\ndata: " + event.data + "\n\n";
      if (!sink.write(text.data(), text.size())) return false;
      if (!more) sink.done();
      return true;
    });
  }

  Worker& worker_;
  ServerOptions options_;
  Listening listening_;
  Rules rules_;
  Connections connections_;
};

}  // namespace

struct Server::Parts {
  Parts(Worker& computes, const ServerOptions& options) : worker(computes), listener(computes, options) {}
  Worker& worker;
  Listener listener;
  std::atomic<bool> ended{false};
  std::thread thread;
};

Server::Server(Worker& worker, const ServerOptions& options) : parts_(std::make_unique<Parts>(worker, options)) {
  parts_->thread = std::thread([parts = parts_.get()] {
    parts->listener.listen_after_bind();
    parts->ended = true;
  });
  // httplib does not hear a stop() that comes before it has begun.
  while (!parts_->listener.is_running() && !parts_->ended) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

Server::~Server() { stop(); }

int Server::port() const { return parts_->listener.listening().port; }
const std::string& Server::token() const { return parts_->listener.options().token; }
bool Server::is_running() const { return !parts_->ended; }

std::string Server::link() const {
  const Listening& listening = parts_->listener.listening();
  std::string host = parts_->listener.options().host;
  char machine[256] = {};
  if (listening.any && gethostname(machine, sizeof machine - 1) == 0 && machine[0] != '\0') host = machine;
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  const std::string fragment = token().empty() ? "" : "#token=" + token();
  return "http://" + host + ":" + std::to_string(listening.port) + "/" + fragment;
}

void Server::stop() {
  if (!parts_->thread.joinable()) return;
  parts_->worker.stop(0);
  parts_->listener.stop();
  parts_->listener.end_connections();
  parts_->thread.join();
}

}  // namespace heed::serve
