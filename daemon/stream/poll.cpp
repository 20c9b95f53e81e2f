// Long polling: pages of the same log, by the same view, for clients that cannot read a stream.
#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "daemon/http/hop.hpp"
#include "daemon/stream/frames.hpp"
#include "daemon/stream/look_back.hpp"
#include "daemon/stream/options.hpp"
#include "daemon/stream/streams.hpp"
#include "store/raw_json.hpp"

namespace sessiond {

namespace asio = boost::asio;

namespace {

struct Page {
  std::string events{};  // JSON, comma between
  std::uint64_t count = 0;
  std::uint64_t next = 0;  // seq to go on at

  void add(std::uint64_t seq, std::string_view json) {
    if (count++ != 0) events += ',';
    events += json;
    next = seq + 1;
  }
};

constexpr std::size_t most_bytes = 1 << 20;  // of a page, but for its last event

std::string gap_json(const std::string& from, const std::string& to, std::string_view reason) {
  std::string out;
  json::ObjectWriter writer(out);
  writer.string("from", from);
  writer.string("to", to);
  writer.string("reason", reason);
  writer.boolean("resync", true);
  writer.close();
  return out;
}

}  // namespace

asio::awaitable<Result<Response>> Streams::poll(const Request& request, StreamScope scope, const bool& draining) {
  auto options = stream_options(request, settings_.heartbeat_ms);
  if (!options) co_return std::unexpected(std::move(options.error()));
  auto asked = asked_position(request);
  if (!asked) co_return std::unexpected(std::move(asked.error()));
  auto filter = EventFilter::parse(request);
  if (!filter) co_return std::unexpected(std::move(filter.error()));
  if (*asked) co_await settle(**asked);
  const auto view = std::make_shared<const StreamView>(
      StreamView{.scope = std::move(scope), .filter = std::move(*filter), .principal = request.principal});
  const auto id = [this](std::uint64_t seq) { return fmt::format("{}-{}", context_.journal.epoch(), seq); };

  Page page{.next = tail_.head() + 1};
  std::string gap;
  if (*asked) {
    const bool same_epoch = (*asked)->epoch == context_.journal.epoch();
    if (same_epoch && (*asked)->seq <= tail_.head()) {
      page.next = (*asked)->seq + 1;
    } else {
      gap = gap_json(to_string(**asked), id(tail_.head()), same_epoch ? "ahead" : "epoch");
    }
  } else if (options->replay > 0) {
    const auto first = co_await look_back(tail_, context_.journal, context_.disk, view, options->replay,
                                          [&draining] { return !draining; });
    if (!first) co_return std::unexpected(first.error());
    page.next = *first;
  }

  asio::steady_timer timer(ledger_.io());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(options->wait_ms);
  const auto full = [&] { return page.count >= options->limit || page.events.size() >= most_bytes; };
  while (!full()) {
    const std::uint64_t head = tail_.head();
    if (page.next > head) {
      if (page.count > 0 || !gap.empty() || draining || std::chrono::steady_clock::now() >= deadline) break;
      timer.expires_at(deadline);
      const auto place = pollers_.insert(pollers_.end(), &timer);
      co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
      pollers_.erase(place);
      const auto now = context_.again(view->principal);
      if (!now) co_return std::unexpected(now.error());
    } else if (page.next >= tail_.oldest()) {
      const SharedBatch& batch = tail_.batch(page.next);
      const std::uint64_t seq = page.next++;
      if (view->shows(batch->envelope(seq))) page.add(seq, frames::data_of(batch->frames(seq, seq)));
    } else {
      auto stored = co_await hop(context_.disk.get_executor(), [this, view, from = page.next, head] {
        return read_stored(context_.journal, *view, from, head);
      });
      if (!stored) {
        const std::uint64_t oldest = context_.journal.oldest();
        if (stored.error().code != Code::bad_cursor || oldest <= page.next)
          co_return std::unexpected(std::move(stored.error()));
        if (page.count > 0) break;  // the gap is the next page's
        gap = gap_json(id(page.next - 1), id(oldest), "retention");
        page.next = oldest;
        continue;
      }
      std::size_t begin = 0;
      for (const FrameEnd& frame : stored->ends) {
        if (full()) break;
        page.add(frame.seq, frames::data_of(std::string_view(stored->text).substr(begin, frame.end - begin)));
        begin = frame.end;
      }
      if (!full() || stored->ends.empty()) page.next = stored->next;
    }
  }

  Response response;
  json::ObjectWriter out(response.body);
  out.raw("data", "[" + page.events + "]");
  out.string("next", id(page.next - 1));
  if (!gap.empty()) out.raw("gap", gap);
  out.close();
  co_return response;
}

}  // namespace sessiond
