#include "daemon/stream/client_set.hpp"

#include <fmt/format.h>

#include <cassert>
#include <utility>

#include "daemon/runtime/log.hpp"

namespace sessiond::stream {

std::string HubState::id(std::uint64_t seq) const { return fmt::format("{}-{}", context.journal.epoch(), seq); }

ClientSet::~ClientSet() {
  for (const auto& client : all_) client->close();
}

StreamClient& ClientSet::add(Subscription subscription, http::TakenSocket socket) {
  const auto client =
      std::make_shared<StreamClient>(hub_.executor, std::move(subscription), std::move(socket), hub_.counters.bytes);
  client->audience = audiences_.add_client(client->subscription.view);
  client->subscription.view = client->audience->view;
  client->hub_index = all_.size();
  all_.push_back(client);
  client->when_gone([this, gone = client.get()] {
    if (gone->state != StreamClient::State::closed) remove(*gone, "client");
  });
  return *client;
}

void ClientSet::enter(StreamClient& client, StreamClient::State to) {
  using enum StreamClient::State;
  assert(client.state != closed);
  if (client.state == live) client.audience->leave(client);
  client.state = to;
  if (to == live) {
    client.audience->join(client);
  } else if (to == ready) {
    ready_.push_back(client.shared_from_this());
    hub_.wake();
  } else if (to == blocked) {
    client.when_writable([this, waiting = &client] {
      if (waiting->state == blocked) enter(*waiting, ready);
    });
  }
}

void ClientSet::after_send(StreamClient& client, StreamClient::Sent sent) {
  using enum StreamClient::State;
  if (sent == StreamClient::Sent::gone) return remove(client, "client");
  enter(client, sent == StreamClient::Sent::all ? ready : blocked);
}

void ClientSet::begin_closing(StreamClient& client, std::string_view reason) {
  if (client.close_reason.empty()) client.close_reason = reason;
  enter(client, StreamClient::State::closing);
  client.last_progress = StreamClient::Clock::now();
  client.end_sending();
}

void ClientSet::remove(StreamClient& client, std::string_view reason) {
  const auto self = client.shared_from_this();
  enter(client, StreamClient::State::closed);
  client.close();
  const std::uint64_t at = client.cursor.reached();
  log::info("stream_closed", {{"requestId", client.subscription.request_id},
                              {"token", client.subscription.view->principal.id},
                              {"peer", client.peer},
                              {"reason", client.close_reason.empty() ? reason : client.close_reason},
                              {"position", hub_.id(at)},
                              {"lag", hub_.tail.head() - std::min(at, hub_.tail.head())},
                              {"lag_bytes", hub_.context.journal.bytes_after(at)}});
  audiences_.remove_client(*client.audience);
  all_[client.hub_index] = all_.back();
  all_[client.hub_index]->hub_index = client.hub_index;
  all_.pop_back();
}

std::shared_ptr<StreamClient> ClientSet::next_ready() {
  while (!ready_.empty()) {
    auto client = std::move(ready_.front());
    ready_.pop_front();
    if (client->state == StreamClient::State::ready) return client;
  }
  return nullptr;
}

}  // namespace sessiond::stream
