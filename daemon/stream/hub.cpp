#include "daemon/stream/hub.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "daemon/runtime/log.hpp"
#include "daemon/stream/frames.hpp"
#include "daemon/stream/look_back.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond {

namespace asio = boost::asio;

Hub::Hub(const StreamContext& context, StreamSettings settings, StreamCounters& counters,
         asio::any_io_executor executor, std::uint64_t head)
    : context_(context),
      settings_(settings),
      counters_(counters),
      executor_(std::move(executor)),
      tail_(head, settings.tail_bytes),
      coalesce_timer_(executor_),
      tick_timer_(executor_),
      generation_(context.token_generation()) {}

Hub::~Hub() {
  for (const auto& reader : all_) reader->close();
}

std::string Hub::id(std::uint64_t seq) const { return fmt::format("{}-{}", context_.journal.epoch(), seq); }

// Everything up to here has been sent to it, or is not for it.
std::uint64_t Hub::reached(const Reader& reader) const {
  return reader.state == Reader::State::live ? reader.audience->reached : reader.next - 1;
}

// --- beginning ---

void Hub::open(Subscription subscription, TakenSocket socket) {
  const auto reader = std::make_shared<Reader>(executor_, std::move(subscription), std::move(socket), counters_.bytes);
  reader->audience = audiences_.of(reader->wish.view);
  reader->wish.view = reader->audience->view;
  reader->place = all_.size();
  all_.push_back(reader);
  reader->when_gone([this, gone = reader.get()] {
    if (gone->state != Reader::State::closed) over(*gone, gone->end.empty() ? "client" : gone->end);
  });
  shortest_heartbeat_ms_ = std::min(shortest_heartbeat_ms_, reader->wish.options.heartbeat_ms);
  arm_tick();
  if (reader->wish.asked || reader->wish.options.replay == 0) {
    reader->next = tail_.head() + 1;
    begin(*reader);
  } else {
    reader->state = Reader::State::reading;
    asio::co_spawn(executor_, begin_before_last(reader), asio::detached);
  }
}

asio::awaitable<void> Hub::begin_before_last(std::shared_ptr<Reader> reader) {
  const auto first =
      co_await look_back(tail_, context_.journal, context_.disk, reader->wish.view, reader->wish.options.replay,
                         [&reader] { return reader->state != Reader::State::closed; });
  if (reader->state != Reader::State::reading) co_return;  // gone, or its token is
  if (!first) {
    log::error("stream_cannot_read", {{"requestId", reader->wish.request_id}, {"error", first.error().detail}});
    co_return finish(*reader, "journal");
  }
  reader->next = *first;
  begin(*reader);
}

// hello, and the gap if the place asked for is none of this log; sets where to go on.
void Hub::begin(Reader& reader) {
  const std::uint64_t head = tail_.head();
  std::string text = frames::retry(settings_.retry_ms);
  if (!reader.wish.asked) {
    text += hello(reader, id(reader.next - 1));
  } else {
    const Position& asked = *reader.wish.asked;
    text += hello(reader, to_string(asked));
    reader.next = asked.seq + 1;
    if (const auto reason = gap_reason(asked, context_.journal.epoch(), head)) {
      text += gap(to_string(asked), head, *reason);
      reader.next = head + 1;
    }
  }
  reader.said = reader.next - 1;
  reader.begun = true;
  after(reader, reader.say(text, Clock::now()));
}

std::string Hub::hello(const Reader& reader, const std::string& at) const {
  std::string data;
  json::ObjectWriter out(data);
  out.string("epoch", context_.journal.epoch());
  out.integer("head", static_cast<std::int64_t>(tail_.head()));
  // What the tail holds is served too, also when retention has taken it from the disk.
  out.integer("oldest", static_cast<std::int64_t>(std::min(context_.journal.oldest(), tail_.oldest())));
  out.string("version", context_.version);
  out.raw("filters", reader.wish.view->filter.json(reader.wish.view->scope));
  out.close();
  return frames::event(at, "stream.hello", data);
}

std::string Hub::gap(const std::string& from, std::uint64_t to, std::string_view reason) {
  ++counters_.gaps;
  return frames::event(id(to), "stream.gap", gap_data(from, id(to), reason));
}

