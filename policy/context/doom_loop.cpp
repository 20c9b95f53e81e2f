#include "policy/context/doom_loop.hpp"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <array>

#include "store/hex.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::context {
namespace {

constexpr std::size_t longest_compared = 64 << 10;  // bytes of arguments; longer ones are identical byte by byte

// Arguments may be long, and one call of each session is remembered: so their hash is.
std::string hash_of(const ToolCall& call) {
  std::string held;
  std::string_view arguments = call.arguments;
  if (arguments.starts_with('"')) {  // OpenAI's
    held = json::as_string(arguments).value_or("");
    arguments = held;
  }
  const std::string text = call.name + '\0' +
                           (arguments.size() <= longest_compared && json::check(arguments) ? json::canonical(arguments)
                                                                                           : std::string(arguments));
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return store::to_hex(digest);
}

}  // namespace

std::optional<DoomLoop> repeat(Repeated& repeated, const ToolCall& call, std::int64_t every) {
  if (every < 1) return {};
  std::string hash = hash_of(call);
  if (hash != repeated.call) repeated = {.call = std::move(hash), .tool = call.name.substr(0, most_remembered)};
  ++repeated.count;
  repeated.ids.push_back(call.id.substr(0, most_remembered));
  if (repeated.count % every != 0) return {};
  return DoomLoop{.tool = repeated.tool, .count = repeated.count, .call_ids = std::exchange(repeated.ids, {})};
}

std::string warning_of(const DoomLoop& loop) {
  return fmt::format(
      "Warning: {} was called {} times in a row with the same arguments. The result will not change; try something "
      "else or stop.",
      loop.tool, loop.count);
}

}  // namespace sessiond::context
