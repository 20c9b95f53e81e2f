#include "transcripts/plain_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "store/try.hpp"
#include "transcripts/line_index.hpp"
#include "transcripts/sealed_lines.hpp"

namespace sessiond::transcripts {

Result<std::unique_ptr<PlainFile>> PlainFile::open(const std::filesystem::path& path, ino_t inode, std::uint64_t end) {
  constexpr std::string_view replaced = "the transcript was replaced; try again";
  auto opened = store::open_within(path, O_RDONLY | O_NONBLOCK);
  if (!opened && opened.error().code == Code::not_found) return fail(Code::session_reset, std::string(replaced));
  TRY(auto fd, std::move(opened));
  TRY(const auto status, store::status_of(fd.get(), path.native()));
  if (status.st_ino != inode || static_cast<std::uint64_t>(status.st_size) < end)
    return fail(Code::session_reset, std::string(replaced));
  std::unique_ptr<PlainFile> file(new PlainFile(std::move(fd), end, path.native()));
  for (std::uint64_t at = 0; at < end;) {
    TRY(const auto line_end, file->reader_.end_of(at));
    TRY(const auto plain, file->plain_size(at, line_end));
    if (at == 0 && line_end <= longest_header) {
      TRY(const auto line, file->reader_.line(0, line_end, header_seq));
      if (is_header(line)) file->header_ = plain;
    }
    file->size_ += plain;
    at = line_end;
  }
  return file;
}

// The length of a stored line without its seal.
Result<std::uint64_t> PlainFile::plain_size(std::uint64_t begin, std::uint64_t end) {
  TRY(const auto text, reader_.text(begin, end));
  const auto plain = seal::is_sealed(text) ? seal::plain_size(text) : std::nullopt;
  return plain ? *plain + (end - begin - text.size()) : end - begin;
}

Result<std::string> PlainFile::opened(const Position& line, std::uint64_t end) {
  TRY(const auto text, reader_.text(line.stored, end));
  const auto plain = seal::is_sealed(text) ? seal::plain_size(text) : std::nullopt;
  if (!plain) return store::read_at(fd_.get(), line.stored, end - line.stored, "");
  const std::size_t behind = end - line.stored - text.size();  // "\n"
  const std::uint64_t seq = header_ == 0 ? line.lines : line.lines == 0 ? header_seq : line.lines - 1;
  TRY(const auto known, reader_.line(line.stored, end, seq));
  std::string out = known == closed_line ? std::string(*plain, '?') : std::string(known);
  out.append(behind, '\n');
  return out;
}

Result<std::string> PlainFile::read(std::uint64_t offset, std::size_t most) {
  if (offset < next_.plain) next_ = {};
  std::string out;
  while (out.size() < most && next_.stored < end_) {
    TRY(const auto end, reader_.end_of(next_.stored));
    TRY(const auto plain, plain_size(next_.stored, end));
    if (next_.plain + plain > offset) {
      TRY(const auto line, opened(next_, end));
      const std::size_t skipped = offset > next_.plain ? offset - next_.plain : 0;
      const std::size_t taken = std::min(line.size() - skipped, most - out.size());
      out.append(line, skipped, taken);
      if (skipped + taken < line.size()) return out;  // the next call begins within this line
    }
    next_ = {.stored = end, .plain = next_.plain + plain, .lines = next_.lines + 1};
  }
  return out;
}

}  // namespace sessiond::transcripts