void Hub::leave(Reader& reader) {
  if (reader.state != Reader::State::live) return;
  const bool in_turn = serving_ == reader.audience.get();
  const bool served = in_turn && reader.live_place < reader_at_;
  reader.next = served ? gathered_.next : reader.audience->reached + 1;
  reader.state = Reader::State::ready;
  reader.audience->leave(reader, in_turn);
}

// --- one reader by itself ---

void Hub::make_ready(Reader& reader) {
  reader.state = Reader::State::ready;
  ready_.push_back(reader.shared_from_this());
  schedule();
}

void Hub::after(Reader& reader, Reader::Sent sent) {
  if (sent == Reader::Sent::gone) return over(reader, reader.end.empty() ? "client" : reader.end);
  if (sent == Reader::Sent::all) return make_ready(reader);
  reader.state = Reader::State::blocked;
  reader.when_writable([this, blocked = &reader] {
    if (blocked->state == Reader::State::blocked) make_ready(*blocked);
  });
}

void Hub::step(Reader& reader, Clock::time_point now) {
  if (reader.has_rest()) return after(reader, reader.send_rest(now));
  if (!reader.end.empty()) return finish(reader, reader.end);
  if (draining_) return say_bye(reader, now);
  if (context_.token_generation() != generation_) {
    check_tokens();
    if (reader.state != Reader::State::ready) return;
  }
  if (reader.page) return send_page(reader, now);
  step_in_log(reader, now);
}

void Hub::step_in_log(Reader& reader, Clock::time_point now) {
  Audience& audience = *reader.audience;
  if (audience.nobody_live() && serving_ != &audience) audience.reached = tail_.head();
  if (reader.next == audience.reached + 1) return audience.join(reader);
  if (reader.next > audience.reached) {  // it came after a round that is still to be made
    round_due_ = true;
    return make_ready(reader);
  }
  if (reader.next < tail_.oldest()) {
    const bool asked = reader.ahead_from == reader.next;
    if (asked && reader.page_ahead) {
      reader.ahead_from = 0;
      return take_page(reader, std::move(*std::exchange(reader.page_ahead, nullptr)));
    }
    reader.state = Reader::State::reading;
    if (!asked) read_log(reader, reader.next);
    return;
  }
  gather(own_, tail_, *audience.view, reader.next, audience.reached);
  if (own_.empty()) {
    reader.next = own_.next;
    make_ready(reader);
  } else {
    after(reader, reader.send(own_, now));
  }
  own_.clear();
}

// Never beyond what its audience has: ids that are not out yet would be ahead for whoever resumes there.
void Hub::read_log(Reader& reader, std::uint64_t from) {
  reader.ahead_from = from;
  asio::post(context_.disk, [this, home = asio::make_work_guard(executor_), self = reader.shared_from_this(),
                             view = reader.audience->view, from, last = reader.audience->reached]() mutable {
    auto page = read_stored(context_.journal, *view, from, last);
    asio::post(home.get_executor(), [this, self = std::move(self), from, page = std::move(page)]() mutable {
      if (self->state != Reader::State::closed) page_read(*self, from, std::move(page));
    });
  });
}

void Hub::page_read(Reader& reader, std::uint64_t from, Result<StoredPage> page) {
  if (reader.ahead_from != from) return;  // it is elsewhere by now
  if (reader.state == Reader::State::reading && reader.next == from) {
    reader.ahead_from = 0;
    return page ? take_page(reader, std::move(*page)) : cannot_read(reader, page.error());
  }
  if (page) {
    reader.page_ahead = std::make_unique<StoredPage>(std::move(*page));
  } else {
    reader.ahead_from = 0;  // found again when it is its turn
  }
}

// The next page is read while this one is sent.
void Hub::take_page(Reader& reader, StoredPage page) {
  const std::uint64_t next = page.next;
  if (page.lost) return pass_over(reader, std::min(next, tail_.oldest()));
  if (page.ends.empty()) {
    reader.next = next;
  } else {
    reader.page = std::make_unique<StoredPage>(std::move(page));
    reader.page_at = 0;
    if (next <= reader.audience->reached && next < tail_.oldest()) read_log(reader, next);
  }
  make_ready(reader);
}

