#include "daemon/http/request_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cassert>
#include <cstring>
#include <optional>

#include "store/try.hpp"

namespace sessiond::http {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::size_t small_buffer = 4 << 10;     // ten thousand idle connections cost 40 MB
constexpr std::size_t read_size = 64 << 10;       // one read of a body takes at most this much
constexpr std::size_t max_extensions = 16 << 10;  // all chunk extensions of a body together

// Beast's parser for a chunked body, which it appends to `body`. Trailer fields are dropped: nothing may depend on
// them.
class Chunks final : public http::basic_parser<true> {
 public:
  Chunks(std::string& body, std::uint64_t limit) : body_(body) {
    eager(true);
    body_limit(limit);  // counted down by Beast, chunk by chunk
    // Beast reads chunks only behind a head.
    constexpr beast::string_view head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    beast::error_code error;
    put(boost::asio::buffer(head), error);
    assert(!error && is_header_done());
  }
  // Points into the last bytes that put() got; set when the body is done.
  const char* trailer() const { return trailer_; }

 private:
  void on_request_impl(http::verb, beast::string_view, beast::string_view, int, beast::error_code&) override {}
  void on_response_impl(int, beast::string_view, int, beast::error_code&) override {}
  void on_field_impl(http::field, beast::string_view, beast::string_view, beast::error_code&) override {}
  void on_header_impl(beast::error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, beast::error_code&) override {}
  std::size_t on_body_impl(beast::string_view, beast::error_code&) override { return 0; }  // has a length
  void on_chunk_header_impl(std::uint64_t size, beast::string_view extensions, beast::error_code& error) override {
    extensions_ += extensions.size();
    if (extensions_ > max_extensions || !chunk_extension_ok({extensions.data(), extensions.size()})) {
      error = http::error::bad_chunk_extension;
    }
    if (size == 0) trailer_ = extensions.data() + extensions.size() + 2;
  }
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view piece, beast::error_code&) override {
    body_.append(piece.data(), piece.size());
    return piece.size();
  }
  void on_finish_impl(beast::error_code&) override {}

  std::string& body_;
  std::size_t extensions_ = 0;
  const char* trailer_ = nullptr;
};

Problem malformed(const beast::error_code& error) {
  return {.code = Code::bad_request, .detail = fmt::format("not a valid chunked body (RFC 9112): {}", error.message())};
}

Problem long_trailer() {
  return {.code = Code::header_fields_too_large, .detail = "a chunk's header or the trailer is too long"};
}

Problem too_large(std::uint64_t limit) {
  return {.code = Code::content_too_large, .detail = fmt::format("the body is longer than {} bytes", limit)};
}

}  // namespace

// A parser of Beast's reads one message, so a new one is made in the same memory for each chunked body.
struct RequestReader::Parser {
  std::optional<Chunks> current;
};

RequestReader::RequestReader(const ReadLimits& limits) : limits_(limits), parser_(std::make_unique<Parser>()) {}
RequestReader::~RequestReader() = default;

boost::asio::mutable_buffer RequestReader::prepare() {
  if (begin_ == end_) begin_ = end_ = 0;
  if (!started_ && end_ == 0 && capacity_ > small_buffer) {  // frees what a large request needed
    buffer_.reset();
    capacity_ = 0;
  }
  const bool big_body = head_done_ && (framing_.chunked || framing_.length.value_or(0) > small_buffer);
  const std::size_t least = big_body ? read_size : small_buffer;
  if (end_ == capacity_ || capacity_ < least) {
    const std::size_t held = end_ - begin_;
    const std::size_t size = std::max(least, held * 2);
    if (size > capacity_) {
      auto larger = std::make_unique_for_overwrite<char[]>(size);
      if (held != 0) std::memcpy(larger.get(), buffer_.get() + begin_, held);
      buffer_ = std::move(larger);
      capacity_ = size;
    } else {
      std::memmove(buffer_.get(), buffer_.get() + begin_, held);
    }
    begin_ = 0;
    end_ = held;
  }
  return {buffer_.get() + end_, capacity_ - end_};
}

Result<RequestReader::Progress> RequestReader::advance(Request& request) {
  if (!head_done_) {
    TRY(const auto done, read_head(request));
    if (!done) return Progress::need_more;
  }
  if (!head_told_) {
    head_told_ = true;
    return Progress::head;
  }
  body_begun_ = body_begun_ || begin_ != end_;
  bool done = false;
  if (framing_.chunked) {
    TRY(done, read_chunks());
  } else {
    done = read_plain_body(request);
  }
  return done ? Progress::complete : Progress::need_more;
}

Result<bool> RequestReader::read_head(Request& request) {
  if (!started_) {
    // Empty lines before a request line are ignored (RFC 9112 §2.2).
    while (at_hand().starts_with("\r\n")) begin_ += 2;
    if (at_hand().empty() || at_hand() == "\r") return false;
    started_ = true;
  }
  // A request that is refused before it is parsed is still answered as its method requires: HEAD without a body.
  if (at_hand().starts_with("HEAD ")) request.method = "HEAD";
  TRY(const auto block, scanner_.scan(at_hand(), limits_.header));
  if (block == 0) return false;

  TRY(const auto line, parse_head(at_hand().substr(0, block), request));
  begin_ += block;
  TRY(framing_, check_head(request, line, limits_.header));
  left_ = framing_.length.value_or(0);
  if (left_ > limits_.body_bytes) return std::unexpected(too_large(limits_.body_bytes));
  // Reserves no more than this for a length that is only claimed so far.
  request.body.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(left_, 256 << 10)));
  if (framing_.chunked) parser_->current.emplace(request.body, limits_.body_bytes);
  head_done_ = true;
  return true;
}

// Reads a body with a length, or none.
bool RequestReader::read_plain_body(Request& request) {
  const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(left_, end_ - begin_));
  request.body.append(at_hand().substr(0, piece));
  begin_ += piece;
  left_ -= piece;
  return left_ == 0;
}

Result<bool> RequestReader::read_chunks() {
  Chunks& parser = *parser_->current;
  while (!parser.is_done() && begin_ != end_) {
    // Beast 1.81 asserts that it sees at least five bytes when it continues at a last chunk. A chunked body that is not
    // over has at least as many to come.
    if (at_hand().size() < 5) return false;
    beast::error_code error;
    const std::size_t used = parser.put(boost::asio::buffer(at_hand()), error);
    begin_ += used;
    if (error == http::error::body_limit) return std::unexpected(too_large(limits_.body_bytes));
    if (error == http::error::need_more) {
      if (at_hand().size() > limits_.header.header_bytes) return std::unexpected(long_trailer());
      return false;
    }
    if (error) return std::unexpected(malformed(error));
  }
  if (parser.is_done()) {
    const char* end = buffer_.get() + begin_;
    const std::string_view trailer(parser.trailer(), static_cast<std::size_t>(end - parser.trailer()));
    if (trailer.size() > limits_.header.header_bytes) return std::unexpected(long_trailer());
    if (!trailer_ok(trailer)) {
      return fail(Code::bad_request, "a line of the trailer starts with white space (obs-fold)");
    }
  }
  return parser.is_done();
}

void RequestReader::limit_body(std::uint64_t bytes) {
  if (parser_->current) parser_->current->body_limit(bytes);
}

void RequestReader::next() {
  parser_->current.reset();
  scanner_ = {};
  framing_ = {};
  started_ = head_done_ = head_told_ = body_begun_ = false;
}

}  // namespace sessiond::http
