#include "daemon/stream/catch_up.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <cassert>
#include <utility>

#include "daemon/runtime/log.hpp"
#include "daemon/stream/frames.hpp"
#include "daemon/stream/look_back.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::stream {

namespace asio = boost::asio;

void CatchUp::begin(StreamClient& client) {
  if (client.subscription.asked || client.subscription.options.replay == 0) return greet(client, hub_.tail.head() + 1);
  asio::co_spawn(hub_.executor, begin_with_replay(client.shared_from_this()), asio::detached);
}

asio::awaitable<void> CatchUp::begin_with_replay(std::shared_ptr<StreamClient> client) {
  const Subscription& wanted = client->subscription;
  const auto first =
      co_await look_back(hub_.tail, hub_.context.journal, hub_.context.disk, wanted.view, wanted.options.replay,
                         [&client] { return client->state != StreamClient::State::closed; });
  if (client->state != StreamClient::State::reading) co_return;  // it has left, or its token was revoked
  if (!first) {
    log::error("stream_cannot_read", {{"requestId", wanted.request_id}, {"error", first.error().detail}});
    co_return clients_.begin_closing(*client, "journal");
  }
  greet(*client, *first);
}

void CatchUp::greet(StreamClient& client, std::uint64_t first) {
  std::string text = frames::retry(hub_.settings.retry_ms);
  if (const auto& asked = client.subscription.asked) {
    text += hello(client, to_string(*asked));
    first = asked->seq + 1;
    if (const auto reason = gap_reason(*asked, hub_.context.journal.epoch(), hub_.tail.head())) {
      text += gap(to_string(*asked), hub_.tail.head(), *reason);
      first = hub_.tail.head() + 1;
    }
  } else {
    text += hello(client, hub_.id(first - 1));
  }
  client.cursor.start_at(first);
  clients_.after_send(client, client.say(text, StreamClient::Clock::now()));
}

std::string CatchUp::hello(const StreamClient& client, const std::string& at) const {
  json::ObjectWriter out;
  out.string("epoch", hub_.context.journal.epoch());
  out.integer("head", static_cast<std::int64_t>(hub_.tail.head()));
  // The tail is served even after retention has deleted its events from the disk.
  out.integer("oldest", static_cast<std::int64_t>(std::min(hub_.context.journal.oldest(), hub_.tail.oldest())));
  out.string("version", SESSIOND_VERSION);
  out.raw("filters", client.subscription.view->filter.json(client.subscription.view->scope));
  return frames::event(at, "stream.hello", out.text());
}

std::string CatchUp::gap(const std::string& from, std::uint64_t to, std::string_view reason) {
  ++hub_.counters.gaps;
  return frames::event(hub_.id(to), "stream.gap", gap_data(from, hub_.id(to), reason));
}

void CatchUp::step(StreamClient& client, StreamClient::Clock::time_point now) {
  assert(client.state == StreamClient::State::ready && !client.has_rest());
  if (client.pages.current) return send_page(client, now);
  const std::uint64_t next = client.cursor.next();
  const Audience& audience = *client.audience;
  assert(next <= audience.reached());
  if (next < hub_.tail.oldest()) {
    const bool asked = client.pages.ahead_from == next;
    if (asked && client.pages.ahead) {
      client.pages.ahead_from = 0;
      return take_page(client, std::exchange(client.pages.ahead, nullptr));
    }
    clients_.enter(client, StreamClient::State::reading);
    if (!asked) read_page(client, next);
    return;
  }
  gather(frames_, hub_.tail, *audience.view, next, audience.reached());
  if (frames_.empty()) {
    client.cursor.skip_to(frames_.next);
    clients_.enter(client, StreamClient::State::ready);
  } else {
    clients_.after_send(client, client.send(frames_, now));
  }
  frames_.clear();
}

