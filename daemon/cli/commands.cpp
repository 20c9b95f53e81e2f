#include "daemon/cli/commands.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/cli/help.hpp"
#include "daemon/cli/import_sources.hpp"
#include "daemon/cli/option_checks.hpp"
#include "daemon/cli/parent.hpp"

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

void add_serve(Parent program) {
  auto [serve, options] = program.add<serve::ServeOptions>("serve", "Start the daemon", help::serve);
  serve.add_option("--listen", options.listen, "A TCP address, instead of listen.tcp: 127.0.0.1:7433")
      ->type_name("ADDRESS")
      ->check(not_empty());
  serve.add_flag("--repair", options.repair,
                 "Put damaged parts of the journal aside and continue without them, in a new epoch");
  serve.add_flag("--demo", options.demo, "Show a believable day in a state directory that is gone afterwards");
  serve.add_flag("--ignore-sqlite", options.ignore_sqlite,
                 "Serve beside databases of OpenClaw 2026.8 and later; their sessions are not served");
}

void add_token(Parent program) {
  const Parent token = program.group("token", "Make, list, rotate and revoke API tokens", help::token);
  auto [create, options] = token.add<TokenCreate>("create", "Make a token and print it", help::token_create);
  auth::NewToken& wish = options.wish;
  create.add_option("--role", wish.role, "admin, operator, bridge, runner, viewer, metrics or session")
      ->type_name("ROLE")
      ->required()
      ->check(CLI::IsMember({"admin", "operator", "bridge", "runner", "viewer", "metrics", "session"}).description(""));
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
  create
      .add_option("--key", wish.key, "For role session: the session. The token sees it and the sessions that it spawns")
      ->type_name("KEY")
      ->check(not_empty());
  create
      .add_option("--permission", wish.permissions,
                  "approve, hook: it may answer approvals, calls of hooks, whatever its role")
      ->type_name("PERMISSION")
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"approve", "hook"}).description(""));
  create.add_option("--note", wish.note, "The purpose of the token")->type_name("TEXT");
  create.add_option("--expires-at", wish.expires_at, "When it expires, in ms since the epoch; never by default")
      ->type_name("MS")
      ->transform(moment());
  auto [list, list_options] = token.add<TokenList>("list", "List the tokens", help::token_list);
  list.add_flag("--json", list_options.json, "As JSON, {\"data\":[…]}");
  auto [rotate, rotate_options] =
      token.add<TokenRotate>("rotate", "Make a token that replaces another, and print it", help::token_rotate);
  rotate.add_option("id", rotate_options.id, "The old token's id")->type_name("ID")->required();
  rotate.add_option("--overlap", rotate_options.overlap_ms, "How long the old one stays valid: 0, 90s, 15m, 1h, 7d")
      ->type_name("TIME")
      ->default_str("1h")
      ->transform(overlap());
  auto [revoke, revoke_options] = token.add<TokenRevoke>("revoke", "Revoke a token", help::token_revoke);
  revoke.add_option("id", revoke_options.id, "The token's id")->type_name("ID")->required();
}

void add_config(Parent program) {
  auto [config, options] = program.add<ConfigOptions>("config", "Show or check the configuration", help::config);
  auto* check = config.add_flag("--check", options.check, "Check the configuration and list every fault");
  config.add_flag("--print-defaults", options.print_defaults, "Print the annotated defaults, as a file to begin with")
      ->excludes(check);
}

void add_doctor(Parent program) {
  auto [doctor, options] =
      program.add<DoctorCommand>("doctor", "Find damage in the state directory, and repair it", help::doctor);
  doctor.add_flag("--json", options.json, "As JSON, {\"status\",\"repairs\":[…],\"findings\":[…]}");
  doctor.add_flag("--repair", options.repair,
                  "Repair what can be repaired safely, keeping what is removed; only while no daemon runs");
  doctor.add_flag(
      "--migrate", options.migrate,
      "Rewrite transcripts of version 1 and 2 as version 3, keeping the old files; only while no daemon runs");
}

