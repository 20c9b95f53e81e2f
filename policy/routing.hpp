// Finds the session that an inbound message belongs to: makes its key of agent, channel, account, peer and thread.
// Fails with validation_failed and the pointer of every fault in the inbound body (/channel, /peer, …).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::policy {

enum class DmScope : std::uint8_t { main, per_peer, per_channel_peer, per_account_channel_peer };
enum class ThreadScope : std::uint8_t {
  session,  // a thread is a session of its own
  inherit,  // messages in a thread belong to the session of the chat
};

struct RouteSettings {
  DmScope dm_scope = DmScope::per_channel_peer;
  std::map<std::string, std::vector<std::string>>
      identity_links{};  // name of a person -> their "channel:peer"s; compared without case
  std::string main_key = "main";
  ThreadScope threads = ThreadScope::session;
  std::vector<std::string> topic_channels{};  // a thread of their groups is a topic: ":topic:<id>", not ":thread:<id>"
};

struct RouteInput {
  std::string_view agent{};
  std::string_view channel{};
  std::string_view account_id{};  // empty: none
  std::string_view chat_type{};   // direct (or dm), group, channel
  std::string_view peer{};        // the user of a direct message, else the group's or channel's id
  std::string_view thread_id{};   // empty: none; a number in decimal
};

struct Route {
  std::string agent{};
  std::string key{};
  std::string thread_key{};  // of a topic: with ":thread:<id>". A session that has it stays the topic's. Or empty
  std::string channel{};     // trimmed, lower-case
  std::string chat_type{};   // direct, group, channel
  std::string peer{};        // trimmed, otherwise as given: where replies are delivered to
  bool thread = false;       // the session is a thread's
};

// Whether a session is a thread's, or a topic's on a channel whose topics are threads.
bool is_thread(const RouteSettings& settings, std::string_view channel, std::string_view key);

Result<Route> route(const RouteSettings& settings, const RouteInput& input);

}  // namespace sessiond::policy
