// Writing JSON: quoting, objects member by member, and edits spliced into raw objects.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "store/json/raw_json.hpp"
#include "store/json/scan.hpp"
#include "store/number.hpp"
#include "store/utf8.hpp"

namespace sessiond::json {

namespace {

// Copies the first and the last bytes of a short text, which may overlap. Most names and many values are short.
template <class Word>
void put_ends(char* at, std::string_view text) {
  Word first{}, last{};
  const std::size_t behind = text.size() - sizeof(Word);
  std::memcpy(&first, text.data(), sizeof(Word));
  std::memcpy(&last, text.data() + behind, sizeof(Word));
  std::memcpy(at, &first, sizeof(Word));
  std::memcpy(at + behind, &last, sizeof(Word));
}

char* put(char* at, std::string_view text) {
  const std::size_t size = text.size();
  if (size > 16) return std::copy_n(text.data(), size, at);
  if (size >= 8)
    put_ends<std::uint64_t>(at, text);
  else if (size >= 4)
    put_ends<std::uint32_t>(at, text);
  else
    for (std::size_t index = 0; index < size; ++index) at[index] = text[index];
  return at + size;
}

// Looks at all bytes, without an early end, so that the compiler can take many at once.
bool is_ascii(std::string_view text) {
  unsigned char all = 0;
  for (const char c : text) all |= static_cast<unsigned char>(c);
  return all < 0x80;
}

constexpr std::size_t most_escaped = 6;  // bytes that one byte of ASCII takes: \u001f

// Writes ASCII text as it stands between quotes. Returns the end of what it wrote: at most `most_escaped` bytes for
// each of the text.
char* put_escaped(char* out, std::string_view text) {
  bool high = false;
  for (std::size_t at = 0;;) {
    const std::size_t special = find_special(text, at, high);
    out = put(out, text.substr(at, special - at));
    if (special == text.size()) return out;
    const char c = text[special];
    const std::size_t known = c == '"' ? escaped.size() - 2 : escaped.find(c);
    *out++ = '\\';
    out = known == std::string_view::npos ? fmt::format_to(out, "u{:04x}", static_cast<unsigned char>(c))
                                          : put(out, escape_names.substr(known, 1));
    at = special + 1;
  }
}

// Quotes text that has bytes outside ASCII. Those that are not UTF-8 become U+FFFD.
void append_quoted_utf8(std::string& out, std::string_view text) {
  out += '"';
  std::size_t plain = 0;  // where the bytes begin that need no escaping
  std::size_t at = 0;
  while (at < text.size()) {
    const auto c = static_cast<unsigned char>(text[at]);
    const std::size_t length = c < 0x80 ? (c >= 0x20 && c != '"' && c != '\\') : store::utf8_sequence(text, at);
    const std::string_view line_end = length < 2 ? std::string_view() : line_end_escape(text, at);
    if (length != 0 && line_end.empty()) {
      at += length;
      continue;
    }
    out.append(text, plain, at - plain);
    if (!line_end.empty()) {
      out += line_end;
      at += length - 1;
    } else if (c >= 0x80) {
      out += "\xEF\xBF\xBD";
    } else {
      std::array<char, most_escaped> escape{};
      out.append(escape.data(), put_escaped(escape.data(), text.substr(at, 1)));
    }
    plain = ++at;
  }
  out.append(text, plain);
  out += '"';
}

}  // namespace

void append_quoted(std::string& out, std::string_view text) {
  bool high = false;
  const std::size_t first = find_special(text, 0, high);
  if (first == text.size() && !high) {  // nearly always
    const std::size_t before = out.size();
    out.resize_and_overwrite(before + text.size() + 2, [&](char* begin, std::size_t) {
      char* at = begin + before;
      *at++ = '"';
      at = put(at, text);
      *at++ = '"';
      return at - begin;
    });
    return;
  }
  if (!is_ascii(text)) return append_quoted_utf8(out, text);
  out += '"';
  constexpr std::size_t piece = 256;  // room is taken for one piece at a time, in case each of its bytes is escaped
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const std::size_t before = out.size();
    out.resize_and_overwrite(before + piece * most_escaped, [&](char* begin, std::size_t) {
      return put_escaped(begin + before, text.substr(at, piece)) - begin;
    });
  }
  out += '"';
}

std::string quote(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  append_quoted(out, text);
  return out;
}

// Writes what stands before a member's value.
char* ObjectWriter::put_name(char* at, std::string_view name) const {
  if (!first_) *at++ = ',';
  *at++ = '"';
  at = put(at, name);
  *at++ = '"';
  *at++ = ':';
  return at;
}

void ObjectWriter::raw(std::string_view name, std::string_view value) {
  const std::size_t before = out_.size();
  const std::size_t most = before + name.size() + value.size() + std::string_view(",\"\":").size();
  out_.resize_and_overwrite(
      most, [&](char* begin, std::size_t) { return put(put_name(begin + before, name), value) - begin; });
  first_ = false;
}

void ObjectWriter::string(std::string_view name, std::string_view text) {
  bool high = false;
  if (find_special(text, 0, high) != text.size() || high) {
    raw(name, {});
    return append_quoted(out_, text);
  }
  const std::size_t before = out_.size();
  const std::size_t most = before + name.size() + text.size() + std::string_view(",\"\":\"\"").size();
  out_.resize_and_overwrite(most, [&](char* begin, std::size_t) {
    char* at = put_name(begin + before, name);
    *at++ = '"';
    at = put(at, text);
    *at++ = '"';
    return at - begin;
  });
  first_ = false;
}

