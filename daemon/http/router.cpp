#include "daemon/http/router.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <set>
#include <span>
#include <stdexcept>

#include "daemon/http/in_flight.hpp"
#include "daemon/http/target.hpp"
#include "daemon/runtime/log.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::http {

// One segment in the tree of patterns. A node has few children, so a linear search is the fastest.
struct Router::Node {
  std::vector<std::pair<std::string, std::unique_ptr<Node>>> literals;
  std::unique_ptr<Node> parameter;
  std::vector<std::pair<std::string, std::size_t>> methods;  // method, index into routes_

  Node& literal(std::string_view segment) {
    for (auto& [text, node] : literals) {
      if (text == segment) return *node;
    }
    return *literals.emplace_back(std::string(segment), std::make_unique<Node>()).second;
  }
  const std::size_t* route(std::string_view method) const {
    for (const auto& [known, index] : methods) {
      if (known == method) return &index;
    }
    return nullptr;
  }
};

namespace {

std::string allow(std::set<std::string> methods) {
  if (methods.contains("GET")) methods.insert("HEAD");
  methods.insert("OPTIONS");
  return fmt::format("{}", fmt::join(methods, ", "));
}

// Searches the tree for a path, literal segments first. A path may match several patterns; the first that has the
// method is taken.
template <class Node>
struct Walk {
  std::string_view method;
  std::span<const std::string_view> segments;
  boost::container::small_vector<std::string_view, 4> params{};  // the segments that are parameters
  std::vector<const Node*> same_path{};                          // match the path but do not have the method

  const std::size_t* go(const Node& node, std::size_t depth) {
    if (depth == segments.size()) {
      const std::size_t* route = node.route(method);
      if (!route && !node.methods.empty()) same_path.push_back(&node);
      return route;
    }
    for (const auto& [text, child] : node.literals) {
      if (text != segments[depth]) continue;
      if (const std::size_t* route = go(*child, depth + 1)) return route;
    }
    if (!node.parameter || segments[depth].empty()) return nullptr;
    params.push_back(segments[depth]);
    if (const std::size_t* route = go(*node.parameter, depth + 1)) return route;
    params.pop_back();
    return nullptr;
  }
};

Result<void> check_query(const Request& request, const QueryNames& known) {
  if (known == any_query) return {};
  for (const auto& [name, value] : request.query) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string names = known.empty() ? "there are none" : fmt::format("known are {}", fmt::join(known, ", "));
    return fail(Code::bad_request,
                fmt::format("{} is not a query parameter of this route; {}", json::quote(name), names));
  }
  return {};
}

}  // namespace

Router::Router(Authenticate authenticator)
    : authenticator_(std::move(authenticator)), root_(std::make_unique<Node>()) {}
Router::~Router() = default;
Router::Router(Router&&) noexcept = default;

void Router::add(std::string method, std::string pattern, auth::Permission permission, Handler handler,
                 QueryNames query) {
  PathSegments split;
  const auto segments = split.split(pattern);
  if (!pattern.starts_with('/') || !segments) throw std::invalid_argument("malformed route " + pattern);
  Node* node = root_.get();
  std::vector<std::string> params;
  for (const std::string_view segment : *segments) {
    if (!segment.starts_with('{')) {
      node = &node->literal(segment);
      continue;
    }
    if (!segment.ends_with('}') || segment.size() < 3) throw std::invalid_argument("malformed route " + pattern);
    if (!node->parameter) node->parameter = std::make_unique<Node>();
    node = node->parameter.get();
    params.emplace_back(segment.substr(1, segment.size() - 2));
  }
  if (node->route(method)) throw std::invalid_argument("route added twice: " + method + " " + pattern);
  node->methods.emplace_back(method, routes_.size());
  routes_.push_back(
      {std::move(method), std::move(pattern), permission, std::move(handler), std::move(query), std::move(params)});
}

std::string Router::allow_all() const {
  std::set<std::string> methods;
  for (const Route& route : routes_) methods.insert(route.method);
  return allow(std::move(methods));
}