void add_backup(Parent program) {
  auto [backup, backup_options] =
      program.add<BackupCommand>("backup", "Copy all sessions, also while the daemon runs", help::backup);
  backup
      .add_option("to", backup_options.to, "The directory to create, FILE.tar for an archive, or - for one on stdout")
      ->type_name("DIR|FILE.tar|-")
      ->required()
      ->transform(absolute());
  auto [restore, restore_options] =
      program.add<RestoreCommand>("restore", "Replace the state directory by a backup", help::restore);
  restore.add_option("from", restore_options.from, "A backup directory, a tar archive, or - for one on stdin")
      ->type_name("DIR|FILE|-")
      ->required()
      ->transform(absolute());
  restore.add_flag("--force", restore_options.force, "Move a state directory that is not empty aside");
  restore.add_flag("--keep-tokens", restore_options.keep_tokens,
                   "Keep the present tokens.json, so that no revoked token comes back");
}

std::pair<CLI::App&, SessionsChange&> add_change(Parent sessions, SessionsChange::What what, const char* name,
                                                 const char* about, const char* footer) {
  auto [command, options] = sessions.add<SessionsChange>(name, about, footer);
  options.what = what;
  add_session(command, options.session);
  return {command, options};
}

void add_sessions(Parent program) {
  const Parent sessions =
      program.group("sessions", "List, show and change sessions", std::string(help::sessions) + help::asked_exit_codes);
  auto [list, listed] = sessions.add<SessionsList>("list", "List sessions, the newest first", help::sessions_list);
  add_agent(list, listed.agent, "Only this agent; all agents by default");
  list.add_option("--channel", listed.channel, "Only this channel")->type_name("CHANNEL")->check(not_empty());
  list.add_option("--search", listed.text, "Only sessions whose key, id, name or label has this")->type_name("TEXT");
  list.add_flag("--archived", listed.archived, "Only archived sessions");
  list.add_option("--limit", listed.limit, "How many; 50 by default")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000).description(""));
  auto [show, shown] = sessions.add<SessionsShow>("show", "Show a session's fields", help::sessions_show);
  add_session(show, shown.session);
  using What = SessionsChange::What;
  add_change(sessions, What::reset, "reset", "Begin a session anew; its transcript is archived", help::sessions_reset);
  add_change(sessions, What::archive, "archive", "Archive a session: it takes no messages until it is unarchived",
             help::sessions_archive);
  add_change(sessions, What::unarchive, "unarchive", "Open an archived session again", help::sessions_archive);
  auto [remove, removed] = add_change(sessions, What::remove, "delete", "Delete a session; its transcript is archived",
                                      help::sessions_delete);
  remove.add_flag("--purge", removed.purge, "Destroy its transcript, too");
  auto [restore, restored] = add_change(sessions, What::restore, "restore",
                                        "Bring back a deleted session from its archive", help::sessions_restore);
  restore.add_option("--archive", restored.archived, "Which of its archives; the newest by default")
      ->type_name("NAME")
      ->check(not_empty());
  auto [prune, pruned] =
      sessions.add<SessionsPrune>("prune", "List what is beyond a limit, or take it out", help::sessions_prune);
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
  prune.add_flag("--yes", pruned.yes, "Take them out, instead of only naming them");
}

void add_locks(Parent program) {
  auto [locks, options] = program.add<LocksCommand>("locks", "Show or remove locks that programs share", help::locks);
  CLI::Option* evict = locks.add_option("--evict", options.evict, "Remove the lock of this agent's store")
                           ->type_name("AGENT")
                           ->check(not_empty());
  locks.add_option("--transcript", options.transcript, "Remove that of this transcript instead")
      ->type_name("FILE")
      ->check(not_empty())
      ->needs(evict);
}

void add_paths(Parent program) {
  auto [paths, options] = program.add<PathsCommand>("paths", "Print where files are", help::paths);
  add_agent(paths, options.agent, "The agent; main by default");
  CLI::Option* session = paths.add_option("--session", options.session, "A session's key or id: print its transcript")
                             ->type_name("KEY")
                             ->check(not_empty());
  paths.add_option("--topic", options.topic, "A topic of the session: print its transcript, too")
      ->type_name("TOPIC")
      ->check(not_empty())
      ->needs(session);
}

