// What a reader's connection carries: an HTTP response head, then Server-Sent Events, chunked or not. Nothing is copied
// unless an event comes in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sessiond::bench::stream {

class EventParser {
 public:
  // Calls on_event(block) for every event, without its empty line; throws std::runtime_error on what is no stream.
  template <class OnEvent>
  void feed(std::string_view bytes, OnEvent&& on_event) {
    if (status_ == 0) {
      kept_ += bytes;
      const std::size_t body = take_head();
      if (body == 0) return;
      const std::string rest = kept_.substr(body);
      kept_.clear();
      return feed(rest, on_event);
    }
    if (!chunked_) return events(bytes, on_event);
    while (!bytes.empty()) {
      const std::string_view data = next_chunk(bytes);
      if (!data.empty()) events(data, on_event);
    }
  }
  int status() const { return status_; }  // 0: the head is not complete

 private:
  template <class OnEvent>
  void events(std::string_view bytes, OnEvent& on_event) {
    if (kept_.empty()) {
      kept_ = bytes.substr(each(bytes, on_event));
    } else {
      kept_ += bytes;
      kept_.erase(0, each(kept_, on_event));
    }
  }
  template <class OnEvent>
  static std::size_t each(std::string_view bytes, OnEvent& on_event) {
    std::size_t from = 0;
    for (std::size_t at = bytes.find('\n'); at < bytes.size() - 1 && at != bytes.npos; at = bytes.find('\n', at)) {
      if (bytes[++at] != '\n') continue;
      on_event(bytes.substr(from, at - 1 - from));
      from = ++at;
    }
    return from;
  }

  std::size_t take_head();                               // where the body begins; 0: not yet
  std::string_view next_chunk(std::string_view& bytes);  // takes it off; empty: there was only framing

  std::string kept_{};  // of an event or a head that came in pieces
  int status_ = 0;
  bool chunked_ = false;
  std::size_t chunk_left_ = 0;    // data of the current chunk
  std::uint64_t chunk_size_ = 0;  // being read
  bool in_size_ = true;
};

}  // namespace sessiond::bench::stream