Router::Found Router::find(Request& request) const {
  const auto options = [](std::string methods) {
    Response response;
    response.status = 204;
    response.headers.emplace_back("Allow", std::move(methods));
    return std::unexpected(std::move(response));
  };
  if (request.method == "CONNECT") {  // its target is not a path
    Response response =
        to_response({.code = Code::method_not_allowed, .detail = "this server is not a proxy"}, request);
    response.headers.emplace_back("Allow", allow_all());
    return std::unexpected(std::move(response));
  }
  if (request.path == "*") return options(allow_all());
  PathSegments split;
  const auto segments = split.split(request.path);
  if (!segments) return std::unexpected(to_response(segments.error(), request));

  Walk<Node> walk{.method = request.method, .segments = *segments};
  const std::size_t* index = walk.go(*root_, 0);
  if (!index && request.method == "HEAD") {
    walk = {.method = "GET", .segments = *segments};
    index = walk.go(*root_, 0);
  }
  if (index) {
    request.pattern = routes_[*index].pattern;
    request.params.assign(walk.params.begin(), walk.params.end());
    return &routes_[*index];
  }
  if (walk.same_path.empty()) {
    return std::unexpected(to_response({.code = Code::not_found, .detail = "nothing is served at this path"}, request));
  }
  std::set<std::string> methods;
  for (const Node* node : walk.same_path) {
    for (const auto& [method, route] : node->methods) methods.insert(method);
  }
  if (request.method == "OPTIONS") return options(allow(std::move(methods)));
  Response response = to_response(
      {.code = Code::method_not_allowed, .detail = fmt::format("{} is not allowed on this path", request.method)},
      request);
  response.headers.emplace_back("Allow", allow(std::move(methods)));
  return std::unexpected(std::move(response));
}

Result<void> Router::admit(Request& request, const Route& route) const {
  if (route.permission == auth::Permission::open) return {};
  TRY(request.principal, authenticator_(request, route.permission));
  request.counted = true;
  if (request.has_room && !request.has_room(request.principal.id))
    return std::unexpected(bytes_per_token_reached(request.principal.id));
  if (request.principal.may(route.permission)) return {};
  const std::string_view missing = auth::name(route.permission);
  return std::unexpected(Problem{
      .code = Code::forbidden,
      .detail = fmt::format("role {} lacks the permission {}", sessiond::auth::name(request.principal.role), missing),
      .members = {{"permission", json::quote(missing)}}});
}

// Refuses a request before its handler runs: missing permission, an unknown query parameter, an encoded body.
std::optional<Response> Router::refusal(Request& request, const Route& route, bool has_body) const {
  if (Result<void> admitted = admit(request, route); !admitted) return to_response(admitted.error(), request);
  if (Result<void> known = check_query(request, route.query); !known) return to_response(known.error(), request);
  const std::string_view coding = request.header("content-encoding");
  if (!has_body || coding.empty() || store::equals_nocase(store::trim(coding), "identity")) return {};
  Response response =
      to_response({.code = Code::unsupported_media_type,
                   .detail = fmt::format("a body must not be encoded; its Content-Encoding is {}", coding)},
                  request);
  response.headers.emplace_back("Accept-Encoding", "identity");
  return response;
}

Router::Early Router::before_body(Request& request) const {
  Early early;
  Found found = find(request);
  const Route* route = found ? *found : nullptr;
  if (!found) {
    early.refusal = std::move(found.error());
  } else {
    early.refusal = refusal(request, *route, true);
    early.open = !early.refusal && route->permission == auth::Permission::open;
  }
  if (early.refusal) tell(request, route, *early.refusal);
  return early;
}

boost::asio::awaitable<Response> Router::handle(Request& request) const {
  const Route* route = nullptr;
  Response response;
  std::string failure;
  try {
    Found found = find(request);
    if (found) route = *found;
    if (!found) {
      response = std::move(found.error());
    } else if (auto refused = refusal(request, *route, !request.body.empty())) {
      response = std::move(*refused);
    } else {
      Result<Response> result = co_await route->handler(request);
      if (result) {
        response = std::move(*result);
      } else {
        Problem problem = std::move(result.error());
        response = to_response(as_seen_ ? as_seen_(std::move(problem), request) : problem, request);
      }
    }
  } catch (const std::exception& error) {
    failure = error.what();
  } catch (...) {
    failure = "not a std::exception";
  }
  if (!failure.empty()) {
    log::error(
        "handler_failed",
        {{"requestId", request.request_id}, {"method", request.method}, {"path", request.path}, {"what", failure}});
    response =
        to_response({.code = Code::internal,
                     .detail = fmt::format("internal error; the log has it under request {}", request.request_id)},
                    request);
  }
  tell(request, route, response);
  co_return response;
}

}  // namespace sessiond::http
