// A session as the record of an agent's library: {"id","cwd","name"?,"createdAt","updatedAt","messages","history",…}.
// `messages` are the path to the leaf, `history` is everything; snapshots and streams of the session are members, too.
// README.md says what becomes of what. Pure functions.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "formats/document.hpp"

namespace sessiond::formats {

// Reads one document. Nothing is passed to the sink unless all of it is right. validation_failed, with a pointer.
Result<void> read_robota(std::string_view document, const ReadOptions& options, Sink& sink);
// With SessionFacts::streams the record stays open, and its streams follow in that order.
std::unique_ptr<Writer> write_robota(SessionFacts facts);
std::unique_ptr<Writer> write_robota_stream(std::string name, bool is_last);

}  // namespace sessiond::formats
