#include "transcripts/origins.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "store/json/raw_json.hpp"
#include "store/names.hpp"

namespace sessiond::transcripts {
namespace {

constexpr char separator = '\n';  // neither a session id nor a topic has one

std::optional<CopiedLines> read_record(std::string_view json) {
  if (json::kind(json) != json::Kind::object) return {};
  const auto session_id = json::string_at(json, "sessionId");
  const auto first = json::int_at(json, "firstSeq");
  const auto last = json::int_at(json, "lastSeq");
  if (!session_id || !store::check_session_id(*session_id) || !first || !last || *first < 0 || *last < *first)
    return {};
  return CopiedLines{.name = transcript_name(*session_id, json::string_at(json, "topic")),
                     .first = static_cast<std::uint64_t>(*first),
                     .last = static_cast<std::uint64_t>(*last)};
}

}  // namespace

std::string transcript_name(std::string_view session_id, const std::optional<std::string>& topic) {
  return std::string(session_id).append(1, separator).append(topic.value_or(""));
}

TranscriptName parts_of(std::string_view name) {
  const std::size_t end = std::min(name.find(separator), name.size());
  return {name.substr(0, end), name.substr(std::min(end + 1, name.size()))};
}

std::optional<std::string> changes_file(std::string_view transcript_name) {
  const auto [session_id, topic] = parts_of(transcript_name);
  if (!store::check_session_id(session_id)) return {};
  return store::changes_file(session_id, topic);
}

Origins Origins::read(std::string own_name, std::string_view header) {
  Origins out(std::move(own_name));
  const auto records = header.empty() ? std::nullopt : json::find(header, "copied");
  if (!records || json::kind(*records) != json::Kind::array) return out;
  for (const std::string_view json : json::elements(*records))
    if (auto record = read_record(json)) out.copied_.push_back(*std::move(record));
  std::ranges::sort(out.copied_, {}, &CopiedLines::first);
  return out;
}

std::string_view Origins::at(std::uint64_t seq) const {
  const auto record = std::ranges::lower_bound(copied_, seq, {}, &CopiedLines::last);
  return record != copied_.end() && record->first <= seq ? std::string_view(record->name) : own_;
}

std::vector<std::string_view> Origins::names() const {
  std::vector<std::string_view> names{own_};
  for (const CopiedLines& record : copied_)
    if (std::ranges::find(names, record.name) == names.end()) names.emplace_back(record.name);
  return names;
}

std::vector<CopiedLines> Origins::of_copy(std::span<const Lines> lines) const {
  std::vector<CopiedLines> out;
  std::uint64_t next = 0;
  for (const Lines& span : lines) {
    for (std::uint64_t seq = span.first; seq <= span.last;) {
      const auto record = std::ranges::lower_bound(copied_, seq, {}, &CopiedLines::last);
      const bool is_copied = record != copied_.end() && record->first <= seq;
      std::uint64_t last = span.last;
      if (is_copied)
        last = std::min(last, record->last);
      else if (record != copied_.end())
        last = std::min(last, record->first - 1);
      add_copied(out, at(seq), next, next + (last - seq));
      next += last - seq + 1;
      seq = last + 1;
    }
  }
  return out;
}

void add_copied(std::vector<CopiedLines>& records, std::string_view name, std::uint64_t first, std::uint64_t last) {
  if (!records.empty() && records.back().name == name && records.back().last + 1 == first)
    records.back().last = last;
  else
    records.push_back({.name = std::string(name), .first = first, .last = last});
}

std::string copied_member(std::span<const CopiedLines> records) {
  if (records.empty()) return {};
  std::string list = "[";
  for (const CopiedLines& record : records) {
    const auto [session_id, topic] = parts_of(record.name);
    json::ObjectWriter out;
    out.string("sessionId", session_id);
    if (!topic.empty()) out.string("topic", topic);
    out.integer("firstSeq", static_cast<std::int64_t>(record.first));
    out.integer("lastSeq", static_cast<std::int64_t>(record.last));
    list.append(list.size() > 1 ? "," : "").append(out.text());
  }
  return list + "]";
}

}  // namespace sessiond::transcripts
