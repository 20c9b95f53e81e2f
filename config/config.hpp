// The configuration as plain values with their defaults. config/describe.hpp names and explains every key. Durations
// are milliseconds unless the name says otherwise, sizes are bytes; `Config{}` is the shipped default. Paths hold what
// was written until resolve_paths (config/locate.hpp) has made them absolute.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sessiond::config {

// One fault of a configuration: the JSON pointer (RFC 6901) of the key, "" for the whole text, and what is wrong.
struct ConfigFault {
  std::string pointer;
  std::string detail;
  friend bool operator==(const ConfigFault&, const ConfigFault&) = default;
};

struct Config {
  enum class StoreMode : std::uint8_t { own, shared };
  enum class DmScope : std::uint8_t { main, per_peer, per_channel_peer, per_account_channel_peer };
  enum class Threads : std::uint8_t { session, inherit };
  enum class ResetMode : std::uint8_t { none, idle, daily };
  enum class MaintenanceMode : std::uint8_t { warn, enforce };
  enum class LogLevel : std::uint8_t { trace, debug, info, warn, error };
  enum class LogFormat : std::uint8_t { text, json };
  enum class SecretScan : std::uint8_t { off, warn, reject };
  enum class MessageScan : std::uint8_t { off, redact, reject, warn };
  enum class DurableContent : std::uint8_t { off, media, full };
  enum class OnExceed : std::uint8_t { fail, warn };
  enum class FsScope : std::uint8_t { sandboxed, project, full };
  enum class SessionLog : std::uint8_t { off, meta, full };
  enum class Pairs : std::uint8_t { off, warn, strict };
  enum class CompactionTime : std::uint8_t { both, run_start, after_turn };

