// Any JSON can be read as a message of the Model Context Protocol, and what it is answered is JSON. The first three
// lines are the headers, the rest is the body.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "daemon/mcp/wire.hpp"
#include "store/names.hpp"

using namespace sessiond;

namespace {

void need_json(std::string_view text) {
  if (!json::check(text, {.max_depth = json::foreign_depth, .utf8 = true})) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::array<std::string_view, 3> lines{};
  for (std::string_view& line : lines) {
    line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() == rest.size() ? rest.size() : line.size() + 1);
  }
  const std::string_view body = store::trim(rest);
  if (!json::check(body, {.max_depth = 64, .unique_names = true, .utf8 = true})) return 0;
  for (const std::string_view version : {lines[0], std::string_view("2026-07-28"), std::string_view("2025-11-25")}) {
    const mcp::Message message = mcp::read(body, {.version = version, .method = lines[1], .name = lines[2]});
    if (const auto* refusal = std::get_if<mcp::Refusal>(&message)) need_json(refusal->json());
    const auto* call = std::get_if<mcp::Call>(&message);
    if (call == nullptr) continue;
    for (const auto& reply :
         {mcp::discover_reply(*call, "i"), mcp::initialize_reply(*call, "i"), mcp::ping_reply(*call),
          mcp::tools_reply(*call, "[]"), mcp::tool_reply(*call, "{}", "t", true)})
      need_json(reply);
    const auto tool = mcp::tool_call(*call);
    if (const auto* refusal = std::get_if<mcp::Refusal>(&tool)) need_json(refusal->json());
  }
  return 0;
}
