// Cursors of lists: a position as JSON text, sealed so that clients can neither make one up nor read it. A position may
// be of something that the token does not see.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "daemon/auth/secret.hpp"
#include "store/problem.hpp"
#include "store/seal/key.hpp"

namespace sessiond::api {

struct Api;

// Seals and opens the cursors of lists.
class CursorSeal {
 public:
  explicit CursorSeal(std::string_view secret);
  std::string seal(std::string_view text) const;
  std::optional<std::string> open(std::string_view cursor) const;

 private:
  seal::Nonce nonce_of(std::string_view text) const;

  auth::Hmac hmac_;
  seal::Key key_;
};

// `text` is a JSON object; its member "f" says which list the cursor is for, filters and order included.
std::string seal_cursor(const Api& api, std::string_view text);
// The text of a cursor that was sealed for `list`. Errors: bad_cursor.
Result<std::string> open_cursor(const Api& api, std::string_view cursor, std::string_view list);

}  // namespace sessiond::api
