#include "daemon/serve/serve.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>
#include <csignal>
#include <optional>

#include "config/check.hpp"
#include "config/listen_address.hpp"
#include "config/print.hpp"
#include "config/read.hpp"
#include "daemon/api/api.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/auth/first_token.hpp"
#include "daemon/http/cors.hpp"
#include "daemon/http/server.hpp"
#include "daemon/leases/work.hpp"
#include "daemon/maintenance/keeper.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "daemon/serve/keep_tokens.hpp"
#include "daemon/serve/keys.hpp"
#include "daemon/serve/options_of.hpp"
#include "daemon/serve/rules_of.hpp"
#include "daemon/serve/settings.hpp"
#include "daemon/serve/state_lock.hpp"
#include "daemon/serve/systemd.hpp"
#include "store/confine.hpp"
#include "store/files.hpp"
#include "store/names.hpp"

namespace sessiond::serve {
namespace {

constexpr int cannot_start = 1;
constexpr int in_use = 3;
constexpr std::size_t disk_threads = 4;  // while one is in an fsync and one waits for a lock, pages can still be read

int refuse(std::string_view event, const Problem& problem, int code = cannot_start) {
  log::error(event, {{"error", problem.detail}});
  return code;
}

std::optional<config::Config> read_config(const ServeOptions& options) {
  auto settings = load_settings(options.config, options.state_dir);
  const auto tell = [](std::string_view name, std::string_view source, const std::vector<config::ConfigFault>& faults) {
    for (const config::ConfigFault& fault : faults)
      log::error("configuration_fault", {{name, source}, {"pointer", fault.pointer}, {"detail", fault.detail}});
  };
  if (!settings) {
    tell("file", settings.error().file, settings.error().faults);
    return {};
  }
  std::vector<config::ConfigFault> faults;
  if (options.listen) {
    config::overlay(settings->config, fmt::format(R"({{"listen":{{"tcp":{}}}}})", json::quote(*options.listen)),
                    faults);
    config::find_contradictions(settings->config, faults);
  }
  tell("option", "--listen", faults);
  return faults.empty() ? std::optional(std::move(settings->config)) : std::nullopt;
}

Problem keeps_sqlite(const std::vector<std::filesystem::path>& databases) {
  return {
      .code = Code::degraded,
      .detail = fmt::format("{} is a database of OpenClaw 2026.8 or later{}: its sessions would not be served. Name "
                            "another state directory (--state-dir), or start with --ignore-sqlite to serve the JSON "
                            "stores beside it",
                            databases.front().native(),
                            databases.size() == 1 ? "" : fmt::format(" ({} more)", databases.size() - 1))};
}

// Reads policy.json, which overrides the configuration; it exists once a client has PUT a policy.
Result<void> read_policy(const std::filesystem::path& path, decide::Rules& rules) {
  auto text = store::read_file(path);
  if (!text) return text.error().code == Code::not_found ? Result<void>{} : std::unexpected(std::move(text.error()));
  if (!json::check(*text)) return fail(Code::degraded, path.string() + " is not JSON; repair or remove it");
  auto policy = policy::parse_send_policy(store::trim(*text), "");
  if (!policy) return fail(Code::degraded, fmt::format("{}: {}", path.string(), policy.error().detail));
  rules.send_policy = std::move(*policy);
  return {};
}

void show_first_token(const auth::FirstToken& first) {
  if (first.replaced)
    log::warn("admin_token_replaced",
              {{"path", first.path.string()}, {"why", "it belonged to another state directory"}});
  if (first.not_written) log::warn("admin_token_not_written", {{"error", first.not_written->detail}});
  if (::isatty(STDOUT_FILENO) == 0) {  // files and systemd's journal keep their lines, and others may read them
    log::info("admin_token_made", {{"path", first.path.string()},
                                   {"next", first.not_written ? "make one: sessiond token create --role admin"
                                                              : "read it from that file; it is not logged"}});
    return;
  }
  fmt::print("sessiond: the first admin token, shown only this once (stored in {}):\n{}\n", first.path.string(),
             first.token);
  std::fflush(stdout);
}

// The daemon after everything is open: listens, serves, reloads, and stops in order. Runs on the loop's thread. Members
// are declared in the order in which they are made; each may use those before it.
class Daemon {
 public:
  Daemon(ServeOptions options, config::Config& config, asio::io_context& io, asio::thread_pool& disk,
         ledger::Ledger& ledger, auth::Tokens& tokens, auth::Tickets& tickets, auth::LoginCookies& cookies,
         const std::string& secret, ServiceManager& manager)
      : options_(std::move(options)),
        manager_(manager),
        config_(config),
        io_(io),
        streams_(ledger,
                 {.journal = ledger.parts().commits.journal(),
                  .disk = disk,
                  // A stream lives longer than the request that opened it, and the token may change.
                  .again = [&tokens](const auth::Principal& principal) -> Result<auth::Principal> {
                    if (principal.id == "local") return principal;
                    return tokens.principal(principal.id, store::unix_ms());
                  },
                  .token_generation = [&tokens] { return tokens.generation(); }},
                 stream_settings(config), config.network.threads),
        work_(ledger),
        blobs_(ledger, config),
        search_(ledger, search_options(config)),
        authenticator_(config, tokens, tickets, cookies, [&ledger] { return ledger.parts().commits.clock().now(); }),
        audit_(io, disk, audit_options(config),
               [&ledger](std::string_view agent, std::string_view name) { return ledger.hidden_name(agent, name); }),
        api_{.config = config,
             .ledger = ledger,
             .tokens = tokens,
             .streams = streams_,
             .work = work_,
             .blobs = blobs_,
             .search = search_,
             .tickets = tickets,
             .authenticator = authenticator_,
             .audit = audit_,
             .cursors = api::CursorSeal(secret),
             .started_at = store::unix_ms()},
        keeper_(ledger, config, blobs_, [this] { return api::streamed_sessions(api_); }),
        router_([this](const auto& request, auto wanted) { return authenticator_.authenticate(request, wanted); }),
        server_(io, router_, disk, server_options(config)),
        signals_(io, SIGINT, SIGTERM),
        reload_signal_(io, SIGHUP) {
    ledger.observe([this](const decide::Change& change) { see(change); });
    api::add_routes(router_, api_);
    router_.observe([this](const http::Request& request, const http::Router::Route* route, http::Response& response) {
      http::add_cors(request, config_.cors.allowed_origins, response);
      authenticator_.add_rate_headers(request, response);
      audit_.record(request, route, response);
    });
    api_.counters = &server_.counters();
    server_.on_stop([this] {
      api_.draining = true;
      api_.ledger.drain();
      streams_.drain();
      work_.drain();
    });
  }

