#include "daemon/doctor/inspect_transcript.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>

#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"
#include "transcripts/entry_shape.hpp"
#include "transcripts/line_index.hpp"
#include "transcripts/line_reader.hpp"
#include "transcripts/sealed_lines.hpp"

namespace sessiond::doctor {
namespace {

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

struct LinePlace {
  std::uint64_t number = 0;  // from 1
  std::uint64_t offset = 0;
  std::uint64_t end = 0;
};

void count_line(TranscriptState& state, std::string_view line, const LinePlace& place) {
  if (place.number == 1 && line.size() <= transcripts::longest_header && transcripts::is_header(line)) {
    state.has_header = true;
    state.version = json::int_at(line, "version").value_or(1);
    state.header_id = json::string_at(line, "id").value_or("");
    return;
  }
  ++state.entries;
  const transcripts::EntryFields fields = transcripts::read_fields(line);
  if (is_blank(line)) {
    ++state.blank;
  } else if (fields.shape == transcripts::EntryShape::unreadable) {
    if (place.end == state.size && !state.ends_in_newline) {
      state.torn_bytes = place.end - place.offset;
      return;
    }
    if (state.unreadable++ == 0) {
      state.first_unreadable = place.number;
      state.first_offset = place.offset;
    }
  } else if (fields.shape == transcripts::EntryShape::flat || (fields.id.empty() && fields.has_type)) {
    ++state.old;
  }
}

}  // namespace

Result<TranscriptState> inspect_transcript(const std::filesystem::path& path, const std::atomic<bool>* cancel,
                                           const OnLine& on_line) {
  TRY(const auto fd, store::open_file(path, O_RDONLY | O_NONBLOCK));
  TRY(const auto status, store::status_of(fd.get(), path.native()));
  if (!S_ISREG(status.st_mode)) return fail(Code::internal, fmt::format("{} is not a regular file", path.native()));
  TranscriptState state{.size = static_cast<std::uint64_t>(status.st_size)};
  transcripts::LineReader reader(fd.get(), state.size, path.native());
  if (state.size > 0) {
    TRY(const auto last, store::read_at(fd.get(), state.size - 1, 1, path.native()));
    state.ends_in_newline = last == "\n";
  }
  LinePlace place;
  while (place.offset < state.size) {
    if (cancel != nullptr && cancel->load()) return fail(Code::draining, "broken off");
    TRY(const auto end, reader.end_of(place.offset));
    TRY(const auto stored, reader.text(place.offset, end));
    const bool to_seal = seal::on() && seal::key_of(stored) != seal::keys()->active().id();
    TRY(auto line, reader.line(place.offset, end, place.number == 0 ? transcripts::header_seq : state.entries));
    if (place.number == 0 && !transcripts::is_header(line)) {
      TRY(line, reader.line(place.offset, end, 0));
    }
    ++place.number;
    place.end = end;
    state.to_seal = state.to_seal || to_seal;
    count_line(state, line, place);
    if (on_line) on_line(line);
    place.offset = end;
  }
  return state;
}

}  // namespace sessiond::doctor
