// Long polling: pages of the same log with the same filters, for clients that cannot read a stream.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "daemon/runtime/run_on.hpp"
#include "daemon/stream/frames.hpp"
#include "daemon/stream/look_back.hpp"
#include "daemon/stream/options.hpp"
#include "daemon/stream/streams.hpp"
#include "store/json/raw_json.hpp"
#include "store/limits.hpp"
#include "store/try.hpp"

namespace sessiond::stream {

namespace asio = boost::asio;

namespace {

struct Page {
  std::string events{};  // JSON, separated by commas
  std::uint64_t count = 0;
  std::uint64_t next = 0;  // seq of the next event to look at

  void add(std::uint64_t seq, std::string_view json) {
    if (count++ != 0) events += ',';
    std::string held;
    events += json::as_sent(json, held);
    next = seq + 1;
  }
};

constexpr std::uint64_t looked_at_once = 4096;  // events of the tail, before other requests get their turn

}  // namespace

asio::awaitable<Result<http::Response>> Streams::poll(const http::Request& request, StreamScope scope,
                                                      const bool& draining) {
  CO_TRY(auto subscription, co_await subscribe(request, std::move(scope)));
  const StreamOptions& options = subscription.options;
  std::shared_ptr<const StreamView> view = subscription.view;
  const auto id = [this](std::uint64_t seq) { return fmt::format("{}-{}", context_.journal.epoch(), seq); };

  const auto gone = [&request] { return request.client_gone && request.client_gone(); };

  Page page{.next = tail_.head() + 1};
  std::string gap;
  if (const auto& asked = subscription.asked) {
    const auto reason = gap_reason(*asked, context_.journal.epoch(), tail_.head());
    if (reason) {
      gap = gap_data(to_string(*asked), id(tail_.head()), *reason);
    } else {
      page.next = asked->seq + 1;
    }
  } else if (options.replay > 0) {
    CO_TRY(page.next, co_await look_back(tail_, context_.journal, context_.disk, view, options.replay,
                                         [&] { return !draining && !gone(); }));
  }

  std::optional<http::Quota<std::string>::Slot> slot;
  asio::steady_timer timer(ledger_.parts().env.io);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(options.wait_ms);
  const auto full = [&] { return page.count >= options.limit || page.events.size() >= limits::page_bytes; };
  while (!full()) {
    const std::uint64_t head = tail_.head();
    if (page.next > head) {
      if (page.count > 0 || !gap.empty() || draining || std::chrono::steady_clock::now() >= deadline) break;
      if (!slot) {
        CO_TRY(slot, take_slot(view->principal));
      }
      timer.expires_at(deadline);
      const auto poller = pollers_.insert(pollers_.end(), &timer);
      co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
      pollers_.erase(poller);
      if (gone()) co_return fail(Code::request_timeout, "the client has gone");
      CO_TRY(auto now, context_.again(view->principal));
      std::string lineage = lineage_of(now, ledger_);  // the token's scope may have changed
      view = std::make_shared<const StreamView>(view->scope, view->filter, std::move(now), std::move(lineage));
    } else if (page.next >= tail_.oldest()) {
      const SharedBatch batch = tail_.batch(page.next);  // kept: the tail may drop it at the co_await
      const std::uint64_t seq = page.next++;
      if (seq % looked_at_once == 0) {
        co_await asio::post(ledger_.parts().env.io, asio::use_awaitable);
        if (gone()) co_return fail(Code::request_timeout, "the client has gone");
      }
      if (view->shows(batch->envelope(seq))) page.add(seq, frames::data_of(batch->frames(seq, seq)));
    } else {
      if (gone()) co_return fail(Code::request_timeout, "the client has gone");
      auto stored = co_await runtime::run_on(context_.disk.get_executor(), [this, view, from = page.next, head] {
        return read_stored(context_.journal, *view, from, head);
      });
      if (!stored) {
        const std::uint64_t oldest = context_.journal.oldest();
        if (stored.error().code != Code::bad_cursor || oldest <= page.next)
          co_return std::unexpected(std::move(stored.error()));
        if (page.count > 0 || !gap.empty()) break;  // the next page reports the gap
        gap = gap_data(id(page.next - 1), id(oldest), "retention");
        page.next = oldest;
        continue;
      }
      if (stored->lost) {
        if (page.count > 0 || !gap.empty()) break;
        const std::uint64_t next = std::min(stored->next, tail_.oldest());
        gap = gap_data(id(page.next - 1), id(next - 1), "damage");
        page.next = next;
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

  http::Response response;
  json::ObjectWriter out(response.body);
  out.raw("data", "[" + page.events + "]");
  out.string("next", id(page.next - 1));
  if (!gap.empty()) out.raw("gap", gap);
  out.close();
  co_return response;
}

}  // namespace sessiond::stream
