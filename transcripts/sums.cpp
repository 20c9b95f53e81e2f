#include "transcripts/sums.hpp"

#include "policy/usage.hpp"
#include "store/json/raw_json.hpp"
#include "store/utf8.hpp"
#include "transcripts/conversation.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/entry_shape.hpp"

namespace sessiond::transcripts {

std::string beginning_of(std::string_view content) {
  constexpr std::size_t most = 200;  // code points
  std::string text = text_of(content, 4 * most);
  text.resize(store::code_points_end(text, most));
  return text;
}

void EntrySums::add(std::string_view line) {
  const auto seq = static_cast<std::uint64_t>(counts.entries++);
  const EntryFields fields = read_fields(line);
  if (fields.shape == EntryShape::unreadable) return;
  std::string held;
  const auto [type, body] = spoken_of(fields, line, held);
  if (type == "compaction") {
    ++compactions;
    last_prompt.reset();
  }
  const context::Entry entry = context::read_entry(type, body);
  if (context::is_message(type, entry)) ++counts.messages;
  if (entry.usage) {
    if (const std::int64_t prompt = entry.usage->prompt(); prompt > 0) last_prompt = prompt;
    input = policy::add_counted(input, entry.usage->input);
    output = policy::add_counted(output, entry.usage->output);
    total = policy::add_counted(total, entry.usage->total);
    cost = policy::add_counted(cost, policy::cost_of(json::find(body, "usage").value_or("{}")));
  }
  if (!entry.person || !first_message.empty()) return;
  first_message = beginning_of(json::find(body, "content").value_or(""));
  first_id = entry_id(fields, line, seq);
}

}  // namespace sessiond::transcripts
