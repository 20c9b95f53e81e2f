#include "daemon/auth/principal.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>

using namespace sessiond;
using namespace sessiond::auth;

namespace {

constexpr std::array roles{Role::admin,  Role::operator_, Role::bridge, Role::runner,
                           Role::viewer, Role::metrics,   Role::session};
constexpr std::array permissions{Permission::open,    Permission::read,   Permission::stream,      Permission::write,
                                 Permission::append,  Permission::spawn,  Permission::bridge,      Permission::send,
                                 Permission::deliver, Permission::policy, Permission::maintenance, Permission::tokens,
                                 Permission::metrics, Permission::self,   Permission::mcp};

std::string allowed(Role role) {
  const Principal who{.id = "abcd1234", .role = role};
  std::string names;
  for (const Permission permission : permissions) {
    if (who.may(permission)) names += std::string(name(permission)) + " ";
  }
  return names;
}

}  // namespace

TEST_CASE("what each role may, in full") {
  CHECK(allowed(Role::admin) ==
        "open read stream write append spawn bridge send deliver policy maintenance tokens metrics self mcp ");
  CHECK(allowed(Role::operator_) ==
        "open read stream write append spawn bridge send deliver policy maintenance metrics self mcp ");
  CHECK(allowed(Role::bridge) == "open read stream bridge send deliver self mcp ");
  CHECK(allowed(Role::runner) == "open read stream write append spawn send self mcp ");
  CHECK(allowed(Role::viewer) == "open read stream self mcp ");
  CHECK(allowed(Role::metrics) == "open metrics self mcp ");
  CHECK(allowed(Role::session) == "open read stream append spawn self mcp ");
}

TEST_CASE("who sees and who answers approvals: by role, or by a permission of the token") {
  for (const Role role : roles) {
    const bool answers = role == Role::admin || role == Role::operator_;
    Principal who{.id = "abcd1234", .role = role};
    CHECK(who.may(Permission::approve) == answers);
    CHECK(who.may(Permission::approvals) == (role != Role::metrics));
    who.permissions = {"approve"};
    CHECK(who.may(Permission::approve));
    CHECK(who.may(Permission::approvals));
    CHECK(who.may(Permission::write) == Principal{.id = "abcd1234", .role = role}.may(Permission::write));
  }
  CHECK_FALSE(Principal{.id = "", .permissions = {"approve"}}.may(Permission::approve));
}

TEST_CASE("who answers calls of hooks: by role, or by a permission of the token") {
  for (const Role role : roles) {
    Principal who{.id = "abcd1234", .role = role};
    CHECK(who.may(Permission::hook) == (role == Role::admin || role == Role::operator_));
    who.permissions = {"approve"};
    CHECK(who.may(Permission::hook) == (role == Role::admin || role == Role::operator_));
    who.permissions = {"hook"};
    CHECK(who.may(Permission::hook));
    CHECK(who.may(Permission::approve) == (role == Role::admin || role == Role::operator_));
  }
}

TEST_CASE("who speaks in place of the agent: by role, or by a permission of the token, which may send then") {
  for (const Role role : roles) {
    Principal who{.id = "abcd1234", .role = role};
    CHECK(who.may(Permission::takeover) == (role == Role::admin || role == Role::operator_));
    who.permissions = {"approve", "hook"};
    CHECK(who.may(Permission::takeover) == (role == Role::admin || role == Role::operator_));
    who.permissions = {"takeover"};
    CHECK(who.may(Permission::takeover));
    CHECK(who.may(Permission::send));
    CHECK(who.may(Permission::append) == Principal{.id = "abcd1234", .role = role}.may(Permission::append));
  }
}

TEST_CASE("nobody may only what is open, whatever role stands there") {
  for (const Role role : roles) {
    const Principal nobody{.id = "", .role = role};
    for (const Permission permission : permissions) CHECK(nobody.may(permission) == (permission == Permission::open));
  }
  CHECK_FALSE(Principal{}.may(Permission::read));
}

TEST_CASE("role names go there and back; other spellings are none") {
  for (const Role each : roles) CHECK(role(name(each)) == each);
  for (const char* text : {"", "Admin", "admin ", "operator_", "root", "viewe", "viewers"}) CHECK_FALSE(role(text));
}

