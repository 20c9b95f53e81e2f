// Reads every sealed segment once, on a thread of its own with low priority. Reports damage before somebody needs the
// events, and makes indexes that are missing. Nothing waits for it.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "store/journal/catalog.hpp"
#include "store/journal/file_journal.hpp"

namespace sessiond::journal {

class Checker {
 public:
  // Starts with the segments that are sealed now. Calls `on_check` on its thread, after each segment.
  Checker(const Catalog& catalog, std::function<void(const JournalCheck&)> on_check);
  ~Checker();  // stops the thread, finished or not
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  JournalCheck progress() const;  // any thread

 private:
  void run(const std::vector<Segment>& segments);
  void check_segment(const Segment& segment, JournalCheck& now);

  const Catalog& catalog_;
  std::function<void(const JournalCheck&)> on_check_;
  mutable std::mutex mutex_;
  JournalCheck progress_{};
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace sessiond::journal
