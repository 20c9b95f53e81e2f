#include "policy/routing.hpp"

#include <doctest/doctest.h>

#include "store/names.hpp"

using namespace sessiond;
using namespace sessiond::policy;

namespace {

std::string key_of(const RouteSettings& settings, const RouteInput& input) {
  const auto routed = route(settings, input);
  if (routed) return routed->key;
  std::string out;
  for (const Fault& fault : routed.error().errors) out += (out.empty() ? "" : " ") + fault.pointer;
  return out;
}

RouteInput direct(std::string_view channel, std::string_view peer, std::string_view account = {}) {
  return {.agent = "main", .channel = channel, .account_id = account, .chat_type = "direct", .peer = peer};
}

}  // namespace

TEST_CASE("direct messages by dmScope") {
  struct Case {
    DmScope scope;
    std::string_view key;
  };
  for (const Case& one : {Case{DmScope::main, "agent:main:main"}, Case{DmScope::per_peer, "agent:main:direct:u1"},
                          Case{DmScope::per_channel_peer, "agent:main:slack:direct:u1"},
                          Case{DmScope::per_account_channel_peer, "agent:main:slack:work:direct:u1"}}) {
    CHECK(key_of({.dm_scope = one.scope}, direct(" Slack ", " U1 ", "Work")) == one.key);
  }
  CHECK(key_of({.dm_scope = DmScope::per_account_channel_peer}, direct("slack", "U1")) ==
        "agent:main:slack:default:direct:u1");
  CHECK(key_of({.dm_scope = DmScope::main, .main_key = " Home "}, direct("slack", "U1")) == "agent:main:home");
  CHECK(key_of({.dm_scope = DmScope::main, .main_key = ""}, direct("slack", "U1")) == "agent:main:main");
  CHECK(key_of({}, {.agent = " Ops Team", .channel = "slack", .chat_type = "dm", .peer = "u"}) ==
        "agent:ops-team:slack:direct:u");
}

TEST_CASE("linked identities share a session") {
  RouteSettings settings{.identity_links = {{"alice", {"telegram:111", " Slack:U02 "}}, {"", {"x:y"}}}};
  CHECK(key_of(settings, direct("slack", "u02")) == "agent:main:slack:direct:alice");
  CHECK(key_of(settings, direct("telegram", "111")) == "agent:main:telegram:direct:alice");
  CHECK(key_of(settings, direct("telegram", "112")) == "agent:main:telegram:direct:112");
  CHECK(key_of(settings, direct("discord", "111")) == "agent:main:discord:direct:111");
  CHECK(key_of(settings, direct("x", "y")) == "agent:main:x:direct:y");
  settings.dm_scope = DmScope::per_peer;
  CHECK(key_of(settings, direct("slack", "U02")) == "agent:main:direct:alice");
  settings.dm_scope = DmScope::main;
  CHECK(key_of(settings, direct("slack", "U02")) == "agent:main:main");
  CHECK(key_of(settings, {.agent = "main", .channel = "slack", .chat_type = "group", .peer = "U02"}) ==
        "agent:main:slack:group:u02");
  const auto linked = route(settings, direct("slack", " U02 "));
  CHECK(linked->peer == "U02");
}

TEST_CASE("groups, channels and threads") {
  struct Case {
    std::string_view channel, type, peer, thread, session_key, inherit_key;
  };
  const std::vector<Case> cases{
      {"slack", "channel", "C1", "", "agent:main:slack:channel:c1", "agent:main:slack:channel:c1"},
      {"slack", "Channel", "C1", " 1700.5 ", "agent:main:slack:channel:c1:thread:1700.5",
       "agent:main:slack:channel:c1"},
      {"telegram", "group", "-100:topic:42", "", "agent:main:telegram:group:-100:topic:42",
       "agent:main:telegram:group:-100:topic:42"},
      {"telegram", "group", "-100:topic:42", "42", "agent:main:telegram:group:-100:topic:42",
       "agent:main:telegram:group:-100:topic:42"},
      {"telegram", "group", "-100:topic:42", "9", "agent:main:telegram:group:-100:topic:42:thread:9",
       "agent:main:telegram:group:-100:topic:42"},
      {"discord", "channel", "222:thread:333", "333", "agent:main:discord:channel:222:thread:333",
       "agent:main:discord:channel:222:thread:333"},
      {"matrix", "channel", "!AbC:Example.org", "$Ev", "agent:main:matrix:channel:!AbC:Example.org:thread:$Ev",
       "agent:main:matrix:channel:!AbC:Example.org"},
      {"signal", "group", "Zm9v", "", "agent:main:signal:group:Zm9v", "agent:main:signal:group:Zm9v"},
      {"imessage", "dm", "chat_guid:any;-;+1555", "5", "agent:main:imessage:direct:chat_guid:any;-;+1555:thread:5",
       "agent:main:imessage:direct:chat_guid:any;-;+1555"},
      {"x", "direct", "日本 太郎", "", "agent:main:x:direct:日本 太郎", "agent:main:x:direct:日本 太郎"}};
  for (const Case& one : cases) {
    CAPTURE(one.peer);
    const RouteInput input{
        .agent = "main", .channel = one.channel, .chat_type = one.type, .peer = one.peer, .thread_id = one.thread};
    CHECK(key_of({}, input) == one.session_key);
    CHECK(key_of({.threads = ThreadScope::inherit}, input) == one.inherit_key);
    CHECK(route({}, input)->thread == !one.thread.empty());
    CHECK_FALSE(route({.threads = ThreadScope::inherit}, input)->thread);
  }
  CHECK(key_of({.dm_scope = DmScope::main},
               {.agent = "main", .channel = "a", .chat_type = "direct", .peer = "p", .thread_id = "7"}) ==
        "agent:main:main:thread:7");
}

