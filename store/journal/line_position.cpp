#include "store/journal/line_position.hpp"

#include "store/json/raw_json.hpp"

namespace sessiond::journal {

void append_json(std::string& out, const LinePosition& position) {
  json::ObjectWriter writer(out);
  const auto number = [&writer](std::string_view name, std::uint64_t value) {
    writer.integer(name, static_cast<std::int64_t>(value));
  };
  if (!position.file.empty()) writer.string("file", position.file);
  writer.string("agent", position.agent);
  if (position.at) number("at", *position.at);
  number("seq", position.seq);
  if (position.length) number("length", *position.length);
  if (position.length || position.inode != 0) number("inode", position.inode);
  if (position.unstamped) writer.boolean("unstamped", true);
  if (position.draw) writer.string("seal", seal::to_text(position.draw));
  if (!position.line.empty()) writer.string("line", position.line);
  if (!position.archives.empty()) writer.raw("archives", json::array_of(position.archives));
  if (!position.entry.empty()) writer.raw("entry", position.entry);
  if (!position.staged.empty()) writer.string("staged", position.staged);
  writer.close();
}

LinePosition parse_line_position(std::string_view text) {
  LinePosition position;
  for (const json::Member& member : json::members(text)) {
    const auto number = [&member] { return static_cast<std::uint64_t>(json::as_int(member.value).value_or(0)); };
    if (member.name == "file")
      position.file = json::as_string(member.value).value_or("");
    else if (member.name == "agent")
      position.agent = json::as_string(member.value).value_or("");
    else if (member.name == "at")
      position.at = number();
    else if (member.name == "seq")
      position.seq = number();
    else if (member.name == "length")
      position.length = number();
    else if (member.name == "inode")
      position.inode = number();
    else if (member.name == "unstamped")
      position.unstamped = json::as_bool(member.value).value_or(false);
    else if (member.name == "line")
      position.line = json::as_string(member.value).value_or("");
    else if (member.name == "seal")
      position.draw = seal::draw_from_text(json::as_string(member.value).value_or("")).value_or(seal::Draw{});
    else if (member.name == "entry")
      position.entry = member.value;
    else if (member.name == "staged")
      position.staged = json::as_string(member.value).value_or("");
    else if (member.name == "archives")
      for (const std::string_view name : json::elements(member.value))
        position.archives.push_back(json::as_string(name).value_or(""));
  }
  return position;
}

}  // namespace sessiond::journal
