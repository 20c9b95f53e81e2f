#include "daemon/stream/frames.hpp"

#include <fmt/format.h>

#include <iterator>

namespace sessiond::frames {
namespace {

constexpr std::size_t gather_bytes = 256 << 10;
constexpr std::size_t gather_events = 512;
constexpr std::size_t copied_bytes = 1024;  // up to here a copy costs less than a buffer of its own

}  // namespace

std::string retry(std::int64_t ms) { return fmt::format("retry: {}\n\n", ms); }

std::string event(std::string_view id, std::string_view type, std::string_view data) {
  if (id.empty()) return fmt::format("event: {}\ndata: {}\n\n", type, data);
  return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", id, type, data);
}

std::string position(std::string_view id) { return fmt::format("id: {}\n\n", id); }

std::string ping(bool as_event) { return as_event ? event({}, "ping", "{}") : ": ping\n\n"; }

std::string bye(std::int64_t retry_ms) { return event({}, "stream.bye", fmt::format(R"({{"retryMs":{}}})", retry_ms)); }

void Gather::add(const Event& event) {
  const std::size_t before = text_.size();
  fmt::format_to(std::back_inserter(text_), "id: {}-{}\nevent: {}\ndata: ", epoch_, event.envelope.seq,
                 name(event.envelope.type));
  if (event.json->size() <= copied_bytes) {
    text_ += *event.json;
  } else {
    bodies_.push_back({text_.size(), event.json});
    bytes_ += event.json->size();
  }
  text_ += "\n\n";
  bytes_ += text_.size() - before;
  ++count_;
}

bool Gather::full() const { return bytes_ >= gather_bytes || count_ >= gather_events; }

std::vector<std::string_view> Gather::buffers() const {
  std::vector<std::string_view> out;
  out.reserve(bodies_.size() * 2 + 1);
  const std::string_view text = text_;
  std::size_t from = 0;
  for (const Body& body : bodies_) {
    out.push_back(text.substr(from, body.at - from));
    out.push_back(*body.json);
    from = body.at;
  }
  out.push_back(text.substr(from));
  return out;
}

}  // namespace sessiond::frames
