#include "daemon/decide/last_used.hpp"

#include <algorithm>

#include "store/json/raw_json.hpp"

namespace sessiond::decide {
namespace {

constexpr std::size_t keys_of_agent = 64;
constexpr std::size_t keys_of_client = 8;
constexpr std::size_t clients_of_owner = 32;  // a token that names ever new clients drives out only its own
constexpr std::size_t clients_in_all = 256;

std::string_view owner_of(std::string_view list) { return list.substr(0, list.find('\n')); }

// Returns the list of the client that the event names. Empty: it names none.
std::string list_in(const Change& event) {
  const auto* said = event.as<MessageAppended>();
  const auto* resumed = event.as<SessionResumed>();
  const ClientUse* use = said != nullptr ? &said->used : resumed != nullptr ? &resumed->used : nullptr;
  if (use == nullptr || use->client.empty()) return {};
  return client_list(use->is_own ? event.envelope.actor : "", use->client);
}

// Returns whether a message is one of a person: only these move lastInteractionAt.
bool is_of_person(const Change& event) {
  const auto* said = event.as<MessageAppended>();
  if (said != nullptr && said->counted.has(Counter::last_interaction_at)) return true;
  json::Edit held;
  const json::Edit& edit = edit_of(event, held);
  return std::ranges::find(edit.set, "lastInteractionAt", &json::Edit::Set::name) != edit.set.end();
}

bool tells_of_use(const Change& event) {
  switch (event.envelope.type) {
    case journal::EventType::message_appended:
      return is_of_person(event);
    case journal::EventType::session_resumed:
      return true;
    case journal::EventType::session_created:
      return json::string_at(event.data, "reason") == "inbound";
    case journal::EventType::session_reset:
      return json::string_at(event.data, "reason") == "trigger";
    default:
      return false;
  }
}

std::vector<std::string> read_keys(std::string_view array, std::size_t most) {
  std::vector<std::string> keys;
  for (const std::string_view key : json::elements(array))
    if (keys.size() < most) keys.push_back(json::as_string(key).value_or(""));
  return keys;
}

}  // namespace

std::string client_list(std::string_view owner, std::string_view client) {
  return std::string(owner).append("\n").append(client);
}

std::vector<std::string> LastUsed::of_client(std::string_view list) const {
  const auto found = std::ranges::find(clients_, list, &Client::list);
  return found == clients_.end() ? std::vector<std::string>() : found->keys;
}

bool LastUsed::put_first(std::vector<std::string>& keys, const std::string& key, std::size_t most) {
  if (!keys.empty() && keys.front() == key) return false;
  if (const auto there = std::ranges::find(keys, key); there != keys.end()) {
    std::rotate(keys.begin(), there, there + 1);
    return true;
  }
  if (keys.size() == most) keys.pop_back();
  keys.insert(keys.begin(), key);
  return true;
}

// Forgets the client that used a session longest ago: of the owner if it has as many as one may have, else of all.
void LastUsed::make_room(std::string_view owner) {
  const auto is_own = [owner](const Client& client) { return owner_of(client.list) == owner; };
  const bool many = std::ranges::count_if(clients_, is_own) >= static_cast<std::ptrdiff_t>(clients_of_owner);
  if (!many && clients_.size() < clients_in_all) return;
  const auto last =
      std::find_if(clients_.rbegin(), clients_.rend(), [&](const Client& client) { return !many || is_own(client); });
  clients_.erase(std::next(last).base());
}

void LastUsed::used(const std::string& key, const std::string& list) {
  if (put_first(of_agent_, key, keys_of_agent)) dirty_ = true;
  if (list.empty()) return;
  auto found = std::ranges::find(clients_, list, &Client::list);
  if (found == clients_.end()) {
    make_room(owner_of(list));
    clients_.insert(clients_.begin(), Client{.list = list});
  } else {
    std::rotate(clients_.begin(), found, found + 1);
  }
  if (put_first(clients_.front().keys, key, keys_of_client)) dirty_ = true;
}

void LastUsed::forget(const std::string& key) {
  std::size_t gone = std::erase(of_agent_, key);
  for (Client& client : clients_) gone += std::erase(client.keys, key);
  gone += std::erase_if(clients_, [](const Client& client) { return client.keys.empty(); });
  if (gone > 0) dirty_ = true;
}

void LastUsed::apply(const Change& event) {
  if (event.envelope.seq <= seq_) return;
  seq_ = event.envelope.seq;
  if (event.envelope.type == journal::EventType::session_deleted)
    forget(event.envelope.key);
  else if (tells_of_use(event))
    used(event.envelope.key, list_in(event));
}

std::string LastUsed::to_json() {
  dirty_ = false;
  std::string clients = "[";
  for (const Client& client : clients_) {
    json::ObjectWriter out;
    out.string("list", client.list);
    out.raw("keys", json::array_of(client.keys));
    clients.append(clients.size() > 1 ? "," : "").append(out.text());
  }
  json::ObjectWriter out;
  out.integer("seq", static_cast<std::int64_t>(seq_));
  out.raw("keys", json::array_of(of_agent_));
  out.raw("clients", clients + "]");
  return out.text();
}

Result<LastUsed> LastUsed::from_json(std::string_view text) {
  const auto seq = json::int_at(text, "seq");
  const auto keys = json::find(text, "keys");
  if (!seq || !keys || json::kind(*keys) != json::Kind::array) return fail(Code::degraded, "it names no sessions");
  LastUsed last;
  last.seq_ = static_cast<std::uint64_t>(*seq);
  last.of_agent_ = read_keys(*keys, keys_of_agent);
  for (const std::string_view client : json::elements(json::find(text, "clients").value_or("[]"))) {
    if (last.clients_.size() == clients_in_all) break;
    last.clients_.push_back({.list = json::string_at(client, "list").value_or(""),
                             .keys = read_keys(json::find(client, "keys").value_or("[]"), keys_of_client)});
  }
  return last;
}

}  // namespace sessiond::decide
