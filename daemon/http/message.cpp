#include "daemon/http/message.hpp"

#include <ranges>

namespace sessiond::http {

std::string_view Request::header(std::string_view lower_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_name) return value;
  }
  return {};
}

const std::string* Request::query_value(std::string_view name) const {
  for (const auto& [key, value] : std::views::reverse(query)) {
    if (key == name) return &value;
  }
  return nullptr;
}

}  // namespace sessiond::http
