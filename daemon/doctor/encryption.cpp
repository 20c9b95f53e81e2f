// Names the files that hold what people said and are not sealed, though there is a key file: those of before there was
// one, and those that another program put there. Also says which keys the files need.
#include <fcntl.h>
#include <fmt/format.h>

#include <map>
#include <string_view>

#include "daemon/doctor/examination.hpp"
#include "daemon/ledger/book_log.hpp"
#include "store/files.hpp"
#include "store/journal/line.hpp"
#include "store/line_reader.hpp"
#include "store/seal/sealed.hpp"
#include "store/sessions/disk.hpp"
#include "store/try.hpp"

namespace sessiond::doctor {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t whole_file = ~std::uint64_t{0};

class EncryptionCheck {
 public:
  explicit EncryptionCheck(Examination& exam) : exam_(exam) {}

  void run() {
    for (const std::string& agent : exam_.paths.agents()) {
      look_into(exam_.paths.store_file(agent).parent_path());
      for (const std::string_view folder : ledger::folders_beside)
        look_into(exam_.paths.root() / ledger::dir_beside(exam_.paths, agent, folder));
    }
    look_into(exam_.paths.journal_dir());
    look_below(exam_.options.state_dir / "blobs");
    std::string keys;
    for (const auto& [id, files] : files_by_key_) keys += fmt::format(", {} with the key \"{}\"", files, id);
    exam_.report.ok("encryption", exam_.options.state_dir.native(),
                    fmt::format("{} files are sealed{}; {} are not; what comes is sealed with \"{}\"", sealed_, keys,
                                open_, seal::keys()->active().id()));
  }

 private:
  static constexpr std::string_view advice =
      "it was written before there was a key file, or by another program; what is added to it is sealed. doctor "
      "--migrate seals transcripts and their archives; sessions.json is sealed when it is written next, a blob when "
      "its content comes again, the log of a book when the book changes next, the journal goes with journal.retention, "
      "a log with its session; look through what repairs put aside, and remove it";

  struct Counts {
    std::uint64_t lines = 0;
    std::uint64_t open = 0;
    std::set<std::string, std::less<>> keys{};
  };

  void look_into(const fs::path& dir) {
    for (const Listed& file : list_dir(exam_, "encryption", dir)) {
      if (exam_.cancelled()) return;
      const fs::path path = dir / file.name;
      if (S_ISDIR(file.status.st_mode) && dir == exam_.paths.journal_dir() && holds_words(file.name)) look_below(path);
      if (S_ISREG(file.status.st_mode)) look_at(path, file);
    }
  }

  // The folders of journal/ in which something that was said can stand.
  static bool holds_words(std::string_view folder) {
    return folder == "previous" || folder == "keys" || folder == "messages" || folder == "runs" || folder == "outbox" ||
           folder == "kept" || folder == "early" || folder == "policies";
  }

  static bool folder_of_logs(std::string_view folder) { return folder == "runs" || folder == "outbox"; }

  void look_below(const fs::path& dir) {
    for (const Listed& file : list_dir(exam_, "encryption", dir)) {
      if (exam_.cancelled()) return;
      if (S_ISDIR(file.status.st_mode)) look_below(dir / file.name);
      if (S_ISREG(file.status.st_mode)) look_at(dir / file.name, file);
    }
  }

  void look_at(const fs::path& path, const Listed& file) {
    const std::string_view name = file.name;
    const std::string folder = path.parent_path().filename().native();
    if (name.ends_with(".tmp") || name.ends_with(".lock") || file.status.st_size == 0) return;
    const bool in_journal = path.parent_path() == exam_.paths.journal_dir();
    if (in_journal && !name.ends_with(".jsonl") && !name.contains(".jsonl.")) return;
    if (name.ends_with(".idx") || name.ends_with(".note") || name.ends_with(".trajectory.jsonl")) return;
    const bool store = name.starts_with("sessions.json") || folder == "previous";
    const bool blob = folder.size() == 2 && name.size() == 64;
    const bool log = folder_of_logs(folder) && name.ends_with(".log");
    const auto counts = store ? of_store(path)
                        : log ? of_lines(path, ledger::BookLog::key_of_line)
                              : of_lines(path, in_journal ? journal::key_of_line : seal::key_of, in_journal, blob);
    if (!counts) return;  // other checks say that it cannot be read
    for (const std::string& key : counts->keys) ++files_by_key_[key];
    sealed_ += counts->open == 0 ? 1 : 0;
    if (counts->open == 0) return;
    ++open_;
    exam_.report.warning("encryption", path.native(),
                         fmt::format("{} of {} {} are not sealed", counts->open, counts->lines,
                                     store ? "members that tell what was said" : "lines"),
                         std::string(advice));
  }

  static void count(Counts& counts, std::string_view key) {
    ++counts.lines;
    if (key.empty()) {
      ++counts.open;
    } else if (!counts.keys.contains(key)) {
      counts.keys.emplace(key);
    }
  }

  static Result<Counts> of_lines(const fs::path& path, std::string_view (*key_of)(std::string_view),
                                 bool of_journal = false, bool whole = false) {
    TRY(const auto fd, store::open_file(path, O_RDONLY | O_NONBLOCK));
    store::SequentialLines lines(fd.get(), 0, whole_file, path.native());
    Counts counts;
    while (true) {
      TRY(const auto line, lines.next());
      if (!line || (whole && counts.lines > 0)) return counts;
      if (line->text.empty() || line->text.front() == '\0') continue;  // zeros at the end of a segment
      if (of_journal && line->text.contains("\"overrides\":true}")) continue;
      count(counts, key_of(line->text));
    }
  }

  static Result<Counts> of_store(const fs::path& path) {
    TRY(const auto read, sessions::read_store(path));
    Counts counts;
    for (const sessions::NamedEntry& entry : read.entries)
      sessions::each_sealed_member(entry, [&](std::string_view value) { count(counts, seal::key_of(value)); });
    return counts;
  }

  Examination& exam_;
  std::map<std::string, std::size_t> files_by_key_{};
  std::size_t sealed_ = 0;
  std::size_t open_ = 0;
};

}  // namespace

void check_encryption(Examination& exam) {
  if (seal::on()) EncryptionCheck(exam).run();
}

}  // namespace sessiond::doctor
