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

TEST_CASE("each provider's cache and total count where it counts them") {
  struct Case {
    std::string_view provider, usage;
    std::int64_t input, used;
  };
  const std::vector<Case> cases{
      {"OpenClaw", R"({"input":10,"output":5,"cacheRead":90,"cacheWrite":1,"totalTokens":15})", 10, 106},
      {"Anthropic", R"({"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":90})", 10, 105},
      {"Anthropic, written", R"({"input_tokens":10,"output_tokens":5,"cache_creation_input_tokens":90})", 10, 105},
      {"OpenAI",
       R"({"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"prompt_tokens_details":{"cached_tokens":90}})",
       10, 105},
      {"OpenAI Responses",
       R"({"input_tokens":100,"output_tokens":5,"total_tokens":105,"input_tokens_details":{"cached_tokens":90}})", 10,
       105},
      {"Google",
       R"({"promptTokenCount":100,"candidatesTokenCount":5,"thoughtsTokenCount":2,"cachedContentTokenCount":90,"totalTokenCount":120})",
       10, 120},
      {"Bedrock", R"({"inputTokens":1000,"outputTokens":10,"totalTokens":1010,"cacheReadInputTokens":90000})", 1000,
       91010},
      {"Bedrock, written", R"({"inputTokens":1000,"outputTokens":10,"totalTokens":1010,"cacheWriteInputTokens":90000})",
       1000, 91010},
      {"MiniMax",
       R"({"prompt_tokens":50000,"completion_tokens":100,"total_tokens":50100,"cache_read_input_tokens":45000})", 5000,
       50100},
      {"Moonshot", R"({"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"cached_tokens":90})", 10, 105},
      {"DeepSeek",
       R"({"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"prompt_cache_hit_tokens":90,"prompt_cache_miss_tokens":10})",
       10, 105},
      {"AI SDK 5", R"({"inputTokens":10,"outputTokens":5,"totalTokens":15,"cachedInputTokens":90})", 10, 105},
      {"AI SDK 6",
       R"({"inputTokens":100,"outputTokens":5,"totalTokens":105,"inputTokenDetails":{"noCacheTokens":9,"cacheReadTokens":90,"cacheWriteTokens":1}})",
       9, 105},
      {"AI SDK 6, a provider's",
       R"({"inputTokens":{"total":100,"noCache":10,"cacheRead":90},"outputTokens":{"total":5,"text":5}})", 10, 105},
      {"nobody's, total", R"({"inputTokens":10,"outputTokens":5,"totalTokens":20})", 10, 20},
      {"nobody's, parts", R"({"inputTokens":10,"outputTokens":5,"totalTokens":9})", 10, 15},
      {"nobody's, less cached than asked", R"({"inputTokens":100,"outputTokens":5,"cacheRead":90})", 10, 105},
      {"nobody's, more cached than asked", R"({"inputTokens":10,"outputTokens":5,"cacheRead":90})", 10, 105}};
  for (const Case& one : cases) {
    CAPTURE(one.provider);
    const auto read = read_usage(one.usage);
    REQUIRE(read);
    CHECK(read->input == one.input);
    CHECK(read->used == one.used);
  }
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

TEST_CASE("a sum of 2^53 or more, below 0 or of no number in a stored entry is not a sum") {
  const auto read = [](std::string_view raw) { return read_totals(raw).value(); };
  CHECK(read(R"({"input":3,"output":4,"total":9007199254740992})") == UsageTotals{3, 4, 7});
  CHECK(read(R"({"input":9007199254740992,"output":4,"total":9007199254740993})") == UsageTotals{0, 4, 4});
  CHECK(read(R"({"input":3,"output":1e400,"total":10})") == UsageTotals{3, 0, 10});
  CHECK(read(R"({"input":3,"output":4,"total":9007199254740991})") == UsageTotals{3, 4, most_counted - 1});
  CHECK(read(R"({"input":-3,"output":4,"total":-1})") == UsageTotals{0, 4, 4});
  CHECK(read(R"({"input":3,"output":"4","total":null})") == UsageTotals{3, 0, 3});
  CHECK(read(R"({"input":3,"output":4})") == UsageTotals{3, 4, 0});
  for (const char* sound : {"{}", R"({"input":3,"more":-1})", R"({"input":0,"output":4,"total":9007199254740991})"})
    CHECK(are_totals(sound));
  for (const char* spoilt : {"7", "null", R"({"input":-1})", R"({"output":"4"})", R"({"total":9007199254740992})",
                             R"({"total":1e300})", R"({"total":1.5})", R"({"input":null})"})
    CHECK_FALSE(are_totals(spoilt));
}
