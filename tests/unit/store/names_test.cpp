#include "store/names.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>

using namespace sessiond;
using namespace sessiond::store;

TEST_CASE("agent ids are trimmed, lower-cased and made of what is allowed") {
  struct Case {
    std::string text;
    std::optional<std::string> id;
  };
  const std::string long_id(80, 'a');
  const std::vector<Case> cases{
      {"main", "main"},        {"  Main\n", "main"}, {"Ops Team!", "ops-team"},       {"a-", "a-"},
      {"--x__", "x__"},        {"é", std::nullopt},  {"agentée", "agent-e"},          {"", std::nullopt},
      {"../..", std::nullopt}, {"a/../b", "a-b"},    {std::string("a\0b", 3), "a-b"}, {long_id, std::string(64, 'a')}};
  for (const Case& one : cases) {
    CAPTURE(one.text);
    const auto id = normalize_agent_id(one.text);
    CHECK(id == one.id);
    if (id) {
      CHECK(valid_agent_id(*id));
      CHECK(normalize_agent_id(*id) == id);
    }
  }
  CHECK_FALSE(valid_agent_id("-a"));
  CHECK_FALSE(valid_agent_id("A"));
  CHECK_FALSE(valid_agent_id(std::string(65, 'a')));
}

TEST_CASE("keys are taken apart") {
  struct Case {
    std::string key, agent, rest, channel, chat_type, peer, thread, topic;
  };
  const std::vector<Case> cases{
      {"agent:main:main", "main", "main", "", "", "", "", ""},
      {"agent:main:telegram:dm:123", "main", "telegram:dm:123", "telegram", "direct", "123", "", ""},
      {"agent:main:telegram:direct:123", "main", "telegram:direct:123", "telegram", "direct", "123", "", ""},
      {"agent:main:dm:+49170", "main", "dm:+49170", "", "direct", "+49170", "", ""},
      {"agent:main:slack:work:direct:u02", "main", "slack:work:direct:u02", "slack", "direct", "u02", "", ""},
      {"agent:main:telegram:group:-100:topic:42", "main", "telegram:group:-100:topic:42", "telegram", "group", "-100",
       "", "42"},
      {"agent:main:matrix:channel:!AbCdEf:example.org", "main", "matrix:channel:!AbCdEf:example.org", "matrix",
       "channel", "!AbCdEf:example.org", "", ""},
      {"agent:main:matrix:channel:!R:e.org:thread:$ev:e.org", "main", "matrix:channel:!R:e.org:thread:$ev:e.org",
       "matrix", "channel", "!R:e.org", "$ev:e.org", ""},
      {"agent:main:imessage:direct:chat_guid:any;-;+1555", "main", "imessage:direct:chat_guid:any;-;+1555", "imessage",
       "direct", "chat_guid:any;-;+1555", "", ""},
      {"agent:m:t:group:g:topic:1:thread:2", "m", "t:group:g:topic:1:thread:2", "t", "group", "g", "2", "1"},
      {"agent:m:t:group:g:thread:2:topic:1", "m", "t:group:g:thread:2:topic:1", "t", "group", "g", "2", "1"},
      {"agent:m:t:group:g:thread:1:thread:2", "m", "t:group:g:thread:1:thread:2", "t", "group", "g:thread:1", "2", ""},
      {"agent:m:t:group:g:thread:", "m", "t:group:g:thread:", "t", "group", "g:thread:", "", ""},
      {"agent:m:main:thread:7", "m", "main:thread:7", "", "", "", "7", ""},
      {"Agent:Main:Discord:DM:U", "Main", "Discord:DM:U", "Discord", "direct", "U", "", ""},
      {"agent:main:cron:daily:run:x", "main", "cron:daily:run:x", "", "", "", "", ""},
      {"agent:main:cron:group:x:topic:1", "main", "cron:group:x:topic:1", "", "", "", "", ""},
      {"agent:main:subagent:a:subagent:b", "main", "subagent:a:subagent:b", "", "", "", "", ""},
      {"global", "", "global", "", "", "", "", ""},
      {"slack:channel:c1", "", "slack:channel:c1", "slack", "channel", "c1", "", ""},
      {"agent:main:", "", "agent:main:", "", "", "", "", ""},
      {"agent::x", "", "agent::x", "", "", "", "", ""},
      {"", "", "", "", "", "", "", ""},
      {":::", "", ":::", "", "", "", "", ""},
      {"agent:m:slack:group:", "m", "slack:group:", "", "", "", "", ""},
      {"agent:m::group:x", "m", ":group:x", "", "", "", "", ""}};
  for (const Case& one : cases) {
    CAPTURE(one.key);
    const KeyParts parts = parse_key(one.key);
    CHECK(parts.agent == one.agent);
    CHECK(parts.rest == one.rest);
    CHECK(parts.channel == one.channel);
    CHECK(parts.chat_type == one.chat_type);
    CHECK(parts.peer == one.peer);
    CHECK(parts.thread == one.thread);
    CHECK(parts.topic == one.topic);
  }
}

