#include "daemon/backup/unpack.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "store/crc32.hpp"
#include "store/try.hpp"

namespace sessiond::backup {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t most_manifest = 1ULL << 30;  // millions of files

std::unexpected<Problem> refuse_backup(std::string detail) { return fail(Code::validation_failed, std::move(detail)); }

}  // namespace

Unpacker::Unpacker(fs::path dir)
    : dir_(std::move(dir)),
      root_(dir_),
      reader_({.member = [this](const TarMember& member) { return start(member); },
               .data = [this](std::string_view bytes) { return take(bytes); }}) {}

Result<void> Unpacker::feed(std::string_view bytes) { return reader_.feed(bytes); }

Result<void> Unpacker::start(const TarMember& member) {
  TRY(close_file());
  if (member.kind == TarMember::Kind::directory) return {};  // created with the first file in it
  const fs::path name(member.name);
  is_manifest_ = name.filename() == manifest_name && std::distance(name.begin(), name.end()) <= 2;
  if (is_manifest_ && !manifest_at_.empty()) return refuse_backup(fmt::format("{} occurs twice", manifest_name));
  if (is_manifest_ && member.size > most_manifest) return refuse_backup(fmt::format("{} is too large", manifest_name));
  if (files_.contains(member.name)) return refuse_backup(fmt::format("{} occurs twice", member.name));
  name_ = member.name;
  mtime_ = member.mtime;
  file_ = {};
  if (is_manifest_) manifest_at_ = name_;
  if (is_manifest_ || dir_.empty()) return {};
  const fs::path path = dir_ / name;
  if (made_.insert(path.parent_path()).second) TRY(store::make_dirs(path.parent_path()));
  TRY(auto fd, store::open_file(path, O_WRONLY | O_CREAT | O_EXCL));
  fd_ = std::move(fd);
  return {};
}

Result<void> Unpacker::take(std::string_view bytes) {
  if (is_manifest_) {
    manifest_ += bytes;
    return {};
  }
  file_.size += bytes.size();
  file_.crc = store::crc32_of(bytes, file_.crc);
  return fd_ ? store::write_all(fd_.get(), bytes, name_) : Result<void>{};
}

Result<void> Unpacker::close_file() {
  if (name_.empty()) return {};
  if (!is_manifest_) files_.emplace(name_, file_);
  const std::string name = std::exchange(name_, {});
  const store::Fd fd = std::move(fd_);
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW}, {.tv_sec = mtime_, .tv_nsec = 0}};
  if (fd && ::futimens(fd.get(), times) != 0) return std::unexpected(io_problem("set the time of", name, errno));
  return {};
}

Result<Manifest> Unpacker::finish() {
  TRY(reader_.finish());
  TRY(close_file());
  if (manifest_at_.empty())
    return refuse_backup(fmt::format("there is no {}: this is not a backup, or an interrupted one", manifest_name));
  TRY(auto manifest, parse_manifest(manifest_));
  const std::string prefix = manifest_at_.substr(0, manifest_at_.size() - manifest_name.size());
  TRY(check(manifest, prefix));
  if (dir_.empty()) return manifest;
  root_ = prefix.empty() ? dir_ : dir_ / prefix.substr(0, prefix.size() - 1);
  TRY(sync_file_system(dir_));
  return manifest;
}

Result<void> sync_file_system(const fs::path& dir) {
  const store::Fd fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::syncfs(fd.get()) != 0) return std::unexpected(io_problem("sync", dir.native(), errno));
  return {};
}

Result<void> Unpacker::check(const Manifest& manifest, const std::string& prefix) const {
  for (const auto& [name, wanted] : manifest.files) {
    const auto there = files_.find(prefix + name);
    if (there == files_.end()) return refuse_backup(fmt::format("{} is missing, but {} lists it", name, manifest_name));
    if (there->second != wanted)
      return refuse_backup(
          fmt::format("{} differs from the backup: {} bytes, CRC-32 {:08x} instead of {} bytes, {:08x}", name,
                      there->second.size, there->second.crc, wanted.size, wanted.crc));
  }
  for (const auto& [name, file] : files_) {
    if (!name.starts_with(prefix) || !manifest.files.contains(std::string_view(name).substr(prefix.size())))
      return refuse_backup(fmt::format("{} is not listed in {}", name, manifest_name));
  }
  return {};
}

}  // namespace sessiond::backup