void Hub::cannot_read(Reader& reader, const Problem& problem) {
  const std::uint64_t oldest = context_.journal.oldest();
  if (problem.code != Code::bad_cursor || oldest <= reader.next) {
    log::error("stream_cannot_read",
               {{"requestId", reader.wish.request_id}, {"position", id(reader.next - 1)}, {"error", problem.detail}});
    return finish(reader, "journal");
  }
  reader.said = std::min(oldest, tail_.head());
  const std::string text = gap(id(reader.next - 1), reader.said, "retention");
  reader.next = oldest;
  after(reader, reader.say(text, Clock::now()));
}

// Events from where it is up to `next` are damaged in the journal: it is told, and goes on behind them.
void Hub::pass_over(Reader& reader, std::uint64_t next) {
  log::warn("stream_gap", {{"requestId", reader.wish.request_id},
                           {"reason", "damage"},
                           {"first", reader.next},
                           {"last", next - 1},
                           {"next", "sessiond doctor says what is damaged"}});
  reader.said = next - 1;
  const std::string text = gap(id(reader.next - 1), reader.said, "damage");
  reader.next = next;
  after(reader, reader.say(text, Clock::now()));
}

void Hub::send_page(Reader& reader, Clock::time_point now) {
  const StoredPage& page = *reader.page;
  const std::size_t begin = reader.page_at == 0 ? 0 : page.ends[reader.page_at - 1].end;
  own_.add(page.text, std::string_view(page.text).substr(begin), std::span(page.ends).subspan(reader.page_at));
  own_.next = page.next;
  const Reader::Sent sent = reader.send(own_, now);
  own_.clear();
  if (sent == Reader::Sent::all) {
    reader.page.reset();
  } else {
    const auto at = std::ranges::lower_bound(page.ends, reader.next, {}, &FrameEnd::seq);
    reader.page_at = static_cast<std::size_t>(at - page.ends.begin());
    if (at == page.ends.end()) {
      reader.next = page.next;
      reader.page.reset();
    }
  }
  after(reader, sent);
}

void Hub::reconfigure(StreamSettings settings) {
  settings_ = settings;
  tail_.limit(settings.tail_bytes);
}

// --- ending ---

void Hub::say_bye(Reader& reader, Clock::time_point now) {
  std::string text;
  if (reached(reader) > reader.said) text = frames::position(id(reached(reader)));
  text += frames::bye(settings_.retry_ms);
  reader.end = "draining";
  after(reader, reader.say(text, now));
}

void Hub::finish(Reader& reader, std::string_view reason) {
  leave(reader);
  reader.end = reason;
  reader.state = Reader::State::closing;
  reader.moved = Clock::now();
  reader.end_sending();
}

void Hub::over(Reader& reader, std::string_view reason) {
  const auto self = reader.shared_from_this();
  const std::uint64_t at = reached(reader);
  leave(reader);
  reader.state = Reader::State::closed;
  reader.close();
  log::info("stream_closed", {{"requestId", reader.wish.request_id},
                              {"token", reader.wish.view->principal.id},
                              {"peer", reader.peer},
                              {"reason", reason},
                              {"position", id(at)},
                              {"lag", tail_.head() - std::min(at, tail_.head())},
                              {"lag_bytes", context_.journal.bytes_after(at)}});
  audiences_.left(reader.audience);
  all_[reader.place] = all_.back();
  all_[reader.place]->place = reader.place;
  all_.pop_back();
  if (all_.empty()) shortest_heartbeat_ms_ = settings_.heartbeat_ms;
}

// Who has all but the last round gets that first.
void Hub::drain() {
  draining_ = true;
  round_due_ = true;
  schedule();
}

void Hub::dismiss() {
  for (const auto& reader : all_) {
    if (reader->state != Reader::State::live) continue;
    leave(*reader);
    make_ready(*reader);
  }
}

void Hub::close_all() {
  while (!all_.empty()) over(*all_.back(), all_.back()->end.empty() ? "draining" : all_.back()->end);
}

bool Hub::close(std::uint64_t id, std::string_view reason) {
  const auto found = std::ranges::find(all_, id, [](const auto& reader) { return reader->wish.id; });
  if (found == all_.end()) return false;
  over(**found, reason);
  return true;
}

}  // namespace sessiond
