// Files of the repository that the daemon serves, compiled in: web/openapi.json and web/mcp.json (CMakeLists.txt:
// assets.cpp.in), and what web/build.mjs made of the dashboard.
#pragma once

#include <span>
#include <string_view>

namespace sessiond::assets {

extern const std::string_view openapi;  // web/openapi.json
extern const std::string_view mcp;      // web/mcp.json: how agents are told of the tools of POST /mcp

// A file of the dashboard, in each form that a client may accept.
struct WebFile {
  std::string_view name;  // "app-0123456789ab.js": names its content; "": the page itself
  std::string_view type;  // its Content-Type
  std::string_view etag;  // with its quotes
  std::string_view identity, gzip, brotli;
};

// All of them; none when this was built without them (-DSESSIOND_WEB=OFF).
std::span<const WebFile> web_files();

}  // namespace sessiond::assets
