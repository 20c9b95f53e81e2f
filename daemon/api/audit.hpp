// The audit log: JSONL, one line for every write and every refusal: when, who, from where, what, which session, its rev
// and what came of it; never a body, a query or a secret (API §7, FORMATS). Lines gather for a moment and are appended
// by a disk thread; at audit.maxBytes the file becomes <path>.1 and so on up to .4. It is no journal: a kill -9 takes
// the last moment's lines, and the journal has those writes with their actor.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "daemon/http/router.hpp"
#include "store/problem.hpp"

namespace sessiond {

class AuditLog {
 public:
  struct Options {
    std::filesystem::path path{};  // empty: no log
    std::uint64_t max_bytes = 64 << 20;
  };
  AuditLog(boost::asio::io_context& io, boost::asio::thread_pool& disk, Options options);

  void reconfigure(Options options);
  // If it is a write or a refusal.
  void tell(const Request& request, const Router::Route* route, const Response& response);
  boost::asio::awaitable<Result<void>> flush();
  // Finds out, before the first line is there, whether lines can be written; blocks. Tried again until they can.
  void check();
  const std::string& trouble() const { return trouble_; }  // why lines cannot be written; "" when they can
  // The newest lines, oldest of them first; those that gather still are among them.
  boost::asio::awaitable<Result<std::vector<std::string>>> newest(std::size_t count);

 private:
  void schedule();
  void done(const Result<void>& written);

  boost::asio::strand<boost::asio::thread_pool::executor_type> disk_;
  boost::asio::steady_timer timer_;
  Options options_;
  std::string gathered_;
  std::uint64_t dropped_ = 0;  // lines, for want of a disk that takes them
  bool scheduled_ = false;
  std::string trouble_;
};

}  // namespace sessiond
