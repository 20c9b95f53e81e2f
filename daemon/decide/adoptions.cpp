#include "daemon/decide/adoptions.hpp"

#include <algorithm>

#include "store/json/raw_json.hpp"
#include "store/names.hpp"

namespace sessiond::decide {

bool Adoption::covers(std::string_view agent, std::string_view key, std::string_view of_channel,
                      std::string_view of_account) const {
  return (agents.empty() || std::ranges::find(agents, agent) != agents.end()) &&
         (channel.empty() || store::equals_nocase(channel, of_channel)) && (!account_id || *account_id == of_account) &&
         store::key_has_prefix(key, key_prefix);
}

bool Adoption::is_same_part(const Adoption& other) const {
  return token == other.token && agents == other.agents && channel == other.channel && account_id == other.account_id &&
         key_prefix == other.key_prefix;
}

bool Adoptions::covers(std::string_view agent, std::string_view key, std::string_view channel,
                       std::string_view account) const {
  return std::ranges::any_of(kept_,
                             [&](const Kept& kept) { return kept.adoption.covers(agent, key, channel, account); });
}

bool Adoptions::renew(Adoption adoption, std::int64_t stale_ms) {
  const auto known =
      std::ranges::find_if(kept_, [&](const Kept& kept) { return kept.adoption.is_same_part(adoption); });
  if (known == kept_.end()) {
    std::vector<std::size_t> of_token;
    for (std::size_t i = 0; i < kept_.size(); ++i)
      if (kept_[i].adoption.token == adoption.token) of_token.push_back(i);
    if (of_token.size() >= most_of_token)
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(*std::ranges::min_element(
                                      of_token, {}, [this](std::size_t i) { return kept_[i].adoption.claimed_at; })));
    const std::int64_t now = adoption.claimed_at;
    kept_.push_back({.adoption = std::move(adoption), .stored_at = now});
    return true;
  }
  known->adoption.claimed_at = std::max(known->adoption.claimed_at, adoption.claimed_at);
  if (known->adoption.claimed_at - known->stored_at < stale_ms) return false;
  for (Kept& kept : kept_) kept.stored_at = kept.adoption.claimed_at;
  return true;
}

void Adoptions::mark_unstored(const Adoption& adoption) {
  for (Kept& kept : kept_)
    if (kept.adoption.is_same_part(adoption)) kept.stored_at = 0;
}

bool Adoptions::drop_older(std::int64_t time) {
  return std::erase_if(kept_, [time](const Kept& kept) { return kept.adoption.claimed_at < time; }) != 0;
}

bool Adoptions::drop_token(std::string_view token) {
  return std::erase_if(kept_, [token](const Kept& kept) { return kept.adoption.token == token; }) != 0;
}

std::int64_t Adoptions::newest() const {
  std::int64_t newest = 0;
  for (const Kept& kept : kept_) newest = std::max(newest, kept.adoption.claimed_at);
  return newest;
}

std::string Adoptions::to_json() const {
  std::string text = "{\"adoptions\":[";
  for (const auto& [adoption, stored_at] : kept_) {
    json::ObjectWriter out;
    out.string("token", adoption.token);
    out.raw("agents", json::array_of(adoption.agents));
    out.string("channel", adoption.channel);
    out.string_or_null("accountId", adoption.account_id);
    out.string("keyPrefix", adoption.key_prefix);
    out.integer("claimedAt", adoption.claimed_at);
    if (text.back() != '[') text += ',';
    text += out.text();
  }
  return text + "]}";
}

Result<Adoptions> Adoptions::from_json(std::string_view text) {
  const auto list = json::find(text, "adoptions");
  if (!list || json::kind(*list) != json::Kind::array) return fail(Code::degraded, "it has no adoptions");
  Adoptions out;
  for (const std::string_view each : json::elements(*list)) {
    Adoption adoption{.token = json::string_at(each, "token").value_or(""),
                      .channel = json::string_at(each, "channel").value_or(""),
                      .account_id = json::string_at(each, "accountId"),
                      .key_prefix = json::string_at(each, "keyPrefix").value_or(""),
                      .claimed_at = json::int_at(each, "claimedAt").value_or(0)};
    for (const std::string_view agent : json::elements(json::find(each, "agents").value_or("[]")))
      adoption.agents.push_back(json::as_string(agent).value_or(""));
    out.kept_.push_back({.adoption = adoption, .stored_at = adoption.claimed_at});
  }
  return out;
}

}  // namespace sessiond::decide
