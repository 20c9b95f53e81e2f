#include "transcripts/staged.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <atomic>
#include <system_error>
#include <utility>

#include "store/try.hpp"
#include "transcripts/line_index.hpp"
#include "transcripts/sealed_lines.hpp"

namespace sessiond::transcripts {
namespace {

constexpr std::string_view staged_suffix = ".staged.tmp";
constexpr std::size_t staged_at_once = 256 << 10;  // bytes that one write takes

// Names this run of the process. Process ids come again, in a container with each start.
const std::string& this_run() {
  static const std::string run = store::random_hex(8);
  return run;
}

}  // namespace

std::string_view staged_for(std::string_view name) {
  constexpr std::string_view extension = ".jsonl";
  if (!name.ends_with(staged_suffix) || name.contains('/')) return {};
  const std::size_t end = name.rfind(".jsonl.");
  return end == std::string_view::npos ? std::string_view() : name.substr(0, end + extension.size());
}

bool is_left_staged(std::string_view name) {
  const std::string_view file = staged_for(name);
  return !file.empty() && !name.substr(file.size() + 1).starts_with(this_run() + '.');
}

StagedTranscript::StagedTranscript(std::filesystem::path folder, std::string name, store::Fd fd)
    : folder_(std::move(folder)), name_(std::move(name)), fd_(std::move(fd)) {}

StagedTranscript::StagedTranscript(StagedTranscript&& other) noexcept
    : folder_(std::move(other.folder_)),
      name_(std::exchange(other.name_, {})),
      fd_(std::move(other.fd_)),
      unwritten_(std::move(other.unwritten_)),
      next_(other.next_),
      has_header_(other.has_header_),
      kept_(other.kept_) {}

StagedTranscript::~StagedTranscript() {
  if (name_.empty() || kept_) return;
  std::error_code ignored;  // the next start removes it
  std::filesystem::remove(folder_ / name_, ignored);
}

Result<StagedTranscript> StagedTranscript::create(const std::filesystem::path& folder, std::string_view file) {
  static std::atomic<std::uint64_t> count = 0;
  std::string name = fmt::format("{}.{}.{}{}", file, this_run(), ++count, staged_suffix);
  TRY(store::make_dirs(folder));
  TRY(auto fd, store::open_file(folder / name, O_WRONLY | O_CREAT | O_EXCL));
  return StagedTranscript(folder, std::move(name), std::move(fd));
}

Result<void> StagedTranscript::add(std::string_view line) {
  if (const seal::Draw draw = seal::draw()) {
    const bool header = next_ == 0 && !has_header_ && is_header(line);
    has_header_ = has_header_ || header;
    seal::append_sealed(unwritten_, line, draw,
                        {seal_scope((folder_ / name_).native()), header ? header_seq : next_++});
    unwritten_.push_back('\n');
  } else {
    unwritten_.append(line).push_back('\n');
  }
  return unwritten_.size() < staged_at_once ? Result<void>{} : write();
}

Result<void> StagedTranscript::finish() {
  TRY(write());
  TRY(store::sync_file(fd_.get(), folder_ / name_));
  fd_ = {};
  return store::sync_dir(folder_);
}

Result<void> StagedTranscript::write() {
  TRY(seal::reserve());
  TRY(store::write_all(fd_.get(), unwritten_, (folder_ / name_).native()));
  unwritten_.clear();
  return {};
}

}  // namespace sessiond::transcripts
