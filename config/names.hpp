// The names that the configuration's enums have in JSON: one table an enum, in the order they are explained.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "config/config.hpp"

namespace sessiond::config {

template <class E>
inline constexpr auto enum_names = nullptr;

template <>
inline constexpr std::array enum_names<Config::StoreMode>{
    std::pair{Config::StoreMode::own, std::string_view{"own"}},
    std::pair{Config::StoreMode::shared, std::string_view{"shared"}},
};
template <>
inline constexpr std::array enum_names<Config::DmScope>{
    std::pair{Config::DmScope::main, std::string_view{"main"}},
    std::pair{Config::DmScope::per_peer, std::string_view{"per-peer"}},
    std::pair{Config::DmScope::per_channel_peer, std::string_view{"per-channel-peer"}},
    std::pair{Config::DmScope::per_account_channel_peer, std::string_view{"per-account-channel-peer"}},
};
template <>
inline constexpr std::array enum_names<Config::Threads>{
    std::pair{Config::Threads::session, std::string_view{"session"}},
    std::pair{Config::Threads::inherit, std::string_view{"inherit"}},
};
template <>
inline constexpr std::array enum_names<Config::ResetMode>{
    std::pair{Config::ResetMode::none, std::string_view{"none"}},
    std::pair{Config::ResetMode::idle, std::string_view{"idle"}},
    std::pair{Config::ResetMode::daily, std::string_view{"daily"}},
};
template <>
inline constexpr std::array enum_names<Config::LogLevel>{
    std::pair{Config::LogLevel::trace, std::string_view{"trace"}},
    std::pair{Config::LogLevel::debug, std::string_view{"debug"}},
    std::pair{Config::LogLevel::info, std::string_view{"info"}},
    std::pair{Config::LogLevel::warn, std::string_view{"warn"}},
    std::pair{Config::LogLevel::error, std::string_view{"error"}},
};
template <>
inline constexpr std::array enum_names<Config::LogFormat>{
    std::pair{Config::LogFormat::text, std::string_view{"text"}},
    std::pair{Config::LogFormat::json, std::string_view{"json"}},
};
template <>
inline constexpr std::array enum_names<Config::SecretScan>{
    std::pair{Config::SecretScan::off, std::string_view{"off"}},
    std::pair{Config::SecretScan::warn, std::string_view{"warn"}},
    std::pair{Config::SecretScan::reject, std::string_view{"reject"}},
};

template <class E>
constexpr std::string_view enum_name(E value) {
  for (const auto& [each, name] : enum_names<E>)
    if (each == value) return name;
  return {};
}

}  // namespace sessiond::config