  ~Daemon() { api_.ledger.observe(nullptr); }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Opens the listening sockets. Sockets that systemd hands over replace those of the configuration.
  Result<void> listen() {
    if (api_.config.listen.tls.cert) {
      TRY(auto context, http::make_tls_context(tls_files(api_.config)));
      server_.use_tls(std::move(context));
    }
    TRY(auto inherited, manager_.sockets(config_.listen.insecure || config_.listen.tls.cert));
    std::string tcp;
    const auto listens = [&tcp](const Result<unsigned short>& port, std::string_view ip) -> Result<void> {
      if (!port) return std::unexpected(port.error());
      tcp += fmt::format("{}{}:{}", tcp.empty() ? "" : ",", ip, *port);
      return {};
    };
    for (auto& [fd, ip] : inherited.tcp) {
      TRY(listens(server_.adopt_tcp(std::move(fd)), ip));
    }
    for (const std::string& address : inherited.tcp.empty() ? api_.config.listen.tcp : std::vector<std::string>{}) {
      const auto at = config::parse_listen_address(address).value();  // checked when the configuration was read
      TRY(listens(server_.listen_tcp({asio::ip::make_address(at.ip), at.port}), address.substr(0, address.rfind(':'))));
    }
    std::string unix_path = api_.config.listen.unix.value_or("");
    for (auto& [fd, path] : inherited.unix) {
      unix_path = path;
      TRY(server_.adopt_unix(std::move(fd)));
    }
    if (!unix_path.empty() && inherited.unix.empty()) {
      TRY(server_.listen_unix(unix_path));
    }
    tcp_ = std::move(tcp);
    unix_ = std::move(unix_path);
    return {};
  }

  // Accepts connections until the daemon is stopped. Call it after listen().
  void run() {
    audit_.check();
    log::info("listening",
              {{"tcp", tcp_}, {"unix", unix_}, {"version", SESSIOND_VERSION}, {"stateDir", api_.config.state_dir}});
    manager_.ready(fmt::format("listening on {}{}{}", tcp_, tcp_.empty() || unix_.empty() ? "" : " and ", unix_));
    on_signal();
    on_reload();
    asio::co_spawn(io_, keep_tokens(api_), asio::detached);
    asio::co_spawn(io_, api::keep_metrics(api_), asio::detached);
    keeper_.start();
    work_.start();
    search_.start();
    asio::co_spawn(io_, manager_.keep_alive(), asio::detached);
    io_.run();
  }

