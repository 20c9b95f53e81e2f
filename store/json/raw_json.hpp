// JSON that keeps its bytes. Stored entries and messages must come back as they were given: lone surrogate escapes,
// integers of 20 digits, 1e400. So a value is a view of its text and is converted only on request, and an object is
// edited by splicing. The grammar is RFC 8259.
//
// All functions but `check` expect text that `check` has accepted. On other text their results are unspecified, but
// they never read outside the view.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <forward_list>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sessiond::json {

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

struct Member {
  std::string_view name;   // as written between the quotes (escapes not resolved)
  std::string_view value;  // raw, without surrounding whitespace
};

struct CheckOptions {
  std::size_t max_depth = 64;              // of arrays and objects within each other; for foreign files: foreign_depth
  bool unique_names = false;               // refuse duplicate member names; for request bodies
  bool utf8 = false;                       // refuse bytes that are not UTF-8; for request bodies
  bool* line_ends = nullptr;               // with utf8: set to true when escape_line_ends() would change the text
  std::vector<Member>* members = nullptr;  // gets the members of the text, if it is an object; undefined on an error
};
inline constexpr std::size_t foreign_depth = 4096;

struct Error {
  std::size_t offset;  // byte in the text
  std::string detail;  // e.g. "unexpected end", "duplicate name \"a\"", "nested deeper than 64"
};

// Whether `text` is exactly one JSON value. Whitespace around it is allowed.
std::expected<void, Error> check(std::string_view text, CheckOptions options = {});

enum class Kind : std::uint8_t { object, array, string, number, boolean, null };
Kind kind(std::string_view value);  // by its first character

// Iterates in one pass without allocating: `for (Member m : members(object))`,
// `for (std::string_view v : elements(array))`. A value of another kind has no members and no elements.
template <class Value>
class ValueIterator {
 public:
  using value_type = Value;
  using difference_type = std::ptrdiff_t;
  ValueIterator() = default;
  explicit ValueIterator(std::string_view text);
  const Value& operator*() const { return value_; }
  const Value* operator->() const { return &value_; }
  ValueIterator& operator++();
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return done_; }

 private:
  void take_value(std::size_t at, std::string_view& value);  // that begins at `at` of the rest

  std::string_view rest_;
  Value value_;
  bool done_ = true;
};
using MemberIterator = ValueIterator<Member>;
using ElementIterator = ValueIterator<std::string_view>;
template <>
MemberIterator& MemberIterator::operator++();
template <>
ElementIterator& ElementIterator::operator++();

template <class Iterator>
struct Range {
  std::string_view text;
  Iterator begin() const { return Iterator(text); }
  std::default_sentinel_t end() const { return {}; }
};
inline Range<MemberIterator> members(std::string_view object) { return {object}; }
inline Range<ElementIterator> elements(std::string_view array) { return {array}; }
// Returns an array with change(element) in place of each element; without those for which that is nothing.
template <class Change>  // std::optional<std::string>(std::string_view element)
std::string change_elements(std::string_view array, Change change) {
  std::string out = "[";
  for (const std::string_view element : elements(array)) {
    const std::optional<std::string> changed = change(element);
    if (changed) out.append(out.size() > 1 ? "," : "").append(*changed);
  }
  return out + "]";
}

// The value of a member; of duplicates the last, as JSON.parse does. Names are compared with escapes resolved.
std::optional<std::string_view> find(std::string_view object, std::string_view name);

// Convert a value; nothing when it is of another kind or out of range.
std::optional<std::string> as_string(std::string_view value);  // lone surrogates become U+FFFD

// JSON as every reader takes it: bytes that are not UTF-8, and halves of surrogate pairs that stand alone ("\ud83d"),
// are U+FFFD. Whatever leaves the daemon is like this, but for what is promised byte by byte: a transcript's file,
// view=raw, backups. Returns `text`, or `held` with the mended text.
std::string_view as_sent(std::string_view text, std::string& held);
void mend_surrogates(std::string& text);  // only these
// Some readers of lines also end a line at U+0085, U+2028 and U+2029. No line that the daemon makes has one as it is:
// append_quoted() writes it as an escape (\u2028), and so does this in JSON that a client or a foreign program made,
// where it can stand in a string only.
bool has_line_ends(std::string_view text);
void escape_line_ends(std::string& text);
std::optional<std::int64_t> as_int(std::string_view value);  // integral numbers also as 1e3 or 5.0, if exact
std::optional<bool> as_bool(std::string_view value);
std::optional<double> as_double(std::string_view value);
std::optional<std::string> string_at(std::string_view object, std::string_view name);
std::optional<std::int64_t> int_at(std::string_view object, std::string_view name);
// The pairs of integers in an array [[a,b],…]; an element that is no pair is left out.
std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs_at(std::string_view object, std::string_view name);

std::vector<Member> all_members(std::string_view object);

// Finds members by name, like `find`, but scans the object only once. Use it to look up more than a few names. It views
// the object's text.
class Index {
 public:
  explicit Index(std::string_view object) : Index(all_members(object)) {}
  explicit Index(std::vector<Member> members);  // of one object, in its order
  std::optional<std::string_view> find(std::string_view name) const;
  std::optional<std::string> string_at(std::string_view name) const;
  std::optional<std::int64_t> int_at(std::string_view name) const;
  std::size_t size() const { return members_.size(); }

