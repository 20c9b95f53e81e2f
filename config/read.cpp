#include "config/read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "config/check.hpp"
#include "config/describe.hpp"
#include "config/similar.hpp"
#include "config/syntax.hpp"
#include "config/values.hpp"

namespace sessiond::config {
namespace {

// Sets the keys that the JSON object has, and notes members that are no key.
class Reader {
 public:
  Reader(const boost::json::object& root, std::vector<ConfigFault>& faults) : faults_(faults) {
    groups_.push_back({root, ""});
  }

  template <class Field, class Rule>
  void key(std::string_view name, Field& field, Rule rule, std::string_view) {
    if (const boost::json::value* value = take(name)) read_value(*value, field, rule, place(name));
  }

  template <class Body>
  void group(std::string_view name, std::string_view, Body body) {
    const boost::json::value* value = take(name);
    if (value == nullptr) return;
    if (!value->is_object()) return place(name).fault(fmt::format("must be an object, is {}", kind_name(*value)));
    groups_.push_back({value->get_object(), pointer_to(groups_.back().pointer, name)});
    body();
    refuse_unknown();
    groups_.pop_back();
  }

  template <class Value, class Body>
  void optional_group(std::string_view name, std::optional<Value>& field, std::string_view explanation, Body body) {
    group(name, explanation, [&] { body(field.emplace(Value{})); });
  }

  template <class Value, class Body>
  void named_groups(std::string_view name, std::map<std::string, Value>& field, TextRule names,
                    std::string_view explanation, Body body) {
    group(name, explanation, [&] {
      for (const auto& member : groups_.back().object) {
        const std::string_view key(member.key().data(), member.key().size());
        if (const std::string fault = names(key); !fault.empty()) place(key).fault(fault);
        group(key, "", [&] { body(field[std::string(key)]); });
      }
    });
  }

  void refuse_unknown() const {
    const Group& group = groups_.back();
    for (const auto& member : group.object) {
      const std::string_view name(member.key().data(), member.key().size());
      if (std::ranges::find(group.known, name) != group.known.end()) continue;
      const std::string pointer = pointer_to(group.pointer, name);
      faults_.push_back({pointer, "unknown key" + suggestion(pointer)});
    }
  }

 private:
  struct Group {
    const boost::json::object& object;
    std::string pointer;
    std::vector<std::string_view> known{};
  };

  const boost::json::value* take(std::string_view name) {
    groups_.back().known.push_back(name);
    return groups_.back().object.if_contains({name.data(), name.size()});
  }
  Place place(std::string_view name) const { return Place{faults_, groups_.back().pointer}.at(name); }

  std::vector<ConfigFault>& faults_;
  std::vector<Group> groups_;
};

}  // namespace

void overlay(Config& config, std::string_view text, std::vector<ConfigFault>& faults) {
  const auto document = parse_document(text);
  if (!document) {
    faults.push_back(document.error());
    return;
  }
  for (const std::string& pointer : document->duplicates) faults.push_back({pointer, "is given more than once"});
  if (!document->root.is_object()) {
    faults.push_back({"", fmt::format("must be an object, is {}", kind_name(document->root))});
    return;
  }
  Reader reader(document->root.get_object(), faults);
  describe(reader, config);
  reader.refuse_unknown();
}

std::expected<Config, std::vector<ConfigFault>> parse_config(std::string_view text,
                                                             const SendPolicyCheck& check_send_policy) {
  Config config;
  std::vector<ConfigFault> faults;
  overlay(config, text, faults);
  find_contradictions(config, faults);
  if (check_send_policy) std::ranges::move(check_send_policy(config.send_policy_json), std::back_inserter(faults));
  if (!faults.empty()) return std::unexpected(std::move(faults));
  return config;
}

}  // namespace sessiond::config
