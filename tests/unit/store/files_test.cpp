#include "store/files.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "store/confine.hpp"
#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::store;
using sessiond::testing::TempDir;
namespace fs = std::filesystem;

namespace {

mode_t mode_of(const fs::path& path) {
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

std::set<std::string> names_in(const fs::path& dir) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) names.insert(entry.path().filename());
  return names;
}

}  // namespace

TEST_CASE("files and directories have their modes whatever the umask") {
  const TempDir dir;
  for (const mode_t mask : {mode_t{0}, mode_t{0077}, mode_t{0777}}) {
    const mode_t old = ::umask(mask);
    const fs::path below = dir / ("made" + std::to_string(mask)) / "deep" / "";
    const auto made = make_dirs(below);
    const auto opened = open_file(below / "file", O_RDWR | O_CREAT);
    const auto replaced = replace_file(below / "replaced", "x");
    ::umask(old);
    REQUIRE(made);
    REQUIRE(opened);
    REQUIRE(replaced);
    CHECK(mode_of(below.parent_path()) == 0700);
    CHECK(mode_of(below.parent_path().parent_path()) == 0700);
    CHECK(mode_of(below / "file") == 0600);
    CHECK(mode_of(below / "replaced") == 0600);
  }
}

TEST_CASE("existing files and directories keep their modes") {
  const TempDir dir;
  REQUIRE(replace_file(dir / "file", "x"));
  fs::permissions(dir / "file", fs::perms(0644));
  fs::create_directory(dir / "open");
  fs::permissions(dir / "open", fs::perms(0755));
  REQUIRE(open_file(dir / "file", O_RDWR | O_CREAT));
  REQUIRE(make_dirs(dir / "open"));
  CHECK(mode_of(dir / "file") == 0644);
  CHECK(mode_of(dir / "open") == 0755);
}

TEST_CASE("a symbolic link is not followed") {
  const TempDir dir;
  REQUIRE(replace_file(dir / "real", "secret"));
  fs::create_symlink(dir / "real", dir / "link");
  CHECK_FALSE(open_file(dir / "link", O_RDONLY));
  CHECK_FALSE(open_file(dir / "link", O_RDWR | O_CREAT));
  CHECK_FALSE(read_file(dir / "link"));
  // Replacing puts a file in the link's place and leaves what it pointed at.
  REQUIRE(replace_file(dir / "link", "new"));
  CHECK(*read_file(dir / "real") == "secret");
  CHECK(*read_file(dir / "link") == "new");
}

TEST_CASE("descriptors are closed on exec and by their owner") {
  const TempDir dir;
  auto fd = open_file(dir / "file", O_RDWR | O_CREAT);
  REQUIRE(fd);
  const int number = fd->get();
  CHECK((::fcntl(number, F_GETFD) & FD_CLOEXEC) != 0);
  Fd other = std::move(*fd);
  CHECK(other.get() == number);
  other = Fd();
  CHECK(::fcntl(number, F_GETFD) == -1);
}

TEST_CASE("O_EXCL refuses what is there; O_CREAT opens it") {
  const TempDir dir;
  REQUIRE(open_file(dir / "file", O_RDWR | O_CREAT | O_EXCL));
  CHECK_FALSE(open_file(dir / "file", O_RDWR | O_CREAT | O_EXCL));
  CHECK(open_file(dir / "file", O_RDWR | O_CREAT));
}

TEST_CASE("read_file: whole files, none, no files") {
  const TempDir dir;
  const auto missing = read_file(dir / "missing");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == Code::not_found);
  CHECK(missing.error().detail.contains((dir / "missing").native()));
  REQUIRE(replace_file(dir / "empty", ""));
  CHECK(read_file(dir / "empty")->empty());
  std::string big(3'000'001, '\0');
  for (std::size_t at = 0; at < big.size(); ++at) big[at] = static_cast<char>(at * 31 % 251);
  REQUIRE(replace_file(dir / "big", big));
  CHECK(*read_file(dir / "big") == big);
  CHECK_FALSE(read_file(dir.path()));
  // /proc says its files are empty; they are read all the same.
  CHECK_FALSE(read_file("/proc/self/status")->empty());
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
  CHECK_FALSE(read_file(dir / "fifo"));  // and does not hang
}

