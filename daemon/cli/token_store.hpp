// The tokens of a state directory, wherever they are looked after now: by the daemon that runs, which is asked over its
// socket, else in tokens.json, which is written under the state lock.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/auth/token_record.hpp"
#include "daemon/auth/tokens.hpp"

namespace sessiond {

class TokenStore {
 public:
  explicit TokenStore(const Config& config);

  Result<std::string> create(const NewToken& wish, std::int64_t now);  // the token
  Result<std::vector<TokenInfo>> list();
  // The token in the place of this one, which ends after the overlap. not_found
  Result<std::string> rotate(const std::string& id, std::int64_t overlap_ms, std::int64_t now);
  Result<void> revoke(const std::string& id);  // not_found

 private:
  struct Answer;
  Result<std::optional<std::string>> ask(std::string_view method, std::string_view target, std::string_view body);
  template <class Work>
  auto offline(std::string_view command, Work work) -> decltype(work(std::declval<Tokens&>()));

  Config config_;
  std::filesystem::path state_dir_;
  std::filesystem::path socket_;
  std::string no_answer_{};  // why the socket did not answer
};

// The body of POST /v1/admin/tokens.
std::string to_json(const NewToken& wish);
// {"data":[TokenInfo…]}; `degraded` when it is not that.
Result<std::vector<TokenInfo>> parse_token_list(std::string_view body);

}  // namespace sessiond