// Reads no further than the audience has been served: an id of a later event is not public yet, and a client that
// resumed there would be ahead of the log.
void CatchUp::read_page(StreamClient& client, std::uint64_t from) {
  client.pages.ahead_from = from;
  asio::post(hub_.context.disk, [this, home = asio::make_work_guard(hub_.executor), self = client.shared_from_this(),
                                 view = client.audience->view, from, last = client.audience->reached()]() mutable {
    auto page = read_stored(hub_.context.journal, *view, from, last);
    asio::post(home.get_executor(), [this, self = std::move(self), from, page = std::move(page)]() mutable {
      if (self->state != StreamClient::State::closed) page_was_read(*self, from, std::move(page));
    });
  });
}

void CatchUp::page_was_read(StreamClient& client, std::uint64_t from, Result<StoredPage> page) {
  if (client.pages.ahead_from != from) return;  // its pages were dropped meanwhile
  const auto one = page ? shared(client.audience->view, from, std::move(*page)) : nullptr;
  if (client.state == StreamClient::State::reading && client.cursor.next() == from) {
    client.pages.ahead_from = 0;
    return one ? take_page(client, one) : cannot_read(client, page.error());
  }
  if (one) {
    client.pages.ahead = one;
  } else {
    client.pages.ahead_from = 0;  // the error comes again when the client gets there
  }
}

std::shared_ptr<const StoredPage> CatchUp::shared(const std::shared_ptr<const StreamView>& view, std::uint64_t from,
                                                  StoredPage page) {
  std::erase_if(pages_, [](const auto& one) { return one.second.expired(); });
  std::weak_ptr<const StoredPage>& known = pages_[{view, from}];
  if (auto same = known.lock()) return same;
  auto made = std::make_shared<const StoredPage>(std::move(page));
  known = made;
  return made;
}

void CatchUp::take_page(StreamClient& client, std::shared_ptr<const StoredPage> page) {
  const std::uint64_t next = page->next;
  if (page->lost) {
    const std::uint64_t behind = std::min(next, hub_.tail.oldest());
    log::warn("stream_gap", {{"requestId", client.subscription.request_id},
                             {"reason", "damage"},
                             {"first", client.cursor.next()},
                             {"last", behind - 1},
                             {"next", "run sessiond doctor: it names what is damaged"}});
    return report_gap(client, behind, behind - 1, "damage");
  }
  if (page->ends.empty()) {
    client.cursor.skip_to(next);
  } else {
    client.pages.current = std::move(page);
    if (next <= client.audience->reached() && next < hub_.tail.oldest()) read_page(client, next);
  }
  clients_.enter(client, StreamClient::State::ready);
}

void CatchUp::cannot_read(StreamClient& client, const Problem& problem) {
  const std::uint64_t oldest = hub_.context.journal.oldest();
  if (problem.code == Code::bad_cursor && oldest > client.cursor.next())
    return report_gap(client, oldest, std::min(oldest, hub_.tail.head()), "retention");
  log::error("stream_cannot_read", {{"requestId", client.subscription.request_id},
                                    {"position", hub_.id(client.cursor.reached())},
                                    {"error", problem.detail}});
  clients_.begin_closing(client, "journal");
}

// Tells the client that events up to `to` are missing, and continues with the event `next`.
void CatchUp::report_gap(StreamClient& client, std::uint64_t next, std::uint64_t to, std::string_view reason) {
  const std::string text = gap(hub_.id(client.cursor.reached()), to, reason);
  client.cursor.skip_to(next);
  client.cursor.id_sent(to);
  clients_.after_send(client, client.say(text, StreamClient::Clock::now()));
}

void CatchUp::send_page(StreamClient& client, StreamClient::Clock::time_point now) {
  const std::shared_ptr<const StoredPage> current = client.pages.current;
  const StoredPage& page = *current;
  const auto at = std::ranges::lower_bound(page.ends, client.cursor.next(), {}, &FrameEnd::seq);
  const std::size_t begin = at == page.ends.begin() ? 0 : std::prev(at)->end;
  frames_.add(page.text, std::string_view(page.text).substr(begin), {at, page.ends.end()}, current);
  frames_.next = page.next;
  const StreamClient::Sent sent = client.send(frames_, now);
  frames_.clear();
  if (client.cursor.next() > page.ends.back().seq) {
    client.cursor.skip_to(page.next);
    client.pages.current.reset();
  }
  clients_.after_send(client, sent);
}

}  // namespace sessiond::stream
