#include "daemon/cli/asking.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <boost/url/encode.hpp>
#include <boost/url/rfc/unreserved_chars.hpp>
#include <cstdio>
#include <utility>

#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::cli {
namespace {

Answer<Endpoint> endpoint_at(const std::string& url, const std::optional<std::string>& token_file) {
  constexpr std::string_view scheme = "http://";
  if (!url.starts_with(scheme))
    return ended(fmt::format("--url {}: only http:// is spoken here; for https use curl, or the unix socket", url));
  std::string_view rest = std::string_view(url).substr(scheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const std::size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string_view::npos && rest.find(']', colon) == std::string_view::npos;
  std::string host(rest.substr(0, has_port ? colon : rest.size()));
  const std::string port(has_port ? rest.substr(colon + 1) : "80");
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || rest.contains('/') || rest.contains('@'))
    return ended(fmt::format("--url {}: must be http://host:port", url));
  std::string token;
  if (token_file) {
    const auto text = store::read_file(*token_file);
    if (!text) return ended(text.error().detail);
    token = std::string(store::trim(*text));
    if (token.find_first_of(" \r\n") != std::string::npos) return ended(*token_file + " does not hold one token");
  }
  return Endpoint(std::move(host), port, std::move(token));
}

}  // namespace

int as_code(Exit code) { return static_cast<int>(code); }

std::unexpected<Ended> ended(std::string detail, Exit code) { return std::unexpected(Ended{code, std::move(detail)}); }

int told(std::string_view command, const Ended& end) {
  if (!end.detail.empty()) fmt::print(stderr, "sessiond {}: {}\n", command, end.detail);
  return as_code(end.code);
}

Answer<Endpoint> endpoint_of(const Asked& asked) {
  if (asked.url) return endpoint_at(*asked.url, asked.token_file);
  const auto settings = load_settings(asked.where);
  if (!settings) return ended("");
  return Endpoint(serve::socket_of(settings->config));
}

Answer<std::string> answer_of(const Endpoint& daemon, std::string_view method, std::string_view target,
                              std::string_view body, const CallOptions& options) {
  auto reply = call_daemon(daemon, method, target, body, options);
  if (!reply)
    return ended(reply.error().nobody_there ? reply.error().detail + "; is the daemon running?" : reply.error().detail,
                 reply.error().nobody_there ? Exit::no_daemon : Exit::failed);
  if (reply->status / 100 == 2) return std::move(reply->body);
  return ended(problem_of(*reply, daemon.local()).detail, reply->status == 404 ? Exit::not_there : Exit::failed);
}

std::string in_url(std::string_view text) { return boost::urls::encode(text, boost::urls::unreserved_chars + ':'); }

std::string agent_in(std::string_view key) {
  const std::string_view agent = store::parse_key(key).agent;
  return std::string(agent.empty() ? "main" : agent);
}

std::string agent_of(const NamedSession& session) { return session.agent.value_or(agent_in(session.key)); }

std::string path_of(const NamedSession& session) {
  return fmt::format("/v1/agents/{}/sessions/{}", in_url(agent_of(session)), in_url(session.key));
}

std::string time_of(std::optional<std::int64_t> ms) {
  if (!ms || *ms <= 0) return "-";
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::gmtime(static_cast<std::time_t>(*ms / 1000)));
}

std::string text_at(std::string_view object, std::string_view name) {
  return json::string_at(object, name).value_or("");
}

}  // namespace sessiond::cli
