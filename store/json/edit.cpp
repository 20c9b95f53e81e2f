// Writing JSON: quoting, objects member by member, and edits spliced into raw objects.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "store/json/raw_json.hpp"
#include "store/json/scan.hpp"
#include "store/utf8.hpp"

namespace sessiond::json {

void append_quoted(std::string& out, std::string_view text) {
  bool high = false;
  const std::size_t first = find_special(text, 0, high);
  if (first == text.size() && !high) {  // nearly always
    const std::size_t before = out.size();
    out.resize_and_overwrite(before + text.size() + 2, [&](char* begin, std::size_t) {
      char* at = begin + before;
      *at++ = '"';
      at = std::copy_n(text.data(), text.size(), at);
      *at++ = '"';
      return at - begin;
    });
    return;
  }
  out += '"';
  std::size_t plain = 0;  // where the bytes begin that need no escaping
  std::size_t at = high ? 0 : first;
  const auto flush = [&] { out.append(text, plain, at - plain); };
  while (at < text.size()) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
      ++at;
      continue;
    }
    if (c >= 0x80) {
      const std::size_t length = store::utf8_sequence(text, at);
      if (length != 0) {
        at += length;
        continue;
      }
    }
    flush();
    if (const std::size_t known = escaped.find(text[at]); known != std::string_view::npos) {
      out += '\\';
      out += escape_names[known];
    } else if (c < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
    } else {
      out += "\xEF\xBF\xBD";
    }
    plain = ++at;
    if (!high) at = find_special(text, at, high);
    if (high) at = plain;
  }
  flush();
  out += '"';
}

std::string quote(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  append_quoted(out, text);
  return out;
}

void ObjectWriter::raw(std::string_view name, std::string_view value) {
  const std::size_t before = out_.size();
  const std::size_t most = before + name.size() + value.size() + std::string_view(",\"\":").size();
  out_.resize_and_overwrite(most, [&](char* begin, std::size_t) {
    char* at = begin + before;
    if (!first_) *at++ = ',';
    *at++ = '"';
    at = std::copy_n(name.data(), name.size(), at);
    *at++ = '"';
    *at++ = ':';
    return std::copy_n(value.data(), value.size(), at) - begin;
  });
  first_ = false;
}

void ObjectWriter::string(std::string_view name, std::string_view text) {
  raw(name, {});
  append_quoted(out_, text);
}

void ObjectWriter::integer(std::string_view name, std::int64_t number) {
  const fmt::format_int digits(number);
  raw(name, {digits.data(), digits.size()});
}

void ObjectWriter::string_or_null(std::string_view name, const std::optional<std::string>& text) {
  if (text) return string(name, *text);
  raw(name, "null");
}

std::string array_of(std::span<const std::string> texts) {
  std::string out = "[";
  for (const std::string& text : texts) {
    if (out.size() > 1) out += ',';
    append_quoted(out, text);
  }
  out += ']';
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
      out.append("\"").append(member.name).append("\":").append(member.value);
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
  std::string set = "{";
  for (const auto& member : edit.set) {
    if (set.size() > 1) set += ',';
    append_quoted(set, member.name);
    set.append(":").append(member.value);
  }
  set += '}';
  out.raw("set", set);
  out.raw("unset", array_of(edit.unset));
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
