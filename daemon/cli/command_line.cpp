#include "daemon/cli/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "config/similar.hpp"
#include "daemon/cli/help.hpp"
#include "daemon/cli/option_checks.hpp"

namespace sessiond::cli {
namespace {

// sessiond config, which is one of three commands.
struct ConfigOptions {
  Where where{};
  bool check = false;
  bool print_defaults = false;

  explicit operator Command() const {
    if (print_defaults) return ConfigDefaults{};
    if (check) return ConfigCheck{where};
    return ConfigShow{where};
  }
};

class CommandLine {
 public:
  CommandLine() {
    app_.require_subcommand(1);
    app_.set_help_flag("-h,--help", "Print this help");
    app_.set_version_flag("--version", std::string("sessiond ") + SESSIOND_VERSION);
    app_.footer(help::program);
    add_serve();
    add_token();
    add_config();
    add_doctor();
    add_backup();
    add_sessions();
    add_locks();
    add_paths();
    auto [completion, options] = add<CompletionCommand>(
        app_, "completion", "Print a script that completes commands in a shell", help::completion);
    completion.add_option("shell", options.shell, "bash, zsh or fish")
        ->type_name("SHELL")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""));
    add<VersionCommand>(app_, "version", "Print the version", help::version);
  }

  std::variant<Command, Answered> parse(std::span<const std::string> arguments) {
    if (!arguments.empty() && arguments.front() == "help") return help_of(arguments.subspan(1));
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
    try {
      app_.parse(std::move(reversed));
    } catch (const CLI::ParseError& error) {
      return answer(error, arguments);
    }
    return std::move(*chosen_);
  }

  CommandWords words() { return words_of(app_); }

 private:
  static CommandWords words_of(CLI::App& command) {
    CommandWords words{.name = command.get_name(), .about = command.get_description()};
    for (const CLI::Option* option : command.get_options()) {
      if (option->get_lnames().empty()) continue;
      const std::string type = option->get_type_name();
      words.options.push_back({.name = "--" + option->get_lnames().front(),
                               .about = option->get_description(),
                               .takes_value = option->get_items_expected_max() > 0 && !type.empty(),
                               .takes_path = type == "FILE" || type == "DIR"});
    }
    for (CLI::App* below : command.get_subcommands([](CLI::App*) { return true; }))
      words.subcommands.push_back(words_of(*below));
    return words;
  }

  // "help token create" is "token create --help".
  std::variant<Command, Answered> help_of(std::span<const std::string> words) {
    CLI::App* at = &app_;
    std::vector<std::string> asked;
    for (const std::string& word : words) {
      if (word.starts_with('-')) continue;  // help --help
      const auto named = at->get_subcommands([&word](const CLI::App* each) { return each->get_name() == word; });
      if (named.empty()) return unknown(*at, word);
      at = named.front();
      asked.push_back(word);
    }
    asked.emplace_back("--help");
    return CommandLine().parse(asked);
  }

  static void add_places(CLI::App& command, std::optional<std::string>& config, std::optional<std::string>& state_dir) {
    command.add_option("--config", config, "The configuration file")->type_name("FILE")->check(not_empty());
    command.add_option("--state-dir", state_dir, "The state directory, instead of stateDir")
        ->type_name("DIR")
        ->transform(absolute());
  }

  // Adds a subcommand. Its options fill an `Options`, which becomes the chosen command when it is parsed.
  template <class Options>
  std::pair<CLI::App&, Options&> add(CLI::App& parent, const char* name, const char* about, const char* footer) {
    CLI::App& command = *parent.add_subcommand(name, about);
    command.footer(footer);
    const auto options = std::make_shared<Options>();
    command.callback([this, options] { chosen_ = Command(*options); });
    if constexpr (requires { options->where; }) add_places(command, options->where.config, options->where.state_dir);
    if constexpr (requires { options->asked; }) {
      add_asked(command, options->asked);
      command.footer(std::string(footer) + help::asked_exit_codes);
    }
    if constexpr (requires { options->listen; }) add_places(command, options->config, options->state_dir);
    return {command, *options};
  }

  void add_serve() {
    auto [serve, options] = add<serve::ServeOptions>(app_, "serve", "Start the daemon", help::serve);
    serve.add_option("--listen", options.listen, "A TCP address, instead of listen.tcp: 127.0.0.1:7433")
        ->type_name("ADDRESS")
        ->check(not_empty());
    serve.add_flag("--repair", options.repair,
                   "Put damaged parts of the journal aside and continue without them, in a new epoch");
    serve.add_flag("--ignore-sqlite", options.ignore_sqlite,
                   "Serve beside databases of OpenClaw 2026.8 and later; their sessions are not served");
  }

