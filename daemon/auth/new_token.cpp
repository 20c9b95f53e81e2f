#include "daemon/auth/new_token.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "store/json/raw_json.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/time_range.hpp"

namespace sessiond::auth {
namespace {

constexpr std::size_t max_text = 512;  // bytes, as of a session key

using Faults = std::vector<Fault>;

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

void check_text(std::string_view text, std::string_view pointer, Faults& faults) {
  if (text.size() > max_text) faults.push_back({std::string(pointer), fmt::format("longer than {} bytes", max_text)});
  if (has_control(text)) faults.push_back({std::string(pointer), "holds a control character"});
}

// A token of role session has one agent and a key of it, and no other limits; no other token has a key.
void check_session(const NewToken& asked, TokenInfo& info, Faults& faults) {
  if (info.role != Role::session) {
    if (!asked.key.empty()) faults.push_back({"/key", "is for role session only; others take keyPrefix"});
    return;
  }
  if (asked.agents.size() != 1) faults.push_back({"/agents", "role session needs one agent"});
  if (!asked.key_prefix.empty()) faults.push_back({"/keyPrefix", "is not for role session"});
  if (!asked.channel.empty()) faults.push_back({"/channel", "is not for role session"});
  if (asked.key.empty()) faults.push_back({"/key", "role session needs the key of its session"});
  if (asked.key.empty() || info.agents.size() != 1) return;
  if (auto key = store::canonical_key(asked.key, info.agents.front())) {
    info.key = std::move(*key);
  } else {
    faults.push_back({"/key", key.error().detail});
  }
}

TokenInfo check(const NewToken& asked, std::int64_t now, Faults& faults) {
  TokenInfo info{.key_prefix = asked.key_prefix,
                 .channel = store::lower(store::trim(asked.channel)),
                 .note = asked.note,
                 .created_at = now,
                 .expires_at = asked.expires_at};
  if (const auto known = role(asked.role)) {
    info.role = *known;
  } else {
    faults.push_back({"/role", "must be one of admin, operator, bridge, runner, viewer, metrics, session"});
  }
  for (std::size_t i = 0; i < asked.agents.size(); ++i) {
    const std::string& agent = asked.agents[i];
    if (!store::valid_agent_id(agent)) {
      faults.push_back({fmt::format("/agents/{}", i), "is not a valid agent id ([a-z0-9][a-z0-9_-]{0,63})"});
    } else if (std::ranges::find(info.agents, agent) == info.agents.end()) {
      info.agents.push_back(agent);
    }
  }
  for (std::size_t i = 0; i < asked.permissions.size(); ++i) {
    const std::string& permission = asked.permissions[i];
    if (!can_be_given(permission)) {
      faults.push_back({fmt::format("/permissions/{}", i), "must be approve or hook"});
    } else if (std::ranges::find(info.permissions, permission) == info.permissions.end()) {
      info.permissions.push_back(permission);
    }
  }
  std::ranges::sort(info.permissions);
  check_text(asked.key_prefix, "/keyPrefix", faults);
  check_text(asked.channel, "/channel", faults);
  check_text(asked.key, "/key", faults);
  check_text(asked.note, "/note", faults);
  if (role(asked.role)) check_session(asked, info, faults);
  // "  " would be trimmed to "", which is no limit.
  if (info.channel.empty() && !asked.channel.empty()) faults.push_back({"/channel", "is blank"});
  if (asked.expires_at && *asked.expires_at <= now) faults.push_back({"/expiresAt", "must lie in the future"});
  if (asked.expires_at && *asked.expires_at > store::last_time_ms)
    faults.push_back({"/expiresAt", "lies after the year 9999"});
  return info;
}

// An empty limit would be no limit. It is refused, so that a token never gets more rights than were asked for.
void read_limit(const json::Member& member, std::string& text, Faults& faults) {
  const std::string pointer = "/" + json::unescape(member.name);
  auto read = json::as_string(member.value);
  if (!read) {
    faults.push_back({pointer, "must be a string"});
  } else if (read->empty()) {
    faults.push_back({pointer, "is empty; leave it out for no limit"});
  } else {
    text = std::move(*read);
  }
}

void read_agents(std::string_view value, std::vector<std::string>& agents, Faults& faults) {
  if (json::kind(value) != json::Kind::array) {
    faults.push_back({"/agents", "must be an array of agent ids"});
    return;
  }
  std::size_t i = 0;
  for (const std::string_view element : json::elements(value)) {
    if (i == limits::token_agents) {
      faults.push_back({"/agents", fmt::format("names more than {} agents", limits::token_agents)});
      return;
    }
    auto agent = json::as_string(element);
    if (!agent) faults.push_back({fmt::format("/agents/{}", i), "must be a string"});
    // A placeholder keeps the indices of later faults right.
    agents.push_back(agent ? std::move(*agent) : "0");
    ++i;
  }
  if (i == 0) faults.push_back({"/agents", "is empty; leave it out for all agents"});
}

void read_permissions(std::string_view value, std::vector<std::string>& permissions, Faults& faults) {
  if (json::kind(value) != json::Kind::array) {
    faults.push_back({"/permissions", "must be an array"});
    return;
  }
  for (const std::string_view element : json::elements(value)) {
    if (permissions.size() == limits::faults) return;
    permissions.push_back(json::as_string(element).value_or(""));
  }
}

void read_member(const json::Member& member, NewToken& asked, Faults& faults) {
  const std::string name = json::unescape(member.name);
  const bool absent = json::kind(member.value) == json::Kind::null;
  if (name == "role") {
    if (auto text = json::as_string(member.value)) asked.role = std::move(*text);
  } else if (name == "agents") {
    if (!absent) read_agents(member.value, asked.agents, faults);
  } else if (name == "keyPrefix") {
    if (!absent) read_limit(member, asked.key_prefix, faults);
  } else if (name == "channel") {
    if (!absent) read_limit(member, asked.channel, faults);
  } else if (name == "key") {
    if (!absent) read_limit(member, asked.key, faults);
  } else if (name == "note") {
    if (auto text = json::as_string(member.value))
      asked.note = std::move(*text);
    else if (!absent)
      faults.push_back({"/note", "must be a string"});
  } else if (name == "permissions") {
    if (!absent) read_permissions(member.value, asked.permissions, faults);
  } else if (name == "expiresAt") {
    asked.expires_at = json::as_int(member.value);
    if (!absent && !asked.expires_at) faults.push_back({"/expiresAt", "must be ms since the epoch"});
  } else {
    faults.push_back({"/" + name, "is not a member of a token"});
  }
}

}  // namespace

Result<NewToken> parse_new_token(std::string_view body, std::int64_t now) {
  if (const auto sound = json::check(body, {.unique_names = true, .utf8 = true}); !sound)
    return fail(Code::bad_request, fmt::format("offset {}: {}", sound.error().offset, sound.error().detail));
  body = store::trim(body);
  if (json::kind(body) != json::Kind::object) return fail(Code::bad_request, "the body must be a JSON object");
  NewToken asked;
  Faults faults;
  for (const json::Member member : json::members(body)) read_member(member, asked, faults);
  check(asked, now, faults);
  if (!faults.empty()) return fail_with(std::move(faults));
  return asked;
}

Result<TokenInfo> check_new_token(const NewToken& asked, std::int64_t now) {
  Faults faults;
  TokenInfo info = check(asked, now, faults);
  if (!faults.empty()) return fail_with(std::move(faults));
  return info;
}

}  // namespace sessiond::auth
