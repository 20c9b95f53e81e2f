#include "store/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "store/number.hpp"
#include "store/try.hpp"
#include "store/utf8.hpp"

namespace sessiond::store {
namespace {

constexpr std::size_t max_agent_bytes = 64;
// A file name has at most 255 bytes: the longest session id (128), "-topic-", ".jsonl", and the suffix of an archive
// (".deleted." and a time, 33).
constexpr std::size_t max_encoded_topic_bytes = 80;
constexpr std::string_view topic_mark = "-topic-";
constexpr std::string_view stream_mark = "stream:";
constexpr std::string_view log_folder = "logs/";  // no transcript's name has a slash
constexpr std::string_view changes_folder = "changes/";
constexpr std::string_view transcript_extension = ".jsonl";

bool is_lower_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alnum(char c) { return is_lower_alnum(c) || (c >= 'A' && c <= 'Z'); }
char lower_char(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Without control characters: C0, DEL and, in UTF-8, C1.
bool is_clean_text(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c == 0x7F) return false;
    if (c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) return false;
  }
  return !invalid_utf8(text);
}

bool is_plain_in_file(char c) { return is_alnum(c) || c == '.' || c == '_' || c == '~' || c == '-'; }

std::string encode_topic(std::string_view topic) {
  std::string out;
  for (const char c : topic) {
    if (is_plain_in_file(c) && !(c == '.' && out.empty())) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::optional<std::string> decode_topic(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const auto byte = i + 2 < text.size() ? parse_number<unsigned char>(text.substr(i + 1, 2), 16) : std::nullopt;
    if (!byte) return std::nullopt;
    out += static_cast<char>(*byte);
    i += 2;
  }
  return out;
}

}  // namespace

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), lower_char);
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

bool starts_with_nocase(std::string_view text, std::string_view prefix) {
  if (text.size() < prefix.size()) return false;
  for (std::size_t i = 0; i < prefix.size(); ++i) {
    if (lower_char(text[i]) != lower_char(prefix[i])) return false;
  }
  return true;
}

bool equals_nocase(std::string_view a, std::string_view b) { return a.size() == b.size() && starts_with_nocase(a, b); }

bool valid_agent_id(std::string_view text) {
  return !text.empty() && text.size() <= max_agent_bytes && is_lower_alnum(text.front()) &&
         std::ranges::all_of(text, [](char c) { return is_lower_alnum(c) || c == '_' || c == '-'; });
}

std::optional<std::string> normalize_agent_id(std::string_view text) {
  std::string wanted = lower(trim(text));
  if (valid_agent_id(wanted)) return wanted;
  std::string out;
  bool gap = false;  // a run of other characters becomes one '-', none at either end
  for (const char c : wanted) {
    if (!is_lower_alnum(c) && c != '_' && c != '-') {
      gap = true;
      continue;
    }
    if (out.empty() && !is_lower_alnum(c)) continue;
    if (gap && !out.empty()) out += '-';
    gap = false;
    out += c;
  }
  out.resize(std::min(out.size(), max_agent_bytes));
  if (out.empty()) return std::nullopt;
  return out;
}

bool is_reserved_name(std::string_view id) {
  static constexpr std::array<std::string_view, 7> names{"index", "metadata", "last_session", "con",
                                                         "prn",   "aux",      "nul"};
  const std::string stem = lower(id.substr(0, id.find('.')));
  if (std::ranges::find(names, stem) != names.end()) return true;
  return stem.size() == 4 && (stem.starts_with("com") || stem.starts_with("lpt")) && stem[3] >= '1' && stem[3] <= '9';
}

Result<void> check_session_id(std::string_view id) {
  const bool shaped = !id.empty() && id.size() <= 128 && is_alnum(id.front()) &&
                      std::ranges::all_of(id, [](char c) { return is_alnum(c) || c == '.' || c == '_' || c == '-'; });
  if (!shaped)
    return fail(Code::invalid_id, "a session id is 1 to 128 of A-Z a-z 0-9 . _ -, beginning with a letter or digit");
  if (is_reserved_name(id)) return fail(Code::reserved_name, fmt::format("\"{}\" is a reserved name", id));
  // Its transcript would have the name of a topic of another session.
  if (id.contains(topic_mark)) return fail(Code::reserved_name, fmt::format("\"{}\" contains \"{}\"", id, topic_mark));
  return {};
}

