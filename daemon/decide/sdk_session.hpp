// The session of the Claude Agent SDK that an entry is mapped to. The field is sdkSessionId. Where an entry has none,
// the ids count that earlier versions of OpenClaw wrote: claudeCliSessionId, then cliSessionIds["claude-cli"], then the
// only value of cliSessionIds. A null counts as absent; a value that is no string, or is empty, is no id. The daemon
// never writes the earlier fields by itself.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace sessiond::decide {

inline constexpr std::array<std::string_view, 3> sdk_session_fields{"sdkSessionId", "claudeCliSessionId",
                                                                    "cliSessionIds"};

// Finds the id while the members of an entry are gone through. The values must outlive it.
class SdkSessionId {
 public:
  // Takes a member of the entry, as raw JSON. False if the id does not depend on it.
  bool take(std::string_view name, std::string_view value);
  std::string id() const;  // "" if there is none

 private:
  std::array<std::string_view, 3> values_{"null", "null", "null"};  // of sdk_session_fields
};

std::string sdk_session_id(std::string_view entry);  // a JSON object

}  // namespace sessiond::decide
