// A hook is a handler that is told, or asked, when something happens in a session (policy/runs/README.md). Handlers are
// clients: they see `hook.called` on their stream and answer. These are the hooks that clients have made, which events
// there are, and what the answers of several handlers come to. Pure values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::runs {

bool is_hook_event(std::string_view event);
// UserPromptSubmit, PreCompact, PreToolUse: these wait for blocking handlers.
bool can_block(std::string_view event);
std::string hook_event_names();  // with commas between

struct Hook {
  std::string name{};
  std::vector<std::string> events{};
  bool blocking = false;  // is waited for
  std::optional<std::int64_t> timeout_ms{};
  bool blocks_on_timeout = false;
  std::vector<std::string> agents{};  // empty: all
  std::string owner{};                // the token that made it, if it does not see everything; else empty

  bool wants(std::string_view agent, std::string_view event) const;
};
std::string to_json(const Hook& hook);  // without its owner

class HookList {
 public:
  static constexpr std::size_t most = 50;            // of tokens that see everything
  static constexpr std::size_t most_of_limited = 8;  // of each other token

  const std::map<std::string, Hook, std::less<>>& all() const { return all_; }
  const Hook* find(std::string_view name) const;
  bool is_wanted(std::string_view agent, std::string_view event) const;
  // Tells whether a handler of this event is waited for.
  bool is_waited_for(std::string_view agent, std::string_view event) const;
  // Returns whether the owner of a hook may have one more.
  bool has_room(std::string_view owner) const;
  void put(Hook hook);
  void erase(std::string_view name);

  // The text of journal/hooks, without a checksum, and back. degraded.
  std::string to_json() const;
  static Result<HookList> from_json(std::string_view text);

 private:
  std::map<std::string, Hook, std::less<>> all_{};
};

// The answer of one handler, or that its time is over.
struct HookAnswer {
  std::string name{};
  bool is_open = true;  // nothing yet
  bool blocks = false;
  std::string reason{};
  std::string context{};  // additionalContext
};
// The answers of all handlers of an event together.
struct HookVerdict {
  bool blocked = false;
  std::string reason{};
  std::string context{};
};
inline constexpr std::size_t most_context_bytes = 64 << 10;  // of all handlers of an event
// Nothing: an answer that counts is still to come. `answers` are in the order of their names.
std::optional<HookVerdict> verdict_of(std::span<const HookAnswer> answers);

}  // namespace sessiond::runs
