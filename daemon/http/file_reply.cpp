// Sends a reply whose body is part of a file. The file is read piece by piece on disk threads and never whole in
// memory.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "daemon/http/connection.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/files.hpp"
#include "store/try.hpp"

namespace sessiond::http {

namespace asio = boost::asio;

namespace {

// Shared by the coroutine and the disk thread, so that it lives until both are done.
struct OpenFile {
  store::Fd fd{};
  std::unique_ptr<char[]> piece = std::make_unique_for_overwrite<char[]>(file_piece_bytes);
};

Result<void> open_body(OpenFile& file, const Response::FileBody& body) {
  const auto replaced = [] { return fail(Code::session_reset, "the file of this reply was replaced; try again"); };
  auto opened = store::open_within(body.path, O_RDONLY | O_NONBLOCK);  // non-blocking, or opening a FIFO would wait
  if (!opened) {                                                       // also when it was renamed while it was opened
    const auto now = store::stat_within(body.path);
    if (!now || now->st_ino != body.inode) return replaced();
    return fail(Code::degraded, "the file of this reply cannot be opened");
  }
  file.fd = std::move(*opened);
  TRY(const auto about, store::status_of(file.fd.get(), body.path));
  return about.st_ino == body.inode ? Result<void>() : replaced();
}

// Fills the piece. Returns fewer bytes than asked for only at the end of the file.
Result<std::size_t> read_piece(OpenFile& file, const std::string& path, std::uint64_t offset, std::size_t size) {
  std::size_t got = 0;
  while (got < size) {
    const ssize_t n = ::pread(file.fd.get(), file.piece.get() + got, size - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::unexpected(io_problem("reading", path, errno));
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return got;
}

}  // namespace

asio::awaitable<bool> Connection::reply_file(const Request& request, Response& response) {
  const Response::FileBody body = *response.file;
  auto file = std::make_shared<OpenFile>();
  const auto opened =
      co_await runtime::run_on(service_->disk.get_executor(), [file, body] { return open_body(*file, body); });
  if (!opened) {
    log::error("file_not_sent", {{"requestId", request_id_}, {"path", body.path}, {"error", opened.error().detail}});
    Response problem = to_response(opened.error(), request.path, request_id_);
    co_return co_await reply(problem);
  }
  head(response, body.length);
  std::string_view before = head_;  // goes out together with the first piece
  std::uint64_t sent = 0;
  do {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(file_piece_bytes, body.length - sent));
    const Result<std::size_t> got = co_await runtime::run_on(
        service_->disk.get_executor(),
        [file, path = body.path, offset = body.offset + sent, size] { return read_piece(*file, path, offset, size); });
    if (!got || *got < size) {
      // The length was sent already: only closing the connection tells the client.
      log::error("file_not_sent", {{"requestId", request_id_},
                                   {"path", body.path},
                                   {"what", got ? std::string("the file has become shorter") : got.error().detail}});
      co_return false;
    }
    asio::const_buffer buffers[] = {asio::buffer(before), asio::buffer(file->piece.get(), size)};
    if (!co_await write(buffers)) co_return false;
    before = {};
    sent += size;
  } while (sent < body.length);
  co_return true;
}

}  // namespace sessiond::http
