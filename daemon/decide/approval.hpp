// An approval is the answer to a runner's question whether a tool may be used: open until a person, a rule, its
// deadline or the end of its run decides it, then final (policy/runs/README.md). Pure values, and their JSON.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/json/fields.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::decide {

struct Approval {
  static constexpr std::array<std::string_view, 4> address_members{"channel", "to", "accountId", "threadId"};

  std::string id{}, run_id{}, tool{};
  std::string args = "{}";  // raw JSON object
  std::string call_id{};    // empty: none
  std::string decision{};   // allow or deny; empty: it is open
  std::string source{};     // answer, session, guardrail, default or run_ended; empty: it is open
  std::string asked_by{};   // the token that asked; empty: a version before did not keep it
  std::string by{};         // the token that answered
  std::string reason{};
  std::string address{};  // raw JSON object of address_members: where the run's answer goes; empty: nowhere
  std::optional<std::string> topic{};       // of the run
  std::int64_t asked_at = 0, deadline = 0;  // ms since the epoch
  std::int64_t resolved_at = 0;             // the same; 0: it is open, or a version before did not keep it
  std::int64_t age_deadline = 0;            // the deadline by the clock of ages (store/journal/age_clock.hpp)

  bool is_open() const { return decision.empty(); }
  // Decides it. `how`: the source.
  void resolve(bool allow, std::string_view how, std::int64_t now);
  friend bool operator==(const Approval&, const Approval&) = default;

  template <class V, class A>
  static void describe(V& v, A& approval) {
    v.text("id", approval.id);
    v.text("runId", approval.run_id);
    v.text("tool", approval.tool);
    v.raw("args", approval.args);
    v.text_or_null("callId", approval.call_id);
    v.text_or_null("decision", approval.decision);
    v.text_or_null("source", approval.source);
    v.text_if("askedBy", approval.asked_by);
    v.text_if("by", approval.by);
    v.text_if("reason", approval.reason);
    v.spread(address_members, approval.address);
    v.text_if("topic", approval.topic);
    v.number("askedAt", approval.asked_at);
    v.number("deadline", approval.deadline);
    v.number_if("resolvedAt", approval.resolved_at);
    v.own([&] { v.number("ageDeadline", approval.age_deadline); });
  }
};

// The approval as the API shows it.
std::string approval_json(std::string_view agent, std::string_view key, const Approval& approval);

// The approvals of one session, in the order in which they were asked for. Those of the active run that have a call id
// stay until it ends, so that a question which is sent again gets the same answer: the run may ask no more when they
// are too many or too large. Of others, decided ones leave, the oldest first.
class ApprovalList {
 public:
  static constexpr std::size_t most_open = 100;

  const std::vector<Approval>& all() const { return all_; }
  const Approval* find(std::string_view id) const;
  const Approval* find_call(std::string_view run_id, std::string_view call_id) const;
  std::size_t open() const;
  // Tells whether the list can keep one more approval until its run ends.
  bool has_room_for(const Approval& approval) const;

  // Adds an approval, or replaces the one that has its id.
  void put(Approval approval);

  // A FieldWriter and a FieldReader use it as a list of records. push_back() is put().
  using value_type = Approval;
  bool empty() const { return all_.empty(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  void push_back(Approval approval) { put(std::move(approval)); }

  // The active run has ended: approvals that are still open, which no journal has, are denied.
  void end_run();

 private:
  void drop_old(std::size_t most, std::string_view active_run);

  std::vector<Approval> all_{};
};

}  // namespace sessiond::decide
