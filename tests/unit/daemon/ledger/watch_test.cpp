#include "daemon/ledger/watch.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <fstream>

#include "store/files.hpp"

using namespace sessiond;
using namespace sessiond::ledger;
namespace fs = std::filesystem;

namespace {

struct Watching {
  fs::path dir = fs::temp_directory_path() / ("sessiond-watch-" + store::random_hex(12));
  boost::asio::io_context io;
  Watch::Changes seen;
  Watch watch{io, [this](const Watch::Changes& what) {
                for (const auto& [agent, names] : what.touched) seen.touched[agent].insert(names.begin(), names.end());
                seen.gone.insert(what.gone.begin(), what.gone.end());
                seen.agents = seen.agents || what.agents;
                seen.lost = seen.lost || what.lost;
              }};

  Watching() { fs::create_directories(dir / "main"); }
  ~Watching() { fs::remove_all(dir); }

  // Until `enough`, or for 10 s.
  template <class Enough>
  bool until(Enough enough) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!enough() && std::chrono::steady_clock::now() < end) io.run_one_for(std::chrono::milliseconds(100));
    return enough();
  }
  bool touched(const std::string& name) { return seen.touched["main"].contains(name); }
};

}  // namespace

TEST_CASE("watch: a transcript that grows, a store that is replaced, not one that is being written") {
  Watching w;
  REQUIRE(w.watch.add("main", w.dir / "main").value());
  REQUIRE(w.watch.add("main", w.dir / "main").value());
  std::ofstream held(w.dir / "main" / "a.jsonl");
  std::ofstream store(w.dir / "main" / "sessions.json");
  store << "half" << std::flush;
  held << "line\n" << std::flush;
  CHECK(w.until([&] { return w.touched("a.jsonl"); }));
  CHECK_FALSE(w.touched("sessions.json"));
  store.close();
  CHECK(w.until([&] { return w.touched("sessions.json"); }));
}

TEST_CASE("watch: agents that are made, folders that go") {
  Watching w;
  REQUIRE(w.watch.add_parent(w.dir).value());
  REQUIRE(w.watch.add("main", w.dir / "main").value());
  std::ofstream(w.dir / "a file") << "x";
  CHECK(w.until([&] { return !w.io.poll(); }));
  CHECK_FALSE(w.seen.agents);
  fs::create_directory(w.dir / "other");
  CHECK(w.until([&] { return w.seen.agents; }));
  fs::rename(w.dir / "main", w.dir / "moved");
  CHECK(w.until([&] { return w.seen.gone.contains("main"); }));
  w.seen.touched.clear();
  std::ofstream(w.dir / "moved" / "a.jsonl") << "x";
  while (w.io.poll() != 0) {
  }
  CHECK_FALSE(w.touched("a.jsonl"));
  CHECK_FALSE(w.watch.add("main", w.dir / "main").value());  // not there
  CHECK_FALSE(w.watch.add("main", w.dir / "a file"));
}

TEST_CASE("watch: dropped events are told") {
  std::ifstream limit("/proc/sys/fs/inotify/max_queued_events");
  int most = 0;
  if (!(limit >> most) || most > 200'000) return;
  Watching w;
  REQUIRE(w.watch.add("main", w.dir / "main").value());
  const int a = ::open((w.dir / "main" / "a.jsonl").c_str(), O_WRONLY | O_CREAT, 0600);
  const int b = ::open((w.dir / "main" / "b.jsonl").c_str(), O_WRONLY | O_CREAT, 0600);
  for (int i = 0; i <= most; ++i) REQUIRE(::pwrite(i % 2 == 0 ? a : b, "x", 1, 0) == 1);
  ::close(a);
  ::close(b);
  CHECK(w.until([&] { return w.seen.lost; }));
}
