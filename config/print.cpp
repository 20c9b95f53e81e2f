#include "config/print.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "config/describe.hpp"
#include "config/values.hpp"

namespace sessiond::config {
namespace {

class JsonWriter {
 public:
  std::string out = "{";

  template <class Field, class Rule>
  void key(std::string_view name, const Field& field, Rule rule, std::string_view) {
    begin(name);
    out += write_value(field, rule);
  }
  template <class Body>
  void group(std::string_view name, std::string_view, Body body) {
    begin(name);
    out += '{';
    body();
    out += '}';
  }
  template <class Value, class Body>
  void optional_group(std::string_view name, const std::optional<Value>& field, std::string_view text, Body body) {
    if (field) group(name, text, [&] { body(*field); });
  }
  template <class Value, class Body>
  void named_groups(std::string_view name, const std::map<std::string, Value>& field, TextRule, std::string_view text,
                    Body body) {
    group(name, text, [&] {
      for (const auto& [key, value] : field) group(key, "", [&] { body(value); });
    });
  }

 private:
  void begin(std::string_view name) {
    if (!out.ends_with('{')) out += ',';
    out += json_quoted(name) + ":";
  }
};

// Collects every key with its value as text.
class Values {
 public:
  std::vector<std::pair<std::string, std::string>> all;

  template <class Field, class Rule>
  void key(std::string_view name, const Field& field, Rule rule, std::string_view) {
    all.emplace_back(fmt::format("{}/{}", at_, name), write_value(field, rule));
  }
  template <class Body>
  void group(std::string_view name, std::string_view, Body body) {
    const std::size_t outer = at_.size();
    at_ = pointer_to(at_, name);
    body();
    at_.resize(outer);
  }
  template <class Value, class Body>
  void optional_group(std::string_view name, const std::optional<Value>& field, std::string_view text, Body body) {
    if (field) group(name, text, [&] { body(*field); });
  }
  template <class Value, class Body>
  void named_groups(std::string_view name, const std::map<std::string, Value>& field, TextRule, std::string_view text,
                    Body body) {
    group(name, text, [&] {
      for (const auto& [key, value] : field) group(key, "", [&] { body(value); });
    });
  }

 private:
  std::string at_;
};

// "64 MiB", "45 s", "24 h": a number of bytes or milliseconds in the largest unit that gives a whole number.
std::string in_units(std::int64_t number, std::string_view key) {
  struct Unit {
    std::int64_t size;
    std::string_view name;
  };
  static constexpr std::array byte_units{Unit{pib, "PiB"}, Unit{gib, "GiB"}, Unit{mib, "MiB"}, Unit{kib, "KiB"},
                                         Unit{1, "bytes"}};
  static constexpr std::array time_units{Unit{day * 365, "years"}, Unit{hour, "h"}, Unit{minute, "min"},
                                         Unit{second, "s"}, Unit{1, "ms"}};
  if (!key.ends_with("Bytes") && !key.ends_with("Ms")) return std::to_string(number);
  for (const Unit& unit : key.ends_with("Bytes") ? byte_units : time_units)
    if (number >= unit.size && number % unit.size == 0) return fmt::format("{} {}", number / unit.size, unit.name);
  return std::to_string(number);
}

// Puts the value before its range if units say more than the number.
std::string with_units(std::int64_t value, std::string_view name, const std::string& range) {
  const std::string shown = in_units(value, name);
  return shown == std::to_string(value) ? range : fmt::format("{}; {}", shown, range);
}

// Describes the values that a key may have; "" when its type says it all.
template <class Field, class Rule>
std::string range_of(std::string_view name, const Field& field, Rule rule) {
  if constexpr (std::is_same_v<Rule, Between>) {
    const std::string range = fmt::format("{} to {}", in_units(rule.least, name), in_units(rule.most, name));
    if constexpr (requires { field.has_value(); })
      return "null or " + range;
    else if constexpr (std::is_same_v<Field, Numbers>)
      return "each " + range;
    else
      return with_units(static_cast<std::int64_t>(field), name, range);
  } else if constexpr (std::is_same_v<Rule, BetweenOrUnlimited>) {
    return fmt::format("{} to {}, or \"unlimited\"", rule.range.least, rule.range.most);
  } else if constexpr (std::is_same_v<Rule, BetweenReal>) {
    return fmt::format("{} to {}", rule.least, rule.most);
  } else if constexpr (std::is_enum_v<Field>) {
    return fmt::format("{}", fmt::join(enum_names<Field>, " | "));
  } else {
    return {};
  }
}

class Annotator {
 public:
  std::string out;

