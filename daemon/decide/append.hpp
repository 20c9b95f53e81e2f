// Appends entries to a transcript, as one step of a decision.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/decide/decision.hpp"
#include "daemon/decide/needs.hpp"

namespace sessiond::decide {

struct Run;

struct AppendRequest {
  std::optional<std::string> topic{};
  std::vector<transcripts::NewEntry> entries{};
  bool in_list = false;                         // problems point to /entries/<n>, else to the body
  std::optional<std::uint64_t> expected_seq{};  // the seq that the first entry must get, else precondition_failed
  bool needs_answer = false;                    // the first entry that is not a hint waits for an answer (needs.hpp)
  std::optional<std::string> needs_after{};     // a person says it in place of the agent: what waits then (needs.hpp)
  std::optional<NeedsChange> needs{};           // the entry deletes a message that waits
  bool by_daemon = false;                       // calls and results need not match
  const Run* run = nullptr;                     // whose runner ends it with the entries; null: context.run says it
  bool is_too_long = false;                     // a model has just refused the conversation
  bool to_stream = false;                       // the topic is that of a stream: nothing is counted in the session
  // By entry: where it goes. Nothing: it is not delivered (delivery_steps.hpp).
  std::vector<std::optional<DeliveryOffer>> deliveries{};
  MessageAppended told{};  // what each event says beside its entry: run_id, media_urls, to, mirrored, word
};

struct AppendResult {
  std::string file;
  // The lowest and the highest seq of the request's entries, including those that were there already.
  std::uint64_t first_seq = 0;
  std::uint64_t last_seq = 0;
  std::uint64_t seq = 0;  // of the last entry of the request
  std::vector<std::string> ids;
  std::size_t duplicates = 0;        // entries that were in the transcript already, with the same id and content
  std::vector<std::string> again{};  // their ids
  struct Warning {
    Code code;       // unmatched_tool_call, unmatched_tool_result
    std::string id;  // of the call
  };
  std::vector<Warning> warnings{};
};

// Emits topic.created and message.appended events, and what the entries bring about: doom_loop.detected with its
// warning, compaction.due. Each message.appended carries the counters of `session` as they are after it. Sets
// builder.out.need if a fact is not in memory; the result is then meaningless. `fresh`: the session id was made by this
// decision, so it has no transcript yet.
Result<AppendResult> append_entries(DecisionBuilder& builder, const Session& session, const AppendRequest& request,
                                    const FetchedLines& fetched, bool fresh);

// Returns the answer {sessionId,topic,firstSeq,lastSeq,ids,duplicates,asOf}.
std::string appended_json(const DecisionBuilder& builder, const Session& session, const AppendRequest& request,
                          const AppendResult& appended);

}  // namespace sessiond::decide
