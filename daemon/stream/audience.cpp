#include "daemon/stream/audience.hpp"

#include <algorithm>

namespace sessiond {
namespace {

std::string key_of(const StreamView& view) {
  const Principal& who = view.principal;
  std::string key = who.id;
  key.append({'\0', static_cast<char>(who.role), '\0'});
  for (const std::string& agent : who.agents) key.append(agent).append(1, ',');
  for (const std::string& part : {who.key_prefix, who.channel, view.scope.agent, view.scope.key})
    key.append(1, '\0').append(part);
  return key.append(1, '\0').append(view.filter.json(view.scope));
}

}  // namespace

void Audience::join(Reader& reader) {
  reader.state = Reader::State::live;
  reader.live_place = live.size();
  live.push_back(&reader);
  ++live_count_;
}

void Audience::leave(Reader& reader, bool in_round) {
  --live_count_;
  if (in_round) {
    live[reader.live_place] = nullptr;
    return;
  }
  live[reader.live_place] = live.back();
  live[reader.live_place]->live_place = reader.live_place;
  live.pop_back();
}

void Audience::settle() {
  std::erase(live, nullptr);
  for (std::size_t place = 0; place < live.size(); ++place) live[place]->live_place = place;
}

std::shared_ptr<Audience> Audiences::of(const std::shared_ptr<const StreamView>& view) {
  auto& audience = by_view_[key_of(*view)];
  if (!audience) audience = std::make_shared<Audience>(view);
  ++audience->readers;
  return audience;
}

void Audiences::left(const std::shared_ptr<Audience>& audience) {
  if (--audience->readers == 0) by_view_.erase(key_of(*audience->view));
}

std::vector<std::shared_ptr<Audience>> Audiences::all() const {
  std::vector<std::shared_ptr<Audience>> out;
  out.reserve(by_view_.size());
  for (const auto& [key, audience] : by_view_) out.push_back(audience);
  return out;
}

}  // namespace sessiond
