#include "daemon/decide/commands.hpp"

#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

AppendMessages one_message(const std::string& key, std::optional<std::string> topic = {}) {
  return {.target = {.key = key},
          .append = {.topic = std::move(topic),
                     .entries = {*transcripts::parse_entry(R"({"role":"user","text":"hi"})", "")}}};
}

}  // namespace

TEST_CASE("create") {
  World world;
  const Decision made = world.run(CreateSession{.key = "Main", .entry = edit_of(R"({"label":"L","odd":1e400})")});
  CHECK(made.status == 201);
  CHECK(made.etag == "r1");
  CHECK(made.location == "/v1/agents/main/sessions/agent:main:main");
  REQUIRE(made.events.size() == 1);
  CHECK(made.events[0].envelope.session_id == world.session(main_key).session_id);
  CHECK(at(made.events[0].data, "reason") == "\"api\"");
  CHECK(made.line_positions.empty());
  CHECK(world.field(main_key, "odd") == "1e400");
  CHECK(world.field(main_key, "messageCount") == "0");
  CHECK(world.field(main_key, "createdAt") == std::to_string(world.now));
  CHECK(world.session(main_key).session_id.size() == 36);

  CHECK(world.refused(CreateSession{.key = "main"}).code == Code::session_exists);
  CHECK(world.refused(CreateSession{.key = "AGENT:MAIN:MAIN"}).code == Code::session_exists);
  const Decision reused = world.run(CreateSession{.key = "MAIN", .reuse = true, .entry = edit_of(R"({"label":"M"})")});
  CHECK(reused.status == 200);
  CHECK(reused.events.empty());
  CHECK(reused.etag == "r1");
  CHECK(at(reused.body, "label") == "\"L\"");
}

TEST_CASE("create: ids and keys") {
  World world;
  const Decision stamped = world.run(CreateSession{.timestamp_id = true});
  const std::string id = *json::string_at(stamped.body, "sessionId");
  CHECK(id.starts_with("2026-11-21-22-00-00-000-"));
  CHECK(*json::string_at(stamped.body, "key") == "agent:main:session:" + id);
  world.run(CreateSession{.key = "k", .session_id = "Mine"});
  CHECK(world.session("Mine").key() == "agent:main:k");

  struct Case {
    CreateSession command;
    Code code;
  };
  const std::vector<Case> cases{{{.key = "k2", .session_id = "Mine"}, Code::session_exists},
                                {{.session_id = "agent:main:k"}, Code::invalid_id},
                                {{.session_id = "../x"}, Code::invalid_id},
                                {{.session_id = "con"}, Code::reserved_name},
                                {{.key = "agent:other:k"}, Code::agent_mismatch},
                                {{.key = "a\nb"}, Code::invalid_id},
                                {{.key = std::string(600, 'x')}, Code::invalid_id},
                                {{.key = "k2", .entry = edit_of(R"({"rev":1})")}, Code::validation_failed},
                                {{.key = "k2", .entry = edit_of(R"({"sessionId":"x"})")}, Code::validation_failed},
                                {{.key = "k2", .entry = edit_of(R"({"chatType":"pigeon"})")}, Code::validation_failed},
                                {{.key = "k2", .entry = edit_of(R"({"lastTo":7})")}, Code::validation_failed}};
  for (const Case& one : cases) {
    CAPTURE(one.command.key);
    CAPTURE(one.command.session_id);
    CHECK(world.refused(one.command).code == one.code);
  }
  CHECK(world.refused(CreateSession{.key = "k2", .entry = edit_of(R"({"chatType":1})")}).errors.at(0).pointer ==
        "/entry/chatType");
  CHECK(world.run(CreateSession{.key = std::string(512 - 11, 'x')}).status == 201);
  world.run(CreateSession{.key = "slack:dm:U1", .entry = edit_of(R"({"chatType":"dm"})")});
  CHECK(world.field("agent:main:slack:direct:u1", "chatType") == "\"direct\"");
  CHECK(world.refused(CreateSession{.key = "slack:direct:u1"}).code == Code::session_exists);
}

