#include "daemon/ledger/lost_copies.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/conversation.hpp"
#include "transcripts/copy.hpp"
#include "transcripts/staged.hpp"

namespace sessiond::ledger {
namespace {

// What is copied, as far as the origin still tells.
struct Source {
  std::string file{}, name{};
  std::unique_ptr<transcripts::Transcript> transcript{};
  std::vector<transcripts::SeqSpan> path{};

  std::uint64_t entries() const {
    std::uint64_t count = 0;
    for (const transcripts::SeqSpan& span : path) count += span.last - span.first + 1;
    return count;
  }
};

// A fork at a message of a topic has all of the session's own transcript, which does not have the message.
Result<Source> source_of(const Paths& paths, transcripts::TranscriptWriter& writer, const journal::Event& event,
                         const journal::LinePosition& position, bool is_only) {
  const auto from = json::find(json::find(event.data, "entry").value_or("{}"), "forkedFrom").value_or("{}");
  const std::string origin = json::string_at(from, "sessionId").value_or("");
  TRY(store::check_session_id(origin));
  const auto topic = store::topic_of_file(event.envelope.session_id, position.file);
  Source source{.file = store::transcript_file(origin, topic.value_or("")),
                .name = transcripts::transcript_name(origin, topic)};
  const std::string below = paths.transcript(position.agent, source.file);
  TRY(writer.flush(below));
  TRY(source.transcript, transcripts::Transcript::open(paths.root() / below, {}));
  auto path = transcripts::read_path(*source.transcript, {.to = json::string_at(from, "messageId").value_or("")});
  if (!path && path.error().code == Code::message_not_found && !is_only)
    path = transcripts::read_path(*source.transcript);
  if (!path) return std::unexpected(std::move(path.error()));
  source.path = std::move(*path);
  return source;
}

Result<std::string> stage(const Paths& paths, transcripts::TranscriptWriter& writer, const journal::Event& event,
                          const journal::LinePosition& position, std::span<const journal::LinePosition> positions) {
  std::vector<const journal::LinePosition*> staged;
  for (const journal::LinePosition& one : positions)
    if (one.seq == position.seq && !one.staged.empty()) staged.push_back(&one);
  Source source;
  std::uint64_t entries = 0;
  for (const journal::LinePosition* one : staged) {
    TRY(auto of, source_of(paths, writer, event, *one, staged.size() == 1));
    entries += of.entries();
    if (one == &position) source = std::move(of);
  }
  // The entry counts what was copied, and the runs that were ended in the copy. Words that waited for a run were left
  // out: a path that has them now would give later lines other seqs.
  const auto counted = json::int_at(json::find(event.data, "entry").value_or("{}"), "entryCount").value_or(0);
  if (source.path.empty() || entries > static_cast<std::uint64_t>(counted)) return std::string();
  TRY(const std::string header, source.transcript->header());
  TRY(auto copy,
      transcripts::StagedTranscript::create(paths.root() / paths.sessions_dir(position.agent), position.file));
  TRY(const auto made, transcripts::copy_path(*source.transcript, source.path,
                                              {.file = source.file,
                                               .name = source.name,
                                               .session_id = event.envelope.session_id,
                                               .cwd = json::string_at(header, "cwd").value_or("")},
                                              copy));
  if (staged.size() == 1 && made.sums.counts.entries != counted) return std::string();
  TRY(copy.finish());
  copy.keep();
  return copy.name();
}

}  // namespace

std::string stage_lost_copy(const Paths& paths, transcripts::TranscriptWriter& writer, const journal::Event& event,
                            const journal::LinePosition& position, std::span<const journal::LinePosition> positions) {
  const auto from = json::find(json::find(event.data, "entry").value_or("{}"), "forkedFrom");
  const bool is_fork =
      event.envelope.type == journal::EventType::session_created && json::string_at(event.data, "reason") == "fork";
  if (!is_fork || !from) return {};
  return stage(paths, writer, event, position, positions).value_or("");
}

}  // namespace sessiond::ledger