  void add_token() {
    CLI::App& token = *app_.add_subcommand("token", "Make, list, rotate and revoke API tokens");
    token.require_subcommand(1);
    token.footer(help::token);
    auto [create, options] = add<TokenCreate>(token, "create", "Make a token and print it", help::token_create);
    auth::NewToken& wish = options.wish;
    create.add_option("--role", wish.role, "admin, operator, bridge, runner, viewer, metrics or session")
        ->type_name("ROLE")
        ->required()
        ->check(
            CLI::IsMember({"admin", "operator", "bridge", "runner", "viewer", "metrics", "session"}).description(""));
    create.add_option("--agent", wish.agents, "Only this agent (repeat for more); all agents by default")
        ->type_name("AGENT")
        ->allow_extra_args(false)
        ->check(not_empty());
    create.add_option("--key-prefix", wish.key_prefix, "Only sessions whose keys begin with this")
        ->type_name("PREFIX")
        ->check(not_empty());
    create.add_option("--channel", wish.channel, "Only sessions of this channel")
        ->type_name("CHANNEL")
        ->check(not_empty());
    create.add_option("--key", wish.key, "Of role session: the session, which with all it spawns is all that it sees")
        ->type_name("KEY")
        ->check(not_empty());
    create.add_option("--note", wish.note, "The purpose of the token")->type_name("TEXT");
    create.add_option("--expires-at", wish.expires_at, "When it expires, in ms since the epoch; never by default")
        ->type_name("MS")
        ->transform(moment());
    auto [list, list_options] = add<TokenList>(token, "list", "List the tokens", help::token_list);
    list.add_flag("--json", list_options.json, "As JSON, {\"data\":[…]}");
    auto [rotate, rotate_options] =
        add<TokenRotate>(token, "rotate", "Make a token that replaces another, and print it", help::token_rotate);
    rotate.add_option("id", rotate_options.id, "The old token's id")->type_name("ID")->required();
    rotate.add_option("--overlap", rotate_options.overlap_ms, "How long the old one stays valid: 0, 90s, 15m, 1h, 7d")
        ->type_name("TIME")
        ->default_str("1h")
        ->transform(overlap());
    auto [revoke, revoke_options] = add<TokenRevoke>(token, "revoke", "Revoke a token", help::token_revoke);
    revoke.add_option("id", revoke_options.id, "The token's id")->type_name("ID")->required();
  }

  void add_config() {
    auto [config, options] = add<ConfigOptions>(app_, "config", "Show or check the configuration", help::config);
    auto* check = config.add_flag("--check", options.check, "Check the configuration and list every fault");
    config
        .add_flag("--print-defaults", options.print_defaults, "Print the annotated defaults, as a file to begin with")
        ->excludes(check);
  }

  void add_doctor() {
    auto [doctor, options] =
        add<DoctorCommand>(app_, "doctor", "Find damage in the state directory, and repair it", help::doctor);
    doctor.add_flag("--json", options.json, "As JSON, {\"status\",\"repairs\":[…],\"findings\":[…]}");
    doctor.add_flag("--repair", options.repair,
                    "Repair what can be repaired safely, keeping what is removed; only while no daemon runs");
    doctor.add_flag(
        "--migrate", options.migrate,
        "Rewrite transcripts of version 1 and 2 as version 3, keeping the old files; only while no daemon runs");
  }

  void add_backup() {
    auto [backup, backup_options] =
        add<BackupCommand>(app_, "backup", "Copy all sessions, also while the daemon runs", help::backup);
    backup.add_option("to", backup_options.to, "The directory to create, or - for a tar archive on stdout")
        ->type_name("DIR|-")
        ->required()
        ->transform(absolute());
    auto [restore, restore_options] =
        add<RestoreCommand>(app_, "restore", "Replace the state directory by a backup", help::restore);
    restore.add_option("from", restore_options.from, "A backup directory, a tar archive, or - for one on stdin")
        ->type_name("DIR|FILE|-")
        ->required()
        ->transform(absolute());
    restore.add_flag("--force", restore_options.force, "Move a state directory that is not empty aside");
    restore.add_flag("--keep-tokens", restore_options.keep_tokens,
                     "Keep the present tokens.json, so that no revoked token comes back");
  }

