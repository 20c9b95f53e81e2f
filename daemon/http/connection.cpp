#include "daemon/http/connection.hpp"

#include <fmt/format.h>

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cerrno>
#include <charconv>

#include "daemon/http/as_result.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "policy/secret_scan.hpp"
#include "store/limits.hpp"

namespace sessiond::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::chrono::seconds linger_time{2};
constexpr std::size_t linger_bytes = 16 << 20;
constexpr std::uint64_t open_body_bytes = 4 << 10;  // on routes that need no token: a login

// Checks a long body on a disk thread, so that other requests are served meanwhile.
asio::awaitable<void> check_body(Service& service, Request& request) {
  const std::size_t depth = service.options.read.json_depth;
  request.checked = co_await runtime::run_on(service.disk.get_executor(),
                                             [&body = request.body, depth] { return check_json(body, depth); });
}

// Writes from the front of `buffers` as much as the socket takes without waiting; false when the connection is broken.
bool write_now(Connection::Socket& socket, std::span<asio::const_buffer>& buffers, Counters::Count& bytes_out) {
  // At most 16 writes: a fast reader of a large reply must not keep the thread from other connections.
  for (int round = 0; !buffers.empty() && round < 16; ++round) {
    error_code error;
    std::size_t taken = socket.write_some(buffers, error);
    if (error == asio::error::would_block || error == asio::error::try_again) return true;
    if (error) return false;
    add(bytes_out, taken);
    while (!buffers.empty() && taken >= buffers.front().size()) {
      taken -= buffers.front().size();
      buffers = buffers.subspan(1);
    }
    if (!buffers.empty()) buffers.front() += taken;
  }
  return true;
}

// Bytes of the reply that the daemon holds until the client has read them.
std::uint64_t in_memory(const Response& response) {
  return response.file ? std::min<std::uint64_t>(response.file->length, file_piece_bytes) : response.body.size();
}

// Counts a long body against limits.bytesPerToken while it is received.
std::optional<Problem> count_body(Service& service, const Request& request, InFlight::Share& body) {
  const std::string& who = request.principal.id;
  if (request.body.size() <= open_body_bytes || who.empty()) return std::nullopt;
  if (body.bytes() == 0) body = service.in_flight.take(who, request.body.size());
  body.resize(request.body.size());
  if (!service.in_flight.too_much(who, body, service.options.bytes_per_token)) return std::nullopt;
  return bytes_per_token_reached(who);
}

bool good_request_id(std::string_view id) {
  constexpr std::string_view fine = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !id.empty() && id.size() <= 128 && id.find_first_not_of(fine) == id.npos;
}

}  // namespace

bool Service::serves(const std::string& host) const {
  if (addresses.contains(host) || std::ranges::find(options.hosts, host) != options.hosts.end()) return true;
  error_code not_an_address;
  const asio::ip::address address = asio::ip::make_address(host, not_an_address);
  return !not_an_address && (any_address || addresses.contains(address.to_string()));
}

std::string Service::request_id(std::string_view sent) {
  // An id is logged, stored with denials and shown, so one that looks like a token is replaced.
  if (good_request_id(sent) && !policy::find_secret(sent)) return std::string(sent);
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), next_id++, 16).ptr;
  std::string id = id_prefix;
  id += '-';
  id.append(digits.begin(), end);
  return id;
}

void Counters::answered(int status, std::chrono::nanoseconds took) {
  const auto digit = static_cast<std::size_t>(std::clamp(status / 100, 0, 5));
  add(by_class[digit], 1);
  const double seconds = std::chrono::duration<double>(took).count();
  add(latency[static_cast<std::size_t>(std::ranges::lower_bound(bounds, seconds) - bounds.begin())], 1);
  add(latency_ns, static_cast<std::uint64_t>(took.count()));
}

Connection::Connection(std::shared_ptr<Service> service, Socket socket, Peer peer)
    : service_(std::move(service)),
      index_(service_->connections.size()),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      reader_(service_->options.read) {
  service_->connections.push_back(this);
  add(service_->counters.connections_total, 1);
  service_->counters.connections_open = service_->connections.size();
}

Connection::~Connection() {
  std::vector<Connection*>& all = service_->connections;
  all[index_] = all.back();
  all[index_]->index_ = index_;
  all.pop_back();
  service_->counters.connections_open = all.size();
  if (all.empty() && service_->on_empty) service_->on_empty();
}

void Connection::arm(Clock::duration timeout) {
  expired_ = false;
  deadline_ = Clock::now() + timeout;
}

// Called before every wait: if bytes came at the same moment as the tick, the tick has removed the deadline.
void Connection::arm_read() {
  const ServerOptions& options = service_->options;
  if (phase_ == Phase::idle && reader_.started()) {
    phase_ = Phase::reading;
    began_ = Clock::now();
  }
  expired_ = false;
  deadline_ = began_ + (phase_ == Phase::idle  ? options.idle_timeout
                        : reader_.head_known() ? options.request_timeout
                                               : std::min(options.header_timeout, options.request_timeout));
}

