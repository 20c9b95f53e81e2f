#include "daemon/http/strict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <ranges>
#include <utility>

#include "daemon/http/target.hpp"
#include "store/names.hpp"
#include "store/number.hpp"
#include "store/try.hpp"

namespace sessiond::http {
namespace {

constexpr std::size_t max_method = 32;  // bytes of the request line for method, version and spaces
// A field of three bytes takes seventy in memory: a header block full of them would take a quarter of a MiB.
constexpr std::size_t max_fields = 100;

// Fields that may come once, besides Host and Content-Length. If there were two, a proxy could believe one and the
// daemon the other.
constexpr std::string_view singletons[] = {
    "authorization", "content-type", "idempotency-key", "if-range", "last-event-id", "origin", "range"};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool alnum(char c) { return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z'); }
bool token_char(char c) { return alnum(c) || std::string_view("!#$%&'*+-.^_`|~").contains(c); }

// Checks as much of a request line as was received: a method and the space after it.
bool may_become_request_line(std::string_view line) {
  const std::size_t space = line.substr(0, max_method + 1).find(' ');
  if (space == std::string_view::npos && line.size() > max_method) return false;
  return space != 0 && std::ranges::all_of(line.substr(0, std::min(space, line.size())), token_char);
}

Problem too_long(std::size_t limit) {
  return {.code = Code::uri_too_long, .detail = fmt::format("the request target is longer than {} bytes", limit)};
}

// Calls `element` with each trimmed element of a comma-separated list.
template <class Element>
void for_each_element(std::string_view list, Element element) {
  for (const auto item : std::views::split(list, ',')) element(store::trim(std::string_view(item)));
}

// Returns the host of uri-host [ ":" port ] (RFC 9110 §7.2) in lower case, without port and brackets.
Result<std::string> host_of(std::string_view authority) {
  const auto bad = [&] { return fail(Code::bad_request, "the Host is malformed"); };
  std::string_view host = authority;
  std::string_view port;
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    if (end == std::string_view::npos) return bad();
    host = authority.substr(1, end - 1);
    port = authority.substr(end + 1);
    const auto in_address = [](char c) { return (alnum(c) && lower(c) <= 'f') || c == ':' || c == '.'; };
    if (!std::ranges::all_of(host, in_address)) return bad();
  } else {
    const std::size_t colon = std::min(authority.find(':'), authority.size());
    host = authority.substr(0, colon);
    port = authority.substr(colon);
    const auto in_name = [](char c) { return alnum(c) || std::string_view("-._~!$&'()*+,;=%").contains(c); };
    if (!std::ranges::all_of(host, in_name)) return bad();
  }
  if (host.empty()) return bad();
  if (!port.empty()) {
    if (port[0] != ':' || port.find_first_not_of("0123456789", 1) != port.npos) return bad();
  }
  return store::lower(host);
}

// The values of the fields that decide about framing.
struct Fields {
  std::optional<std::string_view> host, length, transfer_encoding;
  bool close = false, keep_alive = false, expects_continue = false;
  std::array<bool, std::size(singletons)> seen{};
};

Result<Fields> collect(const Request& request) {
  Fields fields;
  const auto once = [](std::optional<std::string_view>& slot, std::string_view name,
                       std::string_view value) -> Result<void> {
    if (slot) return fail(Code::bad_request, fmt::format("more than one {} field", name));
    slot = value;
    return {};
  };
  for (const auto& [name, value] : request.headers) {
    Result<void> fine;
    if (name == "host") {
      fine = once(fields.host, "Host", value);
    } else if (name == "content-length") {
      fine = once(fields.length, "Content-Length", value);
    } else if (name == "transfer-encoding") {
      fine = once(fields.transfer_encoding, "Transfer-Encoding", value);
    } else if (name == "connection") {
      for_each_element(value, [&](std::string_view option) {
        fields.close |= store::equals_nocase(option, "close");
        fields.keep_alive |= store::equals_nocase(option, "keep-alive");
      });
    } else if (name == "expect") {
      for_each_element(
          value, [&](std::string_view what) { fields.expects_continue |= store::equals_nocase(what, "100-continue"); });
    } else if (const auto* one = std::ranges::find(singletons, name); one != std::end(singletons)) {
      if (std::exchange(fields.seen[static_cast<std::size_t>(one - singletons)], true)) {
        fine = fail(Code::bad_request, fmt::format("more than one {} field", name));
      }
    }
    if (!fine) return std::unexpected(std::move(fine.error()));
  }
  return fields;
}

// Joins Cookie fields that a client or proxy has split (RFC 9113 §8.2.3).
void join_cookies(Request& request) {
  std::string* first = nullptr;
  std::erase_if(request.headers, [&first](auto& field) {
    if (field.first != "cookie") return false;
    if (first == nullptr) {
      first = &field.second;
      return false;
    }
    first->append("; ").append(field.second);
    return true;
  });
}

struct Authority {
  std::string host;  // with the port
  bool https = false;
};

// Splits a target in origin, absolute or asterisk form (RFC 9112 §3.2). Returns the authority of the absolute form,
// which replaces Host.
Result<std::optional<Authority>> take_target(Request& request, const HeaderLimits& limits) {
  std::string& target = request.target;
  if (target.size() > limits.target_bytes) return std::unexpected(too_long(limits.target_bytes));
  for (const char c : target) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f) return fail(Code::bad_request, "the target holds a byte outside printable ASCII");
    if (c == '#') return fail(Code::bad_request, "the target holds a fragment");
  }
  std::optional<Authority> authority;
  // Authority form (RFC 9110 §9.3.6): the router answers it 405.
  if (request.method == "CONNECT" && !target.starts_with('/') && target != "*") {
    TRY(host_of(target));
    request.path = target;
    return authority;
  }
  if (!target.starts_with('/') && target != "*") {
    const std::size_t scheme = target.find("://");
    const bool https = store::equals_nocase(std::string_view(target).substr(0, scheme), "https");
    if (scheme == std::string::npos ||
        !(https || store::equals_nocase(std::string_view(target).substr(0, scheme), "http"))) {
      return fail(Code::bad_request, "the target must be a path");
    }
    const std::size_t path = std::min(target.find_first_of("/?", scheme + 3), target.size());
    authority = Authority{.host = target.substr(scheme + 3, path - scheme - 3), .https = https};
    target.erase(0, path);
    if (!target.starts_with('/')) target.insert(0, "/");
  }
  if (target == "*" && request.method != "OPTIONS") {
    return fail(Code::bad_request, "the target * is for OPTIONS only");
  }
  const std::size_t query = std::min(target.find('?'), target.size());
  request.path.assign(target, 0, query);
  // A URI must not hold these (RFC 3986), and browsers encode them. Some proxies read a backslash as a slash.
  if (request.path.find_first_of("\\\"<>{}`") != std::string::npos) {
    return fail(Code::bad_request, "the path holds a character that must be percent-encoded");
  }
  if (query < target.size()) {
    TRY(request.query, split_query(std::string_view(target).substr(query + 1)));
  }
  return authority;
}

