// Finds the handler of a request by method and path, and runs it. An unknown path is answered 404, another method of a
// known path 405 with Allow. Then the request is authenticated (401) and its permission checked (403); then the handler
// runs. A Problem that it returns becomes a problem+json reply. An exception of a handler becomes a 500. Patterns look
// like "/v1/agents/{agent}/sessions/{key}": a parameter is one whole segment and not empty, and a literal segment takes
// precedence over a parameter where it has the method.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/auth/principal.hpp"
#include "daemon/http/message.hpp"
#include "store/problem.hpp"

namespace sessiond::http {

// Returns the sender of a request to a route that needs this permission. The Problem (unauthorized, too_many_requests)
// is the reply. Authenticate does not check the permission.
using Authenticate = std::function<Result<auth::Principal>(const Request&, auth::Permission)>;

// The query parameters that a route knows. Any other is answered bad_request, before the handler runs.
using QueryNames = std::vector<std::string_view>;
inline const QueryNames any_query{"*"};  // every parameter is accepted and ignored

class Router {
 public:
  struct Route {
    std::string method;
    std::string pattern;
    auth::Permission permission;
    Handler handler;
    QueryNames query;
    std::vector<std::string> params;  // names of the pattern's {…}, in the order of Request::params
  };

  explicit Router(Authenticate authenticator);
  ~Router();
  Router(Router&&) noexcept;

  // Throws std::invalid_argument for a malformed pattern or a route added twice: both are bugs, found at start-up.
  void add(std::string method, std::string pattern, auth::Permission permission, Handler handler,
           QueryNames query = {});

  // The observer is called with every reply before it is sent, including refusals by the connection; the route is null
  // when the request has none. The handler may have moved values out of the request.
  using Observer = std::function<void(const Request&, const Route*, Response&)>;
  void observe(Observer observer) { observer_ = std::move(observer); }
  void tell(const Request& request, const Route* route, Response& response) const {
    if (observer_) observer_(request, route, response);
  }

  // Changes a handler's Problem into the one that the sender of the request may see. Not set: it is told as it is.
  using AsSeen = std::function<Problem(Problem, const Request&)>;
  void show_problems(AsSeen as_seen) { as_seen_ = std::move(as_seen); }

  // All routes in the order added, for openapi and tests.
  const std::vector<Route>& routes() const { return routes_; }

  // Checks a request before its body is read, so that a body that would be refused anyway is not received.
  struct Early {
    std::optional<Response> refusal{};  // the reply, if the request is refused whatever its body is
    bool open = false;                  // the route needs no token
  };
  Early before_body(Request& request) const;

  // Answers a request; never throws. HEAD runs the handler of GET unless it has its own: the caller drops the body.
  // OPTIONS is answered 204 with Allow. Fills request.pattern, params and principal.
  boost::asio::awaitable<Response> handle(Request& request) const;

 private:
  struct Node;
  using Found = std::expected<const Route*, Response>;
  Found find(Request& request) const;
  Result<void> admit(Request& request, const Route& route) const;
  std::optional<Response> refusal(Request& request, const Route& route, bool has_body) const;
  std::string allow_all() const;

  Authenticate authenticator_;
  Observer observer_;
  AsSeen as_seen_;
  std::vector<Route> routes_;
  std::unique_ptr<Node> root_;
};

}  // namespace sessiond::http
