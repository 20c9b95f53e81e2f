// The members of an entry that the API shows, prepared for many readings.
//
// Lists show an entry far more often than it changes. So what depends on the entry alone is found once: legacy names
// are replaced (delivery::legacy_view, sdk_session.hpp), and so is a usageTotals that is no sum (policy/usage.hpp),
// bytes that are not UTF-8 become U+FFFD, and the stretches of the text are noted that are shown as they are. Showing
// an entry then copies one to three stretches. On disk the entry stays as it is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/sessions/sessions_file.hpp"

namespace sessiond::decide {

class ShownEntry {
 public:
  // `sdk_session_id`: the id that is shown as sdkSessionId if the entry has none; "" for none.
  ShownEntry(const sessions::RawEntry& entry, std::string_view sdk_session_id);

  // Both append members, each with a comma before it. `snapshots`: also those of policy/snapshots.hpp.
  // Left out are the members that the daemon shows itself (key, agent, rev, sessionId, createdAt, updatedAt), and
  // previousSessions.
  void append_all(std::string& out, bool snapshots) const;
  void append_named(std::string& out, const std::vector<std::string>& sorted_names, bool snapshots) const;

  std::size_t size() const { return text_->size(); }
  bool has_paths() const { return has_paths_; }  // a member of this name, which the API gives to operators

 private:
  // Neighbouring members, without the comma before the first. A view into text_.
  struct Stretch {
    std::string_view members;
    bool snapshots;  // of those two members; else of others
  };

  sessions::RawEntry text_;  // the entry itself, if nothing is to be replaced
  std::vector<Stretch> stretches_{};
  bool has_paths_ = false;
};

}  // namespace sessiond::decide
