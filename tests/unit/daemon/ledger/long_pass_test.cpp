// Calls that parse much of a transcript run one at a time, and others go on beside them.
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <thread>

#include "tests/unit/daemon/ledger/ledger_fixture.hpp"

using namespace sessiond;
using sessiond::testing::LedgerFixture;

namespace {

std::string transcript_of(std::size_t bytes) {
  std::string text = "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n";
  std::string parent = "null";
  for (int i = 0; text.size() < bytes; ++i) {
    text +=
        fmt::format(R"({{"type":"message","id":"e{}","parentId":{},"message":{{"role":"user","content":"{:0>900}"}}}})",
                    i, parent, i) +
        "\n";
    parent = fmt::format("\"e{}\"", i);
  }
  return text;
}

}  // namespace

TEST_CASE("of long passes over transcripts one runs at a time, and a short read does not wait for it") {
  LedgerFixture fixture;
  REQUIRE(fixture.create("agent:main:main", "small").has_value());
  REQUIRE(fixture.append("agent:main:main", "hello").has_value());
  std::array<std::optional<Result<std::uint64_t>>, 4> counted;
  for (std::size_t i = 0; i < counted.size(); ++i)
    LedgerFixture::write_file(fixture.in_agent(fmt::format("big{}.jsonl", i)), transcript_of(3 << 20));
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  std::atomic<bool> may_end = false;
  const auto long_pass = [&](transcripts::Transcript& transcript) -> Result<std::uint64_t> {
    const auto marks = transcript.landmarks();
    if (!marks) return std::unexpected(marks.error());
    most = std::max<int>(most, ++running);
    while (!may_end) std::this_thread::yield();
    --running;
    return (*marks)->lines;
  };
  for (std::size_t i = 0; i < counted.size(); ++i)
    fixture.start(fixture.ledger().read_transcript("main", fmt::format("big{}.jsonl", i), long_pass), counted[i]);
  fixture.run_until([&] { return running == 1; });
  const auto lines = fixture.lines("small.jsonl");  // the fixture has two disk threads
  REQUIRE(lines.has_value());
  CHECK(lines->size() == 1);
  may_end = true;
  fixture.run_until([&] { return std::ranges::all_of(counted, [](const auto& one) { return one.has_value(); }); });
  CHECK(most == 1);
  for (const auto& one : counted) {
    REQUIRE((*one).has_value());
    CHECK(**one > 3000);
  }
}
