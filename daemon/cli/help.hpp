// What --help says beside the options: examples, files, exit codes.
#pragma once

namespace sessiond::help {

inline constexpr const char* program = R"(Examples:
  sessiond serve                                  start the daemon (state in ~/.sessiond)
  sessiond config --print-defaults > ~/.config/sessiond/sessiond.json
  sessiond config --check                         all faults of the configuration
  sessiond token create --role bridge --channel slack
  curl --unix-socket ~/.sessiond/sessiond.sock http://localhost/v1/sessions
  sessiond doctor                                 what is wrong with the files, and what to do

Files:
  ~/.config/sessiond/sessiond.json   configuration (--config, $SESSIOND_CONFIG, $XDG_CONFIG_HOME)
  ~/.config/sessiond/admin.token     the first admin token, made when the daemon first starts
  ~/.sessiond/                       everything the daemon keeps (--state-dir, stateDir)
  ~/.sessiond/sessiond.sock          the socket for this user: no token needed

Exit codes:
  0 done   1 failed   2 wrong usage   3 the state directory is in use (serve)

sessiond COMMAND --help tells more of each command.)";

inline constexpr const char* serve = R"(Runs in the foreground and logs to stderr; systemd or a container starts it.
SIGTERM drains and ends it within 10 s, SIGHUP reads configuration and tokens again.

Examples:
  sessiond serve
  sessiond serve --state-dir ~/.openclaw          serve an existing OpenClaw tree
  sessiond serve --repair                         once, when the journal is damaged: go on without what is lost

Exit codes:
  0 ended by a signal   1 could not start   2 wrong usage   3 the state directory is in use by another daemon)";

inline constexpr const char* token =
    R"(Talks to the running daemon over its socket; without one, tokens.json is written directly.
Only the SHA-256 of a token is ever stored.

Roles:
  admin      everything            bridge    inbound, outbound, read, events
  operator   read, write, upkeep   runner    what an agent's run needs
  viewer     read and events       metrics   /metrics only)";

inline constexpr const char* token_create = R"(Prints the token alone on stdout. It is shown this once.

Examples:
  sessiond token create --role viewer --note "dashboard of ops"
  TOKEN=$(sessiond token create --role bridge --agent main --channel slack)
  sessiond token create --role viewer --key-prefix agent:main:slack: --expires-at $(date -d '+30 days' +%s000)

Exit codes:
  0 made   1 failed   2 wrong usage)";

inline constexpr const char* token_list = R"(Times are UTC. The tokens themselves are not known any more.

Exit codes:
  0 listed   1 failed   2 wrong usage)";

inline constexpr const char* token_revoke = R"(The token is refused from now on; its streams end within a second.

Example:
  sessiond token revoke 3k9x0q2a                  ids: sessiond token list, or the part between the _ of a token

Exit codes:
  0 revoked   1 no such token, or failed   2 wrong usage)";

inline constexpr const char* config = R"(Without an option: the effective configuration as one line of JSON on stdout,
and on stderr where it comes from.

Examples:
  sessiond config --check --config /etc/sessiond/sessiond.json
  sessiond config --print-defaults                every key with its default, its range and what it is for
  sessiond config | jq .listen

Looked for in this order: --config, $SESSIOND_CONFIG, $XDG_CONFIG_HOME/sessiond/sessiond.json
(~/.config/sessiond/sessiond.json); else the defaults hold.

Exit codes:
  0 fine   1 faults, each as "file: pointer: detail" on stderr   2 wrong usage)";

inline constexpr const char* doctor = R"(Only looks: changes nothing, takes no lock, and may run beside the daemon.
Reads all transcripts and the journal, so it takes a while on a large store.

Examples:
  sessiond doctor
  sessiond doctor --state-dir ~/.openclaw         before sessiond serves it
  sessiond doctor --json | jq '.findings[] | select(.level != "ok")'

Exit codes:
  0 all is well   1 warnings   2 errors (and wrong usage))";

}  // namespace sessiond::help