TEST_CASE("put makes, replaces and imports") {
  World world;
  const Decision made = world.run(PutSession{
      .target = {.key = "Main"}, .entry = edit_of(R"({"sessionId":"imp","updatedAt":5,"messageCount":3,"x":1})")});
  CHECK(made.status == 201);
  CHECK(at(made.events.at(0).data, "reason") == "\"import\"");
  CHECK(world.session("imp").updated_at == 5);
  CHECK(world.session("imp").message_count == 3);
  CHECK(made.location == "/v1/agents/main/sessions/agent:main:main");

  const std::string body = made.body;  // a Session as it was answered changes nothing
  const Decision same = world.run(PutSession{.target = {.key = main_key}, .entry = edit_of(body)});
  CHECK(same.status == 200);
  CHECK(same.events.empty());
  CHECK(same.etag == "r1");

  world.now += 10;
  const Decision whole = world.run(PutSession{.target = {.key = "imp"}, .entry = edit_of(R"({"label":"only"})")});
  CHECK(whole.etag == "r2");
  CHECK(world.field(main_key, "x") == "-");
  CHECK(world.field(main_key, "sessionId") == "\"imp\"");
  CHECK(world.field(main_key, "messageCount") == "3");
  CHECK(world.session(main_key).updated_at == world.now);
  CHECK(at(whole.events.at(0).data, "unset") == R"(["x"])");
}

TEST_CASE("put: an entry without createdAt, sent back as it is shown, does not change") {
  World world;
  world.store("k", R"({"sessionId":"s","updatedAt":3})");
  const std::string shown = R"({"sessionId":"s","createdAt":3,"updatedAt":3)";
  CHECK(world.run(PutSession{.target = {.key = "k"}, .entry = edit_of(shown + "}")}).events.empty());
  world.run(PutSession{.target = {.key = "k"}, .entry = edit_of(shown + R"(,"label":"x"})")});
  CHECK(world.field("k", "createdAt") == "3");
}

TEST_CASE("put: who it is") {
  World world;
  world.run(CreateSession{.key = "a", .session_id = "id-a"});
  world.run(CreateSession{.key = "b", .session_id = "id-b"});
  struct Case {
    std::string_view key, entry;
    Code code;
  };
  for (const Case& one : std::vector<Case>{{"agent:main:a", R"({"key":"agent:main:b"})", Code::validation_failed},
                                           {"agent:main:a", R"({"agent":"other"})", Code::agent_mismatch},
                                           {"agent:main:a", R"({"sessionId":"id-b"})", Code::session_exists},
                                           {"agent:main:a", R"({"sessionId":"../b"})", Code::validation_failed},
                                           {"c", R"({"sessionId":"id-b"})", Code::session_exists},
                                           {"c", R"({"messageCount":-1})", Code::validation_failed},
                                           {"agent:other:c", "{}", Code::agent_mismatch}}) {
    CAPTURE(one.key);
    CAPTURE(one.entry);
    CHECK(world.refused(PutSession{.target = {.key = std::string(one.key)}, .entry = edit_of(one.entry)}).code ==
          one.code);
  }
  // A Session as GET gives it, rev included, in another spelling of the key; and its own id again.
  CHECK(world
            .run(PutSession{.target = {.key = "AGENT:main:a"},
                            .entry = edit_of(R"({"key":"Agent:Main:A","agent":"main","rev":77,"sessionId":"id-a"})")})
            .status == 200);
  CHECK(world.session("id-a").rev < 77);
}

