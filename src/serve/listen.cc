// The socket that listens.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "heed/error.h"
#include "serve/connection.h"

namespace heed::serve {
namespace {

constexpr int kBacklog = 256;
constexpr int kLastPort = 65535;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses addresses_of(const std::string& host) {
  addrinfo wanted = {}, *found = nullptr;
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  const int error = getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  require(error == 0 && found != nullptr, "serve", "an address or a name of this machine; found \"", host, "\" (",
          gai_strerror(error), ")");
  return {found, freeaddrinfo};
}

void set_port(sockaddr* address, int port) {
  const uint16_t in_network_order = htons(static_cast<uint16_t>(port));
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = in_network_order;
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = in_network_order;
  }
}

int port_of(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  require(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0, "serve", "a port; found none");
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

void classify(const sockaddr* address, Listening& listening) {
  if (address->sa_family == AF_INET6) {
    const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    listening.loopback = IN6_IS_ADDR_LOOPBACK(&ip);
    listening.any = IN6_IS_ADDR_UNSPECIFIED(&ip);
  } else {
    const uint32_t ip = ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
    listening.loopback = (ip >> 24) == 127;
    listening.any = ip == INADDR_ANY;
  }
}

// A socket that listens, or -1 with errno.
int try_to_listen(addrinfo& address, int port) {
  const int opened = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  if (opened < 0) return -1;
  // A port that was left a moment ago may be taken again; one that is in use may not.
  setsockopt(opened, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  set_port(address.ai_addr, port);
  if (bind(opened, address.ai_addr, address.ai_addrlen) == 0 && listen(opened, kBacklog) == 0) return opened;
  const int error = errno;
  close(opened);
  errno = error;
  return -1;
}

}  // namespace

Listening listen_at(const std::string& host, int port, int more) {
  const Addresses addresses = addresses_of(host);
  Listening listening;
  classify(addresses->ai_addr, listening);
  for (int tried = port; tried <= kLastPort; ++tried) {
    listening.socket = try_to_listen(*addresses, tried);
    if (listening.socket >= 0) break;
    if (errno != EADDRINUSE)
      fail("serve", "an address to listen at; found ", host, " port ", tried, ": ", std::strerror(errno));
    if (tried - port < more && tried < kLastPort) continue;
    throw Error(more == 0 ? "--port " + std::to_string(port) + " is in use; --port 0 takes a free one"
                          : "the ports from " + std::to_string(port) + " to " + std::to_string(tried) +
                                " are in use; --port 0 takes a free one");
  }
  listening.port = port_of(listening.socket);
  return listening;
}

}  // namespace heed::serve
