// Bytes in, requests out: HTTP/1.1 and 1.0 as RFC 9112 has it, over Beast's parser and strict.hpp, without a socket or
// a clock. Holds the one read buffer of a connection; pipelined requests come out one by one. After a Problem it is of
// no further use.
#pragma once

#include <boost/asio/buffer.hpp>
#include <memory>
#include <string>

#include "daemon/http/message.hpp"
#include "daemon/http/strict.hpp"

namespace sessiond {

struct ReadLimits {
  HeaderLimits header{};
  std::uint64_t body_bytes = 8 << 20;
  std::size_t json_depth = 64;
};

class RequestReader {
 public:
  explicit RequestReader(const ReadLimits& limits);  // `limits` outlives it
  ~RequestReader();

  // Where the next bytes from the network go, and how many came.
  boost::asio::mutable_buffer prepare();
  void commit(std::size_t bytes) { end_ += bytes; }

  enum class Progress : std::uint8_t {
    need_more,
    head,      // framing() and the head of the request are known, the body is not yet read: returned once
    complete,  // `request` is whole; call next() before going on
  };
  // Goes as far as the bytes at hand allow. The same `request` is passed until it is complete.
  Result<Progress> advance(Request& request);
  void next();
  // For the rest of the current request's body, instead of limits.body_bytes.
  void limit_body(std::uint64_t bytes);

  bool started() const { return started_; }  // a byte of the current request has been seen
  bool head_known() const { return head_done_; }
  bool body_begun() const { return body_begun_; }  // a byte of its body has been seen
  const Framing& framing() const { return framing_; }

 private:
  class Parser;
  Result<bool> read_head(Request& request);
  Result<bool> read_body();
  std::string_view at_hand() const { return {buffer_.get() + begin_, end_ - begin_}; }

  const ReadLimits& limits_;
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::unique_ptr<Parser> parser_;
  HeaderScanner scanner_;
  Framing framing_;
  bool started_ = false;
  bool head_done_ = false;
  bool head_told_ = false;
  bool body_begun_ = false;
};

}  // namespace sessiond
