// A session as the record of an agent's library: {"id","cwd","name"?,"createdAt","updatedAt","messages","history",…}.
// `messages` are the path to the leaf, `history` is everything. README.md says what becomes of what. Pure functions.
#pragma once

#include <memory>
#include <string_view>

#include "formats/document.hpp"

namespace sessiond::formats {

// Reads one document. Nothing is passed to the sink unless all of it is right. validation_failed, with a pointer.
Result<void> read_robota(std::string_view document, const ReadOptions& options, Sink& sink);
std::unique_ptr<Writer> write_robota(SessionFacts facts);

}  // namespace sessiond::formats
