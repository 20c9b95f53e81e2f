#include "daemon/ledger/book_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/json/crc.hpp"
#include "store/line_reader.hpp"
#include "store/new_file.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t log_body_at = 9;  // in a line, behind the CRC
constexpr std::int64_t log_format = 2;  // 1 was one text for a whole book
constexpr std::size_t log_piece_bytes = std::size_t{1} << 20;
constexpr std::uint64_t dead_bytes_kept = std::uint64_t{1} << 20;
constexpr std::size_t longest_ending = 4096;
constexpr std::string_view several_keys = "\n";  // no key has this id

// The id of the key that seals now; "" when nothing is sealed.
std::string active_key() { return seal::on() ? seal::keys()->active().id() : ""; }

// A line as it was before it was sealed, as views into it or into `opened`.
struct LogLine {
  std::string_view body{};
  std::optional<std::string> key{};  // of a record
  std::string_view value{};          // empty: the record is gone
  std::uint64_t order = 0;
  std::optional<std::uint64_t> end{};  // of an ending
  std::optional<std::int64_t> format{};
  std::uint64_t open = 0;
  bool forgets = false;
  bool is_locked = false;  // its seal does not open; nothing else is known of it
};

// Nothing: the line is damaged.
std::optional<LogLine> parse_log_line(std::string_view text, const seal::Place& place, std::string& opened) {
  if (text.size() <= log_body_at || text[log_body_at - 1] != ' ') return {};
  LogLine line{.body = text.substr(log_body_at)};
  if (json::crc_text(line.body) != text.substr(0, log_body_at - 1)) return {};
  if (seal::is_sealed(line.body)) {
    line.is_locked = !seal::open(line.body, place, opened);
    if (line.is_locked) return line;
    line.body = opened;
  }
  if (!json::check(line.body, {.max_depth = json::foreign_depth}) || json::kind(line.body) != json::Kind::object)
    return {};
  const auto number = [](std::string_view value) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(json::as_int(value).value_or(0), 0));
  };
  for (const json::Member& member : json::members(line.body)) {
    if (member.name == "k") line.key = json::as_string(member.value);
    if (member.name == "v") line.value = member.value;
    if (member.name == "n") line.order = number(member.value);
    if (member.name == "end") line.end = number(member.value);
    if (member.name == "open") line.open = number(member.value);
    if (member.name == "forgets") line.forgets = member.value == "true";
    if (member.name == "format") line.format = json::as_int(member.value);
  }
  if (!line.key && !line.end && !line.format) return {};
  return line;
}

std::string body_of(const decide::BookRecord& record) {
  json::ObjectWriter body;
  body.string("k", record.key);
  if (record.order != 0) body.integer("n", static_cast<std::int64_t>(record.order));
  if (record.value) body.raw("v", *record.value);
  return body.text();
}

std::string log_header() {
  json::ObjectWriter body;
  body.integer("format", log_format);
  return body.text();
}

// An ending as a new file has it: what was taken back is not in it.
std::string ending_of_new_file(std::string_view ending) {
  json::Edit edit;
  edit.remove("forgets");
  return json::apply(ending, edit);
}

}  // namespace

// The lines of one write, in the order of the file.
struct BookLog::Lines {
  // What becomes of each key. Nothing: it is gone.
  std::map<std::string, std::optional<Range>> records{};
  std::string ending{};
  std::string key{};      // of a new file: what seals it
  std::uint64_t end = 0;  // offset behind the last line
};

seal::Place place_of_book(const fs::path& file) {
  return {"book", file.parent_path().filename().native(), file.filename().native()};
}

std::string_view BookLog::key_of_line(std::string_view line) {
  return line.size() < log_body_at ? std::string_view() : seal::key_of(line.substr(log_body_at));
}

std::string BookLog::line_of(std::string body) const {
  std::ranges::replace(body, '\n', ' ');  // they stand between tokens only
  body = seal::seal(std::move(body), place_of_book(file_));
  std::string line = json::crc_text(body);
  line.reserve(line.size() + body.size() + 2);
  return line.append(" ").append(body).append("\n");
}

