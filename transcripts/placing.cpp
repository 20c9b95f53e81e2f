#include "transcripts/placing.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"
#include "transcripts/line_index.hpp"
#include "transcripts/line_reader.hpp"
#include "transcripts/sealed_lines.hpp"

namespace sessiond::transcripts {
namespace {

// Tells the seqs of the lines of a file, which a sealed line is bound to. It counts when it is asked.
class LineNumbers {
 public:
  LineNumbers(int fd, std::uint64_t size, std::string_view path, LineReader& reader)
      : fd_(fd), size_(size), path_(path), reader_(reader) {}

  Result<bool> has_header() {
    if (size_ == 0) return false;
    if (!has_header_) {
      TRY(const auto end, reader_.end_of(0));
      TRY(const auto line, reader_.line(0, end, header_seq));
      has_header_ = end <= longest_header && is_header(line);
    }
    return *has_header_;
  }

  // How many lines the file has that end.
  Result<std::uint64_t> lines() {
    if (!lines_) {
      TRY(lines_, newlines_before(size_));
    }
    return *lines_;
  }

  // The seq of the entry that begins at the offset; header_seq if it is the header.
  Result<std::uint64_t> seq_at(std::uint64_t offset) {
    TRY(const bool header, has_header());
    if (offset == 0) return header ? header_seq : 0;
    TRY(const std::uint64_t before, newlines_before(offset));
    return before - (header ? 1 : 0);
  }

  // The line that begins at the offset, opened if it is sealed.
  Result<std::string_view> line_at(std::uint64_t begin, std::uint64_t end) {
    TRY(const auto text, reader_.text(begin, end));
    if (!seal::is_sealed(text)) return text;
    TRY(const auto seq, seq_at(begin));
    return reader_.line(begin, end, seq);
  }

 private:
  Result<std::uint64_t> newlines_before(std::uint64_t offset) const {
    constexpr std::uint64_t piece = 1 << 20;
    std::uint64_t count = 0;
    for (std::uint64_t at = 0; at < offset; at += piece) {
      TRY(const auto bytes, store::read_at(fd_, at, std::min(piece, offset - at), path_));
      count += static_cast<std::uint64_t>(std::ranges::count(bytes, '\n'));
    }
    return count;
  }

  int fd_;
  std::uint64_t size_;
  std::string_view path_;
  LineReader& reader_;
  std::optional<bool> has_header_{};
  std::optional<std::uint64_t> lines_{};
};

class Placer {
 public:
  Placer(int fd, std::uint64_t size, std::span<const PlacedLine> lines, bool whole, std::string_view path)
      : fd_(fd),
        size_(size),
        lines_(lines),
        whole_(whole),
        path_(path),
        scope_(seal_scope(path)),
        reader_(fd, size, path),
        numbers_(fd, size, path, reader_) {}

  Result<Placing> run() {
    TRY(seal::reserve());
    TRY(const auto ended, reader_.begins_line(size_));
    open_end_ = !ended;
    for (const PlacedLine& line : lines_) TRY(place(line));
    return std::move(result_);
  }

 private:
  std::uint64_t end() const { return size_ + result_.append.size(); }
  // Tells whether the file ends inside a line and nothing is to be appended yet.
  bool torn() const { return open_end_ && result_.append.empty(); }

  Result<void> append(const PlacedLine& line) {
    if (torn()) result_.append += '\n';
    const bool elsewhere = end() != line.offset;
    const bool sealed = seal::is_sealed(line.line);
    const std::string plain = elsewhere ? plain_of(line) : std::string();
    std::optional<std::string> other_parent;
    if (elsewhere && !line.id.empty()) {
      TRY(other_parent, parent_now(line, plain));
    }
    result_.displaced = result_.displaced || elsewhere;
    const std::uint64_t begin = end();
    if (line.seq) {
      result_.first_seq = std::min(result_.first_seq.value_or(*line.seq), *line.seq);
      if (begin > line.offset)
        result_.renumbered_from = std::min(result_.renumbered_from.value_or(*line.seq), *line.seq);
    }
    if (elsewhere && (other_parent || sealed)) {
      std::string object = plain.substr(0, plain.size() - 1);
      if (other_parent) object = json::apply(object, {.set = {{"parentId", std::move(*other_parent)}}, .unset = {}});
      // Another text or seq: another nonce.
      TRY(const std::uint64_t seq, seq_at_end(line));
      append_line(result_.append, object + "\n", sealed ? seal::draw() : seal::Draw{}, scope_, seq);
    } else {
      result_.append += line.line;
    }
    has_appended_header_ = has_appended_header_ || line.id.empty();
    result_.lines.push_back({begin, end()});
    if (!line.id.empty()) last_ = json::quote(line.id);
    return {};
  }

