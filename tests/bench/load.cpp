#include "tests/bench/load.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/bench/clocks.hpp"
#include "tests/bench/reply.hpp"

namespace sessiond::bench {
namespace {

using Failure = std::unexpected<std::string>;

Failure failure(const std::string& what) { return Failure(what + ": " + std::strerror(errno)); }

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

struct Connection {
  Socket socket;
  PreparedRequest request;
  std::string received{};     // of a reply that came in pieces
  std::string_view unsent{};  // of a request that the socket did not take at once
  bool blocked = false;       // and is watched for EPOLLOUT
  std::uint64_t sent_at = 0;
};

class Load {
 public:
  explicit Load(const Plan& plan) : plan_(plan), protocol_(protocol(plan.scenario)), number_(plan.first_number) {}

  std::expected<Outcome, std::string> run() {
    if (auto connected = connect_all(); !connected) return Failure(connected.error());
    start_ = now_ns();
    const auto seconds = [](double s) { return static_cast<std::uint64_t>(s * 1e9); };
    measure_from_ = plan_.count > 0 ? start_ : start_ + seconds(plan_.warmup_s);
    measure_to_ = plan_.count > 0 ? UINT64_MAX : measure_from_ + seconds(plan_.seconds);
    for (Connection& connection : connections_) {
      if (auto sent = send_next(connection, now_ns()); !sent) return Failure(sent.error());
    }
    while (in_flight_ > 0) {
      if (auto turned = turn(); !turned) return Failure(turned.error());
    }
    if (!ended_) end_window(now_ns());
    return std::move(outcome_);
  }

 private:
  using Done = std::expected<void, std::string>;

  Done connect_all();
  Done turn();
  Done receive(Connection& connection, std::uint64_t now);
  Done flush(Connection& connection);
  Done send_next(Connection& connection, std::uint64_t now);
  Done watch(Connection& connection, bool writable, int operation) const;

  bool may_send(std::uint64_t now) const {
    return plan_.count > 0 ? number_ - plan_.first_number < plan_.count : now < measure_to_;
  }
  void look_at_clock(std::uint64_t now) {
    if (!begun_ && now >= measure_from_) {
      begun_ = true;
      begun_at_ = now;
      client_cpu_ = own_cpu_s();
      daemon_cpu_ = process_cpu_s(plan_.daemon_pid);
    }
    if (begun_ && !ended_ && now >= measure_to_) end_window(now);
  }
  void end_window(std::uint64_t now) {
    ended_ = true;
    outcome_.seconds = static_cast<double>(now - begun_at_) / 1e9;
    outcome_.client_cpu_s = own_cpu_s() - client_cpu_;
    outcome_.daemon_cpu_s = process_cpu_s(plan_.daemon_pid) - daemon_cpu_;
  }

  const Plan& plan_;
  const Protocol protocol_;
  Socket epoll_{::epoll_create1(EPOLL_CLOEXEC)};
  std::vector<Connection> connections_;
  std::array<char, 64 * 1024> buffer_{};
  std::uint64_t number_;
  std::size_t in_flight_ = 0;
  std::uint64_t start_ = 0;
  std::uint64_t measure_from_ = 0;
  std::uint64_t measure_to_ = 0;
  bool begun_ = false;
  bool ended_ = false;
  std::uint64_t begun_at_ = 0;
  double client_cpu_ = 0;
  double daemon_cpu_ = 0;
  Outcome outcome_;
};

Load::Done Load::connect_all() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(plan_.target.port);
  if (::inet_pton(AF_INET, plan_.target.host.c_str(), &address.sin_addr) != 1)
    return Failure(plan_.target.host + " is no IPv4 address");
  connections_.reserve(plan_.connections);
  for (std::size_t i = 0; i < plan_.connections; ++i) {
    auto request = prepare(plan_.scenario, plan_.target, i % plan_.sessions);
    if (!request) return Failure("there is no scenario " + plan_.scenario);
    Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket.get() < 0) return failure("socket");
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      return failure("connect");
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connections_.push_back({.socket = std::move(socket), .request = std::move(*request)});
    if (auto watched = watch(connections_.back(), false, EPOLL_CTL_ADD); !watched) return watched;
  }
  return {};
}

Load::Done Load::watch(Connection& connection, bool writable, int operation) const {
  epoll_event event{};
  event.events = EPOLLIN | (writable ? EPOLLOUT : 0U);
  event.data.ptr = &connection;
  if (::epoll_ctl(epoll_.get(), operation, connection.socket.get(), &event) != 0) return failure("epoll_ctl");
  return {};
}

Load::Done Load::turn() {
  constexpr int stall_ms = 10'000;
  std::array<epoll_event, 256> events{};
  const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), stall_ms);
  if (n < 0 && errno == EINTR) return {};
  if (n < 0) return failure("epoll_wait");
  if (n == 0) return Failure("no reply for 10 s, " + std::to_string(in_flight_) + " awaited");
  for (int i = 0; i < n; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    auto& connection = *static_cast<Connection*>(event.data.ptr);
    const std::uint64_t now = now_ns();
    look_at_clock(now);
    if ((event.events & EPOLLOUT) != 0) {
      if (auto flushed = flush(connection); !flushed) return flushed;
    }
    if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
      if (auto received = receive(connection, now); !received) return received;
    }
  }
  return {};
}

Load::Done Load::receive(Connection& connection, std::uint64_t now) {
  const ssize_t n = ::recv(connection.socket.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (n < 0) return failure("recv");
  if (n == 0) return Failure("the server closed a connection after: " + connection.received.substr(0, 400));
  std::string_view bytes(buffer_.data(), static_cast<std::size_t>(n));
  if (!connection.received.empty()) bytes = connection.received.append(bytes);

  const Reply reply = read_reply(protocol_, bytes);
  switch (reply.state) {
    case Reply::State::incomplete:
      if (connection.received.empty()) connection.received = bytes;
      return {};
    case Reply::State::refused:
      return Failure("refused: " + std::string(bytes.substr(0, 800)));
    case Reply::State::unreadable:
      return Failure("not a reply: " + std::string(bytes.substr(0, 800)));
    case Reply::State::good:
      break;
  }
  if (reply.size != bytes.size()) return Failure("more than a reply: " + std::string(bytes.substr(0, 800)));
  connection.received.clear();
  --in_flight_;
  ++outcome_.total;
  // In the window: what was sent and answered in it.
  if (begun_ && !ended_ && connection.sent_at >= begun_at_) outcome_.latency.add(now - connection.sent_at);
  return send_next(connection, now);
}

Load::Done Load::send_next(Connection& connection, std::uint64_t now) {
  look_at_clock(now);
  if (!may_send(now)) return {};
  connection.sent_at = now;
  connection.unsent = connection.request.with(number_++);
  ++in_flight_;
  return flush(connection);
}

Load::Done Load::flush(Connection& connection) {
  while (!connection.unsent.empty()) {
    const ssize_t n = ::send(connection.socket.get(), connection.unsent.data(), connection.unsent.size(),
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      connection.blocked = true;
      return watch(connection, true, EPOLL_CTL_MOD);
    }
    if (n < 0) return failure("send");
    connection.unsent.remove_prefix(static_cast<std::size_t>(n));
  }
  if (!std::exchange(connection.blocked, false)) return {};
  return watch(connection, false, EPOLL_CTL_MOD);
}

}  // namespace

std::expected<Outcome, std::string> run(const Plan& plan) { return std::make_unique<Load>(plan)->run(); }

}  // namespace sessiond::bench