TEST_CASE("reading and writing at a place") {
  const TempDir dir;
  auto fd = open_file(dir / "file", O_RDWR | O_CREAT);
  REQUIRE(fd);
  REQUIRE(write_all(fd->get(), "0123456789", "file"));
  REQUIRE(write_all_at(fd->get(), "abc", 4, "file"));
  CHECK(*read_at(fd->get(), 0, 100, "file") == "0123abc789");
  CHECK(*read_at(fd->get(), 8, 1, "file") == "8");
  CHECK(read_at(fd->get(), 10, 5, "file")->empty());
  CHECK_FALSE(write_all(-1, "x", "no file"));
  CHECK_FALSE(read_at(-1, 0, 1, "no file"));
}

TEST_CASE("write_all finishes what a pipe takes piecewise") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const std::string text(1'000'000, 'x');
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    ::_exit(write_all(ends[1], text, "pipe") ? 0 : 1);
  }
  ::close(ends[1]);
  std::size_t got = 0;
  char buffer[777];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) got += static_cast<std::size_t>(n);
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(got == text.size());
}

TEST_CASE("replace_file that fails leaves the old content and no temp file") {
  const TempDir dir;
  REQUIRE(replace_file(dir / "file", "old"));
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 1000, .rlim_max = 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(replace_file(dir / "file", std::string(100'000, 'n')) ? 1 : 0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(*read_file(dir / "file") == "old");
  CHECK(names_in(dir.path()) == std::set<std::string>{"file"});
}

TEST_CASE("resolve_below refuses what leaves the tree") {
  const TempDir dir;
  const TempDir outside;
  REQUIRE(make_dirs(dir / "agents/main"));
  fs::create_directory_symlink(outside.path(), dir / "out");
  fs::create_directory_symlink(dir / "agents", dir / "inside");
  fs::create_symlink("/nowhere/at/all", dir / "broken");
  CHECK(*resolve_below(dir.path(), "agents/main/x.jsonl") == dir / "agents/main/x.jsonl");
  CHECK(*resolve_below(dir.path(), "not/there/yet") == dir / "not/there/yet");
  CHECK(*resolve_below(dir.path(), "inside/main") == dir / "inside/main");
  for (const std::string_view bad :
       {"", "/etc/passwd", "..", "../x", "agents/../../x", "agents/..", "out", "out/x", "broken", "broken/x"}) {
    const auto refused = resolve_below(dir.path(), bad);
    CAPTURE(bad);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::invalid_id);
  }
  CHECK_FALSE(resolve_below(dir.path(), std::string_view("a\0b", 3)));
  CHECK_FALSE(resolve_below(dir / "none", "x"));
  // A link to a sibling whose name only begins alike is out as well.
  const fs::path longer = dir.path().native() + "-longer";
  fs::create_directory(longer);
  fs::create_directory_symlink(longer, dir / "alike");
  CHECK_FALSE(resolve_below(dir.path(), "alike/x"));
  fs::remove(longer);
}

TEST_CASE("random names") {
  CHECK(random_hex(0).empty());
  CHECK(random_hex(7).size() == 7);
  std::set<std::string> seen;
  for (int turn = 0; turn < 1000; ++turn) {
    const std::string uuid = random_uuid();
    REQUIRE(uuid.size() == 36);
    CHECK(uuid[14] == '4');
    CHECK(std::string_view("89ab").contains(uuid[19]));
    CHECK(uuid.find_first_not_of("0123456789abcdef-") == std::string::npos);
    seen.insert(uuid);
  }
  CHECK(seen.size() == 1000);
}

TEST_CASE("an identity changes with the content and with the file") {
  const TempDir dir;
  const auto now = [&] {
    struct stat status{};
    REQUIRE(::stat((dir / "file").c_str(), &status) == 0);
    return identity(status);
  };
  REQUIRE(replace_file(dir / "file", "one"));
  const FileIdentity first = now();
  CHECK(first == now());
  CHECK(first.size == 3);
  REQUIRE(replace_file(dir / "file", "two!"));
  CHECK_FALSE(first == now());
}

TEST_CASE("within a fence no folder leads out of it") {
  TempDir dir;
  const fs::path state = dir.path() / "state";
  const fs::path outside = dir.path() / "outside";
  fs::create_directories(state / "in");
  fs::create_directories(outside);
  REQUIRE(replace_file(outside / "file", "theirs"));
  fs::create_directory_symlink(outside, state / "out");
  fs::create_directory_symlink("in", state / "again");
  fs::create_directory_symlink(state / "in", state / "absolute");
  fs::create_directory_symlink(state, dir.path() / "link");
  for (const fs::path& root : {state, dir.path() / "link"}) {
    REQUIRE(confine_below(root));
    CHECK(read_file(root / "out/file").error().code == Code::invalid_id);
    CHECK(open_file(root / "out/file", O_WRONLY | O_CREAT | O_TRUNC).error().code == Code::invalid_id);
    CHECK(open_file(root / "out/new", O_WRONLY | O_CREAT).error().code == Code::invalid_id);
    CHECK(replace_file(root / "out/file", "ours").error().code == Code::invalid_id);
    CHECK(make_dirs(root / "out/a/b").error().code == Code::invalid_id);
    CHECK(names_in(outside) == std::set<std::string>{"file"});
    for (const char* folder : {"in", "again", "absolute"}) {
      REQUIRE(replace_file(root / folder / "mine", folder));
      CHECK(read_file(root / "in/mine").value() == folder);
      CHECK(make_dirs(root / folder / "a/b"));
    }
    CHECK(read_file(outside / "file").value() == "theirs");  // what lies elsewhere is none of its business
    REQUIRE(confine_below(""));
    CHECK(read_file(root / "out/file").value() == "theirs");
  }
}

TEST_CASE("within a fence a link to a transcript is followed, and no other") {
  TempDir dir;
  const std::filesystem::path root = dir / "state";
  REQUIRE(make_dirs(root / "agents"));
  REQUIRE(make_dirs(root / "journal"));
  REQUIRE(make_dirs(root / "big"));
  for (const char* name :
       {"state/big/t.jsonl", "state/big/other", "state/audit.jsonl", "state/journal/1.jsonl", "out.jsonl"})
    REQUIRE(replace_file(dir / name, "content"));
  const std::filesystem::path link = root / "agents/t.jsonl";
  REQUIRE(confine_below(root));
  const auto followed = [&](const char* target) {
    std::filesystem::remove(link);
    std::filesystem::create_symlink(target, link);
    const auto status = stat_within(link);
    REQUIRE(status);
    const bool is_file = S_ISREG(status->st_mode);
    CHECK(open_within(link, O_RDONLY).has_value() == is_file);
    CHECK((path_within(link) != link) == is_file);
    if (!is_file) CHECK(in_the_way(link, {}).lasting);
    return is_file;
  };
  CHECK(followed("../big/t.jsonl"));
  CHECK_FALSE(followed("../big/other"));
  CHECK_FALSE(followed("../audit.jsonl"));
  CHECK_FALSE(followed("../journal/1.jsonl"));
  CHECK_FALSE(followed("../../out.jsonl"));
  CHECK_FALSE(followed("../big/none.jsonl"));
  CHECK_FALSE(open_within(link, O_RDWR | O_CREAT));
  CHECK_FALSE(std::filesystem::exists(root / "big/none.jsonl"));
  REQUIRE(confine_below(""));
}

TEST_CASE("a file that is cut off when opened") {
  TempDir dir;
  REQUIRE(replace_file(dir.path() / "a", "text"));
  CHECK(open_file(dir.path() / "a", O_WRONLY | O_CREAT | O_TRUNC));
  CHECK(read_file(dir.path() / "a").value() == "");
}
