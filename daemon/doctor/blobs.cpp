// Checks the blobs (store/blobs/blob_store.hpp): that each has the bytes of its hash, that those are there which
// transcripts, archives and entries name, and that nothing else lies among them. Nothing here repairs content: a
// damaged blob is never served, and whoever sends the same content again mends it.
#include "store/blobs/blob_store.hpp"

#include <fmt/format.h>

#include <string_view>

#include "daemon/doctor/examination.hpp"
#include "store/files.hpp"
#include "store/names.hpp"

namespace sessiond::doctor {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view to_mend = "bring it back from a backup, or send the same content again";

class BlobCheck {
 public:
  explicit BlobCheck(Examination& exam) : exam_(exam), blobs_(exam.options.state_dir) {}

  void run() {
    const fs::path top = exam_.options.state_dir / "blobs";
    if (is_folder(top) && is_folder(blobs_.folder())) {
      std::vector<std::string> unknown;
      for (const Listed& file : list_dir(exam_, "blobs", top))
        if (top / file.name != blobs_.folder()) unknown.push_back(file.name);
      tell_foreign(exam_, top, unknown);
      look_into(blobs_.folder());
    }
    if (exam_.cancelled()) return;
    tell_missing();
    if (count_ > 0)
      exam_.report.ok("blobs", blobs_.folder().native(),
                      fmt::format("{} blob{}, {}; {} of those that are named are there", count_, count_ == 1 ? "" : "s",
                                  in_bytes(bytes_), exam_.named_blobs.size() - missing_));
  }

 private:
  bool is_folder(const fs::path& dir) {
    const auto status = store::stat_of(dir);
    if (!status) return false;
    if (S_ISDIR(status->st_mode)) return true;
    exam_.fault({Level::error, "blobs", dir.native(), "is no folder, so messages with media are refused",
                 fmt::format("run: mv '{0}' '{0}.damaged'; or doctor --repair", dir.native())},
                [&] { return exam_.move_away(dir); });
    return false;
  }

  // The folders are named by the first two digits of the hashes in them.
  void look_into(const fs::path& dir) {
    ModeCheck modes(exam_);
    for (const fs::path& each : {dir.parent_path(), dir})
      if (const auto status = store::stat_of(each)) modes.look(each, *status);
    std::vector<std::string> unknown;
    for (const Listed& folder : list_dir(exam_, "blobs", dir)) {
      if (folder.name.size() != 2 || !blobs::is_hash(folder.name + std::string(62, '0'))) {
        unknown.push_back(folder.name);
        continue;
      }
      modes.look(dir / folder.name, folder.status);
      if (!is_folder(dir / folder.name)) continue;
      for (const Listed& file : list_dir(exam_, "blobs", dir / folder.name)) {
        if (exam_.cancelled()) return;
        modes.look(dir / folder.name / file.name, file.status);
        if (!look_at(folder.name, file)) unknown.push_back(folder.name + "/" + file.name);
      }
    }
    modes.tell(dir);
    tell_foreign(exam_, dir, unknown);
  }

  // Returns false for what is no blob.
  bool look_at(const std::string& folder, const Listed& file) {
    const fs::path path = blobs_.folder() / folder / file.name;
    if (!blobs::is_hash(file.name) || blobs_.path_of(file.name) != path) {
      if (!store::is_passing(file.name)) return false;
      check_temporary(exam_, path, file.status);
      return true;
    }
    if (check_kind(exam_, path, file.status)) return true;
    ++count_;
    bytes_ += static_cast<std::uint64_t>(file.status.st_size);
    const auto read = blobs_.read(file.name);
    if (read || read.error().code == Code::not_found) return true;  // maintenance has removed it meanwhile
    exam_.report.error("blobs", path.native(), read.error().detail,
                       fmt::format("it is not served, and messages say \"unavailable\" in its place: {}", to_mend));
    return true;
  }

  void tell_missing() {
    for (const auto& [hash, file] : exam_.named_blobs) {
      if (store::stat_of(blobs_.path_of(hash))) continue;
      // Its session may have been purged since the file was read.
      if (exam_.daemon_running && !store::stat_of(file)) continue;
      ++missing_;
      exam_.report.error(
          "blobs", file.native(), fmt::format("names the blob {}, which is not there", hash),
          fmt::format("messages say \"unavailable\" in its place: {} as {}", to_mend, blobs_.path_of(hash).native()));
    }
  }

  Examination& exam_;
  blobs::BlobStore blobs_;
  std::uint64_t count_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t missing_ = 0;
};

}  // namespace

void check_blobs(Examination& exam) { BlobCheck(exam).run(); }

}  // namespace sessiond::doctor
