#include "tests/unit/daemon/http/running_server.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <cstring>
#include <filesystem>

namespace sessiond::testing {

namespace asio = boost::asio;

Client::Client(unsigned short port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr generic{};
  std::memcpy(&generic, &address, sizeof generic);
  REQUIRE(::connect(fd_, &generic, sizeof address) == 0);
  connected();
}

Client::Client(const std::string& unix_path) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, unix_path.c_str(), unix_path.size());
  const void* raw = &address;
  REQUIRE(::connect(fd_, static_cast<const sockaddr*>(raw), sizeof address) == 0);
  connected();
}

// A test that waits for what never comes fails instead of hanging.
void Client::connected() {
  const timeval limit{.tv_sec = 20, .tv_usec = 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

Client::~Client() { close(); }

void Client::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void Client::small_receive_buffer() {
  const int size = 4096;
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
}

void Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;  // the server closed; what it said before is still to be read
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::string Client::receive_some() {
  if (!buffer_.empty()) return std::exchange(buffer_, {});
  char piece[16 << 10];
  const ssize_t n = ::recv(fd_, piece, sizeof piece, 0);
  if (n < 0 && errno == ECONNRESET) return {};
  REQUIRE_MESSAGE(n >= 0, "nothing came: ", std::strerror(errno));
  return {piece, static_cast<std::size_t>(n)};
}

std::string Client::receive_all() {
  std::string all;
  for (std::string piece = receive_some(); !piece.empty(); piece = receive_some()) all += piece;
  return all;
}

bool Client::closed() { return receive_some().empty(); }

Answer Client::receive(bool head) {
  std::string got;
  while (!got.contains("\r\n\r\n")) {
    const std::string piece = receive_some();
    REQUIRE_MESSAGE(!piece.empty(), "closed in the middle of: ", got);
    got += piece;
  }
  Answer answer;
  const std::size_t end = got.find("\r\n\r\n");
  REQUIRE(got.starts_with("HTTP/1.1 "));
  answer.status = std::stoi(got.substr(9, 3));
  for (std::size_t at = got.find("\r\n") + 2; at < end;) {
    const std::size_t eol = got.find("\r\n", at);
    const std::size_t colon = got.find(": ", at);
    std::string name = got.substr(at, colon - at);
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    CHECK(!answer.headers.contains(name));
    answer.headers[name] = got.substr(colon + 2, eol - colon - 2);
    at = eol + 2;
  }
  got.erase(0, end + 4);
  const auto length = answer.headers.find("content-length");
  const std::size_t size = head || length == answer.headers.end() ? 0 : std::stoul(length->second);
  while (got.size() < size) {
    const std::string piece = receive_some();
    REQUIRE_MESSAGE(!piece.empty(), "closed in the middle of a body");
    got += piece;
  }
  answer.body = got.substr(0, size);
  buffer_ = got.substr(size);
  return answer;
}

RunningServer::RunningServer(http::Router routes, http::ServerOptions options, const std::string& unix_path)
    : router(std::move(routes)), server(std::make_unique<http::Server>(io, router, disk, std::move(options))) {
  const Result<unsigned short> bound = server->listen_tcp({asio::ip::address_v4::loopback(), 0});
  REQUIRE(bound);
  port = *bound;
  if (!unix_path.empty()) REQUIRE(server->listen_unix(unix_path));
  thread_ = std::thread([this] {
    const auto guard = asio::make_work_guard(io);
    io.run();
  });
}

RunningServer::~RunningServer() {
  asio::post(io, [this] { server.reset(); });
  asio::post(io, [this] { io.stop(); });
  thread_.join();
  disk.join();
}

void RunningServer::stop() {
  on_thread([this] { server->stop(); });
}

std::future<void> RunningServer::stopped() { return asio::co_spawn(io, server->stopped(), asio::use_future); }

http::Router plain_routes() {
  http::Router router([](const http::Request&, auth::Permission) -> Result<auth::Principal> {
    return auth::Principal{.id = "t", .role = auth::Role::admin};
  });
  router.add("GET", "/hello", auth::Permission::open, [](http::Request&) -> asio::awaitable<Result<http::Response>> {
    http::Response response;
    response.content_type = "text/plain";
    response.body = "hello";
    co_return response;
  });
  router.add("POST", "/echo", auth::Permission::write,
             [](http::Request& request) -> asio::awaitable<Result<http::Response>> {
               http::Response response;
               response.status = 201;
               response.content_type = "application/octet-stream";
               response.body = std::move(request.body);
               request = {};  // a handler may take all of it
               co_return response;
             });
  router.add("GET", "/who", auth::Permission::open,
             [](http::Request& request) -> asio::awaitable<Result<http::Response>> {
               http::Response response;
               response.content_type = "text/plain";
               response.body = request.peer + (request.local_admin ? " admin" : "");
               co_return response;
             });
  return router;
}

}  // namespace sessiond::testing
