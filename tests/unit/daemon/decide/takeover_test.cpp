#include "daemon/decide/takeover.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace sessiond;
using namespace sessiond::decide;

namespace {

HeldMessage held_by(const std::string& reply_to, std::uint64_t seq) {
  return {.entry_id = "m" + std::to_string(seq), .seq = seq, .reply_to = reply_to, .since = 5, .text = "text"};
}

const std::string slack = R"({"channel":"slack","to":"a"})";
const std::string discord = R"({"channel":"discord","to":"b"})";

}  // namespace

TEST_CASE("takeover: a word answers what stands before it at its address and topic") {
  Takeover takeover;
  takeover.say({{.reply_to = slack, .seen_seq = 5}});
  CHECK(takeover.is_answered({slack, ""}, 4));
  CHECK_FALSE(takeover.is_answered({slack, ""}, 5));
  CHECK_FALSE(takeover.is_answered({discord, ""}, 4));
  CHECK_FALSE(takeover.is_answered({slack, "t"}, 4));
  takeover.say({{.reply_to = slack, .seen_seq = 3}});
  CHECK(takeover.is_answered({slack, ""}, 4));
}

TEST_CASE("takeover: what is written is read again") {
  Takeover takeover{.token = "t1",
                    .name = "Hanne",
                    .since = 1,
                    .until = 2,
                    .age_begun = 3,
                    .age_until = 4,
                    .for_ms = 60'000,
                    .policy_before = ""};
  takeover.hold(held_by(slack, 7));
  takeover.waiting.back().topic = "side";
  takeover.say({{.reply_to = "", .seen_seq = 9}, "x"});
  const std::string stored = json::to_json(takeover);
  const Takeover read = json::from_json<Takeover>(stored);
  CHECK(json::to_json(read) == stored);
  CHECK(read.waiting.front().topic == "side");
  CHECK(read.words.front().topic == "x");
  CHECK(read.policy_before == "");
  CHECK(takeover_json(read) == R"({"name":"Hanne","by":"t1","since":1,"until":2})");
  const Takeover told = json::from_json<TakeoverTold>(json::to_json(TakeoverTold{.takeover = takeover})).takeover;
  CHECK(told.waiting.empty());
  CHECK(told.age_begun == 3);
}

TEST_CASE("takeover: of an address where very much waits the newest message is listed") {
  Takeover takeover;
  for (std::uint64_t seq = 1; seq <= Takeover::most_waiting + 500; ++seq) takeover.hold(held_by(slack, seq));
  CHECK(takeover.waiting.size() == Takeover::most_waiting);
  CHECK(takeover.waiting.back().seq == Takeover::most_waiting + 500);
  takeover.hold(held_by(discord, 2'000));
  CHECK(takeover.waiting.size() == Takeover::most_waiting + 1);
  takeover.say({{.reply_to = slack, .seen_seq = 1'200}});  // those that are answered make room
  CHECK(takeover.waiting.size() == 2);
  CHECK(takeover.waiting.front().seq == Takeover::most_waiting + 500);
}

TEST_CASE("takeover: deleted messages wait no more, and edited ones as people left them") {
  Takeover takeover;
  takeover.hold(held_by(slack, 1));
  takeover.hold(held_by(slack, 2));
  takeover.forget("m1", std::nullopt);
  takeover.edit("m2", std::nullopt, "new");
  takeover.edit("m2", "other", "wrong");
  REQUIRE(takeover.waiting.size() == 1);
  CHECK(takeover.waiting.front().text == "new");
  takeover.forget_transcripts("other");
  CHECK(takeover.waiting.size() == 1);
  takeover.forget_transcripts();
  CHECK(takeover.waiting.empty());
}
