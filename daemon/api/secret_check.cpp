#include "daemon/api/secret_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/api/handle_check.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/runtime/log.hpp"
#include "policy/secret_scan.hpp"
#include "store/limits.hpp"

namespace sessiond::api {
namespace {

using Scan = config::Config::MessageScan;
using policy::Look;
using policy::Redaction;
using policy::SecretIn;
using policy::TakenOut;

constexpr std::size_t long_body = 256 << 10;

constexpr std::string_view stored_header = "sessiond-client";

// Returns whether a name can hold a secret. Every secret has a part of this length without a colon.
bool has_room(std::string_view name) {
  constexpr std::size_t shortest_secret = 20;
  while (name.size() >= shortest_secret) {
    const std::size_t colon = std::min(name.find(':'), name.size());
    if (colon >= shortest_secret) return true;
    name.remove_prefix(std::min(colon + 1, name.size()));
  }
  return false;
}

Scan mode_of(const Api& api) { return api.config.policy.secret_scan_messages; }
TakenOut taken_of(const Api& api) { return checks_pieces(api) ? TakenOut::all : TakenOut::own; }
bool takes(TakenOut taken, std::string_view kind) { return taken == TakenOut::all || policy::is_own(kind); }

std::string refusal(std::string_view kind) {
  return policy::is_own(kind) ? fmt::format("has something like a {}", kind)
                              : fmt::format("has something like a {} (policy.secretScanMessages)", kind);
}

// The redaction of a body: one JSON value, or one a line. What is not JSON is read as text.
Redaction redact_body(std::string_view body, Look look) {
  const auto is_json = [](std::string_view text) {
    return json::check(text, {.max_depth = json::foreign_depth}).has_value();
  };
  constexpr std::string_view bom = "\xEF\xBB\xBF";
  if (body.starts_with(bom)) body.remove_prefix(bom.size());
  if (is_json(body)) return policy::redact(store::trim(body), "", look);
  Redaction all;
  bool changed = false;
  std::size_t number = 0;
  for (std::string_view rest = body; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    Redaction one;
    if (!store::trim(line).empty() && is_json(line)) {
      one = policy::redact(store::trim(line), "", look);
    } else if (const auto found = policy::find_secret(line)) {
      one = {.found = {{.kind = found->kind}}, .text = policy::redacted_text(line, look.taken)};
    }
    changed = changed || !one.text.empty();
    all.text.append(one.text.empty() ? line : one.text).append("\n");
    for (SecretIn& found : one.found) {
      found.pointer = fmt::format("line {}: {}", number, found.pointer);
      all.found.push_back(std::move(found));
    }
  }
  if (!changed) all.text.clear();
  all.found.resize(std::min<std::size_t>(all.found.size(), limits::faults));
  return all;
}

// The name of the parameter `index` of a pattern, "{key}".
std::string_view param_name(std::string_view pattern, std::size_t index) {
  std::size_t begin = pattern.find('{');
  for (; index > 0 && begin != pattern.npos; --index) begin = pattern.find('{', begin + 1);
  return begin == pattern.npos ? std::string_view() : pattern.substr(begin, pattern.find('}', begin) + 1 - begin);
}

// Refuses a request with a secret in its path, its query or a header that is stored. agent_param() checks the agent.
Result<void> check_names(const Api& api, const http::Request& request) {
  const TakenOut taken = taken_of(api);
  std::vector<Fault> faults;
  const auto look = [&](std::string_view value, const auto& pointer) {
    if (!has_room(value)) return;
    for (auto found = policy::find_secret(value); found; found = policy::find_secret(value, found->at + found->size)) {
      if (!takes(taken, found->kind)) continue;
      faults.push_back({pointer(), refusal(found->kind)});
      return;
    }
  };
  if (request.method != "DELETE") {
    for (std::size_t i = request.pattern.starts_with("/v1/agents/{") ? 1 : 0; i < request.params.size(); ++i)
      look(request.params[i], [&] { return std::string(param_name(request.pattern, i)); });
    for (const auto& [name, value] : request.query) look(value, [&] { return "?" + name; });
  }
  for (const auto& [name, value] : request.headers)
    if (name == stored_header) look(value, [&] { return "header " + std::string(name); });
  if (faults.empty()) return {};
  return fail_with(std::move(faults));
}

bool refuses(const Api& api, Strings strings, const SecretIn& found) {
  const bool taken = takes(taken_of(api), found.kind);
  if (strings == Strings::names) return taken;
  if (strings == Strings::entry) return policy::is_own(found.kind) || (found.in_id && taken);
  return rejects_secrets(api) || (found.in_id && taken);
}

// Takes secrets out of the body, or refuses it. Returns those that the reply warns of.
asio::awaitable<Result<std::vector<SecretIn>>> check_body(Api& api, http::Request& request, Strings strings) {
  const bool has_words = strings == Strings::words || strings == Strings::deltas;
  const Look look{.taken = taken_of(api),
                  .message = strings != Strings::names,
                  .deltas = strings != Strings::deltas || !checks_pieces(api)};
  const auto read = [&body = request.body, look]() -> Redaction {
    return policy::may_hold_secret(body) ? redact_body(body, look) : Redaction{};
  };
  Redaction redaction = request.body.size() > long_body ? co_await on_disk(api, read) : read();
  std::vector<Fault> faults;
  for (const SecretIn& found : redaction.found)
    if (refuses(api, strings, found)) faults.push_back({found.pointer, refusal(found.kind)});
  if (!faults.empty()) co_return fail_with(std::move(faults));
  if (!has_words) co_return std::vector<SecretIn>{};
  if (!redaction.text.empty()) {
    request.body = std::move(redaction.text);
    co_await off_the_loop(api, request, [&](const Limits& limits) {
      check_again(request, limits);
      return true;
    });
  }
  if (mode_of(api) == Scan::off)
    std::erase_if(redaction.found, [](const SecretIn& found) { return !policy::is_own(found.kind); });
  CO_TRY(judge_found(api, request, redaction.found));
  co_return std::move(redaction.found);
}

HandlerResult check_and_call(Api& api, http::Request& request, Entrance route) {
  CO_TRY(const auto found, co_await check_body(api, request, route.strings));
  CO_TRY(auto response, co_await with_checked_handles(api, request, route.call));
  add_warnings(response, found);
  co_return response;
}

HandlerResult refuse(Problem problem) { co_return std::unexpected(std::move(problem)); }

}  // namespace

HandlerResult with_checked_strings(Api& api, http::Request& request, Entrance route) {
  if (!is_safe(request.method)) {
    if (auto fine = check_names(api, request); !fine) return refuse(std::move(fine.error()));
    const bool may = !request.body.empty() && route.strings != Strings::credentials &&
                     (request.body.size() > long_body || policy::may_hold_secret(request.body));
    if (may) return check_and_call(api, request, route);
  }
  return with_checked_handles(api, request, route.call);
}

bool rejects_secrets(const Api& api) { return mode_of(api) == Scan::reject; }
bool checks_pieces(const Api& api) { return mode_of(api) == Scan::redact || rejects_secrets(api); }

Result<void> judge_found(const Api& api, const http::Request& request, const std::vector<SecretIn>& found) {
  if (rejects_secrets(api) && !found.empty()) {
    std::vector<Fault> faults;
    faults.reserve(found.size());
    for (const SecretIn& each : found) faults.push_back({each.pointer, refusal(each.kind)});
    return fail_with(std::move(faults));
  }
  for (const SecretIn& each : found)
    log::warn("secret_in_message", {{"requestId", request.request_id},
                                    {"token", request.principal.id},
                                    {"route", request.pattern},
                                    {"pointer", each.pointer},
                                    {"kind", each.kind},
                                    {"redacted", takes(taken_of(api), each.kind) ? "yes" : "no"}});
  return {};
}

void add_warnings(http::Response& response, const std::vector<SecretIn>& found) {
  if (found.empty() || !response.body.starts_with('{')) return;
  std::string warnings = "[";
  for (const std::string_view warning : json::elements(json::find(response.body, "warnings").value_or("[]")))
    append_element(warnings, warning);
  for (const SecretIn& secret : found) {
    json::ObjectWriter one;
    one.string("code", "secret_in_message");
    one.string("pointer", secret.pointer);
    one.string("kind", secret.kind);
    append_element(warnings, one.text());
  }
  json::Edit edit;
  edit.put("warnings", warnings + "]");
  response.body = json::apply(response.body, edit);
}

}  // namespace sessiond::api
