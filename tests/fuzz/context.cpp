// Any lines are a transcript, and a model can be shown it: each row is JSON, calls and results match, and what is
// measured in two ways is the same. A line that begins with a digit becomes a message with what follows.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "policy/context/compaction.hpp"
#include "policy/context/tool_pairs.hpp"
#include "policy/context/view.hpp"
#include "store/json/raw_json.hpp"
#include "transcripts/conversation.hpp"
#include "transcripts/landmarks.hpp"
#include "transcripts/memory_transcript.hpp"

using namespace sessiond;
using namespace sessiond::transcripts;

namespace {

// `$` is what follows the digit and two letters, as JSON; `@` and `^` are these letters: ids.
constexpr std::array<std::string_view, 10> templates{
    R"({"type":"message","id":"@","parentId":"^","message":{"role":"user","content":$}})",
    R"({"type":"message","id":"@","parentId":"^","message":{"role":"assistant","content":$,"usage":{"input":9}}})",
    R"({"type":"message","id":"@","parentId":"^","message":{"role":"assistant","content":[{"type":"toolCall","id":"^","name":"ls","arguments":$}]}})",
    R"({"type":"message","message":{"role":"toolResult","toolCallId":"^","toolName":"ls","content":$}})",
    R"({"role":"assistant","content":[{"type":"tool_use","id":"^","name":"ls","input":$},{"type":"tool_use","id":"@","name":"ls","input":1}]})",
    R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"^","content":$},{"type":"tool_result","tool_use_id":"@","content":"a"}]})",
    R"({"role":"assistant","tool_calls":[{"id":"@","function":{"name":"ls","arguments":$}}]})",
    R"({"role":"tool","tool_call_id":"@","content":$})",
    R"({"type":"compaction","id":"@","summary":$,"firstKeptEntryId":"^"})",
    R"({"type":"message","message":{"role":"system","content":$,"summary":true}})",
};

std::string line_of(std::string_view text) {
  if (text.size() < 3 || text[0] < '0' || text[0] > '9') return std::string(text);
  const std::string_view rest = text.substr(3);
  const bool is_json = json::check(rest, {.max_depth = 60}).has_value();
  std::string line;
  for (const char c : templates[static_cast<std::size_t>(text[0] - '0')]) {
    if (c == '$')
      line += is_json ? std::string(rest) : json::quote(rest);
    else if (c == '@' || c == '^')
      line += json::unescape(std::string(1, static_cast<char>('a' + (text[c == '@' ? 1 : 2] & 7))));
    else
      line += c;
  }
  return line;
}

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t flags = size == 0 ? 0 : data[size - 1];
  MemoryTranscript transcript;
  transcript.add_header("{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n");
  Landmarks marks;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line = line_of(text.substr(0, end));
    marks.add(line);
    transcript.add(line + "\n", 1);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const auto decoded = Landmarks::decode(encode_sidecar(marks, 7), 7);
  require(decoded && decoded->lines == marks.lines && decoded->branches.size() == marks.branches.size());

  const auto conversation = read_conversation(transcript, {});
  require(conversation.has_value());
  auto measured = measure(transcript, 3);
  require(measured.has_value());
  require(measured->used() == context::measure(*conversation, 3).used());
  if (marks.meter) require(marks.meter->used() == measured->used() && marks.meter->turns == measured->turns);
  const auto read = context::meter_of(context::to_text(*measured));
  require(read && context::to_text(*read) == context::to_text(*measured));
  (void)measured->take_doom();

  context::ViewOptions options;
  options.prune = static_cast<context::Prune>(flags % 5);
  options.window = 1 + static_cast<std::int64_t>(flags);
  if ((flags & 16U) != 0) options.max_messages = flags & 7U;
  if ((flags & 32U) != 0) options.max_tool_chars = flags & 7U;
  context::Settings settings;
  settings.pruning.min_chars = 1;
  settings.pruning.keep_chars = 1;
  settings.pruning.keep_assistants = 1;
  context::View view = context::view_of(*conversation, options, settings);
  require(view.used >= 0);
  for (const context::Row& row : view.rows.all)
    require(json::check(context::to_json(row), {.max_depth = json::foreign_depth + 8}).has_value());
  for (const std::string& system : view.system)
    require(json::check(system, {.max_depth = json::foreign_depth + 8}).has_value());
  if (!options.max_messages) require(context::match_pairs(view.rows).empty());
  (void)context::plan_compaction(*conversation, settings);
  if (const auto plan = context::plan_compaction(*conversation, settings, {.window = 1'000, .is_full = true})) {
    const auto rows = context::rows_to_summarise(*conversation, settings, plan->first_kept, 1'000);
    require(rows && rows->all.size() == plan->count && plan->count > 0);
  }
  return 0;
}
