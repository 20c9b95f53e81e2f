#include "policy/usage.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace sessiond;
using namespace sessiond::policy;

TEST_CASE("usage in each provider's words") {
  struct Case {
    std::string_view usage;
    std::int64_t input, output, cache_read, cache_write, total;
  };
  const std::vector<Case> cases{
      {R"({"input":10,"output":5,"cacheRead":3,"cacheWrite":2,"totalTokens":99})", 10, 5, 3, 2, 99},
      {R"({"input":10,"output":5,"cacheRead":3,"cacheWrite":2})", 10, 5, 3, 2, 20},
      {R"({"inputTokens":10,"outputTokens":5})", 10, 5, 0, 0, 15},
      {R"({"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":7,"cache_creation_input_tokens":1})", 10, 5, 7,
       1, 23},
      {R"({"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4}})", 6,
       5, 4, 0, 15},
      {R"({"input_tokens":10,"output_tokens":5,"input_tokens_details":{"cached_tokens":4}})", 6, 5, 4, 0, 15},
      {R"({"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":2,"cachedContentTokenCount":1,"totalTokenCount":17})",
       9, 7, 1, 0, 17},
      {R"({"input":-4,"output":"5","totalTokens":null})", 0, 0, 0, 0, 0},
      {R"({"input":99999999999999999999,"output":9007199254740992})", most_counted, most_counted, 0, 0, most_counted},
      {"{}", 0, 0, 0, 0, 0}};
  for (const Case& one : cases) {
    CAPTURE(one.usage);
    const auto read = read_usage(one.usage);
    REQUIRE(read);
    CHECK(read->input == one.input);
    CHECK(read->output == one.output);
    CHECK(read->cache_read == one.cache_read);
    CHECK(read->cache_write == one.cache_write);
    CHECK(read->total == one.total);
  }
  CHECK_FALSE(read_usage(""));
  CHECK_FALSE(read_usage("[1]"));
}

TEST_CASE("counters end at 2^53") {
  CHECK(counted("9223372036854775807") == most_counted);
  CHECK(counted("123456789012345678901234567890") == most_counted);
  CHECK(counted("1e400") == most_counted);
  CHECK(counted("-1e400") == 0);
  CHECK(counted("1e-400") == 0);
  CHECK(counted("-5") == 0);
  CHECK(counted("-1e30") == 0);
  CHECK(counted("1.5") == 1);
  CHECK(counted("\"7\"") == std::nullopt);
  CHECK(add_counted(most_counted, most_counted) == most_counted);
  CHECK(add_counted(1, 2) == 3);
}
