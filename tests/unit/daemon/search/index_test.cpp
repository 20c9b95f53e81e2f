#include "daemon/search/index.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "daemon/search/file.hpp"
#include "daemon/search/finder.hpp"
#include "daemon/search/schema.hpp"
#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::search;
using sessiond::testing::TempDir;

namespace {

const DocName main_doc{"main", "k", "", ""};

std::string said(std::string_view text, std::int64_t time, std::string_view id = "e") {
  return fmt::format(R"({{"type":"message","role":"user","id":"{}","timestamp":{},"content":"{}"}})", id, time, text);
}

struct Made {
  explicit Made(std::string at) : path(std::move(at)) { open(); }
  void open() {
    index.reset();
    index = std::make_unique<Index>(Index::Options{.path = path}, grams);
    if (index->is_current()) return;
    index->create({.epoch = "e", .seq = 0}, 0);
    REQUIRE(index->is_current());
    index->set_whole();
  }
  void add(std::uint64_t seq, std::string_view text, std::int64_t time, const DocName& name = main_doc) {
    index->add(doc(name), seq, said(text, time, fmt::format("e{}", seq)));
  }
  Doc& doc(const DocName& name = main_doc) {
    Doc& there = index->doc(name);
    there.session_id = "s";
    index->documents().changed(there);
    return there;
  }
  Found look(std::string_view words, std::size_t limit = 1000, std::optional<Place> from = {}) const {
    Asked asked{.words = *Words::parse(words), .archived = Archived::any, .limit = limit};
    asked.sees = [this](auto, std::string_view key, auto) { return key.starts_with(prefix); };
    const std::atomic<bool> stop{false};
    return find(path, grams, asked, from, std::chrono::steady_clock::time_point::max(), stop);
  }
  std::vector<std::uint64_t> seqs(std::string_view words) const {
    std::vector<std::uint64_t> all;
    for (const Hit& hit : look(words).hits) all.push_back(hit.seq);
    return all;
  }

