#include "store/seal/keys.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "store/base64.hpp"
#include "store/files.hpp"
#include "store/json/crc.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::seal {
namespace fs = std::filesystem;

constinit std::atomic<const Keys*> detail::current = nullptr;

namespace {

constexpr std::uint64_t reserved_at_once = 1ULL << 16;  // lines; so many may be counted that were never sealed
constexpr std::uint64_t margin = reserved_at_once / 2;  // lines that may be counted before the next reserve()
constexpr std::size_t longest_key_file = 1 << 20;
constexpr std::size_t longest_id = 32;

bool valid_id(std::string_view id) {
  return !id.empty() && id.size() <= longest_id && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  });
}

// The process's keys, and where their counts are kept.
struct Process {
  std::mutex mutex;
  std::vector<std::unique_ptr<const Keys>> all;  // those before the last one, too: threads may still use them
  fs::path key_file;
  fs::path record_path;
  Record record;                            // as it is on disk
  std::atomic<std::uint64_t> reserved = 0;  // of the active key
};

Process& process() {
  static Process one;
  return one;
}

Result<void> fits(const Record& record, const Keys& keys, const fs::path& key_file) {
  for (const auto& [id, of] : record.keys) {
    const Key* const key = keys.find(id);
    if (key == nullptr)
      return fail(Code::degraded,
                  fmt::format("{} has no key \"{}\", with which files of the state directory are sealed",
                              key_file.native(), id));
    if (key->check() != of.check)
      return fail(Code::degraded,
                  fmt::format("the key \"{}\" of {} is not the one with which files of the state directory are sealed",
                              id, key_file.native()));
  }
  return {};
}

// Finds the key ids of journal lines: <8 hex> {"seq":<n>,"e":1,"k":"<id>"
void find_keys(std::string_view text, std::set<std::string, std::less<>>& ids) {
  static constexpr std::string_view mark = R"(,"e":1,"k":")";
  static constexpr std::string_view before_seq = R"( {"seq":)";
  for (std::size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at + 1)) {
    const std::size_t digit = text.find_last_not_of("0123456789", at - (at > 0 ? 1 : 0));
    if (digit == std::string_view::npos || !text.substr(0, digit + 1).ends_with(before_seq)) continue;
    const std::size_t begin = at + mark.size();
    ids.emplace(text.substr(begin, text.find('"', begin) - begin));
  }
}

// Finds the keys of sealed segments, by the beginning and the end of each: for a state directory whose record is gone.
std::set<std::string, std::less<>> keys_of_journal(const fs::path& dir) {
  constexpr std::uint64_t looked_at = 1 << 20;
  std::set<std::string, std::less<>> ids;
  store::each_in(dir, [&](const fs::directory_entry& entry) {
    if (entry.path().extension() != ".jsonl") return;
    const auto fd = store::open_file(entry.path(), O_RDONLY | O_NONBLOCK);
    const auto status = fd ? store::status_of(fd->get(), entry.path().native()) : fail(Code::not_found, "");
    if (!status) return;
    const auto size = static_cast<std::uint64_t>(status->st_size);
    for (const std::uint64_t from : {std::uint64_t{0}, size - std::min(size, looked_at)})
      if (const auto text = store::read_at(fd->get(), from, looked_at, entry.path().native())) find_keys(*text, ids);
  });
  return ids;
}

std::uint64_t lines_of(const Record& record, const Key& key) {
  const auto at = record.keys.find(key.id());
  return at == record.keys.end() ? 0 : at->second.lines;
}

void take(Process& own, Keys keys) {
  own.reserved = 0;  // the next reserve() looks at all keys
  own.all.push_back(std::make_unique<const Keys>(std::move(keys)));
  detail::current.store(own.all.back().get(), std::memory_order_release);
}

}  // namespace

fs::path record_file(const fs::path& state_dir) { return state_dir / "journal" / "seals"; }

