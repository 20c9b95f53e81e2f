#include "daemon/cli/client.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/number.hpp"
#include "store/try.hpp"

namespace sessiond::cli {
namespace {

std::unexpected<CallError> call_fail(const Endpoint& daemon, std::string_view doing, int error) {
  const bool late = error == EAGAIN || error == EWOULDBLOCK;
  return std::unexpected(
      CallError{.nobody_there = error == ENOENT || error == ECONNREFUSED,
                .detail = fmt::format("{} {}: {}", doing, daemon.name(),
                                      late ? "no answer in time" : std::generic_category().message(error))});
}

void limit_waits(int fd, const CallOptions& options) {
  const auto ms = options.timeout.count();
  const timeval limit{.tv_sec = static_cast<time_t>(ms / 1000), .tv_usec = static_cast<suseconds_t>(ms % 1000 * 1000)};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

std::expected<store::Fd, CallError> connect_to_socket(const Endpoint& daemon, const CallOptions& options) {
  const std::filesystem::path& path = daemon.socket;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof address.sun_path) return call_fail(daemon, "connect to", ENAMETOOLONG);
  std::memcpy(static_cast<char*>(address.sun_path), path.c_str(), path.native().size() + 1);
  store::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return call_fail(daemon, "make a socket for", errno);
  limit_waits(fd.get(), options);
  sockaddr_storage any{};
  std::memcpy(&any, &address, sizeof address);
  while (::connect(fd.get(), static_cast<const sockaddr*>(static_cast<const void*>(&any)), sizeof address) != 0) {
    if (errno != EINTR) return call_fail(daemon, "connect to", errno);
  }
  return fd;
}

// Tries each address of the host.
std::expected<store::Fd, CallError> connect_to_host(const Endpoint& daemon, const CallOptions& options) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(daemon.host.c_str(), daemon.port.c_str(), &wanted, &found); error != 0)
    return std::unexpected(
        CallError{.nobody_there = true, .detail = fmt::format("{}: {}", daemon.name(), ::gai_strerror(error))});
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
  int error = 0;
  for (const addrinfo* at = all.get(); at != nullptr; at = at->ai_next) {
    store::Fd fd(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    if (!fd) return call_fail(daemon, "make a socket for", errno);
    limit_waits(fd.get(), options);
    if (::connect(fd.get(), at->ai_addr, at->ai_addrlen) == 0) return fd;
    error = errno;
  }
  return call_fail(daemon, "connect to", error);
}

// Sends everything. When the daemon closes meanwhile, this is no error: it may have replied.
std::expected<void, CallError> send_all(int fd, std::string_view bytes, const Endpoint& daemon) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) return {};  // the daemon may have replied already
    if (n < 0) return call_fail(daemon, "write to", errno);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

// Passes everything that comes until the daemon closes to `take`, piece by piece.
std::expected<void, CallError> read_to_end(int fd, const Endpoint& daemon,
                                           const std::function<Result<void>(std::string_view)>& take) {
  std::array<char, std::size_t{64} * 1024> buffer;
  for (bool some = false;; some = true) {
    const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == ECONNRESET && some) return {};
    if (n < 0) return call_fail(daemon, "read from", errno);
    if (n == 0) return {};
    if (auto taken = take({buffer.data(), static_cast<std::size_t>(n)}); !taken)
      return std::unexpected(CallError{.detail = std::move(taken.error().detail)});
  }
}

Result<void> append_up_to(std::string& text, std::string_view piece, std::size_t most) {
  text += piece;
  if (text.size() > most) return fail(Code::degraded, fmt::format("the reply is larger than {} bytes", most));
  return {};
}

std::expected<store::Fd, CallError> ask(const Endpoint& daemon, std::string_view method, std::string_view target,
                                        std::string_view body, const CallOptions& options) {
  const bool local = daemon.local();
  auto fd = local ? connect_to_socket(daemon, options) : connect_to_host(daemon, options);
  if (!fd) return fd;
  std::string request = fmt::format(
      "{} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: sessiond/{}\r\nAccept: application/json, text/event-stream\r\n"
      "Connection: close\r\n",
      method, target, local ? "localhost" : daemon.name(), SESSIOND_VERSION);
  if (!daemon.token.empty()) request += fmt::format("Authorization: Bearer {}\r\n", daemon.token);
  if (!body.empty() || method == "POST")
    request += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  request.append("\r\n").append(body);
  TRY(send_all(fd->get(), request, daemon));
  return fd;
}