  // A line of ours as it was before it was sealed, with its '\n'.
  std::string plain_of(const PlacedLine& line) const {
    if (!seal::is_sealed(line.line)) return std::string(line.line);
    std::string plain;
    const seal::Place place(scope_, line.id.empty() ? header_seq : line.seq.value_or(0));
    if (!seal::open(line.line.substr(0, line.line.size() - 1), place, plain)) plain = closed_line;
    return plain + "\n";
  }

  // The seq that the entry has that comes next behind all that is there and to be appended.
  Result<std::uint64_t> seq_at_end(const PlacedLine& line) {
    if (line.id.empty()) return header_seq;
    TRY(const std::uint64_t lines, numbers_.lines());
    TRY(const bool header, numbers_.has_header());
    const auto appended = static_cast<std::uint64_t>(std::ranges::count(result_.append, '\n'));
    return lines + appended - (header || has_appended_header_ ? 1 : 0);
  }

  // Returns a new parentId (raw JSON) if foreign entries came between a line and the entry that it was to follow: a
  // reader that follows parentId back from the last entry must meet them. Any other parent stays.
  Result<std::optional<std::string>> parent_now(const PlacedLine& line, std::string_view plain) {
    const std::string parent(json::find(plain, "parentId").value_or("null"));
    TRY(auto last, last_entry());
    if (last.empty() || last == parent || line.offset > size_) return std::nullopt;
    // The last entry is one of ours that follows this line: as its parent it would make a ring.
    const auto is_last = [&last](const PlacedLine& other) { return json::quote(other.id) == last; };
    if (std::ranges::any_of(lines_, is_last)) return std::nullopt;
    TRY(auto begins, reader_.begins_line(line.offset));
    if (!begins) return std::nullopt;
    TRY(auto before, entry_before(line.offset));
    return before == parent ? std::optional(last) : std::nullopt;
  }

  // Returns the quoted id of the entry that ends at the offset; "null" if there is no entry; "" if it has no id.
  Result<std::string> entry_before(std::uint64_t offset) {
    if (offset == 0) return "null";
    TRY(auto begin, reader_.begin_of(offset));
    TRY(auto text, numbers_.line_at(begin, offset));
    if (!json::check(text, {.max_depth = json::foreign_depth})) return "";
    if (json::string_at(text, "type") == "session") return "null";
    const auto id = json::string_at(text, "id");
    return id ? json::quote(*id) : "";
  }

  Result<std::string> last_entry() {
    if (last_) return *last_;
    std::uint64_t end = size_;
    if (open_end_) {
      TRY(end, reader_.begin_of(size_));
    }
    auto last = entry_before(end);
    if (last) last_ = *last;
    return last;
  }

  void stands_at(std::uint64_t begin, const PlacedLine& line) {
    result_.lines.push_back({begin, begin + line.line.size()});
  }

  Result<void> place(const PlacedLine& line) {
    if (line.offset == end() + (torn() ? 1 : 0)) return append(line);
    TRY(auto standing, stands(line));
    if (standing) {
      stands_at(line.offset, line);
      return {};
    }
    result_.displaced = true;
    if (line.id.empty()) {  // a header belongs at the beginning only
      return end() == 0 ? append(line) : Result<void>{};
    }
    TRY(auto present, in_file(line.id));
    if (present) {
      result_.lines.push_back(*present);
      return {};
    }
    TRY(auto completed, complete_torn_end(line));
    if (!completed) {
      TRY(append(line));
      if (others_.contains(line.id)) result_.doubled.emplace_back(line.id);
    }
    found_->emplace(line.id, result_.lines.back());
    return {};
  }

  // Tells whether the line is at its offset. Completes it if it is torn.
  Result<bool> stands(const PlacedLine& line) {
    if (line.offset >= end()) return false;
    auto begins = begins_line(line.offset);
    if (!begins || !*begins) return begins;
    const std::size_t length = std::min<std::uint64_t>(line.line.size(), end() - line.offset);
    TRY(auto bytes, read(line.offset, length));
    if (!ours_or_hole(bytes, line.line)) return false;
    if (length < line.line.size() && !torn()) return false;
    if (!line.line.starts_with(bytes)) {
      result_.holes.push_back({.offset = line.offset, .line = line.line.substr(0, length), .id = {}});
      if (line.offset + length == size_) open_end_ = length < line.line.size();
    }
    filled_ = line.offset + length;
    if (length < line.line.size()) result_.append += line.line.substr(length);
    return true;
  }

  Result<bool> begins_line(std::uint64_t offset) {
    if (offset == filled_) return true;  // a line before this one will end here
    if (offset > size_) return result_.append[offset - size_ - 1] == '\n';
    return reader_.begins_line(offset);
  }

