// The clients of one hub that are shown the same: one token, one route, one filter. The frames of a round are collected
// once for all of them. Belongs to the hub's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/stream/filter.hpp"
#include "daemon/stream/stream_client.hpp"

namespace sessiond::stream {

class Audience {
 public:
  explicit Audience(std::shared_ptr<const StreamView> shared_view) : view(std::move(shared_view)) {}
  Audience(const Audience&) = delete;
  Audience& operator=(const Audience&) = delete;

  // Adds a client that has everything up to reached(); its cursor follows reached() from now on.
  void join(StreamClient& client);
  void leave(StreamClient& client);
  bool nobody_live() const { return live_count_ == 0; }
  const std::vector<StreamClient*>& live() const { return live_; }  // null: it left while the audience is served
  std::uint64_t reached() const { return reached_; }                // the live clients have everything up to here

  // Between these two the live clients are sent one run of frames; those that leave keep their index empty, so that the
  // others keep theirs.
  void begin_serving();
  void end_serving(std::uint64_t reached);
  bool being_served() const { return being_served_; }
  // While nobody is live there is nothing to send: moves straight to the head of the log.
  void skip_to(std::uint64_t head);

  const std::shared_ptr<const StreamView> view;
  std::size_t clients = 0;  // in any state

 private:
  std::vector<StreamClient*> live_;
  std::size_t live_count_ = 0;
  std::uint64_t reached_ = 0;
  bool being_served_ = false;
};

class Audiences {
 public:
  // The audience that is shown what `view` shows, with one client more. Its own `view` replaces the caller's.
  std::shared_ptr<Audience> add_client(const std::shared_ptr<const StreamView>& view);
  void remove_client(Audience& audience);
  const std::unordered_map<std::string, std::shared_ptr<Audience>>& by_view() const { return by_view_; }

 private:
  std::unordered_map<std::string, std::shared_ptr<Audience>> by_view_;
};

}  // namespace sessiond::stream
