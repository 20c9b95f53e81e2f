// sessions.json as text. Any layout is read; one layout is written. A store is damaged only if it is not a JSON object.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <unordered_map>
#include <utility>

#include "store/seal/sealed.hpp"
#include "store/sessions/sessions_file.hpp"

namespace sessiond::sessions {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr std::string_view replacement = "\xEF\xBF\xBD";

// Tells whether `raw`, a string as it is between quotes, is what quoting it would write. May say no for some that are.
bool plain(std::string_view raw) {
  for (const char c : raw) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F || c == '\\') return false;
  }
  return true;
}

// What stands sealed in an entry. Everything else stays readable: ids, times, counters, route.
constexpr std::array<std::string_view, 13> sealed_members{
    "origin",         "deliveryContext",    "firstMessage", "description", "displayName",     "subject",
    "skillsSnapshot", "systemPromptReport", "systemPrompt", "toolSchemas", "backgroundTasks", "backgroundJobGroups",
    "context"};

seal::Place place_of(std::string_view key, std::string_view member) { return {"entry", key, member}; }

// Opens the members that are sealed, and keeps the text as the file has it.
void open_entry(NamedEntry& entry, std::vector<std::string>& oddities) {
  if (!seal::on() || !entry.entry->contains(R"({"e":1,"k":")")) return;
  const std::string& active = seal::keys()->active().id();
  json::Edit edit;
  for (const json::Member& member : json::members(*entry.entry)) {
    if (!seal::is_sealed(member.value)) continue;
    entry.seal_again = entry.seal_again || seal::key_of(member.value) != active;
    std::string plain;
    if (seal::open(member.value, place_of(entry.key, json::unescape(member.name)), plain) && json::check(plain))
      edit.put(json::unescape(member.name), std::move(plain));
    else
      oddities.push_back(
          fmt::format("{} of the entry of {} is sealed and does not open", member.name, json::quote(entry.key)));
  }
  if (edit.empty()) return;
  entry.stored = std::exchange(entry.entry, std::make_shared<const std::string>(json::apply(*entry.entry, edit)));
}

NamedEntry named(std::string_view name, RawEntry value) {
  NamedEntry entry{.key = {}, .entry = std::move(value)};
  if (plain(name)) {
    entry.key = name;
    return entry;
  }
  entry.key = json::unescape(name);
  const std::string quoted = json::quote(entry.key);
  if (std::string_view(quoted).substr(1, quoted.size() - 2) == name) return entry;
  entry.raw_name = name;
  // Half a surrogate pair has no UTF-8. Such keys are known by their written form, because otherwise different ones
  // would be equal.
  if (entry.key.contains(replacement) && !name.contains(replacement)) entry.key = name;
  return entry;
}

void join_duplicates(std::vector<NamedEntry>& entries, std::vector<std::string>& oddities) {
  std::unordered_map<std::string_view, std::size_t> places;
  places.reserve(entries.size());
  for (std::size_t place = 0; place < entries.size(); ++place) {
    const auto [first, fresh] = places.try_emplace(entries[place].key, place);
    if (fresh) continue;
    oddities.push_back(fmt::format("the key {} appears twice; the last one counts", json::quote(entries[place].key)));
    entries[first->second].entry = std::exchange(entries[place].entry, nullptr);
    entries[first->second].stored = std::exchange(entries[place].stored, nullptr);
    entries[first->second].seal_again = entries[place].seal_again;
  }
  if (places.size() == entries.size()) return;
  places.clear();
  std::erase_if(entries, [](const NamedEntry& entry) { return entry.entry == nullptr; });
}

}  // namespace

Result<std::vector<NamedEntry>> parse_store(std::string_view text, std::vector<std::string>& oddities) {
  if (text.starts_with(byte_order_mark)) {
    text.remove_prefix(byte_order_mark.size());
    oddities.emplace_back("begins with a byte order mark");
  }
  if (auto valid = json::check(text, {.max_depth = json::foreign_depth}); !valid) {
    return fail(Code::bad_request,
                fmt::format("not a JSON object: {} at byte {}", valid.error().detail, valid.error().offset));
  }
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos || text[begin] != '{') {
    return fail(Code::bad_request, fmt::format("not a JSON object: another value at byte {}", begin));
  }

  std::vector<NamedEntry> entries;
  for (const json::Member& member : json::members(text)) {
    entries.push_back(named(member.name, std::make_shared<const std::string>(json::compact(member.value))));
    if (json::kind(*entries.back().entry) != json::Kind::object) {
      oddities.push_back(
          fmt::format("the entry of {} is not an object; it is kept as it is", json::quote(entries.back().key)));
    } else {
      open_entry(entries.back(), oddities);
    }
  }
  join_duplicates(entries, oddities);
  return entries;
}

void seal_entry(NamedEntry& entry) {
  if ((entry.stored && !entry.seal_again) || !entry.entry || !seal::on()) return;
  entry.seal_again = false;
  if (json::kind(*entry.entry) != json::Kind::object) return;
  json::Edit edit;
  for (const json::Member& member : json::members(*entry.entry)) {
    std::string name = json::unescape(member.name);
    if (std::ranges::find(sealed_members, name) == sealed_members.end()) continue;
    if (member.value == "null" || seal::is_sealed(member.value)) continue;
    std::string sealed = seal::seal(std::string(member.value), place_of(entry.key, name));
    edit.put(std::move(name), std::move(sealed));
  }
  entry.stored = edit.empty() ? entry.entry : std::make_shared<const std::string>(json::apply(*entry.entry, edit));
}

void each_sealed_member(const NamedEntry& entry, const std::function<void(std::string_view)>& call) {
  const RawEntry& stored = entry.stored ? entry.stored : entry.entry;
  if (!stored || json::kind(*stored) != json::Kind::object) return;
  for (const json::Member& member : json::members(*stored))
    if (member.value != "null" &&
        std::ranges::find(sealed_members, json::unescape(member.name)) != sealed_members.end())
      call(member.value);
}

namespace {

// Foreign programs write ends of lines as they are (json::escape_line_ends).
void append_entry(std::string& out, std::string_view entry) {
  out += ": ";
  if (!json::has_line_ends(entry)) {
    out += entry;
    return;
  }
  std::string escaped(entry);
  json::escape_line_ends(escaped);
  out += escaped;
}

}  // namespace

void append_store_line(std::string& out, const NamedEntry& entry, bool first) {
  out += first ? "\n" : ",\n";
  if (entry.raw_name.empty()) {
    json::append_quoted(out, entry.key);
  } else {
    out.append("\"").append(entry.raw_name).append("\"");
  }
  if ((!entry.stored || entry.seal_again) && seal::on()) {
    NamedEntry sealed{.key = entry.key, .entry = entry.entry};
    seal_entry(sealed);
    append_entry(out, sealed.stored ? *sealed.stored : *entry.entry);
    return;
  }
  append_entry(out, entry.stored ? *entry.stored : *entry.entry);
}

std::string format_store(const std::vector<NamedEntry>& entries) {
  std::size_t size = 4;
  for (const NamedEntry& entry : entries) size += entry.key.size() + entry.entry->size() + 8;
  std::string out;
  out.reserve(size);
  out += '{';
  for (const NamedEntry& entry : entries) append_store_line(out, entry, &entry == entries.data());
  out += entries.empty() ? "}\n" : "\n}\n";
  return out;
}

}  // namespace sessiond::sessions
