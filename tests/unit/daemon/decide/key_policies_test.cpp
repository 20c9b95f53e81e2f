#include "daemon/decide/key_policies.hpp"

#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

constexpr const char* guarded_key = "agent:main:slack:direct:u1";
const KeyPolicies::Policy turn_cap_3{{"turnCap", "3"}};

Change policy_event(std::uint64_t seq, journal::EventType type, std::string_view data,
                    std::string_view source = "api") {
  return {journal::make_event(
      {.seq = seq, .type = type, .agent = "main", .key = guarded_key, .source = std::string(source)}, data)};
}

Change guarded_created(std::uint64_t seq, bool by_operator) {
  return policy_event(seq, journal::EventType::session_created,
                      by_operator ? R"({"entry":{"turnCap":3},"policySet":true})" : R"({"entry":{"turnCap":3}})");
}

Change guarded_deleted(std::uint64_t seq) { return policy_event(seq, journal::EventType::session_deleted, "{}"); }

const KeyPolicies::Policy* policy_found(const KeyPolicies& book) { return book.find("main", guarded_key); }

}  // namespace

TEST_CASE("what an operator has set outlives the session, and what its maker chose does not") {
  KeyPolicies book;
  book.apply(guarded_created(1, true));
  book.apply(guarded_deleted(2));
  REQUIRE(policy_found(book) != nullptr);
  CHECK(*policy_found(book) == turn_cap_3);
  KeyPolicies makers;
  makers.apply(guarded_created(1, false));
  CHECK(policy_found(makers) == nullptr);
  makers.apply(guarded_deleted(2));
  CHECK(makers.all().empty());
}

TEST_CASE("an operator's change keeps what the maker chose beside it") {
  KeyPolicies book;
  book.apply(guarded_created(1, false));
  book.apply(policy_event(2, journal::EventType::session_updated, R"({"set":{"guardrails":{"approval":[]}}})"));
  book.apply(guarded_deleted(3));
  REQUIRE(policy_found(book) != nullptr);
  CHECK(*policy_found(book) == KeyPolicies::Policy{{"guardrails", R"({"approval":[]})"}, {"turnCap", "3"}});
  book.apply(policy_event(4, journal::EventType::session_updated, R"({"unset":["guardrails","turnCap"]})"));
  REQUIRE(policy_found(book) != nullptr);
  CHECK(policy_found(book)->empty());
}

TEST_CASE("other changes of a session set nothing") {
  KeyPolicies book;
  book.apply(policy_event(1, journal::EventType::session_updated, R"({"set":{"label":"x"}})"));
  CHECK(book.all().empty());
  CHECK_FALSE(book.is_dirty());
}

TEST_CASE("keys of ephemeral sessions are not in the file, and only an operator's are kept") {
  KeyPolicies book;
  book.apply_passing(guarded_created(1, false));
  CHECK(book.all().empty());
  book.apply_passing(guarded_created(2, true));
  book.apply_passing(guarded_deleted(3));
  REQUIRE(policy_found(book) != nullptr);
  CHECK(book.has_passing());
  CHECK_FALSE(book.is_dirty());
  CHECK(KeyPolicies::from_json(book.to_json())->all().empty());
  book.apply(guarded_created(4, true));  // now a durable session has the key
  CHECK_FALSE(book.has_passing());
  CHECK(book.is_dirty());
  CHECK(*policy_found(*KeyPolicies::from_json(book.to_json())) == turn_cap_3);
}

TEST_CASE("the book is the same after it was stored, and an event that it holds changes nothing again") {
  KeyPolicies book;
  book.apply(guarded_created(5, true));
  auto again = KeyPolicies::from_json(book.to_json());
  REQUIRE(again);
  CHECK_FALSE(again->is_dirty());
  again->apply(policy_event(5, journal::EventType::session_updated, R"({"unset":["turnCap"]})"));
  REQUIRE(policy_found(*again) != nullptr);
  CHECK(*policy_found(*again) == turn_cap_3);
  for (const char* damaged : {"{}", "[]", R"({"seq":1,"keys":{}})", R"({"keys":[]})"})
    CHECK_FALSE(KeyPolicies::from_json(damaged));
}

TEST_CASE("a key has what was set under it however it is spelled") {
  KeyPolicies book;
  book.apply(guarded_created(1, true));
  for (const char* spelled : {"agent:main:slack:dm:u1", "slack:direct:u1", "agent:main:slack:direct:U1"})
    CHECK(book.find("main", spelled) != nullptr);
  CHECK(book.find("main", "agent:main:slack:direct:u10") == nullptr);
}
