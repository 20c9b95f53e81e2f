#include "transcripts/placing.hpp"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "store/files.hpp"
#include "store/raw_json.hpp"
#include "transcripts/line_reader.hpp"

namespace sessiond {
namespace {

class Placer {
 public:
  Placer(int fd, std::uint64_t size, std::span<const PlacedLine> lines, bool whole, std::string_view path)
      : fd_(fd), size_(size), lines_(lines), whole_(whole), path_(path), reader_(fd, size, path) {}

  Result<Placing> run() {
    auto ended = reader_.begins_line(size_);
    if (!ended) return std::unexpected(ended.error());
    open_end_ = !*ended;
    for (const PlacedLine& line : lines_)
      if (auto placed = place(line); !placed) return std::unexpected(placed.error());
    return std::move(result_);
  }

 private:
  std::uint64_t end() const { return size_ + result_.append.size(); }
  // The file ends inside a line, and nothing was decided yet that ends it.
  bool torn() const { return open_end_ && result_.append.empty(); }

  void append(const PlacedLine& line) {
    if (torn()) result_.append += '\n';
    if (end() != line.offset) result_.displaced = true;
    result_.append += line.line;
  }

  Result<void> place(const PlacedLine& line) {
    if (line.offset == end() + (torn() ? 1 : 0)) {
      append(line);
      return {};
    }
    auto standing = stands(line);
    if (!standing) return std::unexpected(standing.error());
    if (*standing) return {};
    result_.displaced = true;
    if (line.id.empty()) {  // a header: good at the beginning only
      if (end() == 0) append(line);
      return {};
    }
    auto present = in_file(line.id);
    if (!present) return std::unexpected(present.error());
    if (*present) return {};
    auto completed = complete_torn_end(line);
    if (!completed) return std::unexpected(completed.error());
    if (!*completed) append(line);
    found_->insert(std::string(line.id));
    return {};
  }

  // True when the line stands at its place; a torn beginning of it there is completed.
  Result<bool> stands(const PlacedLine& line) {
    if (line.offset >= end()) return false;
    auto begins = begins_line(line.offset);
    if (!begins || !*begins) return begins;
    const std::size_t length = std::min<std::uint64_t>(line.line.size(), end() - line.offset);
    auto bytes = read(line.offset, length);
    if (!bytes) return std::unexpected(bytes.error());
    if (!line.line.starts_with(*bytes)) return false;
    if (length == line.line.size()) return true;
    if (!torn()) return false;
    result_.append += line.line.substr(length);
    return true;
  }

  Result<bool> begins_line(std::uint64_t offset) {
    if (offset > size_) return result_.append[offset - size_ - 1] == '\n';
    return reader_.begins_line(offset);
  }

  // Of the file and of what is to be appended to it.
  Result<std::string> read(std::uint64_t offset, std::size_t length) const {
    std::string bytes;
    if (offset < size_) {
      auto stored = read_at(fd_, offset, std::min<std::uint64_t>(length, size_ - offset), path_);
      if (!stored) return stored;
      bytes = std::move(*stored);
    }
    const std::uint64_t from = offset + bytes.size();
    if (from >= size_ && bytes.size() < length) bytes += result_.append.substr(from - size_, length - bytes.size());
    return bytes;
  }

  // Another program wrote a line where ours was to be; ours followed at the end and was torn there.
  Result<bool> complete_torn_end(const PlacedLine& line) {
    if (!torn()) return false;
    auto begin = reader_.begin_of(size_);
    if (!begin) return std::unexpected(begin.error());
    if (size_ - *begin > line.line.size()) return false;
    auto bytes = read(*begin, size_ - *begin);
    if (!bytes) return std::unexpected(bytes.error());
    if (!line.line.starts_with(*bytes)) return false;
    result_.append += line.line.substr(bytes->size());
    return true;
  }

  Result<bool> in_file(std::string_view id) {
    if (!found_)
      if (auto scanned = look_for_ids(); !scanned) return std::unexpected(scanned.error());
    return found_->contains(std::string(id));
  }

  // One pass for all lines: which of their ids are in the file, in whole and readable lines.
  Result<void> look_for_ids() {
    found_.emplace();
    std::unordered_set<std::string_view> wanted;
    std::uint64_t lowest = size_;
    for (const PlacedLine& line : lines_) {
      if (!line.id.empty()) wanted.insert(line.id);
      lowest = std::min(lowest, line.offset);
    }
    auto begin = first_line(whole_ ? 0 : lowest);
    if (!begin) return std::unexpected(begin.error());
    for (std::uint64_t at = *begin; at < size_;) {
      auto line_end = reader_.end_of(at);
      if (!line_end) return std::unexpected(line_end.error());
      if (*line_end == size_ && open_end_) break;
      auto text = reader_.text(at, *line_end);
      if (!text) return std::unexpected(text.error());
      // Safe on any text; that it is JSON matters only for a line that would keep ours out.
      if (auto id = json::string_at(*text, "id"); id && wanted.contains(*id))
        if (json::check(*text, {.max_depth = json::foreign_depth})) found_->insert(std::move(*id));
      at = *line_end;
    }
    return {};
  }

  Result<std::uint64_t> first_line(std::uint64_t offset) {
    auto begins = reader_.begins_line(offset);
    if (!begins) return std::unexpected(begins.error());
    if (*begins) return offset;
    return reader_.begin_of(offset);
  }

  int fd_;
  std::uint64_t size_;
  std::span<const PlacedLine> lines_;
  bool whole_;
  std::string_view path_;
  LineReader reader_;
  bool open_end_ = false;
  std::optional<std::unordered_set<std::string>> found_;
  Placing result_;
};

}  // namespace

Result<Placing> place_lines(int fd, std::uint64_t size, std::span<const PlacedLine> lines, bool whole,
                            std::string_view path) {
  return Placer(fd, size, lines, whole, path).run();
}

}  // namespace sessiond
