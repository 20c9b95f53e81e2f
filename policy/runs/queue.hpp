// Decides about an input for a session whose agent is at work: it is refused, it waits, it is given to the run that
// is under way (steer), or it ends that run (interrupt). And of what waits: what joins one run, in which order runs
// start, and what is dropped when too much waits.
//
// An input is a user message that wants an answer; a request for a run without a message counts as one input. The
// caller keeps the queue; these are pure functions.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/json/fields.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::runs {

// `queue` is read as followup, and `steer+backlog` as steer_backlog. Only a request can say reject.
enum class QueueMode : std::uint8_t { collect, followup, steer, steer_backlog, interrupt, reject };
enum class QueueDrop : std::uint8_t { summarize, oldest, newest };  // in an entry: summarize, old, new

// A larger queueCap counts as this, and a longer queueDebounceMs as a day.
inline constexpr std::int64_t most_waiting = 10'000;
inline constexpr std::int64_t longest_debounce_ms = 86'400'000;

struct QueueRules {
  QueueMode mode = QueueMode::collect;
  std::int64_t debounce_ms = 1'000;
  std::int64_t cap = 20;  // inputs that may wait; 0: none
  QueueDrop drop = QueueDrop::summarize;
  friend bool operator==(const QueueRules&, const QueueRules&) = default;
};
// Reads queueMode, queueDebounceMs, queueCap and queueDrop. A value that is absent, or that a foreign program wrote and
// that cannot be read, is the default.
QueueRules queue_rules(const json::Index& entry);

// The mode that a request's whenBusy names: reject, queue, steer or interrupt. Nothing: it is none of them.
std::optional<QueueMode> mode_when_busy(std::string_view when_busy);

// Where an answer goes. Inputs with the same address may be answered together.
struct Address {
  std::string_view reply_to{};  // raw JSON; empty or null: none
  std::string_view topic{};
};
bool is_same(const Address& a, const Address& b);

// The step that an input takes while a run is active.
enum class BusyStep : std::uint8_t {
  refuse,          // session_busy
  collect,         // joins a waiting run, else waits as a run of its own until nothing came for debounce_ms
  wait,            // waits as a run of its own
  steer,           // is given to the active run
  steer_and_wait,  // both; it is taken off the queue when the runner confirms it
  interrupt,       // ends the active run, and waits at the head
};
// `same_address`: of the input and the active run. An input for another address cannot steer; it waits.
BusyStep when_busy(QueueMode mode, bool same_address);

// How long an input waits for others before its run may start, in ms. 0: not at all.
std::int64_t debounce_of(const QueueRules& rules, QueueMode mode);

// The origin of a waiting run. Runs start in the order of this enum, and those of one origin in the order in which they
// came.
enum class Origin : std::uint8_t { retry, interrupt, steer_leftover, queued };

struct WaitingRun {
  Origin origin = Origin::queued;
  QueueMode mode = QueueMode::followup;  // of its input
  Address address{};
};
// Says whether an input joins a waiting run: both are collect, for one address.
bool joins(const WaitingRun& waiting, QueueMode mode, const Address& address);

// The index at which a new run is put into the queue. `waiting` has the origins of the runs that wait, in order.
std::size_t place_in_queue(std::span<const Origin> waiting, Origin made);

// Whether inputs may wait. Inputs of a retry are not counted in `waiting`, and never dropped.
struct Admission {
  bool refused = false;      // queue_full
  std::int64_t dropped = 0;  // this many of the oldest waiting inputs go first
  bool counted = false;      // the next run is told of the dropped ones (Overflow)
  friend bool operator==(const Admission&, const Admission&) = default;
};
// `arriving` inputs come together and go together: more than the cap are refused whatever queueDrop says.
Admission admit(const QueueRules& rules, std::int64_t waiting, std::int64_t arriving = 1);

// Inputs for one address that were dropped with queueDrop summarize. The next run for it is told of them. The number of
// all, and a line for each of the last `most_lines`.
struct Overflow {
  static constexpr std::size_t most_lines = 100;
  struct Line {
    std::string text{};
    std::string entry_id{};  // of the message; empty: unknown
  };
  struct Of {
    std::string reply_to{};  // raw JSON
    std::string topic{};
    friend bool operator==(const Of&, const Of&) = default;

    template <class V, class O>
    static void describe(V& v, O& of) {
      v.raw_or_null("replyTo", of.reply_to);
      v.text("topic", of.topic);
    }
  };
  std::optional<Of> of{};  // nothing: whatever run is next; an earlier version did not keep it
  std::int64_t dropped = 0;
  std::deque<Line> lines{};

  void add(std::string_view text, std::string entry_id = {});  // of a dropped input
  // A message was edited, or deleted: then it does not count as dropped. Does nothing if it has no line.
  void edit(std::string_view entry_id, std::string_view text);
  void forget(std::string_view entry_id);
  // "[Queue overflow] Dropped 2 messages.\n- first\n- second"
  std::string text() const;
  std::vector<std::string> entry_ids() const;  // of the lines; "" for those that are unknown
  bool is_for(const Address& address) const;

  template <class V, class O>
  static void describe(V& v, O& overflow) {
    v.group_if("replyTo", overflow.of);
    v.number("dropped", overflow.dropped);
    v.column("lines", overflow.lines, &Overflow::Line::text);
    v.column("entryIds", overflow.lines, &Overflow::Line::entry_id);
  }
};

}  // namespace sessiond::runs