 private:
  void see(const decide::Change& change) {
    work_.see(change);
    blobs_.see(change);
    search_.see(change);
    api_.run_signatures.see(change);
  }

  void on_signal() {
    signals_.async_wait([this](const boost::system::error_code& error, int signal) {
      if (error) return;
      if (api_.draining) {
        log::warn("ended_at_once", {{"signal", signal}});
        std::_Exit(0);  // the second signal; acknowledged writes are in the journal
      }
      log::info("draining", {{"signal", signal}});
      asio::co_spawn(io_, end(), asio::detached);
      on_signal();
    });
  }

  void on_reload() {
    reload_signal_.async_wait([this](const boost::system::error_code& error, int) {
      if (error) return;
      asio::co_spawn(io_, reload(), asio::detached);
      on_reload();
    });
  }

  // SIGHUP: reads the tokens again, then the configuration and the files that it names. A fault in any of these leaves
  // the old configuration in force. Applies rules, limits, certificates and the log level. Keys that a running daemon
  // cannot change (state directory, addresses, threads, store, journal) apply from the next start on; the log and the
  // event config.reloaded name them.
  asio::awaitable<void> reload() {
    const auto reloading = manager_.reloading();
    const auto read =
        co_await runtime::run_on(api_.ledger.parts().env.disk.get_executor(), [this] { return api_.tokens.reload(); });
    if (!read) log::error("tokens_not_reloaded", {{"error", read.error().detail}});
    streams_.check_tokens();
    co_await reload_keys(api_.ledger.parts().env.disk.get_executor());
    const auto fresh = read_config(options_);
    if (!fresh)
      co_return log::error("config_not_reloaded",
                           {{"next", "the old configuration stays in force; correct the file and send SIGHUP again"}});
    auto rules = rules_of(*fresh);
    if (!rules) co_return log::error("config_not_reloaded", {{"error", rules.error().detail}});
    rules->shared =
        config_.store.mode ==
        config::Config::StoreMode::shared;  // does not change: transcripts are locked, or not, as at the start
    if (auto policy = read_policy(std::filesystem::path(config_.state_dir) / "policy.json", *rules); !policy) {
      co_return log::error("config_not_reloaded", {{"error", policy.error().detail}});
    }
    const bool with_tls = fresh->listen.tls.cert && config_.listen.tls.cert;
    Result<http::TlsContext> tls = with_tls ? http::make_tls_context(tls_files(*fresh)) : Result<http::TlsContext>{};
    if (!tls)
      co_return log::error(
          "tls_not_reloaded",
          {{"error", tls.error().detail},
           {"next", "the old certificate and configuration stay in force; correct it and send SIGHUP again"}});
    const config::Config before = config_;
    api_.ledger.rules() = std::move(*rules);
    take_reloadable(config_, *fresh);
    if (with_tls) {
      config_.listen.tls = fresh->listen.tls;
      server_.use_tls(std::move(*tls));
    }
    audit_.reconfigure(audit_options(config_));
    audit_.check();
    set_up_log(config_);
    server_.reconfigure(server_options(config_));
    streams_.reconfigure(stream_settings(config_));
    keeper_.reconfigured();
    co_await announce_reload(config::changed_keys(before, config_), config::changed_keys(config_, *fresh));
  }

  asio::awaitable<void> announce_reload(std::vector<std::string> taken, std::vector<std::string> restart) {
    log::info("config_reloaded", {{"taken", fmt::format("{}", fmt::join(taken, " "))},
                                  {"needsRestart", fmt::format("{}", fmt::join(restart, " "))}});
    auto told = co_await api_.ledger.announce(
        journal::EventType::config_reloaded,
        fmt::format(R"({{"taken":{},"needsRestart":{}}})", json::array_of(taken), json::array_of(restart)), "sessiond");
    if (!told) log::warn("event_not_stored", {{"error", told.error().detail}});
  }

  asio::awaitable<void> end() {
    manager_.stopping();
    server_.stop();
    co_await server_.stopped();
    co_await streams_.stopped(server_options(config_).stop_grace);
    co_await keeper_.stop();
    co_await work_.stop();
    co_await search_.stop();
    if (auto told = co_await audit_.flush(); !told) log::error("audit_not_written", {{"error", told.error().detail}});
    co_await api_.ledger.stop();
    log::info("stopped");
    signals_.cancel();
    reload_signal_.cancel();
    io_.stop();
  }

