#include "transcripts/transcript.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "store/json/raw_json.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/sealed_lines.hpp"
#include "transcripts/transcript_impl.hpp"

namespace sessiond::transcripts {
namespace {

constexpr std::uint64_t no_sidecar_below = 256 << 10;
constexpr std::uint64_t lines_unsaved = 4 << 20;  // bytes that the next start may have to scan again, in about 3 ms

}  // namespace

void Transcript::Impl::forget() {
  index = {};
  ids.forget();
  landmarks.forget();
  first_line.reset();
  saved = 0;
}

void Transcript::Impl::load_sidecar() {
  if (sidecar.empty()) return;
  const auto bytes = store::read_file(sidecar);  // if there is none, the transcript is scanned
  if (!bytes) return;
  if (auto stored = decode_sidecar(*bytes, seen.inode)) {
    index = std::move(*stored);
    saved = index.covered.bytes;
  }
}

Result<bool> Transcript::Impl::refresh(std::uint64_t budget) {
  const auto at_path = store::stat_within(path);
  if (!at_path) {
    const int error = errno;
    if (error != ENOENT) return std::unexpected(store::in_the_way(path, io_problem("stat", path.native(), error)));
    fd = {};
    seen = {};
    forget();
    tail = {};
    return true;
  }
  const struct stat& status = *at_path;
  if (S_ISLNK(status.st_mode)) return std::unexpected(store::in_the_way(path, {}));
  if (!S_ISREG(status.st_mode)) return fail(Code::degraded, fmt::format("{} is not a regular file", path.native()));
  if (fd && seen == store::identity(status)) return true;
  auto looked = look(status, budget);
  if (!looked || !*looked) seen = {};
  return looked;
}

Result<bool> Transcript::Impl::look(const struct stat& at_path, std::uint64_t budget) {
  // The descriptor is open, so no other file can have got its inode.
  struct stat status{};
  bool open =
      fd && ::fstat(fd.get(), &status) == 0 && status.st_ino == at_path.st_ino && status.st_dev == at_path.st_dev;
  if (!open) {
    auto opened = store::open_within(path, O_RDONLY | O_NONBLOCK);
    if (!opened && opened.error().code != Code::not_found)
      return std::unexpected(store::in_the_way(path, std::move(opened.error())));
    TRY(fd, std::move(opened));
    forget();
    ids.forget_file();
    landmarks.forget_file();
    TRY(status, store::status_of(fd.get(), path.native()));
  }
  seen = store::identity(status);
  if (!open) load_sidecar();
  TRY(auto fits, index.covered.fits(fd.get(), seen.size, path.native()));
  if (!fits) forget();
  auto scanned = index.scan(fd.get(), seen.size, path.native(), budget);
  if (!scanned || !*scanned) return scanned;
  TRY(read_tail());
  return true;
}

Result<std::string> Transcript::Impl::header() const {
  if (!tail.has_header) return std::string();
  if (first_line) return *first_line;
  LineReader lines = reader();
  TRY(const auto end, lines.end_of(0));
  TRY(const auto line, lines.line(0, end, header_seq));
  return first_line.emplace(line);
}

Result<void> Transcript::Impl::read_tail() {
  tail = {.exists = true,
          .has_header = index.has_header,
          .ends_in_newline = index.covered.bytes == seen.size,
          .size = seen.size,
          .count = index.lines,
          .last_id = index.last_id};
  if (tail.ends_in_newline) return {};
  LineReader lines = reader();
  const bool first = index.offsets.empty();
  TRY(auto line, lines.line(index.covered.bytes, tail.size, first ? header_seq : tail.count));
  if (first && tail.size <= longest_header && is_header(line)) {
    tail.has_header = true;
    return {};
  }
  if (first) {
    TRY(line, lines.line(index.covered.bytes, tail.size, tail.count));
  }
  if (entry_type(line) != "unreadable") tail.last_id = entry_id(line, tail.count);
  ++tail.count;
  return {};
}

Transcript::Transcript(std::filesystem::path path, std::filesystem::path sidecar, std::string changes)
    : impl_(std::make_unique<Impl>(
          Impl{.path = std::move(path), .sidecar = std::move(sidecar), .changes_dir = std::move(changes)})) {}
Transcript::~Transcript() = default;

Result<std::unique_ptr<Transcript>> Transcript::open(std::filesystem::path path, std::filesystem::path sidecar) {
  auto transcript = std::make_unique<Transcript>(std::move(path), std::move(sidecar));
  TRY(transcript->refresh());
  return transcript;
}

std::filesystem::path Transcript::id_sidecar(const std::filesystem::path& sidecar) {
  return sidecar.empty() ? sidecar : std::filesystem::path(sidecar).replace_extension(".ids");
}

std::filesystem::path Transcript::landmarks_sidecar(const std::filesystem::path& sidecar) {
  return sidecar.empty() ? sidecar : std::filesystem::path(sidecar).replace_extension(".marks");
}

Result<bool> Transcript::refresh(std::uint64_t budget) { return impl_->refresh(budget); }
void Transcript::allow(std::uint64_t bytes) {
  impl_->allowed = bytes;
  impl_->stopped = false;
  for (const auto& [name, file] : impl_->changes) file->allow(bytes);
}
bool Transcript::was_stopped() const {
  return impl_->stopped ||
         std::ranges::any_of(impl_->changes, [](const auto& one) { return one.second->impl_->stopped; });
}
const TranscriptTail& Transcript::tail() const { return impl_->tail; }

Result<TranscriptPage> Transcript::page(const PageQuery& query) {
  return impl_->with_fresh_index_on_failure([&] { return impl_->page(query); });
}

Result<void> Transcript::each(std::span<const SeqSpan> spans, const Take& take) {
  auto done = impl_->each(spans, take);
  if (!done && !impl_->stopped) impl_->distrust();
  return done;
}

std::string_view Transcript::show(const StoredLine& line) { return impl_->shown.show(line.line, line.seq); }

Result<Transcript::Found> Transcript::find(std::span<const std::string> entry_ids, const IsMeant& is_meant) {
  return impl_->with_fresh_index_on_failure([&] { return impl_->find(entry_ids, is_meant); });
}

Result<std::vector<WholeLine>> Transcript::whole_lines(std::uint64_t begin, std::uint64_t end, std::size_t max_bytes) {
  return impl_->with_fresh_index_on_failure([&] { return impl_->whole_lines(begin, end, max_bytes); });
}

Result<std::optional<StoredLine>> Transcript::find(std::string_view entry_id, const IsMeant& is_meant) {
  const std::string id(entry_id);
  TRY(auto found, find(std::span(&id, 1), is_meant));
  if (found.empty()) return std::nullopt;
  return std::move(found.begin()->second);
}

std::optional<std::int64_t> Transcript::started() const {
  const auto line = impl_->header();
  return line && !line->empty() ? parse_iso_time(json::string_at(*line, "timestamp").value_or("")) : std::nullopt;
}

Result<std::string> Transcript::header() {
  return impl_->with_fresh_index_on_failure([&] { return impl_->header(); });
}

Result<Transcript*> Transcript::changes(std::string_view name) {
  constexpr std::size_t most_open = 64;
  if (impl_->changes_dir.empty()) return nullptr;
  auto there = impl_->changes.find(name);
  if (there == impl_->changes.end()) {
    const auto file = changes_file(name);
    if (!file) return nullptr;
    const std::string path = impl_->changes_dir + file->substr(file->find('/') + 1);
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0 && errno == ENOENT) return nullptr;
    if (impl_->changes.size() >= most_open) impl_->changes.clear();
    there =
        impl_->changes.emplace(std::string(name), std::make_unique<Transcript>(path, std::filesystem::path())).first;
    there->second->allow(impl_->allowed);
  }
  TRY(const bool is_whole, there->second->refresh(impl_->allowed));
  if (!is_whole) {
    impl_->stopped = true;
    return fail(Code::internal, fmt::format("{} is too long to be read at once", there->second->impl_->path.native()));
  }
  Transcript* const file = there->second.get();
  if (file->tail().exists) return file;
  impl_->changes.erase(there);
  return nullptr;
}