TEST_CASE("what the daemon keeps of runs is read-only") {
  World world;
  world.store("k", R"({"sessionId":"s","status":"done","runCount":2,"allowedTools":["ls"],"updatedAt":3,"rev":9})");
  for (const std::string_view entry :
       {R"({"status":"running"})", R"({"activeRun":{}})", R"({"runCount":7})", R"({"turnCount":0})",
        R"({"allowedTools":["ls","bash"]})", R"({"status":null})"}) {
    CAPTURE(entry);
    const auto fault_of = [](const Problem& problem) { return problem.errors.at(0); };
    const std::string field = json::unescape(json::all_members(entry).front().name);
    const Fault wanted{"/" + field, "is read-only"};
    CHECK(fault_of(world.refused(PatchSession{.target = {.key = "k"}, .patch = std::string(entry)})) == wanted);
    CHECK(fault_of(world.refused(PutSession{.target = {.key = "k"}, .entry = edit_of(entry)})) == wanted);
    if (entry.contains("null")) continue;
    CHECK(fault_of(world.refused(PutSession{.target = {.key = "new"}, .entry = edit_of(entry)})) == wanted);
    const Fault within{"/entry/" + field, "is read-only"};
    CHECK(fault_of(world.refused(CreateSession{.key = "new", .entry = edit_of(entry)})) == within);
    CHECK(fault_of(world.refused(SpawnSession{.target = {.key = "k"}, .entry = edit_of(entry)})) == within);
  }
  // A PUT may name what is there, and leaves it when it does not.
  world.run(PutSession{.target = {.key = "k"}, .entry = edit_of(R"({"status":"done","turnCount":null,"a":1})")});
  world.run(PutSession{.target = {.key = "k"}, .entry = edit_of(R"({"b":1})")});
  CHECK(world.field("k", "a") == "-");
  CHECK(world.field("k", "status") == "\"done\"");
  CHECK(world.field("k", "runCount") == "2");
  CHECK(world.field("k", "allowedTools") == R"(["ls"])");
}

TEST_CASE("a session keeps its agent, and narrows its tools") {
  World world;
  constexpr std::string_view bound =
      R"({"agentRef":"a","agentSnapshot":{"m":{"x":1},"tools":["ls","read"]},"fallbackChain":["m1"],"tools":["ls"]})";
  world.run(CreateSession{.key = "k", .entry = edit_of(bound)});
  const auto patched = [&](std::string_view patch) {
    return world.ask(PatchSession{.target = {.key = "agent:main:k"}, .patch = std::string(patch)});
  };
  for (const std::string_view patch : {R"({"agentRef":"a"})", R"({"agentSnapshot":{"m":{"x":1.0}}})",
                                       R"({"tools":["read"]})", R"({"fallbackChain":["m1"],"label":"x"})"}) {
    CAPTURE(patch);
    CHECK(patched(patch));
  }
  for (const std::string_view patch :
       {R"({"agentRef":"b"})", R"({"agentRef":null})", R"({"agentSnapshot":{"m":{"y":2}}})",
        R"({"agentSnapshot":{"m":null}})", R"({"fallbackChain":[]})"}) {
    CAPTURE(patch);
    REQUIRE_FALSE(patched(patch));
    CHECK(patched(patch).error().code == Code::agent_bound);
  }
  CHECK(patched(R"({"tools":["ls","rm"]})").error().errors.at(0).pointer == "/tools/1");
  CHECK(world.ask(PutSession{.target = {.key = "agent:main:k"}, .entry = edit_of(bound)}));
  CHECK(world.refused(PutSession{.target = {.key = "agent:main:k"}, .entry = edit_of(R"({"label":"x"})")}).code ==
        Code::agent_bound);
  for (const std::string_view entry :
       {R"({"tools":["rm"],"agentSnapshot":{"tools":[]}})", R"({"guardrails":{"approval":"x"}})",
        R"({"guardrails":{"allowedCommands":["ls;"]}})", R"({"turnCap":-1})"}) {
    CAPTURE(entry);
    CHECK(world.refused(CreateSession{.key = "c", .entry = edit_of(entry)}).code == Code::validation_failed);
    CHECK(world.refused(PutSession{.target = {.key = "c"}, .entry = edit_of(entry)}).code == Code::validation_failed);
    CHECK(world.refused(SpawnSession{.target = {.key = "agent:main:k"}, .entry = edit_of(entry)}).code ==
          Code::validation_failed);
  }
  CHECK(patched(R"({"guardrails":{"allowedCommands":["git status","a\nb"]},"label":5})").error().errors.size() == 2);
}

