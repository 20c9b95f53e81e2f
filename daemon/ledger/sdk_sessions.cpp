#include "daemon/ledger/sdk_sessions.hpp"

#include <algorithm>

#include "daemon/decide/sdk_session.hpp"
#include "daemon/decide/string_map.hpp"
#include "daemon/ledger/store_loading.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {
namespace {

// Reads the ids of a store that is as we left it, or that we never wrote. Nothing if it is neither: merging it may
// bring an id of ours back. Blocks.
std::optional<std::vector<std::size_t>> hashes_in(const sessions::SessionsFile::Options& options) {
  if (!sessions::SessionsFile::untouched(options) && store::stat_of(options.previous)) return {};
  const auto text = store::read_file(options.path);
  std::vector<std::size_t> found;
  if (!text && text.error().code == Code::not_found) return found;
  if (!text || !json::check(*text, {.max_depth = json::foreign_depth})) return {};
  if (json::kind(store::trim(*text)) != json::Kind::object) return {};
  for (const json::Member& member : json::members(store::trim(*text))) {
    if (json::kind(member.value) != json::Kind::object) continue;
    const std::string id = decide::sdk_session_id(member.value);
    if (!id.empty()) found.push_back(decide::StringHash()(id));
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

SdkSessions::Has SdkSessions::has(const Agent& agent, std::string_view id) const {
  if (agent.state) return decide::of_sdk_session(*agent.state, id).empty() ? Has::no : Has::yes;
  const bool readable = agent.degraded.empty();
  const auto& hashes = agent.left.sdk_hashes;
  if (!hashes) return readable ? Has::unknown : Has::no;
  if (!std::ranges::binary_search(*hashes, decide::StringHash()(id))) return Has::no;
  return readable ? Has::unknown : Has::yes;
}

std::optional<bool> SdkSessions::is_elsewhere(std::string_view id, std::string_view asking) const {
  bool known = listed_;
  for (const auto& [name, agent] : agents_.all()) {
    if (name == asking) continue;
    const Has found = has(*agent, id);
    if (found == Has::yes) return true;
    known = known && found == Has::no;
  }
  return known ? std::optional(false) : std::nullopt;
}

asio::awaitable<Result<void>> SdkSessions::learn(std::string id) {
  if (!listed_) {
    for (const std::string& name : co_await agents_.ids()) agents_.find_or_add(name);
    listed_ = true;
  }
  std::vector<std::shared_ptr<Agent>> asked;
  for (const auto& [name, agent] : agents_.all()) {
    if (has(*agent, id) == Has::unknown) asked.push_back(agent);
  }
  for (std::shared_ptr<Agent>& agent : asked) CO_TRY(co_await learn_of(std::move(agent), id));
  co_return Result<void>{};
}

asio::awaitable<Result<void>> SdkSessions::learn_of(std::shared_ptr<Agent> agent, std::string id) {
  if (!agent->state && !agent->left.sdk_hashes && !agent->rebuild) {
    const std::uint64_t times = agent->left.times;
    auto hashes = co_await runtime::run_on(
        agent->strand, [options = store_options(env_.config, env_.paths, agent->id)] { return hashes_in(options); });
    if (hashes && !agent->state && agent->left.times == times) agent->left.sdk_hashes = std::move(hashes);
  }
  if (has(*agent, id) != Has::unknown) co_return Result<void>{};
  const auto loaded = co_await agents_.load(agent->id, false);
  if (loaded || !agent->degraded.empty()) co_return Result<void>{};
  if (loaded.error().code != Code::agent_not_found) co_return std::unexpected(loaded.error());
  agent->left.sdk_hashes.emplace();  // a folder without a store
  co_return Result<void>{};
}

std::vector<std::string> SdkSessions::agents_with(std::string_view id) const {
  std::vector<std::string> out;
  for (const auto& [name, agent] : agents_.all()) {
    if (has(*agent, id) != Has::no || !agent->degraded.empty()) out.push_back(name);
  }
  return out;
}

}  // namespace sessiond::ledger
