#include "config/read.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "config/print.hpp"

using namespace sessiond;
using namespace sessiond::config;

namespace {

std::vector<ConfigFault> faults_of(std::string_view text) {
  auto config = parse_config(text);
  return config ? std::vector<ConfigFault>{} : config.error();
}

std::vector<std::string> pointers_in(std::string_view text) {
  std::vector<std::string> pointers;
  for (const ConfigFault& fault : faults_of(text)) pointers.push_back(fault.pointer);
  return pointers;
}

// {"a":{"b":VALUE}} for "/a/b".
std::string at(std::string pointer, const std::string& value) {
  std::string text = value;
  while (!pointer.empty()) {
    const std::size_t slash = pointer.rfind('/');
    text = "{\"" + pointer.substr(slash + 1) + "\":" + text + "}";
    pointer.resize(slash);
  }
  return text;
}

using Pointers = std::vector<std::string>;

}  // namespace

TEST_CASE("nothing given: the defaults") {
  for (const std::string_view text : {"{}", "// only a comment\n{ /* here too */ }\n", "{\"listen\":{},}"}) {
    const auto config = parse_config(text);
    REQUIRE(config.has_value());
    CHECK(to_json(*config) == to_json(Config{}));
  }
}

TEST_CASE("every key reaches its field") {
  const auto config = parse_config(R"({
    "stateDir": "/var/lib/sessiond",
    "listen": {"tcp": ["0.0.0.0:1", "[::1]:2"], "unix": null, "insecure": true, "hosts": ["agents.example.org"],
               "tls": {"cert": "/c.pem", "key": "~/k.pem", "clientCa": "{stateDir}/ca.pem"}},
    "limits": {"bodyBytes": 2048, "headerBytes": 4096, "targetBytes": 1024, "requestTimeoutMs": 21, "headerTimeoutMs": 11,
               "connections": 12, "connectionsPerAddress": 14, "bytesPerToken": 1048576, "agents": 18, "sessionsPerAgent": 19,
               "entryBytesPerAgent": 2097152, "requestsPerSecond": 15, "streamsPerToken": 16, "failedLoginsPerMinute": 17,
               "streamEntryBytes": 5120, "streamBytes": 262144, "logEntryBytes": 3072, "logBytes": 131072, "jsonDepth": 13},
    "journal": {"segmentBytes": 100000, "maxBytes": 200000, "retentionMs": 3000},
    "idempotency": {"retentionMs": 4000, "maxBytes": 2000000},
    "store": {"mode": "shared", "pathTemplate": "{agentId}/s.json", "cacheTtlMs": 0, "writeThrough": true,
              "checkpointDuty": 1, "damageAfterMs": 600, "lock": {"timeoutMs": 21, "pollIntervalMs": 20, "staleMs": 2200}, "allowOutside": true,
              "encryption": {"keyFile": "/keys.json"}},
    "stream": {"heartbeatMs": 1.5e3, "stallTimeoutMs": 1600, "tailBytes": 4096.0, "retryMs": 10, "coalesceMs": 7},
    "network": {"threads": 3}, "routing": {"caseSensitive": ["matrix"]}, "names": {"sanitize": true},
    "session": {"dmScope": "per-account-channel-peer", "identityLinks": {"alice": ["slack:U1", "matrix:@a:b.org"]},
                "mainKey": "home", "threads": "inherit", "resetTriggers": ["!neu"],
                "reset": {"mode": "daily", "idleMinutes": 5, "atHour": 23},
                "resetByType": {"group": {"mode": "idle"}, "thread": {}},
                "resetByChannel": {"discord": {"atHour": 7}, "x": {"idleMinutes": 8, "mode": "none"}}, "spawn": {"depth": 0, "count": 1}, "requireFields": ["workerId"],
                "ephemeralBytes": 100000, "autoSave": true, "maxSessions": 50,
                "maintenance": {"mode": "enforce", "noticeMs": 0, "everyMs": 100, "pruneAfterMs": 60000, "maxEntries": 50, "maxDiskBytes": 1048576,
                                "highWater": 0.5, "archiveRetentionMs": 60001, "preserve": ["agent:"]}},
    "context": {"window": 1000, "windows": {"m": 2000}, "viewBytes": 70000, "maxFilesPerMessage": 2,
                "compaction": {"when": "run_start", "threshold": 0.5, "forceAt": 0.75, "minMessages": 7, "keepTurns": 2, "maxTokens": 99, "temperature": 1},
                "pruning": {"soft": 0.1, "hard": 0.2, "minChars": 10, "keepChars": 3, "keepAssistants": 1, "excludeTools": ["a*"]}},
    "doomLoop": {"count": 0, "inject": false}, "messages": {"pairs": "strict"},
    "transcripts": {"durableContent": "full"}, "blobs": {"graceMs": 5, "maxBytes": 1048577},
    "runs": {"leaseMs": 100, "idleTimeoutMs": 1, "maxSteps": 0, "turnCap": "unlimited", "maxAttempts": 1, "abortGraceMs": 2, "runnerIdleMs": 1001,
             "queueMaxAgeMs": 1002, "queueMaxWaitMs": 1003, "partialBytes": 1025, "keep": 3, "onInbound": false, "exclusive": true, "model": "m", "provider": "p"},
    "approvals": {"timeoutMs": 11, "requireApprover": true}, "hooks": {"timeoutMs": 12}, "takeover": {"defaultMs": 60001, "fromMeMs": 14},
    "deliveries": {"maxAttempts": 1, "maxAgeMs": 1003, "adoptMs": 1004},
    "agents": {"main": {"compactInstructions": "short", "model": "m2", "provider": "p2", "maxCostMicrocents": 5, "onExceed": "warn", "maxMessages": 6, "fsScope": "project"}}, "sessionLog": "meta",
    "sendPolicy": {"default": "deny", /* comments go */ "rules": [{"match": {"channel": "é"}, "action": "allow"},]},
    "policy": {"secretScan": "warn", "secretScanMessages": "redact"}, "cors": {"allowedOrigins": ["https://a.b:1"]},
    "audit": {"path": null, "maxBytes": 100000},
    "search": {"enabled": false, "path": "/var/index", "maxBytes": 2000000, "timeoutMs": 500}, "api": {"requireIfMatch": true}, "log": {"level": "warn", "format": "json"}, "mcp": {"enabled": false}})");
  REQUIRE(config.has_value());
  Config wanted;
  wanted.state_dir = "/var/lib/sessiond";
  wanted.listen = {.tcp = {"0.0.0.0:1", "[::1]:2"},
                   .unix = {},
                   .tls = {.cert = "/c.pem", .key = "~/k.pem", .client_ca = "{stateDir}/ca.pem"},
                   .insecure = true,
                   .hosts = {"agents.example.org"}};
  wanted.limits = {2048,    4096, 1024, 21, 11,   12,     14,   1048576, 18, 19,
                   2097152, 15,   16,   17, 5120, 262144, 3072, 131072,  13};
  wanted.routing = {{"matrix"}};
  wanted.session.sanitize_names = true;
  wanted.content.transcripts = {Config::DurableContent::full};
  wanted.content.blobs = {5, 1048577};
  wanted.policy = {Config::SecretScan::warn, Config::MessageScan::redact};
  wanted.cors = {{"https://a.b:1"}};
  wanted.audit = {{}, 100000};
  wanted.journal = {100000, 200000, 3000};
  wanted.idempotency = {4000, 2000000};
  wanted.store = {
      Config::StoreMode::shared, "{agentId}/s.json", 0, true, 1.0, 600, {21, 20, 2200}, true, {"/keys.json"}};
  wanted.store.search = {.enabled = false, .path = "/var/index", .max_bytes = 2000000, .timeout_ms = 500};
  wanted.mcp = {false};
  wanted.stream = {1500, 1600, 4096, 10, 7};
  wanted.network = {3};
  wanted.session.dm_scope = Config::DmScope::per_account_channel_peer;
  wanted.session.identity_links = {{"alice", {"slack:U1", "matrix:@a:b.org"}}};
  wanted.session.main_key = "home";
  wanted.session.threads = Config::Threads::inherit;
  wanted.session.reset_triggers = {"!neu"};
  wanted.session.reset = {Config::ResetMode::daily, 5, 23};
  wanted.session.reset_by_type.group = Config::Reset{.mode = Config::ResetMode::idle};  // nothing is taken from reset
  wanted.session.reset_by_type.thread = Config::Reset{};
  wanted.session.reset_by_channel = {{"discord", {.at_hour = 7}}, {"x", {.idle_minutes = 8}}};
  wanted.session.spawn = {0, 1};
  wanted.session.require_fields = {"workerId"};
  wanted.session.ephemeral_bytes = 100'000;
  wanted.session.max_sessions = 50;
  wanted.session.maintenance = {
      Config::MaintenanceMode::enforce, 60'000, 50, 1ULL << 20, 0.5, 60'001, 0, 100, {"agent:"}};
  wanted.context = {1000,
                    {{"m", 2000}},
                    {Config::CompactionTime::run_start, 0.5, 0.75, 7, 2, 99, 1.0},
                    {0.1, 0.2, 10, 3, 1, {"a*"}},
                    70'000,
                    2};
  wanted.doom_loop = {0, false};
  wanted.content.messages = {Config::Pairs::strict};
  wanted.work.runs = {100, 1, 0, Config::unlimited, 1, 2, 1001, 1002, 1003, 1025, 3, false, true, "m", "p"};
  wanted.work.approvals = {11, true};
  wanted.work.hooks = {12};
  wanted.work.takeover = {60001, 14};
  wanted.work.deliveries = {1, 1003, 1004};
  wanted.work.agents["main"] = {"short", "m2", "p2", 5, Config::OnExceed::warn, 6, Config::FsScope::project};
  wanted.work.session_log = Config::SessionLog::meta;
  wanted.send_policy_json = R"({"default":"deny","rules":[{"match":{"channel":"é"},"action":"allow"}]})";
  wanted.api.require_if_match = true;
  wanted.log = {Config::LogLevel::warn, Config::LogFormat::json};
  CHECK(to_json(*config) == to_json(wanted));
}

