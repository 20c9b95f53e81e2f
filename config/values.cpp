#include "config/values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <set>

namespace sessiond::config {
namespace {

constexpr std::size_t most_elements = 10'000;

void wrong_kind(const Place& place, std::string_view wanted, const boost::json::value& value) {
  place.fault(fmt::format("must be {}, is {}", wanted, kind_name(value)));
}

std::string_view view(const boost::json::string& text) { return {text.data(), text.size()}; }
std::string_view view(const boost::json::string_view& text) { return {text.data(), text.size()}; }

// Returns the value if it is a string that fits the rule; else adds a fault.
std::optional<std::string> read_text(const boost::json::value& value, TextRule rule, std::string_view wanted,
                                     const Place& place) {
  if (!value.is_string()) {
    wrong_kind(place, wanted, value);
    return std::nullopt;
  }
  const std::string_view text = view(value.get_string());
  std::string fault = rule(text);
  if (fault.empty()) return std::string(text);
  place.fault(std::move(fault));
  return std::nullopt;
}

// Accepts 3.0 and 1e6 as integers, unless they are beyond what a double holds exactly.
std::optional<std::int64_t> as_integer(const boost::json::value& value) {
  if (value.is_int64()) return value.get_int64();
  if (!value.is_double()) return std::nullopt;
  const double number = value.get_double();
  constexpr double exact = 9007199254740992.0;  // 2^53
  if (!(std::abs(number) <= exact) || number != std::trunc(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::string write_list(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) {
    if (out.size() > 1) out += ", ";
    out += json_quoted(text);
  }
  return out + "]";
}

std::string ascii_lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

}  // namespace

std::string kind_name(const boost::json::value& value) {
  if (value.is_string()) return "a string";
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  if (value.is_double()) return fmt::format("{}", value.get_double());
  return boost::json::serialize(value);
}

std::optional<std::int64_t> read_integer(const boost::json::value& value, Between range, const Place& place) {
  const auto number = as_integer(value);
  if (!number && !value.is_number()) {
    wrong_kind(place, "a whole number", value);
    return std::nullopt;
  }
  if (!number || *number < range.least || *number > range.most) {
    place.fault(fmt::format("must be a whole number from {} to {}, is {}", range.least, range.most, kind_name(value)));
    return std::nullopt;
  }
  return number;
}

void read_value(const boost::json::value& value, bool& field, Any, const Place& place) {
  if (value.is_bool())
    field = value.get_bool();
  else
    wrong_kind(place, "true or false", value);
}

void read_value(const boost::json::value& value, std::optional<bool>& field, Any, const Place& place) {
  if (value.is_null()) return field.reset();
  bool read = false;
  const std::size_t faults = place.faults.size();
  read_value(value, read, Any{}, place);
  if (place.faults.size() == faults) field = read;
}

void read_value(const boost::json::value& value, std::int64_t& field, BetweenOrUnlimited rule, const Place& place) {
  if (value.is_null()) return;
  if (value.is_string() && value.get_string() == "unlimited")
    field = Config::unlimited;
  else if (const auto number = read_integer(value, rule.range, place))
    field = *number;
}

void read_value(const boost::json::value& value, double& field, BetweenReal range, const Place& place) {
  if (!value.is_number()) return wrong_kind(place, "a number", value);
  const double number = value.to_number<double>();
  if (number >= range.least && number <= range.most)
    field = number;
  else
    place.fault(fmt::format("must be a number from {} to {}, is {}", range.least, range.most, kind_name(value)));
}

void read_value(const boost::json::value& value, std::string& field, TextRule rule, const Place& place) {
  if (auto text = read_text(value, rule, "a string", place)) field = std::move(*text);
}

void read_value(const boost::json::value& value, std::string& field, RawObject, const Place& place) {
  if (value.is_object())
    field = boost::json::serialize(value);
  else
    wrong_kind(place, "an object", value);
}

void read_value(const boost::json::value& value, std::optional<std::string>& field, TextRule rule, const Place& place) {
  if (value.is_null())
    field.reset();
  else if (auto text = read_text(value, rule, "a string or null", place))
    field = std::move(*text);
}

void read_value(const boost::json::value& value, std::vector<std::string>& field, TextRule each, const Place& place) {
  if (!value.is_array()) return wrong_kind(place, "a list of strings", value);
  if (value.get_array().size() > most_elements)
    return place.fault(fmt::format("holds more than {} elements", most_elements));
  std::vector<std::string> texts;
  std::set<std::string> seen;
  std::size_t index = 0;
  for (const boost::json::value& element : value.get_array()) {
    const Place at = place.at(std::to_string(index++));
    auto text = read_text(element, each, "a string", at);
    if (!text) continue;
    if (!seen.insert(*text).second) at.fault("occurs twice in the list");
    texts.push_back(std::move(*text));
  }
  if (texts.size() == index) field = std::move(texts);
}

void read_value(const boost::json::value& value, std::vector<std::string>& field, OneOrMany rule, const Place& place) {
  if (value.is_array()) return read_value(value, field, rule.each, place);
  if (auto text = read_text(value, rule.each, "a string or a list of strings", place)) field = {std::move(*text)};
}

void read_value(const boost::json::value& value, Links& field, Any, const Place& place) {
  if (!value.is_object()) return wrong_kind(place, "an object", value);
  Links links;
  std::map<std::string, std::string> owners;  // peer in lower case -> canonical name
  for (const auto& member : value.get_object()) {
    const std::string name(view(member.key()));
    const Place at = place.at(name);
    if (std::string fault = link_name_fault(name); !fault.empty()) at.fault(std::move(fault));
    std::vector<std::string>& peers = links[name];
    read_value(member.value(), peers, TextRule{link_peer_fault}, at);
    for (std::size_t i = 0; i < peers.size(); ++i) {
      const auto [owner, first] = owners.emplace(ascii_lower(peers[i]), name);
      if (!first && owner->second != name)
        at.at(std::to_string(i))
            .fault(fmt::format("{} is linked to {} already", json_quoted(peers[i]), json_quoted(owner->second)));
    }
  }
  field = std::move(links);
}

void read_value(const boost::json::value& value, Numbers& field, Between each, const Place& place) {
  if (!value.is_object()) return wrong_kind(place, "an object", value);
  Numbers numbers;
  for (const auto& member : value.get_object()) {
    const std::string name(view(member.key()));
    if (const auto number = read_integer(member.value(), each, place.at(name))) numbers[name] = *number;
  }
  if (numbers.size() == value.get_object().size()) field = std::move(numbers);
}

std::optional<std::size_t> read_choice(const boost::json::value& value, std::span<const std::string_view> names,
                                       const Place& place) {
  if (value.is_string()) {
    const auto found = std::ranges::find(names, view(value.get_string()));
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  }
  const std::string is = value.is_string() ? json_quoted(view(value.get_string())) : kind_name(value);
  place.fault(fmt::format("must be one of \"{}\", is {}", fmt::join(names, "\", \""), is));
  return std::nullopt;
}

std::string json_quoted(std::string_view text) {
  return boost::json::serialize(boost::json::string_view(text.data(), text.size()));
}
std::string write_value(bool value, Any) { return value ? "true" : "false"; }
std::string write_value(const std::optional<bool>& value, Any) { return value ? write_value(*value, Any{}) : "null"; }

std::string write_value(std::int64_t value, BetweenOrUnlimited) {
  return value == Config::unlimited ? json_quoted("unlimited") : std::to_string(value);
}

std::string write_value(double value, BetweenReal) { return fmt::format("{}", value); }
std::string write_value(const std::string& value, TextRule) { return json_quoted(value); }
std::string write_value(const std::string& value, RawObject) { return value; }
std::string write_value(const std::optional<std::string>& value, TextRule) {
  return value ? json_quoted(*value) : "null";
}
std::string write_value(const std::vector<std::string>& value, TextRule) { return write_list(value); }
std::string write_value(const std::vector<std::string>& value, OneOrMany) {
  return value.size() == 1 ? json_quoted(value.front()) : write_list(value);
}

std::string write_value(const Links& value, Any) {
  std::string out = "{";
  for (const auto& [name, peers] : value) {
    if (out.size() > 1) out += ", ";
    out += json_quoted(name) + ": " + write_list(peers);
  }
  return out + "}";
}

std::string write_value(const Numbers& value, Between) {
  std::string out = "{";
  for (const auto& [name, number] : value)
    out += fmt::format("{}{}: {}", out.size() > 1 ? ", " : "", json_quoted(name), number);
  return out + "}";
}

}  // namespace sessiond::config