std::expected<DaemonReply, CallError> parsed(const Endpoint& daemon, std::string_view text) {
  auto reply = parse_reply(text);
  if (!reply) return std::unexpected(CallError{.detail = fmt::format("{}: {}", daemon.name(), reply.error())});
  return std::move(*reply);
}

}  // namespace

std::expected<DaemonReply, std::string> parse_reply(std::string_view text) {
  namespace http = boost::beast::http;
  if (text.empty()) return std::unexpected("the reply was cut short");
  http::response_parser<http::string_body> parser;
  parser.eager(true);
  parser.body_limit(boost::none);
  boost::beast::error_code error;
  parser.put(boost::asio::buffer(text), error);
  if (!error || error == http::error::need_more) parser.put_eof(error);
  if (error)
    return std::unexpected(error == http::error::partial_message ? "the reply was cut short"
                                                                 : "the reply is not HTTP: " + error.message());
  if (parser.chunked()) return std::unexpected("the reply is chunked, which the daemon never sends");
  return DaemonReply{.status = parser.get().result_int(), .body = std::move(parser.get().body())};
}

Problem problem_of(const DaemonReply& reply, bool local) {
  const bool readable = json::check(reply.body) && json::kind(store::trim(reply.body)) == json::Kind::object;
  std::string detail = readable ? json::string_at(reply.body, "detail").value_or("") : "";
  if (detail.empty()) detail = fmt::format("the daemon answered {}", reply.status);
  if (local && (reply.status == 401 || reply.status == 403))
    detail += fmt::format("; run this as the user that the daemon runs as, not as uid {}", ::geteuid());
  return {.code = reply.status == 404 ? Code::not_found : Code::degraded, .detail = std::move(detail)};
}

std::expected<DaemonReply, CallError> call_daemon(const Endpoint& daemon, std::string_view method,
                                                  std::string_view target, std::string_view body,
                                                  const CallOptions& options) {
  TRY(const auto fd, ask(daemon, method, target, body, options));
  std::string text;
  TRY(read_to_end(fd.get(), daemon,
                  [&](std::string_view piece) { return append_up_to(text, piece, options.most_bytes); }));
  return parsed(daemon, text);
}

std::expected<store::Fd, CallError> open_stream(const Endpoint& daemon, std::string_view target) {
  return ask(daemon, "GET", target, "", {});
}

std::expected<DaemonReply, CallError> download(const Endpoint& daemon, std::string_view method, std::string_view target,
                                               const std::function<Result<void>(std::string_view)>& take,
                                               const CallOptions& options) {
  TRY(const auto fd, ask(daemon, method, target, "", options));
  std::string text;  // the head, and the body unless `take` gets it
  bool taking = false;
  std::uint64_t taken = 0;
  const auto pass = [&](std::string_view piece) {
    taken += piece.size();
    return take(piece);
  };
  TRY(read_to_end(fd.get(), daemon, [&](std::string_view piece) -> Result<void> {
    if (taking) return pass(piece);
    TRY(append_up_to(text, piece, options.most_bytes));
    const std::size_t end = text.find("\r\n\r\n");
    taking = end != std::string::npos && text.starts_with("HTTP/1.1 2");
    if (!taking) return {};
    const std::string body = text.substr(end + 4);
    text.resize(end + 4);
    return body.empty() ? Result<void>{} : pass(body);
  }));
  if (!taking) return parsed(daemon, text);
  constexpr std::string_view length = "\r\nContent-Length: ";
  if (const std::size_t at = text.find(length); at != std::string::npos) {
    const std::string_view digits = std::string_view(text).substr(at + length.size());
    if (store::parse_number<std::uint64_t>(digits.substr(0, digits.find('\r'))) != taken)
      return std::unexpected(CallError{.detail = fmt::format("{}: the reply was cut short", daemon.name())});
    text.erase(at, text.find('\r', at + 2) - at);
  }
  return parsed(daemon, text);
}

}  // namespace sessiond::cli