TEST_CASE("keys are made canonical") {
  struct Case {
    std::string key, canonical;
  };
  const std::vector<Case> cases{
      {"main", "agent:main:main"},
      {" AGENT:Main:Slack:DM:U02ABC ", "agent:main:slack:direct:u02abc"},
      {"discord:dm:User123:Thread:X", "agent:main:discord:direct:user123:thread:x"},
      {"dm:+49170", "agent:main:direct:+49170"},
      {"Slack:Work:dm:U1", "agent:main:slack:work:direct:u1"},
      {"agent:main:Matrix:Channel:!AbCdEf:Example.org", "agent:main:matrix:channel:!AbCdEf:Example.org"},
      {"agent:main:matrix:channel:!AbC:e.org:Thread:$EvT", "agent:main:matrix:channel:!AbC:e.org:thread:$EvT"},
      {"agent:main:matrix:channel:!A:e:THREAD:T1:TOPIC:T2", "agent:main:matrix:channel:!A:e:thread:T1:topic:T2"},
      {"agent:main:matrix:channel:!A:e:TOPIC:T1:THREAD:T2", "agent:main:matrix:channel:!A:e:topic:T1:thread:T2"},
      {"agent:main:matrix:direct:@Bob:E.org", "agent:main:matrix:direct:@bob:e.org"},
      {"signal:group:Zm9vYmFy", "agent:main:signal:group:Zm9vYmFy"},
      {"signal:direct:ABC", "agent:main:signal:direct:abc"},
      {"whatsapp:group:120@G.US", "agent:main:whatsapp:group:120@g.us"},
      {"slack:channel:äÖ", "agent:main:slack:channel:äÖ"},
      {"cron:dm:X", "agent:main:cron:dm:x"}};
  for (const Case& one : cases) {
    CAPTURE(one.key);
    const auto key = canonical_key(one.key, "main");
    REQUIRE(key);
    CHECK(*key == one.canonical);
    CHECK(canonical_key(*key, "main") == *key);
  }
}

TEST_CASE("keys that cannot be are refused") {
  const auto code = [](std::string_view key) {
    const auto result = canonical_key(key, "main");
    return result ? std::string("accepted") : std::string(name(result.error().code));
  };
  CHECK(code("") == "invalid_id");
  CHECK(code("  ") == "invalid_id");
  CHECK(code("agent:main:") == "invalid_id");
  CHECK(code("agent:main") == "invalid_id");
  CHECK(code("agent") == "invalid_id");
  CHECK(code("agent::x") == "invalid_id");
  CHECK(code("agent:other:main") == "agent_mismatch");
  CHECK(code("a\nb") == "invalid_id");
  CHECK(code("a\x7f") == "invalid_id");
  CHECK(code(std::string_view("a\0b", 3)) == "invalid_id");
  CHECK(code("a\xff") == "invalid_id");
  CHECK(code("a\xed\xa0\xbd") == "invalid_id");
  CHECK(code(std::string(500, 'x')) == "accepted");
  CHECK(code(std::string(502, 'x')) == "invalid_id");
}

TEST_CASE("dm and direct are one") {
  CHECK(dm_alias("agent:main:slack:dm:u1") == "agent:main:slack:direct:u1");
  CHECK(dm_alias("agent:main:slack:direct:u1:thread:5") == "agent:main:slack:dm:u1:thread:5");
  CHECK(dm_alias("agent:main:slack:work:direct:u1") == "agent:main:slack:work:dm:u1");
  CHECK(dm_alias("agent:main:direct:u1") == "agent:main:dm:u1");
  CHECK(dm_alias("agent:main:x:group:a:dm:b") == std::nullopt);
  CHECK(dm_alias("agent:main:main") == std::nullopt);
  CHECK(dm_alias("agent:dm:main") == std::nullopt);
}

