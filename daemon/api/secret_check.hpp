// Looks for keys and tokens in every request before its handler, so that neither journal nor streams nor logs nor names
// of files have what was refused or taken out. A route says what the strings of its body are; what is not said is a
// name:
//   on("POST", one + "/messages", auth::Permission::append, words(lasting<post>), {"topic"});
//
//   what                                     a key, by policy.secretScanMessages             our own tokens, always
//   words: what people and agents say        off, warn, redact or reject                     "[redacted: …]"
//   names: path, query, ids, addresses,      422 with redact and reject                      422
//     Sessiond-Client, all other bodies
//   fields of sessions' entries              as policy.secretScan says (secrets.hpp)         422
//   base64 of media, signatures              not looked at                                   not looked at
//   credentials in their own places          not looked at                                   not looked at
//
// Nothing is looked for in what a request only reads or deletes by. Thread: the loop; long bodies are read on a disk
// thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <concepts>
#include <vector>

#include "daemon/http/message.hpp"
#include "policy/redaction.hpp"

namespace sessiond::api {

struct Api;

using Handle = boost::asio::awaitable<Result<http::Response>> (*)(Api&, http::Request&);

// What the strings of a body are.
enum class Strings : unsigned char { names, words, deltas, entry, credentials };

// A handler, with what its route's body holds.
struct Entrance {
  template <std::convertible_to<Handle> Call>
  Entrance(Call handle, Strings held = Strings::names) : call(handle), strings(held) {}
  Handle call;
  Strings strings;
};
inline Entrance words(Handle call) { return {call, Strings::words}; }
// Words of which texts come in pieces: with redact and reject the handler looks at those itself
// (policy::PieceRedactor).
inline Entrance deltas(Handle call) { return {call, Strings::deltas}; }
inline Entrance entry(Handle call) { return {call, Strings::entry}; }
inline Entrance credentials(Handle call) { return {call, Strings::credentials}; }

// Calls the handler. validation_failed names the places of what is refused.
boost::asio::awaitable<Result<http::Response>> with_checked_strings(Api& api, http::Request& request, Entrance route);

// For handlers that look at pieces of texts. Whether they do so: with redact and reject.
bool checks_pieces(const Api& api);
bool rejects_secrets(const Api& api);
// Refuses what was found, with reject; otherwise says so in the log.
Result<void> judge_found(const Api& api, const http::Request& request, const std::vector<policy::SecretIn>& found);
// Adds {"code":"secret_in_message","pointer","kind"} for each to the warnings of a reply that is an object.
void add_warnings(http::Response& response, const std::vector<policy::SecretIn>& found);

}  // namespace sessiond::api
