#include "daemon/decide/session.hpp"

#include <tuple>

#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

TEST_CASE("what is read out of an entry") {
  const Session session("agent:main:slack:channel:c1",
                        raw(R"({"sessionId":"s1","sessionFile":"/x/s1.jsonl","channel":" Slack ","chatType":"dm",)"
                            R"("label":"L","name":"N","spawnedBy":"p","rev":7,"createdAt":1,"updatedAt":2,)"
                            R"("archivedAt":3,"lastInteractionAt":4,"messageCount":5,"inputTokens":6,)"
                            R"("outputTokens":7,"totalTokens":8,"compactionCount":9,"ephemeral":true})"));
  CHECK(session.session_id == "s1");
  CHECK(session.session_file == "/x/s1.jsonl");
  CHECK(session.channel == "slack");
  CHECK(session.chat_type == "direct");
  CHECK(session.label == "L");
  CHECK(session.name == "N");
  CHECK(session.spawned_by == "p");
  CHECK(session.rev == 7);
  CHECK(session.created_at == 1);
  CHECK(session.updated_at == 2);
  CHECK(session.archived_at == 3);
  CHECK(session.last_interaction_at == 4);
  CHECK(session.message_count == 5);
  CHECK(session.input_tokens == 6);
  CHECK(session.output_tokens == 7);
  CHECK(session.total_tokens == 8);
  CHECK(session.compaction_count == 9);
  CHECK(session.ephemeral);
}

TEST_CASE("the session of the SDK: its own field, else what earlier versions wrote") {
  struct Case {
    std::string_view entry, id, shown;
  };
  for (const Case& one :
       std::vector<Case>{{R"({"sdkSessionId":"a","claudeCliSessionId":"b"})", "a", R"("a")"},
                         {R"({"claudeCliSessionId":"c","cliSessionIds":{"claude-cli":"d"}})", "c", R"("c")"},
                         {R"({"sdkSessionId":null,"cliSessionIds":{"claude-cli":"e","x":"f"}})", "e", R"("e")"},
                         {R"({"cliSessionIds":{"x":"g"}})", "g", R"("g")"},
                         {R"({"cliSessionIds":{"x":"h","y":"i"}})", "", "-"},
                         {R"({"cliSessionIds":{"claude-cli":null,"x":"j"}})", "", "-"},
                         {R"({"cliSessionIds":{}})", "", "-"},
                         {R"({"cliSessionIds":"k"})", "", "-"},
                         {R"({"sdkSessionId":7,"claudeCliSessionId":"l"})", "", "7"},
                         {R"({"sdkSessionId":"","claudeCliSessionId":"m"})", "", R"("")"},
                         {R"({"sdkSess\u0069onId":"n"})", "n", "-"}}) {
    CAPTURE(one.entry);
    const Session session("agent:main:x", raw(one.entry));
    CHECK(session.sdk_session_id == one.id);
    if (!one.entry.contains('\\')) CHECK(at(session_json("main", session), "sdkSessionId") == one.shown);
    CHECK(*session.entry() == one.entry);
  }
}

TEST_CASE("absent, of another kind, and nonsense") {
  for (const std::string_view entry :
       {"{}", R"({"sessionId":7,"rev":"x","updatedAt":null,"messageCount":"3","archivedAt":{},"ephemeral":1})",
        R"({"rev":-4,"updatedAt":99999999999999999999,"label":[1]})"}) {
    CAPTURE(entry);
    const Session session("global", raw(entry));
    CHECK(session.session_id.empty());
    CHECK(session.rev == 0);
    CHECK(session.updated_at == 0);
    CHECK(session.created_at == 0);
    CHECK_FALSE(session.message_count);
    CHECK_FALSE(session.archived_at);
    CHECK_FALSE(session.ephemeral);
    CHECK(session.label.empty());
    CHECK(*session.entry() == entry);
  }
}

TEST_CASE("the channel: own, legacy, the key's, the last one's") {
  struct Case {
    std::string_view key, entry, channel, chat_type;
  };
  const std::vector<Case> cases{
      {"agent:main:slack:group:g", R"({"channel":"discord","provider":"x","lastChannel":"y"})", "discord", "group"},
      {"agent:main:slack:group:g", R"({"provider":"Telegram","lastChannel":"y"})", "telegram", "group"},
      {"agent:main:Slack:group:g", R"({"channel":"  ","lastChannel":"y"})", "slack", "group"},
      {"agent:main:main", R"({"lastChannel":"Y","lastProvider":"z"})", "y", ""},
      {"agent:main:main", R"({"lastProvider":"Z"})", "z", ""},
      {"agent:main:slack:dm:u", "{}", "slack", "direct"},
      {"global", "{}", "", ""}};
  for (const Case& one : cases) {
    CAPTURE(one.entry);
    const Session session(std::string(one.key), raw(one.entry));
    CHECK(session.channel == one.channel);
    CHECK(session.chat_type == one.chat_type);
  }
}

TEST_CASE("made at: createdAt, else sessionStartedAt, else updatedAt") {
  CHECK(Session("k", raw(R"({"updatedAt":3,"sessionStartedAt":2,"createdAt":1})")).created_at == 1);
  CHECK(Session("k", raw(R"({"updatedAt":3,"sessionStartedAt":2})")).created_at == 2);
  CHECK(Session("k", raw(R"({"updatedAt":3})")).created_at == 3);
}

