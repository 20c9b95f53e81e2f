// Gives files the names that durable events say: transcripts become archives, archives and staged files become
// transcripts, archives are destroyed. Repeating an event changes nothing. Blocks; the thread of Projection, which it
// is a part of.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/ledger/archive_log.hpp"
#include "daemon/ledger/file_renames.hpp"
#include "daemon/ledger/paths.hpp"
#include "daemon/ledger/placed_file.hpp"
#include "store/journal/event.hpp"
#include "store/journal/line_position.hpp"
#include "store/problem.hpp"
#include "transcripts/known_ends.hpp"
#include "transcripts/transcript_writer.hpp"

namespace sessiond::ledger {

class Renames {
 public:
  // `ends`: how far the transcripts of an agent are known. `on_repair` is told of files that keep their names.
  using EndsOf = std::function<Result<transcripts::KnownEnds*>(const std::string& agent)>;
  Renames(const Paths& paths, ArchiveLog& archives, transcripts::TranscriptWriter& writer, EndsOf ends,
          std::function<void(std::string)> on_repair)
      : paths_(paths), archives_(archives), writer_(writer), ends_(std::move(ends)), on_repair_(std::move(on_repair)) {}

  // Does the renames of an event (renames_files()). `locked`: under the locks of the files; lock_timeout when a foreign
  // program holds one. A start does without.
  Result<void> apply(std::string_view event, std::span<const journal::LinePosition> positions, bool locked);
  // Gives a staged file the name of its transcript, `path` below the state directory, unless that was done before.
  Result<void> place(const journal::LinePosition& position, const std::string& path, bool locked);

  // From here on staged files that become transcripts are noted; take_placed() gives them, and ends that.
  void note_placed() { placed_.emplace(); }
  std::vector<PlacedFile> take_placed() { return std::exchange(placed_, {}).value_or(std::vector<PlacedFile>()); }

 private:
  Result<void> restore_files(const journal::Event& event, std::span<const journal::LinePosition> positions,
                             bool locked);
  Result<void> remove_beside(const journal::Event& event, bool is_last);
  Result<void> remove_file_beside(const std::string& agent, const std::string& name);
  Result<void> destroy_archives(const journal::Event& event, std::span<const journal::LinePosition> positions);
  Result<bool> archive_some(const std::string& agent, std::span<const std::pair<std::string, std::string>> files,
                            bool locked, bool done);

  const Paths& paths_;
  ArchiveLog& archives_;
  transcripts::TranscriptWriter& writer_;
  EndsOf ends_;
  std::function<void(std::string)> on_repair_;
  std::optional<std::vector<PlacedFile>> placed_{};
};

}  // namespace sessiond::ledger
