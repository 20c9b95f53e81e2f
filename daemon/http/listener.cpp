#include "daemon/http/listener.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <cstdio>

namespace sessiond::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

std::unexpected<Problem> refused(std::string_view doing, std::string_view what, const error_code& error) {
  return fail(Code::internal, fmt::format("{} {}: {}", doing, what, error.message()));
}

// Says whether a process listens on this socket file.
bool answers(asio::io_context& io, const std::string& path) {
  asio::local::stream_protocol::socket probe(io);
  error_code error;
  probe.open({}, error);
  // Non-blocking: a full backlog is EAGAIN, and means that a process listens.
  if (!error) probe.non_blocking(true, error);
  if (!error) probe.connect(path, error);
  return error != asio::error::connection_refused && error != boost::system::errc::no_such_file_or_directory;
}

}  // namespace

Result<asio::ip::tcp::acceptor> open_tcp(asio::io_context& io, const asio::ip::tcp::endpoint& endpoint) {
  asio::ip::tcp::acceptor acceptor(io);
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error && endpoint.address().is_v6()) acceptor.set_option(asio::ip::v6_only(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    return refused("listening on", fmt::format("{}:{}", endpoint.address().to_string(), endpoint.port()), error);
  return acceptor;
}

SocketFile::SocketFile(SocketFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), device_(other.device_), inode_(other.inode_) {}

SocketFile::~SocketFile() {
  struct stat now{};
  if (path_.empty() || ::lstat(path_.c_str(), &now) != 0) return;
  if (now.st_dev == device_ && now.st_ino == inode_) ::unlink(path_.c_str());
}

Result<UnixListener> open_unix(asio::io_context& io, const std::string& path) {
  // Bound under another name and renamed: so it never has the wrong mode at its own path, and listens from the start.
  const std::string fresh = fmt::format("{}.{}", path, ::getpid());
  if (fresh.size() >= sizeof(sockaddr_un::sun_path)) {
    return fail(Code::validation_failed, fmt::format("the socket path {} is too long", path));
  }
  struct stat there{};
  if (::lstat(path.c_str(), &there) == 0) {
    if (!S_ISSOCK(there.st_mode)) return fail(Code::internal, fmt::format("{} exists and is not a socket", path));
    if (answers(io, path)) return fail(Code::internal, fmt::format("another process listens on {}", path));
  }
  ::unlink(fresh.c_str());  // left by a process with the same pid that died here
  asio::local::stream_protocol::acceptor acceptor(io);
  error_code error;
  acceptor.open({}, error);
  if (!error) acceptor.bind(fresh, error);
  if (error) return refused("binding", path, error);
  struct stat made{};
  int failed = 0;
  if (::chmod(fresh.c_str(), 0600) != 0 || ::lstat(fresh.c_str(), &made) != 0) failed = errno;
  if (failed == 0) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (failed == 0 && !error && std::rename(fresh.c_str(), path.c_str()) != 0) failed = errno;
  if (failed != 0 || error) {
    ::unlink(fresh.c_str());
    if (error) return refused("listening on", path, error);
    return std::unexpected(io_problem("creating", path, failed));
  }
  return UnixListener{std::move(acceptor), SocketFile(path, made.st_dev, made.st_ino)};
}

Result<void> adopt(asio::ip::tcp::acceptor& acceptor, store::Fd listening) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return std::unexpected(io_problem("adopting", "a socket", errno));
  error_code error;
  acceptor.assign(address.ss_family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), listening.get(), error);
  if (error) return refused("adopting", "a socket", error);
  listening.release();
  return {};
}

Result<void> adopt(asio::local::stream_protocol::acceptor& acceptor, store::Fd listening) {
  error_code error;
  acceptor.assign({}, listening.get(), error);
  if (error) return refused("adopting", "a socket", error);
  listening.release();
  return {};
}

std::optional<uid_t> peer_uid(asio::local::stream_protocol::socket& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

}  // namespace sessiond::http