TEST_CASE("if-match") {
  World world;
  world.run(CreateSession{.key = "main"});
  struct Case {
    std::vector<std::string> versions;
    bool fits;
  };
  const std::vector<Case> cases{{{}, true},           {{"*"}, true},         {{"r1"}, true},
                                {{"r7", "r1"}, true}, {{"r7", "r8"}, false}, {{"1"}, false}};
  for (const Case& one : cases) {
    const Target target{.key = main_key, .if_match = one.versions};
    const auto check = [&](const auto& command) {
      const auto decision = world.ask(command);
      CHECK(decision.has_value() == one.fits);
      if (decision || one.fits) return;
      CHECK(decision.error().code == Code::precondition_failed);
      CHECK(decision.error().etag == "r1");
    };
    check(PutSession{.target = target});
    check(PatchSession{.target = target, .patch = R"({"label":"x"})"});
    check(DeleteSession{.target = target, .missing_ok = true});
    check(ResetSession{.target = target});
    check(ArchiveSession{.target = target});
    check(SpawnSession{.target = target});
  }
  const Target absent{.key = "nobody", .if_match = {"*"}};
  CHECK(world.refused(PutSession{.target = absent}).code == Code::precondition_failed);
  CHECK(world.refused(PatchSession{.target = absent, .patch = "{}"}).code == Code::session_not_found);
}

TEST_CASE("patch") {
  struct Case {
    std::string_view entry, patch, after;  // without updatedAt and rev
  };
  const std::vector<Case> cases{
      {R"({"a":1})", R"({"a":2,"b":{"c":null,"d":1}})", R"({"a":2,"b":{"d":1}})"},
      {R"({"a":{"x":1,"y":2}})", R"({"a":{"x":null,"z":[1,null]}})", R"({"a":{"y":2,"z":[1,null]}})"},
      {R"({"a":{"x":{"q":1}}})", R"({"a":{"x":{"r":2}}})", R"({"a":{"x":{"q":1,"r":2}}})"},
      {R"({"a":5})", R"({"a":{"x":1}})", R"({"a":{"x":1}})"},
      {R"({"a":{"x":1}})", R"({"a":5})", R"({"a":5})"},
      {R"({"a":1,"label":"x"})", R"({"label":null})", R"({"a":1})"},
      {R"({"a":1})", R"({ "\u0061" : [ 1 , 2 ] })", R"({"a":[1,2]})"},
      {R"({"a":1e400,"b":"\ud800"})", R"({"c":123456789012345678901})",
       R"({"a":1e400,"b":"\ud800","c":123456789012345678901})"}};
  for (const Case& one : cases) {
    CAPTURE(one.patch);
    World world;
    world.store("k", one.entry);
    const Decision done = world.run(PatchSession{.target = {.key = "k"}, .patch = std::string(one.patch)});
    CHECK(done.events.size() == 1);
    CHECK(world.session("k").rev == 1);
    CHECK(world.session("k").updated_at == world.now);
    CHECK(json::apply(*world.session("k").entry(), {.set = {}, .unset = {"updatedAt", "rev"}}) == one.after);
  }
}

TEST_CASE("a patch that changes nothing leaves rev") {
  for (const std::string_view patch : {"{}", R"({"a":1})", R"({"nope":null})", R"({"o":{"x":1}})",
                                       R"({"o":{"gone":null}})", R"({ "o" : { } })", R"({"chatType":"dm"})"}) {
    CAPTURE(patch);
    World world;
    world.store("k", R"({"sessionId":"s","a":1,"o":{"x":1},"chatType":"direct","updatedAt":3,"rev":9})");
    const Decision done = world.run(PatchSession{.target = {.key = "k"}, .patch = std::string(patch)});
    CHECK(done.events.empty());
    CHECK(done.etag == "r9");
    CHECK(world.session("k").updated_at == 3);
  }
}