  struct Tls {                          // of every TCP address; PEM files
    std::optional<std::string> cert{};  // the certificate, then what leads to its root; nothing: no TLS
    std::optional<std::string> key{};
    std::optional<std::string> client_ca{};  // nothing: certificates of clients are not looked at
  };
  struct Listen {
    std::vector<std::string> tcp{"127.0.0.1:7433"};               // each passes parse_listen_address
    std::optional<std::string> unix{"{stateDir}/sessiond.sock"};  // nothing: no unix socket
    Tls tls{};
    bool insecure = false;                                              // non-loopback without TLS is meant
    std::vector<std::string> hosts{"localhost", "127.0.0.1", "[::1]"};  // without port, case does not matter
  };
  struct Limits {
    std::uint64_t body_bytes = 8ULL << 20;
    std::uint64_t header_bytes = 16ULL << 10;
    std::uint64_t target_bytes = 8ULL << 10;
    std::int64_t request_timeout_ms = 30'000;
    std::int64_t header_timeout_ms = 10'000;
    std::uint64_t connections = 10'000;
    std::uint64_t connections_per_address = 512;         // of others than loopback; 0: no limit
    std::uint64_t bytes_per_token = 32ULL << 20;         // of requests and replies under way; 0: no limit
    std::uint64_t agents = 10'000;                       // that clients may make
    std::uint64_t sessions_per_agent = 1'000'000;        // of which new ones are made
    std::uint64_t entry_bytes_per_agent = 512ULL << 20;  // of all its entries, while they grow
    std::uint64_t requests_per_second = 0;               // of a token; 0: no limit
    std::uint64_t streams_per_token = 0;                 // 0: no limit
    std::uint64_t failed_logins_per_minute = 60;         // of an address; 0: no limit
    std::uint64_t stream_entry_bytes = 256ULL << 10;
    std::uint64_t stream_bytes = 64ULL << 20;
    std::uint64_t log_entry_bytes = 4ULL << 20;
    std::uint64_t log_bytes = 64ULL << 20;
    std::uint64_t json_depth = 64;
  };
  struct Network {
    std::uint64_t threads = 1;
  };
  struct Journal {
    std::uint64_t segment_bytes = 64ULL << 20;
    std::uint64_t max_bytes = 1ULL << 30;
    std::int64_t retention_ms = 168LL * 3'600'000;
  };
  struct Idempotency {
    std::int64_t retention_ms = 24LL * 3'600'000;
    std::uint64_t max_bytes = 1ULL << 30;
  };
  struct Lock {
    std::int64_t timeout_ms = 10'000;
    std::int64_t poll_interval_ms = 25;
    std::int64_t stale_ms = 30'000;
  };
  struct Search {
    bool enabled = true;
    std::string path = "{stateDir}/search/index.db";
    std::int64_t max_bytes = unlimited;
    std::uint64_t text_bytes = 1 << 20;
    std::int64_t timeout_ms = 2'000;
  };
  struct Store {
    StoreMode mode = StoreMode::own;
    std::string path_template = "agents/{agentId}/sessions/sessions.json";  // below state_dir
    std::int64_t cache_ttl_ms = 45'000;                                     // 0: stat on every read
    bool write_through = false;
    double checkpoint_duty = 0.05;  // share of the time spent on checkpoints, 0..1
    std::int64_t damage_after_ms = 5'000;
    Lock lock{};
    bool allow_outside = false;  // path_template may be absolute, or below ~
    struct Encryption {
      std::optional<std::string> key_file{};  // nothing: nothing is sealed
    };
    Encryption encryption{};
    Search search{};  // "search" of the file
  };
  struct Stream {
    std::int64_t heartbeat_ms = 15'000;
    std::int64_t stall_timeout_ms = 60'000;
    std::uint64_t tail_bytes = 16ULL << 20;
    std::int64_t retry_ms = 2'000;
    std::int64_t coalesce_ms = 10;  // 0: never
  };
  struct Reset {
    ResetMode mode = ResetMode::none;
    std::optional<std::int64_t> idle_minutes{};  // nothing: 60 in mode idle, never in mode daily
    int at_hour = 4;                             // mode daily: 0..23, local time
  };
  struct ResetByType {  // nothing: as Session::reset
    std::optional<Reset> direct{};
    std::optional<Reset> group{};
    std::optional<Reset> channel{};
    std::optional<Reset> thread{};
  };
  struct Spawn {
    std::uint64_t depth = 3;
    std::uint64_t count = 64;  // children of one session
  };
  struct Maintenance {
    MaintenanceMode mode = MaintenanceMode::warn;
    std::optional<std::int64_t> prune_after_ms{};
    std::optional<std::uint64_t> max_entries{};     // of an agent
    std::optional<std::uint64_t> max_disk_bytes{};  // of an agent
    double high_water = 0.8;                        // share of max_disk_bytes
    std::optional<std::int64_t> archive_retention_ms{};
    std::int64_t notice_ms = 7LL * 24 * 3'600'000;
    std::int64_t every_ms = 3'600'000;
    std::vector<std::string> preserve{};  // prefixes of keys
  };
  struct Session {
    bool sanitize_names = false;  // names.sanitize
    DmScope dm_scope = DmScope::per_channel_peer;
    std::map<std::string, std::vector<std::string>> identity_links{};  // canonical peer -> "channel:peer", …
    std::string main_key = "main";
    Threads threads = Threads::session;
    std::vector<std::string> reset_triggers{"/new", "/reset"};
    Reset reset{};
    ResetByType reset_by_type{};
    std::map<std::string, Reset> reset_by_channel{};
    Spawn spawn{};
    std::vector<std::string> require_fields{};    // of entries
    std::uint64_t ephemeral_bytes = 16ULL << 20;  // of all ephemeral sessions
    bool auto_save = true;                        // false is refused
    std::optional<std::uint64_t> max_sessions{};  // another name of maintenance.max_entries
    Maintenance maintenance{};

