#include "formats/foreign.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <utility>

#include "formats/json_lines.hpp"
#include "policy/usage.hpp"
#include "store/files.hpp"
#include "store/hex.hpp"
#include "store/names.hpp"
#include "store/time_range.hpp"
#include "store/try.hpp"
#include "store/utf8.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/line_reader.hpp"

namespace sessiond::formats {
namespace {

constexpr std::size_t deepest = 60;  // with what is put around it, it stays below the 64 of an entry

std::string hash_of(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return store::to_hex(digest);
}

std::optional<std::int64_t> in_range(std::int64_t ms) {
  if (ms < 0 || ms > store::last_time_ms) return std::nullopt;
  return ms;
}

}  // namespace

std::vector<std::filesystem::path> sorted_in(const std::filesystem::path& dir, Sink& sink) {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (std::filesystem::directory_iterator at(dir, error), end; !error && at != end; at.increment(error))
    found.push_back(at->path());
  if (error && error != std::errc::no_such_file_or_directory)
    sink.skip({.why = fmt::format("{}: is not read: {}", dir.native(), error.message())});
  std::ranges::sort(found);
  return found;
}

Result<void> each_line(const std::filesystem::path& file, const TakeLine& take) {
  TRY(const auto fd, store::open_file(file, O_RDONLY | O_NONBLOCK));  // a pipe must not hold us up
  TRY(const auto status, store::status_of(fd.get(), file.native()));
  if (!S_ISREG(status.st_mode)) return fail(Code::degraded, file.native() + ": is not a regular file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  transcripts::LineReader reader(fd.get(), size, file.native());
  std::uint64_t number = 0;
  for (std::uint64_t begin = 0; begin < size;) {
    TRY(const auto end, reader.end_of(begin));
    TRY(const auto line, reader.text(begin, end));
    if (++number == 1 && is_utf16(line)) return fail(Code::degraded, fmt::format("{}: {}", file.native(), utf16_why));
    for (const std::string_view object : objects_on(line)) TRY(take(object, number));
    begin = end;
  }
  return {};
}

std::optional<std::string> not_an_object(std::string_view text) {
  if (const auto checked = json::check(text, {.max_depth = deepest, .utf8 = true}); !checked)
    return fmt::format("is not JSON: {} at byte {}", checked.error().detail, checked.error().offset);
  std::size_t at = 0;
  while (json::is_space(text[at])) ++at;
  if (text[at] != '{') return "is not a JSON object";
  return std::nullopt;
}

std::optional<std::int64_t> time_of_text(std::string_view text) {
  std::string iso(text);
  if (iso.size() > 10 && iso[10] == ' ') iso[10] = 'T';
  if (const std::size_t zone = iso.find_first_of("Z+-", std::min<std::size_t>(iso.size(), 11));
      zone == std::string::npos)
    iso += 'Z';
  const auto ms = transcripts::parse_iso_time(iso);
  return ms ? in_range(*ms) : std::nullopt;
}

std::optional<std::int64_t> time_of(std::string_view value) {
  if (value.empty()) return std::nullopt;
  if (const auto text = json::as_string(value)) return time_of_text(*text);
  const auto number = json::as_double(value);
  if (!number || *number < 0 || *number > 1e15) return std::nullopt;
  return in_range(static_cast<std::int64_t>(*number < 1e11 ? *number * 1000 : *number));
}

std::optional<std::string_view> member(const json::Index& object, std::string_view name, json::Kind kind) {
  const auto value = object.find(name);
  return value && json::kind(*value) == kind ? value : std::nullopt;
}

std::optional<std::string_view> member(std::string_view object, std::string_view name, json::Kind kind) {
  if (object.empty() || json::kind(object) != json::Kind::object) return std::nullopt;
  const auto value = json::find(object, name);
  return value && json::kind(*value) == kind ? value : std::nullopt;
}

std::string derived_uuid(std::string_view text) {
  std::string hex = hash_of(text).substr(0, 32);
  hex[12] = '8';
  hex[16] = "89ab"[store::hex_digits.find(hex[16]) % 4];
  for (const std::size_t at : {20U, 16U, 12U, 8U}) hex.insert(at, "-");
  return hex;
}

std::string SessionIds::take(std::string_view wanted, std::string_view file, Sink& sink, std::string_view place) {
  std::string id(wanted);
  if (!store::check_new_session_id(id) || taken_.contains(id)) {
    id = "imported-" + hash_of(fmt::format("{}\n{}", file, wanted)).substr(0, 24);
    sink.skip({.id = id,
               .why = fmt::format("{}: no other session may have the id {}, so it is taken as {}", place, wanted, id),
               .what = Skipped::What::note});
  }
  taken_.insert(id);
  return id;
}

void ForeignHead::saw(std::optional<std::int64_t> time) {
  if (!time) return;
  if (!started || *time < *started) started = time;
  if (!last || *time > *last) last = time;
}

void Content::part(std::string text) {
  if (!parts_.empty()) parts_ += ',';
  parts_ += text;
}

void Content::text(std::string_view text) { part(fmt::format(R"({{"type":"text","text":{}}})", text)); }

void Content::thinking(std::string_view text, std::string_view signature, bool redacted) {
  json::ObjectWriter out;
  out.string("type", "thinking");
  out.raw("thinking", text);
  if (!signature.empty()) out.raw("thinkingSignature", signature);
  if (redacted) out.boolean("redacted", true);
  part(out.text());
}

void Content::image(std::string_view data, std::string_view mime) {
  part(fmt::format(R"({{"type":"image","data":{},"mimeType":{}}})", data, mime));
}

bool Content::image_of_url(std::string_view url) {
  const std::string text = json::as_string(url).value_or("");
  constexpr std::string_view data = "data:";
  constexpr std::string_view base64 = ";base64,";
  const std::size_t at = text.find(base64);
  if (!text.starts_with("data:image/") || at == std::string::npos) return false;
  image(json::quote(text.substr(at + base64.size())), json::quote(text.substr(data.size(), at - data.size())));
  return true;
}

void Content::call(std::string_view id, std::string_view name, std::string_view arguments) {
  part(fmt::format(R"({{"type":"toolCall","id":{},"name":{},"arguments":{}}})", id, name, arguments));
}

void Content::as_it_is(std::string_view text) { part(json::compact(text)); }

std::string Content::take() { return "[" + std::exchange(parts_, {}) + "]"; }

std::string usage_json(const Tokens& tokens) {
  const auto count = [](std::int64_t told) { return std::clamp<std::int64_t>(told, 0, policy::most_counted); };
  const policy::TokenUsage usage{.input = count(tokens.input),
                                 .output = count(tokens.output),
                                 .cache_read = count(tokens.cache_read),
                                 .cache_write = count(tokens.cache_write)};
  return fmt::format(
      R"({{"input":{},"output":{},"cacheRead":{},"cacheWrite":{},"totalTokens":{},"cost":{{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}}})",
      usage.input, usage.output, usage.cache_read, usage.cache_write, usage.sum());
}

std::string message_body(std::string_view members, std::int64_t time, std::string_view extra) {
  std::string body = fmt::format(R"("message":{{{},"timestamp":{}}})", members, time);
  if (!extra.empty()) body.append(",").append(extra);
  return body;
}

Result<void> ForeignSession::begin(const ForeignHead& head) {
  id_ = head.id;
  time_ = head.started.value_or(0);
  std::string header =
      transcripts::header_line(head.id, time_, head.cwd, head.parent.empty() ? "" : head.parent + ".jsonl");
  header.pop_back();  // the line break
  json::ObjectWriter entry;
  if (head.started) entry.integer("sessionStartedAt", *head.started);
  if (head.last) {
    entry.integer("updatedAt", *head.last);
    entry.integer("lastInteractionAt", *head.last);
  }
  if (!head.title.empty()) entry.string("displayName", head.title);
  if (!head.provider.empty()) entry.string("modelProvider", head.provider);
  if (!head.model.empty()) entry.string("model", head.model);
  return sink_.session({.id = head.id, .header = std::move(header), .entry = entry.text()});
}

Result<void> ForeignSession::end() {
  if (last_ != leaf_ && !leaf_.empty())  // the conversation goes on where it was, not at what was written last
    TRY(add({.type = "custom", .id = "leaf-" + leaf_, .otherwise = "leaf", .body = R"("customType":"import.leaf")"}));
  return sink_.end();
}

std::string ForeignSession::unused_id(const ForeignEntry& entry) const {
  std::string id = entry.id;
  if (!store::valid_entry_id(id)) id = entry.otherwise;
  if (!has(id)) return id;
  if (!entry.otherwise.empty() && !has(entry.otherwise)) return entry.otherwise;
  for (int copy = 2;; ++copy)
    if (std::string next = fmt::format("{}.{}", entry.otherwise, copy); !has(next)) return next;
}

Result<std::string> ForeignSession::add(ForeignEntry entry) {
  const std::string id = unused_id(entry);
  if (entry.time) time_ = *entry.time;
  const std::string parent = entry.parent.value_or(leaf_);
  std::string line = fmt::format(R"({{"type":{},"id":"{}","parentId":{},"timestamp":"{}")", json::quote(entry.type), id,
                                 parent.empty() ? "null" : json::quote(parent), transcripts::iso_time(time_));
  if (!entry.body.empty()) line.append(",").append(entry.body);
  line += '}';
  ids_.insert(std::hash<std::string_view>{}(id));
  leaf_ = last_ = id;
  TRY(sink_.entry(std::move(line)));
  return id;
}

Result<std::string> ForeignSession::custom(std::string_view program, std::string_view type, std::string_view data,
                                           ForeignEntry entry) {
  entry.type = "custom";
  entry.body = fmt::format(R"("customType":{},"data":{})", json::quote(fmt::format("{}.{}", program, type)), data);
  return add(std::move(entry));
}

Result<std::string> ForeignSession::message(std::string_view members, ForeignEntry entry, std::string_view extra) {
  entry.body = message_body(members, entry.time.value_or(time_), extra);
  return add(std::move(entry));
}

void ForeignSession::skip(std::string_view place, std::string_view pointer, std::string_view why) {
  std::string text = file_;
  if (!place.empty()) text.append(", ").append(place);
  if (!pointer.empty()) text.append(", ").append(pointer);
  sink_.skip({.id = id_, .why = text.append(": ").append(why), .what = Skipped::What::line});
}

std::string line_place(std::uint64_t number) { return fmt::format("line {}", number); }

}  // namespace sessiond::formats
