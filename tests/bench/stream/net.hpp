// Non-blocking sockets and the epoll loop. What makes a run worthless is thrown as std::runtime_error.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace sessiond::bench::stream {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

[[noreturn]] void fail(const std::string& what);  // with errno's text
void raise_descriptor_limit(std::size_t needed);  // to the hard limit; throws when that is not enough
sockaddr_in address_of(const std::string& host, std::uint16_t port);
Socket connect_to(const sockaddr_in& address, int receive_buffer = 0);  // begun; 0: the kernel's buffer
Socket listen_on(std::uint16_t& port);                                  // on 127.0.0.1; 0 becomes the port chosen

// Bytes sent, all or what the socket took; -1: the connection is gone.
std::ptrdiff_t send_some(int fd, std::string_view bytes);

class Pollable {
 public:
  virtual ~Pollable() = default;
  virtual void ready(std::uint32_t events) = 0;
};

class Poller {
 public:
  Poller();
  void add(int fd, std::uint32_t events, Pollable& pollable) const;
  void change(int fd, std::uint32_t events, Pollable& pollable) const;
  void remove(int fd) const;
  void wait(int milliseconds) const;  // and calls ready() of those that are; a Pollable outlives its socket

 private:
  void control(int operation, int fd, std::uint32_t events, Pollable& pollable) const;
  Socket epoll_;
};

}  // namespace sessiond::bench::stream