void Connection::tick(Clock::time_point now) {
  if (now < deadline_) return;
  deadline_ = never;
  expired_ = true;
  error_code ignored;
  socket_.cancel(ignored);
}

void Connection::drain() {
  error_code ignored;
  if (phase_ == Phase::idle) socket_.cancel(ignored);
}

void Connection::abort() {
  error_code ignored;
  socket_.close(ignored);
}

asio::awaitable<void> Connection::run() {
  error_code error;
  socket_.non_blocking(true, error);
  while (!error) {
    Request request;
    if (!co_await receive(request)) break;
    phase_ = Phase::answering;
    deadline_ = never;
    const std::string what = log::enabled(log::Level::debug) ? request.method + " " + request.path : std::string();
    const Clock::time_point start = Clock::now();
    if (request.body.size() > limits::checked_here) co_await check_body(*service_, request);
    Response response = co_await service_->router.handle(request);
    const bool is_json = response.content_type.ends_with("/json") || response.content_type.ends_with("+json");
    if (is_json && !response.verbatim) json::mend_surrogates(response.body);
    const Clock::duration took = Clock::now() - start;
    service_->counters.answered(response.status, took);
    if (!what.empty()) {
      log::debug("request", {{"requestId", request_id_},
                             {"peer", peer_.name},
                             {"what", what},
                             {"status", response.status},
                             {"us", std::chrono::duration_cast<std::chrono::microseconds>(took).count()}});
    }
    close_ = service_->draining || !reader_.framing().keep_alive || response.stream || response.take_over;
    if (!fit(request, response)) break;
    if (response.take_over && !head_only_) {
      co_await hand_over(response);
      break;
    }
    if (response.stream && !head_only_) {
      co_await reply_stream(response);
      break;
    }
    if (!response.file || head_only_) {
      std::array<asio::const_buffer, 2> parts = prepare(response);
      std::span<asio::const_buffer> rest(parts);
      if (!write_now(socket_, rest, service_->counters.bytes_out)) break;
      if (!rest.empty()) {  // most replies are taken by the socket at once
        const InFlight::Share unread = service_->in_flight.take(request.principal.id, response.body.size());
        if (!co_await write(rest)) break;
      }
    } else {
      const InFlight::Share unread = service_->in_flight.take(request.principal.id, in_memory(response));
      if (!co_await reply_file(request, response)) break;
    }
    if (close_) {
      co_await linger();
      break;
    }
  }
  socket_.close(error);
}

// Receives a request. False: there is none, and the client was told why, if there is a reason to tell.
asio::awaitable<bool> Connection::receive(Request& request) {
  reader_.next();
  body_.resize(0);
  request_id_.clear();
  phase_ = Phase::idle;
  began_ = Clock::now();
  for (;;) {
    Result<RequestReader::Progress> progress = reader_.advance(request);
    if (progress && *progress == RequestReader::Progress::head) {
      if (const std::optional<Problem> problem = arrived(request)) {
        progress = std::unexpected(*problem);
      } else {
        progress = reader_.advance(request);
        if (progress && *progress == RequestReader::Progress::need_more && !co_await may_send_body(request))
          co_return false;
        if (progress && *progress == RequestReader::Progress::need_more && reader_.framing().expects_continue &&
            !reader_.body_begun()) {
          asio::const_buffer interim[] = {asio::buffer(std::string_view("HTTP/1.1 100 Continue\r\n\r\n"))};
          if (!co_await write(interim)) co_return false;
        }
      }
    }
    if (!progress) {
      co_await refuse(request, progress.error());
      co_return false;
    }
    if (*progress == RequestReader::Progress::complete) co_return true;
    if (service_->draining && !reader_.started()) co_return false;
    arm_read();
    const auto [error, bytes] = co_await socket_.async_read_some(reader_.prepare(), as_result);
    if (error) {
      if (expired_ && phase_ == Phase::reading) {
        co_await refuse(request, {.code = Code::request_timeout, .detail = "the request was not received in time"});
      }
      co_return false;
    }
    add(service_->counters.bytes_in, bytes);
    reader_.commit(bytes);
    if (const auto problem = count_body(*service_, request, body_)) {
      co_await refuse(request, *problem);
      co_return false;
    }
  }
}

// Refuses a request before its body is received if it would be refused anyway: otherwise ten thousand clients without a
// token could send 8 MiB each. A short body is received in any case, so that the connection can be used again.
asio::awaitable<bool> Connection::may_send_body(Request& request) {
  if (!reader_.framing().chunked && reader_.framing().length.value_or(0) <= open_body_bytes) co_return true;
  Router::Early early = service_->router.before_body(request);
  if (early.open && !early.refusal) {
    reader_.limit_body(open_body_bytes);
    if (reader_.framing().chunked) co_return true;
    early.refusal = to_response({.code = Code::content_too_large,
                                 .detail = fmt::format("a body on this route has at most {} bytes", open_body_bytes)},
                                request);
  }
  if (!early.refusal) co_return true;
  phase_ = Phase::answering;
  close_ = true;
  service_->counters.answered(early.refusal->status, {});
  if (co_await reply(*early.refusal)) co_await linger();
  co_return false;
}

