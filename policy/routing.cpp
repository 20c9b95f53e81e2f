#include "policy/routing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "store/names.hpp"
#include "store/utf8.hpp"

namespace sessiond::policy {
namespace {

// Words that have a meaning in keys: a channel or account with such a name would make a key that means something else.
bool is_key_word(std::string_view text) {
  static constexpr std::array<std::string_view, 16> words{
      "agent", "main",     "direct", "dm",   "group",    "channel",   "thread",    "topic",
      "cron",  "subagent", "acp",    "hook", "explicit", "heartbeat", "dashboard", "openai-user"};
  return std::ranges::find(words, text) != words.end();
}

// Checks a channel or an account, which becomes one segment of a key.
std::optional<std::string> segment_fault(std::string_view text, std::size_t limit) {
  if (text.size() > limit) return fmt::format("has at most {} bytes", limit);
  const bool plain = std::ranges::all_of(text, [](unsigned char c) { return c > 0x20 && c != 0x7F && c != ':'; });
  if (!plain || store::invalid_utf8(text)) return "must be text without spaces, colons and control characters";
  if (is_key_word(store::lower_key(text))) return fmt::format("\"{}\" is a reserved word of session keys", text);
  return std::nullopt;
}

std::optional<std::string> id_fault(std::string_view text) {
  const bool plain = std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7F; });
  if (!plain || store::invalid_utf8(text)) return "must be UTF-8 without control characters";
  return std::nullopt;
}

// The address of an inbound message, normalised.
struct Address {
  std::string agent;
  std::string channel;
  std::string account;
  std::string chat_type;
  std::string_view peer;
  std::string_view thread;
};

Address normalize(const RouteSettings& settings, const RouteInput& input, std::vector<Fault>& faults) {
  Address out;
  const auto fault = [&faults](std::string_view pointer, std::string detail) {
    faults.push_back({std::string(pointer), std::move(detail)});
  };
  if (auto agent = store::normalize_agent_id(input.agent)) {
    out.agent = std::move(*agent);
  } else {
    fault("/agent", "is not a valid agent id");
  }
  out.channel = store::lower(store::trim(input.channel));
  if (out.channel.empty()) {
    fault("/channel", "must not be empty");
  } else if (auto why = segment_fault(out.channel, 64)) {
    fault("/channel", std::move(*why));
  }
  out.chat_type = store::lower(store::trim(input.chat_type));
  if (out.chat_type == "dm") out.chat_type = "direct";
  if (out.chat_type != "direct" && out.chat_type != "group" && out.chat_type != "channel") {
    fault("/chatType", "must be \"direct\", \"group\" or \"channel\"");
  }
  out.peer = store::trim(input.peer);
  if (out.peer.empty()) {
    fault("/peer", "must not be empty");
  } else if (auto why = id_fault(out.peer)) {
    fault("/peer", std::move(*why));
  }
  out.thread = store::trim(input.thread_id);
  if (auto why = id_fault(out.thread)) fault("/threadId", std::move(*why));
  out.account = store::lower(store::trim(input.account_id));
  if (out.account.empty()) out.account = "default";
  // An account that does not become part of the key may have any name.
  const bool in_key = settings.dm_scope == DmScope::per_account_channel_peer && out.chat_type == "direct";
  if (auto why = in_key ? segment_fault(out.account, 128) : id_fault(out.account)) fault("/accountId", std::move(*why));
  return out;
}

// Returns the name of the person that the settings link to this peer, or the peer itself.
std::string linked_peer(const RouteSettings& settings, const Address& address) {
  if (settings.identity_links.empty()) return std::string(address.peer);
  const std::string wanted = store::lower_key(fmt::format("{}:{}", address.channel, address.peer));
  for (const auto& [person, peers] : settings.identity_links) {
    const bool linked = std::ranges::any_of(
        peers, [&](std::string_view peer) { return store::lower_key(store::trim(peer)) == wanted; });
    if (linked && !store::trim(person).empty()) return std::string(store::trim(person));
  }
  return std::string(address.peer);
}

std::string base_key(const RouteSettings& settings, const Address& address) {
  if (address.chat_type != "direct") return (address.channel + ':' + address.chat_type + ':').append(address.peer);
  switch (settings.dm_scope) {
    case DmScope::main:
      break;
    case DmScope::per_peer:
      return "direct:" + linked_peer(settings, address);
    case DmScope::per_channel_peer:
      return address.channel + ":direct:" + linked_peer(settings, address);
    case DmScope::per_account_channel_peer:
      return address.channel + ':' + address.account + ":direct:" + linked_peer(settings, address);
  }
  const std::string_view main_key = store::trim(settings.main_key);
  return std::string(main_key.empty() ? std::string_view("main") : main_key);
}

bool has_topics(const RouteSettings& settings, std::string_view channel) {
  return std::ranges::find(settings.topic_channels, channel) != settings.topic_channels.end();
}

}  // namespace

bool is_thread(const RouteSettings& settings, std::string_view channel, std::string_view key) {
  const store::KeyParts parts = store::parse_key(key);
  return !parts.thread.empty() || (!parts.topic.empty() && has_topics(settings, channel));
}

Result<Route> route(const RouteSettings& settings, const RouteInput& input) {
  std::vector<Fault> faults;
  const Address address = normalize(settings, input, faults);
  if (!faults.empty()) return fail_with(std::move(faults));
  const std::string prefix = "agent:" + address.agent + ':';
  std::string rest = base_key(settings, address);
  std::string thread_key;
  bool thread = false;
  if (settings.threads == ThreadScope::session && !address.thread.empty()) {
    // A bridge may put a topic into the peer ("-100…:topic:42") and also pass its id as the thread: both are the same
    // thread, which the key names once.
    const store::KeyParts parts = store::parse_key(rest);
    const std::string wanted = store::lower_key(address.thread);
    const bool named = store::lower_key(parts.thread) == wanted || store::lower_key(parts.topic) == wanted;
    // The id of a topic is part of a file's name, so it may not be long.
    const bool is_topic = address.chat_type == "group" && parts.topic.empty() &&
                          has_topics(settings, address.channel) && store::check_topic(address.thread);
    if (!named && is_topic) {
      thread_key =
          store::canonical_key((prefix + rest + ":thread:").append(address.thread), address.agent).value_or("");
      rest.append(":topic:").append(address.thread);
    } else if (!named) {
      rest.append(":thread:").append(address.thread);
    }
    thread = true;
  }
  if (settings.threads == ThreadScope::session) thread = thread || is_thread(settings, address.channel, rest);
  // The prefix is added here, so that a peer or main key that begins with "agent:" cannot name another agent.
  Result<std::string> key = store::canonical_key(prefix + rest, address.agent);
  if (!key) return fail_at("/peer", std::move(key.error().detail));
  return Route{.agent = address.agent,
               .key = std::move(*key),
               .thread_key = std::move(thread_key),
               .channel = address.channel,
               .chat_type = address.chat_type,
               .peer = std::string(address.peer),
               .thread = thread};
}

}  // namespace sessiond::policy
