#include "daemon/api/fields.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/time_range.hpp"

namespace sessiond::api {
namespace {

bool is_json_type(std::string_view type) {
  type = store::trim(type.substr(0, type.find(';')));
  const std::string media = store::lower(type);
  return media.empty() || media == "application/json" || media == "application/merge-patch+json" ||
         media.ends_with("+json");
}

}  // namespace

Result<std::string_view> json_body(const http::Request& request, std::size_t max_depth, bool optional) {
  if (request.body.empty() && optional) return std::string_view{};
  if (!is_json_type(request.header("content-type"))) {
    return fail(Code::unsupported_media_type,
                fmt::format("this route takes application/json, not {}", request.header("content-type")));
  }
  const auto fine = request.checked && request.checked->max_depth == max_depth
                        ? request.checked->result
                        : json::check(request.body, {.max_depth = max_depth, .unique_names = true, .utf8 = true});
  if (!fine)
    return fail(Code::bad_request,
                fmt::format("the body is not JSON at byte {}: {}", fine.error().offset, fine.error().detail));
  return store::trim(request.body);
}

Result<Fields> Fields::of(std::string_view object, std::string pointer) {
  Fields fields;
  fields.text_ = object;
  fields.pointer_ = std::move(pointer);
  if (object.empty()) return fields;
  if (json::kind(object) != json::Kind::object) return fail_at(fields.pointer_, "must be an object");
  for (const json::Member& member : json::members(object)) {
    if (fields.members_.size() == limits::command_members)
      return fail_at(fields.pointer_, fmt::format("has more than {} members", limits::command_members));
    fields.members_.push_back({json::unescape(member.name), member.value});
  }
  return fields;
}

std::optional<std::string_view> Fields::take(std::string_view name) {
  const auto found = std::ranges::find(members_, name, &Member::name);
  if (found == members_.end()) return {};
  found->asked = true;
  if (found->value == "null") return {};
  return found->value;
}

std::optional<std::string_view> Fields::raw(std::string_view name) {
  const auto found = std::ranges::find(members_, name, &Member::name);
  if (found == members_.end()) return {};
  found->asked = true;
  return found->value;
}

bool Fields::has(std::string_view name) const {
  const auto found = std::ranges::find(members_, name, &Member::name);
  return found != members_.end() && found->value != "null";
}

std::optional<std::string> Fields::string(std::string_view name, std::size_t max_bytes) {
  const auto value = take(name);
  if (!value) return {};
  auto text = json::as_string(*value);
  if (!text) {
    fault(name, "must be a string");
  } else if (text->size() > max_bytes) {
    fault(name, fmt::format("longer than {} bytes", max_bytes));
    return {};
  }
  return text;
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t least) {
  const auto value = take(name);
  if (!value) return {};
  const auto number = json::as_int(*value);
  if (!number) {
    fault(name, "must be an integer");
  } else if (*number < least) {
    fault(name, fmt::format("must be at least {}", least));
    return {};
  }
  return number;
}

std::optional<std::int64_t> Fields::time(std::string_view name) {
  const auto ms = integer(name);
  if (!ms || *ms <= store::last_time_ms) return ms;
  fault(name, "is after the year 9999");
  return {};
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const auto value = take(name);
  if (!value) return {};
  const auto truth = json::as_bool(*value);
  if (!truth) fault(name, "must be true or false");
  return truth;
}

std::optional<std::string_view> Fields::object(std::string_view name) {
  const auto value = take(name);
  if (!value) return {};
  if (json::kind(*value) == json::Kind::object) return value;
  fault(name, "must be an object");
  return {};
}

std::optional<std::string_view> Fields::array(std::string_view name) {
  const auto value = take(name);
  if (!value) return {};
  if (json::kind(*value) == json::Kind::array) return value;
  fault(name, "must be an array");
  return {};
}

std::vector<std::string> Fields::strings(std::string_view name, std::size_t most) {
  std::vector<std::string> out;
  const auto list = array(name);
  if (!list) return out;
  for (const auto element : json::elements(*list)) {
    auto text = json::as_string(element);
    if (!text) {
      ++fault_count_;
      faults_.push_back({fmt::format("{}/{}/{}", pointer_, pointer_token(name), out.size()), "must be a string"});
      return out;
    }
    out.push_back(std::move(*text));
    if (out.size() > most) {
      fault(name, fmt::format("more than {} elements", most));
      return out;
    }
  }
  return out;
}

std::optional<std::string> Fields::one_of(std::string_view name, std::initializer_list<std::string_view> texts) {
  auto text = string(name);
  if (!text || std::ranges::find(texts, *text) != texts.end()) return text;
  fault(name, fmt::format("must be one of {}", fmt::join(texts, ", ")));
  return {};
}

void Fields::fault(std::string_view name, std::string detail) {
  if (++fault_count_ > limits::faults) return;
  faults_.push_back({pointer_ + "/" + pointer_token(name), std::move(detail)});
}

Result<void> Fields::done() {
  for (const Member& member : members_) {
    if (!member.asked) fault(member.name, "is not a known field");
  }
  if (faults_.empty()) return {};
  Problem problem{.code = Code::validation_failed,
                  .detail = fmt::format("{}: {}", faults_.front().pointer, faults_.front().detail)};
  if (fault_count_ > 1) problem.detail += fmt::format(" (and {} more)", fault_count_ - 1);
  problem.errors = std::move(faults_);
  return std::unexpected(std::move(problem));
}

json::Edit edit_of(std::string_view object) {
  json::Edit edit;
  for (const json::Member& member : json::members(object)) {
    std::string name = json::unescape(member.name);
    if (member.value == "null") {
      edit.unset.push_back(std::move(name));
    } else {
      edit.set.push_back({std::move(name), json::compact(member.value)});
    }
  }
  return edit;
}

std::string pointer_token(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

}  // namespace sessiond::api
