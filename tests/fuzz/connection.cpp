// The real connection code over a socket pair, fed arbitrary bytes in arbitrary pieces. Whatever comes: every reply is
// whole HTTP/1.1 with a Date, the replies are those to the requests that reference.hpp sees, in their order, and there
// is at most one more, which refuses the rest and is the last.
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/http/connection.hpp"
#include "tests/fuzz/reference.hpp"

using namespace sessiond;
using namespace sessiond::http;
namespace asio = boost::asio;

namespace {

[[noreturn]] void wrong(std::string_view what, std::string_view sent, std::string_view came) {
  fmt::print(stderr, "{}\n--- sent\n{}\n--- came\n{}\n", what, sent, came);
  std::abort();
}

Router echo() {
  Router router([](const Request&, auth::Permission) -> Result<auth::Principal> {
    return auth::Principal{.id = "t", .role = auth::Role::admin};
  });
  const auto body_back = [](Request& request) -> asio::awaitable<Result<Response>> {
    Response response;
    response.content_type = "text/plain";
    response.body = std::move(request.body);
    response.headers.emplace_back("X-Method", request.method);
    co_return response;
  };
  for (const char* method : {"GET", "POST", "PUT"}) router.add(method, "/{x}", auth::Permission::open, body_back);
  return router;
}

struct Reply {
  int status = 0;
  std::string body;
  bool close = false;
  bool echoed = false;
};

// Takes one reply off the front of `came`; nothing when it is not well-formed or not whole.
std::optional<Reply> take_reply(std::string_view& came, bool to_head) {
  const std::size_t end = came.find("\r\n\r\n");
  if (end == std::string_view::npos) return {};
  std::string_view head = came.substr(0, end + 2);
  came.remove_prefix(end + 4);
  if (!head.starts_with("HTTP/1.1 ") || head.size() < 14 || head[12] != ' ') return {};
  Reply reply;
  for (const char digit : head.substr(9, 3)) {
    if (digit < '0' || digit > '9') return {};
    reply.status = reply.status * 10 + (digit - '0');
  }
  std::optional<std::size_t> length;
  bool date = false;
  head.remove_prefix(head.find("\r\n") + 2);
  while (!head.empty()) {
    const std::string_view line = head.substr(0, head.find("\r\n"));
    head.remove_prefix(line.size() + 2);
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos || colon == 0) return {};
    for (const char c : line) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return {};
    }
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = line.substr(colon + 2);
    if (name.find_first_of(" \t()<>@,;\\\"/[]?={}") != std::string_view::npos) return {};
    if (name == "Date") date = value.size() == 29 && value.ends_with(" GMT");
    if (name == "Content-Length") length = std::stoul(std::string(value));
    if (name == "Connection" && value == "close") reply.close = true;
    if (name == "X-Method") reply.echoed = true;
  }
  if (reply.status < 200) return reply;
  if (!date) return {};
  if (to_head || reply.status == 204) return reply;
  if (!length || came.size() < *length) return {};
  reply.body = came.substr(0, *length);
  came.remove_prefix(*length);
  return reply;
}

// What the connection says to `bytes` that come in pieces and then end.
std::string talk(std::string_view bytes, std::uint8_t cut) {
  static const Router router = echo();
  static asio::thread_pool disk(1);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  std::string came;
  const auto listen = [&] {
    char piece[16 << 10];
    for (ssize_t n = 0; (n = ::recv(ends[1], piece, sizeof piece, 0)) > 0;)
      came.append(piece, static_cast<std::size_t>(n));
  };
  {
    asio::io_context io(1);
    const std::shared_ptr<Service> service(new Service{.router = router, .disk = disk});
    service->options.read.body_bytes = 64 << 10;
    service->options.hosts = {"a", "localhost"};
    auto connection = std::make_shared<Connection>(
        service, Connection::Socket(io, asio::generic::stream_protocol(AF_UNIX, 0), ends[0]),
        Connection::Peer{.name = "fuzz"});
    asio::co_spawn(io, connection->run(), [connection](const std::exception_ptr& failure) {
      if (failure) std::rethrow_exception(failure);
    });
    connection.reset();
    io.poll();
    std::size_t step = cut;
    while (!bytes.empty() && !service->connections.empty()) {
      step = (step * 7 + 3) % 97;  // 0: all that is left
      const std::size_t size = step == 0 ? bytes.size() : std::min(step, bytes.size());
      const ssize_t n = ::send(ends[1], bytes.data(), size, MSG_NOSIGNAL);
      if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
      if (n < 0 && errno != EAGAIN) break;
      io.poll();
      listen();
    }
    ::shutdown(ends[1], SHUT_WR);
    for (int round = 0; !service->connections.empty(); ++round) {
      if (round > 10'000) wrong("the connection does not end", bytes, came);
      io.poll();
      listen();
    }
  }
  listen();
  ::close(ends[1]);
  return came;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > (32 << 10)) return 0;
  const std::string_view sent(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string came = talk(sent, data[0]);
  const reference::Seen seen = reference::read(sent);

  std::string_view rest = came;
  std::size_t count = 0;
  bool ended = false;
  while (!rest.empty()) {
    if (ended) wrong("something after the reply that closes", sent, came);
    const bool known = count < seen.requests.size();
    const bool to_head = known ? seen.requests[count].method == "HEAD" : seen.rest.starts_with("HEAD ");
    const auto reply = take_reply(rest, to_head);
    if (!reply) wrong("a reply that is none", sent, came);
    if (reply->status == 100) continue;
    if (reply->status < 200) wrong("an interim reply that nobody knows", sent, came);
    if (count > seen.requests.size()) wrong("more replies than requests", sent, came);
    if (!known && (reply->echoed || reply->status < 400 || !reply->close))
      wrong("no request, and yet served", sent, came);
    if (reply->echoed && !to_head && reply->body != seen.requests[count].body) wrong("another body", sent, came);
    ended = reply->close;
    ++count;
  }
  return 0;
}