void BookLog::take(const Lines& lines) {
  for (const auto& [key, range] : lines.records) {
    const auto known = live_.find(key);
    if (known != live_.end()) live_bytes_ -= known->second.length;
    if (!range) {
      if (known != live_.end()) live_.erase(known);
      continue;
    }
    live_bytes_ += range->length;
    live_.insert_or_assign(key, *range);
  }
  ending_ = lines.ending;
  size_ = lines.end;
}

Result<BookLog::Content> BookLog::read(std::uint64_t least) {
  TRY(const auto fd, store::open_file(file_, O_RDONLY | O_NONBLOCK));
  TRY(const auto status, store::status_of(fd.get(), file_.native()));
  *this = BookLog(file_);
  inode_ = status.st_ino;
  const auto damaged = [](std::uint64_t offset) {
    return fail(Code::degraded, fmt::format("the line at offset {} is damaged", offset));
  };
  const seal::Place place = place_of_book(file_);
  std::map<std::string, decide::BookRecord> records;
  std::vector<decide::BookRecord> group;
  Lines lines;
  std::optional<std::uint64_t> bad;  // where the first line stands that is not sound
  bool is_lacking = false;           // the group with that line has an ending
  std::string opened;
  // Another thread may add lines meanwhile: they are not looked at.
  store::SequentialLines reader(fd.get(), 0, static_cast<std::uint64_t>(status.st_size), file_.native());
  for (;;) {
    TRY(const auto raw, reader.next());
    if (!raw || !raw->ended) break;
    const auto line = parse_log_line(raw->text, place, opened);
    if (!line) {
      if (!bad) bad = raw->offset;
      continue;
    }
    if (is_lacking) return damaged(*bad);
    if (line->is_locked) return fail(Code::degraded, fmt::format("the line at offset {} does not open", raw->offset));
    if (line->format && *line->format != log_format)
      return fail(Code::degraded, fmt::format("it has format {}, which a later version writes", *line->format));
    const std::string_view key = key_of_line(raw->text);
    if (raw->offset == 0) sealed_by_ = key;
    if (key != sealed_by_) sealed_by_ = several_keys;
    lines.end = raw->offset + raw->text.size() + 1;
    if (line->key) {
      lines.records[*line->key] =
          line->value.empty() ? std::nullopt : std::optional(Range{raw->offset, raw->text.size() + 1});
      group.push_back({.key = *line->key, .order = line->order});
      if (!line->value.empty()) group.back().value = std::make_shared<const std::string>(line->value);
    }
    if (!line->end) continue;
    // The disk may have lost a part of the last group, and kept its ending: both were to become durable at once.
    is_lacking = bad.has_value();
    if (is_lacking) continue;
    lines.ending = line->body;
    forgets_ = forgets_ || line->forgets;
    take(lines);
    lines.records.clear();
    for (decide::BookRecord& record : group) {
      if (record.value)
        records.insert_or_assign(record.key, record);
      else
        records.erase(record.key);
    }
    group.clear();
  }
  if (size_ == 0) return damaged(bad.value_or(0));
  if (std::cmp_less(json::int_at(ending_, "end").value_or(0), least))
    return fail(Code::degraded, fmt::format("it ends before the event {}", least));
  Content content{.ending = ending_};
  content.records.reserve(records.size());
  for (auto& [key, record] : records) content.records.push_back(std::move(record));
  return content;
}

Result<std::optional<std::uint64_t>> BookLog::open_count(const fs::path& file, std::uint64_t least) {
  TRY(const auto fd, store::open_file(file, O_RDONLY | O_NONBLOCK));
  TRY(const auto status, store::status_of(fd.get(), file.native()));
  const auto size = static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
  const std::uint64_t from = size - std::min<std::uint64_t>(size, longest_ending);
  TRY(auto text, store::read_at(fd.get(), from, longest_ending, file.native()));
  if (!text.ends_with('\n')) return std::nullopt;
  text.pop_back();
  std::string opened;
  const auto line = parse_log_line(std::string_view(text).substr(text.rfind('\n') + 1), place_of_book(file), opened);
  if (!line || !line->end || *line->end < least) return std::nullopt;
  return line->forgets ? std::max<std::uint64_t>(line->open, 1) : line->open;
}

