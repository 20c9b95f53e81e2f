// From method and path to a handler: 404 for an unknown path, 405 with Allow for a known one, then who asks (401) and
// whether he may (403), then the handler, whose exceptions end here. Patterns are "/v1/agents/{agent}/sessions/{key}":
// a literal segment wins over a parameter, a parameter is one whole non-empty segment.
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

namespace sessiond {

// Who sends this request to a route that needs this permission; the Problem is what the client gets (unauthorized,
// too_many_requests).
using Authenticate = std::function<Result<Principal>(const Request&, Permission)>;

// The query parameters that a route knows; any other one is bad_request before its handler runs.
using QueryNames = std::vector<std::string_view>;
inline const QueryNames any_query{"*"};  // whatever comes, it means nothing

class Router {
 public:
  struct Route {
    std::string method;
    std::string pattern;
    Permission permission;
    Handler handler;
    QueryNames query;
  };

  explicit Router(Authenticate authenticator);
  ~Router();
  Router(Router&&) noexcept;

  // Throws std::invalid_argument for a malformed pattern or a route added twice: mistakes of ours, seen at start-up.
  void add(std::string method, std::string pattern, Permission permission, Handler handler, QueryNames query = {});

  // Called with every reply before it goes out, also with those to requests that came no further than the server; the
  // route is null when there is none. What the handler did not move from the request is still there.
  using Observer = std::function<void(const Request&, const Route*, Response&)>;
  void observe(Observer observer) { observer_ = std::move(observer); }
  void tell(const Request& request, const Route* route, Response& response) const {
    if (observer_) observer_(request, route, response);
  }

  // Every route in the order added (openapi, tests).
  const std::vector<Route>& routes() const { return routes_; }

  // Before a body that is still on its way is read: the reply when the request is refused whatever its body says, and
  // whether it is for a route that is open to anybody.
  struct Early {
    std::optional<Response> refusal{};
    bool open = false;
  };
  Early before_body(Request& request) const;

  // Answers, always. HEAD is answered by GET's handler unless it has its own, the body to be dropped by who sends it;
  // OPTIONS by 204 and Allow. Fills request.params and request.principal.
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
  std::vector<Route> routes_;
  std::unique_ptr<Node> root_;
};

}  // namespace sessiond