Result<IdSet> Transcript::ids() {
  return impl_->with_fresh_index_on_failure([&]() -> Result<IdSet> {
    TRY(impl_->scan_ids());
    IdSet set(impl_->tail.count);
    const std::vector<std::uint32_t>& hashes = impl_->ids.now.hashes;
    for (const std::uint32_t hash : hashes) set.insert(hash);
    if (impl_->tail.count == hashes.size()) return set;
    LineReader lines = impl_->reader();  // for a last line without a newline
    TRY(auto line, lines.line(impl_->index.covered.bytes, impl_->tail.size, hashes.size()));
    set.insert(id_hash(entry_id(line, hashes.size())));
    return set;
  });
}

Result<const Landmarks*> Transcript::landmarks(std::optional<std::int64_t> doom_count) {
  return impl_->with_fresh_index_on_failure([&] { return impl_->scan_landmarks(doom_count); });
}

void Transcript::set_meter(context::Meter meter) {
  if (impl_->tail.count == impl_->landmarks.now.lines) impl_->landmarks.now.meter = std::move(meter);
}

Result<void> Transcript::save_sidecars() {
  Impl& own = *impl_;
  const std::uint64_t lines = own.index.covered.bytes;
  // If it cannot be written, it is tried again after it has grown as much again.
  if (!own.sidecar.empty() && lines >= own.saved + (own.saved == 0 ? no_sidecar_below : lines_unsaved)) {
    own.saved = lines;
    TRY(store::make_dirs(own.sidecar.parent_path()));
    TRY(store::replace_file(own.sidecar, encode_sidecar(own.index, own.seen.inode)));
  }
  if (own.sidecar.empty()) return {};
  if (own.ids.has_grown(no_sidecar_below)) TRY(own.ids.save(id_sidecar(own.sidecar), own.seen.inode));
  if (own.landmarks.has_grown(no_sidecar_below))
    TRY(own.landmarks.save(landmarks_sidecar(own.sidecar), own.seen.inode));
  return {};
}

}  // namespace sessiond::transcripts
