#include "daemon/http/strict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ranges>

#include "daemon/http/byte_set.hpp"
#include "daemon/http/target.hpp"
#include "store/names.hpp"
#include "store/number.hpp"
#include "store/try.hpp"

namespace sessiond::http {
namespace {

constexpr std::size_t max_method = 32;  // bytes of the request line for method, version and spaces
// A field of three bytes takes seventy in memory: a header block full of them would take a quarter of a MiB.
constexpr std::size_t max_fields = 100;

// A URI must not hold these bytes (RFC 3986).
constexpr ByteSet not_in_target([](unsigned char c) { return c <= 0x20 || c >= 0x7f || c == '#'; });
// Browsers encode these besides. Some proxies read a backslash as a slash.
constexpr ByteSet not_in_path([](unsigned char c) {
  return not_in_target.contains(static_cast<char>(c)) || std::string_view("\\\"<>{}`").contains(static_cast<char>(c));
});
constexpr ByteSet in_host_name([](unsigned char c) {
  return is_alnum(c) || std::string_view("-._~!$&'()*+,;=%").contains(static_cast<char>(c));
});
constexpr ByteSet in_ip_literal([](unsigned char c) {
  return std::string_view("0123456789abcdefABCDEF:.").contains(static_cast<char>(c));
});

// Checks as much of a request line as was received: a method and the space after it.
bool may_become_request_line(std::string_view line) {
  const std::size_t space = line.substr(0, max_method + 1).find(' ');
  if (space == std::string_view::npos && line.size() > max_method) return false;
  return space != 0 && token_bytes.has_all_of(line.substr(0, std::min(space, line.size())));
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
    if (!in_ip_literal.has_all_of(host)) return bad();
  } else {
    const std::size_t colon = std::min(authority.find(':'), authority.size());
    host = authority.substr(0, colon);
    port = authority.substr(colon);
    if (!in_host_name.has_all_of(host)) return bad();
  }
  if (host.empty()) return bad();
  if (!port.empty()) {
    if (port[0] != ':' || port.find_first_not_of("0123456789", 1) != port.npos) return bad();
  }
  return store::lower(host);
}

// The fields that are looked at here.
enum class Field : std::uint8_t {
  other,
  connection,
  cookie,
  expect,
  proxy_connection,
  // These may come once. If there were two, a proxy could believe one and the daemon the other.
  host,
  content_length,
  transfer_encoding,
  authorization,
  content_type,
  idempotency_key,
  if_range,
  last_event_id,
  origin,
  range,
};

Field field_of(std::string_view lower_name) {
  const auto is = [lower_name](std::string_view name, Field field) {
    return lower_name == name ? field : Field::other;
  };
  switch (lower_name.size()) {
    case 4:
      return is("host", Field::host);
    case 5:
      return is("range", Field::range);
    case 6:
      return lower_name == "cookie"   ? Field::cookie
             : lower_name == "expect" ? Field::expect
                                      : is("origin", Field::origin);
    case 8:
      return is("if-range", Field::if_range);
    case 10:
      return is("connection", Field::connection);
    case 12:
      return is("content-type", Field::content_type);
    case 13:
      return lower_name == "authorization" ? Field::authorization : is("last-event-id", Field::last_event_id);
    case 14:
      return is("content-length", Field::content_length);
    case 15:
      return is("idempotency-key", Field::idempotency_key);
    case 16:
      return is("proxy-connection", Field::proxy_connection);
    case 17:
      return is("transfer-encoding", Field::transfer_encoding);
    default:
      return Field::other;
  }
}

// The values of the fields that decide about framing.
struct Fields {
  std::optional<std::string_view> host, length, transfer_encoding;
  bool close = false, keep_alive = false, expects_continue = false;
  int cookies = 0;
};

Result<Fields> collect(const Request& request) {
  Fields fields;
  std::uint32_t seen = 0;  // a bit for each Field
  for (const auto& [name, value] : request.headers) {
    const Field field = field_of(name);
    const std::uint32_t bit = 1U << static_cast<unsigned>(field);
    if (field >= Field::host && (seen & bit) != 0)
      return fail(Code::bad_request, fmt::format("more than one {} field", name));
    seen |= bit;
    switch (field) {
      case Field::host:
        fields.host = value;
        break;
      case Field::content_length:
        fields.length = value;
        break;
      case Field::transfer_encoding:
        fields.transfer_encoding = value;
        break;
      case Field::connection:
      case Field::proxy_connection: {
        bool tokens = true;
        for_each_element(value, [&](std::string_view option) {
          tokens = tokens && token_bytes.has_all_of(option);
          if (field == Field::proxy_connection) return;
          fields.close |= store::equals_nocase(option, "close");
          fields.keep_alive |= store::equals_nocase(option, "keep-alive");
        });
        if (!tokens) return fail(Code::bad_request, fmt::format("{} is not a list of tokens", name));
        break;
      }
      case Field::cookie:
        ++fields.cookies;
        break;
      case Field::expect:
        for_each_element(value, [&](std::string_view what) {
          fields.expects_continue |= store::equals_nocase(what, "100-continue");
        });
        break;
      default:
        break;
    }
  }
  return fields;
}

// Joins Cookie fields that a client or proxy has split (RFC 9113 §8.2.3).
void join_cookies(Request& request) {
  std::string joined;
  std::erase_if(request.headers, [&joined](const auto& field) {
    if (field.first != "cookie") return false;
    if (!joined.empty()) joined += "; ";
    joined += field.second;
    return true;
  });
  request.cookies.assign(joined.begin(), joined.end());
  request.headers.emplace_back("cookie", std::string_view(request.cookies.data(), request.cookies.size()));
}

struct Target {
  std::optional<std::string_view> authority{};  // of the absolute form, with the port: it replaces Host
  bool https = false;
  bool tunnel = false;  // CONNECT
};

std::unexpected<Problem> wrong_byte(char byte) {
  if (byte == '#') return fail(Code::bad_request, "the target holds a fragment");
  if (not_in_target.contains(byte)) return fail(Code::bad_request, "the target holds a byte outside printable ASCII");
  return fail(Code::bad_request, "the path holds a character that must be percent-encoded");
}

// Splits a target in origin, absolute or asterisk form (RFC 9112 §3.2) into request.path and query.
Result<Target> take_target(Request& request, std::string_view target, const HeaderLimits& limits) {
  if (target.size() > limits.target_bytes) return std::unexpected(too_long(limits.target_bytes));
  Target form;
  // Authority form (RFC 9110 §9.3.6): the router answers it 405.
  if (request.method == "CONNECT" && !target.starts_with('/') && target != "*") {
    TRY(host_of(target));
    request.path = target;
    form.tunnel = true;
    return form;
  }
  if (target == "*" && request.method != "OPTIONS") {
    return fail(Code::bad_request, "the target * is for OPTIONS only");
  }
  if (!target.starts_with('/') && target != "*") {
    const std::size_t scheme = target.find("://");
    form.https = store::equals_nocase(target.substr(0, scheme), "https");
    if (scheme == std::string_view::npos || !(form.https || store::equals_nocase(target.substr(0, scheme), "http"))) {
      return fail(Code::bad_request, "the target must be a path");
    }
    const std::size_t path = std::min(target.find_first_of("/?", scheme + 3), target.size());
    form.authority = target.substr(scheme + 3, path - scheme - 3);
    target.remove_prefix(path);
  }
  const std::size_t query = std::min(target.find('?'), target.size());
  const std::string_view path = target.substr(0, query);
  const std::string_view raw_query = target.substr(std::min(query + 1, target.size()));
  if (const auto* const bad = not_in_path.find_in(path); bad != path.end()) return wrong_byte(*bad);
  if (const auto* const bad = not_in_target.find_in(raw_query); bad != raw_query.end()) return wrong_byte(*bad);
  request.path = path.empty() ? "/" : path;
  request.query.clear();
  if (!raw_query.empty()) {
    TRY(request.query, split_query(raw_query));
  }
  return form;
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

Result<Framing> check_head(Request& request, const RequestLine& line, const HeaderLimits& limits) {
  TRY(const auto target, take_target(request, line.target, limits));
  TRY(const auto fields, collect(request));
  if (fields.cookies > 1) join_cookies(request);

  const int minor = line.minor;
  Framing framing{.minor = minor};
  if (!fields.host && minor > 0) return fail(Code::bad_request, "the Host field is missing");
  if (fields.host) {
    TRY(framing.host, host_of(*fields.host));
  }
  if (target.authority) {
    TRY(framing.host, host_of(*target.authority));
    framing.https = target.https;
  }
  TRY(take_body_framing(framing, fields, minor));
  framing.keep_alive = !target.tunnel && !fields.close && (minor > 0 || fields.keep_alive);
  framing.expects_continue = minor > 0 && fields.expects_continue;
  return framing;
}

bool chunk_extension_ok(std::string_view extension) { return control_bytes.find_in(extension) == extension.end(); }

bool trailer_ok(std::string_view trailer) {
  for (std::size_t line = 0; line < trailer.size();) {
    if (trailer[line] == ' ' || trailer[line] == '\t') return false;
    const std::size_t end = trailer.find('\n', line);
    line = end == std::string_view::npos ? end : end + 1;
  }
  return true;
}

}  // namespace sessiond::http
