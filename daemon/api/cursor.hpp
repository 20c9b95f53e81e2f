// Cursors of lists: a position as JSON text, sealed so that clients can neither make one up nor read it. A position may
// be of something that the token does not see.
#pragma once

#include <string>
#include <string_view>

#include "daemon/api/api.hpp"

namespace sessiond::api {

// `text` is a JSON object; its member "f" says which list the cursor is for, filters and order included.
std::string seal_cursor(const Api& api, std::string_view text);
// The text of a cursor that was sealed for `list`. Errors: bad_cursor.
Result<std::string> open_cursor(const Api& api, std::string_view cursor, std::string_view list);

}  // namespace sessiond::api
