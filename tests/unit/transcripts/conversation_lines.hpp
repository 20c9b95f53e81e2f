// Lines of transcripts, and what is read of them, for the tests of landmarks and conversations.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/temp_dir.hpp"
#include "transcripts/conversation.hpp"

namespace sessiond::testing {

inline const std::string transcript_header = "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n";

// `parent` is raw JSON.
inline std::string entry_line(std::string_view id, std::string_view parent, std::string_view message) {
  return fmt::format(R"({{"type":"message","id":"{}","parentId":{},"message":{}}})", id, parent, message) + "\n";
}
inline std::string said_line(std::string_view id, std::string_view parent, std::string_view role = "user") {
  return entry_line(id, parent, fmt::format(R"({{"role":"{}","content":"text of {}"}})", role, id));
}
inline std::string compaction_entry(std::string_view id, std::string_view parent, std::string_view first_kept) {
  return fmt::format(
             R"({{"type":"compaction","id":"{}","parentId":{},"summary":"sum of {}","firstKeptEntryId":"{}","tokensBefore":1}})",
             id, parent, id, first_kept) +
         "\n";
}
inline std::string in_quotes(std::string_view id) { return fmt::format("\"{}\"", id); }

// The ids of what a model is shown, "[id]" for the checkpoint and "<id>" for a system message.
inline std::string shown_ids(const context::Conversation& conversation) {
  std::vector<std::string> ids;
  for (const context::Line& line : conversation.system) ids.push_back("<" + line.id + ">");
  if (conversation.checkpoint) ids.push_back("[" + conversation.checkpoint->id + "]");
  for (const auto* lines : {&conversation.before, &conversation.after})
    for (const context::Line& line : *lines)
      if (context::read_entry(line.type, line.body).role != context::Role::none) ids.push_back(line.id);
  return fmt::format("{}", fmt::join(ids, " "));
}
template <class Source>
context::Conversation conversation_of(Source& source, const transcripts::ReadLimits& limits = {}) {
  auto read = transcripts::read_conversation(source, limits);
  REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().detail));
  return std::move(*read);
}

// The bytes that this process has read with read calls so far.
inline std::uint64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value)
    if (name == "rchar:") return value;
  return 0;
}

}  // namespace sessiond::testing