  static void add_asked(CLI::App& command, Asked& asked) {
    add_places(command, asked.where.config, asked.where.state_dir);
    command.add_option("--url", asked.url, "A daemon elsewhere, instead of this user's socket: http://127.0.0.1:7433")
        ->type_name("URL")
        ->check(not_empty());
    command.add_option("--token-file", asked.token_file, "The file with the token for --url")
        ->type_name("FILE")
        ->check(not_empty())
        ->needs("--url");
    command.add_flag("--json", asked.json, "Print the daemon's answer");
  }
  static void add_session(CLI::App& command, NamedSession& session) {
    command.add_option("session", session.key, "The session's key, or its id")
        ->type_name("KEY")
        ->required()
        ->check(not_empty());
    add_agent(command, session.agent, "The agent, where the key does not name it; main by default");
  }
  static void add_agent(CLI::App& command, std::optional<std::string>& agent, const char* about) {
    command.add_option("--agent", agent, about)->type_name("AGENT")->check(not_empty());
  }

  void add_sessions() {
    CLI::App& sessions = *app_.add_subcommand("sessions", "List, show and change sessions");
    sessions.require_subcommand(1);
    sessions.footer(std::string(help::sessions) + help::asked_exit_codes);
    auto [list, listed] = add<SessionsList>(sessions, "list", "List sessions, the newest first", help::sessions_list);
    add_agent(list, listed.agent, "Only this agent; all agents by default");
    list.add_option("--channel", listed.channel, "Only this channel")->type_name("CHANNEL")->check(not_empty());
    list.add_option("--search", listed.text, "Only sessions whose key, id, name or label has this")->type_name("TEXT");
    list.add_flag("--archived", listed.archived, "Only archived sessions");
    list.add_option("--limit", listed.limit, "How many; 50 by default")
        ->type_name("N")
        ->check(CLI::Range(1, 1'000'000).description(""));
    auto [show, shown] = add<SessionsShow>(sessions, "show", "Show a session's fields", help::sessions_show);
    add_session(show, shown.session);
    using What = SessionsChange::What;
    add_change(sessions, What::reset, "reset", "Begin a session anew; its transcript is archived",
               help::sessions_reset);
    add_change(sessions, What::archive, "archive", "Rest a session: it takes no messages", help::sessions_archive);
    add_change(sessions, What::unarchive, "unarchive", "Open an archived session again", help::sessions_archive);
    auto [remove, removed] = add_change(sessions, What::remove, "delete",
                                        "Delete a session; its transcript is archived", help::sessions_delete);
    remove.add_flag("--purge", removed.purge, "Destroy its transcript, too");
    auto [restore, restored] = add_change(sessions, What::restore, "restore",
                                          "Bring back a deleted session from its archive", help::sessions_restore);
    restore.add_option("--archive", restored.archived, "Of its archives this one; the newest by default")
        ->type_name("NAME")
        ->check(not_empty());
    auto [prune, pruned] =
        add<SessionsPrune>(sessions, "prune", "Name what is beyond a limit, or take it out", help::sessions_prune);
    add_agent(prune, pruned.agent, "Only this agent; all agents by default");
    prune.add_option("--keep", pruned.keep, "How many sessions an agent keeps")
        ->type_name("N")
        ->check(CLI::NonNegativeNumber.description(""));
    prune.add_option("--older-than", pruned.older_than_ms, "Time without a word from a user: 90d, 12h")
        ->type_name("TIME")
        ->transform(duration());
    prune
        .add_option("--max-disk-bytes", pruned.max_disk_bytes,
                    "Disk space of an agent; beyond it archives go, then sessions")
        ->type_name("BYTES")
        ->check(CLI::NonNegativeNumber.description(""));
    prune.add_flag("--yes", pruned.yes, "Do it, instead of naming them");
  }
  std::pair<CLI::App&, SessionsChange&> add_change(CLI::App& sessions, SessionsChange::What what, const char* name,
                                                   const char* about, const char* footer) {
    auto [command, options] = add<SessionsChange>(sessions, name, about, footer);
    options.what = what;
    add_session(command, options.session);
    return {command, options};
  }

