// The text that --help prints after the options: examples, files, exit codes.
#pragma once

namespace sessiond::help {

inline constexpr const char* program = R"(Examples:
  sessiond serve                                  start the daemon (state in ~/.sessiond)
  sessiond help token create                      the same as sessiond token create --help
  sessiond config --print-defaults > ~/.config/sessiond/sessiond.json
  sessiond config --check                         check the configuration, and list all faults
  sessiond token create --role bridge --channel slack
  curl --unix-socket ~/.sessiond/sessiond.sock http://localhost/v1/sessions
  sessiond sessions list                          the newest sessions
  sessiond doctor                                 find faults in the files, and what to do about them
  sessiond backup /backups/$(date -I)             copy everything while the daemon runs

Files:
  ~/.config/sessiond/sessiond.json   configuration (--config, $SESSIOND_CONFIG, $XDG_CONFIG_HOME)
  ~/.config/sessiond/admin.token     the first admin token, made at the daemon's first start
  ~/.sessiond/                       everything the daemon keeps (--state-dir, $SESSIOND_STATE_DIR, stateDir)
  ~/.sessiond/sessiond.sock          the socket for this user: no token needed

Exit codes:
  0 done   1 failed   2 wrong usage   3 the state directory is in use
  doctor, restore, sessions, search, context, last, resume, fork, runs, approvals, deliveries, locks and paths have more: sessiond help COMMAND

sessiond COMMAND --help describes a command.)";

inline constexpr const char* version = R"(GET /version returns the version of a running daemon.

Exit codes:
  0 printed   1 stdout could not be written   2 wrong usage)";

inline constexpr const char* serve = R"(Runs in the foreground and logs to stderr; systemd or a container starts it.
SIGTERM stops it within 10 s, after open requests are done. SIGHUP reads configuration and tokens again.

Examples:
  sessiond serve
  sessiond serve --state-dir ~/.openclaw          serve an existing OpenClaw tree
  sessiond serve --demo                           look at the dashboard, with a day in it
  sessiond serve --listen 127.0.0.1:8080          instead of the addresses in listen.tcp
  sessiond serve --repair                         once, when the journal is damaged: continue without the lost events
  sessiond serve --ignore-sqlite                  beside databases of OpenClaw 2026.8; their sessions are not served

Exit codes:
  0 ended by a signal   1 could not start   2 wrong usage   3 another daemon has the state directory
While another command uses the directory, such as a backup, it waits and names that command.)";

inline constexpr const char* token =
    R"(Asks the running daemon over its socket; without a daemon, changes tokens.json directly.
Only the SHA-256 of a token is ever stored.

Roles:
  admin      everything            bridge    inbound, outbound, read, events
  operator   read, write, upkeep   runner    what an agent's run needs
  viewer     read and events       metrics   /metrics only
  session    one session and what it spawned: read, append, spawn)";

inline constexpr const char* token_create = R"(Prints only the token on stdout. It is shown only this once.

Examples:
  sessiond token create --role viewer --note "dashboard of ops"
  TOKEN=$(sessiond token create --role bridge --agent main --channel slack)
  sessiond token create --role session --agent main --key agent:main:slack:direct:u1
  sessiond token create --role viewer --key-prefix agent:main:slack: --expires-at $(date -d '+30 days' +%s000)

Exit codes:
  0 made   1 failed   2 wrong usage)";

inline constexpr const char* token_list = R"(Times are UTC. The tokens themselves are not stored and cannot be shown.

Exit codes:
  0 listed   1 failed   2 wrong usage)";

inline constexpr const char* token_rotate =
    R"(Prints a new token with the role, scope, note and expiry of an old one. The old one stays valid for the
overlap, so that there is time to replace it. With --overlap 0 it is revoked at once.

Examples:
  sessiond token rotate 3k9x0q2a                  both are valid for an hour
  TOKEN=$(sessiond token rotate 3k9x0q2a --overlap 1d)
  sessiond token rotate 3k9x0q2a --overlap 0      after the token has leaked

Exit codes:
  0 rotated   1 no such token, or failed   2 wrong usage)";

inline constexpr const char* token_revoke =
    R"(The daemon refuses the token from now on, and closes its streams within a second.

Example:
  sessiond token revoke 3k9x0q2a                  ids: sessiond token list, or the part between the _ of a token

Exit codes:
  0 revoked   1 no such token, or failed   2 wrong usage)";

inline constexpr const char* config =
    R"(Without an option, prints the effective configuration as one line of JSON on stdout,
and its origin on stderr.

Examples:
  sessiond config --check --config /etc/sessiond/sessiond.json
  sessiond config --print-defaults                every key with its default, range and purpose
  sessiond config | jq .listen

The file is the first of these: --config, $SESSIOND_CONFIG, $XDG_CONFIG_HOME/sessiond/sessiond.json
(~/.config/sessiond/sessiond.json). Without a file, the defaults apply.

Exit codes:
  0 fine   1 faults, each as "file: pointer: detail" on stderr   2 wrong usage)";

