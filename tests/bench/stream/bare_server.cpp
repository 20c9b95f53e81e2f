#include "tests/bench/stream/bare_server.hpp"

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/bench/stream/dialect.hpp"
#include "tests/bench/stream/net.hpp"

namespace sessiond::bench::stream {
namespace {

class Client;

struct Shared {
  Poller poller{};
  std::vector<Client*> readers{};
  std::vector<std::unique_ptr<Client>> clients{};  // those that are gone, too: the poller may still name them

  void publish(std::string_view bytes);
};

class Client : public Pollable {
 public:
  Client(Shared& shared, Socket socket) : shared_(shared), socket_(std::move(socket)) {
    shared_.poller.add(socket_.get(), EPOLLIN, *this);
  }

  void ready(std::uint32_t) override {
    if (!socket_) return;
    std::array<char, 64 * 1024> buffer{};
    const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return socket_.close();
    received_.append(buffer.data(), static_cast<std::size_t>(n));
    while (take_request()) {
    }
  }
  // False: it is not there any more, or does not take it whole, and is disconnected.
  bool send(std::string_view bytes) {
    if (socket_ && send_some(socket_.get(), bytes) == static_cast<std::ptrdiff_t>(bytes.size())) return true;
    socket_.close();
    return false;
  }

 private:
  bool take_request() {
    const std::size_t head = received_.find("\r\n\r\n");
    if (head == received_.npos) return false;
    if (received_.starts_with("GET ")) {
      received_.clear();
      shared_.readers.push_back(this);
      return send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\r\n") && false;
    }
    const auto length = static_cast<std::size_t>(number_after(received_, "Content-Length: ").value_or(0));
    if (received_.size() < head + 4 + length) return false;
    shared_.publish(std::string_view(received_).substr(head + 4, length));
    received_.erase(0, head + 4 + length);
    return send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
  }

  Shared& shared_;
  Socket socket_;
  std::string received_{};
};

void Shared::publish(std::string_view bytes) {
  std::erase_if(readers, [&](Client* reader) { return !reader->send(bytes); });
}

class Acceptor : public Pollable {
 public:
  Acceptor(Shared& shared, std::uint16_t& port) : shared_(shared), socket_(listen_on(port)) {
    shared_.poller.add(socket_.get(), EPOLLIN, *this);
  }
  void ready(std::uint32_t) override {
    for (;;) {
      Socket socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket && errno == EAGAIN) return;
      if (!socket) fail("accept");
      const int on = 1;
      ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      shared_.clients.push_back(std::make_unique<Client>(shared_, std::move(socket)));
    }
  }

 private:
  Shared& shared_;
  Socket socket_;
};

}  // namespace

void serve_bare(std::uint16_t port) {
  raise_descriptor_limit(0);
  Shared shared;
  Acceptor acceptor(shared, port);
  std::printf("%u\n", static_cast<unsigned>(port));
  std::fflush(stdout);
  for (;;) shared.poller.wait(-1);
}

}  // namespace sessiond::bench::stream
