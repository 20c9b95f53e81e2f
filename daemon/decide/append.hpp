// Appending entries to a transcript, as one part of a decision.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/decide/decision.hpp"

namespace sessiond {

struct AppendRequest {
  std::optional<std::string> topic{};
  std::vector<NewEntry> entries{};
  std::optional<std::uint64_t> expected_seq{};  // the seq the first entry must get
  std::string event_extra{};                    // more members of each event's data, raw: "deliver":true,…
};

struct AppendResult {
  std::string file;
  // The least and the greatest seq at which an entry of the request stands, duplicates included.
  std::uint64_t first_seq = 0;
  std::uint64_t last_seq = 0;
  std::uint64_t seq = 0;  // of the last entry of the request, where it stands
  std::vector<std::string> ids;
  std::size_t duplicates = 0;
};

// Emits topic.created and message.appended events, which carry the counters of `session` as they will be. Sets
// builder.out.need when a fact is missing; the result is then meaningless. `fresh`: the session id is new, so there is
// no file yet.
Result<AppendResult> append_entries(DecisionBuilder& builder, const Session& session, const AppendRequest& append,
                                    const FetchedLines& fetched, bool fresh);

// {sessionId,topic,firstSeq,lastSeq,ids,duplicates,asOf}
std::string appended_json(const DecisionBuilder& builder, const Session& session, const AppendRequest& append,
                          const AppendResult& appended);

}  // namespace sessiond