TEST_CASE("session ids become file names") {
  const auto verdict = [](std::string_view id) {
    const auto result = check_session_id(id);
    return result ? std::string("ok") : std::string(name(result.error().code));
  };
  for (const char* id : {"3f44a19b-873d-4305-a4cc-625b35f038a4", "2026-01-27T07-59-39-146Z_bb3f5b80", "a", "A.b_c-d",
                         "console", "com0", "com10", "indexes", "sessions.json"}) {
    CAPTURE(id);
    CHECK(verdict(id) == "ok");
  }
  for (const char* id : {"", ".a", "-a", "_a", "a/b", "..", "a b", "a:b", "ä", "a\n"}) {
    CAPTURE(id);
    CHECK(verdict(id) == "invalid_id");
  }
  for (const char* id :
       {"index", "INDEX.json", "metadata.1", "last_session", "CON", "nul.tar.gz", "com1", "LPT9.x", "abc-topic-7"}) {
    CAPTURE(id);
    CHECK(verdict(id) == "reserved_name");
  }
  CHECK(verdict(std::string(128, 'a')) == "ok");
  CHECK(verdict(std::string(129, 'a')) == "invalid_id");
  CHECK(verdict(std::string_view("a\0b", 3)) == "invalid_id");
}

TEST_CASE("what passes is told from transcripts whose names have dots") {
  for (const char* name :
       {"sessions.json.lock", "sessions.json.lock.77.0a1b2c3d4e5f", "a.jsonl.lock", "a.jsonl.lock.77.0a1b2c3d4e5f",
        "sessions.json.77.bb3f5b80-0000-4000-8000-000000000000.tmp", "sessions.json.77.x.tmp.old",
        "sessions.json.77.x.tmp.old.tmp", "build.lock.jsonl.lock", "s.jsonl.reset.b.jsonl.lock", ".tmp"}) {
    CAPTURE(name);
    CHECK(is_passing(name));
  }
  for (const char* name :
       {"sessions.json", "a.jsonl", "build.lock.jsonl", "a.tmp.b.jsonl", "a.tmp.jsonl", "build.lock.77.jsonl",
        "build.lock.77.ab.jsonl", "s-topic-a.lock.b.jsonl", "build.lock.jsonl.reset.2026-01-02T03-04-05.678Z",
        "build.lock.77.jsonl.deleted.2026-01-02T03-04-05.678Z", "build.lock.jsonl.torn.2026-01-02T03-04-05.678Z",
        "sessions.json.corrupt.2026-01-02T03-04-05.678Z", "x.lock.", "x.lock.77", "x.lock.77.", "x.lock..y", ""}) {
    CAPTURE(name);
    CHECK_FALSE(is_passing(name));
  }
}

TEST_CASE("entry ids") {
  CHECK(valid_entry_id("a:b._-9Z"));
  CHECK(valid_entry_id(std::string(128, 'x')));
  CHECK_FALSE(valid_entry_id(std::string(129, 'x')));
  CHECK_FALSE(valid_entry_id(""));
  CHECK_FALSE(valid_entry_id("a b"));
  CHECK_FALSE(valid_entry_id("a/b"));
}

TEST_CASE("the topic of a stream is no client's") {
  CHECK(store::stream_topic("memoryEvents") == "stream:memoryEvents");
  for (const std::string_view name : store::stream_names()) {
    const std::string topic = store::stream_topic(name);
    CHECK(store::is_stream_topic(topic));
    CHECK(store::check_topic(topic).error().code == Code::reserved_name);
    CHECK(store::is_stream_file("s", store::transcript_file("s", topic)));
    CHECK_FALSE(store::is_stream_file("s", store::transcript_file("other", topic)));
  }
  for (const std::string_view topic :
       {"memoryEvents", "stream:", "stream:other", "Stream:memoryEvents", "stream:memoryEvents2"}) {
    CHECK_FALSE(store::is_stream_topic(topic));
    CHECK(store::check_topic(topic).has_value());
  }
  CHECK_FALSE(store::is_stream_file("s", "s.jsonl"));
}

