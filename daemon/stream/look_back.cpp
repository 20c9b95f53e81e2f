#include "daemon/stream/look_back.hpp"

#include <algorithm>

#include "daemon/runtime/run_on.hpp"
#include "daemon/stream/stored.hpp"

namespace sessiond::stream {
namespace {

constexpr std::size_t reach_bytes = 64 << 20;
constexpr std::size_t stride_bytes = 2 << 20;  // strides grow until one reads about this much
constexpr std::uint64_t longest_stride = 65'536;

}  // namespace

boost::asio::awaitable<Result<std::uint64_t>> look_back(const Tail& tail, const journal::Journal& journal,
                                                        boost::asio::thread_pool& disk,
                                                        std::shared_ptr<const StreamView> view, std::uint64_t n,
                                                        std::function<bool()> go_on) {
  std::uint64_t start = tail.head() + 1;
  std::uint64_t found = 0;
  std::uint64_t end = tail.oldest();  // events from here on have been looked at
  for (std::uint64_t seq = tail.head(); seq >= end && found < n; --seq) {
    if (!view->shows(tail.batch(seq)->envelope(seq))) continue;
    start = seq;
    ++found;
  }
  std::size_t looked_at = 0;
  for (std::uint64_t stride = 256; found < n && looked_at < reach_bytes && go_on();) {
    const std::uint64_t oldest = std::max<std::uint64_t>(journal.oldest(), 1);
    if (end <= oldest) break;
    const std::uint64_t from = end - std::min(stride, end - oldest);
    auto stored = co_await runtime::run_on(
        disk.get_executor(), [&journal, view, from, end] { return find_stored(journal, *view, from, end - 1); });
    if (!stored) {
      if (stored.error().code == Code::bad_cursor) break;  // retention has deleted them meanwhile
      co_return std::unexpected(std::move(stored.error()));
    }
    const std::uint64_t wanted = std::min<std::uint64_t>(n - found, stored->seqs.size());
    if (wanted > 0) start = stored->seqs[stored->seqs.size() - static_cast<std::size_t>(wanted)];
    found += wanted;
    if (stored->lost) break;  // a replay has no hole
    looked_at += stored->bytes;
    if (stored->bytes < stride_bytes) stride = std::min(stride * 2, longest_stride);
    end = from;
  }
  co_return start;
}

}  // namespace sessiond::stream
