// What has the shape of a well-known kind of key or token: what entries of sessions do not take (policy.secretScan),
// and what is masked in logs and problems. Shapes are those that their makers publish, so that scanners can know them:
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
//   our own     sd_<id>_<43>, sdt_…, sdc_…               daemon/auth/secret.hpp, ticket.hpp, login_cookie.hpp
// Pure; time is linear in the text. Session ids, UUIDs, hashes and base64 of files have none of these shapes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond {

struct SecretFound {
  std::size_t at = 0;
  std::size_t size = 0;
  std::string_view kind{};  // for people: "GitHub token"
};
// The first at or after `from`.
std::optional<SecretFound> find_secret(std::string_view text, std::size_t from = 0);

// Where a JSON value (that json::check has passed) holds secrets: a fault for each string, at most 20, with its pointer
// below `pointer`. Neither pointer nor detail ever holds the secret: of a member whose name is one, the object is
// named.
std::vector<Fault> secret_faults(std::string_view value, std::string_view pointer);

// The text with "(secret)" in the place of each.
std::string without_secrets(std::string_view text);

}  // namespace sessiond
