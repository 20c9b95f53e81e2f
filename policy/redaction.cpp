#include "policy/redaction.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "policy/pointer.hpp"
#include "policy/secret_scan.hpp"
#include "store/json/raw_json.hpp"
#include "store/limits.hpp"

namespace sessiond::policy {
namespace {

constexpr std::size_t most_found = 20;
constexpr int most_nested = 4;  // JSON in strings of JSON

std::string placeholder(std::string_view kind) { return std::string("[redacted: ").append(kind).append("]"); }

bool is_json(std::string_view text) {
  return (text.starts_with('{') || text.starts_with('[')) && json::check(text).has_value();
}

// Walks through a JSON value, and notes each string with a secret and what stands in its place.
class Walk {
 public:
  Walk(std::string_view whole, std::string_view begin, int nested) : whole_(whole), begin_(begin), nested_(nested) {}

  void look(std::string_view value) {
    switch (json::kind(value)) {
      case json::Kind::object:
        for (const json::Member& member : json::members(value)) {
          read_text(member.name, true);
          path_.push_back({.name = member.name});
          look(member.value);
          path_.pop_back();
        }
        break;
      case json::Kind::array: {
        std::size_t index = 0;
        for (const std::string_view element : json::elements(value)) {
          path_.push_back({.index = index++});
          look(element);
          path_.pop_back();
        }
        look_across(value);
        break;
      }
      case json::Kind::string:
        read_text(value.substr(1, value.size() - 2), false);
        break;
      default:
        break;
    }
  }

  Redaction result() && {
    if (replaced_.empty()) return {};
    Redaction out{.found = std::move(found_)};
    std::size_t at = 0;
    for (const auto& [offset, part] : replaced_) {
      out.text.append(whole_, at, offset - at).append(part.with);
      at = offset + part.size;
    }
    out.text += whole_.substr(at);
    return out;
  }

 private:
  // One level of the current position. It becomes part of a pointer only for a secret: names may be long, elements
  // many.
  struct Step {
    std::string_view name{};  // of a member, still escaped
    std::size_t index = 0;    // of an element
  };
  struct Replaced {
    std::size_t size = 0;
    std::string with{};  // as it stands between the quotes
  };
  // The text of a part, by its place between the quotes.
  struct TextPart {
    std::string_view inner{};
    std::string text{};
    std::size_t index = 0;
  };

  std::string pointer() const {
    std::string out(begin_);
    for (const Step& step : path_) {
      const bool is_name = step.name.data() != nullptr;
      out = pointer_to(out, is_name ? without_secrets(json::unescape(step.name.substr(0, limits::fault_bytes)))
                                    : std::to_string(step.index));
    }
    return out;
  }

  void put(std::string_view inner, std::string_view text) {
    std::string quoted = json::quote(text);
    replaced_[static_cast<std::size_t>(inner.data() - whole_.data())] = {.size = inner.size(),
                                                                         .with = quoted.substr(1, quoted.size() - 2)};
  }
  void note(std::string_view kind, bool in_name) {
    if (found_.size() < most_found) found_.push_back({.pointer = pointer(), .kind = kind, .in_name = in_name});
  }

  void read_text(std::string_view inner, bool in_name) {
    const bool escaped = inner.contains('\\');
    std::string held;
    if (escaped) held = json::unescape(inner);
    const std::string_view text = escaped ? held : inner;
    if (escaped && nested_ < most_nested && is_json(text)) {
      Walk walk(text, "", nested_ + 1);
      walk.look(text);
      const Redaction within = std::move(walk).result();
      if (within.text.empty()) return;
      put(inner, within.text);
      note(within.found.front().kind, in_name);
      return;
    }
    const auto found = find_secret(text);
    if (!found) return;
    put(inner, redacted_text(text));
    note(found->kind, in_name);
  }

  std::string text_of(std::string_view inner) const {
    const auto there = replaced_.find(static_cast<std::size_t>(inner.data() - whole_.data()));
    return json::unescape(there == replaced_.end() ? inner : std::string_view(there->second.with));
  }

