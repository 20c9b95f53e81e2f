// The table of routes as add_routes makes it, beside web/openapi.json: both say the same, and each route one
// permission.
#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <map>
#include <set>
#include <string>

#include "daemon/api/api.hpp"
#include "daemon/api/assets.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::api;
using sessiond::testing::TempDir;

namespace {

namespace asio = boost::asio;

// Enough of a daemon for its routes to be added; none of them is asked anything.
struct World {
  World() : config{.state_dir = dir.path().native()} {
    auto opened = ledger::Ledger::open(io, disk, config, decide::Rules{}, false);
    REQUIRE_MESSAGE(opened.has_value(), opened.error().detail);
    ledger = std::move(*opened);
    auto loaded = auth::Tokens::load(dir.path() / "tokens.json");
    REQUIRE(loaded);
    tokens = std::move(*loaded);
    streams = std::make_unique<stream::Streams>(
        *ledger,
        stream::StreamContext{
            .journal = ledger->parts().commits.journal(),
            .disk = disk,
            .again = [](const auth::Principal& principal) -> Result<auth::Principal> { return principal; },
            .token_generation = [] { return std::uint64_t{1}; }},
        stream::StreamSettings{});
    work = std::make_unique<leases::Work>(*ledger);
    blobs = std::make_unique<maintenance::Blobs>(*ledger, config);
    search = std::make_unique<search::Search>(*ledger, search::SearchOptions{.enabled = false});
    tickets = std::make_unique<auth::Tickets>(dir.path() / "tickets", "secret", *tokens);
    cookies = std::make_unique<auth::LoginCookies>(dir.path() / "logouts", "secret");
    authenticator = std::make_unique<Authenticator>(config, *tokens, *tickets, *cookies,
                                                    [this] { return ledger->parts().commits.clock().now(); });
    audit = std::make_unique<AuditLog>(io, disk, AuditLog::Options{}, nullptr);
    api = std::unique_ptr<Api>(new Api{.config = config,
                                       .ledger = *ledger,
                                       .tokens = *tokens,
                                       .streams = *streams,
                                       .work = *work,
                                       .blobs = *blobs,
                                       .search = *search,
                                       .tickets = *tickets,
                                       .authenticator = *authenticator,
                                       .audit = *audit,
                                       .cursors = CursorSeal("secret")});
    add_routes(router, *api);
  }
  ~World() { disk.join(); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  TempDir dir;
  config::Config config;
  asio::io_context io{1};
  asio::thread_pool disk{1};
  std::unique_ptr<ledger::Ledger> ledger{};
  std::unique_ptr<auth::Tokens> tokens{};
  std::unique_ptr<stream::Streams> streams{};
  std::unique_ptr<leases::Work> work{};
  std::unique_ptr<maintenance::Blobs> blobs{};
  std::unique_ptr<search::Search> search{};
  std::unique_ptr<auth::Tickets> tickets{};
  std::unique_ptr<auth::LoginCookies> cookies{};
  std::unique_ptr<Authenticator> authenticator{};
  std::unique_ptr<AuditLog> audit{};
  std::unique_ptr<Api> api{};
  http::Router router{
      [](const http::Request&, auth::Permission) -> Result<auth::Principal> { return auth::Principal{}; }};
};

std::string upper(std::string_view method) {
  std::string out;
  for (const char c : method) out += static_cast<char>(c - 'a' + 'A');
  return out;
}

// "GET /v1/agents/{agent}" -> permission
using Table = std::map<std::string, std::string>;

Table documented() {
  Table table;
  const auto paths = json::find(assets::openapi, "paths");
  REQUIRE(paths);
  for (const json::Member path : json::members(*paths)) {
    for (const json::Member operation : json::members(path.value)) {
      if (operation.name == "parameters") continue;
      table[upper(operation.name) + " " + std::string(path.name)] =
          json::string_at(operation.value, "x-permission").value_or("none");
    }
  }
  return table;
}

const std::set<std::string> open_routes{"GET /",
                                        "GET /healthz",
                                        "GET /readyz",
                                        "GET /version",
                                        "GET /openapi.json",
                                        "GET /v1/schemas/{name}",
                                        "GET /assets/{name}",
                                        "POST /v1/login"};

}  // namespace

TEST_CASE("each route declares one permission, and openapi.json declares the same") {
  const World world;
  Table built;
  for (const http::Router::Route& route : world.router.routes()) {
    const std::string_view permission = auth::name(route.permission);
    CHECK_MESSAGE(!permission.empty(), route.pattern);
    const bool first = built.emplace(route.method + " " + route.pattern, permission).second;
    CHECK_MESSAGE(first, route.pattern << " stands twice in the table");
  }
  CHECK(built.size() > 40);
  const Table told = documented();
  for (const auto& [route, permission] : built) {
    const auto found = told.find(route);
    REQUIRE_MESSAGE(found != told.end(), route << " is not in openapi.json");
    CHECK_MESSAGE(found->second == permission, route);
  }
  for (const auto& [route, permission] : told)
    CHECK_MESSAGE(built.contains(route), route << " is only in openapi.json");
}

namespace {

// "GET /v1/agents/{agent}" -> the names of its query parameters
std::map<std::string, std::set<std::string>> documented_query() {
  const std::string_view components = *json::find(assets::openapi, "components");
  const std::string_view shared = *json::find(components, "parameters");
  std::map<std::string, std::set<std::string>> table;
  for (const json::Member path : json::members(*json::find(assets::openapi, "paths"))) {
    for (const json::Member operation : json::members(path.value)) {
      if (operation.name == "parameters") continue;
      auto& names = table[upper(operation.name) + " " + std::string(path.name)];
      for (std::string_view parameter : json::elements(json::find(operation.value, "parameters").value_or("[]"))) {
        if (const auto ref = json::string_at(parameter, "$ref"))
          parameter = *json::find(shared, ref->substr(ref->rfind('/') + 1));
        if (json::string_at(parameter, "in") == "query") names.insert(json::string_at(parameter, "name").value_or(""));
      }
      // A ticket stands in the query, as a way to log in.
      if (json::find(operation.value, "security").value_or("").contains("ticket")) names.insert("ticket");
    }
  }
  return table;
}

}  // namespace

TEST_CASE("a route takes the query parameters that openapi.json names, and no others") {
  const World world;
  const auto told = documented_query();
  std::set<std::string> any;
  for (const http::Router::Route& route : world.router.routes()) {
    const std::string name = route.method + " " + route.pattern;
    CAPTURE(name);
    if (route.query == http::any_query) {
      any.insert(name);
      continue;
    }
    REQUIRE(told.contains(name));
    CHECK(std::set<std::string>(route.query.begin(), route.query.end()) == told.at(name));
  }
  CHECK(any == std::set<std::string>{"GET /", "GET /healthz", "GET /metrics", "GET /readyz"});
}

TEST_CASE("without a token nothing is served but what is known to be open") {
  const World world;
  std::set<std::string> open;
  for (const http::Router::Route& route : world.router.routes()) {
    if (route.permission == auth::Permission::open) open.insert(route.method + " " + route.pattern);
  }
  CHECK(open == open_routes);
}