  template <class Field, class Rule>
  void key(std::string_view name, const Field& field, Rule rule, std::string_view explanation) {
    begin(explanation);
    line(fmt::format("\"{}\": {},", name, write_value(field, rule)));
    if (const std::string range = range_of(name, field, rule); !range.empty()) {
      out.pop_back();
      out += fmt::format("  // {}\n", range);
    }
  }
  template <class Body>
  void group(std::string_view name, std::string_view explanation, Body body) {
    begin(explanation);
    line(fmt::format("\"{}\": {{", name));
    ++depth_;
    body();
    --depth_;
    line("},");
  }
  template <class Value, class Body>
  void optional_group(std::string_view name, const std::optional<Value>&, std::string_view explanation, Body) {
    comment(fmt::format("\"{}\": {{…}}: {}", name, explanation));
  }
  template <class Value, class Body>
  void named_groups(std::string_view name, const std::map<std::string, Value>&, TextRule, std::string_view explanation,
                    Body) {
    begin(explanation);
    line(fmt::format("\"{}\": {{}},", name));
  }

 private:
  static constexpr std::size_t width = 116;

  void begin(std::string_view explanation) {
    if (depth_ == 1 && !out.empty()) out += '\n';
    comment(explanation);
  }
  void line(std::string_view text) { out += fmt::format("{:{}}{}\n", "", depth_ * 2, text); }
  void comment(std::string_view text) {
    const std::size_t room = width - depth_ * 2 - 3;
    while (text.size() > room) {
      const std::size_t space = text.rfind(' ', room);
      line(fmt::format("// {}", text.substr(0, space)));
      text.remove_prefix(space + 1);
    }
    line(fmt::format("// {}", text));
  }

  std::size_t depth_ = 1;
};

}  // namespace

std::string print_defaults() {
  static constexpr std::string_view head =
      "// The configuration of sessiond: JSON with comments and trailing commas. Every key is here with its default;\n"
      "// keep what you change. sessiond reads the file that --config names, else $SESSIOND_CONFIG, else\n"
      "// ~/.config/sessiond/sessiond.json ($XDG_CONFIG_HOME is honoured), else none. Durations end in Ms, sizes in\n"
      "// Bytes; unknown keys are faults. This file is made from config/describe.hpp: edit a copy.\n";
  Annotator annotator;
  const Config defaults;
  describe(annotator, defaults);
  return fmt::format("{}{{\n{}}}\n", head, annotator.out);
}

std::string to_json(const Config& config) {
  JsonWriter writer;
  describe(writer, config);
  return writer.out + "}";
}

std::vector<std::string> changed_keys(const Config& before, const Config& after) {
  Values old;
  Values fresh;
  describe(old, before);
  describe(fresh, after);
  std::vector<std::string> changed;
  for (const auto& value : fresh.all)
    if (std::ranges::find(old.all, value) == old.all.end()) changed.push_back(value.first);
  for (const auto& [key, value] : old.all)  // keys of a group that is absent now
    if (std::ranges::find(fresh.all, key, &std::pair<std::string, std::string>::first) == fresh.all.end())
      changed.push_back(key);
  return changed;
}

}  // namespace sessiond::config
