// JSON Schemas of what clients keep and exchange. Each is cut out of web/openapi.json, with all that it refers to.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "daemon/api/assets.hpp"
#include "daemon/api/handler.hpp"
#include "store/try.hpp"

namespace sessiond::api {
namespace {

struct CutSchema {
  std::string_view name;       // in the path
  std::string_view component;  // of web/openapi.json
};
constexpr std::array<CutSchema, 6> cut_schemas{{{"session", "Session"},
                                                {"message", "Message"},
                                                {"context", "SessionContext"},
                                                {"event", "Event"},
                                                {"stored-session", "StoredSession"},
                                                {"session-record", "SessionRecord"}}};
constexpr std::string_view component_reference = "\"#/components/schemas/";

// Copies a schema of the document with its references turned into those of a JSON Schema, and adds the components that
// it refers to to `wanted`.
std::string with_own_references(std::string_view schema, std::vector<std::string>& wanted) {
  std::string out;
  for (std::size_t at = schema.find(component_reference); at != std::string_view::npos;
       at = schema.find(component_reference)) {
    out += schema.substr(0, at);
    out += "\"#/$defs/";
    schema.remove_prefix(at + component_reference.size());
    wanted.emplace_back(schema.substr(0, schema.find('"')));
  }
  return out.append(schema);
}

// Makes a JSON Schema of a component: the component and all that it refers to stand in its $defs.
std::string schema_of(const CutSchema& named) {
  const auto components =
      json::find(json::find(assets::openapi, "components").value_or("{}"), "schemas").value_or("{}");
  std::vector<std::string> wanted{std::string(named.component)};
  std::set<std::string, std::less<>> taken;
  json::ObjectWriter definitions;
  while (!wanted.empty()) {
    const std::string name = std::move(wanted.back());
    wanted.pop_back();
    if (!taken.insert(name).second) continue;
    definitions.raw(name, with_own_references(json::compact(json::find(components, name).value_or("{}")), wanted));
  }
  json::ObjectWriter schema;
  schema.string("$schema", "https://json-schema.org/draft/2020-12/schema");
  schema.string("title", named.name);
  schema.string("$ref", "#/$defs/" + std::string(named.component));
  schema.raw("$defs", definitions.text());
  return schema.text();
}

HandlerResult get_schema(Api&, http::Request& request) {
  static const auto texts = [] {
    std::map<std::string, std::string, std::less<>> made;
    for (const CutSchema& named : cut_schemas) made.emplace(named.name, schema_of(named));
    return made;
  }();
  const auto found = texts.find(request.params.at(0));
  if (found == texts.end()) co_return fail(Code::not_found, "there is no schema " + request.params.at(0));
  http::Response response;
  response.fixed = found->second;
  response.content_type = "application/schema+json";
  co_return response;
}

}  // namespace

void add_schema_routes(http::Router& router, Api& api) {
  adding(router, api)("GET", "/v1/schemas/{name}", auth::Permission::open, get_schema);
}

}  // namespace sessiond::api
