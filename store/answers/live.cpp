#include "store/answers/live.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <system_error>

#include "store/fault_point.hpp"
#include "store/seal/keys.hpp"
#include "store/try.hpp"

namespace sessiond::answers {
namespace fs = std::filesystem;

constexpr std::size_t name_digits = 20;

fs::path segment_path(const fs::path& dir, std::int64_t first_time) {
  return dir / fmt::format("{:0{}}.jsonl", std::max<std::int64_t>(first_time, 0), name_digits);
}

Result<std::vector<std::int64_t>> list_segments(const fs::path& dir) {
  std::vector<std::int64_t> times;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().native();
    std::int64_t time = 0;
    const auto [stop, bad] = std::from_chars(name.data(), name.data() + std::min(name.size(), name_digits), time);
    if (bad == std::errc() && segment_path(dir, time).filename() == name) times.push_back(time);
  }
  if (error) return std::unexpected(io_problem("list", dir.native(), error.value()));
  std::ranges::sort(times);
  return times;
}

Result<std::shared_ptr<LiveAnswers>> LiveAnswers::load(const fs::path& path, std::vector<std::string>& found) {
  auto live = std::make_shared<LiveAnswers>(path);
  TRY(live->open());
  TRY(const auto end,
      scan_answers(live->file_.get(), path, found, [&](Answer answer, std::uint64_t offset, std::uint64_t length) {
        live->size_ = offset;
        live->hold(std::make_shared<const Answer>(std::move(answer)), length);
      }));
  if (::ftruncate(live->file_.get(), static_cast<off_t>(end)) != 0) return io_fail("truncate", path.native());
  live->size_ = live->written_ = end;
  live->unsynced_ = true;  // a killed process may have left bytes that are not on disk
  return live;
}

std::shared_ptr<const Answer> LiveAnswers::find(const Digest& scope) const {
  const auto it = held_.find(scope);
  return it == held_.end() ? nullptr : it->second.answer;
}

void LiveAnswers::hold(std::shared_ptr<const Answer> answer, std::uint64_t length) {
  newest_ = std::max(newest_, answer->time);
  const Digest scope = answer->scope;
  held_[scope] = {.answer = std::move(answer), .offset = size_, .length = static_cast<std::uint32_t>(length)};
  size_ += length;
}

void LiveAnswers::put(std::shared_ptr<const Answer> answer, const std::string& line) {
  hold(std::move(answer), line.size());
  pending_ += line;
}

Result<void> LiveAnswers::open() {
  if (file_) return {};
  TRY(file_, store::open_file(path_, O_RDWR | O_CREAT | O_APPEND));
  return store::sync_dir(path_.parent_path());
}

Result<void> LiveAnswers::write(std::mutex& mutex, bool with_sync) {
  TRY(seal::reserve());
  if (lost_) return make_again(mutex);
  {
    const std::scoped_lock lock(mutex);
    if (size_ == 0) return {};  // no file before there is an answer
  }
  TRY(open());
  std::string bytes;
  {
    const std::scoped_lock lock(mutex);
    bytes.swap(pending_);
  }
  if (auto written = store::write_all(file_.get(), bytes, path_.native()); !written) {
    const bool cut = ::ftruncate(file_.get(), static_cast<off_t>(written_)) == 0;
    lost_ = !cut;  // half a line is left
    const std::scoped_lock lock(mutex);
    pending_.insert(0, bytes);
    return written;
  }
  written_ += bytes.size();
  store::fault_point("answers.written");
  unsynced_ = unsynced_ || !bytes.empty();
  return with_sync ? sync() : Result<void>{};
}

Result<void> LiveAnswers::sync() {
  if (!unsynced_) return {};
  if (::fdatasync(file_.get()) != 0) {
    lost_ = true;
    return io_fail("fdatasync", path_.native());
  }
  store::fault_point("answers.synced");
  unsynced_ = false;
  return {};
}

Result<void> LiveAnswers::make_again(std::mutex& mutex) {
  std::string bytes;
  {
    const std::scoped_lock lock(mutex);
    std::vector<Held*> in_order;
    in_order.reserve(held_.size());
    for (auto& [scope, held] : held_) in_order.push_back(&held);
    std::ranges::sort(in_order, {}, &Held::offset);
    for (Held* held : in_order) {
      held->offset = bytes.size();
      bytes += stored_line(to_json(*held->answer));
      held->length = static_cast<std::uint32_t>(bytes.size() - held->offset);
    }
    pending_.clear();
    size_ = bytes.size();
  }
  // If this fails, the next call tries it again.
  TRY(store::replace_file(path_, bytes));
  TRY(file_, store::open_file(path_, O_RDWR | O_APPEND));
  written_ = bytes.size();
  unsynced_ = lost_ = false;
  return {};
}

std::vector<IndexEntry> LiveAnswers::index_entries() const {
  std::vector<IndexEntry> entries;
  entries.reserve(held_.size());
  for (const auto& [scope, held] : held_)
    entries.push_back({.scope = scope, .time = held.answer->time, .offset = held.offset, .length = held.length});
  return entries;
}

}  // namespace sessiond::answers