  // Looks for secrets that begin in a text of the array and go on in the next ones.
  void look_across(std::string_view array) {
    std::vector<TextPart> run;
    std::string type;
    std::size_t index = 0;
    for (const std::string_view element : json::elements(array)) {
      const bool is_object = json::kind(element) == json::Kind::object;
      const auto text = is_object ? json::find(element, "text") : std::nullopt;
      const std::string own = text ? json::string_at(element, "type").value_or("") : "";
      const bool goes_on = text && json::kind(*text) == json::Kind::string && own.contains("text");
      if (!goes_on || own != type) read_across(run);
      type = own;
      if (goes_on) {
        const std::string_view inner = text->substr(1, text->size() - 2);
        run.push_back({.inner = inner, .text = text_of(inner), .index = index});
      }
      ++index;
    }
    read_across(run);
  }
  void read_across(std::vector<TextPart>& run) {
    if (run.size() > 1) {
      std::string all;
      std::vector<std::size_t> ends;
      ends.reserve(run.size());
      for (const TextPart& part : run) ends.push_back((all += part.text).size());
      std::vector<SecretFound> cut;
      std::size_t begin = 0;
      for (const std::size_t end : ends) add_cut(all, std::exchange(begin, end), end, cut);
      std::size_t at = 0;
      for (std::size_t i = 0; i < run.size() && !cut.empty(); ++i)
        put_part(run[i], std::exchange(at, ends[i]), all, cut);
    }
    run.clear();
  }
  // Adds the secrets that begin in the part from `begin` to `end` and go on behind it. A part's start is one of a word.
  static void add_cut(std::string_view all, std::size_t begin, std::size_t end, std::vector<SecretFound>& cut) {
    constexpr std::size_t ahead = 512;
    if (!cut.empty()) begin = std::max(begin, cut.back().at + cut.back().size);
    while (begin < end) {
      const auto first = find_secret(all.substr(begin, end - begin + ahead));
      if (!first || begin + first->at >= end) return;
      auto whole = find_secret(all.substr(begin + first->at));  // it may be longer than what was looked at
      if (!whole || whole->at != 0) whole = SecretFound{0, first->size, first->kind};
      const std::size_t at = begin + first->at;
      begin = at + whole->size;
      if (begin > end) cut.push_back({at, whole->size, whole->kind});
    }
  }
  // Writes a part, which begins at `begin` of the whole text, without the secrets that are `cut`.
  void put_part(const TextPart& part, std::size_t begin, std::string_view all, const std::vector<SecretFound>& cut) {
    const std::size_t end = begin + part.text.size();
    std::string out;
    std::size_t at = begin;
    for (const SecretFound& found : cut) {
      const std::size_t from = std::max(found.at, begin);
      const std::size_t to = std::min(found.at + found.size, end);
      if (from >= to) continue;
      out += all.substr(at, from - at);
      at = to;
      if (found.at < begin) continue;  // its name stands where it begins
      out += placeholder(found.kind);
      path_.push_back({.index = part.index});
      path_.push_back({.name = "text"});
      note(found.kind, false);
      path_.resize(path_.size() - 2);
    }
    out += all.substr(at, end - at);
    if (out != part.text) put(part.inner, out);
  }

  std::string_view whole_, begin_;
  int nested_;
  std::vector<Step> path_{};
  std::vector<SecretIn> found_{};
  std::map<std::size_t, Replaced> replaced_{};  // by offset
};

}  // namespace

std::string redacted_text(std::string_view text) { return replace_secrets(text, placeholder); }

Piece redact_piece(std::string held, std::string_view piece) {
  constexpr std::size_t most_held = 64 << 10;
  constexpr std::size_t most_points = 200;
  std::string all = std::move(held);
  all += piece;
  std::size_t cut = all.size();
  for (std::size_t points = 0; cut > 0 && points < most_points; ++points) {
    std::size_t before = cut - 1;
    while (before > 0 && (static_cast<unsigned char>(all[before]) & 0xC0U) == 0x80U) --before;
    if (std::string_view(" \t\r\n").contains(all[before])) break;
    cut = before;
  }
  // A word that goes on before that may be a long secret that has begun there.
  if (const std::size_t begun = begun_secret(all, cut); begun < cut) cut = begun;
  std::size_t from = 0;
  for (auto found = find_secret(all); found; found = find_secret(all, from)) {
    from = found->at + found->size;
    const bool goes_on = from == all.size();
    if (goes_on) cut = std::min(cut, found->at);
    if (found->at < cut && from > cut) cut = from;
    if (goes_on) break;
  }
  if (all.size() - cut > most_held) cut = all.size();
  return {.now = redacted_text(std::string_view(all).substr(0, cut)), .held = all.substr(cut)};
}

Redaction redact(std::string_view json, std::string_view pointer) {
  if (!may_hold_secret(json)) return {};
  Walk walk(json, pointer, 0);
  walk.look(json);
  return std::move(walk).result();
}

std::vector<Fault> secret_faults(std::string_view value, std::string_view pointer) {
  std::vector<Fault> faults;
  for (const SecretIn& found : redact(value, pointer).found) {
    std::string detail(found.in_name ? "has a member whose name looks like" : "looks like");
    detail.append(std::string_view("AO").contains(found.kind.front()) ? " an " : " a ");
    detail.append(found.kind).append(", which must not be stored in a session");
    faults.push_back({found.pointer, std::move(detail)});
  }
  return faults;
}

}  // namespace sessiond::policy
