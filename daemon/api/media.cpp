#include "daemon/api/media.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "daemon/api/handle_check.hpp"
#include "store/limits.hpp"

namespace sessiond::api {
namespace {

// Whether a session of this agent, or an archive, that the token sees names the blob.
asio::awaitable<Result<bool>> sees_name(Api& api, const http::Request& request, const std::string& agent,
                                        const std::vector<maintenance::BlobName>& names, const std::string& hash) {
  auto seen =
      co_await api.ledger.show(agent, false, [&](const decide::AgentState& state, ledger::Seen&) -> Result<bool> {
        return std::ranges::any_of(names, [&](const maintenance::BlobName& name) {
          const auto shows = [&](const decide::Session* copy) { return sees(request.principal, state, *copy); };
          if (!name.of_entry)
            return visible_or_archived(state, {.key = name.name}, request.principal).has_value() ||
                   std::ranges::any_of(state.copies(name.name), shows);
          const decide::Session* session = state.find_key(name.name);
          return session != nullptr && sees(request.principal, state, *session) &&
                 policy::names_blob(*session->entry(), policy::NamedBy::entry, hash);
        });
      });
  if (!seen && (seen.error().code == Code::agent_not_found || seen.error().code == Code::session_not_found))
    co_return false;
  co_return seen;
}

// The handles of a body: of one JSON value, or of one a line. What is no JSON cannot be brought into one form, so what
// names a blob in it counts.
policy::WrittenHandles handles_of(std::string_view body) {
  const auto is_json = [](std::string_view text) {
    return json::check(text, {.max_depth = json::foreign_depth}).has_value();
  };
  if (is_json(body)) return policy::written_handles(store::trim(body));
  policy::WrittenHandles all;
  bool changed = false;
  std::string text;
  std::size_t number = 0;
  for (std::string_view rest = body; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::string place = fmt::format("line {}: ", ++number);
    policy::WrittenHandles one;
    if (is_json(line))
      one = policy::written_handles(store::trim(line));
    else
      policy::names_in(line, policy::NamedBy::either,
                       [&](std::string_view hash) { one.found.push_back({.sha256 = std::string(hash)}); });
    changed = changed || !one.text.empty();
    text.append(one.text.empty() ? line : one.text).append("\n");
    for (policy::WrittenHandle& found : one.found) {
      found.pointer.insert(0, place);
      all.found.push_back(std::move(found));
    }
  }
  if (changed) all.text = std::move(text);
  return all;
}

asio::awaitable<Result<http::Response>> check_and_call(Api& api, http::Request& request, Handle call) {
  constexpr std::size_t long_body = 256 << 10;
  const auto look = [&body = request.body] { return handles_of(body); };
  policy::WrittenHandles handles = request.body.size() > long_body ? co_await on_disk(api, look) : look();
  CO_TRY(const Pins pins, co_await accept_handles(api, request, std::move(handles.found)));
  if (!handles.text.empty()) {
    request.body = std::move(handles.text);
    co_await off_the_loop(api, request, [&](const Limits& limits) {
      check_again(request, limits);
      return true;
    });
  }
  co_return co_await call(api, request);
}

// Whether the request is about an ephemeral session: nothing of it may reach the disk.
bool is_ephemeral(const Api& api, const http::Request& request) {
  if (request.params.size() < 2) return false;
  const auto agent = store::normalize_agent_id(request.params[0]);
  return agent && is_in_memory(api, *agent, decide::ClearSession{.target = {.key = request.params[1]}});
}

}  // namespace

asio::awaitable<Result<bool>> sees_blob(Api& api, const http::Request& request, const std::string& hash) {
  co_await api.blobs.load();
  std::map<std::string, std::vector<maintenance::BlobName>> by_agent;
  for (maintenance::BlobName& name : api.blobs.names_of(hash))
    if (!name.name.empty() && request.principal.sees_agent(name.agent)) by_agent[name.agent].push_back(std::move(name));
  for (const auto& [agent, names] : by_agent) {
    CO_TRY(const bool seen, co_await sees_name(api, request, agent, names, hash));
    if (seen) co_return true;
  }
  if (!api.blobs.loaded())
    co_return std::unexpected(Problem{.code = Code::starting,
                                      .detail = "it is not known yet which sessions name this blob; try again",
                                      .retry_after_s = 5});
  co_return false;
}

Result<Pins> store_media_now(const Api& api, MediaSettings settings, std::string& json,
                             std::vector<policy::StrippedContent>* stripped) {
  using Content = config::Config::DurableContent;
  Pins pins;
  policy::WithoutMedia without = policy::take_media(json, blobs::sha256_of);
  if (!without.media.empty()) api.blobs.activate();
  for (const policy::Media& one : without.media) {
    pins.push_back(api.blobs.store().pin(one.sha256));
    TRY(api.blobs.store().put(one.sha256, one.bytes, settings.most_bytes));
  }
  if (!without.text.empty()) json = std::move(without.text);
  if (settings.content != Content::full) return pins;
  policy::WithoutSignatures bare = policy::without_signatures(json);
  if (!bare.text.empty()) json = std::move(bare.text);
  if (stripped != nullptr) *stripped = std::move(bare.contents);
  return pins;
}

asio::awaitable<Result<Pins>> accept_handles(Api& api, const http::Request& request,
                                             std::vector<policy::WrittenHandle> handles) {
  Pins pins;
  std::map<std::string, bool> known;
  std::vector<Fault> faults;
  for (const policy::WrittenHandle& handle : handles) {
    auto at = known.find(handle.sha256);
    if (at == known.end()) {
      pins.push_back(api.blobs.store().pin(handle.sha256));
      CO_TRY(bool fine, co_await sees_blob(api, request, handle.sha256));
      if (fine)
        fine = co_await on_disk(api, [&api, &handle] { return api.blobs.store().touch(handle.sha256).has_value(); });
      at = known.emplace(handle.sha256, fine).first;
    }
    if (at->second) continue;
    faults.push_back(
        {handle.pointer, fmt::format("names the blob {}, which no session names that this token sees; send "
                                     "the content itself",
                                     handle.sha256)});
    if (faults.size() >= limits::faults) break;
  }
  if (!faults.empty()) co_return fail_with(std::move(faults));
  co_return pins;
}

asio::awaitable<Result<Pins>> store_media(Api& api, std::string& json) {
  if (!may_change(api, json)) co_return Pins{};
  co_return co_await on_disk(
      api, [&api, &json, settings = media_settings(api)] { return store_media_now(api, settings, json); });
}

asio::awaitable<Result<StoredMedia>> store_media_of(Api& api, http::Request& request) {
  StoredMedia stored;
  CO_TRY(stored.pins,
         co_await on_disk(api, [&, settings = media_settings(api), limits = api.config.limits]() -> Result<Pins> {
           const std::string before = request.body;
           TRY(auto pins, store_media_now(api, settings, request.body, &stored.stripped));
           if (request.body != before) check_again(request, limits);
           return pins;
         }));
  co_return stored;
}

void keep_signatures(Api& api, const http::Request& request, StoredMedia stored) {
  if (stored.stripped.empty()) return;
  const auto path = session_path(request, api);
  const decide::AgentState* state =
      path ? ledger::loaded_state(api.ledger.parts(), path->agent, path->target.key) : nullptr;
  const decide::Session* session = state == nullptr ? nullptr : session_named(*state, path->target);
  const decide::SessionRuns* runs = session == nullptr ? nullptr : state->runs.find(session->key());
  if (runs != nullptr && runs->active)
    api.run_signatures.keep(path->agent, session->key(), runs->active->id, std::move(stored.stripped));
}

asio::awaitable<Result<http::Response>> with_stored_media(Api& api, http::Request& request,
                                                          HandlerResult (*call)(Api&, http::Request&)) {
  if (is_ephemeral(api, request)) co_return co_await call(api, request);
  CO_TRY(co_await off_the_loop(api, request,
                               [&](const Limits& limits) { return body_of(request, limits, Body::optional); }));
  CO_TRY(StoredMedia stored, co_await store_media_of(api, request));
  CO_TRY(auto response, co_await call(api, request));
  keep_signatures(api, request, std::move(stored));
  co_return response;
}

asio::awaitable<Result<http::Response>> with_checked_handles(Api& api, http::Request& request, Handle call) {
  if (!policy::may_hold_handle(request.body)) return call(api, request);
  return check_and_call(api, request, call);
}

Result<policy::MediaAs> media_of(const http::Request& request) {
  TRY(const auto as, query_choice(request, "media", {"handle", "inline", "url"}));
  return as == "inline" ? policy::MediaAs::inlined : as == "url" ? policy::MediaAs::url : policy::MediaAs::handle;
}

ShownMedia shown_media(const Api& api, std::string json, policy::MediaAs as) {
  ShownMedia out;
  std::size_t bytes = 0;
  out.json = policy::with_media(std::move(json), as, [&](const std::string& hash) -> std::optional<std::string> {
    out.whole = out.whole && bytes <= limits::inline_bytes;
    if (!out.whole) return {};
    auto read = api.blobs.store().read(hash);
    if (!read) return {};
    bytes += read->size();
    return std::move(*read);
  });
  return out;
}

}  // namespace sessiond::api
