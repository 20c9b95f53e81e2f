#include "daemon/stream/filter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::stream {
namespace {

// Names of events that later versions may send: a client may ask for them today.
constexpr std::array<std::string_view, 9> reserved{"run.*",        "step.*",     "tool.*", "approval.*", "context.*",
                                                   "compaction.*", "delivery.*", "hook.*", "retention.*"};

// `*` stands for any characters.
bool glob_matches(std::string_view pattern, std::string_view text) {
  std::size_t at = 0;
  std::size_t star = std::string_view::npos;
  std::size_t retry = 0;
  std::size_t p = 0;
  while (at < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = at;
    } else if (p < pattern.size() && pattern[p] == text[at]) {
      ++p;
      ++at;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      at = ++retry;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool is_reserved(std::string_view pattern) {
  return std::ranges::any_of(reserved, [pattern](std::string_view name) {
    return glob_matches(pattern, name) || glob_matches(name, pattern);
  });
}

bool is_early(journal::EventType type) {
  return type == journal::EventType::message_change_early || type == journal::EventType::message_change_lost;
}

// `*` alone names what a stream without types shows.
Result<EventFilter::Types> types_of(std::string_view pattern) {
  EventFilter::Types types;
  for (std::size_t index = 0; index < types.size(); ++index) {
    const auto type = static_cast<journal::EventType>(index);
    if (type == journal::EventType::log_appended && pattern.starts_with('*')) continue;
    if (glob_matches(pattern, journal::name(type))) types.set(index);
  }
  if (types.any() || is_reserved(pattern)) return types;
  return fail_at("?types", fmt::format("the parameter types names {}, which no event can match", json::quote(pattern)));
}

std::optional<std::string> text_of(const http::Request& request, std::string_view parameter) {
  const std::string* value = request.query_value(parameter);
  if (value == nullptr || store::trim(*value).empty()) return std::nullopt;
  return std::string(store::trim(*value));
}

}  // namespace

Result<EventFilter> EventFilter::parse(const http::Request& request) {
  EventFilter out;
  if (const auto types = text_of(request, "types")) {
    TRY(out.patterns_, http::names_in(*types, "types"));
    out.types_.reset();
    for (const std::string& pattern : out.patterns_) {
      TRY(const auto named, types_of(pattern));
      out.types_ |= named;
    }
  }
  if (const auto deliver = text_of(request, "deliver")) {
    if (*deliver != "true" && *deliver != "false") return fail_at("?deliver", "must be true or false");
    out.deliveries_ = *deliver == "true";
  }
  if (const auto agent = text_of(request, "agent")) {
    out.agent_ = store::normalize_agent_id(*agent);
    if (!out.agent_) return fail_at("?agent", fmt::format("{} is not a valid agent id", json::quote(*agent)));
  }
  out.key_prefix_ = text_of(request, "keyPrefix");
  out.channel_ = text_of(request, "channel");
  out.topic_ = text_of(request, "topic");
  return out;
}

bool EventFilter::matches(const journal::Envelope& event) const {
  if (deliveries_ && !event.delivers &&
      (event.type < journal::EventType::delivery_leased || event.type > journal::EventType::delivery_queued))
    return false;
  if (!types_.test(static_cast<std::size_t>(event.type))) return false;
  if (agent_ && event.agent != *agent_) return false;
  if (channel_ && !store::equals_nocase(event.about_channel(), *channel_)) return false;
  if (topic_ && event.topic != topic_) return false;
  return !key_prefix_ || store::key_matches_prefix(event.key, *key_prefix_);
}

std::string EventFilter::json(const StreamScope& scope) const {
  json::ObjectWriter writer;
  if (!scope.agent.empty()) {
    writer.string("agent", scope.agent);
  } else if (agent_) {
    writer.string("agent", *agent_);
  }
  if (!scope.key.empty()) writer.string("key", scope.key);
  if (!patterns_.empty()) writer.raw("types", json::array_of(patterns_));
  if (key_prefix_) writer.string("keyPrefix", *key_prefix_);
  if (channel_) writer.string("channel", *channel_);
  if (topic_) writer.string("topic", *topic_);
  if (deliveries_) writer.boolean("deliver", true);
  return writer.text();
}

bool StreamView::sees(const journal::Envelope& event) const {
  if (!event.key.empty() && principal.sees(event.agent, event.key, event.audience())) {
    const bool names_parent = event.type == journal::EventType::session_created && !event.lineage.empty();
    return lineage.empty() || !names_parent;  // a session token sees no parent of its session
  }
  if (!lineage.empty()) return principal.sees_agent(event.agent) && event.lineage.contains(lineage);
  if (!event.key.empty()) return false;
  // Who told of a change learns what becomes of it.
  if (is_early(event.type) && event.actor == principal.id && principal.sees_agent(event.agent)) return true;
  return event.agent.empty() ? principal.sees_everything() : principal.sees_whole_agent(event.agent);
}

bool StreamView::shows_all() const {
  return scope.agent.empty() && scope.key.empty() && filter.matches_all() && principal.sees_everything();
}

bool StreamView::shows(const journal::Envelope& event) const {
  if (!scope.agent.empty() && event.agent != scope.agent) return false;
  if (!scope.key.empty() && event.key != scope.key) return false;
  if (event.seq <= scope.after && event.seq != 0) return false;  // 0: it is not stored, and of now
  return filter.matches(event) && sees(event);
}

}  // namespace sessiond::stream
