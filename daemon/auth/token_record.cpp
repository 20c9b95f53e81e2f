#include "daemon/auth/token_record.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "store/hex.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::auth {
namespace {

void write_members(json::ObjectWriter& out, const TokenInfo& info) {
  out.string("role", name(info.role));
  out.raw("agents", json::array_of(info.agents));
  if (!info.key_prefix.empty()) out.string("keyPrefix", info.key_prefix);
  if (!info.channel.empty()) out.string("channel", info.channel);
  if (!info.key.empty()) out.string("key", info.key);
  if (!info.note.empty()) out.string("note", info.note);
  if (!info.permissions.empty()) out.raw("permissions", json::array_of(info.permissions));
  out.integer("createdAt", info.created_at);
  if (info.expires_at) out.integer("expiresAt", *info.expires_at);
  if (info.last_used_at) out.integer("lastUsed", *info.last_used_at);
}

std::unexpected<Problem> damage(std::string_view pointer, std::string_view what) {
  return fail(Code::degraded, fmt::format("{}: {}", pointer.empty() ? "/" : pointer, what));
}

bool read_agents(std::string_view value, std::vector<std::string>& agents) {
  if (json::kind(value) != json::Kind::array) return false;
  for (const std::string_view element : json::elements(value)) {
    const auto agent = json::as_string(element);
    if (!agent || !store::valid_agent_id(*agent)) return false;
    agents.push_back(*agent);
  }
  return true;
}

bool read_permissions(std::string_view value, std::vector<std::string>& permissions) {
  if (json::kind(value) != json::Kind::array) return false;
  for (const std::string_view element : json::elements(value)) {
    auto permission = json::as_string(element);
    if (!permission || !can_be_given(*permission)) return false;
    permissions.push_back(std::move(*permission));
  }
  return true;
}

bool read_text(std::string_view value, std::string& text) {
  auto read = json::as_string(value);
  if (!read) return false;
  text = std::move(*read);
  return true;
}

bool read_time(std::string_view value, std::optional<std::int64_t>& time) {
  time = json::as_int(value);
  return time && *time >= 0;
}

enum class Read : std::uint8_t { good, bad, unknown };

Read read_member(std::string_view name, std::string_view value, TokenRecord& record) {
  TokenInfo& info = record.info;
  const auto checked = [](bool good) { return good ? Read::good : Read::bad; };
  if (name == "id") return checked(read_text(value, info.id) && valid_token_id(info.id));
  if (name == "hash") {
    const auto hash = hash_from_hex(json::as_string(value).value_or(""));
    if (hash) record.hash = *hash;
    return checked(hash.has_value());
  }
  if (name == "role") {
    const auto known = role(json::as_string(value).value_or(""));
    if (known) info.role = *known;
    return checked(known.has_value());
  }
  if (name == "agents") return checked(read_agents(value, info.agents));
  if (name == "keyPrefix") return checked(read_text(value, info.key_prefix));
  if (name == "channel") return checked(read_text(value, info.channel));
  if (name == "key") return checked(read_text(value, info.key) && !info.key.empty());
  if (name == "note") return checked(read_text(value, info.note));
  if (name == "permissions") return checked(read_permissions(value, info.permissions));
  if (name == "createdAt") {
    std::optional<std::int64_t> created_at;
    const bool good = read_time(value, created_at);
    info.created_at = created_at.value_or(0);
    return checked(good);
  }
  if (name == "expiresAt") return checked(read_time(value, info.expires_at));
  if (name == "lastUsed") return checked(read_time(value, info.last_used_at));
  return Read::unknown;
}

Result<TokenRecord> read_record(std::string_view object, const std::string& pointer) {
  if (json::kind(object) != json::Kind::object) return damage(pointer, "not an object");
  TokenRecord record;
  bool has_id = false;
  bool has_hash = false;
  bool has_role = false;
  for (const json::Member member : json::members(object)) {
    const std::string name = json::unescape(member.name);
    switch (read_member(name, member.value, record)) {
      case Read::bad:
        return damage(fmt::format("{}/{}", pointer, name), "not a valid value");
      case Read::unknown:
        return damage(fmt::format("{}/{}", pointer, name), "not a member this version knows");
      case Read::good:
        break;
    }
    has_id |= name == "id";
    has_hash |= name == "hash";
    has_role |= name == "role";
  }
  // `agents` may be left out, which means every agent, as [] does.
  if (!has_id || !has_hash || !has_role) return damage(pointer, "needs id, hash and role");
  // Without them a token of role session would have no limit.
  const bool bound = !record.info.key.empty() && record.info.agents.size() == 1;
  if (record.info.role == Role::session && !bound) return damage(pointer, "role session needs one agent and a key");
  return record;
}

}  // namespace

std::string to_json(const TokenInfo& info) {
  json::ObjectWriter out;
  out.string("id", info.id);
  write_members(out, info);
  return out.text();
}

Principal principal_of(const TokenInfo& info) {
  return {.id = info.id,
          .role = info.role,
          .agents = info.agents,
          .key_prefix = info.key_prefix,
          .channel = info.channel,
          .key = info.key,
          .note = info.note,
          .permissions = info.permissions};
}

bool can_be_given(std::string_view permission) {
  return permission == name(Permission::approve) || permission == name(Permission::hook) ||
         permission == name(Permission::takeover);
}

std::string write_tokens(const std::vector<TokenRecord>& records) {
  std::string text = "{\"tokens\":[";
  for (const TokenRecord& record : records) {
    text += &record == records.data() ? "\n" : ",\n";
    json::ObjectWriter out(text);
    out.string("id", record.info.id);
    out.string("hash", store::to_hex(record.hash));
    write_members(out, record.info);
    out.close();
  }
  return text + "\n]}\n";
}

Result<std::vector<TokenRecord>> parse_tokens(std::string_view text) {
  if (const auto sound = json::check(text, {.unique_names = true, .utf8 = true}); !sound)
    return fail(Code::degraded, fmt::format("offset {}: {}", sound.error().offset, sound.error().detail));
  text = store::trim(text);
  if (json::kind(text) != json::Kind::object) return damage("", "not an object");
  const auto list = json::find(text, "tokens");
  if (!list || json::kind(*list) != json::Kind::array) return damage("/tokens", "not an array");
  for (const json::Member member : json::members(text)) {
    const std::string name = json::unescape(member.name);
    if (name != "tokens") return damage("/" + name, "not a member this version knows");
  }
  std::vector<TokenRecord> records;
  for (const std::string_view element : json::elements(*list)) {
    const std::string pointer = fmt::format("/tokens/{}", records.size());
    TRY(auto record, read_record(element, pointer));
    const auto same_id = [&](const TokenRecord& other) { return other.info.id == record.info.id; };
    if (std::ranges::any_of(records, same_id)) return damage(pointer + "/id", "there is another token with this id");
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace sessiond::auth