 private:
  static constexpr std::size_t few = 32;       // are compared one by one
  std::forward_list<std::string> resolved_{};  // names that were written with escapes
  std::vector<Member> members_{};              // if they are more than a few: by name
};

// The value that begins at `at`.
std::string_view value_at(std::string_view text, std::size_t at);

// The number of members of all objects in a value, at all depths.
std::size_t count_members(std::string_view value);

// JSON merge patch (RFC 7396) of `patch`, a compact object, over `base`; a `base` that is no object counts as {}.
// Members of `base` keep their position and bytes, new ones come last. Takes time linear in the length of both texts.
std::string merged(std::string_view base, std::string_view patch);

// The text between the quotes of a name or string, escapes resolved.
std::string unescape(std::string_view inner);

// Returns a member's name with escapes resolved: "\u0069d" is "id". `held` keeps it if it has any.
inline std::string_view name_of(const Member& member, std::string& held) {
  if (!member.name.contains('\\')) return member.name;
  return held = unescape(member.name);
}

// Writes a JSON string. Bytes that are not UTF-8 become U+FFFD, so the result is always UTF-8.
std::string quote(std::string_view text);
void append_quoted(std::string& out, std::string_view text);
std::string array_of(std::span<const std::string> texts);  // an array of strings

// Removes insignificant whitespace; tokens keep their bytes. Entries are held in memory like this.
std::string compact(std::string_view value);
// The same; `value` itself if there is none, else `held`.
std::string_view compacted(std::string_view value, std::string& held);

// Whether two values are equal. Strings are compared with escapes resolved, numbers by their exact decimal value (1.0
// equals 1; digits that a double cannot hold count), objects by their members in any order (of duplicates the last),
// arrays element by element. Below 64 levels values are compared token by token. Neither may have whitespace around it.
bool same(std::string_view a, std::string_view b);

// Writes a value in one form for all values that are the same: members by name, numbers as digits and a power of ten.
// Half a surrogate pair becomes U+FFFD. For hashing; it need not be JSON.
std::string canonical(std::string_view value);

// Writes an object member by member, at the end of a text or as a text of its own:
//   ObjectWriter w(out); w.string("a", "b"); w.raw("n", "1"); w.close();
//   ObjectWriter w; w.string("a", "b"); return w.text();
class ObjectWriter {
 public:
  ObjectWriter() : ObjectWriter(own_) {}
  explicit ObjectWriter(std::string& out) : out_(out) { out_ += '{'; }
  ObjectWriter(const ObjectWriter&) = delete;
  ObjectWriter& operator=(const ObjectWriter&) = delete;
  void raw(std::string_view name, std::string_view value);  // `name` is ours and needs no escaping; `value` is JSON
  void string(std::string_view name, std::string_view text);
  void integer(std::string_view name, std::int64_t number);
  void boolean(std::string_view name, bool value) { raw(name, value ? "true" : "false"); }
  void string_or_null(std::string_view name, const std::optional<std::string>& text);
  void strings(std::string_view name, std::span<const std::string> texts);  // an array
  // Writes the name, and returns the text to which the caller appends the value.
  std::string& value(std::string_view name) {
    raw(name, {});
    return out_;
  }
  void close() { out_ += '}'; }
  // Closes the object and returns it. Only for a writer that was made without `out`; call it once.
  std::string text() {
    assert(&out_ == &own_);
    close();
    return std::move(own_);
  }

 private:
  char* put_name(char* at, std::string_view name) const;

  std::string own_;  // before out_: the constructor writes to it
  std::string& out_;
  bool first_ = true;
};

// Writes an array element by element at the end of a text:
//   ArrayWriter w(out); w.next() += "1"; w.close();
class ArrayWriter {
 public:
  explicit ArrayWriter(std::string& out) : out_(out) { out_ += '['; }
  ArrayWriter(const ArrayWriter&) = delete;
  ArrayWriter& operator=(const ArrayWriter&) = delete;
  // Returns the text to which the caller appends the next element.
  std::string& next() {
    if (!std::exchange(first_, false)) out_ += ',';
    return out_;
  }
  void close() { out_ += ']'; }

 private:
  std::string& out_;
  bool first_ = true;
};

// One edit of an object: members to set (raw values) and to remove.
struct Edit {
  struct Set {
    std::string name;
    std::string value;  // raw JSON
    friend bool operator==(const Set&, const Set&) = default;
  };
  std::vector<Set> set{};
  std::vector<std::string> unset{};

  bool empty() const { return set.empty() && unset.empty(); }
  void put(std::string name, std::string value);  // replaces an earlier put or remove of the name
  void put_string(std::string name, std::string_view text) { put(std::move(name), quote(text)); }
  void put_int(std::string name, std::int64_t number);
  void remove(std::string name);
  friend bool operator==(const Edit&, const Edit&) = default;
};
// Applies an edit: members keep their position and bytes, new ones come last. Removes all duplicates of a name.
std::string apply(std::string_view object, const Edit& edit);
// The edit as members "set":{…} and "unset":[…], as the event session.updated has them, and back.
void append_edit(ObjectWriter& out, const Edit& edit);
Edit read_edit(std::string_view object_with_set_and_unset);

}  // namespace sessiond::json