TEST_CASE("topics round-trip through file names, each to a file of its own") {
  const std::string longest_id(128, 'a');
  std::set<std::string> files;
  const std::vector<std::string> topics{"42",      "1700000000.123456",
                                        "a/b",     "..",
                                        ".",       ".x",
                                        "%2E",     "%",
                                        "a b",     "日本",
                                        "é",       "e\u0301",
                                        "A",       "a",
                                        "~-_.",    "a%2Fb",
                                        "🚀🚀",    "x.jsonl",
                                        "-topic-", "\\",
                                        "*?",      "\"'",
                                        "#:;+"};
  for (const std::string& topic : topics) {
    CAPTURE(topic);
    REQUIRE(check_topic(topic));
    const std::string file = transcript_file(longest_id, topic);
    CHECK(file.size() + std::string_view(".deleted.2026-11-12T23-12-57.690Z").size() <= 255);
    CHECK(file.find('/') == std::string::npos);
    CHECK(files.insert(file).second);
    CHECK(topic_of_file(longest_id, file) == topic);
  }
  CHECK(transcript_file("id", "") == "id.jsonl");
  CHECK(transcript_file("id", "42") == "id-topic-42.jsonl");
  CHECK(transcript_file("id", ".x y") == "id-topic-%2Ex%20y.jsonl");
  CHECK(check_topic(std::string(80, 'x')));
  for (const std::string& topic :
       {std::string(), std::string(81, 'x'), std::string(27, '/'), std::string("a\nb"), std::string("\x7f"),
        std::string("\xc2\x85"), std::string("\xff"), std::string("a\0b", 3), std::string(129, 'x')}) {
    CHECK_FALSE(check_topic(topic));
  }
}

TEST_CASE("the topic of a foreign file") {
  CHECK(topic_of_file("id", "id.jsonl") == std::nullopt);
  CHECK(topic_of_file("id", "id-topic-.jsonl") == std::nullopt);
  CHECK(topic_of_file("id", "id-topic-1.jsonl.reset.2026") == std::nullopt);
  CHECK(topic_of_file("id", "idx-topic-1.jsonl") == std::nullopt);
  CHECK(topic_of_file("id", "id-topic-a%2fb.jsonl") == "a/b");
  CHECK(topic_of_file("id", "id-topic-!()*'.jsonl") == "!()*'");
  CHECK(topic_of_file("id", "id-topic-%zz.jsonl") == std::nullopt);
  CHECK(topic_of_file("id", "id-topic-%2.jsonl") == std::nullopt);
  CHECK(topic_of_file("id", "id-topic-%00.jsonl") == std::nullopt);
  CHECK(topic_of_file("id", "id-topic-%ff.jsonl") == std::nullopt);
}

TEST_CASE("text") {
  CHECK(lower("AbÄZ") == "abÄz");
  CHECK(trim(" \t\r\n\v\fa b ") == "a b");
  CHECK(trim("   ") == "");
  CHECK(starts_with_nocase("Agent:", "aGENT"));
  CHECK_FALSE(starts_with_nocase("a", "ab"));
  CHECK(equals_nocase("AB", "ab"));
  CHECK_FALSE(equals_nocase("ab", "abc"));
}

TEST_CASE("any bytes: what is accepted is canonical and stays so, views stay inside the key") {
  std::mt19937 random(7);
  const std::vector<std::string> pieces{"agent",   ":",      ":",     "main",  "dm", "direct", "group",
                                        "channel", "thread", "topic", "Slack", "é",  "matrix", "signal",
                                        "!AbC:x",  "\xff",   "cron",  " ",     "\n", "$E"};
  for (int round = 0; round < 20'000; ++round) {
    std::string key;
    for (std::size_t n = random() % 12; n > 0; --n) key += pieces[random() % pieces.size()];
    const KeyParts parts = parse_key(key);
    for (const std::string_view part :
         {parts.agent, parts.rest, parts.channel, parts.peer, parts.thread, parts.topic}) {
      if (part.empty()) continue;
      CHECK_UNARY(part.data() >= key.data() && part.data() + part.size() <= key.data() + key.size());
    }
    CHECK_UNARY(parts.channel.empty() || !parts.chat_type.empty());
    const auto canonical = canonical_key(key, "main");
    if (!canonical) continue;
    CAPTURE(key);
    CHECK(canonical_key(*canonical, "main") == *canonical);
    CHECK(parse_key(*canonical).agent == "main");
    if (const auto alias = dm_alias(*canonical)) CHECK(canonical_key(*alias, "main") == *canonical);
  }
}

TEST_CASE("ids of new sessions have no two dots") {
  CHECK(check_session_id("a..b"));  // another program's is served
  CHECK_FALSE(check_new_session_id("a..b"));
  CHECK(check_new_session_id("a.b"));
}

TEST_CASE("no new id ends where a topic begins") {
  CHECK(check_session_id("a-topic"));
  CHECK_FALSE(check_new_session_id("a-topic"));
  CHECK(check_new_session_id("a-topics"));
}

