#include "daemon/serve/options_of.hpp"

#include "config/search_path.hpp"
#include "daemon/runtime/log.hpp"
#include "store/names.hpp"

namespace sessiond::serve {
namespace {

std::optional<std::uint64_t> bound_of(std::int64_t bytes) {
  return bytes == config::Config::unlimited ? std::nullopt : std::optional(static_cast<std::uint64_t>(bytes));
}

}  // namespace

void set_up_log(const config::Config& config) {
  static_assert(static_cast<int>(config::Config::LogLevel::error) == static_cast<int>(log::Level::error));
  log::set_up(static_cast<log::Level>(config.log.level),
              config.log.format == config::Config::LogFormat::json ? log::Format::json : log::Format::text);
}

http::ServerOptions server_options(const config::Config& config) {
  using std::chrono::milliseconds;
  http::ServerOptions options;
  options.read.header.header_bytes = config.limits.header_bytes;
  options.read.header.target_bytes = config.limits.target_bytes;
  options.read.body_bytes = config.limits.body_bytes;
  options.connections = config.limits.connections;
  options.connections_per_address = config.limits.connections_per_address;
  options.bytes_per_token = config.limits.bytes_per_token;
  options.read.json_depth = config.limits.json_depth;
  options.request_timeout = milliseconds(config.limits.request_timeout_ms);
  options.header_timeout = milliseconds(config.limits.header_timeout_ms);
  options.stall_timeout = milliseconds(config.stream.stall_timeout_ms);
  options.hosts.clear();
  // As the server compares them: lower-case, an IPv6 address without brackets.
  for (const std::string& host : config.listen.hosts) {
    const bool bracketed = host.starts_with('[') && host.ends_with(']');
    options.hosts.push_back(store::lower(bracketed ? std::string_view(host).substr(1, host.size() - 2) : host));
  }
  return options;
}

api::AuditLog::Options audit_options(const config::Config& config) {
  return {.path = config.audit.path.value_or(""), .max_bytes = config.audit.max_bytes};
}

search::SearchOptions search_options(const config::Config& config) {
  return {.enabled = config.store.search.enabled,
          .in_memory = config.store.encryption.key_file.has_value(),
          .path = config.store.search.path,
          .own_folder = config.store.search.path.starts_with(config::search_folder(config.state_dir)),
          .max_bytes = bound_of(config.store.search.max_bytes),
          .text_bytes = config.store.search.text_bytes,
          .timeout_ms = config.store.search.timeout_ms};
}

stream::StreamSettings stream_settings(const config::Config& config) {
  return {.heartbeat_ms = config.stream.heartbeat_ms,
          .retry_ms = config.stream.retry_ms,
          .stall_timeout_ms = config.stream.stall_timeout_ms,
          .coalesce_ms = config.stream.coalesce_ms,
          .tail_bytes = config.stream.tail_bytes,
          .streams_per_token = config.limits.streams_per_token};
}

}  // namespace sessiond::serve
