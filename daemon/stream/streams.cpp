#include "daemon/stream/streams.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "daemon/stream/options.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::stream {

namespace asio = boost::asio;

std::string lineage_of(const auth::Principal& who, const ledger::Ledger& ledger) {
  return who.key.empty() ? "" : ledger.parts().env.lineage.tag(who.agents.front(), who.key);
}

// Pollers are woken to look again at the tail, at their token and at `draining`.
void Streams::wake_pollers() {
  for (asio::steady_timer* poller : pollers_) poller->cancel();
}

Streams::Streams(ledger::Ledger& ledger, StreamContext context, StreamSettings settings, std::size_t threads)
    : ledger_(ledger),
      context_(std::move(context)),
      settings_(settings),
      tail_(ledger.parts().commits.durable(), settings.tail_bytes),
      stop_timer_(ledger.parts().env.io),
      ephemeral_(ledger.parts().env.io, [this](std::vector<journal::Event> events) { pass_on(std::move(events)); }) {
  if (threads <= 1) {
    own_ = std::make_unique<Hub>(context_, settings_, counters_, ledger.parts().env.io.get_executor(),
                                 ledger.parts().commits.durable());
  }
  for (std::size_t number = 1; number < threads; ++number) {
    auto made = std::make_unique<Thread>();
    made->hub = std::make_unique<Hub>(context_, settings_, counters_, made->io.get_executor(),
                                      ledger.parts().commits.durable());
    made->thread = std::jthread([&io = made->io] {
      const auto work = asio::make_work_guard(io);
      io.run();
    });
    threads_.push_back(std::move(made));
  }
  ledger_.on_events([this](std::vector<journal::Event> events) { deliver(std::move(events)); },
                    [this](std::vector<journal::Event> events) { pass_on(std::move(events)); });
}

Streams::~Streams() {
  ledger_.on_events(nullptr, nullptr);
  for (const auto& thread : threads_) {
    thread->io.stop();
    thread->thread.join();
  }
}

// Calls call(hub) for every hub, on its thread.
template <class Call>
void Streams::each_hub(const Call& call) {
  if (own_) return call(*own_);
  for (const auto& thread : threads_) asio::post(thread->io, [call, hub = thread->hub.get()] { call(*hub); });
}

void Streams::deliver(std::vector<journal::Event> events) {
  ephemeral_.before(events);
  const auto batch = std::make_shared<const StreamBatch>(context_.journal.epoch(), std::move(events));
  tail_.push(batch);
  each_hub([batch](Hub& hub) { hub.deliver(batch); });
  wake_pollers();
}

void Streams::pass_on(std::vector<journal::Event> events) {
  ephemeral_.before(events);
  const auto batch = std::make_shared<const StreamBatch>(context_.journal.epoch(), std::move(events));
  each_hub([batch](Hub& hub) { hub.publish(batch); });
}

void Streams::publish(Ephemeral event) {
  if (!ephemeral_.add(std::move(event), std::chrono::milliseconds(settings_.coalesce_ms))) ++counters_.dropped;
}

asio::awaitable<Result<Subscription>> Streams::subscribe(const http::Request& request, StreamScope scope) {
  CO_TRY(auto options, stream_options(request, settings_.heartbeat_ms));
  CO_TRY(auto asked, asked_position(request));
  if (asked && asked->seq < scope.after && asked->epoch == ledger_.parts().commits.journal().epoch())
    co_return fail(Code::bad_cursor, "the session of this position was purged; another one has its id");
  CO_TRY(auto filter, EventFilter::parse(request));
  // A client may ask for the position of a reply that it got before the event was durable (202). Such a position is
  // ahead of the tail only for a moment, so it is waited for.
  if (asked && asked->epoch == ledger_.parts().commits.journal().epoch() && asked->seq > tail_.head() &&
      asked->seq <= ledger_.parts().commits.last()) {
    if (const auto settled = co_await ledger_.wait_until_durable(asked->seq); !settled)
      log::debug("stream_asked_for_what_was_not_stored", {{"seq", asked->seq}});
  }
  co_return Subscription{
      .id = next_id_++,
      .view = std::make_shared<const StreamView>(StreamView{.scope = std::move(scope),
                                                            .filter = std::move(filter),
                                                            .principal = request.principal,
                                                            .lineage = lineage_of(request.principal, ledger_)}),
      .options = options,
      .asked = std::move(asked),
      .request_id = request.request_id};
}

