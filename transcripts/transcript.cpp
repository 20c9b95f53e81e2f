#include "transcripts/transcript.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "transcripts/entry.hpp"
#include "transcripts/line_index.hpp"
#include "transcripts/line_reader.hpp"

namespace sessiond {
namespace {

constexpr std::uint64_t no_sidecar_below = 256 << 10;
constexpr std::size_t page_bytes = 8 << 20;  // a page ends before the line with which it would be larger

// Gathers one page; says when it is full.
class Gathering {
 public:
  explicit Gathering(const PageQuery& query) : query_(query) {}

  // False: the page is full, the line is not looked at.
  bool take(std::uint64_t seq, std::string_view line) {
    if (page_.lines.size() >= query_.limit ||
        (!query_.types.empty() && looked_ >= std::max<std::size_t>(query_.scan_limit, 1)))
      return false;
    if (query_.types.empty() || std::ranges::find(query_.types, entry_type(line)) != query_.types.end()) {
      if (!page_.lines.empty() && bytes_ + line.size() > page_bytes) return false;
      bytes_ += line.size();
      page_.lines.push_back({.seq = seq, .line = std::string(line)});
    }
    ++looked_;
    page_.next = seq;
    return true;
  }
  bool full() const { return page_.lines.size() >= query_.limit; }
  TranscriptPage finish(bool has_more) && {
    page_.has_more = has_more;
    return std::move(page_);
  }

