#include "transcripts/migrate.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/try.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/entry_shape.hpp"
#include "transcripts/line_index.hpp"
#include "transcripts/line_reader.hpp"
#include "transcripts/members.hpp"
#include "transcripts/sealed_lines.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond::transcripts {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t current_version = 3;

std::optional<std::int64_t> ms_of(std::string_view timestamp) {
  if (const auto text = json::as_string(timestamp)) return parse_iso_time(*text);
  return json::as_int(timestamp);
}

// Returns {"type":…,"id":…,"parentId":…, with which every entry of version 3 begins.
std::string head_of(std::string_view type, std::string_view id, std::string_view parent) {
  return fmt::format(R"({{"type":{},"id":{},"parentId":{})", type, id, parent);
}

// Moves the message of a flat line into an object. Members that belong to both the entry and the message stay outside.
std::string nest(std::string_view line, const EntryFields& fields, std::string head) {
  const bool role_from_type = !fields.type.empty();
  std::string message = role_from_type ? fmt::format(",\"role\":{}", fields.role) : "";
  std::string beside;
  for (const json::Member& member : json::members(line)) {
    if (named(member, "type") || named(member, "id") || named(member, "parentId")) continue;
    if (named(member, "timestamp") && is_string(member.value)) {
      append_member(beside, member);
    } else {
      append_member(role_from_type && named(member, "role") ? beside : message, member);
    }
  }
  if (!is_string(fields.timestamp)) {
    const auto ms = ms_of(fields.timestamp);
    if (ms && parse_iso_time(iso_time(*ms)) == ms) head += fmt::format(",\"timestamp\":\"{}\"", iso_time(*ms));
  }
  return fmt::format("{},\"message\":{{{}}}{}}}", head, message.substr(1), beside);
}

std::string rename_role(std::string_view message) {
  json::Edit edit;
  edit.put_string("role", "custom");
  return json::apply(message, edit);
}

class FileMigration {
 public:
  FileMigration(const fs::path& path, std::string_view session_id)
      : path_(path),
        temp_(path.native() + fmt::format(".{}.{}.migrate.tmp", ::getpid(), store::random_hex(12))),
        id_(session_id) {}
  FileMigration(const FileMigration&) = delete;
  FileMigration& operator=(const FileMigration&) = delete;
  ~FileMigration() {
    if (out_) ::unlink(temp_.c_str());
  }

  Result<Migration> run(const std::function<Result<void>()>& keep) {
    TRY(read_lines());
    if (!out_) return result_;
    TRY(copy_until(size_));
    TRY(store::sync_file(out_.get(), temp_));
    const auto now = store::stat_of(path_);
    if (!now) return io_fail("stat", path_.native());
    if (store::identity(*now) != seen_)
      return fail(Code::session_busy, fmt::format("{} was changed by a foreign program meanwhile", path_.native()));
    TRY(keep());
    store::fault_point("migrate.kept");
    if (::rename(temp_.c_str(), path_.c_str()) != 0) return io_fail("replace", path_.native());
    out_ = {};
    store::fault_point("migrate.renamed");
    TRY(store::sync_dir(path_.parent_path()));
    return result_;
  }

 private:
  Result<void> read_lines() {
    TRY(in_, store::open_file(path_, O_RDONLY | O_NONBLOCK));
    TRY(const auto status, store::status_of(in_.get(), path_.native()));
    if (!S_ISREG(status.st_mode)) return fail(Code::degraded, fmt::format("{} is not a regular file", path_.native()));
    size_ = static_cast<std::uint64_t>(status.st_size);
    seen_ = store::identity(status);
    LineReader reader(in_.get(), size_, path_.native());
    for (std::uint64_t begin = 0; begin < size_;) {
      TRY(const auto end, reader.end_of(begin));
      TRY(const auto stored, reader.text(begin, end));
      to_seal_ = seal::on() && seal::key_of(stored) != seal::keys()->active().id();
      TRY(auto line, reader.line(begin, end, begin == 0 ? header_seq : result_.entries));
      if (begin == 0 && !is_header(line)) {
        TRY(line, reader.line(begin, end, 0));
      }
      TRY(take(line, begin, end));
      if (result_.version > current_version) return {};  // written by a newer program
      begin = end;
    }
    return {};
  }

  Result<void> take(std::string_view line, std::uint64_t begin, std::uint64_t end) {
    if (begin == 0 && end <= longest_header && is_header(line)) return take_header(line, end);
    const std::uint64_t seq = result_.entries++;
    const EntryFields fields = read_fields(line);
    if (fields.shape == EntryShape::unreadable) {
      all_readable_ = false;
      return {};
    }
    if (result_.version == 0 && !result_.header_changed) {
      TRY(make_header(fields));
    }
    std::string fresh = migrate_line(line, seq, parent_, result_.version);
    TRY(name_first_kept(fresh, fields));
    parent_ = entry_id(line, seq);
    if (fresh == line && !to_seal_) return {};
    ++result_.changed;
    return replace(fresh, begin, end, seq);
  }

