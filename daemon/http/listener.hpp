// Opens the sockets that a server listens on: TCP addresses, and a unix socket. The unix socket has mode 0600 and
// appears at its path only once it listens.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <optional>
#include <string>

#include "store/files.hpp"
#include "store/problem.hpp"

namespace sessiond::http {

// internal: the system refuses the address (in use, or not of this machine).
Result<boost::asio::ip::tcp::acceptor> open_tcp(boost::asio::io_context& io,
                                                const boost::asio::ip::tcp::endpoint& endpoint);

// The file of a unix socket. The destructor removes it, unless another file is at its path by then.
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
// Replaces a socket file that no process listens on. A Problem when one does, or when the file is not a socket.
Result<UnixListener> open_unix(boost::asio::io_context& io, const std::string& path);

// Gives an acceptor a socket that listens already.
Result<void> adopt(boost::asio::ip::tcp::acceptor& acceptor, store::Fd listening);
Result<void> adopt(boost::asio::local::stream_protocol::acceptor& acceptor, store::Fd listening);

// Returns the uid of the process at the other end (SO_PEERCRED).
std::optional<uid_t> peer_uid(boost::asio::local::stream_protocol::socket& socket);

}  // namespace sessiond::http