Result<void> BookLog::write(const decide::BookChanges& changes) {
  if (changes.is_whole) {
    TRY(replace(changes));
    return {};
  }
  forgets_ = forgets_ || changes.forgets;
  // A group that says nothing new is not added: a full disk would get one with each try of a compaction.
  const bool is_news = !changes.records.empty() || changes.ending != ending_of_new_file(ending_);
  if (is_lost_ || is_news || !is_rewrite_due()) TRY(append(changes));
  // The group is durable. A compaction that fails is tried again with the next one.
  if (is_rewrite_due()) static_cast<void>(compact());
  return {};
}

bool BookLog::is_rewrite_due() const {
  if (size_ == 0) return is_lost_;
  const bool is_open = seal::on() && sealed_by_ != active_key();
  return is_lost_ || forgets_ || is_open || size_ - live_bytes_ > live_bytes_ + dead_bytes_kept;
}

Problem BookLog::lost(std::string_view why) {
  is_lost_ = true;
  return {.code = Code::internal, .detail = fmt::format("{} {}: it is written anew", file_.native(), why)};
}

Result<void> BookLog::append(const decide::BookChanges& changes) {
  if (is_lost_ || size_ == 0) return std::unexpected(lost("is not as it was left"));
  const auto opened = store::open_file(file_, O_WRONLY | O_NONBLOCK);
  if (!opened && opened.error().code == Code::not_found) return std::unexpected(lost("is gone"));
  if (!opened) return std::unexpected(opened.error());
  const int fd = opened->get();
  TRY(const auto status, store::status_of(fd, file_.native()));
  if (status.st_ino != inode_) return std::unexpected(lost("is another file"));
  if (std::cmp_less(status.st_size, size_)) return std::unexpected(lost("was cut short"));
  // Durable before anything is added, so that nothing of an old group comes back between the lines of a new one.
  if (std::cmp_greater(status.st_size, size_)) {
    if (::ftruncate(fd, static_cast<off_t>(size_)) != 0) return io_fail("truncate", file_.native());
    TRY(sync(fd));
  }
  Lines lines{.ending = changes.ending, .end = size_};
  std::string piece;
  const auto flush = [&]() -> Result<void> {
    TRY(store::write_all_at(fd, piece, lines.end - piece.size(), file_.native()));
    piece.clear();
    return {};
  };
  for (const decide::BookRecord& record : changes.records) {
    if (!record.value && !live_.contains(record.key) && !lines.records.contains(record.key)) continue;
    TRY(seal::reserve());
    const std::string line = line_of(body_of(record));
    lines.records[record.key] = record.value ? std::optional(Range{lines.end, line.size()}) : std::nullopt;
    lines.end += line.size();
    piece += line;
    if (piece.size() >= log_piece_bytes) TRY(flush());
  }
  TRY(flush());
  store::fault_point("book.appended");
  TRY(seal::reserve());
  piece = line_of(changes.ending);
  lines.end += piece.size();
  TRY(flush());
  store::fault_point("book.ended");
  if (auto synced = sync(fd); !synced) {
    static_cast<void>(::ftruncate(fd, static_cast<off_t>(size_)));  // what a start would believe, though no disk has it
    return synced;
  }
  if (sealed_by_ != active_key()) sealed_by_ = several_keys;
  take(lines);
  return {};
}

Result<void> BookLog::sync(int fd) {
  if (::fdatasync(fd) == 0) return {};
  is_lost_ = true;  // the kernel may have dropped the pages, and another fdatasync would not tell
  return io_fail("fdatasync", file_.native());
}

