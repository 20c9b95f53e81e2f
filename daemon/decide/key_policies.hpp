// What an operator allows under a key: the guardrails and the turnCap of its session (policy/runs/README.md). They
// belong to the key and outlive the session: whatever makes a session of the key again gives it exactly these. So who
// may delete a session, but may not change them, does not get rid of them by making it anew. What the maker of a
// session has chosen without the permission `policy` goes with the session.
//
// `apply` makes it from the journal's events, and journal/policies/<agent>.json keeps it (to_json). The file says which
// event it was made at, so that events which it already holds change nothing when they come again. Of ephemeral
// sessions nothing is on disk: what is set under their keys is here only, unless the file has the key anyway. Not
// thread-safe: part of the agent's state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "daemon/decide/session.hpp"
#include "store/journal/event.hpp"
#include "store/json/raw_json.hpp"
#include "store/problem.hpp"

namespace sessiond::decide {

class KeyPolicies {
 public:
  // By field (runs::policy_fields): raw JSON. One that is not set is not here.
  using Policy = std::map<std::string, std::string, std::less<>>;
  struct Kept {
    Policy policy{};
    bool by_operator = false;  // else it goes with the session
    bool on_disk = false;      // the file may have it
  };
  using All = std::map<std::string, Kept, std::less<>>;

  // Null: nothing was ever set. Empty: what was set was taken back. The key may be spelled in any way, also without
  // "agent:<agent>:".
  const Policy* find(std::string_view agent, std::string_view key) const;
  const All& all() const { return all_; }  // by a spelling of the key
  // Returns whether something is kept that the file does not have: the agent is not to leave memory.
  bool has_passing() const;

  // Takes in an event of this agent.
  void apply(const journal::Event& event);
  // Takes in an event of an ephemeral session.
  void apply_passing(const journal::Event& event) { take_event(event, false); }
  // Takes in a session of a store that was written before there was such a file.
  void take(std::string_view agent, const Session& session);

  // Returns whether it has changed since the last to_json().
  bool is_dirty() const { return dirty_; }
  void mark_dirty() { dirty_ = true; }
  // The text of that file, without a checksum. It then counts as unchanged.
  std::string to_json();
  // degraded: the text is not one of to_json().
  static Result<KeyPolicies> from_json(std::string_view text);

 private:
  void take_event(const journal::Event& event, bool durable);
  void set(const std::string& name, Kept kept);
  void forget(const std::string& name);  // unless an operator has set it

  All all_{};
  std::uint64_t seq_ = 0;
  bool dirty_ = false;
};

// Lets an edit set what is kept under a key, in place of what it says itself. `theirs`: the entry with the edit.
// Returns whether that makes a difference.
bool keep_policy(const KeyPolicies::Policy& kept, std::string_view theirs, json::Edit& edit);

// The member of a session.created that says that an operator has set what the session is allowed to do.
inline constexpr std::string_view policy_set_member = "policySet";

}  // namespace sessiond::decide
