#include "store/blobs/blob_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "store/clock.hpp"
#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/hex.hpp"
#include "store/seal/sealed.hpp"
#include "store/try.hpp"

namespace sessiond::blobs {
namespace fs = std::filesystem;

struct BlobStore::Pins {
  std::mutex mutex{};
  std::map<std::string, int> held{};
  bool sweeping = false;
  std::set<std::string> since{};  // pinned since the sweep began, or before and still then

  bool keeps(const std::string& hash) {
    const std::scoped_lock lock(mutex);
    return held.contains(hash) || since.contains(hash);
  }
};

namespace {

Result<std::string> read_regular(const fs::path& path) {
  auto fd = store::open_file(path, O_RDONLY | O_NONBLOCK);
  if (!fd) {
    if (fd.error().code == Code::not_found) return std::unexpected(std::move(fd.error()));
    return std::unexpected(store::in_the_way(path, std::move(fd.error())));
  }
  TRY(const auto status, store::status_of(fd->get(), path.native()));
  if (!S_ISREG(status.st_mode))
    return fail(Code::degraded, fmt::format("{} is no regular file; move it away", path.native()));
  return store::read_at(fd->get(), 0, static_cast<std::size_t>(status.st_size), path.native());
}

seal::Place place_of(std::string_view hash) { return {"blob", hash}; }

std::int64_t age_of(const struct stat& status) {
  return store::unix_ms() - (status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1'000'000);
}

}  // namespace

std::string sha256_of(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
  ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), hash.data());
  return store::to_hex(hash);
}

