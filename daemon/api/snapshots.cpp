#include "daemon/api/snapshots.hpp"

#include <fmt/format.h>

#include <functional>
#include <map>

#include "daemon/api/secrets.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/utf8.hpp"

namespace sessiond::api {
namespace {

// Reads snapshots for one answer: each blob once. Blocks.
class SnapshotReader {
 public:
  SnapshotReader(const Api& api, std::size_t most) : api_(api), most_(most) {}
  std::optional<std::string> operator()(std::string_view handle, const std::string& hash) {
    auto at = read_.find(hash);
    if (at == read_.end()) {
      auto text = api_.blobs.store().read(hash);
      const bool is_json =
          text && json::check(*text, {.max_depth = json::foreign_depth});  // a client may name any blob
      at = read_.emplace(hash, is_json ? std::move(*text) : unavailable(handle)).first;
    }
    shown_ += at->second.size();
    if (shown_ > most_) return {};
    return at->second;
  }

 private:
  static std::string unavailable(std::string_view handle) {
    json::Edit edit;
    edit.put("unavailable", "true");
    return json::apply(handle, edit);
  }

  const Api& api_;
  std::size_t most_;
  std::size_t shown_ = 0;
  std::map<std::string, std::string> read_{};
};

Result<std::string> snapshot_param(const http::Request& request) {
  const std::string& name = request.params.at(2);
  if (policy::is_snapshot(name)) return name;
  return fail(Code::not_found,
              fmt::format("there is no snapshot of this name; there are {}", policy::snapshot_fields()));
}

bool is_text(const http::Request& request) {
  return store::starts_with_nocase(store::trim(request.header("content-type")), "text/");
}

// The JSON of a body, which is JSON or text.
Result<std::string> value_of(http::Request& request, const Limits& limits) {
  if (is_text(request)) {
    if (store::invalid_utf8(request.body)) return fail(Code::bad_request, "the text is not UTF-8");
    return json::quote(request.body);
  }
  TRY(const std::string_view body, body_of(request, limits));
  if (body == "null") return fail_at("", "is null; DELETE removes a snapshot");
  return json::compact(body);
}

HandlerResult put_snapshot(Api& api, http::Request& request) {
  CO_TRY(const std::string name, snapshot_param(request));
  CO_TRY(auto path, session_path(request, api, Match::honoured));
  CO_TRY(std::string value,
         co_await off_the_loop(api, request, [&](const Limits& limits) { return value_of(request, limits); }));
  CO_TRY(co_await check_secrets(api, request, path.target.key, value));
  json::Edit edit;
  edit.put(name, std::move(value));
  decide::PatchSession command{
      .target = {.key = path.target.key},
      .patch = json::apply("{}", edit),
      .snapshot = {.field = name, .tags = std::move(path.target.if_match), .hash_of = blobs::sha256_of}};
  CO_TRY(const Pins pins, co_await store_snapshots(api, path.agent, command));
  const std::string stored(json::find(command.patch, name).value_or("null"));
  CO_TRY(const auto done, co_await commit(api, request, path.agent, std::move(command)));
  const std::string tag = policy::snapshot_tag(stored, blobs::sha256_of);
  const bool is_handle = !policy::snapshot_hash(stored).empty();
  json::ObjectWriter out;
  out.string("name", name);
  out.string("sha256", tag);
  out.integer("bytes",
              is_handle ? json::int_at(stored, "bytes").value_or(0) : static_cast<std::int64_t>(stored.size()));
  if (const auto as_of = json::string_at(done.body.empty() ? "{}" : done.body, "asOf")) out.string("asOf", *as_of);
  http::Response response = json_response(out.text(), done.status);
  set_etag(response, tag);
  co_return response;
}

HandlerResult delete_snapshot(Api& api, http::Request& request) {
  CO_TRY(const std::string name, snapshot_param(request));
  CO_TRY(auto path, session_path(request, api, Match::honoured));
  decide::PatchSession command{
      .target = {.key = path.target.key},
      .patch = fmt::format(R"({{"{}":null}})", name),
      .snapshot = {.field = name, .tags = std::move(path.target.if_match), .hash_of = blobs::sha256_of}};
  CO_TRY(co_await commit(api, request, path.agent, std::move(command)));
  co_return no_content();
}

HandlerResult get_snapshot(Api& api, http::Request& request) {
  CO_TRY(const std::string name, snapshot_param(request));
  CO_TRY(const auto path, session_path(request, api));
  CO_TRY(std::string value,
         co_await show_session(api, request, path, wants_fresh(request),
                               [&name](const decide::Session& session, const ledger::Seen&) -> Result<std::string> {
                                 const auto found = json::find(*session.entry(), name);
                                 if (!found || *found == "null")
                                   return fail(Code::not_found, fmt::format("the session has no {}", name));
                                 return std::string(*found);
                               }));
  http::Response response;
  const std::string tag = policy::snapshot_tag(value, blobs::sha256_of);
  set_etag(response, tag);
  if (request.header("if-none-match").contains("\"" + tag + "\"")) {
    response.status = 304;
    response.content_type = {};
    co_return response;
  }
  if (const std::string hash = policy::snapshot_hash(value); !hash.empty()) {
    CO_TRY(value, co_await on_disk(api, [&api, &hash]() -> Result<std::string> {
             auto text = api.blobs.store().read(hash);
             if (!text && text.error().code == Code::not_found)
               return fail(Code::degraded,
                           fmt::format("the file of the blob {} is missing. Bring it back from a backup, "
                                       "or put the snapshot again",
                                       hash));
             if (text && !json::check(*text, {.max_depth = json::foreign_depth}))
               return fail(Code::degraded, fmt::format("the blob {} is not JSON; put the snapshot again", hash));
             return text;
           }));
  }
  const auto text = request.header("accept").contains("text/plain") ? json::as_string(value) : std::nullopt;
  response.content_type = text ? "text/plain; charset=utf-8" : "application/json";
  if (text)
    response.body = *text;
  else
    response.body = std::move(value);
  co_return response;
}

// Puts the snapshots of an edit into blobs of at most `most` bytes. Blocks.
Result<Pins> store_snapshots_now(Api& api, json::Edit& edit, std::uint64_t most) {
  Pins pins;
  for (const policy::Media& one : policy::take_snapshots(edit, blobs::sha256_of)) {
    api.blobs.activate();
    pins.push_back(api.blobs.store().pin(one.sha256));
    TRY(api.blobs.store().put(one.sha256, one.bytes, most));
  }
  return pins;
}

}  // namespace

asio::awaitable<Result<Pins>> store_snapshots(Api& api, json::Edit& edit) {
  if (!may_store_snapshots(api, edit)) co_return Pins{};
  co_return co_await on_disk(
      api, [&api, &edit, most = api.config.content.blobs.max_bytes] { return store_snapshots_now(api, edit, most); });
}

asio::awaitable<Result<Pins>> store_snapshots(Api& api, const std::string& agent, decide::PatchSession& command) {
  if (command.patch.size() <= policy::small_snapshot_bytes) co_return Pins{};
  struct Read {
    json::Edit snapshots{};  // only these: nulls within the patch mean something
    policy::EntrySize size{};
  };
  const auto read = [&patch = command.patch] {
    Read out{.size = policy::size_of_named(patch)};
    for (const json::Member& member : json::members(patch)) {
      std::string name = json::unescape(member.name);
      if (policy::is_snapshot(name) && member.value != "null")
        out.snapshots.set.push_back({std::move(name), json::compact(member.value)});
    }
    return out;
  };
  Read found = command.patch.size() > limits::checked_here ? co_await on_disk(api, read) : read();
  command.size = std::move(found.size);
  if (!may_store_snapshots(api, found.snapshots) || is_in_memory(api, agent, command)) co_return Pins{};
  co_return co_await on_disk(
      api, [&api, &command, &edit = found.snapshots, most = api.config.content.blobs.max_bytes]() -> Result<Pins> {
        TRY(Pins pins, store_snapshots_now(api, edit, most));
        command.patch = json::apply(command.patch, edit);
        command.size = policy::size_of_named(command.patch);
        return pins;
      });
}

asio::awaitable<void> show_snapshots(Api& api, http::Response& response, bool is_list) {
  if (response.status != 200 || !response.body.contains(R"({"$blob":")")) co_return;
  response.body = co_await on_disk(api, [&api, is_list, body = std::move(response.body)]() mutable {
    SnapshotReader reader(api, limits::media_page_bytes);
    return is_list ? policy::list_with_snapshots(std::move(body), std::ref(reader))
                   : policy::with_snapshots(std::move(body), std::ref(reader));
  });
}

std::string whole_entry(const Api& api, std::string entry) {
  SnapshotReader reader(api, SIZE_MAX);
  return policy::with_snapshots(std::move(entry), std::ref(reader));
}

void add_snapshot_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string one = "/v1/agents/{agent}/sessions/{key}/snapshots/{name}";
  on("PUT", one, auth::Permission::write, entry(put_snapshot));
  on("GET", one, auth::Permission::read, get_snapshot);
  on("DELETE", one, auth::Permission::write, delete_snapshot);
}

}  // namespace sessiond::api