    std::optional<std::uint64_t> most_sessions() const {
      return maintenance.max_entries ? maintenance.max_entries : max_sessions;
    }
  };
  struct Context {
    struct Compaction {
      CompactionTime when = CompactionTime::both;
      double threshold = 0.8;  // shares of the window
      double force_at = 0.95;
      std::int64_t min_messages = 6;
      std::int64_t keep_turns = 4;
      std::int64_t max_tokens = 4096;
      double temperature = 0.3;
    };
    struct Pruning {
      double soft = 0.3;  // shares of the window
      double hard = 0.5;
      std::int64_t min_chars = 50'000;
      std::int64_t keep_chars = 1'500;
      std::int64_t keep_assistants = 3;
      std::vector<std::string> exclude_tools{"skill*"};
    };
    std::int64_t window = 200'000;                  // tokens
    std::map<std::string, std::int64_t> windows{};  // by model
    Compaction compaction{};
    Pruning pruning{};
    std::int64_t view_bytes = 24 << 20;
    std::int64_t max_files_per_message = 10;
  };
  struct DoomLoop {
    std::int64_t count = 3;  // 0: never
    bool inject = true;
  };
  struct Transcripts {
    std::optional<DurableContent> durable_content{};  // nothing: media in mode own, off in mode shared
  };
  struct Blobs {
    std::int64_t grace_ms = 3'600'000;
    std::uint64_t max_bytes = 64ULL << 30;
  };
  struct Messages {
    Pairs pairs = Pairs::warn;
  };
  struct Content {
    Messages messages{};
    Transcripts transcripts{};
    Blobs blobs{};
  };
  static constexpr std::int64_t unlimited = -1;
  struct Runs {
    std::int64_t lease_ms = 60'000;
    std::int64_t idle_timeout_ms = 0;  // 0: none
    std::int64_t max_steps = 10;       // 0: no limit
    std::int64_t turn_cap = 50;        // of a session; `unlimited`
    std::int64_t max_attempts = 3;
    std::int64_t abort_grace_ms = 5'000;
    std::int64_t runner_idle_ms = 30LL * 60'000;
    std::int64_t queue_max_age_ms = 24LL * 3'600'000;
    std::int64_t queue_max_wait_ms = 5'000;
    std::uint64_t partial_bytes = 1ULL << 20;
    std::uint64_t keep = 100;          // ended runs of a session
    std::optional<bool> on_inbound{};  // nothing: in mode own
    bool exclusive = false;
    std::optional<std::string> model{}, provider{};
  };
  struct Approvals {
    std::int64_t timeout_ms = 120'000;
    bool require_approver = false;
  };
  struct Hooks {
    std::int64_t timeout_ms = 10'000;
  };
  struct Takeover {
    std::int64_t default_ms = 4LL * 3'600'000;
    std::int64_t from_me_ms = 0;  // 0: none
  };
  struct Deliveries {
    std::int64_t max_attempts = 10;
    std::int64_t max_age_ms = 24LL * 3'600'000;
    std::int64_t adopt_ms = 7LL * 24 * 3'600'000;
  };
  struct Inbound {
    std::int64_t early_change_ms = 600'000;
  };
  struct Agent {
    std::optional<std::string> compact_instructions{};
    std::optional<std::string> model{}, provider{};
    std::optional<std::int64_t> max_cost_microcents{};
    OnExceed on_exceed = OnExceed::fail;
    std::optional<std::int64_t> max_messages{};
    FsScope fs_scope = FsScope::sandboxed;
  };
  struct Work {  // of agents: keys of their own at the top
    Runs runs{};
    Approvals approvals{};
    Hooks hooks{};
    Takeover takeover{};
    Deliveries deliveries{};
    Inbound inbound{};
    std::map<std::string, Agent> agents{};  // by id
    SessionLog session_log = SessionLog::off;
  };
  struct Routing {
    std::vector<std::string> case_sensitive{"matrix", "signal"};  // channels
    std::vector<std::string> topic_channels{"telegram"};
  };
  struct Policy {
    SecretScan secret_scan = SecretScan::reject;
    MessageScan secret_scan_messages = MessageScan::warn;
  };
  struct Cors {
    std::vector<std::string> allowed_origins{};
  };
  struct Audit {
    std::optional<std::string> path{"{stateDir}/audit.jsonl"};  // nothing: no audit log
    std::uint64_t max_bytes = 64ULL << 20;
  };
  struct Api {
    bool require_if_match = false;
  };
  struct Mcp {
    bool enabled = true;
  };
  struct Log {
    LogLevel level = LogLevel::info;
    LogFormat format = LogFormat::text;
  };

  DurableContent durable_content() const {
    const bool own = store.mode == StoreMode::own;
    return content.transcripts.durable_content.value_or(own ? DurableContent::media : DurableContent::off);
  }

  std::string state_dir = "~/.sessiond";
  Listen listen{};
  Limits limits{};
  Network network{};
  Journal journal{};
  Idempotency idempotency{};
  Store store{};
  Stream stream{};
  Session session{};
  Routing routing{};
  Context context{};
  DoomLoop doom_loop{};
  Content content{};
  Work work{};
  // The rules as strict JSON text of one object; policy/ reads and validates it.
  std::string send_policy_json = R"({"default":"allow","evaluation":"first-match","rules":[]})";
  Policy policy{};
  Cors cors{};
  Api api{};
  Mcp mcp{};
  Log log{};
  Audit audit{};
};

}  // namespace sessiond::config