Result<void> check_new_session_id(std::string_view id) {
  TRY(check_session_id(id));
  if (id.contains("..")) return fail(Code::invalid_id, fmt::format("\"{}\" contains \"..\"", id));
  // Programs use these keys without a prefix: a session with such an id would be found instead of theirs.
  for (const std::string_view key : {"global", "heartbeat", "main", "unknown"}) {
    if (lower(id) == key) return fail(Code::reserved_name, fmt::format("\"{}\" is also a session key", id));
  }
  // "x-topic" with the topic "y" and "x" with the topic "topic-y" are one file.
  constexpr std::string_view overlapping = topic_mark.substr(0, topic_mark.size() - 1);
  if (id.ends_with(overlapping))
    return fail(Code::reserved_name, fmt::format("\"{}\" ends in \"{}\"", id, overlapping));
  return {};
}

bool valid_entry_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 &&
         std::ranges::all_of(id, [](char c) { return is_alnum(c) || c == '.' || c == '_' || c == ':' || c == '-'; });
}

std::span<const std::string_view> stream_names() {
  static constexpr std::array<std::string_view, 4> names{"backgroundTaskEvents", "backgroundJobGroupEvents",
                                                         "memoryEvents", "usedMemoryReferences"};
  return names;
}

std::string stream_topic(std::string_view stream) { return std::string(stream_mark).append(stream); }

bool is_stream_topic(std::string_view topic) {
  return std::ranges::any_of(stream_names(), [topic](std::string_view name) { return stream_topic(name) == topic; });
}

std::string describe_topic(std::string_view topic) {
  if (is_stream_topic(topic)) return fmt::format("stream {}", topic.substr(std::string_view(stream_mark).size()));
  return fmt::format("topic \"{}\"", topic);
}

Result<void> check_topic(std::string_view topic) {
  if (is_stream_topic(topic))
    return fail(Code::reserved_name, fmt::format("\"{}\" is the topic of a stream: use …/streams", topic));
  if (topic.empty()) return fail(Code::invalid_id, "a topic has at least one byte");
  if (!is_clean_text(topic)) return fail(Code::invalid_id, "a topic must be UTF-8 without control characters");
  if (encode_topic(topic).size() > max_encoded_topic_bytes) {
    return fail(Code::invalid_id,
                fmt::format("a topic has at most {} bytes when it is percent-encoded for its file name",
                            max_encoded_topic_bytes));
  }
  return {};
}

std::string transcript_file(std::string_view session_id, std::string_view topic) {
  if (topic.empty()) return std::string(session_id).append(transcript_extension);
  return fmt::format("{}{}{}{}", session_id, topic_mark, encode_topic(topic), transcript_extension);
}

std::optional<std::string> topic_of_file(std::string_view session_id, std::string_view file) {
  if (!file.starts_with(session_id)) return std::nullopt;
  file.remove_prefix(session_id.size());
  if (!file.starts_with(topic_mark) || !file.ends_with(transcript_extension)) return std::nullopt;
  file.remove_prefix(topic_mark.size());
  if (file.size() <= transcript_extension.size()) return std::nullopt;
  file.remove_suffix(transcript_extension.size());
  std::optional<std::string> topic = decode_topic(file);
  if (!topic || !is_clean_text(*topic)) return std::nullopt;
  return topic;
}

std::string log_file(std::string_view session_id) {
  return std::string(log_folder).append(session_id).append(transcript_extension);
}

std::string changes_file(std::string_view session_id, std::string_view topic) {
  return std::string(changes_folder).append(transcript_file(session_id, topic));
}

bool is_log_file(std::string_view file) { return file.starts_with(log_folder); }

bool is_beside(std::string_view file) { return is_log_file(file) || file.starts_with(changes_folder); }

bool is_stream_file(std::string_view session_id, std::string_view file) {
  const auto topic = topic_of_file(session_id, file);
  return topic && is_stream_topic(*topic);
}

bool is_passing(std::string_view name) {
  if (name.ends_with(".lock") || name.ends_with(".tmp") || name.ends_with(".tmp.old")) return true;
  constexpr std::string_view lock = ".lock.";
  const std::size_t at = name.rfind(lock);
  if (at == std::string_view::npos) return false;
  name.remove_prefix(at + lock.size());
  const std::size_t dot = std::min(name.find('.'), name.size());
  const std::string_view pid = name.substr(0, dot);
  const std::string_view random = name.substr(std::min(dot + 1, name.size()));
  return !pid.empty() && std::ranges::all_of(pid, is_digit) && !random.empty() &&
         std::ranges::all_of(random, is_alnum) && random != transcript_extension.substr(1);
}

}  // namespace sessiond::store