Result<void> BookLog::make_durable() {
  TRY(const auto fd, store::open_file(file_, O_RDONLY | O_NONBLOCK));
  TRY(sync(fd.get()));
  return store::sync_dir(file_.parent_path());
}

Result<void> BookLog::replace(const decide::BookChanges& changes) {
  TRY(store::make_dirs(file_.parent_path()));
  TRY(auto file, store::NewFile::begin(file_));
  Lines lines{.ending = ending_of_new_file(changes.ending), .key = active_key()};
  const auto write_line = [&](std::string body) -> Result<Range> {
    TRY(seal::reserve());
    const std::string line = line_of(std::move(body));
    TRY(file.write(line));
    const Range range{lines.end, line.size()};
    lines.end += line.size();
    return range;
  };
  TRY(write_line(log_header()));
  std::unordered_map<std::string_view, const decide::BookRecord*> last;  // what changed between two slices comes twice
  for (const decide::BookRecord& record : changes.records) last[record.key] = &record;
  for (const decide::BookRecord& record : changes.records) {
    if (!record.value || last[record.key] != &record) continue;
    TRY(lines.records[record.key], write_line(body_of(record)));
  }
  TRY(write_line(lines.ending));
  return put_in_place(file, lines);
}

Result<void> BookLog::put_in_place(store::NewFile& file, const Lines& lines) {
  store::fault_point("book.compacted");
  if (auto placed = file.place(store::NewFile::IfThere::is_replaced); !placed) {
    is_lost_ = file.is_placed();  // maybe not durably
    return placed;
  }
  store::fault_point("book.renamed");
  *this = BookLog(file_);
  const auto status = store::stat_of(file_);
  inode_ = status ? status->st_ino : 0;
  sealed_by_ = lines.key;
  take(lines);
  return {};
}

// A line as it is to stand in the new file: sealed with the active key.
Result<std::string> BookLog::line_at(int fd, Range range) {
  TRY(auto line, store::read_at(fd, range.offset, static_cast<std::size_t>(range.length), file_.native()));
  if (line.size() != range.length) return std::unexpected(lost("was cut short"));
  const auto body = std::string_view(line).substr(log_body_at, line.size() - log_body_at - 1);
  if (!line.ends_with('\n') || json::crc_text(body) != std::string_view(line).substr(0, log_body_at - 1))
    return std::unexpected(lost(fmt::format("is damaged at offset {}", range.offset)));
  if (!seal::on() || key_of_line(line) == active_key()) return line;
  std::string opened(body);
  if (seal::is_sealed(body) && !seal::open(body, place_of_book(file_), opened))
    return std::unexpected(lost(fmt::format("does not open at offset {}", range.offset)));
  TRY(seal::reserve());
  return line_of(std::move(opened));
}

Result<void> BookLog::compact() {
  if (is_lost_) return std::unexpected(lost("is not as it was left"));
  TRY(const auto fd, store::open_file(file_, O_RDONLY | O_NONBLOCK));
  TRY(const auto status, store::status_of(fd.get(), file_.native()));
  if (status.st_ino != inode_) return std::unexpected(lost("is another file"));
  std::vector<std::pair<Range, std::string_view>> ranges;
  ranges.reserve(live_.size());
  for (const auto& [key, range] : live_) ranges.emplace_back(range, key);
  std::ranges::sort(ranges, {}, [](const auto& each) { return each.first.offset; });
  TRY(auto file, store::NewFile::begin(file_));
  Lines lines{.ending = ending_of_new_file(ending_), .key = active_key()};
  const auto write_line = [&](const std::string& line) -> Result<void> {
    TRY(file.write(line));
    lines.end += line.size();
    return {};
  };
  TRY(seal::reserve());
  TRY(write_line(line_of(log_header())));
  for (const auto& [range, key] : ranges) {
    TRY(const auto line, line_at(fd.get(), range));
    lines.records.emplace(key, Range{lines.end, line.size()});
    TRY(write_line(line));
  }
  TRY(write_line(line_of(lines.ending)));
  return put_in_place(file, lines);
}

}  // namespace sessiond::ledger