// Printed after the text of every command that asks a daemon.
inline constexpr const char* asked_exit_codes = R"(

Exit codes:
  0 done   1 refused, or failed   2 wrong usage   4 not there   5 no daemon answers)";

inline constexpr const char* sessions =
    R"(Asks the running daemon over its socket, or at --url with a token from a file. Times are UTC.
Every command takes --json, which prints the daemon's answer for scripts.)";

inline constexpr const char* sessions_list = R"(Example:
  sessiond sessions list --agent main --channel slack
  sessiond sessions list --limit 1000 --json | jq -r '.data[].key')";

inline constexpr const char* sessions_show = R"(Example:
  sessiond sessions show agent:main:slack:direct:u1)";

inline constexpr const char* sessions_reset =
    R"(The session keeps its key and settings and gets a new id. Its transcript stays readable by its old id.

Example:
  sessiond sessions reset agent:main:slack:direct:u1)";

inline constexpr const char* sessions_archive = R"(Example:
  sessiond sessions archive agent:main:slack:direct:u1
  sessiond sessions unarchive agent:main:slack:direct:u1)";

inline constexpr const char* sessions_delete = R"(Example:
  sessiond sessions delete agent:main:slack:direct:u1
  sessiond sessions delete agent:main:slack:direct:u1 --purge)";

inline constexpr const char* sessions_restore =
    R"(A session that was deleted, pruned or reset comes back with its transcript and its fields, if its key has no session
now. Its archives are those that `GET /v1/agents/{agent}/archives` lists.

Example:
  sessiond sessions restore agent:main:slack:direct:u1)";

inline constexpr const char* search =
    R"(Finds texts in which all words occur, in any case, also within other words. Quotes make a phrase. Results come
from an index that is usually a fraction of a second behind. In a pipe each is one line of JSON.

Examples:
  sessiond search invoice March
  sessiond search '"invoice for March"' --channel slack --since 30d
  sessiond search 請求書 --role user --archived
  sessiond search refund --key agent:main:slack:direct:u1 --context 3
  sessiond search refund --limit 100 | jq -r '[.key, .seq] | @tsv')";

inline constexpr const char* sessions_prune =
    R"(Names what the limits reach, oldest first, with the reason. With --yes it goes:
  age, count  a session, into an archive
  orphan      a transcript that no session has, into an archive
  archive     an archive that is too old, for good
  disk        an archive, or then a session, for good
Limits that are left out are those of session.maintenance in the configuration. Sessions in use stay.

Example:
  sessiond sessions prune --older-than 90d
  sessiond sessions prune --keep 500 --yes)";

inline constexpr const char* locks =
    R"(Lists the lock files of all stores and their holders. Remove a lock only when its holder is gone for good: locks
whose holder has ended are removed by themselves.

Example:
  sessiond locks
  sessiond locks --evict main)";

inline constexpr const char* deliveries =
    R"(Asks a running daemon for deliveries: what agents answered and bridges bring to a channel.
Without an action it lists them, the newest first. retry sends one that has failed
after all, drop gives one up.

Examples:
  sessiond deliveries --status failed
  sessiond deliveries retry 3f1c0a9b5d7e2468a684eaf3
  sessiond deliveries --json | jq '.data[] | select(.channel=="slack").text')";

inline constexpr const char* export_sessions =
    R"(Asks a running daemon for a session as another program keeps it. Without -o it goes to stdout.

Examples:
  sessiond export agent:main:main > x.json
  sessiond export agent:main:main --format jsonl --entry -o session.jsonl      all of it
  sessiond export ~/.agent/sessions --agent main --layout cli                  index.json, last_session, <id>.json
  sessiond export agent:main:main --to claude-code -o ~/.claude --cwd ~/work   claude --resume lists it in ~/work
  sessiond export --agent main --to openclaw -o ~/.openclaw                    then: openclaw doctor --fix

With --to, a file that is there stays, without --force, and what the other program has no place for is named on
stderr.)";

inline constexpr const char* import_sessions =
    R"(Reads files of other programs and sends their sessions to a running daemon. A session that is
there already stays as it is, so an import that was interrupted is simply run again. What cannot
be taken is named on stderr, with the file, the line and the place in it.

Examples:
  sessiond import ~/.agent/sessions --layout cli --dry-run
  sessiond import x.json --format robota --agent coder
  sessiond import ~/.openclaw/agents/main --from openclaw --agent coder      agent:main:x becomes agent:coder:x
  sessiond import session.jsonl --if-exists continue      add what is new in it)";

inline constexpr const char* runs =
    R"(Asks a running daemon for the runs of a session: who answers, how far, how it ended.

Examples:
  sessiond runs agent:main:slack:direct:u1
  sessiond runs agent:main:slack:direct:u1 --abort
  sessiond runs agent:main:slack:direct:u1 --json | jq '.data[] | select(.status=="failed").error')";

inline constexpr const char* approvals =
    R"(Without an ID it lists the tools that runs wait to be allowed. On a terminal it asks about each of them, and about
new ones as they come: y allows it, n denies it, always allows the tool for the session from now on.

