// Notices at once that another program touched a sessions.json (inotify on its folder). What it says is only a hint:
// the file's identity decides, and looking again when the cache is older than its TTL is the floor under it. One
// thread: the io_context's.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

namespace sessiond {

class Watch {
 public:
  // `touched` gets the agent whose store may have changed; "" when events were lost and any may have.
  Watch(boost::asio::io_context& io, std::string file_name, std::function<void(const std::string& agent)> touched);

  // Watches an agent's folder, once. False: it cannot be watched (no inotify, too many); the TTL is all there is.
  bool add(const std::string& agent, const std::filesystem::path& dir);
  void stop();

 private:
  void read();
  void take(std::size_t bytes);

  boost::asio::posix::stream_descriptor inotify_;
  std::string file_name_;
  std::function<void(const std::string&)> touched_;
  std::map<int, std::string> agents_;
  alignas(8) std::array<char, 16384> buffer_{};
};

}  // namespace sessiond