TEST_CASE("patch: read-only fields, and time that went back") {
  World world;
  world.store("k", R"({"sessionId":"s","updatedAt":9000000000000,"messageCount":1})");
  for (const std::string_view patch : {R"({"rev":1})", R"({"sessionId":"s"})", R"({"messageCount":null})",
                                       R"({"key":"k"})", R"({"updatedAt":1})", R"({"deliveryContext":7})"}) {
    CAPTURE(patch);
    CHECK(world.refused(PatchSession{.target = {.key = "k"}, .patch = std::string(patch)}).code ==
          Code::validation_failed);
  }
  world.run(PatchSession{.target = {.key = "k"}, .patch = R"({"label":"x"})"});
  CHECK(world.session("k").updated_at == 9000000000000);
  CHECK(world.refused(PatchSession{.target = {.key = "nobody"}, .patch = "{}"}).code == Code::session_not_found);
}

TEST_CASE("patch of the delivery writes both forms") {
  World world;
  world.store("k", R"({"deliveryContext":{"channel":"slack","to":"u","x":1},"lastChannel":"slack","lastTo":"u"})");
  world.run(PatchSession{.target = {.key = "k"}, .patch = R"({"deliveryContext":{"to":"v"}})"});
  CHECK(world.field("k", "lastTo") == "\"v\"");
  CHECK(at(world.field("k", "deliveryContext"), "channel") == "\"slack\"");
  CHECK(at(world.field("k", "deliveryContext"), "x") == "1");
}

TEST_CASE("delete with topics") {
  World world;
  world.run(CreateSession{.key = "main", .session_id = "s"});
  world.run(one_message(main_key));
  world.run(one_message(main_key, "b"));
  world.run(one_message(main_key, "a"));
  world.state.transcripts.forget("s.jsonl");
  const Decision done = world.run(DeleteSession{.target = {.key = "s"}, .purge = true});
  REQUIRE(world.asked.size() == 1);
  CHECK(world.asked[0].file == "s.jsonl");
  CHECK(done.status == 204);
  CHECK(done.body.empty());
  CHECK(done.through_checkpoint);
  CHECK(at(done.events.at(0).data, "archivedAs") ==
        R"(["s.jsonl.deleted.2026-11-21T22-00-00.000Z","s-topic-a.jsonl.deleted.2026-11-21T22-00-00.000Z",)"
        R"("s-topic-b.jsonl.deleted.2026-11-21T22-00-00.000Z"])");
  CHECK(at(done.events.at(0).data, "purged") == "true");
  CHECK(world.state.size() == 0);
  CHECK(world.files.empty());
}

TEST_CASE("delete of what is not there, or has no transcript") {
  World world;
  CHECK(world.refused(DeleteSession{.target = {.key = "x"}}).code == Code::session_not_found);
  const Decision none = world.run(DeleteSession{.target = {.key = "x"}, .missing_ok = true});
  CHECK(none.status == 204);
  CHECK(none.events.empty());
  world.run(CreateSession{.key = "main"});
  CHECK(at(world.run(DeleteSession{.target = {.key = main_key}}).events.at(0).data, "archivedAs") == "[]");
}