TEST_CASE("an admin with a limit makes no tokens: they could be without limit") {
  CHECK(Principal{.id = "a", .role = Role::admin}.may(Permission::tokens));
  CHECK_FALSE(Principal{.id = "a", .role = Role::admin, .agents = {"main"}}.may(Permission::tokens));
  CHECK_FALSE(Principal{.id = "a", .role = Role::admin, .key_prefix = "agent:"}.may(Permission::tokens));
  CHECK_FALSE(Principal{.id = "a", .role = Role::admin, .channel = "slack"}.may(Permission::tokens));
  CHECK(Principal{.id = "a", .role = Role::admin, .agents = {"main"}}.may(Permission::write));
}

TEST_CASE("without limits everything is seen") {
  const Principal who{.id = "a"};
  CHECK(who.sees_everything());
  CHECK(who.sees_agent("main"));
  CHECK(who.sees_agent(""));
  CHECK(who.sees_whole_agent("main"));
  CHECK(who.sees("main", "global", ""));
}

TEST_CASE("agents: only those listed, exactly, and nothing that concerns the whole store") {
  const Principal who{.id = "a", .agents = {"main", "codex"}};
  CHECK(who.sees_agent("main"));
  CHECK(who.sees_agent("codex"));
  CHECK_FALSE(who.sees_agent("mai"));
  CHECK_FALSE(who.sees_agent("main2"));
  CHECK_FALSE(who.sees_agent(""));
  CHECK_FALSE(who.sees_everything());
  CHECK(who.sees_whole_agent("main"));
  CHECK_FALSE(who.sees("other", "agent:main:main", ""));
}

TEST_CASE("key prefix: against the full key, in any case, in either spelling of direct messages") {
  const Principal who{.id = "a", .key_prefix = "agent:main:Slack:"};
  CHECK(who.sees("main", "agent:main:slack:group:c1", "slack"));
  CHECK(who.sees("main", "AGENT:MAIN:SLACK:group:c1", ""));
  CHECK_FALSE(who.sees("main", "slack:group:c1", "slack"));
  CHECK_FALSE(who.sees("main", "agent:main:slac", ""));
  CHECK_FALSE(who.sees("main", "agent:main:slack2:group:c1", ""));
  CHECK_FALSE(who.sees("main", "", ""));
  CHECK_FALSE(who.sees_whole_agent("main"));
  CHECK_FALSE(who.sees_everything());

  const Principal direct{.id = "a", .key_prefix = "agent:main:slack:direct:u1"};
  CHECK(direct.sees("main", "agent:main:slack:direct:u1", ""));
  CHECK(direct.sees("main", "agent:main:slack:dm:u1", ""));
  CHECK_FALSE(direct.sees("main", "agent:main:slack:dm:u2", ""));
  const Principal dm{.id = "a", .key_prefix = "agent:main:slack:dm:"};
  CHECK(dm.sees("main", "agent:main:slack:direct:u9", ""));
  CHECK_FALSE(dm.sees("main", "agent:main:slack:group:u9", ""));
}

TEST_CASE("channel: the committed one, whole") {
  const Principal who{.id = "a", .channel = "slack"};
  CHECK(who.sees("main", "any", "slack"));
  CHECK(who.sees("main", "any", "Slack"));
  CHECK_FALSE(who.sees("main", "agent:main:slack:direct:u1", ""));
  CHECK_FALSE(who.sees("main", "any", "slack2"));
  CHECK_FALSE(who.sees("main", "any", "slac"));
  CHECK_FALSE(who.sees_whole_agent("main"));
}

TEST_CASE("limits are all to be met") {
  const Principal who{.id = "a", .agents = {"main"}, .key_prefix = "agent:main:slack:", .channel = "slack"};
  CHECK(who.sees("main", "agent:main:slack:group:1", "slack"));
  CHECK_FALSE(who.sees("codex", "agent:main:slack:group:1", "slack"));
  CHECK_FALSE(who.sees("main", "agent:main:main", "slack"));
  CHECK_FALSE(who.sees("main", "agent:main:slack:group:1", "discord"));
}
