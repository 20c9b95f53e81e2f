#include "daemon/ledger/watch.hpp"
#include "store/try.hpp"

#include <fmt/format.h>
#include <sys/inotify.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace sessiond::ledger {
namespace {

// IN_MODIFY is for transcripts, whose writers keep them open. A store is looked at when its writer has closed it.
constexpr std::uint32_t in_folder =
    IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_MOVE_SELF | IN_ONLYDIR | IN_MASK_ADD;
constexpr std::chrono::milliseconds gathering{100};
constexpr std::uint32_t in_parent = IN_CREATE | IN_MOVED_TO | IN_ONLYDIR | IN_MASK_ADD;

}  // namespace

Watch::Watch(boost::asio::io_context& io, OnChanges seen) : inotify_(io), timer_(io), seen_(std::move(seen)) {
  const int fd = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (fd < 0) {
    trouble_ = fmt::format("no inotify: {}", std::strerror(errno));
    return;
  }
  inotify_.assign(fd);
  read();
}

Result<Watch::Watched*> Watch::add(const std::filesystem::path& dir, std::uint32_t events) {
  if (!inotify_.is_open()) return fail(Code::degraded, trouble_);
  const int watch = ::inotify_add_watch(inotify_.native_handle(), dir.c_str(), events);
  if (watch >= 0) return &watched_[watch];
  if (errno == ENOENT) return nullptr;
  return fail(Code::degraded, fmt::format("{} cannot be watched: {}", dir.native(), std::strerror(errno)));
}

Result<bool> Watch::add(const std::string& agent, const std::filesystem::path& dir) {
  TRY(auto* watched, add(dir, in_folder));
  if (watched != nullptr) watched->agents.insert(agent);
  return watched != nullptr;
}

Result<bool> Watch::add_parent(const std::filesystem::path& dir) {
  TRY(auto* watched, add(dir, in_parent));
  if (watched != nullptr) watched->parent = true;
  return watched != nullptr;
}

void Watch::stop() {
  timer_.cancel();
  boost::system::error_code ignored;
  inotify_.close(ignored);
}

void Watch::read() {
  inotify_.async_read_some(boost::asio::buffer(buffer_),
                           [this](const boost::system::error_code& error, std::size_t bytes) {
                             if (error) return;
                             seen_(take(bytes));
                             if (inotify_.is_open()) pause();
                           });
}

// Waits a moment, so that later events are read together: one checkpoint of ours makes a dozen.
void Watch::pause() {
  timer_.expires_after(gathering);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && inotify_.is_open()) read();
  });
}

Watch::Changes Watch::take(std::size_t bytes) {
  Changes seen;
  for (std::size_t at = 0; at + sizeof(inotify_event) <= bytes;) {
    inotify_event event{};
    std::memcpy(&event, buffer_.data() + at, sizeof(event));
    const char* name = event.len != 0 ? buffer_.data() + at + sizeof(event) : "";
    at += sizeof(event) + event.len;
    take_one(event.mask, event.wd, name, seen);
  }
  return seen;
}

void Watch::take_one(std::uint32_t mask, int watch, const char* name, Changes& seen) {
  if ((mask & IN_Q_OVERFLOW) != 0) seen.lost = true;
  const auto found = watched_.find(watch);
  if (found == watched_.end()) return;
  const Watched& watched = found->second;
  if ((mask & IN_IGNORED) != 0) {
    seen.gone.insert(watched.agents.begin(), watched.agents.end());
    seen.agents = seen.agents || watched.parent;
    watched_.erase(found);
    return;
  }
  if ((mask & IN_MOVE_SELF) != 0) {  // it is no agent's folder under its new name; IN_IGNORED follows
    ::inotify_rm_watch(inotify_.native_handle(), watch);
    return;
  }
  const bool new_agent = (mask & IN_ISDIR) != 0 || std::string_view(name).ends_with(".sqlite");
  if (watched.parent && new_agent && (mask & (IN_CREATE | IN_MOVED_TO)) != 0) seen.agents = true;
  const bool still_written = (mask & IN_MODIFY) != 0 && !std::string_view(name).ends_with(".jsonl");
  if (still_written || *name == '\0') return;
  for (const std::string& agent : watched.agents) seen.touched[agent].insert(name);
}

}  // namespace sessiond::ledger