TEST_CASE("what maintenance selected goes only if it is as it was then") {
  World world;
  world.run(CreateSession{.key = "main", .session_id = "s"});
  world.run(one_message(main_key));
  const Session& selected = world.session(main_key);
  const Protection protection{.main_key = "another"};
  const PruneSession prune{.key = main_key,
                           .protection = &protection,
                           .last_seq = selected.last_seq,
                           .updated_at = selected.updated_at,
                           .reason = "age"};

  PruneSession other = prune;
  other.last_seq -= 1;  // it was given a message since
  CHECK(world.run(other).events.empty());
  other = prune;
  other.updated_at -= 1;  // a foreign program changed it since
  CHECK(world.run(other).events.empty());
  other.key = "agent:main:gone";
  CHECK(world.run(other).events.empty());

  world.run(SpawnSession{.target = {.key = main_key}});
  PruneSession parent = prune;
  parent.last_seq = world.session(main_key).last_seq;
  CHECK(world.run(parent).events.empty());
  REQUIRE(world.state.size() == 2);

  const std::string child(world.state.children(main_key).at(0)->key());
  world.run(DeleteSession{.target = {.key = child}});
  CHECK(world.run(PruneSession{.key = main_key, .last_seq = parent.last_seq, .updated_at = parent.updated_at})
            .events.empty());  // the agent's main session
  const Decision done = world.run(parent);
  REQUIRE(done.events.size() == 1);
  CHECK(at(done.events[0].data, "reason") == "\"age\"");
  CHECK(at(done.events[0].data, "archivedAs").starts_with(R"(["s.jsonl.pruned.2026-11-21T)"));
  CHECK(world.state.size() == 0);
}

TEST_CASE("reset keeps and clears") {
  World world;
  world.store(main_key,
              R"({"sessionId":"old","updatedAt":1,"createdAt":1,"label":"L","sdkSessionId":"x","systemSent":true,)"
              R"("sessionFile":"old.jsonl","inputTokens":5,"messageCount":4,"unknown":[1],"lastTo":"u",)"
              R"("thinkingLevel":"high","archivedAt":7})");
  world.files["old.jsonl"] = "{\"type\":\"session\"}\n";
  const Decision done = world.run(ResetSession{.target = {.key = main_key}, .reason = "because"});
  CHECK(done.status == 200);
  CHECK(done.through_checkpoint);
  CHECK(at(done.body, "previousSessionId") == "\"old\"");
  CHECK(at(done.body, "archivedAs") == R"(["old.jsonl.reset.2026-11-21T22-00-00.000Z"])");
  CHECK(at(done.events.at(0).data, "previousSessionId") == "\"old\"");
  CHECK(at(done.events.at(0).data, "reason") == "\"because\"");
  const Session& session = world.session(main_key);
  CHECK(session.session_id == done.events[0].envelope.session_id);
  CHECK(session.session_id != "old");
  CHECK(session.created_at == 1);
  CHECK(session.updated_at == world.now);
  CHECK(session.message_count == 0);
  for (const std::string_view gone : {"sdkSessionId", "systemSent", "sessionFile", "inputTokens", "archivedAt"}) {
    CAPTURE(gone);
    CHECK(world.field(main_key, gone) == "-");
  }
  for (const std::string_view kept : {"label", "unknown", "lastTo", "thinkingLevel"}) {
    CAPTURE(kept);
    CHECK(world.field(main_key, kept) != "-");
  }
  world.run(ResetSession{.target = {.key = main_key}, .keep_metadata = false});
  CHECK(world.field(main_key, "label") == "-");
  CHECK(world.field(main_key, "unknown") == "-");
  CHECK(world.field(main_key, "lastTo") == "\"u\"");
  CHECK(world.session(main_key).created_at == 1);
}

TEST_CASE("previousSessions: the newest first, at most 50") {
  World world;
  world.run(CreateSession{.key = "main", .session_id = "s0"});
  std::string before;
  for (int round = 0; round < 60; ++round) {
    before = world.session(main_key).session_id;
    ++world.now;
    world.run(ResetSession{.target = {.key = main_key}});
  }
  std::vector<std::string> previous;
  const std::string list = world.field(main_key, "previousSessions");
  for (const auto one : json::elements(list)) previous.push_back(json::string_at(one, "sessionId").value_or(""));
  REQUIRE(previous.size() == 50);
  CHECK(previous.front() == before);
  CHECK(std::ranges::find(previous, "s0") == previous.end());
  CHECK(at(world.run(PatchSession{.target = {.key = main_key}, .patch = "{}"}).body, "previousSessions") == "-");
}

TEST_CASE("archiving twice is one event") {
  World world;
  world.run(CreateSession{.key = "main"});
  const Decision first = world.run(ArchiveSession{.target = {.key = main_key}});
  CHECK(first.events.at(0).envelope.type == journal::EventType::session_archived);
  CHECK(first.etag == "r2");
  const Decision second = world.run(ArchiveSession{.target = {.key = main_key}});
  CHECK(second.events.empty());
  CHECK(second.etag == "r2");
  CHECK(world.refused(one_message(main_key)).code == Code::session_archived);
  CHECK(world.run(ArchiveSession{.target = {.key = main_key}, .archived = false}).events.at(0).envelope.type ==
        journal::EventType::session_unarchived);
  CHECK(world.field(main_key, "archivedAt") == "-");
  CHECK(world.run(ArchiveSession{.target = {.key = main_key}, .archived = false}).events.empty());
}

TEST_CASE("spawn: depth and count") {
  World world;
  world.rules.spawn_depth = 2;
  world.rules.spawn_count = 2;
  world.run(CreateSession{.key = "main"});
  const Decision child = world.run(
      SpawnSession{.target = {.key = main_key}, .label = "L", .task = "T", .entry = edit_of(R"({"model":"m"})")});
  CHECK(child.status == 201);
  const std::string key = *json::string_at(child.body, "key");
  CHECK(key.starts_with("agent:main:subagent:"));
  CHECK(child.location == "/v1/agents/main/sessions/" + key);
  CHECK(world.field(key, "spawnedBy") == "\"agent:main:main\"");
  CHECK(world.field(key, "spawnDepth") == "1");
  CHECK(world.field(key, "label") == "\"L\"");
  CHECK(world.field(key, "task") == "\"T\"");
  CHECK(world.field(key, "model") == "\"m\"");
  CHECK(at(child.events.at(0).data, "reason") == "\"spawn\"");
  const Decision grand = world.run(SpawnSession{.target = {.key = key}});
  const std::string grand_key = *json::string_at(grand.body, "key");
  CHECK(grand_key.starts_with(key + ":subagent:"));
  CHECK(world.refused(SpawnSession{.target = {.key = grand_key}}).code == Code::validation_failed);
  world.run(SpawnSession{.target = {.key = main_key}});
  CHECK(world.refused(SpawnSession{.target = {.key = main_key}}).code == Code::validation_failed);
  CHECK(world.state.children(main_key).size() == 2);
  world.run(DeleteSession{.target = {.key = key}});
  CHECK(world.run(SpawnSession{.target = {.key = main_key}}).status == 201);
  CHECK(world.refused(SpawnSession{.target = {.key = "nobody"}}).code == Code::session_not_found);
  CHECK(world.refused(SpawnSession{.target = {.key = grand_key}, .entry = edit_of(R"({"rev":1})")}).code ==
        Code::validation_failed);
}

TEST_CASE("delete a topic") {
  World world;
  world.run(CreateSession{.key = "main", .session_id = "s"});
  world.run(one_message(main_key, "t 1"));
  CHECK(world.refused(DeleteTopic{.target = {.key = main_key}, .topic = "t"}).code == Code::not_found);
  const Decision done = world.run(DeleteTopic{.target = {.key = main_key}, .topic = "t 1"});
  CHECK(done.status == 204);
  CHECK(done.events.at(0).envelope.topic == "t 1");
  CHECK(at(done.events.at(0).data, "archivedAs") == R"(["s-topic-t%201.jsonl.deleted.2026-11-21T22-00-00.000Z"])");
  CHECK(world.session(main_key).rev == done.events.at(0).envelope.seq);
  CHECK(world.refused(DeleteTopic{.target = {.key = main_key}, .topic = "t 1"}).code == Code::not_found);
  world.run(one_message(main_key, "t 1"));  // a new file, from its beginning
  CHECK(world.entries("s-topic-t%201.jsonl").size() == 1);
}
