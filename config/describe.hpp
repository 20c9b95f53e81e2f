// Every key of the configuration, once: its name, its field, what it may be and what it is for. Reading (read.cpp),
// printing and the shipped config/sessiond.json (print.cpp) are made from this; a new key is one field in config.hpp
// and one line here.
//
// A visitor has: key(name, field, rule, explanation); group(name, explanation, body);
// optional_group(name, field, explanation, body(value));
// named_groups(name, map, rule of the names, explanation, body(value)).
#pragma once

#include <cstdint>

#include "config/config.hpp"
#include "config/describe_network.hpp"
#include "config/rules.hpp"

namespace sessiond::config {

template <class Visitor, class AStore>
void describe_store(Visitor& v, AStore& c) {
  v.key(
      "mode", c.mode, Any{},
      "own: only this daemon writes the files, others may read. shared: other programs write them too, so their locks "
      "are taken and transcripts are in their files before a request is answered.");
  v.key("pathTemplate", c.path_template, TextRule{path_template_fault},
        "Where an agent's sessions.json lies below stateDir; transcripts lie beside it.");
  v.key("allowOutside", c.allow_outside, Any{},
        "true: pathTemplate may be absolute or begin with ~/. A backup holds these files too, and puts them below "
        "stateDir.");
  v.key("cacheTtlMs", c.cache_ttl_ms, Between{0, day},
        "How long a store in memory is trusted when no change is noticed; 0 looks on every read. The environment "
        "variable "
        "OPENCLAW_SESSION_CACHE_TTL_MS wins over it.");
  v.key("writeThrough", c.write_through, Any{},
        "true: a write is answered only when sessions.json holds it too. Slower; the journal is on disk before the "
        "answer in any case.");
  v.key("checkpointDuty", c.checkpoint_duty, BetweenReal{0.001, 1.0},
        "The share of the time that may go into writing sessions.json: smaller is cheaper and further behind.");
  v.key(
      "damageAfterMs", c.damage_after_ms, Between{0, minute},
      "A sessions.json that is not whole counts as damaged when it has not changed for so long, or after 60 s in all: "
      "another program may be writing it in place. 0: at once.");
  v.group("lock", "sessions.json.lock, which is shared with other programs.", [&] {
    v.key("timeoutMs", c.lock.timeout_ms, Between{1, 10 * minute}, "How long to wait for it.");
    v.key("pollIntervalMs", c.lock.poll_interval_ms, Between{1, 10 * second}, "How often to try meanwhile.");
    v.key("staleMs", c.lock.stale_ms, Between{second, hour},
          "A lock that we have seen unchanged for so long is taken from its holder.");
  });
  v.group("encryption", "Encryption of what is said, in all files of stateDir; in store.mode own.", [&] {
    v.key("keyFile", c.encryption.key_file, TextRule{file_path_fault},
          "The keys, readable by the daemon's user alone: store/seal/README.md. Read again on SIGHUP. null: nothing is "
          "encrypted.");
  });
}

template <class Visitor, class AReset>
void describe_reset(Visitor& v, AReset& c) {
  v.key("mode", c.mode, Any{},
        "none: only when asked. idle: after idleMinutes without a word from a user. daily: when it began before the "
        "last atHour.");
  v.key("idleMinutes", c.idle_minutes, Between{1, 525'600},
        "Minutes without a word from a user. null is 60 in mode idle; in mode daily it means that idle time alone "
        "resets nothing.");
  v.key("atHour", c.at_hour, Between{0, 23}, "For mode daily: the hour, in the daemon's local time.");
}

template <class Visitor, class AMaintenance>
void describe_maintenance(Visitor& v, AMaintenance& c) {
  v.key("mode", c.mode, Any{},
        "warn: what a limit reaches is named, once a day at most, in the event retention.notice. enforce: it goes when "
        "noticeMs has passed since it was first named and a limit reaches it still.");
  v.key("pruneAfterMs", c.prune_after_ms, Between{minute, ten_years},
        "Time without a word from a user; then a session is archived. A transcript without a session is archived when "
        "nothing was written to it for this long.");
  v.key("maxEntries", c.max_entries, Between{1, 100'000'000},
        "Sessions of an agent; beyond it the oldest are archived.");
  v.key("maxDiskBytes", c.max_disk_bytes, Between{mib, pib},
        "Disk space of an agent's store, transcripts, streams, logs and archives; blobs do not count. Beyond it the "
        "oldest archives are destroyed, then the oldest sessions.");
  v.key("highWater", c.high_water, BetweenReal{0.1, 1.0}, "The share of maxDiskBytes to which space is cleared.");
  v.key("archiveRetentionMs", c.archive_retention_ms, Between{minute, ten_years},
        "How long an archive of a reset, deleted or pruned session is kept; then it is destroyed.");
  v.key("noticeMs", c.notice_ms, Between{0, ten_years}, "How long it stays after it was named.");
  v.key("everyMs", c.every_ms, Between{100, day}, "How often the daemon looks by itself.");
  v.key("preserve", c.preserve, TextRule{key_prefix_fault},
        "Prefixes of the keys of sessions that always stay, e.g. [\"agent:main:slack:\"].");
}

template <class Visitor, class ASession>
void describe_session(Visitor& v, ASession& c) {
  v.key(
      "dmScope", c.dm_scope, Any{},
      "Which direct messages share a session. main: all. per-peer: those of one person. per-channel-peer: those of one "
      "person on one channel. per-account-channel-peer: those of one person to one account of ours.");
  v.key("identityLinks", c.identity_links, Any{},
        "Names one person on several channels: {\"alice\": [\"slack:U012AB\", \"telegram:4711\"]}.");
  v.key("mainKey", c.main_key, TextRule{main_key_fault}, "The last part of an agent's main session's key.");
  v.key("threads", c.threads, Any{},
        "session: a thread has a session of its own. inherit: it belongs to the session around it.");
  v.key("resetTriggers", c.reset_triggers, TextRule{trigger_fault},
        "A message that is or begins with one of these starts a new session; the rest becomes its first message.");
  v.group("reset", "When a session starts anew.", [&] { describe_reset(v, c.reset); });
  v.group("resetByType",
          "Rules for some chats, e.g. {\"group\": {\"mode\": \"idle\", \"idleMinutes\": 120}}. Such a rule stands "
          "before reset "
          "as a whole: what it leaves out has its default.",
          [&] {
            const auto one = [&](auto& reset) { describe_reset(v, reset); };
            v.optional_group("direct", c.reset_by_type.direct, "Direct messages.", one);
            v.optional_group("group", c.reset_by_type.group, "Groups.", one);
            v.optional_group("channel", c.reset_by_type.channel, "Channels.", one);
            v.optional_group("thread", c.reset_by_type.thread, "Threads, wherever they are.", one);
          });
  v.named_groups("resetByChannel", c.reset_by_channel, TextRule{channel_name_fault},
                 "Rules for single channels, e.g. {\"discord\": {\"mode\": \"daily\"}}. They stand before resetByType.",
                 [&](auto& reset) { describe_reset(v, reset); });
  v.key("requireFields", c.require_fields, TextRule{field_name_fault},
        "Fields that a session must have when a client makes it, e.g. [\"workerId\", \"workspaceId\"]. Messages of "
        "bridges make sessions without them.");
  v.key("ephemeralBytes", c.ephemeral_bytes, Between{64 * kib, pib},
        "The memory of all ephemeral sessions together; beyond it the one that was changed longest ago goes.");
  v.key("autoSave", c.auto_save, Any{}, "Always true: a write is answered when it is on disk.");
  v.key("maxSessions", c.max_sessions, Between{1, 100'000'000}, "The same as maintenance.maxEntries.");
  v.group(
      "maintenance",
      "Limits beyond which sessions and archives go. Unless one is set, nothing ever goes. Sessions that are in use, "
      "pinned (pinnedAt), preserved or an agent's main session stay in any case. sessiond sessions prune names what "
      "the limits reach, and takes it at once when told to.",
      [&] { describe_maintenance(v, c.maintenance); });
  v.group("spawn", "Sessions that sessions start.", [&] {
    v.key("depth", c.spawn.depth, Between{0, 32}, "How deep they may nest; 0 forbids them.");
    v.key("count", c.spawn.count, Between{0, 10'000}, "How many children one session may have.");
  });
}

template <class Visitor, class AContext>
void describe_context(Visitor& v, AContext& c) {
  constexpr std::int64_t most = 1'000'000'000;
  v.key("window", c.window, Between{1, most},
        "The size of a model's window in tokens, for sessions without contextTokens whose model is not in windows.");
  v.key("windows", c.windows, Between{1, most}, "The windows of models, e.g. {\"claude-opus-4-5\": 200000}.");
  v.group("compaction", "When a summary should replace old messages, and what it keeps.", [&] {
    v.key("when", c.compaction.when, Any{},
          "How it is told that one is due: to the runner that starts a run, or after a turn by the event "
          "compaction.due.");
    v.key("threshold", c.compaction.threshold, BetweenReal{0.01, 1.0}, "Due from this share of the window on.");
    v.key("forceAt", c.compaction.force_at, BetweenReal{0.01, 1.0},
          "From this share on it is due with fewer messages and turns, too, and keeps fewer turns.");
    v.key("minMessages", c.compaction.min_messages, Between{1, most},
          "Not before there are so many messages since the last summary.");
    v.key("keepTurns", c.compaction.keep_turns, Between{1, 1'000},
          "Turns that are kept as they are. A turn begins with a person's message.");
    v.key("maxTokens", c.compaction.max_tokens, Between{1, most}, "How long the plan says a summary may be.");
    v.key("temperature", c.compaction.temperature, BetweenReal{0.0, 2.0},
          "What the plan says of the model's temperature.");
  });
  v.group("pruning", "When view=llm shortens old results of tools. The transcript keeps them whole.", [&] {
    v.key("soft", c.pruning.soft, BetweenReal{0.0, 1.0},
          "Beyond this share of the window a result is cut to its beginning and end.");
    v.key("hard", c.pruning.hard, BetweenReal{0.0, 1.0}, "Beyond this share the oldest results are left out.");
    v.key("minChars", c.pruning.min_chars, Between{1, most}, "Shorter results stay.");
    v.key("keepChars", c.pruning.keep_chars, Between{1, most}, "The characters that are kept at each end.");
    v.key("keepAssistants", c.pruning.keep_assistants, Between{1, 1'000},
          "Results behind so many of the model's last messages stay.");
    v.key("excludeTools", c.pruning.exclude_tools, TextRule{tool_name_fault},
          "Tools whose results stay. Case does not matter; a * at the end stands for anything.");
  });
  v.key("viewBytes", c.view_bytes, Between{64 * kib, gib},
        "How many bytes of messages a model is shown at most, media as base64 (providers refuse longer requests). The "
        "oldest images and files go first, then the oldest results of tools.");
  v.key("maxFilesPerMessage", c.max_files_per_message, Between{1, 10'000},
        "How many files, images and attachments one message may have (else 422).");
}

template <class Visitor, class ARuns>
void describe_runs(Visitor& v, ARuns& c) {
  v.key("leaseMs", c.lease_ms, Between{100, 10 * minute}, "A runner that is silent for so long loses its run.");
  v.key("idleTimeoutMs", c.idle_timeout_ms, Between{0, hour},
        "A step in which the model says nothing for so long fails; 0 for never.");
  v.key("maxSteps", c.max_steps, Between{0, 1'000'000}, "How many steps a run may have; 0 for no limit.");
  v.key("turnCap", c.turn_cap, BetweenOrUnlimited{{0, 1'000'000'000}},
        "How many turns a session may have; 0 for the default.");
  v.key("maxAttempts", c.max_attempts, Between{1, 1'000}, "How often a run begins whose runner was lost.");
  v.key("abortGraceMs", c.abort_grace_ms, Between{0, hour}, "How long a runner may take to stop.");
  v.key("runnerIdleMs", c.runner_idle_ms, Between{second, ten_years},
        "A runner that took nothing for so long is forgotten.");
  v.key("queueMaxAgeMs", c.queue_max_age_ms, Between{second, ten_years}, "A waiting run of this age ends.");
  v.key("queueMaxWaitMs", c.queue_max_wait_ms, Between{0, ten_years}, "A waiting run takes in more input for so long.");
  v.key("partialBytes", c.partial_bytes, Between{kib, gib}, "How much of an unfinished answer is kept.");
  v.key("keep", c.keep, Between{1, 10'000}, "How many ended runs of a session are listed.");
  v.key("onInbound", c.on_inbound, Any{},
        "Whether a message that the agent should answer makes a run. null: in store.mode own.");
  v.key("exclusive", c.exclusive, Any{}, "true: while a run is active only its runner writes the agent's messages.");
  v.key("model", c.model, TextRule{model_name_fault}, "The model of runs where nothing else names one.");
  v.key("provider", c.provider, TextRule{model_name_fault}, "The provider of that model.");
}

template <class Visitor, class AConfig>
void describe(Visitor& v, AConfig& c) {
  v.key("stateDir", c.state_dir, TextRule{state_dir_fault},
        "Everything the daemon keeps lies here (0700). It may be an existing OpenClaw tree. SESSIOND_STATE_DIR and "
        "--state-dir stand before it.");
  v.group("listen", "Where the daemon listens.", [&] { describe_listen(v, c.listen); });
  v.group("limits", "Limits on the requests of one client.", [&] { describe_limits(v, c.limits); });
  v.group("network", "How the daemon uses the machine.", [&] {
    v.key("threads", c.network.threads, Between{1, 64},
          "Threads for the network. The first does everything but event streams; each further one serves its share of "
          "them. Worth it for thousands of readers on a machine with cores to spare.");
  });
  v.group("journal", "The log of all that happened: how far back a subscriber can replay.", [&] {
    v.key("segmentBytes", c.journal.segment_bytes, Between{64 * kib, 4 * gib}, "A new file is begun at this size.");
    v.key("maxBytes", c.journal.max_bytes, Between{64 * kib, pib}, "The oldest files go beyond this size.");
    v.key("retentionMs", c.journal.retention_ms, Between{second, ten_years}, "The oldest files go beyond this age.");
  });
  v.group("idempotency", "Answers kept for requests that come again with the same Idempotency-Key.", [&] {
    v.key("retentionMs", c.idempotency.retention_ms, Between{second, ten_years}, "How long.");
    v.key("maxBytes", c.idempotency.max_bytes, Between{mib, pib}, "How much; the oldest go first.");
  });
  v.group("store", "sessions.json and the transcripts.", [&] { describe_store(v, c.store); });
  v.group("stream", "Event streams (SSE).", [&] {
    v.key("heartbeatMs", c.stream.heartbeat_ms, Between{100, hour}, "A sign of life is sent this often.");
    v.key("stallTimeoutMs", c.stream.stall_timeout_ms, Between{second, hour},
          "A reader that takes nothing for so long is disconnected; it loses nothing when it comes back.");
    v.key("tailBytes", c.stream.tail_bytes, Between{4 * kib, 16 * gib},
          "The newest events kept in memory for all streams together; older ones are read from the journal.");
    v.key("retryMs", c.stream.retry_ms, Between{10, hour}, "When browsers should reconnect.");
    v.key("coalesceMs", c.stream.coalesce_ms, Between{0, 1000},
          "When events come faster than 100 a second, what comes within this time is sent together. 0: each at once.");
  });
  v.group("session", "Which messages belong together.", [&] { describe_session(v, c.session); });
  v.group("routing", "How messages find their session.", [&] {
    v.key("caseSensitive", c.routing.case_sensitive, TextRule{channel_name_fault},
          "Channels on which the ids of rooms, groups and users differ by case too, as Matrix rooms and Signal groups "
          "do. Elsewhere !AbC and !aBc are one conversation. A change needs a restart.");
    v.key(
        "topicChannels", c.routing.topic_channels, TextRule{channel_name_fault},
        "With store.mode \"shared\": channels whose groups have topics, as OpenClaw names them. A message with a "
        "threadId finds or makes the session <group>:topic:<threadId>, unless there is one <group>:thread:<threadId>.");
  });
  v.group("names", "The names that clients give to sessions.", [&] {
    v.key(
        "sanitize", c.session.sanitize_names, Any{},
        "true: a name is stored as its slug: \"My Session\" as my-session. false: it is stored as given, and the slug "
        "beside it.");
  });
  v.key("sendPolicy", c.send_policy_json, RawObject{},
        "The rules for sending: {\"match\": {\"channel\": \"discord\", \"chatType\": \"group\"}, \"action\": "
        "\"deny\"} is "
        "a rule. evaluation: first-match or deny-overrides. Rules put over the API (policy.json) stand before these.");
  v.group("context", "What a model is shown of a conversation: GET …/context and …/messages?view=llm.",
          [&] { describe_context(v, c.context); });
  v.group("doomLoop", "Models that call a tool again and again with the same arguments.", [&] {
    v.key("count", c.doom_loop.count, Between{0, 1'000},
          "After so many identical calls in a row the event doom_loop.detected is sent, and after each further so "
          "many; 0 for never.");
    v.key("inject", c.doom_loop.inject, Any{}, "true: a warning to the model is appended, too.");
  });
  v.group("messages", "What is checked of appended messages.", [&] {
    v.key("pairs", c.content.messages.pairs, Any{},
          "A tool's result without its call, or a call without its result. warn: the reply names it. strict: a result "
          "whose id no message of the transcript calls is 422. "
          "view=llm is complete in any case.");
  });
  v.group("transcripts", "What is stored of messages.", [&] {
    v.key("durableContent", c.content.transcripts.durable_content, Any{},
          "media: images and other media of more than 64 KiB are stored once, as blobs, and messages name them. full: "
          "signatures of thinking are not stored either. off: all as it comes. null: media in store.mode own, off in "
          "shared, where other programs read the transcripts.");
  });
  v.group("blobs", "Media and other content that sessions name by its hash.", [&] {
    v.key("graceMs", c.content.blobs.grace_ms, Between{0, ten_years},
          "How long a blob stays that no session names. Maintenance removes it then (session.maintenance.everyMs).");
    v.key("maxBytes", c.content.blobs.max_bytes, Between{mib, pib},
          "All blobs together; what brings more is refused (507).");
  });
  v.group("runs", "Agent work on a session, which a runner claims: policy/runs/README.md.",
          [&] { describe_runs(v, c.work.runs); });
  v.key("sessionLog", c.work.session_log, Any{},
        "The log of what runs ask of models and tools, for diagnosis and replay, as a file beside the sessions: "
        "logs/<sessionId>.jsonl. off: none. meta: with the lengths of texts in their place. full: with texts.");
  v.group("approvals", "Tools that people are asked about.", [&] {
    v.key("timeoutMs", c.work.approvals.timeout_ms, Between{10, day}, "No answer within this time means no.");
    v.key("requireApprover", c.work.approvals.require_approver, Any{},
          "true: the answer is no at once while nobody who may answer is connected.");
  });
  v.group("hooks", "Programs that are asked before a run or a tool begins.",
          [&] { v.key("timeoutMs", c.work.hooks.timeout_ms, Between{10, hour}, "How long an answer is waited for."); });
  v.group("takeover", "People who speak in place of the agent: policy/runs/README.md.", [&] {
    v.key("defaultMs", c.work.takeover.default_ms, Between{second, 7 * day},
          "How long after the person's last word the agent speaks again.");
    v.key("fromMeMs", c.work.takeover.from_me_ms, Between{0, 7 * day},
          "The same when the owner of the agent's account types by hand in the chat (fromMe). 0: that takes nothing "
          "over.");
  });
  v.group("deliveries", "Answers on their way to a channel.", [&] {
    v.key("maxAttempts", c.work.deliveries.max_attempts, Between{1, 1'000}, "A delivery fails after so many attempts.");
    v.key("maxAgeMs", c.work.deliveries.max_age_ms, Between{second, ten_years}, "A delivery fails at this age.");
    v.key("adoptMs", c.work.deliveries.adopt_ms, Between{second, ten_years},
          "A channel's deliveries are kept until no bridge has asked for them for so long.");
  });
  v.group("inbound", "What bridges tell of people's messages.", [&] {
    v.key("earlyChangeMs", c.work.inbound.early_change_ms, Between{0, day},
          "An edit or a deletion that comes before its message is kept for so long; 0: it is refused.");
  });
  v.named_groups("agents", c.work.agents, TextRule{agent_name_fault},
                 "Settings of single agents, e.g. {\"main\": {\"compactInstructions\": \"Keep all names.\"}}.",
                 [&](auto& agent) {
                   v.key("compactInstructions", agent.compact_instructions, TextRule{instructions_fault},
                         "How a summary is to be made, for sessions whose entry does not say it. null for nothing.");
                   v.key("model", agent.model, TextRule{model_name_fault},
                         "The model of its runs, where neither the run nor the session names one.");
                   v.key("provider", agent.provider, TextRule{model_name_fault}, "The provider of that model.");
                   v.key("maxCostMicrocents", agent.max_cost_microcents, Between{1, 1LL << 53},
                         "What the answers of one session may cost, by their usage.cost.total: 1000000 is 0.01 USD. "
                         "null for no limit.");
                   v.key("onExceed", agent.on_exceed, Any{},
                         "What happens to a session that has cost as much. fail: it gets no further run (409 "
                         "cost_limit). warn: only the event cost.exceeded is sent, once, as in any case.");
                   v.key("maxMessages", agent.max_messages, Between{1, 1'000'000},
                         "How many messages view=llm shows of a session: the oldest turns are left out, and the "
                         "session goes on. null for no limit.");
                   v.key("fsScope", agent.fs_scope, Any{}, "The fsScopeTier of a session's context that names none.");
                 });
  v.group("policy", "Limits on the content of sessions.", [&] {
    v.key("secretScan", c.policy.secret_scan, Any{},
          "The treatment of a session entry that holds something like a well-known kind of key or token. reject: "
          "422. warn: a line in the log.");
    v.key("secretScanMessages", c.policy.secret_scan_messages, Any{},
          "The treatment of a message that holds such a key. warn: it is stored, and the reply and the log name the "
          "place. redact: \"[redacted: Anthropic key]\" is stored and sent in its place. reject: 422. With redact and "
          "reject an id, an address or a path that holds one is 422.");
  });
  v.group("cors", "Pages of other sites.", [&] {
    v.key("allowedOrigins", c.cors.allowed_origins, TextRule{origin_fault},
          "The origins whose pages may use the API from a browser, e.g. [\"https://chat.example.org\"].");
  });
  v.group("api", "How strict the API is.", [&] {
    v.key("requireIfMatch", c.api.require_if_match, Any{}, "true: changes without If-Match are refused (428).");
  });
  v.group("log", "The log on stderr.", [&] {
    v.key("level", c.log.level, Any{}, "The least that is worth a line.");
    v.key("format", c.log.format, Any{}, "text: logfmt. json: one object a line.");
  });
  v.group("audit",
          "The audit log: one line of JSON for each write and refusal, with the token's id, and no message's text.",
          [&] {
            v.key("path", c.audit.path, TextRule{file_path_fault}, "Where. null for none.");
            v.key("maxBytes", c.audit.max_bytes, Between{64 * kib, 64 * gib},
                  "At this size it becomes <path>.1, the last one <path>.2, and so on up to .4; the oldest goes.");
          });
  v.group("search", "GET /v1/search: an index of what people, agents and tools said, made again when it is lost.", [&] {
    v.key("enabled", c.store.search.enabled, Any{}, "Whether there is one.");
    v.key("path", c.store.search.path, TextRule{file_path_fault},
          "Its file; two others stand beside it. In stateDir it must be in search/; elsewhere a file that is no index "
          "of sessiond stays as it is.");
    v.key("maxBytes", c.store.search.max_bytes, BetweenOrUnlimited{{mib, pib}},
          "How large it grows, in bytes. Then it is made again without the oldest quarter. It never takes the last 256 "
          "MiB of its disk.");
    v.key("textBytes", c.store.search.text_bytes, Between{kib, 64 * mib},
          "How much of each text is searched. When this changes, the index is made again.");
    v.key("timeoutMs", c.store.search.timeout_ms, Between{10, minute},
          "How long a search takes at most; it answers what it found.");
  });
  v.group("mcp", "POST /mcp: an agent reads its own past by the Model Context Protocol.",
          [&] { v.key("enabled", c.mcp.enabled, Any{}, "Whether it is served. false: the path is 404."); });
}

}  // namespace sessiond::config
