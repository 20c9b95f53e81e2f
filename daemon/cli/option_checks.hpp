// Checks and converts the values of command-line options. For commands.cpp.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/auth/tokens.hpp"
#include "store/number.hpp"

namespace sessiond::cli {

// Refuses an empty value, which probably comes from a variable that is not set.
inline CLI::Validator not_empty() {
  return {[](std::string& text) { return text.empty() ? std::string("is empty") : ""; }, ""};
}
inline CLI::Validator moment() {
  return {[](std::string& text) -> std::string {
            if (store::parse_number<std::int64_t>(text)) return {};
            return fmt::format(
                "\"{}\" is not a number of ms since the epoch; for tomorrow, write --expires-at "
                "$(date -d tomorrow +%s000)",
                text);
          },
          ""};
}
// Converts "90s" to the number of ms. `most` is described by `most_text`.
inline CLI::Validator duration(std::int64_t most = 315'360'000'000, const char* most_text = "10 years") {
  return {[most, most_text](std::string& text) -> std::string {
            static constexpr std::array<std::pair<std::string_view, std::int64_t>, 5> units{
                {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}}};
            if (text == "0") return {};
            const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
            const auto count = store::parse_number<std::int64_t>(text.substr(0, digits));
            const auto* const unit =
                std::ranges::find(units, text.substr(digits), &std::pair<std::string_view, std::int64_t>::first);
            if (!count || unit == units.end()) return "must be a number with a unit: 90s, 15m, 1h, 7d, or 0";
            if (*count > most / unit->second) return fmt::format("is longer than {}", most_text);
            text = std::to_string(*count * unit->second);
            return {};
          },
          ""};
}
inline CLI::Validator overlap() { return duration(auth::max_overlap_ms, "7 days"); }

// Makes a path absolute: a relative one is meant from the working directory, which the daemon does not know.
inline CLI::Validator absolute() {
  return {[](std::string& text) -> std::string {
            if (text.empty()) return "is empty";
            if (text.starts_with('~') || text == "-") return {};
            std::error_code error;
            const auto path = std::filesystem::absolute(text, error).lexically_normal();
            if (error) return error.message();
            text = path.native();
            return {};
          },
          ""};
}

}  // namespace sessiond::cli
