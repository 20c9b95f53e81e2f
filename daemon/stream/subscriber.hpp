// One open stream: what it was opened with, and the coroutine that serves it until the client goes, the token loses its
// right, the daemon drains or the journal cannot be read.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>

#include "daemon/http/message.hpp"
#include "daemon/stream/filter.hpp"
#include "daemon/stream/options.hpp"
#include "daemon/stream/position.hpp"
#include "daemon/stream/stream.hpp"

namespace sessiond {

struct Subscription {
  std::shared_ptr<const StreamView> view;
  StreamOptions options{};
  std::optional<Position> asked{};
  std::string request_id{};
};

boost::asio::awaitable<void> serve(StreamContext& context, Subscription subscription, StreamWriter& writer);

}  // namespace sessiond