TEST_CASE("a thread of a group is a topic on the channels that have them") {
  const RouteSettings settings{.topic_channels = {"telegram"}};
  const auto of = [&](std::string_view channel, std::string_view type, std::string_view peer, std::string_view thread) {
    return *route(settings,
                  {.agent = "main", .channel = channel, .chat_type = type, .peer = peer, .thread_id = thread});
  };
  const Route topic = of("Telegram", "group", "-100", "7");
  CHECK(topic.key == "agent:main:telegram:group:-100:topic:7");
  CHECK(topic.thread_key == "agent:main:telegram:group:-100:thread:7");
  CHECK(topic.thread);
  for (const Route& other :
       {of("telegram", "group", "-100", ""), of("telegram", "direct", "5", "7"), of("telegram", "channel", "5", "7"),
        of("slack", "group", "-100", "7"), of("telegram", "group", "-100:topic:7", "7"),
        of("telegram", "group", "-100:topic:42", "7")}) {
    CAPTURE(other.key);
    CHECK(other.thread_key.empty());
    CHECK(other.key.ends_with(":thread:7") == (other.thread && !other.key.ends_with("topic:7")));
  }
}

TEST_CASE("a thread whose id cannot be part of a file's name is no topic") {
  const std::string longest(300, 'x');
  const auto made =
      route({.topic_channels = {"telegram"}},
            {.agent = "main", .channel = "telegram", .chat_type = "group", .peer = "-100", .thread_id = longest});
  REQUIRE(made.has_value());
  CHECK(made->key == "agent:main:telegram:group:-100:thread:" + longest);
  CHECK(made->thread_key.empty());
}

TEST_CASE("a channel is named as tokens and rules name it, whatever keys are made of it") {
  store::set_key_rules({.all_letters = true});
  const auto made = route({}, {.agent = "main", .channel = "ÜberChat", .chat_type = "group", .peer = "Ä"});
  const auto word = route({}, {.agent = "main", .channel = "hoo\u212A", .chat_type = "group", .peer = "p"});
  store::set_key_rules({});
  REQUIRE(made.has_value());
  CHECK(made->channel == "Überchat");
  CHECK(made->key == "agent:main:überchat:group:ä");
  CHECK_FALSE(word.has_value());  // its key would be one of hooks
}

TEST_CASE("a topic counts as a thread on the channels that have them") {
  const RouteSettings settings{.topic_channels = {"telegram"}};
  CHECK(is_thread(settings, "telegram", "agent:main:telegram:group:-100:topic:7"));
  CHECK(is_thread({}, "slack", "agent:main:slack:channel:c:thread:7"));
  CHECK_FALSE(is_thread({}, "telegram", "agent:main:telegram:group:-100:topic:7"));
  CHECK_FALSE(is_thread(settings, "telegram", "agent:main:telegram:group:-100"));
  const auto named =
      route(settings, {.agent = "main", .channel = "telegram", .chat_type = "group", .peer = "-100:topic:7"});
  CHECK(named->thread);
}

TEST_CASE("faults, all of them, where they are") {
  CHECK(key_of({}, {}) == "/agent /channel /chatType /peer");
  const auto at = [](RouteInput input, DmScope scope = DmScope::per_channel_peer) {
    if (input.agent.empty()) input.agent = "main";
    if (input.channel.empty()) input.channel = "slack";
    if (input.chat_type.empty()) input.chat_type = "direct";
    if (input.peer.empty()) input.peer = "u";
    return key_of({.dm_scope = scope}, input);
  };
  CHECK(at({.channel = "a:b"}) == "/channel");
  CHECK(at({.channel = "a b"}) == "/channel");
  CHECK(at({.channel = "Cron"}) == "/channel");
  CHECK(at({.channel = "direct"}) == "/channel");
  CHECK(at({.channel = "\xff"}) == "/channel");
  CHECK(at({.chat_type = "room"}) == "/chatType");
  CHECK(at({.peer = "a\nb"}) == "/peer");
  CHECK(at({.peer = "\xed\xa0\xbd"}) == "/peer");
  CHECK(at({.peer = std::string_view("a\0b", 3)}) == "/peer");
  CHECK(at({.thread_id = "\x01"}) == "/threadId");
  CHECK(at({.account_id = "a:b"}, DmScope::per_account_channel_peer) == "/accountId");
  CHECK(at({.account_id = "dm"}, DmScope::per_account_channel_peer) == "/accountId");
  CHECK(at({.account_id = "a:b"}) == "agent:main:slack:direct:u");
  const std::string long_peer(600, 'x');
  CHECK(at({.peer = long_peer}) == "/peer");
}
