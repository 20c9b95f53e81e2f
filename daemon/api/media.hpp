// Media of requests and replies. What comes in large goes into a blob, on disk before the request's command is made,
// and the body has a handle in its place (transcripts.durableContent; policy/media.hpp has the forms):
//   on("POST", one + "/messages", auth::Permission::append, scanned<lasting<post>>, {"topic"});
// Handles that a client wrote are looked for in every body: one is taken only when the client's token sees a session
// that names the blob already. Thread: the loop; blobs are written and read on disk threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/api/handler.hpp"
#include "policy/media.hpp"
#include "policy/signatures.hpp"
#include "store/blobs/blob_store.hpp"

namespace sessiond::api {

using Pins = std::vector<blobs::BlobStore::Pin>;  // keeps the blobs of a request until it is answered

// Whether the token sees a session, or an archive, that names the blob. starting: the names are not read yet.
asio::awaitable<Result<bool>> sees_blob(Api& api, const http::Request& request, const std::string& hash);

// Keeps the blobs of handles that a client wrote. validation_failed, with the pointers of those that name a blob which
// no session names that the token sees.
asio::awaitable<Result<Pins>> accept_handles(Api& api, const http::Request& request,
                                             std::vector<policy::WrittenHandle> handles);

// A first look, without cost for bodies that are short: whether something of it is not stored as it came.
inline bool may_change(config::Config::DurableContent content, std::string_view json) {
  using Content = config::Config::DurableContent;
  if (content == Content::off) return false;
  return policy::may_hold_media(json) || (content == Content::full && policy::may_hold_signature(json));
}
inline bool may_change(const Api& api, std::string_view json) { return may_change(api.config.durable_content(), json); }
// Stores the media of a JSON value, and puts handles in their place. Errors: those of BlobStore::put.
asio::awaitable<Result<Pins>> store_media(Api& api, std::string& json);
// The settings of it: a copy, since SIGHUP changes those of the loop.
struct MediaSettings {
  config::Config::DurableContent content;
  std::uint64_t most_bytes;  // of a blob
};
inline MediaSettings media_settings(const Api& api) {
  return {.content = api.config.durable_content(), .most_bytes = api.config.content.blobs.max_bytes};
}
// Does the same on a disk thread. Blocks. Puts contents that lost their signatures into `stripped`.
Result<Pins> store_media_now(const Api& api, MediaSettings settings, std::string& json,
                             std::vector<policy::StrippedContent>* stripped = nullptr);
struct StoredMedia {
  Pins pins{};
  std::vector<policy::StrippedContent> stripped{};  // contents that lost their signatures
};
// Does the same for the body of a request about one session.
asio::awaitable<Result<StoredMedia>> store_media_of(Api& api, http::Request& request);
// Keeps contents with their signatures for the session's active run (run_signatures.hpp). Call it only when the request
// was accepted: a token that may not see the session must not place any.
void keep_signatures(Api& api, const http::Request& request, StoredMedia stored);

asio::awaitable<Result<http::Response>> with_stored_media(Api& api, http::Request& request,
                                                          HandlerResult (*call)(Api&, http::Request&));
// A handler of a route below a session whose body brings messages. Ephemeral sessions keep media as they are.
template <HandlerResult (*call)(Api&, http::Request&)>
HandlerResult lasting(Api& api, http::Request& request) {
  if (!may_change(api, request.body)) return call(api, request);
  return with_stored_media(api, request, call);
}

// ?media=handle|inline|url
Result<policy::MediaAs> media_of(const http::Request& request);
struct ShownMedia {
  std::string json{};
  bool whole = true;  // false: there were more than limits::inline_bytes, and the handles behind them stayed
};
// Shows the media of an entry, a Message or a view. Blocks when `as` is not handle.
ShownMedia shown_media(const Api& api, std::string json, policy::MediaAs as);

}  // namespace sessiond::api
