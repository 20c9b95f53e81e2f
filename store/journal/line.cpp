#include "store/journal/line.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <iterator>

#include "store/crc32.hpp"
#include "store/json/raw_json.hpp"
#include "store/number.hpp"
#include "store/seal/sealed.hpp"

namespace sessiond::journal {
namespace {

constexpr std::size_t crc_digits = 8;
constexpr std::size_t body_at = crc_digits + 1;
constexpr std::string_view body_start = "{\"seq\":";

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

void put_crc(std::string& line, std::uint32_t crc) {
  for (std::size_t i = 0; i < crc_digits; ++i) line[i] = "0123456789abcdef"[(crc >> (28 - 4 * i)) & 0xF];
}

seal::Place place_of(std::uint64_t seq) {
  static const seal::Place journal{"journal"};
  return {journal.text(), seq};
}

void replace_newlines(std::string& line) {
  for (char* at = line.data() + body_at;
       (at = static_cast<char*>(std::memchr(at, '\n', static_cast<std::size_t>(line.data() + line.size() - at)))) !=
       nullptr;)
    *at = ' ';
}

void finish(std::string& line) {
  put_crc(line, store::crc32_of(std::string_view(line).substr(body_at)));
  line += '\n';
}

// The elements of one member of all commits, separated by commas.
template <class Member>
void append_list(std::string& out, std::span<const Commit> commits, Member member, auto append) {
  bool first = true;
  for (const Commit& commit : commits) {
    for (const auto& value : commit.*member) {
      if (!std::exchange(first, false)) out += ',';
      append(out, value);
    }
  }
}

std::optional<std::uint64_t> as_seq(std::string_view text) { return store::parse_number<std::uint64_t>(text); }

// The text after the CRC, if the CRC fits.
std::optional<std::string_view> sound_body(std::string_view text) {
  if (text.size() < body_at + body_start.size() || text[crc_digits] != ' ') return std::nullopt;
  const std::string_view crc = text.substr(0, crc_digits);
  const std::string_view body = text.substr(body_at);
  if (!std::ranges::all_of(crc, is_hex) || !body.starts_with(body_start)) return std::nullopt;
  if (store::crc32_of(body) != store::parse_number<std::uint32_t>(crc, 16)) return std::nullopt;
  return body;
}

// Replaces the body by one that has its seq, and the body sealed.
void seal_body(std::string& line, std::uint64_t seq, const seal::Draw& draw) {
  thread_local std::string plain;
  plain.assign(line, body_at);
  line.resize(body_at);
  line.append(body_start).append(std::to_string(seq)).push_back(',');
  const std::size_t brace = line.size();
  seal::append_sealed(line, plain, draw, place_of(seq));
  line.erase(brace, 1);
  if (plain.capacity() > std::size_t{1} << 20) plain = {};
}

// Opens a body that is sealed; null if it is not. Nothing: it does not open.
std::optional<std::shared_ptr<const std::string>> opened(std::string_view body) {
  const std::size_t comma = body.find(',');
  if (comma == std::string_view::npos || !seal::are_sealed(body.substr(comma + 1))) return nullptr;
  const auto seq = as_seq(body.substr(body_start.size(), comma - body_start.size()));
  auto plain = std::make_shared<std::string>();
  if (!seq || !seal::open_members(body.substr(comma + 1), place_of(*seq), *plain)) return std::nullopt;
  if (!plain->starts_with(body.substr(0, comma + 1))) return std::nullopt;
  return plain;
}

// Reads the events of a line as build_line makes it, in one pass, and ignores what follows them.
std::optional<Line> events_of(std::string_view body) {
  static constexpr std::string_view before_events = ",\"events\":";
  const std::size_t comma = body.find(',');
  if (comma == std::string_view::npos || !body.substr(comma).starts_with(before_events)) return std::nullopt;
  const auto seq = as_seq(body.substr(body_start.size(), comma - body_start.size()));
  if (!seq) return std::nullopt;
  Line line{.first = *seq, .next = *seq};
  for (const std::string_view event : json::elements(body.substr(comma + before_events.size())))
    line.events.push_back(event);
  line.next += line.events.size();
  return line;
}

}  // namespace

void build_line(std::string& out, std::span<const Commit> commits) {
  assert(!commits.empty());
  out.assign(body_at, ' ');
  out += body_start;
  out += std::to_string(commits.front().first_seq);
  out += ",\"events\":[";
  append_list(out, commits, &Commit::events, [](std::string& text, const Bytes& event) { text += *event; });
  out += "],\"answers\":[";
  append_list(out, commits, &Commit::answers, [](std::string& text, const std::string& answer) { text += answer; });
  out += "],\"places\":[";
  append_list(out, commits, &Commit::line_positions, append_json);
  out += "]}";
  replace_newlines(out);
  if (const seal::Draw draw = seal::draw()) seal_body(out, commits.front().first_seq, draw);
  finish(out);
}

std::string override_line(std::uint64_t seq) {
  std::string line(body_at, ' ');
  line += body_start;
  line += std::to_string(seq);
  line += R"(,"events":[],"answers":[],"places":[],"overrides":true})";
  finish(line);
  return line;
}

std::optional<std::uint64_t> seq_of_line(std::string_view text) {
  return sound_body(text) ? first_seq_in(text) : std::nullopt;
}

std::optional<std::uint64_t> first_seq_in(std::string_view beginning) {
  if (beginning.size() < body_at || !beginning.substr(body_at).starts_with(body_start)) return std::nullopt;
  const std::string_view digits = beginning.substr(body_at + body_start.size());
  return as_seq(digits.substr(0, digits.find_first_of(",}")));
}

std::string_view key_of_line(std::string_view text) {
  const std::string_view body = text.substr(std::min(body_at, text.size()));
  const std::size_t comma = body.find(',');
  if (!body.starts_with(body_start) || comma == std::string_view::npos) return {};
  return seal::key_of_members(body.substr(comma + 1));
}

std::optional<Line> parse_line(std::string_view text, Parts parts) {
  const auto sound = sound_body(text);
  if (!sound) return std::nullopt;
  auto plain = opened(*sound);
  if (!plain) return std::nullopt;
  const std::string_view body = *plain ? std::string_view(**plain) : *sound;
  if (parts == Parts::events) {
    if (auto line = events_of(body)) {
      line->opened = std::move(*plain);
      return line;
    }
  }
  Line line{.opened = std::move(*plain)};
  bool has_seq = false;
  bool has_events = false;
  for (const json::Member& member : json::members(body)) {
    if (member.name == "seq") {
      const auto seq = as_seq(member.value);
      if (!seq) return std::nullopt;
      line.first = *seq;
      has_seq = true;
    } else if (member.name == "events") {
      if (!member.value.starts_with('[')) return std::nullopt;
      for (const std::string_view event : json::elements(member.value)) line.events.push_back(event);
      has_events = true;
    } else if (member.name == "answers") {
      line.answers = member.value;
    } else if (member.name == "places") {
      line.line_positions = member.value;
    }
  }
  if (!has_seq || !has_events) return std::nullopt;
  line.next = line.first + line.events.size();
  return line;
}

StoredBatch to_batch(const Line& line, std::uint64_t from) {
  StoredBatch batch{.first = std::max(line.first, from), .events = {}, .answers = {}, .line_positions = {}};
  batch.events.reserve(line.next - std::min(batch.first, line.next));
  std::uint64_t seq = line.first;
  for (const std::string_view event : line.events)
    if (seq++ >= from) batch.events.push_back(std::make_shared<const std::string>(event));
  if (line.next == line.first) batch.first = line.first;
  for (const std::string_view answer : json::elements(line.answers)) batch.answers.emplace_back(answer);
  for (const std::string_view position : json::elements(line.line_positions))
    batch.line_positions.push_back(parse_line_position(position));
  return batch;
}

std::size_t line_start_within(std::string_view text) {
  static constexpr std::string_view mark = " {\"seq\":";
  for (std::size_t at = text.find(mark, body_at); at != std::string_view::npos; at = text.find(mark, at + 1)) {
    const std::string_view crc = text.substr(at - crc_digits, crc_digits);
    if (at > body_at && std::ranges::all_of(crc, is_hex)) return at - crc_digits;
  }
  return std::string_view::npos;
}

}  // namespace sessiond::journal
