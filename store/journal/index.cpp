#include "store/journal/index.hpp"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "store/crc32.hpp"
#include "store/files.hpp"
#include "store/try.hpp"

namespace sessiond::journal {
namespace {

static_assert(std::endian::native == std::endian::little, "the index is written as it lies in memory");
constexpr std::string_view magic = "SDJIDX1\n";
constexpr std::uint64_t spacing = 64ULL * 1024;
constexpr std::size_t header_bytes = 8 + 4 * sizeof(std::uint64_t);

void put(std::string& out, std::uint64_t value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); }
std::uint64_t get(std::string_view bytes, std::size_t word) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + 8 + word * sizeof value, sizeof value);
  return value;
}

}  // namespace

void SparseIndex::add(std::uint64_t seq, std::uint64_t offset) {
  if (entries.empty() || offset >= entries.back().offset + spacing) entries.push_back({seq, offset});
}

std::uint64_t SparseIndex::offset_for(std::uint64_t seq) const {
  const auto after = std::ranges::lower_bound(entries, seq, {}, &Entry::seq);
  return after == entries.begin() ? 0 : std::prev(after)->offset;
}

std::filesystem::path index_path(const std::filesystem::path& segment) {
  return std::filesystem::path(segment).replace_extension(".idx");
}

Result<void> save_index(const std::filesystem::path& segment, const SealedIndex& sealed) {
  std::string bytes(magic);
  for (const std::uint64_t value : {sealed.first, sealed.next, sealed.end, sealed.index.entries.size()})
    put(bytes, value);
  for (const auto& [seq, offset] : sealed.index.entries) {
    put(bytes, seq);
    put(bytes, offset);
  }
  put(bytes, store::crc32_of(bytes));
  // Renamed into its place: others may be reading the one that is there.
  const auto path = index_path(segment);
  const auto temp = std::filesystem::path(path.native() + ".tmp");
  TRY(const auto file, store::open_file(temp, O_WRONLY | O_CREAT | O_TRUNC));
  TRY(store::write_all(file.get(), bytes, temp.native()));
  if (::rename(temp.c_str(), path.c_str()) != 0) return io_fail("rename", temp.native());
  return {};
}

std::optional<SealedIndex> load_index(const std::filesystem::path& segment) {
  const auto bytes = store::read_file(index_path(segment));
  if (!bytes || bytes->size() < header_bytes + 8 || bytes->size() % 8 != 0 || !bytes->starts_with(magic))
    return std::nullopt;
  const std::string_view view = *bytes;
  const std::size_t words = view.size() / 8 - 2;  // between magic and CRC
  if (get(view, words) != store::crc32_of(view.substr(0, view.size() - 8))) return std::nullopt;
  SealedIndex sealed{.first = get(view, 0), .next = get(view, 1), .end = get(view, 2)};
  const std::uint64_t count = get(view, 3);
  if (count != (words - 4) / 2 || words % 2 != 0) return std::nullopt;
  sealed.index.entries.reserve(count);
  for (std::size_t i = 0; i < count; ++i) sealed.index.entries.push_back({get(view, 4 + 2 * i), get(view, 5 + 2 * i)});
  return sealed;
}

}  // namespace sessiond::journal
