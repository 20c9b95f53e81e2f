// Snapshots of sessions (policy/snapshots.hpp): stored once by their hash in a store of its own, and shown. Thread: the
// loop; blobs are written and read on disk threads.
#pragma once

#include "daemon/api/media.hpp"
#include "policy/snapshots.hpp"

namespace sessiond::api {

inline bool stores_snapshots(const Api& api) { return api.config.store.mode == config::Config::StoreMode::own; }
// A first look: whether a snapshot of the edit goes into a blob.
inline bool may_store_snapshots(const Api& api, const json::Edit& edit) {
  return stores_snapshots(api) && policy::may_hold_snapshot(edit);
}
// Stores the snapshots that an edit sets, and puts handles in their places. Call it behind the scan for secrets.
// Errors: those of BlobStore::put.
asio::awaitable<Result<Pins>> store_snapshots(Api& api, json::Edit& edit);
// The same for a merge patch, unless it is about a session in memory. Measures a patch that is not short.
asio::awaitable<Result<Pins>> store_snapshots(Api& api, const std::string& agent, decide::PatchSession& command);

// Shows the snapshots of an answer that is a session, or a list of sessions: up to limits::media_page_bytes, handles
// stay behind that. The handle of a blob that cannot be read stays, with "unavailable":true.
asio::awaitable<void> show_snapshots(Api& api, http::Response& response, bool is_list);
// The same of an entry, without a limit. Blocks.
std::string whole_entry(const Api& api, std::string entry);

}  // namespace sessiond::api
