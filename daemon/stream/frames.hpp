// The text of a stream, Server-Sent Events as the HTML standard has them: fields a line, an empty line behind each
// event. `data` is always one line of JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/event.hpp"
#include "store/journal.hpp"

namespace sessiond::frames {

std::string retry(std::int64_t ms);
std::string event(std::string_view id, std::string_view type, std::string_view data);  // empty id: none
std::string position(std::string_view id);  // sets the client's last id, dispatches nothing
std::string ping(bool as_event);
std::string bye(std::int64_t retry_ms);

// The events of one write, about 256 KiB of them, at least one. Big ones stay where they are and are kept alive.
class Gather {
 public:
  explicit Gather(std::string_view epoch) : epoch_(epoch) {}

  void add(const Event& event);
  bool empty() const { return count_ == 0; }
  bool full() const;
  std::vector<std::string_view> buffers() const;  // valid until the next add

 private:
  struct Body {
    std::size_t at;  // stands in text_ before this offset's character
    Bytes json;
  };
  std::string_view epoch_;
  std::string text_;
  std::vector<Body> bodies_;
  std::size_t bytes_ = 0;
  std::size_t count_ = 0;
};

}  // namespace sessiond::frames
