// Turns bytes into requests: HTTP/1.1 and 1.0 of RFC 9112, with the refusals of strict.hpp. Beast's parser reads
// chunked bodies. Knows neither a socket nor a clock. Holds the read buffer of a connection; pipelined requests are
// returned one by one. Once it has returned a Problem it cannot be used any more.
#pragma once

#include <boost/asio/buffer.hpp>
#include <memory>

#include "daemon/http/message.hpp"
#include "daemon/http/strict.hpp"

namespace sessiond::http {

struct ReadLimits {
  HeaderLimits header{};
  std::uint64_t body_bytes = 8 << 20;
  std::size_t json_depth = 64;
};

class RequestReader {
 public:
  explicit RequestReader(const ReadLimits& limits);  // `limits` outlives the reader
  ~RequestReader();

  // Returns where the next bytes from the network go; commit() says how many came.
  boost::asio::mutable_buffer prepare();
  void commit(std::size_t bytes) { end_ += bytes; }

  enum class Progress : std::uint8_t {
    need_more,
    head,      // the head of the request and framing() are known, the body is not read yet; returned once a request
    complete,  // `request` is whole; call next() before the next one
  };
  // Parses the bytes received so far. The same `request` is passed until it is complete.
  Result<Progress> advance(Request& request);
  void next();
  // Replaces limits.body_bytes for the rest of the current request's body, if it is chunked.
  void limit_body(std::uint64_t bytes);

  bool started() const { return started_; }  // a byte of the current request was received
  bool head_known() const { return head_done_; }
  bool body_begun() const { return body_begun_; }  // a byte of its body was received
  const Framing& framing() const { return framing_; }

 private:
  struct Parser;
  Result<bool> read_head(Request& request);
  bool read_plain_body(Request& request);
  Result<bool> read_chunks();
  std::string_view at_hand() const { return {buffer_.get() + begin_, end_ - begin_}; }

  const ReadLimits& limits_;
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::unique_ptr<Parser> parser_;
  HeaderScanner scanner_;
  Framing framing_;
  std::uint64_t left_ = 0;  // of a body with a length
  bool started_ = false;
  bool head_done_ = false;
  bool head_told_ = false;
  bool body_begun_ = false;
};

}  // namespace sessiond::http