void add_search(Parent program) {
  auto [search, options] = program.add<SearchCommand>("search", "Find what was said, the newest first", help::search);
  search.add_option("words", options.words, "Words that must all occur in one text")->type_name("WORD")->required();
  add_agent(search, options.agent, "Only this agent; all agents by default");
  search.add_option("--key", options.key, "Only this session")->type_name("KEY")->check(not_empty());
  search.add_option("--channel", options.channel, "Only this channel")->type_name("CHANNEL")->check(not_empty());
  search.add_option("--role", options.role, "Only what this one said: user, assistant or tool; or note, name, label")
      ->check(CLI::IsMember({"user", "assistant", "tool", "note", "name", "label"}).description(""));
  search.add_option("--from", options.from, "Only what this person said: an id or a name")
      ->type_name("NAME")
      ->check(not_empty());
  search.add_option("--since", options.within_ms, "Only what is not older: 90d, 12h")
      ->type_name("TIME")
      ->transform(duration());
  search.add_flag("--archived", options.archived, "In archived sessions and transcripts, too");
  search.add_option("--limit", options.limit, "How many; 20 by default")->check(CLI::Range(1, 100));
  search.add_option("--context", options.context, "Messages before and behind each, on a terminal; 1 by default")
      ->check(CLI::Range(0, 50));
}

void add_runs(Parent program) {
  auto [runs, options] = program.add<RunsCommand>("runs", "Show a session's runs, or stop one", help::runs);
  add_session(runs, options.session);
  runs.add_option("--run", options.run_id, "One run; active for the one that is active")
      ->type_name("ID")
      ->check(not_empty());
  runs.add_flag("--abort", options.abort, "Stop the active run, or the waiting one that --run names");
  runs.add_option("--limit", options.limit, "How many, the newest first")->check(CLI::Range(1, 200));
}

void add_approvals(Parent program) {
  auto [approvals, options] =
      program.add<ApprovalsCommand>("approvals", "Show which tools runs ask for, and answer", help::approvals);
  CLI::Option* id =
      approvals.add_option("id", options.id, "The approval to answer")->type_name("ID")->check(not_empty());
  CLI::Option* decision = approvals.add_option("decision", options.decision, "allow, allow-session or deny")
                              ->type_name("ANSWER")
                              ->check(CLI::IsMember({"allow", "allow-session", "deny"}).description(""))
                              ->needs(id);
  id->needs(decision);
  approvals.add_option("--reason", options.reason, "Why; the runner is told")->type_name("TEXT")->needs(id);
  approvals.add_flag("--list", options.list, "Only list them, on a terminal too")->excludes(id);
}

void add_deliveries(Parent program) {
  auto [deliveries, options] =
      program.add<DeliveriesCommand>("deliveries", "Show answers on their way to a channel", help::deliveries);
  CLI::Option* action = deliveries.add_option("action", options.action, "retry or drop")
                            ->check(CLI::IsMember({"retry", "drop"}).description(""));
  CLI::Option* id = deliveries.add_option("id", options.id, "Which one")->type_name("ID")->check(not_empty());
  action->needs(id);
  deliveries.add_option("--status", options.status, "Only pending, leased, sent or failed ones")
      ->check(CLI::IsMember({"pending", "leased", "sent", "failed"}).description(""));
  deliveries.add_option("--channel", options.channel, "Only those of this channel")
      ->type_name("CHANNEL")
      ->check(not_empty());
  deliveries.add_option("--limit", options.limit, "How many, the newest first")->check(CLI::Range(1, 200));
}

void add_context(Parent program) {
  auto [context, options] = program.add<ContextCommand>("context", "Show how full a model's window is", help::context);
  add_session(context, options.session);
  context.add_option("--topic", options.topic, "A topic of the session")->type_name("TOPIC")->check(not_empty());
}

void add_export(Parent program) {
  auto [command, options] = program.add<ExportCommand>(
      "export", "Write a session, or a folder of them, for other programs", help::export_sessions);
  CLI::Option* session =
      command
          .add_option("session", options.what,
                      "The session's key, or its id; with --layout the folder; with --to also KEY* or none: all")
          ->type_name("KEY")
          ->check(not_empty());
  add_agent(command, options.agent, "The agent, where the key does not name it; main by default");
  command
      .add_option("--format", options.format, "json (default), robota, manager, jsonl, relavium-yaml or conversation")
      ->check(CLI::IsMember({"json", "robota", "manager", "jsonl", "relavium-yaml", "conversation"}).description(""));
  CLI::Option* layout = command.add_option("--layout", options.layout, "cli: all sessions of the agent, one file each")
                            ->check(CLI::IsMember({"cli"}).description(""));
  command.add_option("--topic", options.topic, "A topic of the session")
      ->type_name("TOPIC")
      ->check(not_empty())
      ->excludes(layout);
  CLI::Option* out =
      command.add_option("-o,--output", options.out, "The file to write, instead of stdout; with --to the folder")
          ->type_name("FILE")
          ->check(not_empty())
          ->excludes(layout);
  command.add_flag("--entry", options.entry, "With --format jsonl: also its fields and topics, for an import");
  CLI::Option* to = command.add_option("--to", options.to, "As files of another program: claude-code, openclaw")
                        ->check(CLI::IsMember({"claude-code", "openclaw"}).description(""))
                        ->excludes(layout)
                        ->needs(out);
  command.add_option("--cwd", options.cwd, "With --to claude-code: the folder in which it goes on, for all of them")
      ->type_name("DIR")
      ->transform(absolute())
      ->needs(to);
  command.add_flag("--force", options.force, "With --to: replaces files that are there")->needs(to);
  command.parse_complete_callback([session, to] {
    if (to->empty() && session->empty()) throw CLI::RequiredError(session->get_name());
  });
}