Result<Keys> read_key_file(const fs::path& path) {
  const auto bad = [&path](std::string_view what) {
    return fail(Code::degraded, fmt::format("{}: {}", path.native(), what));
  };
  const auto fd = store::open_file(path, O_RDONLY | O_NONBLOCK);
  if (!fd && fd.error().code == Code::not_found) return bad("there is no such key file");
  if (!fd) return fail(Code::degraded, fd.error().detail);
  TRY(const auto status, store::status_of(fd->get(), path.native()));
  if (!S_ISREG(status.st_mode)) return bad("it is not a regular file");
  if ((status.st_mode & 077U) != 0) return bad("others than its owner may read or write it; chmod 600 it");
  TRY(auto text, store::read_at(fd->get(), 0, longest_key_file, path.native()));
  struct Cleanse {
    std::string& text;
    ~Cleanse() { OPENSSL_cleanse(text.data(), text.size()); }
  };
  const Cleanse at_end{text};
  if (const auto checked = json::check(text); !checked || json::kind(text) != json::Kind::object)
    return bad("it is not a JSON object");
  const auto active = json::string_at(text, "active");
  const auto list = json::find(text, "keys");
  if (!active) return bad("/active: it must be the id of a key");
  if (!list || json::kind(*list) != json::Kind::object) return bad("/keys: it must be an object of keys by their ids");
  std::map<std::string, std::shared_ptr<const Key>, std::less<>> keys;
  for (const json::Member& member : json::members(*list)) {
    const std::string id = json::unescape(member.name);
    if (!valid_id(id)) return bad(fmt::format("/keys/{}: an id has 1 to {} of a-z A-Z 0-9 . _ -", id, longest_id));
    std::string bytes;
    const Cleanse bytes_at_end{bytes};
    auto encoded = json::as_string(member.value).value_or("");
    const bool whole = store::from_base64(encoded, bytes) && bytes.size() == key_bytes;
    OPENSSL_cleanse(encoded.data(), encoded.size());
    if (!whole) return bad(fmt::format("/keys/{}: it must be {} bytes in base64", id, key_bytes));
    if (!keys.emplace(id, std::make_shared<const Key>(id, bytes)).second)
      return bad(fmt::format("/keys/{}: the id appears twice", id));
  }
  const auto found = keys.find(*active);
  if (found == keys.end()) return bad(fmt::format("/active: there is no key \"{}\"", *active));
  const Key& sealing = *found->second;
  return Keys(std::move(keys), sealing);
}

Result<std::optional<Record>> read_record(const fs::path& file) {
  const auto text = store::read_file(file);
  if (!text && text.error().code == Code::not_found) return std::nullopt;
  if (!text) return std::unexpected(text.error());
  const auto list = json::check(*text) ? json::find(*text, "keys") : std::nullopt;
  if (!list || !json::find(*text, "crc") || !json::crc_fits(*text))
    return fail(
        Code::degraded,
        fmt::format("{} is damaged: it says which keys the state directory needs. Take it from a backup, or move "
                    "it away if the key file is whole: the lines of its keys then count as half of what they may be",
                    file.native()));
  Record record;
  for (const json::Member& member : json::members(*list))
    record.keys[json::unescape(member.name)] = {.check = json::string_at(member.value, "check").value_or(""),
                                                .lines = static_cast<std::uint64_t>(std::max<std::int64_t>(
                                                    json::int_at(member.value, "lines").value_or(0), 0))};
  return record;
}

Result<void> write_record(const fs::path& file, const Record& record) {
  std::string list;
  json::ObjectWriter keys(list);
  for (const auto& [id, of] : record.keys) {
    json::ObjectWriter one;
    one.string("check", of.check);
    one.integer("lines", static_cast<std::int64_t>(of.lines));
    keys.raw(id, one.text());
  }
  keys.close();
  TRY(store::make_dirs(file.parent_path()));
  return store::replace_file(file, json::with_crc(fmt::format("{{\"keys\":{}}}", list)) + "\n");
}