 private:
  const PageQuery& query_;
  TranscriptPage page_;
  std::size_t bytes_ = 0;
  std::size_t looked_ = 0;
};

bool is_hex8(std::string_view id) {
  return id.size() == 8 && id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

struct Transcript::Impl {
  std::filesystem::path path;
  std::filesystem::path sidecar;
  Fd fd{};
  FileIdentity seen{};
  LineIndex index{};
  TranscriptTail tail{};
  std::uint64_t saved = 0;  // what the sidecar on disk covers

  Result<void> refresh();
  Result<void> look(const struct stat& status);
  Result<void> reopen();
  Result<void> read_tail();
  void load_sidecar();
  Result<std::uint64_t> offset_of(LineReader& reader, std::uint64_t seq) const;
  Result<TranscriptPage> page(const PageQuery& query) const;
  Result<bool> page_upwards(LineReader& reader, std::uint64_t low, std::uint64_t high, Gathering& page) const;
  Result<bool> page_downwards(LineReader& reader, std::uint64_t low, std::uint64_t high, Gathering& page) const;
  Result<std::optional<StoredLine>> find(std::string_view id) const;
  LineReader reader() const { return {fd.get(), tail.size, path.native()}; }

  // Whatever went wrong: if the file was rewritten under us, a fresh index makes it right.
  template <class Read>
  auto with_fresh_index_on_failure(Read read) -> decltype(read()) {
    if (auto result = read(); result) return result;
    seen = {};
    index = {};
    if (auto refreshed = refresh(); !refreshed) return std::unexpected(refreshed.error());
    return read();
  }
};

void Transcript::Impl::load_sidecar() {
  saved = 0;
  if (sidecar.empty()) return;
  const auto bytes = read_file(sidecar);  // none, or not readable: the file is scanned
  if (!bytes) return;
  if (auto stored = decode_sidecar(*bytes, seen.inode)) {
    index = std::move(*stored);
    saved = index.covered;
  }
}

Result<void> Transcript::Impl::refresh() {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) return std::unexpected(io_problem("stat", path.native(), errno));
    fd = {};
    seen = {};
    index = {};
    tail = {};
    return {};
  }
  if (!S_ISREG(status.st_mode)) return fail(Code::internal, fmt::format("{} is not a regular file", path.native()));
  if (fd && seen == identity(status)) return {};
  auto looked = look(status);
  if (!looked) seen = {};
  return looked;
}

Result<void> Transcript::Impl::look(const struct stat& at_path) {
  // The descriptor is held, so the inode cannot have been given to another file.
  struct stat status{};
  bool open =
      fd && ::fstat(fd.get(), &status) == 0 && status.st_ino == at_path.st_ino && status.st_dev == at_path.st_dev;
  if (!open) {
    auto opened = open_file(path, O_RDONLY | O_NONBLOCK);
    if (!opened) return std::unexpected(opened.error());
    fd = std::move(*opened);
    index = {};
    if (::fstat(fd.get(), &status) != 0) return std::unexpected(io_problem("stat", path.native(), errno));
  }
  seen = identity(status);
  if (!open) load_sidecar();
  auto fits = index.fits(fd.get(), seen.size, path.native());
  if (!fits) return std::unexpected(fits.error());
  if (!*fits) {
    index = {};
    saved = 0;
  }
  if (auto scanned = index.scan(fd.get(), seen.size, path.native()); !scanned) return scanned;
  return read_tail();
}

Result<void> Transcript::Impl::read_tail() {
  tail = {.exists = true,
          .has_header = index.has_header,
          .ends_in_newline = index.covered == seen.size,
          .size = seen.size,
          .count = index.lines,
          .last_id = index.last_id};
  if (tail.ends_in_newline) return {};
  LineReader lines = reader();
  auto line = lines.text(index.covered, tail.size);
  if (!line) return std::unexpected(line.error());
  const bool first = index.offsets.empty();
  if (first && tail.size <= longest_header && is_header(*line)) {
    tail.has_header = true;
    return {};
  }
  if (entry_type(*line) != "unreadable") tail.last_id = entry_id(*line, tail.count);
  ++tail.count;
  return {};
}

Result<std::uint64_t> Transcript::Impl::offset_of(LineReader& lines, std::uint64_t seq) const {
  if (seq == tail.count) return tail.size;
  if (index.offsets.empty()) return 0;  // one line without a newline is all there is
  std::uint64_t offset = index.offsets[seq / LineIndex::stride];
  auto begins = lines.begins_line(offset);
  if (!begins) return std::unexpected(begins.error());
  if (!*begins) return fail(Code::internal, fmt::format("{} was rewritten by another program", path.native()));
  for (std::uint64_t skip = seq % LineIndex::stride; skip > 0; --skip) {
    auto end = lines.end_of(offset);
    if (!end) return std::unexpected(end.error());
    offset = *end;
  }
  return offset;
}

Result<bool> Transcript::Impl::page_upwards(LineReader& lines, std::uint64_t low, std::uint64_t high,
                                            Gathering& page) const {
  auto begin = offset_of(lines, low);
  if (!begin) return std::unexpected(begin.error());
  for (std::uint64_t seq = low; seq < high; ++seq) {
    if (page.full()) return true;
    auto end = lines.end_of(*begin);
    if (!end) return std::unexpected(end.error());
    auto line = lines.text(*begin, *end);
    if (!line) return std::unexpected(line.error());
    if (!page.take(seq, *line)) return true;
    begin = end;
  }
  return false;
}

Result<bool> Transcript::Impl::page_downwards(LineReader& lines, std::uint64_t low, std::uint64_t high,
                                              Gathering& page) const {
  auto end = offset_of(lines, high);
  if (!end) return std::unexpected(end.error());
  for (std::uint64_t seq = high; seq-- > low;) {
    if (page.full()) return true;
    auto begin = lines.begin_of(*end);
    if (!begin) return std::unexpected(begin.error());
    auto line = lines.text(*begin, *end);
    if (!line) return std::unexpected(line.error());
    if (!page.take(seq, *line)) return true;
    end = begin;
  }
  return false;
}

Result<TranscriptPage> Transcript::Impl::page(const PageQuery& query) const {
  const std::uint64_t high = std::min(tail.count, query.before.value_or(tail.count));
  const bool none_after = query.after == std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t low = none_after ? high : query.after ? *query.after + 1 : 0;
  Gathering page(query);
  if (low >= high) return std::move(page).finish(false);
  LineReader lines = reader();
  auto more = query.descending ? page_downwards(lines, low, high, page) : page_upwards(lines, low, high, page);
  if (!more) return std::unexpected(more.error());
  return std::move(page).finish(*more);
}

Result<std::optional<StoredLine>> Transcript::Impl::find(std::string_view id) const {
  const bool may_be_derived = is_hex8(id);
  LineReader lines = reader();
  std::uint64_t end = tail.size;
  for (std::uint64_t seq = tail.count; seq-- > 0;) {
    auto begin = lines.begin_of(end);
    if (!begin) return std::unexpected(begin.error());
    auto line = lines.text(*begin, end);
    if (!line) return std::unexpected(line.error());
    // Only a line that can have this id is parsed: it holds it, or the id derived from it is this one.
    const bool holds = ::memmem(line->data(), line->size(), id.data(), id.size()) != nullptr;
    if ((holds || (may_be_derived && derived_id(*line, seq) == id)) && entry_id(*line, seq) == id)
      return StoredLine{.seq = seq, .line = std::string(*line)};
    end = *begin;
  }
  return std::nullopt;
}

Result<std::unique_ptr<Transcript>> Transcript::open(std::filesystem::path path, std::filesystem::path sidecar) {
  auto impl = std::make_unique<Impl>();
  impl->path = std::move(path);
  impl->sidecar = std::move(sidecar);
  if (auto refreshed = impl->refresh(); !refreshed) return std::unexpected(refreshed.error());
  return std::unique_ptr<Transcript>(new Transcript(std::move(impl)));
}

Transcript::Transcript(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Transcript::~Transcript() = default;

Result<void> Transcript::refresh() { return impl_->refresh(); }
const TranscriptTail& Transcript::tail() const { return impl_->tail; }

Result<TranscriptPage> Transcript::page(const PageQuery& query) {
  return impl_->with_fresh_index_on_failure([&] { return impl_->page(query); });
}

Result<std::optional<StoredLine>> Transcript::find(std::string_view entry_id) {
  return impl_->with_fresh_index_on_failure([&] { return impl_->find(entry_id); });
}

Result<void> Transcript::save_sidecar() {
  const LineIndex& index = impl_->index;
  if (impl_->sidecar.empty() || index.covered < no_sidecar_below || index.covered == impl_->saved) return {};
  if (auto made = make_dirs(impl_->sidecar.parent_path()); !made) return made;
  if (auto written = replace_file(impl_->sidecar, encode_sidecar(index, impl_->seen.inode)); !written) return written;
  impl_->saved = index.covered;
  return {};
}

}  // namespace sessiond
