#include "tests/bench/stream/net.hpp"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace sessiond::bench::stream {

Socket::~Socket() { close(); }

void Socket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

void raise_descriptor_limit(std::size_t needed) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) fail("getrlimit");
  if (limit.rlim_max < needed)
    throw std::runtime_error("needs " + std::to_string(needed) + " file descriptors, the hard limit is " +
                             std::to_string(limit.rlim_max));
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) fail("setrlimit");
}

sockaddr_in address_of(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1)
    throw std::runtime_error(host + " is no IPv4 address");
  return address;
}

Socket connect_to(const sockaddr_in& address, int receive_buffer) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) fail("socket");
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (receive_buffer > 0) ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno != EINPROGRESS)
    fail("connect");
  return socket;
}

Socket listen_on(std::uint16_t& port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) fail("socket");
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = address_of("127.0.0.1", port);
  socklen_t size = sizeof address;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) fail("bind");
  if (::listen(socket.get(), 4096) != 0) fail("listen");
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) fail("getsockname");
  port = ntohs(address.sin_port);
  return socket;
}

std::ptrdiff_t send_some(int fd, std::string_view bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return -1;
    sent += static_cast<std::size_t>(n);
  }
  return static_cast<std::ptrdiff_t>(sent);
}

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) fail("epoll_create1");
}

void Poller::add(int fd, std::uint32_t events, Pollable& pollable) const {
  control(EPOLL_CTL_ADD, fd, events, pollable);
}

void Poller::change(int fd, std::uint32_t events, Pollable& pollable) const {
  control(EPOLL_CTL_MOD, fd, events, pollable);
}

void Poller::remove(int fd) const {
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr) != 0) fail("epoll_ctl");
}

void Poller::control(int operation, int fd, std::uint32_t events, Pollable& pollable) const {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &pollable;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0) fail("epoll_ctl");
}

void Poller::wait(int milliseconds) const {
  std::array<epoll_event, 128> events{};
  const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), milliseconds);
  if (n < 0 && errno != EINTR) fail("epoll_wait");
  for (int i = 0; i < n; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    static_cast<Pollable*>(event.data.ptr)->ready(event.events);
  }
}

}  // namespace sessiond::bench::stream
