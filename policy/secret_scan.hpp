// Finds texts that look like a well-known kind of key or token. They are refused in entries of sessions
// (policy.secretScan) and masked in logs and problems. The shapes are those that the makers publish for scanners:
//   GitHub      ghp_ gho_ ghu_ ghs_ ghr_ github_pat_     docs.github.com "About authentication", "Token formats"
//   GitLab      glpat- and the like                      docs.gitlab.com "GitLab token overview", "Token prefixes"
//   AWS         AKIA, ASIA and 16 of base32              AWS IAM user guide, "IAM identifiers", "Unique ID prefixes"
//   Slack       xox?- xapp-, hooks.slack.com/services/   docs.slack.dev "Tokens", "Incoming webhooks"
//   Stripe      sk_live_ rk_live_                        docs.stripe.com "API keys"
//   OpenAI      sk- sk-proj- sk-svcacct- sk-admin-, Anthropic sk-ant-, OpenRouter sk-or-: their consoles and SDKs
//   Google      AIza and 35, GOCSPX- and 28              cloud.google.com "Manage API keys"
//   Telegram    <digits>:AA and 33                       core.telegram.org/bots/api "Authorizing your bot"
//   Discord     <base64 of the bot's id>.<6>.<27…>       discord.com/developers "Authentication"
//   npm npm_, PyPI pypi-AgE, SendGrid SG.<22>.<43>, Twilio SK and 32 hex: their pages on tokens
//   JWT         RFC 7519: three base64url parts, the first a JSON object with "alg";  PEM: RFC 7468, private keys
//   sessiond    sd_<id>_<43>, sdt_…, sdc_…               daemon/auth/secret.hpp, ticket.hpp, login_cookie.hpp
// Takes linear time. Session ids, UUIDs, hashes and base64 of files have none of these shapes.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond::policy {

inline constexpr std::string_view pem_kind = "private key", jwt_kind = "JSON web token";
// A private key ends with this and up to so many bytes more; without it, at the end of the text.
inline constexpr std::string_view pem_end = "-----END ";
inline constexpr std::size_t pem_end_label = 34;

struct SecretFound {
  std::size_t at = 0;
  std::size_t size = 0;
  std::string_view kind{};  // for people: "GitHub token"
};
// Returns the first secret at or after `from`.
std::optional<SecretFound> find_secret(std::string_view text, std::size_t from = 0);

// Returns whether JSON text may hold a secret, in little more than one step a byte. False: it has none, neither behind
// escapes nor cut into texts that follow each other, as long as the first has two characters of it. True: a look at its
// strings is needed (redaction.hpp).
bool may_hold_secret(std::string_view json);

// Returns where the end of a text begins that may be the beginning of a secret: "sk-ant-1x" may go on. Returns the
// text's size when nothing may have begun. Of a token of Telegram it is the colon. Looks at the last 4 KiB at most, at
// each character a fixed number of times; `steps` gains how many looks it took.
std::size_t begun_secret(std::string_view text, std::size_t* steps = nullptr);

// Returns how many bytes at the beginning of `more` belong to a secret of this kind that the text before has begun. Not
// for private keys, whose lines end by themselves.
std::size_t rest_of_secret(std::string_view kind, std::string_view more);

// Whether a text that is longer than most keys begins as a JSON web token does, whose end has not come yet.
bool begins_as_jwt(std::string_view text);

// Whether a kind is one of the daemon's own: tokens, tickets, logins.
bool is_own(std::string_view kind);

// Returns the text with each secret replaced by what `with` makes of it.
std::string replace_secrets(std::string_view text, const std::function<std::string(const SecretFound& found)>& with);
// Returns the text with each secret replaced by "(secret)".
std::string without_secrets(std::string_view text);

}  // namespace sessiond::policy
