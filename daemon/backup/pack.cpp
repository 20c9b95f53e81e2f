#include "daemon/backup/pack.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "daemon/backup/tar.hpp"
#include "store/crc32.hpp"
#include "store/try.hpp"

namespace sessiond::backup {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t piece_bytes = 1 << 20;

}  // namespace

Packer::Packer(ledger::StateSnapshot cut) : cut_(std::move(cut)) {}

Packer::Packer(ledger::StateSnapshot cut, const std::string& path_template, std::int64_t now) : Packer(std::move(cut)) {
  manifest_ = Manifest{.created_at = now, .as_of = cut_.as_of, .path_template = path_template};
}

Result<std::string> Packer::next() {
  std::string out;
  while (out.size() < piece_bytes && at_ < cut_.files.size()) {
    TRY(pack(out));
  }
  if (out.size() < piece_bytes && !std::exchange(ended_, true)) end(out);
  return out;
}

Result<void> Packer::pack_all(const std::function<Result<void>(std::string_view)>& take) {
  for (;;) {
    TRY(const auto bytes, next());
    if (bytes.empty()) return {};
    TRY(take(bytes));
  }
}

Result<void> Packer::pack(std::string& out) {
  const ledger::SnapshotFile& file = cut_.files[at_];
  if (!fd_) {
    TRY(auto opened, store::open_file(file.path, O_RDONLY | O_NONBLOCK));
    fd_ = std::move(opened);
    open_folders(out, file.name);
    append_tar_header(out, {.name = file.name, .size = file.size, .mtime = file.mtime});
  }
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, file.size - offset_));
  TRY(const auto bytes, store::read_at(fd_.get(), offset_, wanted, file.path));
  if (bytes.size() < wanted)
    return fail(
        Code::degraded,
        fmt::format("{} became shorter while it was read: a foreign program is writing it; try again", file.name));
  out += bytes;
  crc_ = store::crc32_of(bytes, crc_);
  offset_ += wanted;
  if (offset_ < file.size) return {};
  struct stat now{};
  if (::fstat(fd_.get(), &now) != 0) return std::unexpected(io_problem("stat", file.path, errno));
  if (file.written_ns && (store::identity(now).mtime_ns != *file.written_ns || store::identity(now).size != file.size))
    return fail(Code::degraded,
                fmt::format("{} changed while it was read: a foreign program is writing it; try again", file.name));
  append_tar_padding(out, file.size);
  if (manifest_) manifest_->files[file.name] = {.size = file.size, .crc = crc_};
  fd_ = {};
  offset_ = 0;
  crc_ = 0;
  ++at_;
  return {};
}

// Adds the folders themselves, so that any tar program creates them with mode 0700.
void Packer::open_folders(std::string& out, const std::string& name) {
  for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    std::string folder = name.substr(0, slash);
    if (!folders_.insert(folder).second) continue;
    append_tar_header(out,
                      {.kind = TarMember::Kind::directory, .name = std::move(folder), .mtime = cut_.files[at_].mtime});
  }
}

void Packer::end(std::string& out) {
  if (manifest_) {
    const std::string text = to_json(*manifest_);
    append_tar_header(out,
                      {.name = std::string(manifest_name), .size = text.size(), .mtime = manifest_->created_at / 1000});
    out += text;
    append_tar_padding(out, text.size());
  }
  append_tar_end(out);
}

Result<ledger::StateSnapshot> cut_of_backup(const fs::path& dir) {
  ledger::StateSnapshot cut;
  std::error_code error;
  for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    struct stat status{};
    if (::lstat(it->path().c_str(), &status) != 0)
      return std::unexpected(io_problem("stat", it->path().native(), errno));
    if (S_ISDIR(status.st_mode)) continue;
    if (!S_ISREG(status.st_mode))
      return fail(Code::validation_failed, fmt::format("{} is not a regular file", it->path().native()));
    cut.files.push_back({.name = it->path().lexically_relative(dir).native(),
                         .path = it->path().native(),
                         .size = static_cast<std::uint64_t>(status.st_size),
                         .mtime = status.st_mtim.tv_sec});
  }
  if (error) return std::unexpected(io_problem("list", dir.native(), error.value()));
  return cut;
}

}  // namespace sessiond::backup
