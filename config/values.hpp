// Reads and writes each kind of value that a key can have. When type, range or rule do not fit, reading leaves the
// field unchanged and adds a fault with the pointer of the value.
#pragma once

#include <array>
#include <boost/json/value.hpp>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "config/rules.hpp"
#include "config/syntax.hpp"

namespace sessiond::config {

// The pointer of a value, and the list to which its faults are added.
struct Place {
  std::vector<ConfigFault>& faults;
  std::string pointer;

  void fault(std::string detail) const { faults.push_back({pointer, std::move(detail)}); }
  Place at(std::string_view name) const { return {faults, pointer_to(pointer, name)}; }
};

// The names that an enum's values have in JSON, in the order of the values.
template <class E>
inline constexpr std::array<std::string_view, 0> enum_names{};
template <>
inline constexpr std::array<std::string_view, 2> enum_names<Config::StoreMode>{"own", "shared"};
template <>
inline constexpr std::array<std::string_view, 4> enum_names<Config::DmScope>{"main", "per-peer", "per-channel-peer",
                                                                             "per-account-channel-peer"};
template <>
inline constexpr std::array<std::string_view, 2> enum_names<Config::Threads>{"session", "inherit"};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<Config::ResetMode>{"none", "idle", "daily"};
template <>
inline constexpr std::array<std::string_view, 2> enum_names<Config::MaintenanceMode>{"warn", "enforce"};
template <>
inline constexpr std::array<std::string_view, 5> enum_names<Config::LogLevel>{"trace", "debug", "info", "warn",
                                                                              "error"};
template <>
inline constexpr std::array<std::string_view, 2> enum_names<Config::LogFormat>{"text", "json"};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<Config::SecretScan>{"off", "warn", "reject"};
template <>
inline constexpr std::array<std::string_view, 2> enum_names<Config::OnExceed>{"fail", "warn"};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<Config::FsScope>{"sandboxed", "project", "full"};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<Config::SessionLog>{"off", "meta", "full"};
template <>
inline constexpr std::array<std::string_view, 4> enum_names<Config::MessageScan>{"off", "redact", "reject", "warn"};

template <>
inline constexpr std::array<std::string_view, 3> enum_names<Config::DurableContent>{"off", "media", "full"};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<Config::Pairs>{"off", "warn", "strict"};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<Config::CompactionTime>{"both", "run_start", "after_turn"};

using Numbers = std::map<std::string, std::int64_t>;
using Links = std::map<std::string, std::vector<std::string>>;

std::string kind_name(const boost::json::value& value);  // "a string", "an object", …

std::optional<std::int64_t> read_integer(const boost::json::value& value, Between range, const Place& place);
void read_value(const boost::json::value& value, bool& field, Any, const Place& place);
void read_value(const boost::json::value& value, std::optional<bool>& field, Any, const Place& place);  // null: nothing
void read_value(const boost::json::value& value, std::int64_t& field, BetweenOrUnlimited rule, const Place& place);
void read_value(const boost::json::value& value, double& field, BetweenReal range, const Place& place);
void read_value(const boost::json::value& value, std::string& field, TextRule rule, const Place& place);
void read_value(const boost::json::value& value, std::string& field, RawObject, const Place& place);
void read_value(const boost::json::value& value, std::optional<std::string>& field, TextRule rule, const Place& place);
void read_value(const boost::json::value& value, std::vector<std::string>& field, TextRule each, const Place& place);
void read_value(const boost::json::value& value, std::vector<std::string>& field, OneOrMany rule, const Place& place);
void read_value(const boost::json::value& value, Links& field, Any, const Place& place);
void read_value(const boost::json::value& value, Numbers& field, Between each, const Place& place);

template <std::integral Number>
  requires(!std::same_as<Number, bool>)
void read_value(const boost::json::value& value, Number& field, Between range, const Place& place) {
  if (const auto number = read_integer(value, range, place)) field = static_cast<Number>(*number);
}

// null is nothing.
template <class Number>
void read_value(const boost::json::value& value, std::optional<Number>& field, Between range, const Place& place) {
  if (value.is_null()) return field.reset();
  if (const auto number = read_integer(value, range, place)) field = static_cast<Number>(*number);
}

// Returns the index of the name that the value has; else adds a fault that lists all names.
std::optional<std::size_t> read_choice(const boost::json::value& value, std::span<const std::string_view> names,
                                       const Place& place);

template <class E>
  requires std::is_enum_v<E>
void read_value(const boost::json::value& value, E& field, Any, const Place& place) {
  if (const auto choice = read_choice(value, enum_names<E>, place)) field = static_cast<E>(*choice);
}

template <class E>
  requires std::is_enum_v<E>
void read_value(const boost::json::value& value, std::optional<E>& field, Any, const Place& place) {  // null: nothing
  if (value.is_null()) return field.reset();
  if (const auto choice = read_choice(value, enum_names<E>, place)) field = static_cast<E>(*choice);
}

// JSON text of a value, on one line.
std::string json_quoted(std::string_view text);
std::string write_value(bool value, Any);
std::string write_value(const std::optional<bool>& value, Any);
std::string write_value(std::int64_t value, BetweenOrUnlimited);
std::string write_value(double value, BetweenReal);
std::string write_value(const std::string& value, TextRule);
std::string write_value(const std::string& value, RawObject);
std::string write_value(const std::optional<std::string>& value, TextRule);
std::string write_value(const std::vector<std::string>& value, TextRule);
std::string write_value(const std::vector<std::string>& value, OneOrMany);
std::string write_value(const Links& value, Any);
std::string write_value(const Numbers& value, Between);

template <std::integral Number>
  requires(!std::same_as<Number, bool>)
std::string write_value(Number value, Between) {
  return std::to_string(value);
}
template <class Number>
std::string write_value(const std::optional<Number>& value, Between range) {
  return value ? write_value(*value, range) : "null";
}
template <class E>
  requires std::is_enum_v<E>
std::string write_value(E value, Any) {
  return json_quoted(enum_names<E>.at(static_cast<std::size_t>(value)));
}
template <class E>
  requires std::is_enum_v<E>
std::string write_value(const std::optional<E>& value, Any rule) {
  return value ? write_value(*value, rule) : "null";
}

}  // namespace sessiond::config
