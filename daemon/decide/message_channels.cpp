#include "daemon/decide/message_channels.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "daemon/decide/session.hpp"
#include "store/names.hpp"

namespace sessiond::decide {
namespace {

constexpr std::array<std::string_view, 6> sources{"origin",  "lastChannel", "lastProvider",
                                                  "channel", "provider",    "channels"};

std::string folded(std::string_view channel) { return store::lower(store::trim(channel)); }

bool is_among(const std::vector<std::string>& channels, std::string_view channel) {
  return std::ranges::find(channels, channel) != channels.end();
}

void add(std::vector<std::string>& channels, std::string channel) {
  if (!channel.empty() && !is_among(channels, channel)) channels.push_back(std::move(channel));
}

}  // namespace

void MessageChannels::take_origin(std::string_view origin) {
  if (json::kind(origin) == json::Kind::object) origin_ = folded(json::string_at(origin, "provider").value_or(""));
}

void MessageChannels::take_named(std::string_view channels) {
  if (json::kind(channels) != json::Kind::array) return;
  named_.clear();
  for (const std::string_view channel : json::elements(channels))
    add(named_, folded(json::as_string(channel).value_or("")));
}

std::vector<std::string> MessageChannels::list(std::string_view last_channel, std::string_view channel) const {
  if (!named_.empty()) return named_;
  std::vector<std::string> channels;
  add(channels, origin_);
  add(channels, folded(last_channel));
  if (channels.empty()) add(channels, folded(channel));
  return channels;
}

std::string MessageChannels::text_of(const std::vector<std::string>& channels) {
  return channels.size() < 2 ? "" : fmt::format("{}", fmt::join(channels, " "));
}

std::vector<std::string> MessageChannels::names_in(std::string_view text) {
  std::vector<std::string> channels;
  while (!text.empty()) {
    const std::string_view name = text.substr(0, text.find(' '));
    add(channels, std::string(name));
    text.remove_prefix(std::min(text.size(), name.size() + 1));
  }
  return channels;
}

std::vector<std::string> channels_of(const Session& session) {
  return channels_of(json::Index(*session.entry_with_old_counters()), session.channel);
}

std::vector<std::string> channels_of(const json::Index& entry, std::string_view channel) {
  MessageChannels reached;
  reached.take_origin(entry.find("origin").value_or("null"));
  reached.take_named(entry.find("channels").value_or("null"));
  const std::string last = entry.string_at("lastChannel").value_or("");
  return reached.list(last.empty() ? entry.string_at("lastProvider").value_or("") : last, channel);
}

bool is_reached_by(const Session& session, std::string_view channel) {
  return !session.channels.empty() && is_among(MessageChannels::names_in(session.channels), folded(channel));
}

void keep_channels(const Session& session, json::Edit& edit, bool foreign) {
  const auto is_source = [](std::string_view name) { return std::ranges::find(sources, name) != sources.end(); };
  if (std::ranges::none_of(edit.set, is_source, &json::Edit::Set::name) && std::ranges::none_of(edit.unset, is_source))
    return;
  const bool names_them = std::ranges::find(edit.set, "channels", &json::Edit::Set::name) != edit.set.end();
  std::vector<std::string> wanted = channels_of(session);
  if (wanted.empty() || (names_them && !foreign)) return;
  Session after = session;
  after.edit(edit);
  const std::vector<std::string> told = channels_of(after);
  if (foreign)
    for (const std::string& channel : told) add(wanted, channel);
  const bool holds =
      told.size() == wanted.size() && std::ranges::all_of(told, [&](const auto& one) { return is_among(wanted, one); });
  if (!holds) edit.put("channels", json::array_of(wanted));
}

}  // namespace sessiond::decide
