// The tokens of a state directory. If its daemon runs, asks it over its socket; else reads and writes tokens.json under
// the state lock. Blocks.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/auth/token_record.hpp"
#include "daemon/auth/tokens.hpp"

namespace sessiond::cli {

class TokenStore {
 public:
  explicit TokenStore(const config::Config& config);

  Result<std::string> create(const auth::NewToken& wish, std::int64_t now);  // returns the token
  Result<std::vector<auth::TokenInfo>> list();
  // Returns a token that replaces this one, which ends after the overlap. Errors: not_found.
  Result<std::string> rotate(const std::string& id, std::int64_t overlap_ms, std::int64_t now);
  Result<void> revoke(const std::string& id);  // not_found

 private:
  Result<std::optional<std::string>> ask(std::string_view method, std::string_view target, std::string_view body);
  template <class Work>
  auto offline(std::string_view command, Work work) -> decltype(work(std::declval<auth::Tokens&>()));

  config::Config config_;
  std::filesystem::path state_dir_;
  std::filesystem::path socket_;
  std::string no_answer_{};  // why the daemon did not answer
};

// The body of POST /v1/admin/tokens.
std::string to_json(const auth::NewToken& wish);
// Parses {"data":[TokenInfo…]}. Errors: `degraded`.
Result<std::vector<auth::TokenInfo>> parse_token_list(std::string_view body);

}  // namespace sessiond::cli
