#include "daemon/decide/events.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

// One event of each shape, as a daemon wrote them before events were records.
std::vector<journal::Event> recorded_events() {
  std::ifstream file(SESSIOND_SOURCE_DIR "/tests/unit/daemon/decide/recorded_events.jsonl");
  std::vector<journal::Event> events;
  for (std::string line; std::getline(file, line);) events.push_back(*journal::parse_event(line));
  return events;
}

}  // namespace

TEST_CASE("a record of an event is written as the journal has it, byte for byte") {
  std::size_t records = 0;
  for (const journal::Event& event : recorded_events()) {
    CAPTURE(*event.json);
    const Change change = decode(event);
    if (change.payload == nullptr) continue;
    ++records;
    json::Edit held;
    CHECK(data_of(change.said(), edit_of(change, held)) == event.data);
    CHECK(reads_back(change));
  }
  CHECK(records > 150);
}

TEST_CASE("members of an event that come in another order, or that nobody knows, are read all the same") {
  const Change change = event_of(1, 10, journal::EventType::run_started, main_key,
                                 R"({"set":{},"token":"t","later":[1],"runner":"r","runId":"id","status":"running",
                                     "overflowTold":true,"input":["a","b"],"origin":9,"steps":"three"})");
  const auto* told = change.as<RunTold>();
  REQUIRE(told != nullptr);
  CHECK(told->run.id == "id");
  CHECK(told->run.runner == "r");
  CHECK(told->run.token == "t");
  CHECK(told->run.status == RunStatus::running);
  CHECK(told->run.input == std::vector<std::string>{"a", "b"});
  CHECK(told->run.origin == runs::Origin::queued);  // the last one: a later version has more
  CHECK(told->run.steps == 0);
  CHECK(told->overflow_told);
}

TEST_CASE("an update of a session is read as a shutdown only where it tells one") {
  CHECK(event_of(1, 10, journal::EventType::session_updated, main_key, R"({"set":{"label":"shutdown"},"unset":[]})")
            .as<ShutdownTold>() == nullptr);
  const Change told = event_of(2, 10, journal::EventType::session_updated, main_key,
                               R"({"shutdown":{"reason":"night","at":7},"set":{},"unset":[]})");
  REQUIRE(told.as<ShutdownTold>() != nullptr);
  CHECK(told.as<ShutdownTold>()->reason == "night");
  CHECK(told.as<ShutdownTold>()->at == 7);
}
