#include "store/blobs/blob_store.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "tests/unit/temp_dir.hpp"

using sessiond::Code;
using sessiond::blobs::BlobStore;
using sessiond::blobs::sha256_of;
using sessiond::testing::TempDir;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t no_limit = 1 << 30;

void write(const fs::path& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

}  // namespace

TEST_CASE("a blob is stored once, checked when it is read, and mended") {
  const TempDir dir;
  BlobStore store(dir.path());
  CHECK(!store.any());
  const std::string hash = sha256_of("abc");
  CHECK(hash == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(store.read(hash).error().code == Code::not_found);
  CHECK(store.touch(hash).error().code == Code::not_found);
  for (int i = 0; i < 2; ++i) REQUIRE(store.put(hash, "abc", 3).has_value());
  CHECK(store.any());
  CHECK(store.totals().count == 1);
  CHECK(store.totals().bytes == 3);
  CHECK((fs::status(store.path_of(hash)).permissions() & fs::perms::others_all) == fs::perms::none);
  CHECK(store.read(hash) == "abc");
  write(store.path_of(hash), "abd");
  CHECK(store.read(hash).error().code == Code::degraded);
  REQUIRE(store.put(hash, "abc", no_limit).has_value());
  CHECK(store.read(hash) == "abc");
  CHECK(store.put(sha256_of("x"), "x", 3).error().code == Code::storage_full);
}

TEST_CASE("what is pinned, or was pinned since the sweep began, or is young, stays") {
  const TempDir dir;
  BlobStore store(dir.path());
  const std::string hash = sha256_of("abc");
  REQUIRE(store.put(hash, "abc", no_limit).has_value());
  CHECK(store.remove(hash, 60'000) == 0);
  BlobStore::Pin before = store.pin(hash);
  CHECK(store.remove(hash, 0) == 0);
  store.begin_sweep();
  before.reset();
  CHECK(store.remove(hash, 0) == 0);  // it was pinned when the sweep began
  store.end_sweep();
  store.begin_sweep();
  store.pin(hash).reset();
  CHECK(store.remove(hash, 0) == 0);
  store.end_sweep();
  store.begin_sweep();
  CHECK(store.remove(hash, 0) == 3);
  store.end_sweep();
  CHECK(store.totals().count == 0);
}

TEST_CASE("entries of the folders that are no blobs are told apart") {
  const TempDir dir;
  BlobStore store(dir.path());
  const std::string hash = sha256_of("abc");
  REQUIRE(store.put(hash, "abc", no_limit).has_value());
  write(store.folder() / "file", "");
  write(store.path_of(hash).parent_path() / "x.tmp", "");
  fs::create_directory(store.folder() / "00");
  write(store.folder() / "00" / hash, "abc");  // in another hash's folder
  fs::create_directory(store.path_of(sha256_of("abc")).parent_path() / sha256_of("d"));
  int blobs = 0;
  int others = 0;
  store.each([&](const fs::path&, bool is_blob) { ++(is_blob ? blobs : others); });
  CHECK(blobs == 1);
  CHECK(others == 4);
  CHECK(store.totals().count == 1);
}