Result<void> take_body_framing(Framing& framing, const Fields& fields, int minor) {
  if (fields.transfer_encoding) {
    if (minor == 0) return fail(Code::bad_request, "Transfer-Encoding in HTTP/1.0");
    if (fields.length) return fail(Code::bad_request, "both Transfer-Encoding and Content-Length");
    if (!store::equals_nocase(*fields.transfer_encoding, "chunked")) {
      return fail(Code::bad_request, "Transfer-Encoding must be chunked, once, and nothing else");
    }
    framing.chunked = true;
  }
  if (fields.length) {
    framing.length = store::parse_number<std::uint64_t>(*fields.length);
    if (!framing.length) return fail(Code::bad_request, "Content-Length is not a number");
  }
  return {};
}

}  // namespace

Result<std::size_t> HeaderScanner::scan(std::string_view received, const HeaderLimits& limits) {
  const auto no_request_line = [] { return fail(Code::bad_request, "the first line is not an HTTP/1 request line"); };
  for (;;) {
    const void* found = std::memchr(received.data() + looked_, '\n', received.size() - looked_);
    const std::size_t end =
        found ? static_cast<std::size_t>(static_cast<const char*>(found) - received.data()) + 1 : received.size();
    const std::string_view line = received.substr(line_, end - line_);
    if (line.starts_with(' ') || line.starts_with('\t')) {
      return fail(Code::bad_request, "a line of the header starts with white space (obs-fold)");
    }
    // Refused at once: of TLS or another protocol on this port a whole header block would never come.
    if (first_line_ == 0 && !may_become_request_line(line)) return no_request_line();
    if (first_line_ == 0 && line.size() > limits.target_bytes + max_method) {
      return std::unexpected(too_long(limits.target_bytes));
    }
    if (first_line_ != 0 && end - first_line_ > limits.header_bytes) {
      return fail(Code::header_fields_too_large,
                  fmt::format("the header fields are longer than {} bytes", limits.header_bytes));
    }
    looked_ = end;
    if (!found) return 0;
    if (line.size() < 2 || line[line.size() - 2] != '\r') {
      return fail(Code::bad_request, "a line of the header does not end in CR LF");
    }
    line_ = end;
    if (first_line_ == 0) {
      if (!line.contains(" HTTP/1.")) return no_request_line();
      first_line_ = end;
      continue;
    }
    if (line.size() == 2) return end;
    if (++fields_ > max_fields) {
      return fail(Code::header_fields_too_large, fmt::format("more than {} header fields", max_fields));
    }
  }
}

Result<Framing> check_head(Request& request, int minor, const HeaderLimits& limits) {
  TRY(const auto authority, take_target(request, limits));
  join_cookies(request);
  TRY(const auto fields, collect(request));

  Framing framing{.minor = minor};
  if (!fields.host && minor > 0) return fail(Code::bad_request, "the Host field is missing");
  if (fields.host) {
    TRY(framing.host, host_of(*fields.host));
  }
  if (authority) {
    TRY(framing.host, host_of(authority->host));
    framing.https = authority->https;
  }
  TRY(take_body_framing(framing, fields, minor));
  const bool tunnel = request.path == request.target && !request.path.starts_with('/') && request.path != "*";
  framing.keep_alive = !tunnel && !fields.close && (minor > 0 || fields.keep_alive);
  framing.expects_continue = minor > 0 && fields.expects_continue;
  return framing;
}

bool chunk_extension_ok(std::string_view extension) {
  return std::ranges::none_of(extension, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7f;
  });
}

bool trailer_ok(std::string_view trailer) {
  for (std::size_t line = 0; line < trailer.size();) {
    if (trailer[line] == ' ' || trailer[line] == '\t') return false;
    const std::size_t end = trailer.find('\n', line);
    line = end == std::string_view::npos ? end : end + 1;
  }
  return true;
}

}  // namespace sessiond::http
