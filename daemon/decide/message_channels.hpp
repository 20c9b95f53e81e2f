// The channels whose messages reached a session. One that several reached (session.dmScope, identityLinks) is seen by
// no token that is limited to a channel, whoever spoke last: it would see the words of others.
//
// The entry's member `channels` names them, and the daemon keeps it, over resets too. It is left out where
// origin.provider and lastChannel say the same, so that most entries, and those of other programs, have none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/json/raw_json.hpp"

namespace sessiond::decide {

class Session;

class MessageChannels {
 public:
  void take_origin(std::string_view origin);
  void take_named(std::string_view channels);
  // Returns the channels, each once and in lower case. `channel`: of a session whose origin and last channel are
  // unknown.
  std::vector<std::string> list(std::string_view last_channel, std::string_view channel) const;
  const std::vector<std::string>& named() const { return named_; }
  // Returns their names with spaces between; "" unless they are several.
  static std::string text_of(const std::vector<std::string>& channels);
  // Returns the names in such a text.
  static std::vector<std::string> names_in(std::string_view text);

 private:
  std::string origin_;
  std::vector<std::string> named_;  // empty: none is named
};

// Returns the channels whose messages reached a session.
std::vector<std::string> channels_of(const Session& session);
// The same by the members of its entry, and the channel that the daemon knows of it.
std::vector<std::string> channels_of(const json::Index& entry, std::string_view channel);
// Returns whether messages of the channel are among those of several that reached it.
bool is_reached_by(const Session& session, std::string_view channel);
// Lets an edit of a session's entry forget no channel: adds `channels` to it where that is needed. What this daemon
// changes in the other members says nothing of messages (an operator may send replies elsewhere). What another program
// changed does: there it keeps the channel of the message that came last.
void keep_channels(const Session& session, json::Edit& edit, bool foreign);

}  // namespace sessiond::decide