std::vector<std::string> source_names() {
  std::vector<std::string> names;
  for (const ImportSource& source : import_sources()) names.emplace_back(source.name);
  return names;
}

void add_import(Parent program) {
  auto [command, options] = program.add<ImportCommand>(
      "import", "Take in sessions of other programs, or of another daemon", help::import_sessions);
  command.add_option("path", options.path, "A file, or a folder of them")
      ->type_name("FILE")
      ->required()
      ->transform(absolute());
  add_agent(command, options.agent, "The agent that gets them all; else the one in each key, or main");
  const auto known = [] { return CLI::IsMember(source_names()).description(""); };
  CLI::Option* format =
      command.add_option("--format", options.format, "json, robota, manager or jsonl; else as the files look")
          ->check(known());
  CLI::Option* layout = command.add_option("--layout", options.layout, "cli: a folder of a command-line agent")
                            ->check(CLI::IsMember({"cli"}).description(""))
                            ->excludes(format);
  command
      .add_option("--from", options.from, "The program whose files they are: a name as for --format, or another one")
      ->check(known())
      ->excludes(format)
      ->excludes(layout);
  command
      .add_option("--if-exists", options.if_exists,
                  "What is done with a session that is there: skip (default), replace, continue")
      ->check(CLI::IsMember({"skip", "replace", "continue"}).description(""));
  command.add_flag("--dry-run", options.dry_run, "Only read, and say what there is");
}

void add_client(CLI::App& command, std::optional<std::string>& client) {
  command.add_option("--client", client, "The name of the program that asks: of the session that it used last")
      ->type_name("NAME")
      ->check(not_empty());
}

void add_last(Parent program) {
  {
    auto [last, options] = program.add<LastCommand>("last", "Print the session that was used last", help::last);
    add_agent(last, options.agent, "The agent; main by default");
    add_client(last, options.client);
  }
  {
    auto [resume, options] = program.add<ResumeCommand>("resume", "Go on with a session", help::resume);
    resume.add_option("session", options.key, "The session's key, or its id; the one that was used last by default")
        ->type_name("KEY")
        ->check(not_empty());
    add_agent(resume, options.agent, "The agent, where the key does not name it; main by default");
    add_client(resume, options.client);
  }
  auto [fork, options] = program.add<ForkCommand>("fork", "Make a session that begins as another one did", help::fork);
  add_session(fork, options.session);
  fork.add_option("--message", options.message, "The last message that is copied; all by default")
      ->type_name("ID")
      ->check(not_empty());
  fork.add_option("--key", options.key, "The key of the new session")->type_name("KEY")->check(not_empty());
  fork.add_option("--name", options.name, "Its name")->type_name("NAME")->check(not_empty());
}

void add_completion(Parent program) {
  auto [completion, options] = program.add<CompletionCommand>(
      "completion", "Print a script that completes commands in a shell", help::completion);
  completion.add_option("shell", options.shell, "bash, zsh or fish")
      ->type_name("SHELL")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""));
}

}  // namespace

void add_commands(CLI::App& program, std::optional<Command>& chosen) {
  const Parent parent{program, chosen};
  add_serve(parent);
  add_token(parent);
  add_config(parent);
  add_doctor(parent);
  add_backup(parent);
  add_sessions(parent);
  add_search(parent);
  add_context(parent);
  add_last(parent);
  add_runs(parent);
  add_approvals(parent);
  add_deliveries(parent);
  add_export(parent);
  add_import(parent);
  add_locks(parent);
  add_paths(parent);
  add_completion(parent);
  parent.add<VersionCommand>("version", "Print the version", help::version);
}

}  // namespace sessiond::cli
