#include "tests/unit/formats/sessions.hpp"

namespace sessiond::testing {

std::string RandomSessions::text() {
  return pick({R"("hello")", R"("")", R"("a \"quoted\" line\nand another")", R"("\ud83d\ude00 and \u00e9, caf\u00e9")",
               R"("lone \ud800")", R"("日本語")", R"("\/slash")"});
}

std::string RandomSessions::others() {
  std::string out;
  if (below(4) == 0) out += R"(,"from":"Ada")";
  if (below(4) == 0) out += R"(,"unknown":{"deep":[1,2.50,1e400,12345678901234567890],"null":null})";
  if (below(6) == 0) out += R"(,"id":"their-id")";
  if (below(6) == 0) out += R"(,"n\u0061me":"n")";
  if (below(8) == 0) out += R"(,"synthetic":true)";
  if (below(12) == 0) out += R"(,"summary":true)";
  if (below(8) == 0) out += R"(,"attachments":[{"path":"/tmp/a.pdf","size":3},{"type":"image","data":"AA=="}])";
  return out;
}

std::string RandomSessions::part() {
  switch (below(6)) {
    case 0:
      return R"({"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"})";
    case 1:
      return R"({"type":"thinking","thinking":"hm","signature":"x"})";
    case 2:
      return R"({"type":"file","file":{"name":"a.txt"}})";
    case 3:
      return R"({"type":"unheard-of","x":[ 1 , 2 ]})";
    default:
      return fmt::format(R"({{"type":"text","text":{}}})", text());
  }
}

std::string RandomSessions::content() {
  if (below(3) == 0) return text();
  std::string parts;
  for (std::size_t left = below(4); left > 0; --left) parts += (parts.empty() ? "" : ",") + part();
  return "[" + parts + "]";
}

std::string RandomSessions::message() {
  time_ += static_cast<std::int64_t>(below(100'000));
  const std::string own_time = often()   ? fmt::format(R"(,"timestamp":{})", time_)
                               : often() ? fmt::format(R"(,"timestamp":"{}")", transcripts::iso_time(time_))
                                         : pick({"", R"(,"timestamp":"yesterday")", R"(,"timestamp":-1)"});
  if (!open_call_.empty() && often()) {
    const std::string id = std::exchange(open_call_, "");
    if (below(3) == 0)
      return fmt::format(R"({{"role":"tool","tool_call_id":"{}","content":{}{}}})", id, text(), own_time);
    return fmt::format(R"({{"role":"toolResult","toolCallId":"{}","toolName":"ls","content":{},"isError":false{}{}}})",
                       id, content(), others(), own_time);
  }
  if (below(3) == 0) {
    open_call_ = fmt::format("call_{}", below(1000));
    const std::string usage = often() ? R"(,"usage":{"input":10,"output":3,"cost":{"total":0.1}},"model":"m")" : "";
    if (below(3) == 0)
      return fmt::format(
          R"({{"role":"assistant","content":null,"tool_calls":[{{"id":"{}","type":"function","function":{{"name":"ls","arguments":"{{\"a\": 1}}"}}}}]{}{}}})",
          open_call_, usage, own_time);
    return fmt::format(
        R"({{"role":"assistant","content":[{},{{"type":"toolCall","id":"{}","name":"ls","arguments":{{"a":1}}}}]{}{}{}}})",
        part(), open_call_, usage, others(), own_time);
  }
  if (below(12) == 0) return R"({"role":"user","text":"short"})";
  return fmt::format(R"({{"role":"{}","content":{}{}{}}})", pick({"user", "assistant", "system", "user", "developer"}),
                     content(), others(), own_time);
}

std::string RandomSessions::entry(std::string_view id, std::string_view parent) {
  const std::string ids =
      fmt::format(R"("id":"{}","parentId":{})", id, parent.empty() ? "null" : fmt::format("\"{}\"", parent));
  const std::string time = below(10) == 0 ? "" : fmt::format(R"(,"timestamp":"{}")", transcripts::iso_time(time_ + 7));
  switch (below(14)) {
    case 0:
      return fmt::format(R"({{"type":"compaction",{}{},"summary":{},"firstKeptEntryId":"x","tokensBefore":9}})", ids,
                         time, text());
    case 1:
      return fmt::format(R"({{"type":"custom",{}{},"customType":"theirs","data":{{"a":1}}}})", ids, time);
    case 2:
      return fmt::format(R"({{"type":"label",{}{},"label":"l"}})", ids, time);
    case 3:
      return "{not JSON";
    default:
      return fmt::format(R"({{"type":"message",{}{},"message":{}{}}})", ids, time, message(),
                         below(5) == 0 ? R"(,"beside":1)" : "");
  }
}

CollectedSession RandomSessions::next() {
  CollectedSession session;
  session.head.id = fmt::format("s-{}", below(1'000'000'000));
  session.head.header = fmt::format(R"({{"type":"session","version":3,"id":"{}","timestamp":"{}","cwd":"/w"}})",
                                    session.head.id, transcripts::iso_time(time_));
  json::ObjectWriter entry;
  if (often()) entry.string("name", "a name");
  if (often()) entry.string("description", "what it is about");
  if (often()) entry.integer("sessionStartedAt", time_ - 5);
  if (often()) entry.integer("updatedAt", time_ + 1'000'000);
  if (below(2) == 0) entry.integer("lastInteractionAt", time_ + 900'000);
  if (often()) entry.string("modelProvider", "anthropic");
  if (often()) entry.string("model", "m");
  session.head.entry = entry.text();
  std::vector<std::string> ids;
  open_call_.clear();
  for (std::size_t left = below(30); left > 0; --left) {
    std::string parent = ids.empty() ? "" : ids.back();
    if (!ids.empty() && below(8) == 0) parent = ids[below(ids.size())];
    const std::string id = fmt::format("e{}", ids.size());
    session.lines.push_back(this->entry(id, parent));
    if (session.lines.back().starts_with("{\"")) ids.push_back(id);
  }
  return session;
}

}  // namespace sessiond::testing
