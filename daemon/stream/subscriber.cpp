#include "daemon/stream/subscriber.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <utility>

#include "daemon/http/hop.hpp"
#include "daemon/http/log.hpp"
#include "daemon/stream/frames.hpp"
#include "daemon/stream/look_back.hpp"
#include "daemon/stream/stored.hpp"
#include "store/raw_json.hpp"

namespace sessiond {
namespace {

namespace asio = boost::asio;
using Clock = TailFollower::Clock;

constexpr std::chrono::seconds token_check_interval{1};
constexpr std::uint64_t scan_events = 4096;  // of the tail, before others get their turn

bool same_scope(const Principal& a, const Principal& b) {
  return a.role == b.role && a.agents == b.agents && a.key_prefix == b.key_prefix && a.channel == b.channel;
}

class Subscriber {
 public:
  Subscriber(StreamContext& context, Subscription subscription, StreamWriter& writer,
             const asio::any_io_executor& executor)
      : context_(context),
        ledger_(context.ledger),
        tail_(context.ledger.tail()),
        executor_(executor),
        wish_(std::move(subscription)),
        view_(wish_.view),
        writer_(writer),
        follower_(std::make_shared<TailFollower>(context.ledger.tail(), executor)),
        heartbeat_(wish_.options.heartbeat_ms),
        generation_(context.token_generation()),
        checked_(Clock::now()),
        spoke_(checked_) {}

  asio::awaitable<void> run() {
    // The writer may keep the call longer than this lives.
    writer_.on_close([weak = std::weak_ptr(follower_)] {
      if (const auto follower = weak.lock()) follower->wake();
    });
    if (co_await begin()) {
      while (!ended() && co_await go_on()) {
      }
    }
    if (end_ == "draining") co_await say_bye();
    log::info("stream_closed", {{"request_id", wish_.request_id},
                                {"token", view_->principal.id},
                                {"reason", end_},
                                {"position", id(reached())},
                                {"lag", tail_.head() - std::min(reached(), tail_.head())}});
  }

 private:
  std::string id(std::uint64_t seq) const { return fmt::format("{}-{}", ledger_.epoch(), seq); }
  // Everything up to here has been sent, or is not for this stream.
  std::uint64_t reached() const { return next_ - 1; }

  bool over(std::string_view reason) {
    if (end_.empty()) end_ = reason;
    return false;
  }

  asio::awaitable<bool> write(const std::vector<std::string_view>& buffers) {
    const bool taken = co_await writer_.write(buffers);
    spoke_ = Clock::now();
    co_return taken || over("client");
  }
  asio::awaitable<bool> write(std::string text) { co_return co_await write(std::vector<std::string_view>{text}); }

  // Looked at before every wait and every write: a token that lost its right gets nothing more.
  bool ended() {
    if (!writer_.open()) {
      over("client");
    } else if (context_.draining) {
      over("draining");
    } else {
      check_token();
    }
    return !end_.empty();
  }

  void check_token() {
    const std::uint64_t generation = context_.token_generation();
    const Clock::time_point now = Clock::now();
    if (generation == generation_ && now < checked_ + token_check_interval) return;
    generation_ = generation;
    checked_ = now;
    const auto principal = context_.again(view_->principal);
    if (!principal) {
      over("token");
    } else if (!same_scope(*principal, view_->principal)) {
      over("token_changed");  // it comes back with its new scope, from where it was
    }
  }

  // hello, and the gap if the place asked for is none of this log; sets where to go on.
  asio::awaitable<bool> begin() {
    if (!co_await write(frames::retry(context_.retry_ms))) co_return false;
    if (wish_.asked) {
      co_await settle();
    } else if (wish_.options.replay > 0) {
      const auto first = co_await look_back(ledger_, view_, wish_.options.replay, [this] { return !ended(); });
      if (!first) co_return unreadable(first.error());
      next_ = *first;
    } else {
      next_ = tail_.head() + 1;
    }
    const std::uint64_t head = tail_.head();
    std::string text;
    if (!wish_.asked) {
      text = hello(id(reached()));
    } else {
      const Position& asked = *wish_.asked;
      text = hello(to_string(asked));
      if (asked.epoch == ledger_.epoch() && asked.seq <= head) {
        next_ = asked.seq + 1;
      } else {
        text += gap(to_string(asked), head, asked.epoch == ledger_.epoch() ? "ahead" : "epoch");
        next_ = head + 1;
      }
    }
    said_ = reached();
    co_return co_await write(std::move(text));
  }

  // The id of an answer given before it was durable (202) is soon no longer ahead of the log.
  asio::awaitable<void> settle() {
    const Position& asked = *wish_.asked;
    if (asked.epoch != ledger_.epoch() || asked.seq <= tail_.head() || asked.seq > ledger_.status().head) co_return;
    if (const auto settled = co_await ledger_.settled(asked.seq); !settled) {
      log::debug("stream_asked_for_what_was_not_stored", {{"request_id", wish_.request_id}, {"seq", asked.seq}});
    }
  }

