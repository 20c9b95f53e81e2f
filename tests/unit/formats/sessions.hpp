// Sessions for the tests of formats: what a sink was given, random ones, and their documents.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/documents.hpp"
#include "store/try.hpp"
#include "tests/unit/formats/sink.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::testing {

// The seqs of the path from the first entry to the last one.
inline std::set<std::uint64_t> path_of(const std::vector<std::string>& lines) {
  std::set<std::uint64_t> path;
  if (lines.empty()) return path;
  std::map<std::string, std::uint64_t> seqs;
  std::vector<std::optional<std::uint64_t>> parents;
  for (std::uint64_t seq = 0; seq < lines.size(); ++seq) {
    const auto parent = json::string_at(lines[seq], "parentId");
    const auto found = parent ? seqs.find(*parent) : seqs.end();
    parents.push_back(found == seqs.end() ? std::nullopt : std::optional(found->second));
    seqs[transcripts::entry_id(lines[seq], seq)] = seq;
  }
  for (std::optional<std::uint64_t> at = lines.size() - 1; at; at = parents[*at]) path.insert(*at);
  return path;
}

inline Result<std::string> try_document(std::string_view format, const CollectedSession& session) {
  const auto writer = formats::document_format(format)->write(
      {.id = session.head.id, .agent = "main", .entry = session.head.entry, .header = session.head.header});
  const std::set<std::uint64_t> path = path_of(session.lines);
  const auto each = [&](auto&& take) {
    for (std::uint64_t seq = 0; seq < session.lines.size(); ++seq)
      take(formats::StoredEntry{.seq = seq, .line = session.lines[seq], .on_path = path.contains(seq)});
  };
  each([&](const formats::StoredEntry& entry) { writer->survey(entry); });
  each([&](const formats::StoredEntry& entry) {
    if (entry.on_path) writer->count(entry);
  });
  TRY(std::string out, writer->begin());
  bool first = true;
  for (const formats::Pass pass : writer->passes()) {
    each([&](const formats::StoredEntry& entry) {
      if (pass == formats::Pass::all) writer->history(out, entry);
      if (pass == formats::Pass::path && entry.on_path) writer->message(out, entry);
    });
    if (std::exchange(first, false)) out += writer->middle();
  }
  return out + writer->end();
}

inline std::string document(std::string_view format, const CollectedSession& session) {
  auto made = try_document(format, session);
  REQUIRE(made);
  return *made;
}

inline Result<CollectedSession> try_read(std::string_view format, std::string_view document) {
  CollectingSink sink;
  const auto read = formats::document_format(format)->read(document, {.now = 1'795'000'000'000}, sink);
  if (!read) {
    CHECK(sink.sessions.empty());
    return std::unexpected(read.error());
  }
  REQUIRE(sink.sessions.size() == 1);
  CHECK(sink.sessions.front().ended);
  return sink.sessions.front();
}

inline CollectedSession read_back(std::string_view format, std::string_view document) {
  auto read = try_read(format, document);
  INFO((read ? std::string() : read.error().detail));
  REQUIRE(read);
  return *read;
}

// Makes sessions at random: tools in each spelling, images, branches, compactions, unknown fields and types.
class RandomSessions {
 public:
  explicit RandomSessions(std::uint32_t seed) : random_(seed) {}
  CollectedSession next();

 private:
  std::size_t below(std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_); }
  bool often() { return below(3) > 0; }
  std::string pick(std::initializer_list<const char*> texts) { return *(texts.begin() + below(texts.size())); }
  std::string text();
  std::string others();
  std::string part();
  std::string content();
  std::string message();
  std::string entry(std::string_view id, std::string_view parent);

  std::mt19937 random_;
  std::int64_t time_ = 1'736'000'000'000;
  std::string open_call_{};
};

}  // namespace sessiond::testing
