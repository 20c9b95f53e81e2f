// Reads every sealed segment through once, on a thread of its own that gives way to others: damage
// is told before a reader meets it, and indexes that are missing are made. Nothing waits for it.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "store/journal/catalog.hpp"
#include "store/journal/journal.hpp"

namespace sessiond::journal {

class Checker {
 public:
  // Begins with the segments that are sealed now. `on_check` is called on its thread.
  Checker(const Catalog& catalog, std::function<void(const JournalCheck&)> on_check);
  ~Checker();  // ends it, read through or not
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  JournalCheck progress() const;  // any thread

 private:
  void run(const std::vector<Segment>& segments);
  void look_at(const Segment& segment, JournalCheck& now);

  const Catalog& catalog_;
  std::function<void(const JournalCheck&)> on_check_;
  mutable std::mutex mutex_;
  JournalCheck progress_{};
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace sessiond::journal
