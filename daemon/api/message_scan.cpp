#include "daemon/api/message_scan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/runtime/log.hpp"
#include "policy/secret_scan.hpp"
#include "store/limits.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t long_body = 256 << 10;

// Takes the secrets out of a body: one JSON value, or one a line. What is no JSON is read as text.
policy::Redaction redact_body(std::string_view body) {
  const auto is_json = [](std::string_view text) {
    return json::check(text, {.max_depth = json::foreign_depth}).has_value();
  };
  if (is_json(body)) return policy::redact(store::trim(body));
  policy::Redaction all;
  std::size_t number = 0;
  for (std::string_view rest = body; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    policy::Redaction one;
    if (!store::trim(line).empty() && is_json(line)) {
      one = policy::redact(store::trim(line));
    } else if (const auto found = policy::find_secret(line)) {
      one = {.found = {{.kind = found->kind}}, .text = policy::redacted_text(line)};
    }
    all.text.append(one.text.empty() ? line : one.text).append("\n");
    for (policy::SecretIn& found : one.found) {
      found.pointer = fmt::format("line {}: {}", number, found.pointer);
      all.found.push_back(std::move(found));
    }
  }
  if (all.found.empty()) return {};
  all.found.resize(std::min<std::size_t>(all.found.size(), limits::faults));
  return all;
}

}  // namespace

bool is_clean(const Api& api, const http::Request& request) {
  if (api.config.policy.secret_scan_messages == config::Config::MessageScan::off || request.body.empty()) return true;
  return request.body.size() <= long_body && !policy::may_hold_secret(request.body);
}

asio::awaitable<Result<std::vector<policy::SecretIn>>> scan_body(Api& api, http::Request& request) {
  using Scan = config::Config::MessageScan;
  const Scan scan = api.config.policy.secret_scan_messages;
  const auto look = [&body = request.body]() -> policy::Redaction {
    return policy::may_hold_secret(body) ? redact_body(body) : policy::Redaction{};
  };
  policy::Redaction redaction;
  if (scan == Scan::off || request.body.empty()) co_return std::vector<policy::SecretIn>{};
  if (request.body.size() > long_body)
    redaction = co_await on_disk(api, look);
  else
    redaction = look();
  if (redaction.found.empty()) co_return std::vector<policy::SecretIn>{};
  if (scan == Scan::reject) {
    std::vector<Fault> faults;
    faults.reserve(redaction.found.size());
    for (const policy::SecretIn& found : redaction.found)
      faults.push_back({found.pointer, fmt::format("has something like a {} (policy.secretScanMessages)", found.kind)});
    co_return fail_with(std::move(faults));
  }
  if (scan == Scan::redact) {
    request.body = std::move(redaction.text);
    request.checked.reset();
  }
  for (const policy::SecretIn& found : redaction.found)
    log::warn("secret_in_message", {{"requestId", request.request_id},
                                    {"token", request.principal.id},
                                    {"route", request.pattern},
                                    {"pointer", found.pointer},
                                    {"kind", found.kind},
                                    {"redacted", scan == Scan::redact ? "yes" : "no"}});
  co_return std::move(redaction.found);
}

void add_warnings(http::Response& response, const std::vector<policy::SecretIn>& found) {
  if (found.empty() || !response.body.starts_with('{')) return;
  std::string warnings(json::find(response.body, "warnings").value_or("[]"));
  warnings.pop_back();
  for (const policy::SecretIn& secret : found) {
    if (warnings.size() > 1) warnings += ',';
    json::ObjectWriter one(warnings);
    one.string("code", "secret_in_message");
    one.string("pointer", secret.pointer);
    one.string("kind", secret.kind);
    one.close();
  }
  json::Edit edit;
  edit.put("warnings", warnings + "]");
  response.body = json::apply(response.body, edit);
}

}  // namespace sessiond::api