Result<void> start(const std::optional<fs::path>& key_file, const fs::path& state_dir) {
  stop();
  Process& own = process();
  const std::scoped_lock lock(own.mutex);
  own.record_path = record_file(state_dir);
  TRY(auto record, read_record(own.record_path));
  const bool lost = !record.has_value();
  if (lost) record.emplace();
  std::set<std::string, std::less<>> needed =
      lost ? keys_of_journal(own.record_path.parent_path()) : std::set<std::string, std::less<>>{};
  for (const auto& [id, of] : record->keys) needed.insert(id);
  if (!key_file) {
    if (needed.empty()) return {};
    return fail(
        Code::degraded,
        fmt::format("files of {} are sealed with the key \"{}\", and store.encryption.keyFile names no key file. "
                    "Name the key file",
                    state_dir.native(), *needed.begin()));
  }
  TRY(auto keys, read_key_file(*key_file));
  for (const std::string& id : needed) {
    const Key* const key = lost ? keys.find(id) : nullptr;
    if (lost) record->keys[id] = {.check = key == nullptr ? std::string() : key->check(), .lines = most_lines / 2};
  }
  own.record = std::move(*record);
  TRY(fits(own.record, keys, *key_file));
  for (const auto& [id, key] : keys.all()) key->count_from(lines_of(own.record, *key));
  own.key_file = *key_file;
  take(own, std::move(keys));
  return {};
}

Result<std::string> reload() {
  Process& own = process();
  const std::scoped_lock lock(own.mutex);
  if (own.all.empty()) return std::string();
  TRY(auto fresh, read_key_file(own.key_file));
  TRY(fits(own.record, fresh, own.key_file));
  const Keys& before = *own.all.back();
  for (const auto& [id, key] : before.all())
    if (key->lines() > lines_of(own.record, *key) && fresh.find(id) == nullptr)
      return fail(Code::degraded,
                  fmt::format("{} has no key \"{}\", with which lines are being sealed", own.key_file.native(), id));
  auto keys = fresh.all();
  for (auto& [id, key] : keys) {
    const auto known = before.all().find(id);
    if (known == before.all().end()) {
      key->count_from(lines_of(own.record, *key));
      continue;
    }
    if (!known->second->same_bytes(*key))
      return fail(Code::degraded, fmt::format("{}: /keys/{}: it is another key than before; give it another id",
                                              own.key_file.native(), id));
    key = known->second;  // with its count
  }
  std::string active = fresh.active().id();
  const Key& sealing = *keys.at(active);
  take(own, Keys(std::move(keys), sealing));
  return active;
}

void stop() {
  Process& own = process();
  const std::scoped_lock lock(own.mutex);
  detail::current.store(nullptr, std::memory_order_release);
  own.all.clear();
  own.record = {};
  own.reserved = 0;
}

Result<void> reserve() {
  if (!on()) return {};
  Process& own = process();
  // The active key may just have changed: its own count decides below.
  if (const std::uint64_t lines = keys()->active().lines();
      lines < most_lines && lines + margin < own.reserved.load(std::memory_order_acquire))
    return {};
  const std::scoped_lock lock(own.mutex);
  const Keys* const now = keys();
  if (now == nullptr) return {};
  const Key& key = now->active();
  const std::uint64_t lines = key.lines();
  if (lines >= most_lines)
    return fail(
        Code::degraded,
        fmt::format("the key \"{}\" has sealed as many lines as a key may: add another key to {}, name it as the "
                    "active one, and send SIGHUP",
                    key.id(), own.key_file.native()));
  Record next = own.record;
  bool changed = false;
  for (const auto& [id, each] : now->all()) {
    const bool active = each.get() == &key;
    // Another key than the active one may have sealed lines just before a change of the key file.
    if (active ? each->lines() + margin < lines_of(next, *each) : each->lines() <= lines_of(next, *each)) continue;
    next.keys[id] = {.check = each->check(), .lines = each->lines() + reserved_at_once};
    changed = true;
  }
  if (changed) {
    TRY(write_record(own.record_path, next));
    own.record = std::move(next);
  }
  own.reserved.store(lines_of(own.record, key), std::memory_order_release);
  return {};
}

}  // namespace sessiond::seal
