// Checks the strings of every request for keys and tokens, before its handler runs. What is refused or taken out is
// then in no journal, stream, log or file name. Each route says how the strings of its body are checked. A route that
// says nothing has names:
//   on("POST", one + "/messages", auth::Permission::append, words(lasting<post>), {"topic"});
//
//   what                                     a key, by policy.secretScanMessages             our own tokens
//   words: what people and agents say        off, warn, redact or reject                     "[redacted: …]"
//   names: path, query, ids, addresses,      422 with redact and reject                      422
//     Sessiond-Client, all other bodies
//   fields of sessions' entries              as policy.secretScan says (secrets.hpp)         422
//   base64 of media, signatures              not looked at                                   not looked at
//   credentials in their own places          not looked at                                   not looked at
//
// The path and the query of a GET or a DELETE are not checked. Thread: the loop; long bodies are read on a disk thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <concepts>
#include <vector>

#include "daemon/http/message.hpp"
#include "policy/redaction.hpp"

namespace sessiond::api {

struct Api;

using Handle = boost::asio::awaitable<Result<http::Response>> (*)(Api&, http::Request&);

// How the strings of a body are checked: the rows of the table above.
enum class Strings : unsigned char { names, words, deltas, entry, credentials };

// A handler, and how the strings of its body are checked.
struct Entrance {
  template <std::convertible_to<Handle> Call>
  Entrance(Call handle, Strings held = Strings::names) : call(handle), strings(held) {}
  Handle call;
  Strings strings;
};
inline Entrance words(Handle call) { return {call, Strings::words}; }
// Words that come in pieces. With redact and reject the handler checks those itself (policy::PieceRedactor).
inline Entrance deltas(Handle call) { return {call, Strings::deltas}; }
inline Entrance entry(Handle call) { return {call, Strings::entry}; }
inline Entrance credentials(Handle call) { return {call, Strings::credentials}; }

// Checks the request, and calls the handler. validation_failed names each place that is refused.
boost::asio::awaitable<Result<http::Response>> with_checked_strings(Api& api, http::Request& request, Entrance route);

// For handlers of texts that come in pieces: whether they check them, which is so with redact and reject.
bool checks_pieces(const Api& api);
bool rejects_secrets(const Api& api);
// Refuses the request with reject, if a secret was found. Otherwise writes a line into the log for each.
Result<void> judge_found(const Api& api, const http::Request& request, const std::vector<policy::SecretIn>& found);
// Adds {"code":"secret_in_message","pointer","kind"} for each to the warnings of a reply that is an object.
void add_warnings(http::Response& response, const std::vector<policy::SecretIn>& found);

}  // namespace sessiond::api
