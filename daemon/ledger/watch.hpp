// Reports within about 100 ms that an agent's folder was touched, by inotify. A report is only a hint: the files on
// disk decide, and every file is looked at anyway when the cache is older than its TTL. Thread: the loop.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "store/problem.hpp"

namespace sessiond::ledger {

class Watch {
 public:
  struct Changes {
    std::map<std::string, std::set<std::string>> touched{};  // by agent, names in its folder
    std::set<std::string> gone{};                            // agents whose folder is watched no longer
    bool agents = false;                                     // folders were made in a parent
    bool lost = false;                                       // the kernel dropped events: anything may have happened
  };
  using OnChanges = std::function<void(Changes)>;
  Watch(boost::asio::io_context& io, OnChanges seen);

  // Watches an agent's folder, or one in which agents' folders are made. Watching it again changes nothing. Returns
  // false when there is no such folder, degraded when it cannot be watched (no inotify, too many watches).
  Result<bool> add(const std::string& agent, const std::filesystem::path& dir);
  Result<bool> add_parent(const std::filesystem::path& dir);
  void stop();

 private:
  struct Watched {
    std::set<std::string> agents{};
    bool parent = false;
  };
  void read();
  void pause();
  Changes take(std::size_t bytes);
  void take_one(std::uint32_t mask, int watch, const char* name, Changes& seen);
  Result<Watched*> add(const std::filesystem::path& dir, std::uint32_t events);

  boost::asio::posix::stream_descriptor inotify_;
  boost::asio::steady_timer timer_;
  OnChanges seen_;
  std::string trouble_{};  // why there is no inotify at all
  std::map<int, Watched> watched_{};
  alignas(8) std::array<char, 16384> buffer_{};
};

}  // namespace sessiond::ledger
