// Mends messages that providers refuse, as a view shows them: "text content blocks must be non-empty". Blank parts of
// text are left out, a result without any output says so, and media that come without words are named. The transcript
// stays as it is.
#pragma once

#include <string>

#include "policy/context/entry.hpp"

namespace sessiond::context {

// Returns the message of an entry whose fit is `mended`, as it can be sent.
std::string mended(const Entry& entry);

}  // namespace sessiond::context
