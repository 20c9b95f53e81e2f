// A forked child that is stopped before its n-th system call, to be killed there or to have something happen to its
// files meanwhile. So "between any two lines" is every place where the disk can see a difference.
#pragma once

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <utility>

namespace sessiond::testing {

class SteppedChild {
 public:
  // `work` begins stopped. It must not check anything: what it returns is the exit status.
  template <class Work>
  explicit SteppedChild(Work work) : pid_(::fork()) {
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      ::raise(SIGSTOP);
      ::_exit(work());
    }
    wait();
    ::ptrace(PTRACE_SETOPTIONS, pid_, nullptr, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
  }
  ~SteppedChild() {
    if (running_) kill();
  }
  SteppedChild(const SteppedChild&) = delete;
  SteppedChild& operator=(const SteppedChild&) = delete;

  // Runs to the entry of the n-th next system call; false when it ended before.
  bool advance(int calls) {
    // Each call stops twice, at its entry and at its return; the first advance begins outside of one.
    const int stops = 2 * calls - (std::exchange(inside_, true) ? 0 : 1);
    for (int stop = 0; stop < stops && running_; ++stop) {
      ::ptrace(PTRACE_SYSCALL, pid_, nullptr, nullptr);
      wait();
    }
    return running_;
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    while (running_) wait();
  }
  // Lets it run to its end; its exit status.
  int finish() {
    while (running_) {
      ::ptrace(PTRACE_CONT, pid_, nullptr, nullptr);
      wait();
    }
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 1000 + WTERMSIG(status_);
  }

 private:
  void wait() {
    REQUIRE(::waitpid(pid_, &status_, 0) == pid_);
    running_ = !WIFEXITED(status_) && !WIFSIGNALED(status_);
  }

  pid_t pid_;
  int status_ = 0;
  bool inside_ = false;
  bool running_ = true;
};

}  // namespace sessiond::testing
