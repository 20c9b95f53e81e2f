// Commits of commands that handlers may block (decide/hooks.hpp): the handlers are called by one commit, and what they
// say goes into the next one. Without handlers that are waited for it is one commit.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/api/handler.hpp"
#include "daemon/decide/hooks.hpp"

namespace sessiond::api {

struct AskingCommit {
  std::string agent{};
  std::string_view event{};  // of the handlers
  ledger::Requester requester{};
  std::function<bool()> gone{};  // the client has closed its connection
  // Decides the command as far as it is known what the handlers say. It is called for each of the two commits, and
  // again when a fact was fetched.
  std::function<Result<decide::Decision>(const decide::AgentState&, const decide::Context&, const decide::FetchedLines&,
                                         const decide::Asking&)>
      decide{};
};
// Errors: those of the commit; draining and request_timeout while handlers are waited for. The command is not done
// then.
asio::awaitable<Result<ledger::Reply>> commit_asking(Api& api, AskingCommit commit);

// Starts a run; takes a queued one (nothing: it was another's by now, or may not start).
HandlerResult start_run(Api& api, const http::Request& request, const std::string& agent, decide::StartRun command);
asio::awaitable<Result<std::optional<ledger::Reply>>> take_run(Api& api, const http::Request& request,
                                                               const std::string& agent, ledger::Requester requester,
                                                               decide::ClaimRun command);

}  // namespace sessiond::api
