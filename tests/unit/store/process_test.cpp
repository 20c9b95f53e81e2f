#include "store/process.hpp"

#include <doctest/doctest.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/unit/store/child.hpp"

using namespace sessiond;
using namespace sessiond::store;
using sessiond::testing::Child;
using sessiond::testing::Signal;

TEST_CASE("this process lives and has begun at some time") {
  const ProcessStatus self = process_status(::getpid());
  CHECK_FALSE(self.dead);
  CHECK(self.starttime > 0);
  CHECK(self.starttime == process_status(::getpid()).starttime);
  CHECK_FALSE(process_status(1).dead);
}

TEST_CASE("nobody, a zombie and one that was waited for are dead") {
  CHECK(process_status(0).dead);
  CHECK(process_status(-1).dead);
  CHECK(process_status(1'000'000'000'000).dead);
  Child child([] {
    ::pause();
    return 0;
  });
  const pid_t pid = child.pid();
  CHECK_FALSE(process_status(pid).dead);
  child.kill();
  CHECK(process_status(pid).dead);
  child.wait();
  CHECK(process_status(pid).dead);
}

TEST_CASE("a name with spaces and parentheses does not move the fields") {
  const Signal named;
  Child child([&] {
    ::pthread_setname_np(::pthread_self(), "a) S 1 (b");
    named.give();
    ::pause();
    return 0;
  });
  named.await();
  const ProcessStatus status = process_status(child.pid());
  CHECK_FALSE(status.dead);
  CHECK(status.starttime >= process_status(::getpid()).starttime);
}

TEST_CASE("the host has a boot and a pid namespace") {
  CHECK(host_identity() == host_identity());
  const std::string& host = host_identity();
  const std::size_t boot = host.find(':') + 1;  // behind the machine id
  CHECK((boot == 33 || host.starts_with("-:")));
  CHECK(host.find(':', boot) == boot + 36);
  CHECK(host.size() > boot + 37);
}
