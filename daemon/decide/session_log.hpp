// Writes the log of a session: what its runs asked of models and tools, for diagnosis and replay.
//
// The log is a file of its own for each session id, agents/<agent>/logs/<sessionId>.jsonl. A line is a JSON object:
//   {"seq":3,"time":1795383598678,"type":"text_delta","runId":"r1","text":"Sun","id":"8869347af3164766"}
// Lines go through the journal as transcript lines do (append.hpp), as events log.appended, and count as known only
// once they are durable. A reset begins a new log, for the session gets a new id; the old one lasts as long as the
// archives of that id. Nothing is written while sessionLog is off, nor of ephemeral sessions.
//
// A log that has reached limits.logBytes takes nothing more; its last line says so. These functions are pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/run_steps.hpp"

namespace sessiond::decide {

struct LogLine {
  std::string type{};     // log_kinds
  std::string run_id{};   // empty: of no run
  std::string members{};  // raw, without braces
};

// The kinds of lines.
std::span<const std::string_view> log_kinds();

// Tells whether lines are written about this session.
inline bool keeps_log(const Context& context) {
  return context.rules->log.mode != LogRules::Mode::off && context.durable;
}

// Adds lines. As in steps.hpp, sets builder.out.need if it is not known where the log ends. A line that has no room is
// left out, and so are those behind it; the last line of the log then is an error `log_full`. Returns the seqs of the
// first and the last line; nothing if none was written.
struct Logged {
  std::uint64_t first_seq = 0, last_seq = 0;
};
std::optional<Logged> append_log(DecisionBuilder& builder, const Session& session, const std::vector<LogLine>& lines);

// The text as a JSON value; with sessionLog meta, {"length":<code points>} in its place.
std::string log_text(const Context& context, std::string_view text);

// {role,contentLength,hasToolCalls,toolCallNames,metadata} of a message, given as its raw object.
std::string log_structure(std::string_view message);

// Names the fetched line with which Need::What::history is met: a JSON array of the structures of the transcript's last
// messages. Its seq is the number of entries that the transcript had.
inline constexpr std::string_view history_name = "/history";

// The lines of a run that starts and that ends. `appended`: the entries with which it ends.
void log_run_start(DecisionBuilder& builder, const Session& session, const Run& run, std::string_view input);
void log_run_end(DecisionBuilder& builder, const Session& session, const Run& run,
                 std::span<const transcripts::NewEntry> appended, const FetchedLines& lines);
void log_delta(DecisionBuilder& builder, const Session& session, const Run& run, std::string_view text);
void log_shutdown(DecisionBuilder& builder, const Session& session, std::string_view reason);

// Lines that a runner writes.
struct AppendLog {
  Target target{};
  std::vector<LogLine> lines{};
};
// session_log_off; content_too_large when the log is full. Answers 201 {sessionId,firstSeq,lastSeq,asOf}.
Result<Decision> decide(const AgentState& state, const AppendLog& command, const Context& context);

}  // namespace sessiond::decide
