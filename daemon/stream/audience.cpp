#include "daemon/stream/audience.hpp"

#include <cassert>

namespace sessiond::stream {
namespace {

std::string key_of(const StreamView& view) {
  const auth::Principal& who = view.principal;
  std::string key = who.id;
  key.append({'\0', static_cast<char>(who.role), '\0'});
  for (const std::string& agent : who.agents) key.append(agent).append(1, ',');
  for (const std::string& part : {who.key_prefix, who.channel, who.key, view.scope.agent, view.scope.key})
    key.append(1, '\0').append(part);
  return key.append(1, '\0')
      .append(std::to_string(view.scope.after))
      .append(1, '\0')
      .append(view.filter.json(view.scope));
}

}  // namespace

void Audience::join(StreamClient& client) {
  client.cursor.follow(reached_);
  client.audience_index = live_.size();
  live_.push_back(&client);
  ++live_count_;
}

void Audience::leave(StreamClient& client) {
  assert(live_.at(client.audience_index) == &client);
  client.cursor.unfollow();
  --live_count_;
  if (being_served_) {
    live_[client.audience_index] = nullptr;
    return;
  }
  live_[client.audience_index] = live_.back();
  live_[client.audience_index]->audience_index = client.audience_index;
  live_.pop_back();
}

void Audience::begin_serving() {
  assert(!being_served_);
  being_served_ = true;
}

void Audience::end_serving(std::uint64_t reached) {
  assert(being_served_ && reached >= reached_);
  being_served_ = false;
  reached_ = reached;
  std::erase(live_, nullptr);
  for (std::size_t index = 0; index < live_.size(); ++index) live_[index]->audience_index = index;
}

void Audience::skip_to(std::uint64_t head) {
  assert(nobody_live() && !being_served_ && head >= reached_);
  reached_ = head;
}

std::shared_ptr<Audience> Audiences::add_client(const std::shared_ptr<const StreamView>& view) {
  auto& audience = by_view_[key_of(*view)];
  if (!audience) audience = std::make_shared<Audience>(view);
  ++audience->clients;
  return audience;
}

void Audiences::remove_client(Audience& audience) {
  if (--audience.clients == 0) by_view_.erase(key_of(*audience.view));
}

}  // namespace sessiond::stream