  std::string hello(const std::string& at) const {
    std::string data;
    json::ObjectWriter out(data);
    out.string("epoch", ledger_.epoch());
    out.integer("head", static_cast<std::int64_t>(tail_.head()));
    out.integer("oldest", static_cast<std::int64_t>(ledger_.journal().oldest()));
    out.string("version", context_.version);
    out.raw("filters", view_->filter.json(view_->scope));
    out.close();
    return frames::event(at, "stream.hello", data);
  }

  std::string gap(const std::string& from, std::uint64_t to, std::string_view reason) const {
    std::string data;
    json::ObjectWriter out(data);
    out.string("from", from);
    out.string("to", id(to));
    out.string("reason", reason);
    out.boolean("resync", true);
    out.close();
    return frames::event(id(to), "stream.gap", data);
  }

  // One step: a keep-alive, one gather-write, one page from disk, or a wait. False: over.
  asio::awaitable<bool> go_on() {
    if (Clock::now() >= spoke_ + heartbeat_) co_return co_await keep_alive();
    if (page_at_ < page_.events.size()) co_return co_await send_page();
    if (next_ > tail_.head()) {
      co_await follower_->wait(std::min(spoke_ + heartbeat_, checked_ + token_check_interval));
      co_return true;
    }
    if (next_ >= tail_.oldest()) co_return co_await send_tail();
    co_return co_await read_page();
  }

  asio::awaitable<bool> keep_alive() {
    std::string text = frames::ping(wish_.options.ping_event);
    if (reached() > said_) {
      text += frames::position(id(reached()));
      said_ = reached();
    }
    co_return co_await write(std::move(text));
  }

  asio::awaitable<bool> send_tail() {
    frames::Gather gather(ledger_.epoch());
    const std::uint64_t last = std::min(tail_.head(), next_ + scan_events - 1);
    while (next_ <= last && !gather.full()) {
      const Event& event = tail_.at(next_);
      if (view_->shows(event.envelope)) {
        gather.add(event);
        said_ = next_;
      }
      ++next_;
    }
    if (!gather.empty() && !co_await write(gather.buffers())) co_return false;
    // A fast reader that has much to catch up with would keep everybody else waiting.
    if (next_ <= tail_.head()) co_await asio::post(executor_, asio::use_awaitable);
    co_return true;
  }

  asio::awaitable<bool> send_page() {
    frames::Gather gather(ledger_.epoch());
    while (page_at_ < page_.events.size() && !gather.full()) {
      const Event& event = page_.events[page_at_++];
      gather.add(event);
      said_ = event.envelope.seq;
      next_ = said_ + 1;
    }
    if (page_at_ == page_.events.size()) finish_page();
    if (!co_await write(gather.buffers())) co_return false;
    if (page_at_ < page_.events.size()) co_await asio::post(executor_, asio::use_awaitable);
    co_return true;
  }

  void finish_page() {
    next_ = page_.next;
    page_ = {};
    page_at_ = 0;
  }

  // Never beyond the tail's head: ids that the ledger has not revealed yet would be ahead for whoever resumes there.
  asio::awaitable<bool> read_page() {
    auto page = co_await hop(ledger_.disk().get_executor(),
                             [&journal = ledger_.journal(), view = view_, from = next_, last = tail_.head()] {
                               return read_stored(journal, *view, from, last);
                             });
    if (page) {
      page_ = std::move(*page);
      if (page_.events.empty()) finish_page();
      co_return true;
    }
    const std::uint64_t oldest = ledger_.journal().oldest();
    if (page.error().code != Code::bad_cursor || oldest <= next_) co_return unreadable(page.error());
    said_ = std::min(oldest, tail_.head());
    std::string text = gap(id(reached()), said_, "retention");
    next_ = oldest;
    co_return co_await write(std::move(text));
  }

  bool unreadable(const Problem& problem) {
    log::error("stream_cannot_read",
               {{"request_id", wish_.request_id}, {"position", id(reached())}, {"error", problem.detail}});
    return over("journal");
  }

  asio::awaitable<void> say_bye() {
    std::string text;
    if (reached() > said_) text = frames::position(id(reached()));
    text += frames::bye(context_.retry_ms);
    co_await write(std::move(text));
  }

  StreamContext& context_;
  Ledger& ledger_;
  Tail& tail_;
  asio::any_io_executor executor_;
  const Subscription wish_;
  const std::shared_ptr<const StreamView> view_;
  StreamWriter& writer_;
  const std::shared_ptr<TailFollower> follower_;
  const std::chrono::milliseconds heartbeat_;

  std::uint64_t next_ = 1;  // seq of the first event not yet considered
  std::uint64_t said_ = 0;  // seq of the last id the client was given
  StoredEvents page_{};     // read from disk, sent up to page_at_
  std::size_t page_at_ = 0;
  std::uint64_t generation_;
  Clock::time_point checked_;  // when the token was last asked for
  Clock::time_point spoke_;    // when the client was last written to
  std::string end_{};          // why it is over
};

}  // namespace

asio::awaitable<void> serve(StreamContext& context, Subscription subscription, StreamWriter& writer) {
  const auto executor = co_await asio::this_coro::executor;
  Subscriber subscriber(context, std::move(subscription), writer, executor);
  co_await subscriber.run();
}

}  // namespace sessiond
