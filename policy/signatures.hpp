// Signatures that providers put into messages: members signature, thinkingSignature, thoughtSignature and
// encrypted_content, and parts of the type redacted_thinking. With transcripts.durableContent "full" they are not
// stored. What a tool was called with, and details of its result, stay as they are: they are data, whatever their
// names. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sessiond::policy {

bool is_signature(std::string_view member);      // by its name
bool may_hold_signature(std::string_view json);  // a first look
// A list of parts, the value of a member `content`, of which something was left out. Not of lists of which nothing is
// left.
struct StrippedContent {
  std::string stored{};  // compact, as entries are stored
  std::string sent{};
  friend bool operator==(const StrippedContent&, const StrippedContent&) = default;
};
struct WithoutSignatures {
  std::string text{};  // "": the value has none. Other tokens keep their bytes
  std::vector<StrippedContent> contents{};
};
WithoutSignatures without_signatures(std::string_view json);

}  // namespace sessiond::policy