The token that asked may not answer: runners that use the socket need a token of their own.

Examples:
  sessiond approvals
  sessiond approvals --json | jq -r '.data[].id'
  sessiond approvals 4f9c2f0e-8a67-4c51-9a35-7c4c5a0f6d21 deny --reason "not on a Friday")";

inline constexpr const char* last =
    R"(Prints the key of the session that people used last, or that the client --client used last.

Examples:
  sessiond last
  sessiond last --client my-tui --json | jq .sessionId)";

inline constexpr const char* resume =
    R"(Tells that a person goes on with a session, and prints what it was about. Without a key it is the session that was
used last.

Examples:
  sessiond resume
  sessiond resume agent:main:slack:direct:u1 --client my-tui)";

inline constexpr const char* fork = R"(Prints the key of the new session, which has a copy of the messages.

Examples:
  sessiond fork agent:main:slack:direct:u1
  sessiond fork agent:main:slack:direct:u1 --message 8869347af3164766 --name "second try")";

inline constexpr const char* context =
    R"(Counts the tokens of what a model would be shown, and says whether a compaction is due and what it would summarise.

Examples:
  sessiond context agent:main:slack:direct:u1
  sessiond context agent:main:slack:direct:u1 --json | jq .plan.firstKeptEntryId)";

inline constexpr const char* paths =
    R"(Prints the path of an agent's store, and of a session's transcript, for which it asks the daemon.

Example:
  sessiond paths --agent main
  sessiond paths --session agent:main:slack:channel:c1 --topic 123)";

inline constexpr const char* completion = R"(Examples:
  source <(sessiond completion bash)              in ~/.bashrc
  source <(sessiond completion zsh)               in ~/.zshrc, behind compinit
  sessiond completion fish | source               in ~/.config/fish/config.fish

Exit codes:
  0 printed   1 stdout could not be written   2 wrong usage)";

inline constexpr const char* doctor =
    R"(Without --repair and --migrate it changes nothing, takes no lock, and may run beside the daemon
(over HTTP: POST /v1/admin/doctor). It reads all transcripts, logs of sessions, blobs and the journal,
which takes a while on a large store.

--repair corrects file modes (0600, 0700), abandoned temporary files, locks whose holder is gone, torn
or unended last lines of transcripts and logs, a damaged sessions.json (rebuilt from an earlier copy
plus the journal) and a damaged journal (as serve --repair). It reports each step and destroys nothing:
what it removes is kept beside the file (.torn., .corrupt., .damaged.) or in journal/kept/<time>.
--migrate keeps ids and order of all entries; archived transcripts stay as they are.
Both can be interrupted and run again; another run after a complete one changes nothing.

Examples:
  sessiond doctor
  sessiond doctor --state-dir ~/.openclaw         before sessiond serves it
  sessiond doctor --json | jq '.findings[] | select(.level != "ok")'
  sessiond doctor --repair --json | jq '.repairs[]'

Exit codes:
  state after repairs: 0 no faults   1 warnings   2 errors
  3 nothing was examined: the state directory is in use (--repair, --migrate)   64 wrong usage)";

inline constexpr const char* backup =
    R"(Makes a consistent backup: it has everything that was acknowledged before, each message once, and no write
in part. The daemon keeps serving meanwhile. Without a daemon, the files are copied under its lock.
A backup has the journal, every agent's sessions folder with its archives, policy.json and tokens.json, and
nothing else of an OpenClaw tree. It is laid out like a state directory, with a MANIFEST.json that is
written last: without it the backup is incomplete, and restore refuses it.

Examples:
  sessiond backup /backups/$(date -I)
  sessiond doctor --state-dir /backups/2026-03-01 check it
  sessiond backup /backups/$(date -I).tar         one file, which only you may read
  sessiond backup - | zstd > sessions.tar.zst     through a pipe: set -o pipefail
  ssh host sessiond backup - > host.tar           your umask says who may read it
  curl -X POST -H "Authorization: Bearer $TOKEN" http://localhost:7433/v1/admin/backup > sessions.tar

Exit codes:
  0 complete   1 failed: the backup is incomplete   2 wrong usage)";

inline constexpr const char* restore =
    R"(Stop the daemon first. The command unpacks the backup beside the state directory, compares every file with
MANIFEST.json, applies the journal to the files, and then exchanges the two directories in one step.
Subscribers that resume must resync (stream.gap, reason epoch). At the end the doctor examines the restored
state and prints its report.

Examples:
  sessiond restore /backups/2026-03-01
  sessiond restore /backups/2026-03-01 --force    keeps the old state as <state dir>.before-restore.<time>
  sessiond restore /backups/2026-03-01 --force --keep-tokens    keeps the present tokens, so that no revoked one comes back
  zstdcat sessions.tar.zst | sessiond restore - --state-dir /srv/sessiond

Exit codes:
  0 restored, no faults   1 restored, with warnings   4 restored, with errors
  2 not restored   3 not restored: the state directory is in use   64 wrong usage)";

}  // namespace sessiond::help
