#include "tests/unit/daemon/stream/stream_fixture.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/detached.hpp>

#include "store/json/raw_json.hpp"

namespace sessiond::stream_test {

std::vector<Frame> parse_frames(std::string_view text) {
  std::vector<Frame> out;
  Frame frame;
  bool any = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) break;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.empty()) {
      CHECK(any);  // no empty frames
      out.push_back(std::exchange(frame, {}));
      any = false;
      continue;
    }
    any = true;
    const std::size_t colon = line.find(": ");
    REQUIRE(colon != line.npos);
    const std::string_view field = line.substr(0, colon);
    const std::string value(line.substr(colon + 2));
    if (field.empty())
      frame.comment = value;
    else if (field == "id")
      frame.id = value;
    else if (field == "event")
      frame.type = value;
    else if (field == "data")
      frame.data = value;
    else if (field == "retry")
      frame.retry = value;
    else
      FAIL("unknown field");
  }
  return out;
}

Client::Client(asio::io_context& io) : socket_(io) {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
  socket_.assign({}, ends[0]);
  server_end_ = store::Fd(ends[1]);
  const int small = 4096;
  ::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
}

http::TakenSocket Client::server_end() { return {.fd = std::move(server_end_), .peer = "test", .slot = {}}; }

void Client::read() {
  reading_ = true;
  read_some();
}

void Client::read_some() {
  if (waiting_ || !reading_) return;
  waiting_ = true;
  socket_.async_read_some(asio::buffer(buffer_),
                          [self = shared_from_this()](const boost::system::error_code& error, std::size_t size) {
                            self->waiting_ = false;
                            self->take(size);
                            if (error) {
                              self->ended = true;
                            } else {
                              self->read_some();
                            }
                          });
}

// Looks for the id in whole frames only, and at each byte once or twice: a test asks for it after every read.
void Client::take(std::size_t size) {
  text.append(buffer_.data(), size);
  const std::size_t from = text.size() - size - std::min<std::size_t>(text.size() - size, 1);
  const std::size_t end = std::string_view(text).substr(from).rfind("\n\n");
  if (end == std::string_view::npos) return;
  const std::string_view fresh = std::string_view(text).substr(looked_at_, from + end + 1 - looked_at_);
  looked_at_ += fresh.size();
  const std::size_t at = fresh.rfind("id: ");
  if (at != fresh.npos) last_id_ = fresh.substr(at + 4, fresh.find('\n', at) - at - 4);
}

void Client::pause() { reading_ = false; }

void Client::hang_up() {
  ended = true;
  reading_ = false;
  boost::system::error_code ignored;
  socket_.close(ignored);
}

std::vector<std::string> Client::ids() const {
  std::vector<std::string> out;
  for (const Frame& frame : frames()) {
    if (!frame.data.empty() && !frame.id.empty() && !frame.type.starts_with("stream.")) out.push_back(frame.id);
  }
  return out;
}

std::optional<Frame> Client::first(std::string_view type) const {
  for (Frame& frame : frames()) {
    if (frame.type == type) return frame;
  }
  return std::nullopt;
}

Fixture::Fixture(config::Config changed, std::size_t threads) : base_(std::move(changed)), threads_(threads) {
  launch();
}

void Fixture::launch() {
  streams_.reset(new stream::Streams(base_.ledger(),
                                     {.journal = base_.ledger().parts().commits.journal(),
                                      .disk = base_.disk(),
                                      .again = [this](const auth::Principal& principal) -> Result<auth::Principal> {
                                        ++times_asked;
                                        return again ? again(principal) : principal;
                                      },
                                      .token_generation = [this] { return generation; }},
                                     {.heartbeat_ms = 100,
                                      .stall_timeout_ms = base_.config().stream.stall_timeout_ms,
                                      .coalesce_ms = base_.config().stream.coalesce_ms,
                                      .tail_bytes = base_.config().stream.tail_bytes},
                                     threads_));
}

void Fixture::stop() {
  for (const auto& client : clients_) client->hang_up();
  clients_.clear();
  base_.stop();
  streams_.reset();
  base_.drop();
}

Fixture::~Fixture() { stop(); }

void Fixture::restart() {
  stop();
  base_.open();
  launch();
}

std::uint64_t Fixture::commit(std::vector<Said> said) {
  const std::string agent = said.front().agent;
  if (agent.empty()) {
    for (const Said& one : said) {
      auto done = await(ledger().announce(one.type, "{\"text\":" + json::quote(one.text) + "}", "test"));
      REQUIRE_MESSAGE(done.has_value(), done.error().detail);
    }
    return head();
  }
  auto done = await(ledger().commit(
      agent, {.actor = "test"},
      [&said](const decide::AgentState&, const decide::Context& context,
              const decide::FetchedLines&) -> Result<decide::Decision> {
        decide::Decision decision;
        for (const Said& one : said) {
          const std::string text = "{\"text\":" + json::quote(one.text) + "}";
          const bool is_message = one.type == journal::EventType::message_appended;
          decision.events.push_back(
              decide::decode(journal::make_event({.seq = context.next_seq + decision.events.size(),
                                                  .time = context.now,
                                                  .type = one.type,
                                                  .agent = one.agent,
                                                  .key = one.key,
                                                  .channel = one.channel,
                                                  .topic = one.topic},
                                                 is_message ? R"({"set":{},"message":)" + text + "}" : text)));
        }
        return decision;
      },
      true));
  REQUIRE_MESSAGE(done.has_value(), done.error().detail);
  return head();
}

Result<http::Response> Fixture::ask(Query query, std::string last_event_id, stream::StreamScope scope,
                                    auth::Principal who) {
  http::Request request;
  request.method = "GET";
  request.path = "/v1/events";
  request.query = std::move(query);
  request.request_id = "r";
  request.principal = std::move(who);
  if (!last_event_id.empty()) request.headers.emplace_back("last-event-id", std::move(last_event_id));
  return await(streams_->open(request, std::move(scope)));
}

std::shared_ptr<Client> Fixture::open(Query query, std::string last_event_id, stream::StreamScope scope,
                                      auth::Principal who) {
  auto response = ask(std::move(query), std::move(last_event_id), std::move(scope), std::move(who));
  REQUIRE_MESSAGE(response.has_value(), response.error().detail);
  return start(std::move(*response));
}

std::shared_ptr<Client> Fixture::start(http::Response response, bool reading) {
  auto client = std::make_shared<Client>(base_.io());
  clients_.push_back(client);
  if (reading) client->read();
  response.take_over(client->server_end());
  return client;
}

}  // namespace sessiond::stream_test
