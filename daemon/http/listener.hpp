// The sockets a server listens on: TCP on an address, and a unix socket that appears at its path with mode 0600 and
// only when it already listens. Addresses are literals ("127.0.0.1:7433", "[::1]:0") or localhost; nothing is resolved.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "store/files.hpp"
#include "store/problem.hpp"

namespace sessiond {

// validation_failed: not an address; internal: the system refuses (in use, no such address).
Result<boost::asio::ip::tcp::endpoint> tcp_endpoint(std::string_view address);
Result<boost::asio::ip::tcp::acceptor> open_tcp(boost::asio::io_context& io,
                                                const boost::asio::ip::tcp::endpoint& endpoint);

// The file of a unix socket; removed with the object if it is still the one that was made.
class SocketFile {
 public:
  SocketFile(std::string path, dev_t device, ino_t inode) : path_(std::move(path)), device_(device), inode_(inode) {}
  ~SocketFile();
  SocketFile(SocketFile&& other) noexcept;
  SocketFile& operator=(SocketFile&&) = delete;

 private:
  std::string path_;
  dev_t device_;
  ino_t inode_;
};

struct UnixListener {
  boost::asio::local::stream_protocol::acceptor acceptor;
  SocketFile file;
};
// A socket file nobody answers on is replaced; a live one, or a file that is no socket, is a Problem.
Result<UnixListener> open_unix(boost::asio::io_context& io, const std::string& path);

// A socket that listens already becomes this acceptor's.
Result<void> adopt(boost::asio::ip::tcp::acceptor& acceptor, Fd listening);
Result<void> adopt(boost::asio::local::stream_protocol::acceptor& acceptor, Fd listening);

// The uid of the process at the other end (SO_PEERCRED).
std::optional<uid_t> peer_uid(boost::asio::local::stream_protocol::socket& socket);

}  // namespace sessiond
