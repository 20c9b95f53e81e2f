// The streams of one thread (API §6). A reader is a cursor into the log and a view, not a queue: it takes from the tail
// in memory and, where that does not reach, from the journal, at its own pace. Those who have everything form audiences
// and are served in rounds, the frames of a round found once an audience; whoever's socket is full drops out of the
// rounds, costs nothing, and catches up by itself. Every durable event that its view shows comes once, in order, or a
// stream.gap says what is gone. Everything here belongs to the hub's thread.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/ledger/ledger.hpp"
#include "daemon/stream/audience.hpp"
#include "daemon/stream/reader.hpp"
#include "daemon/stream/tail.hpp"

namespace sessiond {

struct StreamSettings {
  std::int64_t heartbeat_ms = 15'000;  // of readers who do not say
  std::int64_t retry_ms = 2'000;
  std::int64_t stall_timeout_ms = 60'000;
  std::int64_t coalesce_ms = 10;
  std::size_t tail_bytes = 16 << 20;
  std::uint64_t streams_per_token = 0;  // 0: no limit
};

// What all streams share. Any thread may call it.
struct StreamContext {
  const Journal& journal;
  boost::asio::thread_pool& disk;
  std::string version{};
  // Who the token is now. A problem (revoked, expired) or another scope ends its streams; asked every second and
  // whenever the generation changes.
  std::function<Result<Principal>(const Principal&)> again;
  std::function<std::uint64_t()> token_generation;
};

struct StreamCounters {
  std::atomic<std::uint64_t> bytes{0};    // sent
  std::atomic<std::uint64_t> stalled{0};  // closed because they took nothing
  std::atomic<std::uint64_t> gaps{0};
  std::atomic<std::uint64_t> dropped{0};  // batches of what is not kept, for want of room
};

// One stream, for GET /v1/admin/streams and /metrics.
struct StreamInfo {
  std::uint64_t id = 0;
  std::string token{};
  std::string peer{};
  std::string request_id{};
  std::string filters{};  // JSON
  std::string_view state{};
  std::uint64_t position = 0;  // seq
  std::uint64_t lag_events = 0;
  std::uint64_t lag_bytes = 0;  // of journal, about
  std::uint64_t sent_bytes = 0;
  std::int64_t open_ms = 0;
  std::int64_t waits_ms = 0;  // blocked: since its socket took something
};

class Hub {
 public:
  Hub(const StreamContext& context, StreamSettings settings, StreamCounters& counters,
      boost::asio::any_io_executor executor, std::uint64_t head);
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  void open(Subscription subscription, TakenSocket socket);
  void deliver(SharedBatch batch);
  void publish(SharedBatch ephemeral);  // to who has everything, if there is room
  void check_tokens();                  // now
  void reconfigure(StreamSettings settings);
  void drain();      // everybody hears bye and goes
  void close_all();  // at once
  bool close(std::uint64_t id, std::string_view reason);
  std::vector<StreamInfo> describe() const;
  std::size_t readers() const { return all_.size(); }

 private:
  using Clock = Reader::Clock;

  std::string id(std::uint64_t seq) const;
  std::uint64_t reached(const Reader& reader) const;

  void begin(Reader& reader);
  boost::asio::awaitable<void> begin_before_last(std::shared_ptr<Reader> reader);
  std::string hello(const Reader& reader, const std::string& at) const;
  std::string gap(const std::string& from, std::uint64_t to, std::string_view reason);

  void schedule();
  void run();
  void begin_round();
  void gather_for(const Audience& audience);
  void serve_round(std::size_t& budget, Clock::time_point now);
  void finish_audience(Audience& audience);
  void step(Reader& reader, Clock::time_point now);
  void step_in_log(Reader& reader, Clock::time_point now);
  void send_page(Reader& reader, Clock::time_point now);
  void read_log(Reader& reader, std::uint64_t from);
  void page_read(Reader& reader, std::uint64_t from, Result<StoredPage> page);
  void take_page(Reader& reader, StoredPage page);
  void pass_over(Reader& reader, std::uint64_t next);
  void cannot_read(Reader& reader, const Problem& problem);

  void make_ready(Reader& reader);
  void after(Reader& reader, Reader::Sent sent);  // ready again, blocked or over
  void leave(Reader& reader);                     // its audience's rounds
  void dismiss();
  void say_bye(Reader& reader, Clock::time_point now);
  void finish(Reader& reader, std::string_view reason);  // nothing more is said
  void over(Reader& reader, std::string_view reason);    // gone

  void arm_tick();
  void tick();
  void tick(Reader& reader, Clock::time_point now);

  const StreamContext& context_;
  StreamSettings settings_;
  StreamCounters& counters_;
  boost::asio::any_io_executor executor_;
  Tail tail_;
  Audiences audiences_;
  std::vector<std::shared_ptr<Reader>> all_;
  std::deque<std::shared_ptr<Reader>> ready_;
  bool scheduled_ = false;

  // The round under way: audiences [round_at_, …) up to seq round_to_; of the first, readers [reader_at_, …).
  std::vector<std::shared_ptr<Audience>> round_;
  std::size_t round_at_ = 0;
  std::size_t reader_at_ = 0;
  std::uint64_t round_to_ = 0;
  bool turn_begun_ = false;      // of the first audience
  std::uint64_t turn_from_ = 0;  // what it had reached then
  struct Passing {
    SharedBatch batch;
    std::uint64_t after;  // the head when it came
  };
  std::vector<Passing> passing_;  // of this round
  std::vector<Passing> next_passing_;
  std::size_t passing_bytes_ = 0;
  const Audience* serving_ = nullptr;  // its frames are in gathered_
  Gathered gathered_;
  Gathered own_;  // for one reader
  bool round_due_ = false;

  boost::asio::steady_timer coalesce_timer_;
  bool coalescing_ = false;
  std::array<Clock::time_point, 10> arrivals_{};  // of the last batches
  std::size_t arrival_ = 0;
  Clock::time_point last_round_{};

  boost::asio::steady_timer tick_timer_;
  bool ticking_ = false;
  std::int64_t shortest_heartbeat_ms_ = 60'000;
  std::uint64_t generation_;
  Clock::time_point checked_{};
  bool draining_ = false;
};

}  // namespace sessiond
