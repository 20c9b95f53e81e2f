// An index of a transcript that is made when it is first needed, with the sidecar that keeps it over a restart.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>

#include "store/files.hpp"
#include "store/seal/sealed.hpp"
#include "store/try.hpp"
#include "transcripts/line_index.hpp"

namespace sessiond::transcripts {

// Index has `covered`, `entries()`, and decode(bytes, inode); encode_sidecar(index, inode) writes it.
template <class Index>
class KeptIndex {
 public:
  Index now{};

  void forget() {
    now = {};
    saved_ = 0;
  }
  // Another file is open: its sidecar may fit.
  void forget_file() {
    forget();
    loaded_ = false;
  }

  // Reads the sidecar, once, if it fits the file that `lines` covers.
  void load(const std::filesystem::path& sidecar, const LineIndex& lines, int fd, const store::FileIdentity& file,
            std::string_view path) {
    if (sidecar.empty() || std::exchange(loaded_, true)) return;
    auto bytes = store::read_file(sidecar);  // if there is none, the transcript is read
    if (!bytes) return;
    const auto opened = seal::open_if_sealed(std::move(*bytes), place_of(sidecar));
    if (!opened) return;
    auto stored = Index::decode(*opened, file.inode);
    if (!stored || stored->covered.bytes > lines.covered.bytes || stored->entries() > lines.lines) return;
    if (!stored->covered.fits(fd, file.size, path).value_or(false)) return;
    now = std::move(*stored);
    saved_ = now.covered.bytes;
  }

  bool is_loaded() const { return loaded_; }  // load() does nothing any more

  // Returns whether the index has grown much since its sidecar was written.
  bool has_grown(std::uint64_t least) const {
    return now.covered.bytes >= saved_ + (saved_ == 0 ? least : std::max(unsaved, saved_ / 16));
  }
  // Writes the sidecar. If it cannot be written, it is tried again after the index has grown as much again.
  Result<void> save(const std::filesystem::path& sidecar, std::uint64_t inode) {
    saved_ = now.covered.bytes;
    TRY(store::make_dirs(sidecar.parent_path()));
    TRY(seal::reserve());
    // Sealed: landmarks name who reacted, and with what.
    return store::replace_file(sidecar, seal::seal(encode_sidecar(now, inode), place_of(sidecar)));
  }

 private:
  static seal::Place place_of(const std::filesystem::path& sidecar) {
    return {"sidecar", sidecar.parent_path().filename().native(), sidecar.filename().native()};
  }
  static constexpr std::uint64_t unsaved = 16 << 20;  // bytes that may have to be parsed again

  std::uint64_t saved_ = 0;  // bytes that the sidecar covers
  bool loaded_ = false;      // the sidecar was read, or there was none
};

}  // namespace sessiond::transcripts
