// Foreign programs that write a store in place: what is not whole yet is neither read nor written over, and what they
// write into a file that a checkpoint has taken away is merged.
#include <fcntl.h>
#include <unistd.h>

#include "store/sessions/disk.hpp"
#include "store/sessions/unfinished.hpp"
#include "tests/unit/store/sessions/store_fixture.hpp"

using namespace sessiond;
using namespace sessiond::sessions;
using namespace sessiond::testing;

namespace {

constexpr std::chrono::hours for_long{1};
constexpr std::string_view half = "{\"a\":{\"n\":1},\"t\":{\"sess";
constexpr std::string_view rest = "ionId\":\"t\"}}";

// A program that has the store open.
class Writer {
 public:
  explicit Writer(const StoreFixture& at, int flags = 0) : fd_(::open(at.path.c_str(), O_WRONLY | flags)) {
    REQUIRE(fd_ >= 0);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { ::close(fd_); }
  void write(std::string_view text) const {
    REQUIRE(::write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  void empty() const { REQUIRE(::ftruncate(fd_, 0) == 0); }

 private:
  int fd_;
};

// A store with the entry a, in the hands of `file`.
void begin_with_a(SessionsFile& file) {
  loaded(file);
  checkpointed(file, {named("a", R"({"n":1})")});
}

Code failure(const Result<CheckpointResult>& written) { return written ? Code::internal : written.error().code; }

}  // namespace

TEST_CASE("a file is damage when it has not changed for long enough, or was not whole for too long") {
  using std::chrono::seconds;
  const Unfinished::Clock::time_point begin{};
  const auto read = [](std::uint64_t size, std::uint64_t content) {
    StoreRead made{.kind = StoreRead::Kind::damaged, .content_hash = content};
    made.snapshot.id.size = size;
    return made;
  };
  Unfinished file({.unchanged = seconds(5), .longest = seconds(60)});
  CHECK_FALSE(file.is_damage());
  file.saw(read(1, 1), begin);
  CHECK_FALSE(file.is_damage());
  SUBCASE("unchanged") {
    file.saw(read(1, 1), begin + seconds(4));
    CHECK_FALSE(file.is_damage());
    file.saw(read(1, 1), begin + seconds(5));
    CHECK(file.is_damage());
  }
  SUBCASE("the size, or the content alone, changes") {
    file.saw(read(2, 1), begin + seconds(4));
    file.saw(read(2, 2), begin + seconds(8));
    file.saw(read(2, 2), begin + seconds(12));
    CHECK_FALSE(file.is_damage());
    file.saw(read(2, 2), begin + seconds(13));
    CHECK(file.is_damage());
  }
  SUBCASE("it changes all the time") {
    for (int second = 1; second < 60; ++second)
      file.saw(read(2, static_cast<std::uint64_t>(second)), begin + seconds(second));
    CHECK_FALSE(file.is_damage());
    file.saw(read(2, 60), begin + seconds(60));
    CHECK(file.is_damage());
  }
  SUBCASE("it was whole in between") {
    file.forget();
    file.saw(read(1, 1), begin + seconds(9));
    CHECK_FALSE(file.is_damage());
  }
}

TEST_CASE("a store that is being written in place is not read, and no checkpoint takes its place") {
  StoreFixture at;
  at.patience.unchanged = for_long;
  SessionsFile file(at.options());
  begin_with_a(file);
  const Writer writer(at, O_TRUNC);
  writer.write(half);
  CHECK_FALSE(polled(file));
  CHECK(failure(file.checkpoint({named("b", "{}")})) == Code::lock_timeout);
  CHECK(at.text() == half);
  CHECK(file.look_again_in());
  CHECK(at.names(at.sessions) == std::set<std::string>{"sessions.json"});
  writer.write(rest);
  std::optional<ForeignChange> change;
  SUBCASE("found by a checkpoint") { change = checkpointed(file, {named("b", "{}")}).foreign; }
  SUBCASE("found by a poll") { change = polled(file); }
  REQUIRE(change);
  CHECK(keys(change->created) == "t ");
  CHECK_FALSE(checkpointed(file, {named("b", "{}")}).foreign);
  CHECK(at.text() == "{\n\"a\": {\"n\":1},\n\"t\": {\"sessionId\":\"t\"},\n\"b\": {}\n}\n");
  CHECK(file.take_repairs().empty());
}

TEST_CASE("a store that is being written in place when it is loaded is waited for, and nothing is written") {
  StoreFixture at;
  at.patience.unchanged = for_long;
  at.replace(half);
  SessionsFile file(at.options());
  for (int turn = 0; turn < 2; ++turn) {
    const auto report = file.load();
    REQUIRE_FALSE(report);
    CHECK(report.error().code == Code::starting);
    CHECK(report.error().retry_after_s);
  }
  CHECK(at.text() == half);
  at.rewrite(std::string(half) + std::string(rest));
  const LoadReport report = loaded(file);
  CHECK(keys(report.entries) == "a t ");
  CHECK_FALSE(report.rebuilt);
}

TEST_CASE("an empty object in place may be a beginning; one that replaces the store counts") {
  StoreFixture at;
  at.patience.unchanged = for_long;
  SessionsFile file(at.options());
  begin_with_a(file);
  SUBCASE("in place, filled later") {
    at.rewrite("{}");
    CHECK_FALSE(polled(file));
    CHECK(failure(file.checkpoint({})) == Code::lock_timeout);
    at.rewrite(R"({"a":{"n":1},"t":{}})");
    const auto change = polled(file);
    REQUIRE(change);
    CHECK(keys(change->created) == "t ");
    CHECK(change->deleted.empty());
  }
  SUBCASE("by rename") {
    at.replace("{}");
    const auto change = polled(file);
    REQUIRE(change);
    CHECK(change->deleted == std::vector<std::string>{"a"});
  }
}

TEST_CASE("an empty object that stays for long enough counts") {
  StoreFixture at;
  SessionsFile file(at.options());
  begin_with_a(file);
  at.rewrite("{}");
  const auto change = polled(file);
  REQUIRE(change);
  CHECK(change->deleted == std::vector<std::string>{"a"});
}

TEST_CASE("what a program writes into a file that a checkpoint took away is merged with what was read of it") {
  StoreFixture at;
  at.patience.unchanged = for_long;
  SessionsFile file(at.options());
  begin_with_a(file);
  checkpointed(file, {named("gone", "{}")});
  const Writer writer(at);
  checkpointed(file, {named("a", R"({"n":2})"), named("b", "{}")});
  checkpointed(file, {NamedEntry{.key = "gone", .entry = nullptr}, named("c", "{}")});
  CHECK(file.look_again_in());
  writer.empty();
  writer.write("{\"a\":{\"n\":1},\"gone\":{},\"t\":{\"sess");
  CHECK_FALSE(polled(file));
  checkpointed(file, {named("d", "{}")});  // goes on meanwhile
  writer.write(rest);
  const auto change = polled(file);
  REQUIRE(change);
  CHECK(keys(change->created) == "t ");
  CHECK(change->updated.empty());
  CHECK(change->deleted.empty());
  CHECK_FALSE(polled(file));
}

TEST_CASE("a deletion in a file that was taken away does not take what we have changed since") {
  StoreFixture at;
  at.patience.unchanged = for_long;
  SessionsFile file(at.options());
  begin_with_a(file);
  checkpointed(file, {named("z", "{}")});
  const Writer writer(at);
  checkpointed(file, {named("a", R"({"n":2})")});
  writer.empty();
  writer.write("{\"t\":{}}");
  const auto change = polled(file);
  REQUIRE(change);
  CHECK(keys(change->created) == "t ");
  CHECK(change->deleted == std::vector<std::string>{"z"});
}

TEST_CASE("a damaged file that was set aside is merged when its writer ends after all") {
  StoreFixture at;
  at.patience = {.unchanged = for_long, .longest = {}};
  SessionsFile file(at.options());
  begin_with_a(file);
  const Writer writer(at, O_TRUNC);
  writer.write(half);
  CHECK_FALSE(polled(file));
  CHECK_FALSE(polled(file));
  CHECK(at.text() == "{\n\"a\": {\"n\":1}\n}\n");
  CHECK_FALSE(at.the_file("sessions.json.corrupt.").empty());
  writer.write(rest);
  const auto change = polled(file);
  REQUIRE(change);
  CHECK(keys(change->created) == "t ");
  CHECK(change->deleted.empty());
}

TEST_CASE("few files that were taken away stay open") {
  StoreFixture at;
  at.patience.unchanged = for_long;
  SessionsFile file(at.options());
  begin_with_a(file);
  const auto open_files = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = open_files();
  for (int turn = 0; turn < 40; ++turn) checkpointed(file, {named("a", fmt::format(R"({{"n":{}}})", turn))});
  CHECK(open_files() - before <= 4);
}
