// Makes entries of opencode's messages and their parts (opencode.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/foreign.hpp"
#include "formats/reader.hpp"

namespace sessiond::formats {

struct OpencodePart {
  std::string id{};
  std::string place{};  // for skip(): "part prt_…", or the file
  std::string text{};   // JSON, not checked yet
};

struct OpencodeMessage {
  std::string id{};
  std::string place{};
  std::string text{};  // JSON, not checked yet
  std::vector<OpencodePart> parts{};
};

class OpencodeReader {
 public:
  OpencodeReader(Sink& sink, std::string file) : out_(sink, std::move(file)) {}
  // `info`: what opencode knows of the session, a JSON object. `reverted`: the first message that was undone, or "".
  Result<void> begin(const ForeignHead& head, std::string_view info, std::string reverted);
  Result<void> take(const OpencodeMessage& message);
  Result<void> end();
  ForeignSession& out() { return out_; }

 private:
  struct Step {  // a reply of the model: what stands between two "step-start"
    std::string id{};
    Content content{};
    std::vector<const OpencodePart*> tools{};
    std::string kept{};    // parts that Pi has no spelling for
    std::string finish{};  // raw: the part "step-finish"
    bool any = false;
  };

  Result<void> take_user(const OpencodeMessage& message);
  Result<void> take_assistant(const OpencodeMessage& message);
  Result<void> write_step(const OpencodeMessage& message, Step& step, bool last);
  Result<void> write_result(const OpencodePart& part);
  Result<void> write_summary(const OpencodeMessage& message, std::string text);
  void add_part(Content& content, const OpencodePart& part, std::string& kept);
  std::vector<const OpencodePart*> checked_parts(const OpencodeMessage& message);

  ForeignSession out_;
  std::string reverted_{};
  std::optional<std::string> undone_from_{};  // the leaf before the first message that was undone
  std::string tail_{};                        // the first message that the compaction under way keeps
};

}  // namespace sessiond::formats
