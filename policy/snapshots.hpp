// Snapshots: fields of an entry that are large, and that many sessions have alike. In a store of its own the daemon
// keeps one of more than 1 KiB once, as a blob, and the entry has a handle in its place:
//   "skillsSnapshot":{"$blob":"<sha256 of the JSON>","bytes":43008}
// A handle names its blob when it begins with exactly these bytes (policy/media.hpp). A snapshot is replaced whole: a
// merge patch does not go into it. Pure functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/media.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::policy {

inline constexpr std::size_t small_snapshot_bytes = 1 << 10;  // up to so many bytes of JSON stay in the entry

bool is_snapshot(std::string_view field);
std::string snapshot_fields();  // their names, for errors

// A first look, and the step itself: handles in the place of all snapshots that are too large for an entry. One that
// the rules of entries refuse stays, so that it is refused.
bool may_hold_snapshot(const json::Edit& edit);
std::vector<Media> take_snapshots(json::Edit& edit, HashOf hash_of);

// The hash in the handle of a snapshot; "": the value is the snapshot itself.
std::string snapshot_hash(std::string_view value);
// The version of a snapshot, for ETag: the hash of its JSON.
std::string snapshot_tag(std::string_view value, HashOf hash_of);

// What a client demands of the snapshot that it replaces: If-Match.
struct SnapshotMatch {
  std::string field{};
  std::vector<std::string> tags{};  // accepted; "*": any, but it must be there; empty: any
  HashOf hash_of = nullptr;
};
// precondition_failed, with the present tag.
Result<void> check_snapshot(std::string_view entry, const SnapshotMatch& match);

// The JSON that is shown for a handle. Nothing: the handle stays.
using SnapshotOf = std::function<std::optional<std::string>(std::string_view handle, const std::string& sha256)>;
// Shows the snapshots of a session, {…}, or of a list of them, {"data":[{…},…],…}.
std::string with_snapshots(std::string session, const SnapshotOf& snapshot_of);
std::string list_with_snapshots(std::string list, const SnapshotOf& snapshot_of);

}  // namespace sessiond::policy
