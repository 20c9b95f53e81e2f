#include "daemon/stream/upkeep.hpp"

#include <algorithm>

#include "daemon/stream/frames.hpp"

namespace sessiond::stream {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds longest_tick{1000};
constexpr milliseconds shortest_tick{20};
constexpr std::chrono::seconds token_check_interval{1};
constexpr std::chrono::seconds linger_time{2};  // for the client to close, once everything is sent
constexpr std::chrono::seconds page_time{1};    // a blocked client keeps its pages so long, then reads them again

bool same_scope(const auth::Principal& a, const auth::Principal& b) {
  return a.role == b.role && a.agents == b.agents && a.key_prefix == b.key_prefix && a.channel == b.channel &&
         a.key == b.key && a.permissions == b.permissions;
}

}  // namespace

std::string position_update(const HubState& hub, StreamClient& client) {
  const std::uint64_t reached = client.cursor.reached();
  if (reached <= client.cursor.last_id_sent()) return {};
  client.cursor.id_sent(reached);
  return frames::position(hub.id(reached));
}

void Upkeep::check_tokens_if_changed() {
  if (hub_.context.token_generation() != generation_) check_tokens();
}

void Upkeep::check_tokens() {
  generation_ = hub_.context.token_generation();
  checked_ = StreamClient::Clock::now();
  for (const auto& [key, audience] : clients_.audiences().by_view()) {
    const auto principal = hub_.context.again(audience->view->principal);
    if (principal && same_scope(*principal, audience->view->principal)) continue;
    // A client whose token has another scope now reconnects, and continues where it was.
    const std::string_view reason = principal ? "token_changed" : "token";
    for (const auto& client : clients_.all()) {
      if (client->audience == audience && client->close_reason.empty()) clients_.begin_closing(*client, reason);
    }
  }
}

void Upkeep::watch(const StreamClient& client) {
  const std::int64_t heartbeat_ms = client.subscription.options.heartbeat_ms;
  const bool first = clients_.all().size() == 1;
  shortest_heartbeat_ms_ = first ? heartbeat_ms : std::min(shortest_heartbeat_ms_, heartbeat_ms);
  arm();
}

void Upkeep::arm() {
  const auto period = std::clamp<StreamClient::Clock::duration>(
      milliseconds(std::min(shortest_heartbeat_ms_, hub_.settings.stall_timeout_ms) / 4), shortest_tick, longest_tick);
  const auto at = StreamClient::Clock::now() + period;
  if (armed_ && timer_.expiry() <= at) return;
  armed_ = true;
  timer_.expires_at(at);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    armed_ = false;
    tick();
  });
}

void Upkeep::tick() {
  const auto now = StreamClient::Clock::now();
  if (now >= checked_ + token_check_interval) check_tokens();
  const auto& all = clients_.all();
  for (std::size_t left = all.size(); left > 0; --left) {  // backwards: the last client takes the index of one removed
    if (left <= all.size()) tick(*all[left - 1], now);
  }
  if (!all.empty()) arm();
}

void Upkeep::tick(StreamClient& client, StreamClient::Clock::time_point now) {
  switch (client.state) {
    case StreamClient::State::closing:
      if (now >= client.last_progress + linger_time) clients_.remove(client, client.close_reason);
      return;
    case StreamClient::State::blocked:
      if (now >= client.last_progress + page_time) client.pages = {};
      if (now < client.last_progress + milliseconds(hub_.settings.stall_timeout_ms)) return;
      ++hub_.counters.stalled;
      return clients_.remove(client, "stalled");
    case StreamClient::State::live: {
      const StreamOptions& options = client.subscription.options;
      if (now < client.last_write + milliseconds(options.heartbeat_ms)) return;
      const std::string text = frames::ping(options.ping_event) + position_update(hub_, client);
      if (const auto sent = client.say(text, now); sent != StreamClient::Sent::all) clients_.after_send(client, sent);
      return;
    }
    default:
      return;
  }
}

}  // namespace sessiond::stream
