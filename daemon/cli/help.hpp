// What --help says beside the options: examples, files, exit codes.
#pragma once

namespace sessiond::help {

inline constexpr const char* program = R"(Examples:
  sessiond serve                                  start the daemon (state in ~/.sessiond)
  sessiond help token create                      what sessiond token create --help says
  sessiond config --print-defaults > ~/.config/sessiond/sessiond.json
  sessiond config --check                         all faults of the configuration
  sessiond token create --role bridge --channel slack
  curl --unix-socket ~/.sessiond/sessiond.sock http://localhost/v1/sessions
  sessiond doctor                                 what is wrong with the files, and what to do
  sessiond backup /backups/$(date -I)             copy everything while the daemon runs

Files:
  ~/.config/sessiond/sessiond.json   configuration (--config, $SESSIOND_CONFIG, $XDG_CONFIG_HOME)
  ~/.config/sessiond/admin.token     the first admin token, made when the daemon first starts
  ~/.sessiond/                       everything the daemon keeps (--state-dir, $SESSIOND_STATE_DIR, stateDir)
  ~/.sessiond/sessiond.sock          the socket for this user: no token needed

Exit codes:
  0 done   1 failed   2 wrong usage   3 the state directory is in use
  doctor and restore have more: sessiond help doctor, sessiond help restore

sessiond COMMAND --help tells more of each command.)";

inline constexpr const char* version = R"(GET /version tells that of a running daemon.

Exit codes:
  0 printed   1 stdout could not be written   2 wrong usage)";

inline constexpr const char* serve = R"(Runs in the foreground and logs to stderr; systemd or a container starts it.
SIGTERM drains and ends it within 10 s, SIGHUP reads configuration and tokens again.

Examples:
  sessiond serve
  sessiond serve --state-dir ~/.openclaw          serve an existing OpenClaw tree
  sessiond serve --listen 127.0.0.1:8080          on another address than listen.tcp says
  sessiond serve --repair                         once, when the journal is damaged: go on without what is lost
  sessiond serve --ignore-sqlite                  beside databases of OpenClaw 2026.8, whose sessions it does not see

Exit codes:
  0 ended by a signal   1 could not start   2 wrong usage   3 another daemon has the state directory
It waits for the end of other commands that have it, such as a backup, and says which.)";

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

inline constexpr const char* token_rotate =
    R"(Prints a new token with the role, scope, note and expiry of an old one, which stays good for the overlap:
time to put the new one in its place. With --overlap 0 the old one is revoked at once.

Examples:
  sessiond token rotate 3k9x0q2a                  both are good for an hour
  TOKEN=$(sessiond token rotate 3k9x0q2a --overlap 1d)
  sessiond token rotate 3k9x0q2a --overlap 0      it was seen by somebody

Exit codes:
  0 rotated   1 no such token, or failed   2 wrong usage)";

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

inline constexpr const char* doctor =
    R"(Without --repair and --migrate it only looks: changes nothing, takes no lock, and may run beside
the daemon (over HTTP: POST /v1/admin/doctor). Reads all transcripts and the journal, so it takes a
while on a large store.

--repair settles, saying each step: modes (0600, 0700), temporary files that were left, locks whose
holder is gone, torn or unended last lines of transcripts, a damaged sessions.json (rebuilt from an
earlier generation and the journal) and a damaged journal (as serve --repair). Nothing is destroyed:
what is taken away lies beside it (.torn., .corrupt., .damaged.) or in journal/kept/<time>.
--migrate keeps ids and order of all entries; archived transcripts stay as they are.
Both may be interrupted and run again; a second run finds nothing left to do.

Examples:
  sessiond doctor
  sessiond doctor --state-dir ~/.openclaw         before sessiond serves it
  sessiond doctor --json | jq '.findings[] | select(.level != "ok")'
  sessiond doctor --repair --json | jq '.repairs[]'

Exit codes:
  of what is found after repairs: 0 all is well   1 warnings   2 errors
  3 nothing was looked at: the state directory is in use (--repair, --migrate)   64 wrong usage)";

inline constexpr const char* backup =
    R"(One consistent state: everything that was acknowledged before, each message once, nothing by half, while
the daemon goes on serving. Without a daemon the files are copied under its lock.
It holds the journal, every agent's sessions folder with its archives, policy.json and tokens.json; of an
OpenClaw tree nothing else. The directory is laid out like a state directory, with a MANIFEST.json that is
written last: without it the backup is not whole, and restore refuses it.

Examples:
  sessiond backup /backups/$(date -I)
  sessiond doctor --state-dir /backups/2026-03-01 check it
  sessiond backup - | zstd > sessions.tar.zst     the whole of it in a pipe: set -o pipefail
  ssh host sessiond backup - > host.tar
  curl -X POST -H "Authorization: Bearer $TOKEN" http://localhost:7433/v1/admin/backup > sessions.tar

Exit codes:
  0 done and whole   1 failed: what is there is not whole   2 wrong usage)";

inline constexpr const char* restore =
    R"(Stop the daemon first. The backup is unpacked beside the state directory, every file is compared with
MANIFEST.json, what the journal has and the files have not is put into them, and then both directories are
exchanged in one step. Subscribers that resume are told to resync (stream.gap, reason epoch).
At the end the doctor looks at it and says what it found.

Examples:
  sessiond restore /backups/2026-03-01
  sessiond restore /backups/2026-03-01 --force    keeps what was there as <state dir>.before-restore.<time>
  sessiond restore /backups/2026-03-01 --force --keep-tokens    and its tokens: none that was revoked comes back
  zstdcat sessions.tar.zst | sessiond restore - --state-dir /srv/sessiond

Exit codes:
  0 restored, all is well   1 restored, the doctor warns   4 restored, the doctor found errors
  2 not restored   3 not restored: the state directory is in use   64 wrong usage)";

}  // namespace sessiond::help