TEST_CASE("after an edit the fields are those of the entry") {
  const std::string before =
      R"({"sessionId":"s1","sessionFile":"f","channel":"slack","label":"L","rev":7,"createdAt":1,"updatedAt":2,)"
      R"("archivedAt":3,"messageCount":5,"ephemeral":true})";
  const std::vector<std::string> changes{
      R"("label":"M","updatedAt":9,"rev":8)",  R"("label":7,"name":"N","x":[1])",
      R"("sessionId":"s2","sessionFile":"g")", R"("archivedAt":null,"ephemeral":false)",
      R"("spawnedBy":"p","messageCount":"x")", R"("channel":"Discord")",
      R"("provider":"x","lastChannel":"y")",   R"("chatType":"dm","totalTokens":4)",
      R"("createdAt":0,"sessionStartedAt":6)", R"("lastInteractionAt":4,"rev":-1,"label":"")"};
  for (const std::string& change : changes) {
    CAPTURE(change);
    Session edited("agent:main:slack:channel:c1", raw(before));
    edited.edit(json::read_edit("{\"set\":{" + change + "}}"));
    const Session read(edited.key(), edited.entry());
    const auto fields = [](const Session& of) {
      return std::tie(of.session_id, of.session_file, of.channel, of.chat_type, of.label, of.name, of.spawned_by,
                      of.rev, of.created_at, of.updated_at, of.archived_at, of.last_interaction_at, of.started_at,
                      of.ephemeral, of.message_count, of.total_tokens);
    };
    CHECK((fields(edited) == fields(read)));
  }
}

TEST_CASE("counters are written when somebody looks, and bytes that nobody named stay") {
  const std::string before = R"({"x":1e400,"updatedAt":1,"y":"\ud800","messageCount":1})";
  Session session("k", raw(before));
  json::Edit edit;
  edit.put_int("updatedAt", 5);
  edit.put_int("messageCount", 2);
  edit.put_int("inputTokens", 10);
  session.edit(edit);
  CHECK(session.updated_at == 5);
  CHECK(session.message_count == 2);
  const Session copy = session;  // decisions work on copies
  session.edit(edit_of(R"({"messageCount":3})"));
  CHECK(*copy.entry() == R"({"x":1e400,"updatedAt":5,"y":"\ud800","messageCount":2,"inputTokens":10})");
  CHECK(*session.entry() == R"({"x":1e400,"updatedAt":5,"y":"\ud800","messageCount":3,"inputTokens":10})");
  CHECK(*session.entry() == *session.entry());
}

TEST_CASE("a counter keeps the bytes that it was set with") {
  for (const std::string_view odd : {"2.0", "-0", "-3", "1e2", "9007199254740993", "\"2\"", "[2]"}) {
    for (const std::string_view name : {"updatedAt", "lastInteractionAt", "messageCount", "costMicrocents"}) {
      const std::string set = fmt::format(R"({{"inputTokens":4,"{}":{}}})", name, odd);
      Session session("k", raw(R"({"sessionId":"a"})"));
      session.edit(edit_of(R"({"updatedAt":1,"lastInteractionAt":1,"messageCount":1,"costMicrocents":1})"));
      session.edit(edit_of(set));
      CHECK(json::find(*session.entry(), name) == odd);
      CHECK(json::find(*session.entry(), "inputTokens") == "4");
      const Session read("k", raw(*session.entry()));
      CHECK(session.message_count == read.message_count);
      CHECK(session.updated_at == read.updated_at);
      CHECK(session.last_interaction_at == read.last_interaction_at);
    }
  }
  for (const std::string_view totals :
       {R"({"input":1,"output":2,"total":3})", R"({"total":3})", R"({"total":3.5})", "7"}) {
    Session session("k", raw(R"({"sessionId":"a"})"));
    session.edit(edit_of(fmt::format(R"({{"usageTotals":{}}})", totals)));
    CHECK(json::find(*session.entry(), "usageTotals") == totals);
  }
}

TEST_CASE("an edit of counters and others, and removal, leave nothing behind") {
  Session session("k", raw(R"({"sessionId":"a","messageCount":1})"));
  session.edit(edit_of(R"({"messageCount":2})"));
  session.edit(edit_of(R"({"totalTokens":9,"label":"x","messageCount":3})"));
  CHECK(*session.entry() == R"({"sessionId":"a","messageCount":3,"totalTokens":9,"label":"x"})");
  session.edit(edit_of(R"({"messageCount":4})"));
  json::Edit gone;
  gone.remove("messageCount");
  gone.remove("label");
  session.edit(gone);
  CHECK(*session.entry() == R"({"sessionId":"a","totalTokens":9})");
  CHECK_FALSE(session.message_count);
  CHECK(session.label.empty());
  session.edit(edit_of(R"({"totalTokens":null})"));  // no counter any more
  CHECK_FALSE(session.total_tokens);
  CHECK(*session.entry() == R"({"sessionId":"a","totalTokens":null})");
}

TEST_CASE("made at: where the entry does not say, it does not move with updatedAt") {
  Session session("k", raw(R"({"updatedAt":3})"));
  session.edit(edit_of(R"({"updatedAt":9,"label":"x"})"));
  CHECK(session.updated_at == 9);
  CHECK(session.created_at == 3);
  session.edit(edit_of(R"({"createdAt":1})"));
  CHECK(session.created_at == 1);
}

TEST_CASE("names that other programs spell with escapes") {
  const Session session("k", raw(R"({"upd\u0061tedAt":5,"sessionI\u0064":"s","la\u0062el":"l"})"));
  CHECK(session.updated_at == 5);
  CHECK(session.session_id == "s");
  CHECK(session.label == "l");
}