TEST_CASE("keys are one session but for case that carries meaning") {
  CHECK(same_key("agent:main:slack:channel:AbC", "AGENT:main:slack:channel:aBc"));
  CHECK(same_key("agent:main:matrix:channel:!AbC:hs", "agent:MAIN:Matrix:Channel:!AbC:hs"));
  CHECK_FALSE(same_key("agent:main:matrix:channel:!AbC:hs", "agent:main:matrix:channel:!aBc:hs"));
  CHECK(same_key("agent:main:matrix:direct:@AbC:hs", "agent:main:matrix:direct:@aBc:hs"));
  CHECK(key_has_prefix("agent:main:matrix:channel:!AbC:hs", "AGENT:main:matrix:channel:!Ab"));
  CHECK_FALSE(key_has_prefix("agent:main:matrix:channel:!AbC:hs", "agent:main:matrix:channel:!ab"));
  CHECK(key_has_prefix("agent:main:slack:channel:AbC", "agent:main:slack:channel:ab"));
}

TEST_CASE("a prefix may be of either spelling of a direct chat") {
  for (const auto& [key, prefix] :
       std::vector<std::pair<std::string, std::string>>{{"agent:main:telegram:direct:77", "agent:main:telegram:dm:"},
                                                        {"agent:main:telegram:dm:77", "agent:main:telegram:DIRECT:7"},
                                                        {"agent:main:direct:77", "agent:main:dm:77"}}) {
    CAPTURE(key);
    CHECK(key_has_prefix(key, prefix));
    CHECK(key_begins_with(key, prefix));
    CHECK(key_matches_prefix(key, prefix));
    CHECK(key_matches_prefix(key, prefix.substr(11)));
    CHECK_FALSE(key_begins_with(key, prefix.substr(11)));
    CHECK_FALSE(key_has_prefix(key, prefix + "x"));
  }
  CHECK_FALSE(key_has_prefix("agent:main:discord:group:7", "agent:main:dm"));
}

TEST_CASE("letters of all scripts have a case in keys where the rules say so, as OpenClaw makes them") {
  struct Rules {
    explicit Rules(KeyRules rules) { set_key_rules(std::move(rules)); }
    ~Rules() { set_key_rules({}); }
  };
  const std::string base = "agent:main:irc:channel:";
  CHECK_FALSE(same_key(base + "#Überblick", base + "#überblick"));
  CHECK(canonical_key(base + "#Überblick", "main") == base + "#Überblick");
  const Rules rules({.all_letters = true});
  struct Spelling {
    std::string_view given, small;
  };
  for (const Spelling& one : std::vector<Spelling>{{"#Überblick", "#überblick"},
                                                   {"ПРИВЕТ", "привет"},
                                                   {"ΟΔΟΣ", "οδος"},
                                                   {"ΟΔΟΣ:thread:ΣΑΣ", "οδος:thread:σας"},
                                                   {"İ", "i\u0307"},
                                                   {"\u212A", "k"},
                                                   {"Straße", "straße"},
                                                   {"STRASSE", "strasse"},
                                                   {"日本", "日本"},
                                                   {"Ꙁ", "ꙁ"}}) {
    CAPTURE(one.given);
    const std::string given = base + std::string(one.given), small = base + std::string(one.small);
    CHECK(canonical_key(given, "main") == small);
    CHECK(canonical_key(small, "main") == small);
    CHECK(folded_key(given) == small);
    CHECK(same_key(given, small));
    CHECK(key_has_prefix(given, small));
    CHECK(key_has_prefix(small, given));
    CHECK(key_matches_prefix(small, given.substr(11)));
    CHECK(key_matches_prefix(given, small.substr(11)));
  }
  CHECK_FALSE(same_key(base + "straße", base + "strasse"));
  CHECK_FALSE(same_key(base + "é", base + "e\u0301"));  // no normalisation
  CHECK_FALSE(same_key("agent:main:matrix:channel:!Ü:hs", "agent:main:matrix:channel:!ü:hs"));
  CHECK(canonical_key("agent:main:matrix:channel:!Ü:hs", "main") == "agent:main:matrix:channel:!Ü:hs");
  CHECK_FALSE(key_has_prefix("agent:main:matrix:channel:!Ü:hs", "agent:main:matrix:channel:!ü"));
  CHECK(lower_key("\xffÜA") == "\xffÜa");                                                    // no text
  CHECK_FALSE(canonical_key(base + std::string(512 - base.size() - 1, 'x') + "İ", "main"));  // it becomes longer
}
