// TRY and CO_TRY hand the problem of a failed step on to the caller, so that a function reads as its steps:
//
//   Result<Page> read_page(const Request& request) {
//     TRY(auto limit, query_int(request, "limit", 1, 200));  // declares `limit`, or returns the Problem
//     TRY(query.topic, topic_of(request));                   // assigns to what is there already
//     TRY(check_key(request));                               // runs a step whose value is not needed
//
// The last argument is an expression of type Result<T>. With two arguments its value is moved into the first one, which
// is a declaration or something assignable. CO_TRY is the same in a coroutine, and its expression may be a `co_await`.
// With two arguments it is several statements: as the body of an `if` it needs braces, and the compiler says so.
// With one argument the value is destroyed at once. The compiler refuses values that cannot be copied, a lock or an
// open file: they would be released before the next step.
#pragma once

#include <expected>
#include <type_traits>
#include <utility>

#include "store/problem.hpp"

namespace sessiond::store {

template <class T, class E>
bool succeeded(const std::expected<T, E>& result) {
  static_assert(std::is_void_v<T> || std::is_copy_constructible_v<T>, "name the value: TRY(const auto name, ...)");
  return result.has_value();
}

}  // namespace sessiond::store

#define TRY(...) SESSIOND_TRY(return, __COUNTER__, __VA_ARGS__)
#define CO_TRY(...) SESSIOND_TRY(co_return, __COUNTER__, __VA_ARGS__)

// The first level expands __COUNTER__, so that `##` makes a name of its number that no other TRY has.
#define SESSIOND_TRY(...) SESSIOND_TRY_CHOOSE(__VA_ARGS__)
#define SESSIOND_TRY_CHOOSE(leave, number, first, ...) \
  SESSIOND_TRY_STEP##__VA_OPT__(_WITH_VALUE)(leave, tried_##number, first __VA_OPT__(, ) __VA_ARGS__)
// NOLINTBEGIN(bugprone-macro-parentheses): `leave` is a keyword
#define SESSIOND_TRY_STEP(leave, tried, expression) \
  if (auto tried = expression; !::sessiond::store::succeeded(tried)) leave std::unexpected(std::move(tried.error()))
#define SESSIOND_TRY_STEP_WITH_VALUE(leave, tried, target, ...) \
  auto tried = __VA_ARGS__;                                     \
  if (!tried) leave std::unexpected(std::move(tried.error()));  \
  target = std::move(*tried)
// NOLINTEND(bugprone-macro-parentheses)