  ServeOptions options_;
  ServiceManager& manager_;
  config::Config& config_;
  asio::io_context& io_;
  stream::Streams streams_;
  leases::Work work_;
  maintenance::Blobs blobs_;
  search::Search search_;
  api::Authenticator authenticator_;
  api::AuditLog audit_;
  api::Api api_;
  maintenance::Keeper keeper_;
  http::Router router_;
  http::Server server_;
  asio::signal_set signals_, reload_signal_;
  std::string tcp_;  // the addresses, for the log
  std::string unix_;
};

}  // namespace

int serve(const ServeOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit fails instead of killing the daemon
  const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};  // a core dump would contain tokens
  ::setrlimit(RLIMIT_CORE, &no_core);
  ServiceManager manager = ServiceManager::from_environment();
  auto config = read_config(options);
  if (!config) return cannot_start;
  set_up_log(*config);
  auto rules = rules_of(*config);
  if (!rules) {
    for (const Fault& fault : rules.error().errors)
      log::error("configuration_fault", {{"pointer", fault.pointer}, {"detail", fault.detail}});
    return cannot_start;
  }
  const std::filesystem::path state_dir = config->state_dir;
  if (auto made = store::make_dirs(state_dir); !made) return refuse("state_directory_unusable", made.error());
  const auto lock = StateLock::acquire_for_daemon(state_dir, [&state_dir, &manager](const std::string& holder) {
    log::warn("state_directory_waits", {{"path", state_dir.native()}, {"holder", holder}});
    manager.starting(fmt::format("waiting for {}, which uses the state directory", holder));
  });
  if (!lock && lock.error().code == Code::degraded) return refuse("state_directory_in_use", lock.error(), in_use);
  if (!lock) return refuse("state_directory_unusable", lock.error());
  if (auto fenced = store::confine_below(state_dir); !fenced) return refuse("state_directory_unusable", fenced.error());
  if (auto keys = take_keys(*config); !keys) return refuse("encryption_keys_unusable", keys.error());
  const ledger::Paths paths(state_dir, config->store.path_template);
  std::optional<StateLock> stores_lock;  // of agents' folders outside of the state directory
  if (paths.outside()) {
    auto taken = lock_stores(paths.root());
    if (!taken) return refuse("stores_unusable", taken.error(), in_use);
    stores_lock.emplace(std::move(*taken));
  }
  const auto databases = paths.databases();
  if (!databases.empty() && !options.ignore_sqlite) return refuse("sqlite_state", keeps_sqlite(databases));
  auto tokens = auth::Tokens::load(state_dir / "tokens.json");
  if (!tokens) return refuse("tokens_unreadable", tokens.error());
  if (auto read = read_policy(state_dir / "policy.json", *rules); !read)
    return refuse("policy_unreadable", read.error());

  asio::io_context io{1};
  asio::thread_pool disk{disk_threads};
  auto ledger = ledger::Ledger::open(io, disk, *config, std::move(*rules), options.repair);
  if (!ledger) return refuse("cannot_open", ledger.error());
  // Destroyed before the ledger, also when the start fails half-way: the disk threads work for the ledger.
  const std::shared_ptr<void> disk_joiner(nullptr, [&disk](void*) { disk.join(); });
  const std::string& secret = (*ledger)->parts().env.secret;
  auth::Tickets tickets(state_dir / "journal" / "tickets", secret, **tokens);
  if (auto read = tickets.load(); !read) log::warn("tickets_unreadable", {{"error", read.error().detail}});
  auth::LoginCookies cookies(state_dir / "journal" / "logouts", secret);
  if (auto read = cookies.load((*ledger)->parts().commits.clock().now()); !read)
    log::warn("logouts_unreadable", {{"error", read.error().detail}, {"next", "every browser has to log in again"}});

  Daemon daemon(options, *config, io, disk, **ledger, **tokens, tickets, cookies, secret, manager);
  if (auto listening = daemon.listen(); !listening) return refuse("cannot_listen", listening.error());
  // Made last, so that a start that fails leaves no token behind that was shown to nobody.
  auto first = auth::make_first_token(**tokens, admin_token_path(), state_dir, store::unix_ms());
  if (!first) return refuse("no_admin_token", first.error());
  if (*first) show_first_token(**first);
  daemon.run();
  disk.join();
  if (auto saved = (*tokens)->save(); !saved) log::warn("tokens_not_saved", {{"error", saved.error().detail}});
  return 0;
}

}  // namespace sessiond::serve
