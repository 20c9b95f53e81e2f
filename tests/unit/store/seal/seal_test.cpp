#include "store/seal/sealed.hpp"

#include <set>
#include <thread>

#include "store/hex.hpp"
#include "store/json/crc.hpp"
#include "tests/unit/store/journal/journal_fixture.hpp"
#include "tests/unit/store/seal/keys_fixture.hpp"

namespace sessiond::seal {
namespace {

using journal_test::commit;
using journal_test::TestJournal;
using seal_test::key_text;
using seal_test::KeysInUse;
using seal_test::write_keys;
using testing::TempDir;
namespace fs = std::filesystem;

std::string bytes(std::string_view hex) {
  std::string out(hex.size() / 2, '\0');
  REQUIRE(store::from_hex(hex, {reinterpret_cast<unsigned char*>(out.data()), out.size()}));
  return out;
}

const Place here{"line", "main", "s1", "3"};

TEST_CASE("AES-256-GCM gives the bytes of the published test cases 15 and 16") {
  const Key key("k", bytes("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"));
  const std::string nonce_text = bytes("cafebabefacedbaddecaf888");
  Nonce nonce{};
  std::ranges::copy(nonce_text, nonce.begin());
  const std::string text = bytes(
      "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525"
      "b16aedf5aa0de657ba637b391aafd255");
  const std::string sealed = bytes(
      "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838"
      "c5f61e6393ba7a0abcc9f662898015ad");
  std::string out(text.size() + tag_bytes, '\0');
  key.encrypt(text, nonce, "", out.data());
  CHECK(out == sealed + bytes("b094dac5d93471bdec1a502270e3cc6c"));
  const std::string aad = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
  std::string shorter(60 + tag_bytes, '\0');
  key.encrypt(text.substr(0, 60), nonce, aad, shorter.data());
  CHECK(shorter == sealed.substr(0, 60) + bytes("76fc6ece0f4e1768cddf8853bb2d551b"));
  std::string opened;
  REQUIRE(key.decrypt(shorter, nonce, aad, opened));
  CHECK(opened == text.substr(0, 60));
  CHECK_FALSE(key.decrypt(shorter, nonce, "", opened));
}

TEST_CASE("a sealed text opens at its place only, and no bit of it can be changed") {
  const TempDir dir;
  const KeysInUse keys(dir.path());
  const std::string text = R"({"role":"user","text":"secretword"})";
  const std::string sealed = seal(text, here);
  CHECK(is_sealed(sealed));
  CHECK(json::check(sealed));
  CHECK(key_of(sealed) == "one");
  CHECK_FALSE(sealed.contains("secretword"));
  std::string out;
  REQUIRE(open(sealed, here, out));
  CHECK(out == text);
  for (const Place& other : {Place{"line", "main", "s1", "4"}, Place{"line", "main", "s2", "3"},
                             Place{"line", "other", "s1", "3"}, Place{"line", "mains", "1", "3"}})
    CHECK_FALSE(open(sealed, other, out));
  for (std::size_t at = 0; at < sealed.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = sealed;
      other[at] = static_cast<char>(other[at] ^ (1 << bit));
      CHECK_FALSE(open(other, here, out));
    }
    CHECK_FALSE(open(std::string_view(sealed).substr(0, at), here, out));
  }
}

TEST_CASE("a draw tells the size of the sealed line, and makes the same bytes again") {
  const TempDir dir;
  const KeysInUse keys(dir.path(), "two-of-2");
  for (const std::size_t length : {0UZ, 1UZ, 2UZ, 3UZ, 100UZ, 70'000UZ}) {
    const std::string text(length, 'x');
    const Draw drawn = draw();
    const auto again = draw_from_text(to_text(drawn));
    REQUIRE(again.has_value());
    CHECK(*again == drawn);
    std::string first;
    std::string second;
    append_sealed(first, text, drawn, here);
    append_sealed(second, text, *again, here);
    CHECK(first == second);
    CHECK(first.size() == sealed_size(length, drawn));
    CHECK(plain_size(first) == length);
    std::string out;
    REQUIRE(open(first, here, out));
    CHECK(out == text);
  }
}

TEST_CASE("no nonce comes twice, on any thread") {
  std::vector<std::vector<Nonce>> drawn(4);
  {
    std::vector<std::jthread> threads;
    for (auto& own : drawn)
      threads.emplace_back([&own] {
        for (int i = 0; i < 20'000; ++i) own.push_back(draw_nonce());
      });
  }
  std::set<Nonce> all;
  for (const auto& own : drawn) all.insert(own.begin(), own.end());
  CHECK(all.size() == 80'000);
}

TEST_CASE("a key file is refused with its name and the place of the fault") {
  const TempDir dir;
  const fs::path file = dir.path() / "keys.json";
  const auto said = [&] {
    const auto read = read_key_file(file);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().detail.contains(file.native()));
    return read.error().detail;
  };
  CHECK(said().contains("no such key file"));
  const std::string good = fmt::format(R"({{"active":"a","keys":{{"a":"{}"}}}})", key_text('a'));
  write_keys(file, good);
  CHECK(read_key_file(file).has_value());
  ::chmod(file.c_str(), 0640);
  CHECK(said().contains("chmod 600"));
  for (const auto& [text, place] : std::map<std::string, std::string>{
           {"[]", "not a JSON object"},
           {R"({"keys":{}})", "/active"},
           {R"({"active":"a"})", "/keys"},
           {R"({"active":"a","keys":{}})", "no key \"a\""},
           {R"({"active":"a","keys":{"a":"YQ=="}})", "/keys/a"},
           {R"({"active":"a","keys":{"a":7}})", "/keys/a"},
           {fmt::format(R"({{"active":"a","keys":{{"a b":"{}"}}}})", key_text('a')), "/keys/a b"}}) {
    write_keys(file, text);
    CHECK(said().contains(place));
  }
  fs::remove(file);
  fs::create_directory(file);
  CHECK(said().contains("not a regular file"));
}

TEST_CASE("keys that the state directory needs are demanded before anything is written") {
  const TempDir dir;
  const fs::path record = record_file(dir.path());
  const fs::path file = dir.path() / "keys.json";
  {
    const KeysInUse keys(dir.path());
    static_cast<void>(draw());
    REQUIRE(reserve());
  }
  REQUIRE(store::read_file(record).has_value());
  const std::string before = *store::read_file(record);
  const auto refused = [&](const std::optional<fs::path>& given) {
    const auto started = start(given, dir.path());
    REQUIRE_FALSE(started.has_value());
    CHECK(*store::read_file(record) == before);
    return started.error().detail;
  };
  CHECK(refused(std::nullopt).contains("\"one\""));
  write_keys(file, fmt::format(R"({{"active":"b","keys":{{"b":"{}"}}}})", key_text('1')));
  const std::string lost = refused(file);
  CHECK(lost.contains(file.native()));
  CHECK(lost.contains("\"one\""));
  write_keys(file, fmt::format(R"({{"active":"one","keys":{{"one":"{}"}}}})", key_text('2')));
  CHECK(refused(file).contains("is not the one"));
  REQUIRE(store::replace_file(record, "{"));
  CHECK_FALSE(start(file, dir.path()).has_value());
  stop();
}

TEST_CASE("a key's lines are counted over restarts, never too few, and end at 2^32") {
  const TempDir dir;
  {
    const KeysInUse keys(dir.path());
    for (int i = 0; i < 10; ++i) static_cast<void>(draw());
    REQUIRE(reserve());
  }
  {
    const KeysInUse keys(dir.path());
    CHECK(seal::keys()->active().lines() >= 10);
    seal::keys()->active().count_from(most_lines - 1);
    REQUIRE(reserve());
    static_cast<void>(draw());
    const auto full = reserve();
    REQUIRE_FALSE(full.has_value());
    CHECK(full.error().detail.contains("\"one\""));
    // Another active key goes on at once.
    write_keys(keys.file(), fmt::format(R"({{"active":"two-of-2","keys":{{"one":"{}","two-of-2":"{}"}}}})",
                                        key_text('1'), key_text('2')));
    const auto active = reload();
    REQUIRE(active.has_value());
    CHECK(*active == "two-of-2");
    CHECK(reserve().has_value());
  }
  const auto record = read_record(record_file(dir.path()));
  REQUIRE(record.has_value());
  REQUIRE(record->has_value());
  CHECK((*record)->keys.at("one").lines >= most_lines - 1);
  CHECK((*record)->keys.contains("two-of-2"));
}

TEST_CASE("a change of the key file must keep the keys that files are sealed with") {
  const TempDir dir;
  const KeysInUse keys(dir.path());
  const std::string sealed = seal("text", here);
  REQUIRE(reserve());
  write_keys(keys.file(), fmt::format(R"({{"active":"two","keys":{{"two":"{}"}}}})", key_text('2')));
  CHECK_FALSE(reload().has_value());
  write_keys(keys.file(), fmt::format(R"({{"active":"one","keys":{{"one":"{}"}}}})", key_text('3')));
  CHECK_FALSE(reload().has_value());
  std::string out;
  CHECK(open(sealed, here, out));
  write_keys(keys.file(),
             fmt::format(R"({{"active":"3","keys":{{"one":"{}","3":"{}"}}}})", key_text('1'), key_text('3')));
  REQUIRE(reload().has_value());
  CHECK(open(sealed, here, out));
  CHECK(key_of(seal("text", here)) == "3");
}

TEST_CASE("a sealed journal reads as the plain one does, and not without its key") {
  const TempDir dir;
  const journal::JournalOptions options{.dir = dir.path() / "journal"};
  const auto events = [&](TestJournal& journal) {
    std::string all;
    const auto read = journal->each_event(1, 1 << 20, [&](std::uint64_t, std::string_view json) { all += json; });
    REQUIRE(read.has_value());
    CHECK_FALSE(read->lost);
    return all;
  };
  {
    TestJournal plain(options);
    plain.put(commit(1, 2, "first"));
  }
  {
    const KeysInUse keys(dir.path());
    TestJournal journal(options);
    REQUIRE(journal.ok());
    journal.put(commit(3, 2, "secretword"));
    journal.put(commit(5, 1, "last"));
    CHECK(events(journal).contains("secretword"));
    const auto page = journal->read(1, 1 << 20);
    REQUIRE(page.has_value());
    CHECK(page->batches.size() == 3);
    CHECK(*page->batches[1].events[0] == journal_test::event_json(3, "secretword"));
  }
  std::string stored;
  store::each_in(options.dir, [&](const fs::directory_entry& entry) {
    if (entry.path().extension() == ".jsonl") stored += *store::read_file(entry.path());
  });
  CHECK(stored.contains("first"));
  CHECK_FALSE(stored.contains("secretword"));
  {
    const KeysInUse keys(dir.path());
    TestJournal journal(options);
    REQUIRE(journal.ok());
    CHECK(journal->head() == 5);
    CHECK(events(journal).contains("last"));
  }
  // The record is gone: the segments still say which key they need.
  fs::remove(record_file(dir.path()));
  CHECK_FALSE(start(std::nullopt, dir.path()).has_value());
  const KeysInUse keys(dir.path());
  CHECK(seal::keys()->active().lines() >= most_lines / 2);
}

}  // namespace
}  // namespace sessiond::seal
