// Checks that an object is used by one thread: `assert(thread_.is_current())` at the start of its functions. The first
// call decides which thread that is, so an object may be made by one thread and then belong to another.
#pragma once

#include <thread>

namespace sessiond::runtime {

class OneThread {
 public:
  bool is_current() const {
    if (owner_ == std::thread::id{}) owner_ = std::this_thread::get_id();
    return owner_ == std::this_thread::get_id();
  }

 private:
  mutable std::thread::id owner_{};
};

}  // namespace sessiond::runtime
