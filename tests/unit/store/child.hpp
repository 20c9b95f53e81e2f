// Forked children that report by their exit status, and wait where the test tells them to.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <exception>

namespace sessiond::testing {

class Child {
 public:
  // Runs `work` in a forked process; what it returns is the exit status. Without checks inside: those belong to the
  // parent.
  template <class Work>
  explicit Child(Work work) : pid_(::fork()) {
    REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    try {
      ::_exit(work());
    } catch (const std::exception&) {
      ::_exit(99);
    }
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // Killed, but not waited for: a zombie.
  void kill() const {
    ::kill(pid_, SIGKILL);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }
  int wait() {
    int status = 0;
    REQUIRE(::waitpid(pid_, &status, 0) == pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

// A pipe that one side waits on until the other has said something.
class Signal {
 public:
  Signal() { REQUIRE(::pipe(ends_) == 0); }
  ~Signal() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  void give() const { [[maybe_unused]] const auto n = ::write(ends_[1], "x", 1); }
  void await() const {
    char byte = 0;
    [[maybe_unused]] const auto n = ::read(ends_[0], &byte, 1);
  }

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace sessiond::testing
