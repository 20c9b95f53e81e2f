// Which session a message from outside belongs to: the key made of agent, channel, account, peer and thread (FORMATS
// §5, API §5). validation_failed with the pointer of every fault in the inbound body (/channel, /peer, …).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond {

enum class DmScope : std::uint8_t { main, per_peer, per_channel_peer, per_account_channel_peer };
enum class ThreadScope : std::uint8_t {
  session,  // a thread is a session of its own
  inherit,  // a thread's messages go to the session of its chat
};

struct RouteSettings {
  DmScope dm_scope = DmScope::per_channel_peer;
  std::map<std::string, std::vector<std::string>>
      identity_links{};  // one person's name -> "channel:peer", …; case does not matter
  std::string main_key = "main";
  ThreadScope threads = ThreadScope::session;
};

struct RouteInput {
  std::string_view agent{};
  std::string_view channel{};
  std::string_view account_id{};  // empty: none given
  std::string_view chat_type{};   // direct (or dm), group, channel
  std::string_view peer{};        // the user of a direct message, else the group's or channel's id
  std::string_view thread_id{};   // empty: none given; a number as its text
};

struct Route {
  std::string agent{};
  std::string key{};
  std::string channel{};    // trimmed, lower-case
  std::string chat_type{};  // direct, group, channel
  std::string peer{};       // trimmed, else as given: where to deliver to
  bool thread = false;      // the key is that of a thread
};

Result<Route> route(const RouteSettings& settings, const RouteInput& input);

}  // namespace sessiond
