// A session as a workflow of Relavium (.relavium.yaml): each turn that was answered is a step, one after the other, and
// the whole transcript is in the metadata. README.md has an example. Only written: a workflow is no session.
#pragma once

#include <memory>

#include "formats/writer.hpp"

namespace sessiond::formats {

std::unique_ptr<Writer> write_relavium(SessionFacts facts);

}  // namespace sessiond::formats