  void add_locks() {
    auto [locks, options] = add<LocksCommand>(app_, "locks", "Show or remove locks that programs share", help::locks);
    CLI::Option* evict = locks.add_option("--evict", options.evict, "Remove the lock of this agent's store")
                             ->type_name("AGENT")
                             ->check(not_empty());
    locks.add_option("--transcript", options.transcript, "Remove that of this transcript instead")
        ->type_name("FILE")
        ->check(not_empty())
        ->needs(evict);
  }

  void add_paths() {
    auto [paths, options] = add<PathsCommand>(app_, "paths", "Print where files are", help::paths);
    add_agent(paths, options.agent, "The agent; main by default");
    CLI::Option* session =
        paths.add_option("--session", options.session, "A session's key or id: print its transcript")
            ->type_name("KEY")
            ->check(not_empty());
    paths.add_option("--topic", options.topic, "A topic of the session: print its transcript, too")
        ->type_name("TOPIC")
        ->check(not_empty())
        ->needs(session);
  }

  CLI::App* deepest() {
    CLI::App* at = &app_;
    while (!at->get_subcommands().empty()) at = at->get_subcommands().back();
    return at;
  }

  Answered answer(const CLI::ParseError& error, std::span<const std::string> arguments) {
    if (error.get_exit_code() == 0) {
      std::ostringstream out;
      std::ostringstream err;
      app_.exit(error, out, err);
      return {.exit_code = 0, .out = out.str(), .err = err.str()};
    }
    CLI::App* at = deepest();
    // CLI11 only says that a subcommand is missing.
    if (error.get_name() == "RequiredError" && at->get_subcommands().empty() && !at->remaining().empty())
      return unknown(*at, at->remaining().front());
    return mistake(*at, error.what(), hint(*at, arguments));
  }

  Answered unknown(CLI::App& at, const std::string& word) const {
    return mistake(at, fmt::format("there is no command {}", word), hint(at, {&word, 1}));
  }

  Answered mistake(CLI::App& at, std::string_view what, std::string_view hint) const {
    const std::string path = &at == &app_ ? "sessiond" : full_name(at);
    // For these commands, exit code 2 is a statement about the files.
    const int code = at.get_name() == "doctor" || at.get_name() == "restore" ? 64 : 2;
    return {.exit_code = code, .err = fmt::format("{}: {}\n{}try: {} --help\n", path, what, hint, path)};
  }

  std::string full_name(const CLI::App& command) const {
    std::string name = command.get_name();
    for (const CLI::App* at = command.get_parent(); at != nullptr && at != &app_; at = at->get_parent())
      name = at->get_name() + " " + name;
    return "sessiond " + name;
  }

  // Suggests a known word for the first unknown one.
  static std::string hint(CLI::App& at, std::span<const std::string> arguments) {
    std::vector<std::string> known;
    for (const CLI::App* each : at.get_subcommands([](CLI::App*) { return true; })) known.push_back(each->get_name());
    for (const CLI::Option* each : at.get_options())
      for (const std::string& name : each->get_lnames()) known.push_back("--" + name);
    for (const std::string& argument : arguments) {
      const std::string word = argument.substr(0, argument.find('='));
      if (word == at.get_name() || std::ranges::find(known, word) != known.end()) continue;
      if (const std::string near = config::nearest(word, known); !near.empty())
        return fmt::format("did you mean {}?\n", near);
    }
    return {};
  }

  CLI::App app_{"sessiond keeps the sessions of AI agents: one daemon, an HTTP API, files that you can read.",
                "sessiond"};
  std::optional<Command> chosen_{};
};

int run(const serve::ServeOptions& options) { return serve::serve(options); }

int run(const VersionCommand&) {
  fmt::print("sessiond {}\n", SESSIOND_VERSION);
  return 0;
}

}  // namespace

CommandWords command_words() { return CommandLine().words(); }

std::variant<Command, Answered> parse_command_line(std::span<const std::string> arguments) {
  return CommandLine().parse(arguments);
}

int run_command_line(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const auto parsed = parse_command_line(arguments);
  int code = 0;
  if (const auto* answered = std::get_if<Answered>(&parsed)) {
    fmt::print("{}", answered->out);
    fmt::print(stderr, "{}", answered->err);
    code = answered->exit_code;
  } else {
    code = std::visit([](const auto& command) { return run(command); }, std::get<Command>(parsed));
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fmt::print(stderr, "sessiond: stdout could not be written\n");
    return code == 0 ? 1 : code;
  }
  return code;
}

}  // namespace sessiond::cli
