#include "daemon/http/response_head.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/status.hpp>

#include "daemon/http/byte_set.hpp"
#include "store/names.hpp"

namespace sessiond::http {
namespace {

void append_number(std::string& out, std::uint64_t number) {
  const fmt::format_int digits(number);
  out.append(digits.data(), digits.size());
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  const auto start = static_cast<std::ptrdiff_t>(out.size());
  out.append(value);
  if (control_bytes.find_in(value) != value.end()) std::replace_if(out.begin() + start, out.end(), is_control, ' ');
  out.append("\r\n");
}

}  // namespace

std::string_view DateText::now() {
  const std::time_t second = std::time(nullptr);
  if (second != second_) {
    text_ = fmt::format("{:%a, %d %b %Y %T} GMT", fmt::gmtime(second));  // in English, whatever the locale is
    second_ = second;
  }
  return text_;
}

void end_with_newline(Response& response) {
  if (response.body.empty() || response.body.back() == '\n' || !response.content_type.contains("json")) return;
  response.body += '\n';
}

void write_head(std::string& out, const Response& response, std::string_view request_id, std::string_view date,
                const HeadOptions& options) {
  namespace http = boost::beast::http;
  out.assign("HTTP/1.1 ");
  append_number(out, static_cast<std::uint64_t>(response.status));
  const auto reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(response.status)));
  out.append(" ").append(reason.data(), reason.size());
  out.append("\r\nDate: ").append(date);
  out.append("\r\nX-Request-Id: ").append(request_id).append("\r\n");
  const bool has_content = response.status != 204 && response.status != 304;
  if (has_content && !response.content_type.empty())
    out.append("Content-Type: ").append(response.content_type).append("\r\n");
  if (options.length && has_content) {
    out.append("Content-Length: ");
    append_number(out, *options.length);
    out.append("\r\n");
  }
  bool cache_control = response.cacheable;
  for (const auto& [name, value] : response.headers) {
    append_field(out, name, value);
    cache_control = cache_control || store::equals_nocase(name, "cache-control");
  }
  if (!cache_control) out.append("Cache-Control: no-store\r\n");
  out.append("X-Content-Type-Options: nosniff\r\n");
  if (options.close) {
    out.append("Connection: close\r\n");
  } else if (options.old_keep_alive) {
    out.append("Connection: keep-alive\r\n");
  }
  out.append("\r\n");
}

}  // namespace sessiond::http
