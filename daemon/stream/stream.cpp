#include "daemon/stream/stream.hpp"

#include <utility>

#include "daemon/stream/options.hpp"
#include "daemon/stream/position.hpp"
#include "daemon/stream/subscriber.hpp"

namespace sessiond {

Result<Response> open_stream(StreamContext& context, const Request& request, StreamScope scope) {
  auto options = stream_options(request, context.heartbeat_ms);
  if (!options) return std::unexpected(std::move(options.error()));
  auto asked = asked_position(request);
  if (!asked) return std::unexpected(std::move(asked.error()));
  auto filter = EventFilter::parse(request);
  if (!filter) return std::unexpected(std::move(filter.error()));

  Subscription subscription{
      .view = std::make_shared<const StreamView>(
          StreamView{.scope = std::move(scope), .filter = std::move(*filter), .principal = request.principal}),
      .options = *options,
      .asked = std::move(*asked),
      .request_id = request.request_id};
  Response response;
  response.content_type = "text/event-stream";
  response.headers = {{"Cache-Control", "no-store, no-transform"}, {"X-Accel-Buffering", "no"}};
  response.stream = [&context, subscription = std::move(subscription)](StreamWriter& writer) {
    return serve(context, subscription, writer);
  };
  return response;
}

}  // namespace sessiond
