// An object that only one strand of a thread pool ever touches. Its owner cannot reach it directly: a call is sent to
// the strand, runs there alone, and its result comes back.
//   OnStrand<Files> files(pool, arguments...);
//   auto done = co_await on(files, [](Files& own) { return own.flush(); });   // and goes on where it was
//   post(files, [](Files& own) { own.take(lines); });                         // not waited for
// Calls run in the order in which they were sent. They may block: the strand occupies one thread of the pool at most.
// Each call keeps the object alive until it has run. Calls must not throw.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cassert>
#include <memory>
#include <type_traits>
#include <utility>

#include "daemon/runtime/run_on.hpp"

namespace sessiond::runtime {

template <class T>
class OnStrand {
 public:
  template <class... Arguments>
  explicit OnStrand(boost::asio::thread_pool& pool, Arguments&&... arguments)
      : strand_(boost::asio::make_strand(pool.get_executor())),
        own_(std::make_shared<Own>(std::forward<Arguments>(arguments)...)) {}
  OnStrand(const OnStrand&) = delete;
  OnStrand& operator=(const OnStrand&) = delete;

  // The object itself, for the thread that made it, until the first call is sent.
  T& before_first_call() const {
    assert(!own_->called);
    return own_->value;
  }

  template <class Of, class Call>
  friend boost::asio::awaitable<std::invoke_result_t<Call&, Of&>> on(const OnStrand<Of>& object, Call call);
  template <class Of, class Call>
  friend void post(const OnStrand<Of>& object, Call call);

 private:
  struct Own {
    template <class... Arguments>
    explicit Own(Arguments&&... arguments) : value(std::forward<Arguments>(arguments)...) {}
    T value;
    bool called = false;  // the owner's thread
  };
  boost::asio::strand<boost::asio::thread_pool::executor_type> strand_;
  std::shared_ptr<Own> own_;
};

// Runs `call(T&)` on the strand and returns what it returned (a value, not void).
template <class Of, class Call>
boost::asio::awaitable<std::invoke_result_t<Call&, Of&>> on(const OnStrand<Of>& object, Call call) {
  object.own_->called = true;
  return run_on(object.strand_,
                [own = object.own_, call = std::move(call)]() mutable { return std::move(call)(own->value); });
}

// Runs `call(T&)` on the strand, after those that were sent before.
template <class Of, class Call>
void post(const OnStrand<Of>& object, Call call) {
  object.own_->called = true;
  boost::asio::post(object.strand_,
                    [own = object.own_, call = std::move(call)]() mutable { std::move(call)(own->value); });
}

}  // namespace sessiond::runtime
