#include <doctest/doctest.h>

#include <cerrno>

#include "daemon/api/scope.hpp"

namespace {

using sessiond::Code;
using sessiond::Problem;

TEST_CASE("a file that fails is told to whoever sees everything, and may be sent again by all") {
  const Problem failed = sessiond::io_problem("open", "/state/agents/main/sessions/secret.jsonl", EIO);
  sessiond::http::Request request;
  request.params = {"main"};
  request.principal.role = sessiond::auth::Role::admin;
  const Problem whole = sessiond::api::as_seen(failed, request);
  CHECK(whole.code == Code::degraded);
  CHECK(whole.detail == failed.detail);
  request.principal.role = sessiond::auth::Role::bridge;
  request.principal.key_prefix = "agent:main:slack:";
  const Problem part = sessiond::api::as_seen(failed, request);
  CHECK(part.code == Code::degraded);
  CHECK(!part.detail.contains("secret"));
}

TEST_CASE("a full disk stays a full disk") {
  const Problem full = sessiond::io_problem("write", "/state/x", ENOSPC);
  const sessiond::http::Request request;
  CHECK(sessiond::api::as_seen(full, request).code == Code::storage_full);
}

}  // namespace