Result<http::Quota<std::string>::Slot> Streams::take_slot(const auth::Principal& who) {
  if (who.id == "local") return nullptr;
  if (auto slot = quota_.take(who.id, settings_.streams_per_token)) return std::move(*slot);
  return std::unexpected(Problem{.code = Code::too_many_requests,
                                 .detail = fmt::format("token {} has as many open streams as limits.streamsPerToken "
                                                       "allows, which is {}",
                                                       who.id, settings_.streams_per_token),
                                 .members = {{"limit", json::quote("streamsPerToken")}},
                                 .retry_after_s = 5});
}

asio::awaitable<Result<http::Response>> Streams::open(const http::Request& request, StreamScope scope) {
  CO_TRY(auto subscription, co_await subscribe(request, std::move(scope)));
  CO_TRY(auto slot, take_slot(request.principal));
  http::Response response;
  response.content_type = "text/event-stream";
  response.headers = {{"Cache-Control", "no-store, no-transform"}, {"X-Accel-Buffering", "no"}};
  response.take_over = [this, subscription = std::move(subscription),
                        slot = std::move(slot)](http::TakenSocket socket) mutable {
    socket.slot =
        std::make_shared<std::array<std::shared_ptr<void>, 2>>(std::array{std::move(socket.slot), std::move(slot)});
    take(std::move(subscription), std::move(socket));
  };
  co_return response;
}

void Streams::take(Subscription subscription, http::TakenSocket socket) {
  if (own_) return own_->open(std::move(subscription), std::move(socket));
  Thread& thread = *threads_[turn_++ % threads_.size()];
  asio::post(thread.io,
             [hub = thread.hub.get(), subscription = std::move(subscription), socket = std::move(socket)]() mutable {
               hub->open(std::move(subscription), std::move(socket));
             });
}

void Streams::check_tokens() {
  wake_pollers();
  each_hub([](Hub& hub) { hub.check_tokens(); });
}

void Streams::reconfigure(StreamSettings settings) {
  settings_ = settings;
  tail_.limit(settings.tail_bytes);
  each_hub([settings](Hub& hub) { hub.reconfigure(settings); });
}

void Streams::drain() {
  wake_pollers();
  each_hub([](Hub& hub) { hub.drain(); });
}

// Calls call(hub) for every hub, on its thread, one after the other, while the caller waits.
template <class Call>
asio::awaitable<void> Streams::visit_hubs(Call call) {
  if (own_) call(*own_);
  for (const auto& thread : threads_) {
    co_await runtime::run_on(thread->io.get_executor(), [&call, &hub = *thread->hub] {
      call(hub);
      return true;
    });
  }
}

asio::awaitable<void> Streams::stopped(std::chrono::milliseconds grace) {
  const auto deadline = std::chrono::steady_clock::now() + grace;
  constexpr std::chrono::milliseconds look{20};
  for (;;) {
    std::size_t clients = 0;
    co_await visit_hubs([&clients](Hub& hub) { clients += hub.clients(); });
    if (clients == 0 || std::chrono::steady_clock::now() >= deadline) break;
    stop_timer_.expires_after(look);
    co_await stop_timer_.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  each_hub([](Hub& hub) { hub.close_all(); });
}

asio::awaitable<bool> Streams::any(std::function<bool(const StreamView&)> wanted) {
  bool found = false;
  co_await visit_hubs([&found, &wanted](Hub& hub) { found = found || hub.any(wanted); });
  co_return found;
}

asio::awaitable<std::vector<StreamInfo>> Streams::list() {
  std::vector<StreamInfo> all;
  co_await visit_hubs([&all](Hub& hub) { std::ranges::move(hub.describe(), std::back_inserter(all)); });
  co_return all;
}

asio::awaitable<std::uint64_t> Streams::most_lag() {
  std::uint64_t most = 0;
  co_await visit_hubs([&most](Hub& hub) { most = std::max(most, hub.most_lag()); });
  co_return most;
}

asio::awaitable<bool> Streams::close(std::uint64_t id) {
  bool closed = false;
  co_await visit_hubs([&closed, id](Hub& hub) { closed = closed || hub.close(id, "admin"); });
  co_return closed;
}

}  // namespace sessiond::stream