bool is_hash(std::string_view text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

BlobStore::BlobStore(const fs::path& state_dir)
    : folder_(state_dir / "blobs" / "sha256"), pins_(std::make_shared<Pins>()) {}

BlobStore::Pin BlobStore::pin(std::string hash) {
  {
    const std::scoped_lock lock(pins_->mutex);
    ++pins_->held[hash];
    if (pins_->sweeping) pins_->since.insert(hash);
  }
  return {new std::string(std::move(hash)), [pins = pins_](const std::string* held) {
            {
              const std::scoped_lock lock(pins->mutex);
              if (const auto at = pins->held.find(*held); --at->second == 0) pins->held.erase(at);
            }
            delete held;
          }};
}

fs::path BlobStore::path_of(std::string_view hash) const { return folder_ / hash.substr(0, 2) / hash; }

Result<void> BlobStore::put(const std::string& hash, std::string_view bytes, std::uint64_t most_bytes) {
  const std::scoped_lock lock(turn(hash));
  const fs::path path = path_of(hash);
  auto there = read_regular(path);
  const bool sealed = there && seal::is_sealed(*there) && *there != bytes;  // content may look like it
  if (sealed) there = seal::open_if_sealed(std::move(*there), place_of(hash)).value_or("");
  const bool is_there = there && *there == bytes && sealed == seal::on();
  if (!is_there && !there && there.error().code != Code::not_found) return std::unexpected(there.error());
  if (!is_there) {
    if (bytes_ + bytes.size() > most_bytes)
      return fail(Code::storage_full,
                  fmt::format("the blobs have {} bytes and may have {} (blobs.maxBytes)", bytes_.load(), most_bytes));
    TRY(write(hash, bytes));
    if (!there) {
      ++count_;
      bytes_ += bytes.size();
    }
    store::fault_point("blob.stored");
    return {};
  }
  // What another process left may not be durable yet.
  TRY(const auto fd, store::open_file(path, O_RDONLY | O_NONBLOCK));
  if (::futimens(fd.get(), nullptr) != 0) return std::unexpected(io_problem("touch", path.native(), errno));
  TRY(store::sync_file(fd.get(), path));
  TRY(store::sync_dir(path.parent_path()));
  store::fault_point("blob.touched");
  return {};
}

Result<void> BlobStore::write(const std::string& hash, std::string_view bytes) const {
  const fs::path path = path_of(hash);
  TRY(store::make_dirs(path.parent_path()));
  TRY(seal::reserve());
  auto done = seal::on() ? store::replace_file(path, seal::seal(std::string(bytes), place_of(hash)))
                         : store::replace_file(path, bytes);
  if (!done && done.error().code != Code::storage_full)
    return std::unexpected(store::in_the_way(path, std::move(done.error())));
  return done;
}

Result<void> BlobStore::touch(const std::string& hash) {
  const std::scoped_lock lock(turn(hash));
  const fs::path path = path_of(hash);
  auto fd = store::open_file(path, O_RDONLY | O_NONBLOCK);
  if (!fd) {
    if (fd.error().code == Code::not_found) return std::unexpected(std::move(fd.error()));
    return std::unexpected(store::in_the_way(path, std::move(fd.error())));
  }
  if (::futimens(fd->get(), nullptr) != 0) return std::unexpected(io_problem("touch", path.native(), errno));
  return {};
}

Result<std::string> BlobStore::read(const std::string& hash) const {
  const fs::path path = path_of(hash);
  TRY(std::string stored, read_regular(path));
  if (seal::is_sealed(stored) && sha256_of(stored) == hash) return stored;  // content that looks like it
  auto opened = seal::open_if_sealed(std::move(stored), place_of(hash));
  if (!opened) return fail(Code::degraded, fmt::format("{}: {}", path.native(), opened.error().detail));
  std::string bytes = std::move(*opened);
  if (sha256_of(bytes) != hash)
    return fail(Code::degraded, fmt::format("{} is damaged: its bytes have another hash. Bring it back from a backup, "
                                            "or send the same content again",
                                            path.native()));
  return bytes;
}

bool BlobStore::any() const { return store::stat_of(folder_).has_value(); }

void BlobStore::remove_leftovers() const {
  store::each_in(folder_, [](const fs::directory_entry& folder) {
    store::each_in(folder.path(), [](const fs::directory_entry& file) {
      if (file.path().native().ends_with(".tmp")) ::unlink(file.path().c_str());
    });
  });
}

void BlobStore::each(const std::function<void(const fs::path&, bool)>& call) {
  BlobTotals found;
  store::each_in(folder_, [&](const fs::directory_entry& folder) {
    const auto about = store::stat_of(folder.path());
    if (!about || !S_ISDIR(about->st_mode)) return call(folder.path(), false);
    store::each_in(folder.path(), [&](const fs::directory_entry& file) {
      const std::string name = file.path().filename().native();
      const auto status = store::stat_of(file.path());
      if (!status) return;
      const bool is_blob = S_ISREG(status->st_mode) && is_hash(name) && path_of(name) == file.path();
      call(file.path(), is_blob);
      if (!is_blob || !store::stat_of(file.path())) return;
      ++found.count;
      found.bytes += static_cast<std::uint64_t>(status->st_size);
    });
  });
  count_ = found.count;
  bytes_ = found.bytes;
}

void BlobStore::begin_sweep() {
  const std::scoped_lock lock(pins_->mutex);
  pins_->sweeping = true;
  pins_->since.clear();
  for (const auto& [hash, times] : pins_->held) pins_->since.insert(hash);
}

void BlobStore::end_sweep() {
  const std::scoped_lock lock(pins_->mutex);
  pins_->sweeping = false;
  pins_->since.clear();
}

std::uint64_t BlobStore::remove(const std::string& hash, std::int64_t grace_ms) {
  const std::scoped_lock lock(turn(hash));
  const fs::path path = path_of(hash);
  const auto status = store::stat_of(path);
  if (!status || !S_ISREG(status->st_mode)) return 0;
  if (age_of(*status) < grace_ms || pins_->keeps(hash)) return 0;
  if (::unlink(path.c_str()) != 0) return 0;
  store::fault_point("blob.removed");
  const auto size = static_cast<std::uint64_t>(status->st_size);
  count_ -= std::min<std::uint64_t>(count_, 1);
  bytes_ -= std::min<std::uint64_t>(bytes_, size);
  return size;
}

}  // namespace sessiond::blobs
