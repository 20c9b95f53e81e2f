// The daemon's log: one line an event on stderr, in logfmt (`time=… level=info msg=listening address=…`) or JSON.
// Values are quoted, so that a client cannot forge a line. Callers never log secrets or message texts; a value that
// looks like a token anyway, such as a path with one in it, is masked. Any thread may log.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace sessiond::log {

enum class Level : std::uint8_t { trace, debug, info, warn, error };  // as spdlog's
enum class Format : std::uint8_t { text, json };

// Sets level and format, at start-up and on reload. Before the first call, info and above are logged as text.
void set_up(Level level, Format format);
bool enabled(Level level);

struct Field {
  Field(std::string_view field_name, std::string_view text) : name(field_name), value(text) {}
  Field(std::string_view field_name, const char* text) : name(field_name), value(text) {}
  Field(std::string_view field_name, const std::string& text) : name(field_name), value(text) {}
  template <std::integral Number>
  Field(std::string_view field_name, Number number) : name(field_name), value(std::to_string(number)), plain(true) {}
  std::string_view name;
  std::string value;
  bool plain = false;  // a number, written without quotes
};

// `event` is in snake_case and stable: operators search for it.
void write(Level level, std::string_view event, std::initializer_list<Field> fields = {});
inline void debug(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::debug, event, fields);
}
inline void info(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::info, event, fields);
}
inline void warn(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::warn, event, fields);
}
inline void error(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::error, event, fields);
}

// Returns what follows time and level on a line; exposed for tests.
std::string line(Format format, std::string_view event, std::initializer_list<Field> fields);

}  // namespace sessiond::log