void ObjectWriter::integer(std::string_view name, std::int64_t number) {
  const fmt::format_int digits(number);
  raw(name, {digits.data(), digits.size()});
}

void ObjectWriter::string_or_null(std::string_view name, const std::optional<std::string>& text) {
  if (text) return string(name, *text);
  raw(name, "null");
}

namespace {

void append_array(std::string& out, std::span<const std::string> texts) {
  ArrayWriter array(out);
  for (const std::string& text : texts) append_quoted(array.next(), text);
  array.close();
}

}  // namespace

void ObjectWriter::strings(std::string_view name, std::span<const std::string> texts) {
  append_array(value(name), texts);
}

std::string array_of(std::span<const std::string> texts) {
  std::string out;
  append_array(out, texts);
  return out;
}

void Edit::put(std::string name, std::string value) {
  std::erase(unset, name);
  const auto found = std::ranges::find(set, name, &Set::name);
  if (found != set.end()) {
    found->value = std::move(value);
  } else {
    set.push_back({std::move(name), std::move(value)});
  }
}

void Edit::put_int(std::string name, std::int64_t number) { put(std::move(name), store::decimal(number)); }

void Edit::remove(std::string name) {
  std::erase_if(set, [&](const Set& member) { return member.name == name; });
  if (std::ranges::find(unset, name) == unset.end()) unset.push_back(std::move(name));
}

namespace {

// The members that an edit names. Few are compared one by one, more are sorted; not hashed, since a client could choose
// names whose hashes collide.
class Named {
 public:
  explicit Named(const Edit& edit) : edit_(edit) {
    if (edit.set.size() + edit.unset.size() <= few) return;
    for (std::size_t index = 0; index < edit.set.size(); ++index) sorted_.emplace_back(edit.set[index].name, index);
    for (const std::string& name : edit.unset) sorted_.emplace_back(name, unset);
    std::ranges::sort(sorted_);
  }

  static constexpr std::size_t unset = SIZE_MAX;
  // The member's index in edit.set, `unset`, or nothing.
  std::optional<std::size_t> find(std::string_view name) const {
    if (!sorted_.empty()) {
      const auto found = std::ranges::lower_bound(sorted_, name, {}, &One::first);
      if (found == sorted_.end() || found->first != name) return {};
      return found->second;
    }
    const auto set = std::ranges::find(edit_.set, name, &Edit::Set::name);
    if (std::ranges::find(edit_.unset, name) != edit_.unset.end()) return unset;
    if (set == edit_.set.end()) return {};
    return static_cast<std::size_t>(set - edit_.set.begin());
  }

 private:
  static constexpr std::size_t few = 16;
  using One = std::pair<std::string_view, std::size_t>;
  const Edit& edit_;
  std::vector<One> sorted_;
};

}  // namespace

std::string apply(std::string_view object, const Edit& edit) {
  const Named named(edit);
  std::string out;
  std::size_t extra = 2;
  for (const auto& member : edit.set) extra += member.name.size() + member.value.size() + 4;
  out.reserve(object.size() + extra);
  out += '{';
  std::vector<bool> placed(edit.set.size(), false);
  const auto separate = [&out] {
    if (out.size() > 1) out += ',';
  };
  for (const Member& member : members(object)) {
    std::string resolved;
    std::string_view name = member.name;
    if (name.find('\\') != std::string_view::npos) name = resolved = unescape(name);
    const auto index = named.find(name);
    if (!index) {
      separate();
      if (member.value.begin() == member.name.end() + 2) {  // there is only `":` between them
        out.append(member.name.begin() - 1, member.value.end());
      } else {
        out.append("\"").append(member.name).append("\":").append(member.value);
      }
      continue;
    }
    if (*index == Named::unset || placed[*index]) continue;  // removed, or a duplicate of a member that is set now
    placed[*index] = true;
    separate();
    out.append("\"").append(member.name).append("\":").append(edit.set[*index].value);
  }
  for (std::size_t index = 0; index < edit.set.size(); ++index) {
    if (placed[index]) continue;
    separate();
    append_quoted(out, edit.set[index].name);
    out.append(":").append(edit.set[index].value);
  }
  out += '}';
  return out;
}

void append_edit(ObjectWriter& out, const Edit& edit) {
  std::string& set = out.value("set");
  set += '{';
  bool first = true;
  for (const auto& member : edit.set) {
    if (!std::exchange(first, false)) set += ',';
    append_quoted(set, member.name);
    set.append(":").append(member.value);
  }
  set += '}';
  out.strings("unset", edit.unset);
}

Edit read_edit(std::string_view object) {
  Edit edit;
  for (const Member& part : members(object)) {
    if (part.name == "set") {
      for (const Member& member : members(part.value))
        edit.set.push_back({unescape(member.name), std::string(member.value)});
    } else if (part.name == "unset") {
      for (const std::string_view name : elements(part.value)) {
        if (auto text = as_string(name)) edit.unset.push_back(std::move(*text));
      }
    }
  }
  return edit;
}

}  // namespace sessiond::json
