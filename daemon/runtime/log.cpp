#include "daemon/runtime/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "policy/secret_scan.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::log {
namespace {

spdlog::level::level_enum native(Level level) { return static_cast<spdlog::level::level_enum>(level); }
static_assert(static_cast<int>(Level::error) == spdlog::level::err);

struct Output {
  std::mutex mutex;  // a line and the pattern around it must have the same format
  Format format = Format::text;
  spdlog::logger logger{"sessiond", std::make_shared<spdlog::sinks::stderr_sink_mt>()};

  Output() { set(Level::info, Format::text); }
  void set(Level level, Format to_format) {
    format = to_format;
    const char* pattern = format == Format::text ? "time=%Y-%m-%dT%H:%M:%S.%eZ level=%l %v"
                                                 : R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})";
    logger.set_formatter(std::make_unique<spdlog::pattern_formatter>(pattern, spdlog::pattern_time_type::utc));
    logger.set_level(native(level));
  }
};

Output& output() {
  static Output the;
  return the;
}

bool needs_quotes(std::string_view value) {
  return value.empty() || std::ranges::any_of(value, [](char c) {
           const auto byte = static_cast<unsigned char>(c);
           return byte <= 0x20 || byte >= 0x7f || c == '"' || c == '=' || c == '\\';
         });
}

}  // namespace

void set_up(Level level, Format format) {
  const std::lock_guard guard(output().mutex);
  output().set(level, format);
}

bool enabled(Level level) { return output().logger.should_log(native(level)); }

std::string line(Format format, std::string_view event, std::initializer_list<Field> fields) {
  std::string out;
  // Paths, a library's what() and the like may hold what clients send.
  const auto text_of = [](const Field& field) { return policy::without_secrets(field.value); };
  if (format == Format::text) {
    out.append("msg=").append(event);
    for (const Field& field : fields) {
      out.append(" ").append(field.name).append("=");
      if (field.plain) {
        out += field.value;
      } else if (const std::string text = text_of(field); needs_quotes(text)) {
        json::append_quoted(out, text);
      } else {
        out += text;
      }
    }
    return out;
  }
  out.append(R"("msg":)");
  json::append_quoted(out, event);
  for (const Field& field : fields) {
    out.append(",\"").append(field.name).append("\":");
    if (field.plain) {
      out += field.value;
    } else {
      json::append_quoted(out, text_of(field));
    }
  }
  return out;
}

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  if (!enabled(level)) return;
  const std::lock_guard guard(output().mutex);
  // Passed as a plain string: spdlog would read braces in a format string.
  const std::string text = line(output().format, event, fields);
  output().logger.log(native(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace sessiond::log
