// A real ledger in a directory of its own, and clients of its stream that record what they are sent, can stall and can
// hang up.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/ledger/ledger.hpp"
#include "daemon/stream/streams.hpp"
#include "tests/unit/daemon/ledger/ledger_fixture.hpp"

namespace sessiond::stream_test {

namespace asio = boost::asio;

// One event of a stream as an EventSource would take it apart; a bare id has neither type nor data.
struct Frame {
  std::string id{}, type{}, data{}, comment{}, retry{};
  friend bool operator==(const Frame&, const Frame&) = default;
};
std::vector<Frame> parse_frames(std::string_view text);

// The other end of a stream's socket, whose buffers are small: frames are cut anywhere.
class Client : public std::enable_shared_from_this<Client> {
 public:
  explicit Client(asio::io_context& io);
  http::TakenSocket server_end();  // once

  void read();   // on and on, from now
  void pause();  // reads nothing more
  void hang_up();

  std::vector<Frame> frames() const { return parse_frames(text); }
  std::vector<std::string> ids() const;                     // of events with data, hello and gap left out
  std::optional<Frame> first(std::string_view type) const;  // frame of this type
  const std::string& last_id() const { return last_id_; }   // as an EventSource has it

  std::string text{};
  bool ended = false;  // the stream has

 private:
  void read_some();
  void take(std::size_t size);

  asio::local::stream_protocol::socket socket_;
  store::Fd server_end_;
  std::array<char, 16384> buffer_;
  std::string last_id_{};
  std::size_t looked_at_ = 0;  // bytes of `text`
  bool reading_ = false;
  bool waiting_ = false;  // for a read that was begun
};

// What the tests commit: enough of an envelope to be filtered by.
struct Said {
  journal::EventType type = journal::EventType::session_updated;
  std::string agent = "main";
  std::string key{};
  std::string channel{};
  std::optional<std::string> topic{};
  std::string text = "x";  // in data
};

class Fixture {
 public:
  explicit Fixture(config::Config changed = {}, std::size_t threads = 1);
  ~Fixture();
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  ledger::Ledger& ledger() const { return base_.ledger(); }
  std::string id(std::uint64_t seq) const {
    return ledger().parts().commits.journal().epoch() + "-" + std::to_string(seq);
  }
  stream::Streams& streams() { return *streams_; }
  std::uint64_t head() { return streams_->tail().head(); }

  std::uint64_t commit(std::vector<Said> said);  // durable when it returns; the last seq
  void restart();                                // the tail is empty afterwards

  using Query = std::vector<std::pair<std::string, std::string>>;
  Result<http::Response> ask(Query query, std::string last_event_id = {}, stream::StreamScope scope = {},
                             auth::Principal who = admin());
  std::shared_ptr<Client> open(Query query, std::string last_event_id = {}, stream::StreamScope scope = {},
                               auth::Principal who = admin());
  std::shared_ptr<Client> start(http::Response response, bool reading = true);

  template <class Until>
  void run_until(Until until) {
    base_.run_until(std::move(until));
  }
  // Until the client's last id says that it has everything.
  void run_to(const Client& client, std::uint64_t seq) {
    run_until([&] { return client.last_id() == id(seq); });
  }
  template <class Value>
  Value await(asio::awaitable<Value> call) {
    return base_.await(std::move(call));
  }

  static auth::Principal admin() { return {.id = "a", .role = auth::Role::admin}; }

  // Until the stream of this client, the only one, is in this state.
  void run_until_state(std::string_view state) {
    run_until([&] { return await(streams_->list()).front().state == state; });
  }

  // Who the tokens are: what `again` answers, null for as they were.
  std::function<Result<auth::Principal>(const auth::Principal&)> again{};
  std::uint64_t generation = 1;
  std::int64_t times_asked = 0;

 private:
  void launch();
  void stop();

  testing::LedgerFixture base_;
  const std::size_t threads_;
  std::unique_ptr<stream::Streams> streams_;
  std::vector<std::shared_ptr<Client>> clients_;
};

}  // namespace sessiond::stream_test
