#include "policy/redaction.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

#include "policy/pointer.hpp"
#include "policy/secret_scan.hpp"
#include "policy/signatures.hpp"
#include "store/json/raw_json.hpp"
#include "store/limits.hpp"
#include "store/utf8.hpp"

namespace sessiond::policy {
namespace {

constexpr std::size_t most_found = 20;
constexpr int most_nested = 4;            // JSON in strings of JSON
constexpr std::size_t most_held = 200;    // code points of a piece
constexpr std::size_t most_before = 256;  // bytes: as much as may have been told of a secret that goes on

std::string placeholder(std::string_view kind) { return std::string("[redacted: ").append(kind).append("]"); }

bool is_json(std::string_view text) {
  return (text.starts_with('{') || text.starts_with('[') || text.starts_with('"')) && json::check(text).has_value();
}

bool takes(TakenOut taken, std::string_view kind) { return taken == TakenOut::all || is_own(kind); }

template <std::size_t size>
bool is_one_of(const std::array<std::string_view, size>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Members that hold ids, in messages, their parts and what is said about them.
constexpr std::array<std::string_view, 19> ids{
    "id",         "sessionId",  "session_id",      "parentId",          "runId",         "entryId",   "callId",
    "toolCallId", "messageId",  "tool_call_id",    "tool_use_id",       "uuid",          "requestId", "parentUuid",
    "deliveryId", "approvalId", "targetMessageId", "platformMessageId", "idempotencyKey"};
// The same near the top of a body: who speaks to whom, and where.
constexpr std::array<std::string_view, 12> addresses{"key",     "sessionKey", "topic",     "threadId",
                                                     "channel", "to",         "accountId", "peer",
                                                     "from",    "agent",      "space",     "groupId"};
// Members that hold a tool's data, whatever the names in it. `input` is one but at the top of a body.
constexpr std::array<std::string_view, 9> data{"arguments", "args", "input",    "details", "result",
                                               "output",    "data", "response", "json"};
constexpr std::array<std::string_view, 4> media_types{"mimeType", "mime_type", "media_type", "mediaType"};

constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
bool is_of(std::string_view text, std::string_view others) {
  return text.find_first_not_of(std::string(letters).append(others)) == text.npos;
}

// Returns whether base64 that is long enough looks like a key by chance: one that it begins with is none, nor is one of
// ours.
bool is_by_chance(std::string_view base64) {
  for (auto found = find_secret(base64); found; found = find_secret(base64, found->at + found->size))
    if (found->at == 0 || is_own(found->kind)) return false;
  return true;
}
bool is_base64(std::string_view inner) { return !inner.empty() && is_of(inner, "+/=\\") && is_by_chance(inner); }
bool is_signature_text(std::string_view inner) { return is_of(inner, "+/=\\-_") && is_by_chance(inner); }

// Returns whether a member of an object holds base64 by its place: media and signatures (media.hpp, signatures.hpp).
// `of`: the name of the member that the object is.
bool is_encoded(std::string_view object, std::string_view of, std::string_view name, std::string_view value) {
  if (json::kind(value) != json::Kind::string) return false;
  const std::string_view inner = value.substr(1, value.size() - 2);
  if (is_signature(name)) return is_signature_text(inner);
  if (inner.starts_with("data:")) {
    constexpr std::string_view marker = ";base64,";
    const std::size_t at = inner.substr(0, 256).find(marker);
    if (at == inner.npos) return false;
    const std::string_view type = inner.substr(5, at - 5);
    return type.contains('/') && is_of(type, "+-./;=_") && !find_secret(type) &&
           is_base64(inner.substr(at + marker.size()));
  }
  if (name != "data") return false;
  const std::string type = json::string_at(object, "type").value_or("");
  if (type == "redacted_thinking") return is_signature_text(inner);
  const auto is_there = [object](std::string_view member) { return json::find(object, member).has_value(); };
  const bool is_audio = of == "input_audio" && is_there("format");
  return (type == "base64" || is_audio || std::ranges::any_of(media_types, is_there)) && is_base64(inner);
}

bool is_delta(std::string_view type) { return type == "text.delta" || type == "reasoning.delta"; }

// Walks through a JSON value, and notes each string with a secret and what stands in its place.
class Walk {
 public:
  Walk(std::string_view whole, std::string_view begin, Look look, int nested)
      : whole_(whole), begin_(begin), look_(look), nested_(nested) {}

  void look(std::string_view value) {
    switch (json::kind(value)) {
      case json::Kind::object:
        look_in_object(value);
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
        read_text(value.substr(1, value.size() - 2));
        break;
      default:
        break;
    }
  }

  Redaction result() && {
    Redaction out{.found = std::move(found_)};
    if (replaced_.empty()) return out;
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

  void look_in_object(std::string_view object) {
    const bool is_event = path_.size() == 2 && in_events();
    const bool leaves_text =
        !look_.deltas && (path_.empty() || (is_event && is_delta(json::string_at(object, "type").value_or(""))));
    const std::string_view of =
        path_.empty() || path_.back().name.data() == nullptr ? std::string_view() : path_.back().name;
    for (const json::Member& member : json::members(object)) {
      std::string held;
      const std::string_view name = json::name_of(member, held);
      read_text(member.name, Place::name);
      if (leaves_text && name == "text") continue;
      if (look_.message && !in_data_ && is_encoded(object, of, name, member.value)) continue;
      const bool was_id = std::exchange(is_id_, look_.message && !in_data_ && is_id(name));
      const bool was_data = std::exchange(in_data_, in_data_ || is_data(name));
      path_.push_back({.name = member.name});
      look(member.value);
      path_.pop_back();
      is_id_ = was_id;
      in_data_ = was_data;
    }
  }

  bool is_data(std::string_view name) const { return is_one_of(data, name) && (name != "input" || !path_.empty()); }
  // In the events of a call of a run.
  bool in_events() const { return !path_.empty() && path_.front().name == "events"; }
  bool is_id(std::string_view name) const {
    return is_one_of(ids, name) || (path_.size() <= 1 && is_one_of(addresses, name));
  }

  void put(std::string_view inner, std::string_view text) {
    std::string quoted = json::quote(text);
    replaced_[static_cast<std::size_t>(inner.data() - whole_.data())] = {.size = inner.size(),
                                                                         .with = quoted.substr(1, quoted.size() - 2)};
  }
  enum class Place : unsigned char { value, name };
  void note(std::string_view kind, Place place = Place::value) {
    const bool in_id = is_id_ && place == Place::value;
    if (found_.size() >= most_found) {
      if (!in_id && !is_own(kind)) return;
      found_.pop_back();  // these may be refused, so they are told of
    }
    found_.push_back({.pointer = pointer(), .kind = kind, .in_name = place == Place::name, .in_id = in_id});
  }

  void read_text(std::string_view inner, Place place = Place::value) {
    const bool escaped = inner.contains('\\');
    std::string held;
    if (escaped) held = json::unescape(inner);
    const std::string_view text = escaped ? held : inner;
    if (const std::string_view value = store::trim(text); escaped && nested_ < most_nested && is_json(value)) {
      Walk walk(value, "", {.taken = look_.taken}, nested_ + 1);
      walk.look(value);
      const Redaction within = std::move(walk).result();
      if (!within.text.empty()) put(inner, within.text);
      std::string_view last;
      for (const SecretIn& found : within.found)
        if (found.kind != last) note(last = found.kind, place);
      return;
    }
    auto found = find_secret(text);
    if (!found) return;
    if (const std::string without = redacted_text(text, look_.taken); without != text) put(inner, without);
    // One of each kind: whether a secret is the daemon's own decides more than where it stands.
    std::string_view last;
    for (; found; found = find_secret(text, found->at + found->size))
      if (found->kind != last) note(last = found->kind, place);
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
      const bool goes_on = text && json::kind(*text) == json::Kind::string && own.contains("text") &&
                           (look_.deltas || !in_events() || path_.size() != 1 || !is_delta(own));
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
      std::span<const SecretFound> rest = cut;
      for (std::size_t i = 0; i < run.size() && !rest.empty(); ++i) {
        while (!rest.empty() && rest.front().at + rest.front().size <= at) rest = rest.subspan(1);
        put_part(run[i], std::exchange(at, ends[i]), all, rest);
      }
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
  void put_part(const TextPart& part, std::size_t begin, std::string_view all, std::span<const SecretFound> cut) {
    const std::size_t end = begin + part.text.size();
    std::string out;
    std::size_t at = begin;
    for (const SecretFound& found : cut) {
      if (found.at >= end) break;
      const std::size_t from = std::max(found.at, begin);
      const std::size_t to = std::min(found.at + found.size, end);
      if (from >= to) continue;
      const bool begins = found.at >= begin;
      if (takes(look_.taken, found.kind)) {
        out += all.substr(at, from - at);
        at = to;
        if (begins) out += placeholder(found.kind);  // its name stands where it begins
      }
      if (!begins) continue;
      path_.push_back({.index = part.index});
      path_.push_back({.name = "text"});
      note(found.kind);
      path_.resize(path_.size() - 2);
    }
    out += all.substr(at, end - at);
    if (out != part.text) put(part.inner, out);
  }

  std::string_view whole_, begin_;
  Look look_;
  int nested_;
  bool is_id_ = false, in_data_ = false;  // of the member that is being looked at
  std::vector<Step> path_{};
  std::vector<SecretIn> found_{};
  std::map<std::size_t, Replaced> replaced_{};  // by offset
};

}  // namespace

std::string redacted_text(std::string_view text, TakenOut taken) {
  return replace_secrets(text, [&](const SecretFound& found) {
    return takes(taken, found.kind) ? placeholder(found.kind) : std::string(text.substr(found.at, found.size));
  });
}

PieceRedactor::Piece PieceRedactor::take(std::string_view piece) {
  Piece out;
  piece = drop_rest(piece);
  if (piece.empty()) return out;
  const std::string all = before_ + held_ + std::string(piece);
  std::size_t told = before_.size();
  const auto tell = [&](std::size_t end) { out.text += all.substr(told, std::max(end, told) - told); };
  const auto take_out = [&](std::size_t at, std::string_view kind) {
    tell(at);
    out.text += placeholder(kind);
    out.kinds.push_back(kind);
  };
  std::size_t cut = all.size();
  for (auto found = find_secret(all); found; found = find_secret(all, found->at + found->size)) {
    const std::size_t end = found->at + found->size;
    if (end <= told) continue;
    const std::size_t begin = std::max(found->at, told);
    if (end == all.size()) {  // it may go on
      cut = begin;
      if (store::count_code_points(std::string_view(all).substr(cut)) <= most_held) break;
      take_out(begin, found->kind);
      drop_from_now_on(found->kind, std::string_view(all).substr(begin));
      return out;
    }
    take_out(begin, found->kind);
    told = end;
  }
  const std::size_t begin = cut == all.size() ? begun_secret(all) : cut;
  cut = std::max(begin, told);  // its first character may be told
  const std::string_view begun = std::string_view(all).substr(begin);
  if (store::count_code_points(begun) > most_held) {
    if (begins_as_jwt(begun)) {
      take_out(cut, jwt_kind);
      drop_from_now_on(jwt_kind, begun);
      return out;
    }
    cut = all.size();
  }
  tell(cut);
  held_ = all.substr(cut);
  before_ = all.substr(cut - std::min(cut, most_before), std::min(cut, most_before));
  return out;
}

std::string PieceRedactor::rest() const {
  if (held_.empty()) return {};
  const std::string all = before_ + held_;
  std::size_t told = before_.size();
  std::string text;
  for (auto found = find_secret(all); found; found = find_secret(all, found->at + found->size)) {
    const std::size_t end = found->at + found->size;
    if (end <= told) continue;
    text.append(all, told, std::max(found->at, told) - told).append(placeholder(found->kind));
    told = end;
  }
  return text.append(all, told);
}

std::string PieceRedactor::tell_rest() {
  std::string text = rest();
  *this = behind(before_ + held_);
  return text;
}

PieceRedactor PieceRedactor::behind(std::string_view told) {
  PieceRedactor out;
  out.before_ = told.substr(told.size() - std::min(told.size(), most_before));
  return out;
}

std::string_view PieceRedactor::held_kind() const {
  const std::string all = before_ + held_;
  for (auto found = find_secret(all); found; found = find_secret(all, found->at + found->size))
    if (found->at + found->size > before_.size()) return found->kind;
  return {};
}

bool PieceRedactor::is_idle() const {
  const bool in_number = !before_.empty() && before_.back() >= '0' && before_.back() <= '9';
  return held_.empty() && kind_.empty() && !in_number && begun_secret(before_) == before_.size();
}

// Returns what of a piece does not belong to the secret that is being dropped.
std::string_view PieceRedactor::drop_rest(std::string_view piece) {
  if (kind_.empty()) return piece;
  if (kind_ != pem_kind) {
    const std::size_t rest = rest_of_secret(kind_, piece);
    if (rest < piece.size()) kind_ = {};
    return piece.substr(rest);
  }
  if (left_ == 0) {  // before its last line; before_ has the end of what was dropped
    const std::string seen = before_ + std::string(piece);
    const std::size_t end = seen.find(pem_end);
    if (end == seen.npos) {
      before_ = seen.substr(seen.size() - std::min(seen.size(), pem_end.size() - 1));
      return {};
    }
    piece.remove_prefix(end + pem_end.size() - before_.size());
    before_.clear();
    left_ = pem_end_label;
  }
  const std::size_t rest = std::min(left_, piece.size());
  left_ -= rest;
  if (left_ == 0) kind_ = {};
  return piece.substr(rest);
}

void PieceRedactor::drop_from_now_on(std::string_view kind, std::string_view begun) {
  kind_ = kind;
  left_ = 0;
  held_.clear();
  before_.clear();
  if (kind != pem_kind) return;
  if (const std::size_t end = begun.find(pem_end); end != begun.npos)
    left_ = pem_end_label - (begun.size() - end - pem_end.size());
  else
    before_ = begun.substr(begun.size() - std::min(begun.size(), pem_end.size() - 1));
  if (left_ == 0 && before_.empty()) kind_ = {};
}

Redaction redact(std::string_view json, std::string_view pointer, Look look) {
  if (!may_hold_secret(json)) return {};
  Walk walk(json, pointer, look, 0);
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
