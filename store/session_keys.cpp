// Session keys: agent:<agent>:<rest>. Takes them apart (channel, chat type, peer, thread), and makes their canonical
// form.
#include <fmt/format.h>
#include <unicase.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "store/names.hpp"
#include "store/utf8.hpp"

namespace sessiond::store {
namespace {

constexpr std::size_t max_key_bytes = 512;

bool is_key_text(std::string_view text) {
  return !invalid_utf8(text) && std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

constexpr std::string_view direct = "direct";

// The chat type that a segment of a key names, or "".
std::string_view chat_type_of(std::string_view segment) {
  if (equals_nocase(segment, "direct") || equals_nocase(segment, "dm")) return direct;
  if (equals_nocase(segment, "group")) return "group";
  if (equals_nocase(segment, "channel")) return "channel";
  return {};
}

// First segments that are not channels. The rest of such a key has no chat type or thread.
bool is_internal(std::string_view segment) {
  static constexpr std::array<std::string_view, 8> names{"subagent", "cron",      "acp",         "hook",
                                                         "explicit", "dashboard", "openai-user", "heartbeat"};
  return std::ranges::any_of(names, [&](std::string_view name) { return equals_nocase(segment, name); });
}

// `what` begins with a character that has no case.
std::size_t rfind_nocase(std::string_view text, std::string_view what) {
  std::size_t at = text.rfind(what.front());
  while (at != std::string_view::npos && !starts_with_nocase(text.substr(at), what))
    at = at == 0 ? std::string_view::npos : text.rfind(what.front(), at - 1);
  return at;
}

// Cuts the mark at `at` and the id after it off the end of `text`. Returns the id.
std::string_view cut_suffix(std::string_view& text, std::size_t at, std::size_t mark_size) {
  const std::string_view id = text.substr(at + mark_size);
  text = text.substr(0, at);
  return id;
}

void cut_suffixes(std::string_view& text, KeyParts& parts) {
  static constexpr std::string_view thread_mark = ":thread:";
  static constexpr std::string_view topic_suffix_mark = ":topic:";
  const auto usable = [&](std::size_t at, std::string_view mark) {
    return at != std::string_view::npos && at > 0 && at + mark.size() < text.size();
  };
  for (int round = 0; round < 2; ++round) {
    const std::size_t thread_at = rfind_nocase(text, thread_mark);
    const std::size_t topic_at = rfind_nocase(text, topic_suffix_mark);
    const bool thread = usable(thread_at, thread_mark);
    const bool topic = usable(topic_at, topic_suffix_mark);
    if (thread && (!topic || thread_at > topic_at)) {
      if (!parts.thread.empty()) return;
      parts.thread = cut_suffix(text, thread_at, thread_mark.size());
    } else if (topic) {
      if (!parts.topic.empty()) return;
      parts.topic = cut_suffix(text, topic_at, topic_suffix_mark.size());
    } else {
      return;
    }
  }
}

// The parts of a key, and where its chat type stands.
struct Shape {
  KeyParts parts;
  std::string_view kind;  // "direct", "dm", … as written; points into the key
};

std::string_view first_segment(std::string_view text) { return text.substr(0, text.find(':')); }
std::string_view after_segment(std::string_view text, std::string_view segment) {
  return segment.size() < text.size() ? text.substr(segment.size() + 1) : std::string_view{};
}

// Reads direct:<peer> (as dmScope per-peer makes it), <channel>:<chat type>:<peer> or
// <channel>:<account>:direct:<peer>.
void read_chat(std::string_view text, Shape& shape) {
  const std::string_view first = first_segment(text);
  for (int place = 0; place < 3; ++place) {
    const std::string_view segment = first_segment(text);
    text = after_segment(text, segment);
    if (segment.empty() || text.empty()) return;
    const std::string_view type = chat_type_of(segment);
    if (type.empty() || (place == 2 && type != direct)) continue;
    if (place > 0) shape.parts.channel = first;
    shape.parts.chat_type = type;
    shape.parts.peer = text;
    shape.kind = segment;
    return;
  }
}

Shape read_shape(std::string_view key) {
  Shape shape;
  shape.parts.rest = key;
  if (starts_with_nocase(key, "agent:")) {
    const std::string_view after = key.substr(6);
    const std::string_view agent = first_segment(after);
    const std::string_view rest = after_segment(after, agent);
    if (!agent.empty() && !rest.empty()) {
      shape.parts.agent = agent;
      shape.parts.rest = rest;
    }
  }
  if (is_internal(first_segment(shape.parts.rest))) return shape;
  std::string_view text = shape.parts.rest;
  // A subagent's key may begin with its parent's key, whose thread or topic is not the subagent's.
  if (rfind_nocase(text, ":subagent:") == std::string_view::npos) cut_suffixes(text, shape.parts);
  read_chat(text, shape);
  return shape;
}

KeyRules& key_rules() {
  static KeyRules rules;
  return rules;
}

bool is_ascii(std::string_view text) {
  return std::ranges::none_of(text, [](unsigned char c) { return c >= 0x80; });
}

// As ECMAScript's toLowerCase() does it. Text that is not UTF-8 stays as it is but for its ASCII letters.
std::string lower_letters(std::string_view text) {
  if (invalid_utf8(text)) return lower(text);
  std::size_t size = 0;
  const std::unique_ptr<std::uint8_t, void (*)(void*)> out(
      u8_tolower(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), nullptr, nullptr, nullptr, &size),
      std::free);
  return out ? std::string(reinterpret_cast<const char*>(out.get()), size) : lower(text);
}

// Whether the case of an id has a meaning, as in Matrix rooms ("!AbC:example.org") and Signal groups (base64). User ids
// of these two are in lower case.
bool keeps_case(const KeyParts& parts) {
  const auto& channels = key_rules().case_sensitive;
  const auto is_channel = [&parts](std::string_view channel) { return equals_nocase(parts.channel, channel); };
  if (parts.channel.empty() || std::ranges::none_of(channels, is_channel)) return false;
  const bool users_are_lower = is_channel("matrix") || is_channel("signal");
  return parts.chat_type != direct || !users_are_lower || parts.peer.starts_with('!');
}

// The canonical form of a key's rest. The words of suffixes become lower case; ids whose case has a meaning keep it.
void append_rest(std::string& out, const Shape& shape) {
  const KeyParts& parts = shape.parts;
  if (shape.kind.empty()) {
    out += lower_key(parts.rest);
    return;
  }
  const auto offset = [&](std::string_view part) { return static_cast<std::size_t>(part.data() - parts.rest.data()); };
  out += lower_key(parts.rest.substr(0, offset(shape.kind)));
  out += parts.chat_type;
  out += ':';
  if (!keeps_case(parts)) {
    out += lower_key(parts.rest.substr(offset(parts.peer)));
    return;
  }
  const auto add = [&out](std::string_view word, std::string_view id) {
    if (!id.empty()) out.append(word).append(id);
  };
  out += parts.peer;
  const bool topic_last = !parts.thread.empty() && !parts.topic.empty() && offset(parts.topic) > offset(parts.thread);
  if (!topic_last) add(":topic:", parts.topic);
  add(":thread:", parts.thread);
  if (topic_last) add(":topic:", parts.topic);
}

bool is_lower_prefix(std::string_view text, std::string_view prefix) {
  if (starts_with_nocase(text, prefix)) return true;
  if (!key_rules().all_letters || (is_ascii(text) && is_ascii(prefix))) return false;
  return lower_key(text).starts_with(lower_key(prefix));
}

// Returns what `holds` says of a key, or of its other spelling of dm/direct, if a prefix may tell them apart.
template <class Holds>
bool in_either_spelling(std::string_view key, std::string_view prefix, Holds holds) {
  if (prefix.empty() || holds(key)) return true;
  const auto names_direct = [prefix](std::size_t at) { return at < prefix.size() && (prefix[at] | 0x20) == 'd'; };
  bool may_differ = names_direct(0);
  for (std::size_t at = prefix.find(':'); at != std::string_view::npos && !may_differ; at = prefix.find(':', at + 1))
    may_differ = names_direct(at + 1);
  if (!may_differ) return false;
  const auto alias = dm_alias(key);
  return alias && holds(*alias);
}

}  // namespace

KeyParts parse_key(std::string_view key) { return read_shape(key).parts; }

Result<std::string> canonical_key(std::string_view key, std::string_view agent) {
  key = trim(key);
  if (key.empty()) return fail(Code::invalid_id, "a session key must not be empty");
  if (!is_key_text(key)) return fail(Code::invalid_id, "a session key must be UTF-8 without control characters");
  const Shape shape = read_shape(key);
  const KeyParts& parts = shape.parts;
  if (parts.agent.empty() && (starts_with_nocase(key, "agent:") || equals_nocase(key, "agent"))) {
    return fail(Code::invalid_id, fmt::format("\"{}\" is not agent:<agent>:<rest>", key));
  }
  if (!parts.agent.empty() && !equals_nocase(parts.agent, agent)) {
    return fail(Code::agent_mismatch,
                fmt::format("the key names agent \"{}\", the request agent \"{}\"", parts.agent, agent));
  }
  // /v1/agents/{agent}/sessions/-/last is no session's.
  if (parts.rest == "-") return fail(Code::reserved_name, "\"-\" is a reserved key");
  std::string out;
  out.reserve(key.size());
  out.append("agent:").append(agent).append(":");
  append_rest(out, shape);
  if (out.size() > max_key_bytes) {
    return fail(Code::invalid_id,
                fmt::format("a session key has at most {} bytes, this one has {}", max_key_bytes, out.size()));
  }
  return out;
}

void set_key_rules(KeyRules rules) {
  for (std::string& channel : rules.case_sensitive) channel = lower(trim(channel));
  key_rules() = std::move(rules);
}

// Each part by itself: what a letter becomes may depend on the letters around it, as for the Greek sigma, and a key
// must begin as the key of its threads does.
std::string lower_key(std::string_view text) {
  if (!key_rules().all_letters || is_ascii(text)) return lower(text);
  std::string out;
  for (;;) {
    const std::size_t end = text.find(':');
    out += lower_letters(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    out += ':';
    text.remove_prefix(end + 1);
  }
}

std::string folded_key(std::string_view key) {
  const Shape shape = read_shape(key);
  std::string out = lower(key.substr(0, key.size() - shape.parts.rest.size()));
  append_rest(out, shape);
  return out;
}

bool same_key(std::string_view a, std::string_view b) {
  if (a == b) return true;
  if (a.empty() || b.empty()) return false;
  const std::string_view ends[] = {a.substr(a.size() - 1), b.substr(b.size() - 1)};
  if (is_ascii(ends[0]) && is_ascii(ends[1]) && !equals_nocase(ends[0], ends[1])) return false;  // as most are
  return folded_key(a) == folded_key(b);
}

bool key_has_prefix(std::string_view key, std::string_view prefix) {
  return in_either_spelling(key, prefix, [prefix](std::string_view spelling) {
    const Shape shape = read_shape(spelling);
    if (!keeps_case(shape.parts)) return is_lower_prefix(spelling, prefix);
    const auto at = static_cast<std::size_t>(shape.parts.peer.data() - spelling.data());
    if (prefix.size() <= at) return is_lower_prefix(spelling, prefix);
    return is_lower_prefix(spelling.substr(0, at), prefix.substr(0, at)) &&
           spelling.substr(at).starts_with(prefix.substr(at));
  });
}

bool key_begins_with(std::string_view key, std::string_view prefix) {
  return in_either_spelling(key, prefix,
                            [prefix](std::string_view spelling) { return is_lower_prefix(spelling, prefix); });
}

bool key_matches_prefix(std::string_view key, std::string_view prefix) {
  return in_either_spelling(key, prefix, [prefix](std::string_view spelling) {
    return is_lower_prefix(spelling, prefix) || is_lower_prefix(parse_key(spelling).rest, prefix);
  });
}

std::optional<std::string> dm_alias(std::string_view key) {
  const Shape shape = read_shape(key);
  if (shape.parts.chat_type != direct) return std::nullopt;
  const auto at = static_cast<std::size_t>(shape.kind.data() - key.data());
  std::string out(key.substr(0, at));
  out += shape.kind.size() == 2 ? "direct" : "dm";
  out += key.substr(at + shape.kind.size());
  return out;
}

}  // namespace sessiond::store
