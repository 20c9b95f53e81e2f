#include "tests/bench/stream/publishers.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "tests/bench/clocks.hpp"
#include "tests/bench/reply.hpp"
#include "tests/bench/stream/dialect.hpp"

namespace sessiond::bench::stream {
namespace {

constexpr std::uint64_t retry_ns = 50'000'000;

}  // namespace

class Publisher : public Pollable {
 public:
  Publisher(Publishers& owner, std::size_t index) : owner_(owner), index_(index) { connect(); }

  void send(std::uint64_t number) {
    busy_ = true;
    request_ = publish_request(owner_.plan_, index_, {.number = number, .sent_ns = now_ns()});
    unsent_ = request_;
    if (connected_) flush();
  }
  void ready(std::uint32_t events) override {
    if (!socket_) return;
    if ((events & EPOLLOUT) != 0) {
      if (!connected_) {
        connected_ = true;
        if (busy_) unsent_ = request_;
      }
      flush();
    }
    if (socket_ && (events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) receive();
  }
  void retry_when_due(std::uint64_t now) {
    if (retry_at_ == 0 || now < retry_at_) return;
    retry_at_ = 0;
    if (!socket_) return connect();
    unsent_ = request_;
    flush();
  }
  bool connected() const { return connected_; }

 private:
  void connect() {
    connected_ = false;
    received_.clear();
    unsent_ = {};
    socket_ = connect_to(owner_.address_);
    owner_.poller_.add(socket_.get(), EPOLLIN | EPOLLOUT, *this);
    watched_out_ = true;
  }
  void flush() {
    const std::ptrdiff_t sent = send_some(socket_.get(), unsent_);
    if (sent < 0) return lose(std::strerror(errno));
    unsent_.remove_prefix(static_cast<std::size_t>(sent));
    if (watched_out_ == !unsent_.empty()) return;
    watched_out_ = !unsent_.empty();
    owner_.poller_.change(socket_.get(), EPOLLIN | (watched_out_ ? EPOLLOUT : 0U), *this);
  }
  void receive() {
    std::array<char, 16 * 1024> buffer{};
    const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return lose(n == 0 ? "closed" : std::strerror(errno));
    received_.append(buffer.data(), static_cast<std::size_t>(n));
    const Reply reply = read_reply(Protocol::http, received_);
    if (reply.state == Reply::State::incomplete) return;
    if (reply.state == Reply::State::refused && owner_.plan_.reconnect && comes_again()) {
      received_.clear();
      ++owner_.retries_;
      retry_at_ = now_ns() + retry_ns;
      return;
    }
    if (reply.state != Reply::State::good || reply.size != received_.size())
      throw std::runtime_error("publishing: " + received_.substr(0, 600));
    if (const auto at = received_.find("\"asOf\":\""); at != received_.npos)
      owner_.head_ = std::max(owner_.head_, number_after(std::string_view(received_).substr(at), "-").value_or(0));
    received_.clear();
    busy_ = false;
    ++owner_.acknowledged_;
    owner_.idle_.push_back(index_);
  }
  // 409 idempotency_in_flight, 503 outcome_unknown or starting: the same request is to be sent again.
  bool comes_again() const { return received_.starts_with("HTTP/1.1 409") || received_.starts_with("HTTP/1.1 503"); }

  void lose(const std::string& why) {
    if (!owner_.plan_.reconnect) throw std::runtime_error("publishing: " + why);
    if (busy_ && connected_) ++owner_.retries_;
    socket_.close();
    connected_ = false;
    retry_at_ = now_ns() + retry_ns;
  }

  Publishers& owner_;
  const std::size_t index_;
  Socket socket_{};
  std::string request_{};  // the last one; sent again when the connection is lost before its reply
  std::string_view unsent_{};
  std::string received_{};
  std::uint64_t retry_at_ = 0;
  bool connected_ = false;
  bool busy_ = false;
  bool watched_out_ = false;
};

Publishers::Publishers(const Plan& plan, const Poller& poller)
    : plan_(plan), poller_(poller), address_(address_of(plan.host, plan.port)) {
  for (std::size_t i = 0; i < plan.publishers; ++i) {
    all_.push_back(std::make_unique<Publisher>(*this, i));
    idle_.push_back(i);
  }
}

Publishers::~Publishers() = default;

void Publishers::begin(std::uint64_t now) { begun_at_ = now; }

std::uint64_t Publishers::due(std::uint64_t number) const {
  if (plan_.mode == Mode::closed_loop) return 0;
  const std::uint64_t burst = number / plan_.burst;
  return begun_at_ + static_cast<std::uint64_t>(static_cast<double>(burst * plan_.burst) / plan_.rate * 1e9);
}

bool Publishers::may_send(std::uint64_t now) const {
  if (begun_at_ == 0 || hold_) return false;
  if (plan_.mode == Mode::closed_loop) return now < begun_at_ + static_cast<std::uint64_t>(plan_.seconds * 1e9);
  return sent() < plan_.events;
}

std::uint64_t Publishers::turn(std::uint64_t now) {
  constexpr std::uint64_t tick_ns = 5'000'000;
  if (plan_.reconnect) {
    for (const auto& publisher : all_) publisher->retry_when_due(now);
  }
  while (may_send(now) && !idle_.empty()) {
    const std::uint64_t at = due(sent());
    if (now < at) return std::min(at - now, tick_ns);
    if (plan_.mode != Mode::closed_loop) late_ns_ = std::max(late_ns_, now - at);
    const std::size_t index = idle_.back();
    idle_.pop_back();
    publisher_of_.push_back(index);
    all_[index]->send(sent() - 1);
  }
  return tick_ns;
}

bool Publishers::done(std::uint64_t now) const {
  if (begun_at_ == 0 || acknowledged_ < sent()) return false;
  if (plan_.mode == Mode::closed_loop) return now >= begun_at_ + static_cast<std::uint64_t>(plan_.seconds * 1e9);
  return sent() == plan_.events;
}

}  // namespace sessiond::bench::stream
