#include "daemon/stream/hub.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cassert>
#include <utility>

#include "daemon/stream/frames.hpp"

namespace sessiond::stream {

namespace {

constexpr std::size_t steps_at_once = 16;  // of clients that catch up: each sends up to a quarter of a MiB

std::int64_t ms(StreamClient::Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

std::string_view name(StreamClient::State state) {
  constexpr std::array<std::string_view, 6> names{"catching_up", "catching_up", "live",
                                                  "blocked",     "closing",     "closing"};
  static_assert(names.size() == static_cast<std::size_t>(StreamClient::State::closed) + 1);  // in the order of the enum
  return names.at(static_cast<std::size_t>(state));
}

}  // namespace

Hub::Hub(const StreamContext& context, StreamSettings settings, StreamCounters& counters,
         boost::asio::any_io_executor executor, std::uint64_t head)
    : state_{.context = context,
             .settings = settings,
             .counters = counters,
             .executor = std::move(executor),
             .tail = Tail(head, settings.tail_bytes),
             .wake = [this] { schedule(); }},
      clients_(state_),
      catch_up_(state_, clients_),
      rounds_(state_, clients_),
      upkeep_(state_, clients_) {}

void Hub::open(Subscription subscription, http::TakenSocket socket) {
  assert(thread_.is_current());
  StreamClient& client = clients_.add(std::move(subscription), std::move(socket));
  upkeep_.watch(client);
  catch_up_.begin(client);
}

void Hub::deliver(SharedBatch batch) {
  assert(thread_.is_current());
  state_.tail.push(std::move(batch));
  rounds_.batch_arrived();
}

void Hub::publish(SharedBatch ephemeral) {
  assert(thread_.is_current());
  rounds_.add_ephemeral(std::move(ephemeral));
}

void Hub::check_tokens() {
  assert(thread_.is_current());
  upkeep_.check_tokens();
}

void Hub::reconfigure(StreamSettings settings) {
  assert(thread_.is_current());
  state_.settings = settings;
  state_.tail.limit(settings.tail_bytes);
}

void Hub::schedule() {
  if (std::exchange(scheduled_, true)) return;
  boost::asio::post(state_.executor, [this] { run(); });
}

void Hub::run() {
  assert(thread_.is_current());
  scheduled_ = false;
  upkeep_.check_tokens_if_changed();  // before anything is sent: a revoked token must not see it
  const auto now = StreamClient::Clock::now();
  rounds_.serve(now);
  if (draining_ && !rounds_.pending()) {
    for (const auto& client : clients_.all()) {
      if (client->state == StreamClient::State::live) clients_.enter(*client, StreamClient::State::ready);
    }
  }
  for (std::size_t steps = 0; steps < steps_at_once; ++steps) {
    const auto client = clients_.next_ready();
    if (!client) break;
    step(*client, now);
  }
  if (rounds_.pending() || clients_.any_ready()) schedule();
}

void Hub::step(StreamClient& client, StreamClient::Clock::time_point now) {
  if (client.has_rest()) return clients_.after_send(client, client.send_rest(now));
  if (!client.close_reason.empty()) return clients_.begin_closing(client, client.close_reason);
  if (draining_) return say_bye(client, now);
  Audience& audience = *client.audience;
  if (audience.nobody_live() && !audience.being_served()) audience.skip_to(state_.tail.head());
  const std::uint64_t next = client.cursor.next();
  if (next <= audience.reached()) return catch_up_.step(client, now);
  if (next == audience.reached() + 1) return clients_.enter(client, StreamClient::State::live);
  rounds_.request();  // it began behind events that its audience has not been served yet
  clients_.enter(client, StreamClient::State::ready);
}

void Hub::say_bye(StreamClient& client, StreamClient::Clock::time_point now) {
  const std::string text = position_update(state_, client) + frames::bye(state_.settings.retry_ms);
  client.close_reason = "draining";
  clients_.after_send(client, client.say(text, now));
}

void Hub::drain() {
  assert(thread_.is_current());
  draining_ = true;
  rounds_.request();  // live clients get what has arrived before they are told
}

void Hub::close_all() {
  assert(thread_.is_current());
  while (!clients_.all().empty()) clients_.remove(*clients_.all().back(), "draining");
}

bool Hub::close(std::uint64_t id, std::string_view reason) {
  assert(thread_.is_current());
  const auto& all = clients_.all();
  const auto found = std::ranges::find(all, id, [](const auto& client) { return client->subscription.id; });
  if (found == all.end()) return false;
  clients_.remove(**found, reason);
  return true;
}

std::size_t Hub::clients() const {
  assert(thread_.is_current());
  return clients_.all().size();
}

bool Hub::any(const std::function<bool(const StreamView&)>& wanted) const {
  assert(thread_.is_current());
  return std::ranges::any_of(clients_.all(), [&wanted](const auto& client) {
    using State = StreamClient::State;
    return client->state != State::closing && client->state != State::closed && wanted(*client->subscription.view);
  });
}

std::uint64_t Hub::most_lag() const {
  assert(thread_.is_current());
  const std::uint64_t head = state_.tail.head();
  std::uint64_t most = 0;
  for (const auto& client : clients_.all())
    if (client->state != StreamClient::State::live)
      most = std::max(most, head - std::min(client->cursor.reached(), head));
  return most;
}

std::vector<StreamInfo> Hub::describe() const {
  assert(thread_.is_current());
  std::vector<StreamInfo> out;
  out.reserve(clients_.all().size());
  const auto now = StreamClient::Clock::now();
  const std::uint64_t head = state_.tail.head();
  for (const auto& client : clients_.all()) {
    const std::uint64_t at = client->cursor.reached();
    const StreamView& view = *client->subscription.view;
    out.push_back({.id = client->subscription.id,
                   .token = view.principal.id,
                   .peer = client->peer,
                   .request_id = client->subscription.request_id,
                   .filters = view.filter.json(view.scope),
                   .state = name(client->state),
                   .position = at,
                   .lag_events = head - std::min(at, head),
                   .lag_bytes = at < head ? state_.context.journal.bytes_after(at) : 0,
                   .sent_bytes = client->bytes_sent,
                   .open_ms = ms(now - client->opened),
                   .waits_ms = client->state == StreamClient::State::blocked ? ms(now - client->last_progress) : 0});
  }
  return out;
}

}  // namespace sessiond::stream