TEST_CASE("every fault at once, each with its pointer") {
  const auto faults = faults_of(R"({
    "stateDir": 7, "listen": {"tcp": ["127.0.0.1:1", "nowhere:2", 3], "hosts": "localhost", "tls": 7},
    "limits": [], "limits2": 1,
    "journal": {"segmentBytes": "64M", "maxBytes": -1, "retentionMs": 1e400},
    "store": {"mode": "both", "lock": {"timeoutMs": null}, "writeThrough": 1, "checkpointDuty": 0, "mode": "own"},
    "session": {"identityLinks": {"alice": ["nochannel"], "bob": "slack:U1"}, "resetByType": {"group": {"atHour": 24}, "dm": {}},
                "resetByChannel": {"slack": {"mode": 1}, "a:b": {}, "c": 7}},
    "sendPolicy": []})");
  Pointers pointers;
  for (const ConfigFault& fault : faults) {
    pointers.push_back(fault.pointer);
    CHECK_FALSE(fault.detail.empty());
  }
  CHECK(pointers == Pointers{"/store/mode",
                             "/stateDir",
                             "/listen/tcp/1",
                             "/listen/tcp/2",
                             "/listen/tls",
                             "/listen/hosts",
                             "/limits",
                             "/journal/segmentBytes",
                             "/journal/maxBytes",
                             "/journal/retentionMs",
                             "/store/writeThrough",
                             "/store/checkpointDuty",
                             "/store/lock/timeoutMs",
                             "/session/identityLinks/alice/0",
                             "/session/identityLinks/bob",
                             "/session/resetByType/group/atHour",
                             "/session/resetByType/dm",
                             "/session/resetByChannel/slack/mode",
                             "/session/resetByChannel/a:b",
                             "/session/resetByChannel/c",
                             "/sendPolicy",
                             "/limits2"});
}