  Result<void> take_header(std::string_view line, std::uint64_t end) {
    result_.version = std::max<std::int64_t>(1, json::int_at(line, "version").value_or(1));
    if (result_.version > current_version || (result_.version == current_version && !to_seal_)) return {};
    json::Edit edit;
    if (result_.version < current_version) edit.put_int("version", current_version);
    result_.header_changed = true;
    return replace(json::apply(line, edit), 0, end, header_seq);
  }

  Result<void> make_header(const EntryFields& first) {
    result_.header_changed = true;
    const std::int64_t time = ms_of(first.timestamp).value_or(seen_.mtime_ns / 1'000'000);
    TRY(open_temp());
    return write(header_line(id_, time, "/", ""), header_seq);
  }

  // In version 1 the index counts the file's lines, including the header.
  Result<void> name_first_kept(std::string& line, const EntryFields& fields) {
    if (result_.version != 1 || !all_readable_ || fields.type != "\"compaction\"") return {};
    const auto index = json::int_at(line, "firstKeptEntryIndex");
    if (!index || *index < 1 || json::find(line, "firstKeptEntryId")) return {};
    if (!by_place_) {
      TRY(by_place_, Transcript::open(path_, {}));
    }
    PageQuery query{.limit = 1};
    if (*index > 1) query.after = static_cast<std::uint64_t>(*index) - 2;
    TRY(const auto page, by_place_->page(query));
    if (page.lines.empty()) return {};
    json::Edit edit;
    edit.put_string("firstKeptEntryId", entry_id(page.lines.front().line, page.lines.front().seq));
    line = json::apply(line, edit);
    return {};
  }

  Result<void> replace(std::string_view fresh, std::uint64_t begin, std::uint64_t end, std::uint64_t seq) {
    TRY(copy_until(begin));
    copied_ = end;
    return write(fmt::format("{}\n", fresh), seq);
  }

  Result<void> write(std::string_view line, std::uint64_t seq) {
    TRY(seal::reserve());
    std::string stored;
    append_line(stored, line, seal::draw(), seal_scope(path_.native()), seq);
    return store::write_all(out_.get(), stored, temp_.native());
  }

  // Copies unchanged bytes.
  Result<void> copy_until(std::uint64_t offset) {
    TRY(open_temp());
    const std::uint64_t from = std::exchange(copied_, offset);
    return store::copy_range(in_.get(), path_, from, offset, out_.get(), temp_);
  }

  Result<void> open_temp() {
    if (out_) return {};
    TRY(out_, store::open_file(temp_, O_WRONLY | O_CREAT | O_EXCL));
    return {};
  }

  const fs::path& path_;
  fs::path temp_;
  std::string_view id_;
  store::Fd in_{};
  store::Fd out_{};  // open while the temp file is there
  std::uint64_t size_ = 0;
  store::FileIdentity seen_{};
  std::uint64_t copied_ = 0;  // bytes of the old file that the new one has
  std::string parent_{};
  bool to_seal_ = false;  // the line is not sealed with the active key, and encryption is on
  bool all_readable_ = true;
  std::unique_ptr<Transcript> by_place_{};
  Migration result_{};
};

}  // namespace

std::string migrate_line(std::string_view line, std::uint64_t seq, std::string_view parent_id, std::int64_t version) {
  const EntryFields fields = read_fields(line);
  if (fields.shape == EntryShape::unreadable || (fields.shape == EntryShape::other && !fields.has_type))
    return std::string(line);
  std::string_view own_id, own_parent;
  for (const json::Member& member : json::members(line)) {
    if (named(member, "id")) own_id = member.value;
    if (named(member, "parentId")) own_parent = member.value;
  }
  if (!own_id.empty() && !is_string(own_id)) return std::string(line);  // no known format: left alone
  const std::string id = fields.id.empty() ? json::quote(entry_id(line, seq)) : std::string(fields.id);
  const std::string parent = !own_parent.empty() ? std::string(own_parent)
                             : parent_id.empty() ? "null"
                                                 : json::quote(parent_id);
  if (fields.shape == EntryShape::flat) return nest(line, fields, head_of("\"message\"", id, parent));

  const bool old = version < current_version;
  const bool renamed =
      old && fields.shape == EntryShape::nested && json::string_at(fields.message, "role") == "hookMessage";
  if (!fields.id.empty() && (!own_parent.empty() || !old) && !renamed) return std::string(line);
  std::string out = head_of(fields.type, id, parent);
  for (const json::Member& member : json::members(line)) {
    if (named(member, "type") || named(member, "id") || named(member, "parentId")) continue;
    if (renamed && named(member, "message")) {
      append_member(out, {.name = member.name, .value = rename_role(member.value)});
    } else {
      append_member(out, member);
    }
  }
  return out + "}";
}

Result<Migration> migrate_transcript(const fs::path& path, std::string_view session_id,
                                     const std::function<Result<void>()>& keep) {
  return FileMigration(path, session_id).run(keep);
}

}  // namespace sessiond::transcripts
