// The common parts of the readers of other programs' stores: folders in order, files line by line, checked JSON, times,
// session ids, and the entries that are made of what was read.
//
// All of it blocks. The same files give the same ids and bytes, in the same order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "formats/reader.hpp"
#include "store/json/raw_json.hpp"
#include "store/problem.hpp"

namespace sessiond::formats {

// Lists the files and folders in a folder by name. One that is absent has none; one that cannot be read is skipped.
std::vector<std::filesystem::path> sorted_in(const std::filesystem::path& dir, Sink& sink);

// Calls `take` with each line of a file, without its line break, and its number from 1. When several JSON objects stand
// on a line, `take` gets them one by one, with the same number. Of a line over 64 MiB it gets the beginning. Returns
// the first problem of `take`, or the file's own: it is no regular file, is UTF-16, or cannot be read.
using TakeLine = std::function<Result<void>(std::string_view line, std::uint64_t number)>;
Result<void> each_line(const std::filesystem::path& file, const TakeLine& take);

// Says why a text is not one JSON object that a transcript can hold; nothing when it is one.
std::optional<std::string> not_an_object(std::string_view text);

// Reads a time: ISO 8601, "2026-11-23 21:19:25" (UTC), or a number of ms, or of s below 10^11. Nothing when it is none
// that a transcript can hold.
std::optional<std::int64_t> time_of(std::string_view value);
std::optional<std::int64_t> time_of_text(std::string_view text);

// The raw value of a member when it is of this kind.
std::optional<std::string_view> member(const json::Index& object, std::string_view name, json::Kind kind);
std::optional<std::string_view> member(std::string_view object, std::string_view name, json::Kind kind);

// A version 8 UUID made of a text; the same text gives the same one.
std::string derived_uuid(std::string_view text);

// Session ids of one store: an id that no session may have, or that another one has, gives one made of it and of the
// file that it stands in.
class SessionIds {
 public:
  // `file` is a part of what an id is made of. The sink is told of one that was made; `place` says where it was found.
  std::string take(std::string_view wanted, std::string_view file, Sink& sink, std::string_view place);

 private:
  std::unordered_set<std::string> taken_{};
};

// The facts of a session that precede its entries.
struct ForeignHead {
  std::string id{};
  std::string cwd{};
  std::string parent{};  // session id of the parent, or empty
  std::string title{};
  std::string provider{};
  std::string model{};
  std::optional<std::int64_t> started{};
  std::optional<std::int64_t> last{};  // the last time that anything was written

  void saw(std::optional<std::int64_t> time);  // a time of an entry
};

// Content of a message in Pi's spelling, part by part. All values are raw JSON.
class Content {
 public:
  void text(std::string_view text);
  void thinking(std::string_view text, std::string_view signature, bool redacted = false);  // no signature: ""
  void image(std::string_view data, std::string_view mime);
  bool image_of_url(std::string_view url);  // false: it is no data: URL of an image
  void call(std::string_view id, std::string_view name, std::string_view arguments);
  void as_it_is(std::string_view part);
  bool empty() const { return parts_.empty(); }
  std::string take();  // the array; it is empty then

 private:
  void part(std::string text);
  std::string parts_{};
};

// Tokens of one reply.
struct Tokens {
  std::int64_t input = 0, output = 0, cache_read = 0, cache_write = 0;
  bool known = false;
};
std::string usage_json(const Tokens& tokens);

// An entry to be. `body`: its members beside type, id, parentId and timestamp, without braces.
struct ForeignEntry {
  std::string type = "message";
  std::string id{};  // empty, invalid or taken: one is made of `otherwise`
  std::string otherwise{};
  std::optional<std::string> parent{};  // nothing: the leaf; "": none
  std::optional<std::int64_t> time{};   // nothing: that of the entry before
  std::string body{};
};
// The body of a message: `members` are those of the message, without braces; its timestamp comes last.
std::string message_body(std::string_view members, std::int64_t time, std::string_view extra = {});

// The session that is being read: gives its entries to the sink, each with an id of its own and a parent.
class ForeignSession {
 public:
  ForeignSession(Sink& sink, std::string file) : sink_(sink), file_(std::move(file)) {}

  Result<void> begin(const ForeignHead& head);
  Result<void> end();
  Result<std::string> add(ForeignEntry entry);  // the id that it got; it is the leaf then
  Result<std::string> custom(std::string_view program, std::string_view type, std::string_view data,
                             ForeignEntry entry);
  Result<std::string> message(std::string_view members, ForeignEntry entry, std::string_view extra = {});

  // Names what is not taken: "<file>, line 3, /message/content: is missing". `place`: "line 3"; `pointer` may be empty.
  void skip(std::string_view place, std::string_view pointer, std::string_view why);

  bool has(std::string_view id) const { return ids_.contains(std::hash<std::string_view>{}(id)); }
  const std::string& leaf() const { return leaf_; }
  void set_leaf(std::string id) { leaf_ = std::move(id); }
  std::int64_t time() const { return time_; }

 private:
  std::string unused_id(const ForeignEntry& entry) const;

  Sink& sink_;
  std::string file_;
  std::string id_{};
  std::string leaf_{};
  std::string last_{};  // the entry that was added last
  std::int64_t time_ = 0;
  std::unordered_set<std::size_t> ids_{};  // hashes: a transcript may have a million entries
};

// Says "line 12", for ForeignSession::skip.
std::string line_place(std::uint64_t number);

}  // namespace sessiond::formats
