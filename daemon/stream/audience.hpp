// The readers of one thread who see the same: one token, one route, one filter. What they are to be sent is found once
// for all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/stream/filter.hpp"
#include "daemon/stream/reader.hpp"

namespace sessiond {

class Audience {
 public:
  explicit Audience(std::shared_ptr<const StreamView> shared_view) : view(std::move(shared_view)) {}

  void join(Reader& reader);  // has everything up to `reached`
  // Its `next` is its own again. During a round of this audience its place stays empty until settle().
  void leave(Reader& reader, bool in_round);
  void settle();
  bool nobody_live() const { return live_count_ == 0; }

  const std::shared_ptr<const StreamView> view;
  std::vector<Reader*> live;  // null: left during a round
  std::uint64_t reached = 0;  // the live ones have everything up to here
  std::size_t readers = 0;    // in any state

 private:
  std::size_t live_count_ = 0;
};

class Audiences {
 public:
  // The one that sees what `view` shows; its view is then the one to use.
  std::shared_ptr<Audience> of(const std::shared_ptr<const StreamView>& view);
  void left(const std::shared_ptr<Audience>& audience);  // by a reader
  std::vector<std::shared_ptr<Audience>> all() const;

 private:
  std::unordered_map<std::string, std::shared_ptr<Audience>> by_view_;
};

}  // namespace sessiond
