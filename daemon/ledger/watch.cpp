#include "daemon/ledger/watch.hpp"

#include <sys/inotify.h>

#include <cstring>
#include <set>
#include <utility>

#include "daemon/http/log.hpp"

namespace sessiond {

Watch::Watch(boost::asio::io_context& io, std::string file_name, std::function<void(const std::string&)> touched)
    : inotify_(io), file_name_(std::move(file_name)), touched_(std::move(touched)) {
  const int fd = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (fd < 0) {
    log::warn("no_inotify",
              {{"error", std::strerror(errno)}, {"next", "foreign changes are seen when store.cacheTtlMs is over"}});
    return;
  }
  inotify_.assign(fd);
  read();
}

bool Watch::add(const std::string& agent, const std::filesystem::path& dir) {
  if (!inotify_.is_open()) return false;
  const int watch =
      ::inotify_add_watch(inotify_.native_handle(), dir.c_str(), IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE | IN_ONLYDIR);
  if (watch < 0) return false;
  agents_[watch] = agent;
  return true;
}

void Watch::stop() {
  boost::system::error_code ignored;
  inotify_.close(ignored);
}

void Watch::read() {
  inotify_.async_read_some(boost::asio::buffer(buffer_),
                           [this](const boost::system::error_code& error, std::size_t bytes) {
                             if (error) return;
                             take(bytes);
                             if (inotify_.is_open()) read();
                           });
}

void Watch::take(std::size_t bytes) {
  std::set<std::string> touched;
  for (std::size_t at = 0; at + sizeof(inotify_event) <= bytes;) {
    inotify_event event{};
    std::memcpy(&event, buffer_.data() + at, sizeof(event));
    const char* name = buffer_.data() + at + sizeof(event);
    at += sizeof(event) + event.len;
    if ((event.mask & IN_Q_OVERFLOW) != 0) {
      log::warn("inotify_overflow", {{"next", "looking at every store again"}});
      touched.insert("");
    } else if ((event.mask & IN_IGNORED) != 0) {
      agents_.erase(event.wd);
    } else if (event.len != 0 && file_name_ == name) {
      if (const auto found = agents_.find(event.wd); found != agents_.end()) touched.insert(found->second);
    }
  }
  for (const std::string& agent : touched) touched_(agent);
}

}  // namespace sessiond