// Completes a request whose head was received, and checks that it is for this server.
std::optional<Problem> Connection::arrived(Request& request) {
  request.peer = peer_.name;
  request.local_admin = peer_.local_admin;
  request.secure = peer_.secure;
  request.certificate = peer_.certificate;
  request.proof = &proof_;
  request.has_room = [this](std::string_view token) {
    const std::uint64_t most = service_->options.bytes_per_token;
    const std::uint64_t others = service_->in_flight.of(token) - body_.bytes();
    return most == 0 || others < most;
  };
  request.client_gone = [this] {
    char byte = 0;
    const ssize_t got = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  };
  request.request_id = service_->request_id(request.header("x-request-id"));
  request_id_ = request.request_id;
  head_only_ = request.method == "HEAD";
  old_version_ = reader_.framing().minor == 0;
  const std::string& host = reader_.framing().host;
  // An https request that came without TLS is refused: its sender could be anyone on the way (RFC 9110 §7.4).
  if (reader_.framing().https && !peer_.secure && !peer_.unix_socket) {
    return Problem{.code = Code::misdirected_host, .detail = "the target is https, but this connection is not TLS"};
  }
  if (peer_.unix_socket || host.empty() || service_->serves(host)) return std::nullopt;
  return Problem{.code = Code::misdirected_host, .detail = fmt::format("{} is not a name of this server", host)};
}

// A read is answered 429 instead. A write has been done already, so its reply is sent, until the token has twice the
// limit. The reply is counted only once the socket has not taken all of it.
bool Connection::fit(const Request& request, Response& response) {
  const std::string& who = request.principal.id;
  const std::uint64_t most = service_->options.bytes_per_token;
  const std::uint64_t bytes = in_memory(response);
  if (!service_->in_flight.too_much_with(who, bytes, most)) return true;
  if (request.method == "GET" || request.method == "HEAD") {
    response = to_response(bytes_per_token_reached(who), request.path, request_id_);
    return true;
  }
  return !service_->in_flight.too_much_with(who, bytes, 2 * most);
}

void Connection::head(const Response& response, std::optional<std::uint64_t> length) {
  write_head(head_, response, request_id_, service_->date.now(),
             {.close = close_, .old_keep_alive = old_version_, .length = length});
}

// Writes the head. Returns head and body, which live as long as `response` and until the next head.
std::array<asio::const_buffer, 2> Connection::prepare(Response& response) {
  end_with_newline(response);
  const std::string_view body = response.fixed.empty() ? response.body : response.fixed;
  if (response.stream || response.take_over) {
    head(response, response.stream_length);
  } else {
    head(response, response.file ? response.file->length : body.size());
  }
  const bool bodiless = head_only_ || response.status == 204 || response.status == 304;
  return {asio::buffer(head_), asio::buffer(bodiless ? std::string_view{} : body)};
}

asio::awaitable<bool> Connection::reply(Response& response) {
  std::array<asio::const_buffer, 2> parts = prepare(response);
  co_return co_await write(parts);
}

asio::awaitable<void> Connection::refuse(const Request& request, const Problem& problem) {
  phase_ = Phase::answering;
  close_ = true;
  Request shown;
  shown.path = request.path;
  if (request_id_.empty()) request_id_ = service_->request_id(request.header("x-request-id"));
  shown.request_id = request_id_;
  shown.method = request.method;
  shown.peer = peer_.name;
  head_only_ = request.method == "HEAD";
  Response response = to_response(problem, shown);
  service_->router.tell(shown, nullptr, response);
  service_->counters.answered(response.status, {});
  log::debug(
      "refused",
      {{"requestId", request_id_}, {"peer", peer_.name}, {"status", response.status}, {"detail", problem.detail}});
  if (co_await reply(response)) co_await linger();
}

// Reads and discards input for a moment before closing: closing with unread bytes would send a reset, which can reach
// the client before the reply.
asio::awaitable<void> Connection::linger() {
  error_code error;
  socket_.shutdown(Socket::shutdown_send, error);
  if (error) co_return;
  phase_ = Phase::lingering;
  arm(std::min<Clock::duration>(linger_time, service_->options.stall_timeout));
  std::array<char, 2048> ignored;
  for (std::size_t total = 0; total < linger_bytes;) {
    const auto [end, bytes] = co_await socket_.async_read_some(asio::buffer(ignored), as_result);
    if (end || expired_) co_return;
    total += bytes;
  }
}

asio::awaitable<bool> Connection::write(std::span<asio::const_buffer> buffers) {
  while (write_now(socket_, buffers, service_->counters.bytes_out)) {
    if (buffers.empty()) {
      deadline_ = never;
      co_return true;
    }
    arm(service_->options.stall_timeout);
    const auto [error] = co_await socket_.async_wait(Socket::wait_write, as_result);
    if (error) break;
  }
  deadline_ = never;
  co_return false;
}

}  // namespace sessiond::http