  std::string path;
  std::string prefix{};  // of the keys that looks see
  Grams grams{};
  std::unique_ptr<Index> index{};
};

using Seqs = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("what is committed is found, newest first, and survives; what is not is gone") {
  const TempDir dir;
  Made made((dir / "i").native());
  made.add(0, "first needle", 1000);
  made.add(1, "second needle", 900);
  made.index->set_position(7);
  CHECK(made.seqs("needle").empty());
  REQUIRE(made.index->commit());
  CHECK(made.seqs("needle") == Seqs{0, 1});
  CHECK(made.index->rows().count() == 2);
  made.add(2, "third needle", 2000);
  made.index->set_position(8);
  made.index->rollback();
  CHECK(made.index->rows().count() == 2);
  made.open();
  CHECK(made.index->position().seq == 7);
  CHECK(made.index->position().epoch == "e");
  CHECK(made.seqs("needle") == Seqs{0, 1});
  CHECK(made.doc().next_seq == 2);
}

TEST_CASE("what is stopped commits nothing, and the index opens again as it was") {
  const TempDir dir;
  Made made((dir / "i").native());
  made.add(0, "kept", 1'000);
  made.index->set_position(7);
  REQUIRE(made.index->commit());
  for (const bool while_it_waits : {false, true}) {
    std::atomic<bool> stop{!while_it_waits};
    made.index = std::make_unique<Index>(Index::Options{.path = made.path, .stop = &stop}, made.grams);
    CHECK(made.index->is_current() == while_it_waits);
    if (while_it_waits) {
      for (std::uint64_t seq = 1; seq < 100; ++seq) made.add(seq, "lost", 2'000);
      made.index->set_position(8);
      stop = true;
      CHECK_FALSE(made.index->commit());
    }
    REQUIRE(made.index->error());
    CHECK(made.index->error()->is_stopped());
    CHECK_FALSE(made.index->error()->is_damage());
    made.index.reset();
  }
  made.open();
  CHECK(made.index->position().seq == 7);
  CHECK(made.seqs("kept") == Seqs{0});
  CHECK(made.seqs("lost").empty());
}

TEST_CASE("a look that sees few documents finds what is in them, newest first, page by page") {
  const TempDir dir;
  Made made((dir / "i").native());
  Seqs wanted, in_all;
  for (std::uint64_t seq = 0; seq < 6000; ++seq) {
    const std::string key = seq % 50 == 7 ? fmt::format("mine{}", seq % 3) : fmt::format("other{}", seq % 20);
    const bool has = seq % 4 == 3;
    made.add(seq, has ? "a needle in it" : "hay", static_cast<std::int64_t>(seq), {"main", key, "", ""});
    if (has) in_all.insert(in_all.begin(), seq);
    if (has && key.starts_with("mine")) wanted.insert(wanted.begin(), seq);
  }
  REQUIRE(made.index->commit());
  CHECK(made.look("needle", 10'000).hits.size() == in_all.size());
  made.prefix = "mine";
  for (const char* words : {"needle", "in", "\"needle in it\"", "a"}) {
    CAPTURE(words);
    Seqs seqs;
    std::optional<Place> from;
    for (Found page;; from = page.next) {
      page = made.look(words, 7, from);
      for (const Hit& hit : page.hits) {
        CHECK(hit.key.starts_with("mine"));
        if (hit.seq % 4 == 3) seqs.push_back(hit.seq);
      }
      CHECK_FALSE(page.partial);
      if (!page.more) break;
    }
    CHECK(seqs == wanted);
  }
  made.prefix = "nobody";
  CHECK(made.look("needle").hits.empty());
}

TEST_CASE("messages of one millisecond, of none, and from before the epoch") {
  const TempDir dir;
  Made made((dir / "i").native());
  for (std::uint64_t seq = 0; seq < 5000; ++seq) made.add(seq, "same moment", 1000);  // more than ids of a time
  Doc& doc = made.doc();
  made.index->add(doc, 5000, R"({"type":"message","role":"user","id":"x","content":"no time moment"})");
  made.add(5001, "early moment", -5);
  REQUIRE(made.index->commit());
  CHECK(made.look("same", 10'000).hits.size() == 5000);
  const Found none = made.look("\"no time\"");
  REQUIRE(none.hits.size() == 1);
  CHECK(none.hits[0].time == 1000);  // of the message before it
  const Found early = made.look("early");
  REQUIRE(early.hits.size() == 1);
  CHECK(early.hits[0].time == -5);
  const Found page = made.look("moment", 100);
  CHECK(page.more);
  CHECK(page.hits.size() == 100);
  std::set<std::uint64_t> seen;
  std::optional<Place> from;
  for (bool more = true; more;) {
    const Found next = made.look("moment", 700, from);
    for (const Hit& hit : next.hits) CHECK(seen.insert(hit.seq).second);
    more = next.more;
    from = next.next;
  }
  CHECK(seen.size() == 5002);
}

TEST_CASE("removed, renamed and changed texts, within one transaction and over several") {
  for (const bool between : {false, true}) {
    CAPTURE(between);
    const TempDir dir;
    Made made((dir / "i").native());
    const auto step = [&] {
      if (between) REQUIRE(made.index->commit());
    };
    for (std::uint64_t seq = 0; seq < 4; ++seq) made.add(seq, fmt::format("needle number {}", seq), 1000);
    step();
    made.index->change("main", {.session_id = "s", .entry = "e1", .seq = 1, .text = "needle changed"}, 2000);
    made.index->change("main", {.session_id = "s", .entry = "e2", .seq = 2, .deleted = true}, 2000);
    step();
    made.index->change("main", {.session_id = "s", .entry = "e2", .seq = 2, .text = "needle risen"}, 3000);
    made.index->change("main", {.session_id = "s", .entry = "e1", .seq = 1, .text = "needle older"}, 1500);
    made.index->change("main", {.session_id = "s", .entry = "e9", .seq = 9, .text = "needle early"}, 2000);
    step();
    made.add(9, "needle late", 1000);  // read after its change was
    REQUIRE(made.index->commit());
    CHECK(made.seqs("needle") == Seqs{9, 3, 1, 0});
    CHECK(made.seqs("changed") == Seqs{1});
    CHECK(made.seqs("number") == Seqs{3, 0});
    CHECK(made.seqs("early") == Seqs{9});
    CHECK(made.seqs("late").empty());

    made.index->rename(made.doc(), {"main", "k", "", "a.reset.1"}, ".reset.1");
    step();
    made.add(0, "needle anew", 5000);
    REQUIRE(made.index->commit());
    CHECK(made.look("needle").hits.size() == 5);
    CHECK(made.index->documents().of_ending("main", ".reset.1").size() == 1);
    CHECK(made.index->documents().living("main", "k").size() == 1);
    CHECK(made.index->documents().of_session("main", "s").size() == 2);
    for (Doc* doc : made.index->documents().of_ending("main", ".reset.1")) made.index->remove(*doc);
    REQUIRE(made.index->commit());
    CHECK(made.seqs("needle") == Seqs{0});
    CHECK(made.index->rows().count() == 1);
  }
}

TEST_CASE("names are replaced, and an empty one goes") {
  const TempDir dir;
  Made made((dir / "i").native());
  const DocName names{"main", "k", "", std::string(names_doc)};
  made.index->add_name(made.doc(names), Role::name, "old needle", 1);
  made.index->add_name(made.doc(names), Role::label, "label needle", 1);
  made.index->add_name(made.doc(names), Role::name, "new needle", 2);
  REQUIRE(made.index->commit());
  CHECK(made.look("needle").hits.size() == 2);
  CHECK(made.look("old").hits.empty());
  made.index->add_name(made.doc(names), Role::name, "", 3);
  REQUIRE(made.index->commit());
  CHECK(made.look("needle").hits.size() == 1);
}

TEST_CASE("an index in memory is found by all, and leaves no file") {
  Made made(in_memory_name());
  made.add(0, "needle", 1000);
  REQUIRE(made.index->commit());
  CHECK(made.seqs("needle") == Seqs{0});
  CHECK(Made(in_memory_name()).seqs("needle").empty());
}

TEST_CASE("texts that are removed are overwritten in the file") {
  const TempDir dir;
  Made made((dir / "i").native());
  made.add(0, "unforgettable-secret-word", 1000);
  made.index->commit();
  made.index->remove(made.doc());
  REQUIRE(made.index->commit());
  made.index.reset();  // closes, and brings the WAL into the file
  CHECK_FALSE(dir.read("i").contains("unforgettable-secret-word"));
}

TEST_CASE("of purged texts nothing stays: not in the file, not in the WAL, and no gram") {
  for (const bool between : {false, true}) {  // whether the text was committed before it was purged
    CAPTURE(between);
    const TempDir dir;
    Made made((dir / "i").native());
    for (std::uint64_t seq = 0; seq < 500; ++seq) made.add(seq, fmt::format("some words {} and more", seq * 7919), 1);
    made.add(500, "龘靐齉 unforgettable", 1000);  // a gram that shares no beginning with its neighbours
    if (between) REQUIRE(made.index->commit());
    made.add(0, "stays", 1000, {"main", "other", "", ""});
    made.index->remove(made.doc());
    made.index->note_purge();
    REQUIRE(made.index->commit());
    made.index->checkpoint();
    REQUIRE_FALSE(made.index->needs_checkpoint());
    CHECK(dir.read("i-wal").empty());
    CHECK_FALSE(dir.read("i").contains("unforgettable"));
    made.open();  // the next start goes on
    REQUIRE(made.index->has_purged_grams());
    while (made.index->merge_some()) {
    }
    CHECK_FALSE(made.index->has_purged_grams());
    made.index->checkpoint();
    REQUIRE_FALSE(made.index->needs_checkpoint());
    CHECK(dir.read("i-wal").empty());
    CHECK_FALSE(dir.read("i").contains("齉"));
    CHECK(made.seqs("stays") == Seqs{0});
  }
}

TEST_CASE("an index with another measure of texts is not current") {
  const TempDir dir;
  Made made((dir / "i").native());
  made.index.reset();
  Index other({.path = made.path, .text_bytes = 100}, made.grams);
  CHECK_FALSE(other.is_current());
}

TEST_CASE("a place of another index is not gone on from") {
  const TempDir dir;
  Made made((dir / "i").native()), other((dir / "o").native());
  for (Made* one : {&made, &other}) {
    for (std::uint64_t seq = 0; seq < 3; ++seq) one->add(seq, "needle", 1000);
    REQUIRE(one->index->commit());
  }
  const Found page = made.look("needle", 1);
  REQUIRE(page.more);
  CHECK(made.look("needle", 5, page.next).hits.size() == 2);
  const Found elsewhere = other.look("needle", 5, page.next);
  CHECK(elsewhere.other_index);
  CHECK(elsewhere.hits.empty());
}

TEST_CASE("words of one and two characters are found among any number of texts, also at a text's end") {
  const TempDir dir;
  Made made((dir / "i").native());
  constexpr std::uint64_t count = 60'000;
  for (std::uint64_t seq = 0; seq < count; ++seq) {
    const bool rare = seq % 20'000 == 5;
    const char* usual = seq % 2 == 0 ? "the common words" : "xyxy";
    made.add(seq, rare ? (seq == 5 ? "qz" : "in front 東京") : usual, static_cast<std::int64_t>(seq));
  }
  REQUIRE(made.index->commit());
  const auto all = [&](std::string_view words) {
    const Found found = made.look(words);
    CHECK_FALSE(found.partial);
    Seqs seqs;
    for (const Hit& hit : found.hits) seqs.push_back(hit.seq);
    return seqs;
  };
  CHECK(all("qz") == Seqs{5});
  CHECK(all("東京") == Seqs{40'005, 20'005});
  CHECK(all("東京 in") == Seqs{40'005, 20'005});
  CHECK(all("zq").empty());
  CHECK(made.look("th", 5).hits.size() == 5);
  CHECK(all("q") == Seqs{5});
  CHECK(all("z") == Seqs{5});
  CHECK(all("京") == Seqs{40'005, 20'005});
  CHECK(all("京 f") == Seqs{40'005, 20'005});
  CHECK(all("龘").empty());
  CHECK(made.look("e", 5).hits.size() == 5);
  CHECK(made.look("e x").partial);  // each is common, and no text has both: so many are not looked through
}

TEST_CASE("who said it, when, and in which session narrow a look") {
  const TempDir dir;
  Made made((dir / "i").native());
  const auto add = [&](std::uint64_t seq, std::string_view from, std::int64_t time) {
    made.index->add(made.doc(), seq,
                    fmt::format(R"({{"type":"message","role":"user","id":"e{}","timestamp":{},)"
                                R"("content":"needle","from":{}}})",
                                seq, time, from));
  };
  add(0, R"("U1")", 1000);
  add(1, R"({"id":"U2","name":"Ada Lovelace","username":"ada"})", 2000);
  add(2, R"(17)", 3000);
  made.add(3, "needle", 4000);
  made.add(0, "needle", 5000, {"main", "other", "", ""});
  REQUIRE(made.index->commit());
  const auto seqs = [&](const auto& narrow) {
    Asked asked{.words = *Words::parse("needle")};
    asked.sees = [](auto, auto, auto) { return true; };
    narrow(asked);
    const std::atomic<bool> stop{false};
    Seqs found;
    for (const Hit& hit :
         find(made.path, made.grams, asked, {}, std::chrono::steady_clock::time_point::max(), stop).hits)
      found.push_back(hit.seq);
    return found;
  };
  for (const auto& [name, wanted] : std::vector<std::pair<std::string, Seqs>>{{"u1", {0}},
                                                                              {"U2", {1}},
                                                                              {"ADA", {1}},
                                                                              {"ada  lovelace", {1}},
                                                                              {"Ada Love", {}},
                                                                              {"17", {}},
                                                                              {"", {0, 3, 2, 1, 0}}}) {
    CAPTURE(name);
    CHECK(seqs([&](Asked& asked) { asked.from = name; }) == wanted);
  }
  CHECK(seqs([](Asked& asked) { asked.since = 2000, asked.until = 3000; }) == Seqs{2, 1});
  CHECK(seqs([](Asked& asked) { asked.key = "other"; }) == Seqs{0});
}

TEST_CASE("random texts are found as a look through all of them finds them") {
  std::mt19937 random(11);
  const std::vector<std::string> parts{"alpha", "Beta", "日本語", "ab", "ÉT", " ", " ", "x", "needle", "straße"};
  const auto some = [&](std::size_t most) {
    std::string text;
    for (std::size_t n = 1 + random() % most; n > 0; --n) text += parts[random() % parts.size()];
    return text;
  };
  const TempDir dir;
  Made made((dir / "i").native());
  std::map<std::uint64_t, std::string> texts;
  for (std::uint64_t seq = 0; seq < 600; ++seq) {
    texts[seq] = some(8);
    made.add(seq, texts[seq], 1000 + static_cast<std::int64_t>(random() % 50));
    if (seq % 7 == 3) {
      texts[seq] = some(8);
      made.index->change("main", {.session_id = "s", .entry = fmt::format("e{}", seq), .seq = seq, .text = texts[seq]},
                         9000);
    }
    if (seq % 50 == 0) REQUIRE(made.index->commit());
  }
  REQUIRE(made.index->commit());
  for (int n = 0; n < 200; ++n) {
    const auto words = Words::parse(some(3));
    if (!words) continue;
    std::set<std::uint64_t> wanted;
    for (const auto& [seq, text] : texts)
      if (words->in(folded(text))) wanted.insert(seq);
    Asked asked{.words = *words, .limit = 1000};
    asked.sees = [](auto, auto, auto) { return true; };
    const std::atomic<bool> stop{false};
    const Found found = find(made.path, made.grams, asked, {}, std::chrono::steady_clock::time_point::max(), stop);
    std::set<std::uint64_t> seqs;
    for (const Hit& hit : found.hits) seqs.insert(hit.seq);
    CHECK(seqs == wanted);
  }
}

TEST_CASE("a file that is no index is not touched outside of the index's folder") {
  const TempDir dir;
  const auto path = dir.write("mine.txt", "dear diary");
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  IndexFile strange(path, false);
  REQUIRE_FALSE(strange.prepare().has_value());
  strange.remove();
  CHECK(dir.read("mine.txt") == "dear diary");
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0644);
  IndexFile own(path, true);
  CHECK(own.prepare() == IndexFile::Content::some);
  own.remove();
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("an index outside of its folder is known again by its marks, also before its first checkpoint") {
  const TempDir dir;
  const auto path = dir / "away/index";
  {
    IndexFile file(path, false);
    CHECK(file.prepare() == IndexFile::Content::none);
    Made made(path.native());
    made.add(0, "needle", 1000);
    REQUIRE(made.index->commit());
    file.note_opened();
    CHECK(file.is_untouched());
    IndexFile again(path, false);
    CHECK(again.prepare() == IndexFile::Content::some);
  }
  IndexFile file(path, false);
  CHECK(file.prepare() == IndexFile::Content::some);
  file.note();
  std::filesystem::remove(path);
  CHECK_FALSE(file.is_untouched());
  dir.write("away/index-wal", "mine");
  CHECK_FALSE(file.prepare().has_value());
  CHECK(dir.read("away/index-wal") == "mine");
  std::filesystem::remove(dir / "away/index-wal");
  dir.write("away/index", "mine");  // put there while the daemon serves
  file.remove();
  CHECK(dir.read("away/index") == "mine");
}

TEST_CASE("what others do to the files of an index is seen, and what it does itself is not") {
  const TempDir dir;
  const auto path = dir / "index";
  IndexFile file(path, true);
  REQUIRE(file.prepare().has_value());
  Made made(path.native());
  made.add(0, "needle", 1000);
  REQUIRE(made.index->commit());
  CHECK_FALSE(file.is_untouched());
  file.note_opened();
  CHECK(file.is_untouched());
  for (const char* name : {"index", "index-wal"}) {
    CAPTURE(name);
    file.note();
    std::filesystem::last_write_time(dir / name,
                                     std::filesystem::last_write_time(dir / name) + std::chrono::seconds(1));
    CHECK_FALSE(file.is_untouched());
    file.note();
    std::filesystem::resize_file(dir / name, std::filesystem::file_size(dir / name) - 1);
    CHECK_FALSE(file.is_untouched());
  }
}

TEST_CASE("the index changes its file in a checkpoint only") {
  const TempDir dir;
  const auto path = dir / "index";
  Made made(path.native());
  REQUIRE(made.index->commit());
  made.index->checkpoint();
  IndexFile file(path, true);
  REQUIRE(file.prepare().has_value());
  file.note_opened();
  for (std::uint64_t seq = 0; !made.index->needs_checkpoint(); ++seq) {
    made.add(seq, std::string(20'000, 'x'), 1000);
    REQUIRE(made.index->commit());
    file.note_wal();
    REQUIRE(file.is_untouched());
    REQUIRE(seq < 10'000);
  }
  made.index->checkpoint();
  CHECK_FALSE(made.index->needs_checkpoint());
  CHECK_FALSE(file.is_untouched());
  file.note();
  CHECK(file.is_untouched());
  CHECK(made.index->file_bytes() == file.noted_bytes());
  made.add(20'000, "needle", 1000);
  REQUIRE(made.index->commit());
  CHECK_FALSE(made.index->needs_checkpoint());
}

TEST_CASE("a folder, a link and a pipe in place of the file are left") {
  const TempDir dir;
  std::filesystem::create_directory(dir / "folder");
  std::filesystem::create_symlink(dir / "target", dir / "link");
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  for (const char* name : {"folder", "link", "pipe"}) {
    CAPTURE(name);
    IndexFile file(dir / name, true);
    const auto prepared = file.prepare();
    REQUIRE_FALSE(prepared.has_value());
    CHECK(prepared.error().detail.contains(name));
    CHECK(std::filesystem::exists(std::filesystem::symlink_status(dir / name)));
  }
  CHECK_FALSE(std::filesystem::exists(dir / "target"));
}
