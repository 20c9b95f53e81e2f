// The guardrails and the turnCap that operators have set, by key (policy/runs/README.md). They outlive the session: a
// session that is made again under the key gets exactly these, whoever makes it. So a token that may delete a session,
// but may not change them, cannot get rid of them. A maker without the permission `policy` may choose them for a key
// that has none; these are forgotten with the session.
//
// `apply` makes the book from the journal's events, and journal/policies/<agent>.json keeps it (to_json). The file says
// which event it was made at, so that events which it already holds change nothing when they come again. Keys of
// ephemeral sessions are not written to disk, unless the file has the key already. Not thread-safe: part of the agent's
// state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "daemon/decide/events.hpp"
#include "daemon/decide/session.hpp"
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

  // Returns what an operator has set. Null: nothing, ever. Empty: it was taken back. The key may be spelled in any way,
  // also without "agent:<agent>:".
  const Policy* find(std::string_view agent, std::string_view key) const;
  const All& all() const { return all_; }  // by the folded key
  // Returns whether there is something that the file does not have. The agent's state must then stay in memory.
  bool has_passing() const;

  // Takes in an event of this agent.
  void apply(const Change& event);
  // Takes in an event of an ephemeral session.
  void apply_passing(const Change& event) { take_event(event, false); }
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
  void take_event(const Change& event, bool durable);
  void set(const std::string& name, Kept kept);
  void forget(const std::string& name);  // unless an operator has set it

  All all_{};
  std::uint64_t seq_ = 0;
  bool dirty_ = false;
};

// Makes an edit set these values, whatever it sets itself. `theirs`: the entry with the edit. Returns whether the entry
// had other values.
bool keep_policy(const KeyPolicies::Policy& kept, std::string_view theirs, json::Edit& edit);

// A member of the data of session.created: an operator has set the guardrails or the turnCap of the session.
inline constexpr std::string_view policy_set_member = "policySet";

}  // namespace sessiond::decide
