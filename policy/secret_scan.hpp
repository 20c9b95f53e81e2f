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

struct SecretFound {
  std::size_t at = 0;
  std::size_t size = 0;
  std::string_view kind{};  // for people: "GitHub token"
};
// Returns the first secret at or after `from`.
std::optional<SecretFound> find_secret(std::string_view text, std::size_t from = 0);

// Tells whether JSON text may hold a secret, in little more than one step a byte. False: it has none, neither behind
// escapes nor cut into texts that follow each other, as long as the first has two characters of it. True: a look at its
// strings is needed (redaction.hpp).
bool may_hold_secret(std::string_view json);

// Returns where a secret may have begun that the end of the text cuts: before `end`, with no space since; `end` when
// none has. The first lines of a private key have spaces.
std::size_t begun_secret(std::string_view text, std::size_t end);

// Returns the text with each secret replaced by what `with` makes of its kind.
std::string replace_secrets(std::string_view text, const std::function<std::string(std::string_view kind)>& with);
// Returns the text with each secret replaced by "(secret)".
std::string without_secrets(std::string_view text);

}  // namespace sessiond::policy