  // Reads from the file and from what is to be appended to it.
  Result<std::string> read(std::uint64_t offset, std::size_t length) const {
    std::string bytes;
    if (offset < size_) {
      TRY(bytes, store::read_at(fd_, offset, std::min<std::uint64_t>(length, size_ - offset), path_));
    }
    const std::uint64_t from = offset + bytes.size();
    if (from >= size_ && bytes.size() < length) bytes += result_.append.substr(from - size_, length - bytes.size());
    return bytes;
  }

  // Completes a line of ours that was written behind a foreign line and torn there.
  Result<bool> complete_torn_end(const PlacedLine& line) {
    if (!torn()) return false;
    TRY(auto begin, reader_.begin_of(size_));
    if (size_ - begin > line.line.size()) return false;
    TRY(auto bytes, read(begin, size_ - begin));
    if (!line.line.starts_with(bytes)) return false;
    stands_at(begin, line);
    result_.append += line.line.substr(bytes.size());
    return true;
  }

  Result<std::optional<ByteRange>> in_file(std::string_view id) {
    if (!found_) TRY(look_for_ids());
    const auto found = found_->find(std::string(id));
    return found == found_->end() ? std::nullopt : std::optional(found->second);
  }

  // Tells whether a line of the file has the content of ours. Its parentId may have been changed when it was written.
  static bool says_the_same(std::string_view standing, std::string_view line) {
    const json::Edit no_parent{.set = {}, .unset = {"parentId"}};
    return json::same(json::apply(trimmed(standing), no_parent), json::apply(trimmed(line), no_parent));
  }
  static std::string_view trimmed(std::string_view line) {
    while (!line.empty() && json::is_space(line.back())) line.remove_suffix(1);
    while (!line.empty() && json::is_space(line.front())) line.remove_prefix(1);
    return line;
  }

  // Finds in one pass which of the lines are in the file, whole and readable, and which of their ids foreign lines
  // have.
  Result<void> look_for_ids() {
    found_.emplace();
    std::unordered_map<std::string_view, const PlacedLine*> wanted;
    std::uint64_t lowest = size_;
    for (const PlacedLine& line : lines_) {
      if (!line.id.empty()) wanted.emplace(line.id, &line);
      lowest = std::min(lowest, line.offset);
    }
    TRY(auto begin, first_line(whole_ ? 0 : lowest));
    const bool sealed = std::ranges::any_of(lines_, [](const PlacedLine& line) { return seal::is_sealed(line.line); });
    std::uint64_t seq = 0;
    if (sealed) {
      TRY(seq, numbers_.seq_at(begin));
    }
    for (std::uint64_t at = begin; at < size_;) {
      TRY(auto line_end, reader_.end_of(at));
      if (line_end == size_ && open_end_) break;
      TRY(auto text, sealed ? reader_.line(at, line_end, seq) : reader_.text(at, line_end));
      ++seq;  // behind the header it is 0
      // string_at is safe on any text. Only a line that would replace ours has to be JSON.
      const auto id = at == 0 && is_header(text) ? std::nullopt : json::string_at(text, "id");
      const auto ours = id ? wanted.find(*id) : wanted.end();
      if (ours != wanted.end() && json::check(text, {.max_depth = json::foreign_depth})) {
        if (says_the_same(text, plain_of(*ours->second))) {
          found_->emplace(*id, ByteRange{at, line_end});
        } else {
          others_.emplace(ours->first);
        }
      }
      at = line_end;
    }
    return {};
  }

  Result<std::uint64_t> first_line(std::uint64_t offset) {
    TRY(auto begins, reader_.begins_line(offset));
    if (begins) return offset;
    return reader_.begin_of(offset);
  }

  int fd_;
  std::uint64_t size_;
  std::span<const PlacedLine> lines_;
  bool whole_;
  std::string_view path_;
  std::string scope_;
  LineReader reader_;
  LineNumbers numbers_;
  bool has_appended_header_ = false;
  bool open_end_ = false;
  std::uint64_t filled_ = 0;
  std::optional<std::unordered_map<std::string, ByteRange>> found_;
  std::unordered_set<std::string_view> others_;  // ids of our lines that a foreign line has
  std::optional<std::string> last_;              // the last entry's id, as entry_before returns it
  Placing result_;
};

}  // namespace

bool ours_or_hole(std::string_view standing, std::string_view line) {
  return standing.size() <= line.size() &&
         std::ranges::equal(standing, line.substr(0, standing.size()),
                            [](char there, char ours) { return there == ours || there == '\0'; });
}

Result<Placing> place_lines(int fd, std::uint64_t size, std::span<const PlacedLine> lines, bool whole,
                            std::string_view path) {
  return Placer(fd, size, lines, whole, path).run();
}

}  // namespace sessiond::transcripts
