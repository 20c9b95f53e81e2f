#include "daemon/serve/systemd.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <ranges>

#include "config/listen_address.hpp"
#include "store/number.hpp"

namespace sessiond::serve {
namespace {

namespace asio = boost::asio;

constexpr int first_inherited = 3;  // SD_LISTEN_FDS_START

std::string taken(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value == nullptr ? "" : value;
  ::unsetenv(name);
  return text;
}

std::int64_t number_or_0(std::string_view text) { return store::parse_number<std::int64_t>(text).value_or(0); }

// Whether variables are meant for this process: they name a pid, and may have been inherited from a parent.
bool for_us(std::string_view pid) { return number_or_0(pid) == ::getpid(); }

bool listens(int fd) {
  int value = 0;
  int type = 0;
  socklen_t size = sizeof(int);
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM) return false;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) == 0 && value != 0;
}

// Returns the address that a listening socket is bound to. Nothing for other families than TCP and unix.
struct Bound {
  bool tcp = false;
  bool loopback = false;
  std::string name{};
};
std::optional<Bound> bound_to(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!listens(fd) || ::getsockname(fd, generic, &size) != 0) return {};
  if (address.ss_family == AF_UNIX) {
    std::string path(generic->sa_data,
                     size - offsetof(sockaddr, sa_data));  // ends in a NUL; an abstract name begins with one
    if (path.starts_with('\0')) path.front() = '@';
    return Bound{.name = path.substr(0, path.find('\0'))};
  }
  if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* ip = &reinterpret_cast<sockaddr_in*>(generic)->sin_addr;
  if (address.ss_family == AF_INET6) ip = &reinterpret_cast<sockaddr_in6*>(generic)->sin6_addr;
  if (::inet_ntop(address.ss_family, ip, text.data(), text.size()) == nullptr) return {};
  Bound bound{.tcp = true, .name = text.data()};
  if (address.ss_family == AF_INET6) bound.name = "[" + bound.name + "]";
  const auto parsed = config::parse_listen_address(bound.name + ":0");
  bound.loopback = parsed && parsed->loopback;
  return bound;
}

}  // namespace

ServiceManager ServiceManager::from_environment() {
  ServiceManager manager;
  manager.notify_socket_ = taken("NOTIFY_SOCKET");
  const std::string period = taken("WATCHDOG_USEC");
  const std::string watched = taken("WATCHDOG_PID");
  if (watched.empty() || for_us(watched)) manager.watchdog_ = std::chrono::microseconds(number_or_0(period));
  const std::string count = taken("LISTEN_FDS");
  const std::string names = taken("LISTEN_FDNAMES");
  if (!for_us(taken("LISTEN_PID"))) return manager;
  manager.inherited_ = static_cast<int>(std::clamp<std::int64_t>(number_or_0(count), 0, 1024));
  for (const auto name : std::views::split(names, ':')) manager.names_.emplace_back(std::string_view(name));
  return manager;
}

void ServiceManager::tell(std::string_view state) const {
  sockaddr_un to{};
  if (notify_socket_.empty() || notify_socket_.size() >= sizeof to.sun_path) return;
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, notify_socket_.data(), notify_socket_.size());
  const bool abstract = notify_socket_.front() == '@';
  if (abstract) to.sun_path[0] = '\0';
  const std::size_t size = offsetof(sockaddr_un, sun_path) + notify_socket_.size() + (abstract ? 0 : 1);
  const store::Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // A failure is ignored: the next message has newer news.
  if (fd)
    ::sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to),
             static_cast<socklen_t>(size));
}

void ServiceManager::starting(std::string_view status) { tell(fmt::format("STATUS={}", status)); }

void ServiceManager::ready(std::string_view status) { tell(fmt::format("READY=1\nSTATUS={}", status)); }

void ServiceManager::stopping() { tell("STOPPING=1\nSTATUS=finishing open requests, then the last checkpoint"); }

ServiceManager::Reload ServiceManager::reloading() const {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  tell(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1'000'000 + now.tv_nsec / 1000));
  return Reload(*this);
}

asio::awaitable<void> ServiceManager::keep_alive() {
  if (watchdog_.count() <= 0 || notify_socket_.empty()) co_return;
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (;;) {
    tell("WATCHDOG=1");
    timer.expires_after(watchdog_ / 2);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

Result<ServiceManager::Sockets> ServiceManager::sockets(bool anywhere) {
  Sockets out;
  for (int i = 0; i < inherited_; ++i) {
    const int fd = first_inherited + i;
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    store::Fd owned(fd);
    const std::string name = static_cast<std::size_t>(i) < names_.size() ? names_[static_cast<std::size_t>(i)] : "";
    const auto bound = bound_to(fd);
    // A socket that the unit names "tcp" or "unix" must be one; other names are not checked.
    if (!bound || (name == "tcp" && !bound->tcp) || (name == "unix" && bound->tcp)) {
      const bool known = name == "tcp" || name == "unix";
      return fail(Code::validation_failed,
                  fmt::format("descriptor {} ({}), which systemd handed over, is not a listening {} stream socket", fd,
                              name, known ? name : "tcp or unix"));
    }
    if (bound->tcp && !bound->loopback && !anywhere) {
      return fail(Code::validation_failed,
                  fmt::format("{}, which systemd handed over, can be reached from other machines: set "
                              "/listen/tls, let the socket unit listen on 127.0.0.1, or set /listen/insecure to true",
                              bound->name));
    }
    (bound->tcp ? out.tcp : out.unix).push_back({std::move(owned), bound->name});
  }
  inherited_ = 0;
  return out;
}

}  // namespace sessiond::serve
