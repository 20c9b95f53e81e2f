// The audit log: JSONL, one line for every write and every refusal. A line has the time, the token, the peer, the
// route, the session and its rev, the person in whose name a token speaks, whether it was a dry run, and the status;
// never anything else of a body, a query or a secret. An ephemeral session, of which
// nothing is to be on disk, is named by a hash. Lines are collected for 200 ms and
// appended by a disk thread. At audit.maxBytes the file is renamed to <path>.1, and so on up to .4. The audit log is
// not durable: a kill -9 loses the lines of the last moment. The journal has those writes too, with their actor.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/http/router.hpp"
#include "store/problem.hpp"

namespace sessiond::api {

// Used on the loop's thread only.
class AuditLog {
 public:
  struct Options {
    std::filesystem::path path{};  // empty: no log
    std::uint64_t max_bytes = 64 << 20;
  };
  // Returns how a session is named in place of its key or id; nothing: by that. Without an agent it is the key's.
  using NameSession = std::function<std::optional<std::string>(std::string_view agent, std::string_view key_or_id)>;
  AuditLog(boost::asio::io_context& io, boost::asio::thread_pool& disk, Options options, NameSession name);

  void reconfigure(Options options);
  // Adds a line if the request was a write or was refused.
  void record(const http::Request& request, const http::Router::Route* route, const http::Response& response);
  boost::asio::awaitable<Result<void>> flush();
  // Checks whether lines can be written, before the first one has to be. Blocks. Tries again until they can.
  void check();
  const std::string& trouble() const { return trouble_; }  // why lines cannot be written; "" when they can
  // Returns the newest `count` lines, oldest first, including those that are not written yet. Errors: not_found when
  // audit.path is null.
  boost::asio::awaitable<Result<std::vector<std::string>>> newest(std::size_t count);

 private:
  void schedule();
  void done(const Result<void>& written);

  boost::asio::strand<boost::asio::thread_pool::executor_type> disk_;
  boost::asio::steady_timer timer_;
  Options options_;
  NameSession name_;
  std::string gathered_;
  std::uint64_t dropped_ = 0;  // lines that found no room while the disk took none
  bool scheduled_ = false;
  std::string trouble_;
};

}  // namespace sessiond::api
