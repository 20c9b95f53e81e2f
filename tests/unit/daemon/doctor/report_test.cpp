#include "daemon/doctor/report.hpp"

#include <doctest/doctest.h>

#include <string>

#include "store/json/raw_json.hpp"

using namespace sessiond;
using namespace sessiond::doctor;

TEST_CASE("the worst finding is the status") {
  Report report;
  CHECK(report.exit_code() == 0);
  CHECK(to_json(report) == R"({"status":"ok","repairs":[],"findings":[]})");
  report.ok("a", "/x", "fine");
  CHECK(report.exit_code() == 0);
  report.warning("b", "/y", "odd", "look");
  CHECK(report.exit_code() == 1);
  report.error("c", "", "bad", "act");
  report.warning("b", "/y", "odd", "look");
  CHECK(report.exit_code() == 2);
  Report outer;
  outer.append(report);
  CHECK(outer.exit_code() == 2);
  CHECK(outer.findings().size() == 4);
}

TEST_CASE("names that hold anything stay JSON and one line of text") {
  Report report;
  report.warning("orphan", "/a\n\x1b[2J\"\\\xff.jsonl", "tab\there", "x");
  const std::string text = to_json(report);
  CHECK(json::check(text, {.utf8 = true}));
  CHECK(text.contains("\\\"\\\\"));
  const std::string shown = to_text(report);
  CHECK(shown.contains("\\x0a\\x1b[2J"));
  CHECK(shown.contains("0 errors, 1 warning, 0 ok"));
}

TEST_CASE("of a kind the first are kept and the rest counted") {
  Report report;
  for (int i = 0; i < 1000; ++i) report.warning("orphan", "/" + std::to_string(i), "nobody's", "keep it");
  report.error("orphan", "/z", "bad", "act");
  const auto findings = report.findings();
  REQUIRE(findings.size() == Report::most_of_a_kind + 2);
  CHECK(findings.back().detail == "and 950 more like those above");
  CHECK(findings.back().level == Level::warning);
  Report outer;
  outer.append(report);
  CHECK(outer.findings().size() == findings.size());
  CHECK(outer.findings().back().detail == findings.back().detail);
}