TEST_CASE("details say what is wanted and what is there") {
  CHECK(faults_of(R"({"limits":{"bodyBytes":"8M"}})")[0].detail == "must be a whole number, is a string");
  CHECK(faults_of(R"({"limits":{"bodyBytes":1}})")[0].detail == "must be a whole number from 1024 to 1073741824, is 1");
  CHECK(faults_of(R"({"limits":{"bodyBytes":2048.5}})")[0].detail ==
        "must be a whole number from 1024 to 1073741824, is 2048.5");
  CHECK(faults_of(R"({"store":{"mode":"Own"}})")[0].detail == "must be one of \"own\", \"shared\", is \"Own\"");
  CHECK(faults_of(R"({"api":7})")[0].detail == "must be an object, is 7");
  CHECK(faults_of("[]") == std::vector<ConfigFault>{{"", "must be an object, is a list"}});
  CHECK(faults_of("{\n\"api\" {}}") == std::vector<ConfigFault>{{"", "line 2, column 7: syntax error, found '{'"}});
}

TEST_CASE("ranges: both ends are allowed, one beyond is not") {
  struct Range {
    std::int64_t least, most;
  };
  const std::map<std::string, Range> ranges{
      {"/limits/requestTimeoutMs", {10, 3'600'000}},
      {"/limits/connections", {1, 1'000'000}},
      {"/limits/logEntryBytes", {1024, 1 << 30}},
      {"/limits/jsonDepth", {8, 1024}},
      {"/journal/retentionMs", {1000, 315'360'000'000}},
      {"/idempotency/maxBytes", {1 << 20, 1LL << 50}},
      {"/store/cacheTtlMs", {0, 86'400'000}},
      {"/store/lock/staleMs", {1000, 3'600'000}},
      {"/stream/tailBytes", {4096, 16LL << 30}},
      {"/stream/coalesceMs", {0, 1000}},
      {"/network/threads", {1, 64}},
      {"/session/reset/atHour", {0, 23}},
      {"/session/resetByType/direct/atHour", {0, 23}},
      {"/session/spawn/depth", {0, 32}},
      {"/session/spawn/count", {0, 10'000}},
  };
  for (const auto& [pointer, range] : ranges) {
    CAPTURE(pointer);
    CHECK(pointers_in(at(pointer, std::to_string(range.least))).empty());
    CHECK(pointers_in(at(pointer, std::to_string(range.most))).empty());
    for (const std::string& value :
         {std::to_string(range.least - 1), std::to_string(range.most + 1), std::string("9223372036854775807"),
          std::string("-9223372036854775808"), std::string("18446744073709551615"), std::string("1e400"),
          std::string("-1e400"), std::string("12.5"), std::string("\"12\""), std::string("null"), std::string("true"),
          std::string("[]"), std::string("123456789012345678901234567890")})
      CHECK(pointers_in(at(pointer, value)) == Pointers{pointer});
  }
  for (const std::string value : {"0", "-0.1", "1.0001", "1e400", "\"0.5\"", "null"})
    CHECK(pointers_in(at("/store/checkpointDuty", value)) == Pointers{"/store/checkpointDuty"});
}

TEST_CASE("unknown keys, and what may have been meant") {
  const auto detail = [](const std::string& pointer) {
    const auto faults = faults_of(at(pointer, "1"));
    REQUIRE(faults.size() == 1);
    CHECK(faults[0].pointer == pointer);
    return faults[0].detail;
  };
  CHECK(detail("/limits/bodybytes") == "unknown key, did you mean /limits/bodyBytes?");
  CHECK(detail("/limits/body_bytes") == "unknown key, did you mean /limits/bodyBytes?");
  CHECK(detail("/stateDirr") == "unknown key, did you mean /stateDir?");
  CHECK(detail("/segmentBytes") == "unknown key, did you mean /journal/segmentBytes?");  // another group's
  CHECK(detail("/session/resetByType/groups") == "unknown key, did you mean /session/resetByType/group?");
  CHECK(detail("/session/resetByType/group/atHours") == "unknown key, did you mean /session/resetByType/group/atHour?");
  for (const std::string pointer : {"/web", "/zzz", "/x"}) CHECK(detail(pointer) == "unknown key");
  CHECK(detail("/" + std::string(100'000, 'a')) == "unknown key");
  CHECK(pointers_in(R"({"a/b~":1,"":2})") == Pointers{"/a~1b~0", "/"});
}

TEST_CASE("keys given twice are faults, inside sendPolicy too") {
  CHECK(pointers_in(R"({"log":{"level":"info"},"log":{"level":"warn"}})") == Pointers{"/log"});
  CHECK(pointers_in(R"({"sendPolicy":{"rules":[{"action":"deny","action":"allow"}]}})") ==
        Pointers{"/sendPolicy/rules/0/action"});
}

TEST_CASE("paths and names") {
  const auto refuses = [](const std::string& pointer, const std::vector<std::string>& values) {
    for (const std::string& value : values) {
      CAPTURE(value);
      CHECK(pointers_in(at(pointer, '"' + value + '"')) == Pointers{pointer});
    }
  };
  const auto takes = [](const std::string& pointer, const std::vector<std::string>& values) {
    for (const std::string& value : values) {
      CAPTURE(value);
      CHECK(pointers_in(at(pointer, '"' + value + '"')).empty());
    }
  };
  takes("/stateDir", {"/x", "~", "~/x", "/x/", "/ä b"});
  refuses("/stateDir", {"", "x", "./x", "../x", "~root/x", "/", "//", "/a\\u0000b", "/a\\nb", "{stateDir}/x"});
  takes("/listen/unix", {"/run/s.sock", "~/s.sock", "{stateDir}/a/s.sock"});
  refuses("/listen/unix", {"", "s.sock", "{stateDir}", "{stateDir}x", "/run/", "~", "~u/s.sock", "/a\\u0000b"});
  takes("/store/pathTemplate", {"{agentId}/s.json", "a/b/{agentId}/c/s.json", "journals/{agentId}/s.json"});
  refuses("/store/pathTemplate",
          {"", "agents/sessions.json", "{agentId}", "{agentId}.json", "a/{agentId}", "/{agentId}/s.json",
           "~/{agentId}/s.json", "../{agentId}/s.json", "a/../{agentId}/s.json", "./{agentId}/s.json",
           "a//{agentId}/s.json", "{agentId}/", "{agentId}/{agentId}/s.json", "x-{agentId}/s.json",
           "{agentId}/{session}.json", "{agentid}/s.json", "journal/{agentId}/s.json", "{agentId}/s.jsonl",
           "a\\u0000/{agentId}/s.json"});
  takes("/session/mainKey", {"main", "m.1_x-y"});
  refuses("/session/mainKey", {"", "Main", "a:b", "a b", "ä", std::string(65, 'a')});
  for (const std::string list : {R"([""])", R"([" /new"])", R"(["a\tb"])", R"(["ok ",])"})
    CHECK(pointers_in(at("/session/resetTriggers", list)) == Pointers{"/session/resetTriggers/0"});
  CHECK(pointers_in(at("/session/resetTriggers", "[]")).empty());
  CHECK(pointers_in(at("/session/resetTriggers", R"(["/n","/n"])")) == Pointers{"/session/resetTriggers/1"});
  CHECK(pointers_in(at("/listen/hosts", R"(["a.b", "[::1]", "10.0.0.1", "my_host"])")).empty());
  CHECK(pointers_in(at("/listen/hosts", R"(["a:80", "::1", "[::1]:80", "[x]", "", "a b", "[", "*"])")) ==
        Pointers{"/listen/hosts/0", "/listen/hosts/1", "/listen/hosts/2", "/listen/hosts/3", "/listen/hosts/4",
                 "/listen/hosts/5", "/listen/hosts/6", "/listen/hosts/7"});
}

TEST_CASE("identity links: a peer is one person") {
  const auto links = [](const std::string& object) { return pointers_in(at("/session/identityLinks", object)); };
  CHECK(links(R"({"a":["slack:U1","telegram:1"],"b":["slack:U2"],"c":[]})").empty());
  CHECK(links(R"({"a":["slack:U1"],"b":["x:1","Slack:u1"]})") == Pointers{"/session/identityLinks/b/1"});
  CHECK(links(R"({"a":["slack:U1","slack:U1"]})") == Pointers{"/session/identityLinks/a/1"});
  CHECK(links(R"({"a":[":U1","slack:","",7]})") == Pointers{"/session/identityLinks/a/0", "/session/identityLinks/a/1",
                                                            "/session/identityLinks/a/2",
                                                            "/session/identityLinks/a/3"});
  CHECK(links(R"({"a:b":[], "":[], "a b":[]})") ==
        Pointers{"/session/identityLinks/a:b", "/session/identityLinks/", "/session/identityLinks/a b"});
  CHECK(links("[]") == Pointers{"/session/identityLinks"});
}
