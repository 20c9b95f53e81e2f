#include "store/answers/sealed.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <tuple>

#include "store/crc32.hpp"
#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/json/crc.hpp"
#include "store/line_reader.hpp"
#include "store/seal/sealed.hpp"
#include "store/try.hpp"

namespace sessiond::answers {
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little, "the index is written as it lies in memory");
constexpr std::string_view magic = "SDKIDX1\n";
constexpr std::size_t header_bytes = 64;
constexpr std::size_t block_bytes = 64;
constexpr std::size_t entry_bytes = 32;
constexpr std::size_t keys_per_block = 40;  // 12.8 bits a key: about 1 % of absent keys are searched for in vain
enum HeaderWord : std::size_t { count_word = 1, blocks_word, size_word, newest_word, crc_word, name_word };

std::uint64_t word(std::string_view bytes, std::size_t index) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + index * 8, sizeof value);
  return value;
}
void set_word(std::string& bytes, std::size_t index, std::uint64_t value) {
  std::memcpy(bytes.data() + index * 8, &value, 8);
}

std::uint64_t name_of(const fs::path& segment) { return store::crc32_of(segment.stem().native()); }

// Of all bytes; the word that has the CRC counts as zero.
std::uint64_t crc_of(std::string_view bytes) {
  std::string header(bytes.substr(0, header_bytes));
  set_word(header, crc_word, 0);
  return store::crc32_of(bytes.substr(header_bytes), store::crc32_of(header));
}

struct BloomBits {
  std::size_t block = 0;
  std::array<std::uint16_t, 6> bits{};  // within the block's 512
};
BloomBits bloom_bits(const Digest& scope, std::uint64_t blocks) {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  std::memcpy(&low, scope.data(), 8);
  std::memcpy(&high, scope.data() + 8, 8);
  BloomBits bloom{.block = static_cast<std::size_t>(low % blocks)};
  for (std::size_t i = 0; i < bloom.bits.size(); ++i) bloom.bits[i] = static_cast<std::uint16_t>(high >> (9 * i) & 511);
  return bloom;
}

bool may_hold(std::string_view block, const BloomBits& bloom) {
  return std::ranges::all_of(bloom.bits, [&](std::uint16_t bit) {
    return (static_cast<unsigned char>(block[bit / 8]) >> (bit % 8) & 1) != 0;
  });
}

void sort_and_unite(std::vector<IndexEntry>& entries) {
  std::ranges::sort(entries, [](const IndexEntry& a, const IndexEntry& b) {
    return std::tie(a.scope, b.time, b.offset) < std::tie(b.scope, a.time, a.offset);
  });
  const auto doubles = std::ranges::unique(entries, {}, &IndexEntry::scope);
  entries.erase(doubles.begin(), doubles.end());
}

std::string build_index(const std::vector<IndexEntry>& entries, std::uint64_t size, const fs::path& segment) {
  const std::uint64_t blocks = entries.size() / keys_per_block + 1;
  const std::size_t entries_at = header_bytes + blocks * block_bytes;
  std::string bytes(entries_at + entries.size() * entry_bytes, '\0');
  std::memcpy(bytes.data(), magic.data(), magic.size());
  std::int64_t newest = 0;
  char* at = bytes.data() + entries_at;
  for (const IndexEntry& entry : entries) {
    newest = std::max(newest, entry.time);
    const BloomBits bloom = bloom_bits(entry.scope, blocks);
    for (const std::uint16_t bit : bloom.bits) {
      char& byte = bytes[header_bytes + bloom.block * block_bytes + bit / 8];
      byte = static_cast<char>(static_cast<unsigned char>(byte) | 1U << (bit % 8));
    }
    std::memcpy(at, entry.scope.data(), 16);
    std::memcpy(at + 16, &entry.offset, 8);
    std::memcpy(at + 24, &entry.length, 4);
    at += entry_bytes;
  }
  set_word(bytes, count_word, entries.size());
  set_word(bytes, blocks_word, blocks);
  set_word(bytes, size_word, size);
  set_word(bytes, newest_word, static_cast<std::uint64_t>(newest));
  set_word(bytes, name_word, name_of(segment));
  set_word(bytes, crc_word, crc_of(bytes));
  return bytes;
}

bool fits(std::string_view bytes, std::uint64_t size, const fs::path& segment) {
  if (bytes.size() < header_bytes + block_bytes || !bytes.starts_with(magic)) return false;
  const std::uint64_t count = word(bytes, count_word);
  const std::uint64_t blocks = word(bytes, blocks_word);
  return blocks > 0 && blocks < bytes.size() / block_bytes && count <= bytes.size() / entry_bytes &&
         bytes.size() == header_bytes + blocks * block_bytes + count * entry_bytes && word(bytes, size_word) == size &&
         word(bytes, name_word) == name_of(segment) && word(bytes, crc_word) == crc_of(bytes);
}

const seal::Place& place() {
  static const seal::Place answers{"answer"};
  return answers;
}

fs::path index_path(const fs::path& segment) { return fs::path(segment).replace_extension(".idx"); }

}  // namespace

std::string stored_line(std::string json) { return seal::seal(json::with_crc(std::move(json)), place()) + '\n'; }

Result<Answer> answer_from_line(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (!seal::is_sealed(line)) return answer_from_json(line);
  std::string text;
  if (!seal::open(line, place(), text)) return fail(Code::bad_request, "a sealed answer that does not open");
  return answer_from_json(text);
}

Result<std::uint64_t> scan_answers(int fd, const fs::path& path, std::vector<std::string>& found,
                                   const OnAnswer& on_answer) {
  TRY(const auto status, store::status_of(fd, path.native()));
  store::SequentialLines reader(fd, 0, static_cast<std::uint64_t>(status.st_size), path.native());
  for (std::uint64_t end = 0;;) {
    TRY(const auto raw, reader.next());
    if (!raw) return end;
    const auto [offset, text, ended] = *raw;
    if (!ended) {
      found.push_back(fmt::format("{} ends with an incomplete answer at offset {}: ignored", path.native(), offset));
      return end;
    }
    end = offset + text.size() + 1;
    if (auto answer = answer_from_line(text)) {
      on_answer(std::move(*answer), offset, text.size() + 1);
    } else {
      found.push_back(fmt::format("{} is damaged at offset {}: one answer is lost", path.native(), offset));
    }
  }
}

std::shared_ptr<const SealedAnswers> SealedAnswers::map(const fs::path& path) {
  struct stat lines{};
  struct stat status{};
  const auto file = store::open_file(index_path(path), O_RDONLY);
  if (!file || ::stat(path.c_str(), &lines) != 0 || ::fstat(file->get(), &status) != 0 || status.st_size == 0)
    return nullptr;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file->get(), 0);
  if (address == MAP_FAILED) return nullptr;
  std::shared_ptr<const SealedAnswers> sealed(new SealedAnswers(path, {static_cast<const char*>(address), size}));
  if (!fits(sealed->mapped_, static_cast<std::uint64_t>(lines.st_size), path)) return nullptr;
  return sealed;
}

Result<std::shared_ptr<const SealedAnswers>> SealedAnswers::open(const fs::path& path,
                                                                 std::vector<std::string>& found) {
  if (auto sealed = map(path)) return sealed;
  TRY(const auto file, store::open_file(path, O_RDONLY));
  std::vector<IndexEntry> entries;
  TRY(scan_answers(file.get(), path, found, [&](const Answer& answer, std::uint64_t offset, std::uint64_t length) {
    entries.push_back(
        {.scope = answer.scope, .time = answer.time, .offset = offset, .length = static_cast<std::uint32_t>(length)});
  }));
  return seal(path, std::move(entries));
}

Result<std::shared_ptr<const SealedAnswers>> SealedAnswers::seal(const fs::path& path,
                                                                 std::vector<IndexEntry> entries) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return io_fail("stat", path.native());
  sort_and_unite(entries);
  // A new file each time: one that is mapped must not change.
  TRY(store::replace_file(index_path(path), build_index(entries, static_cast<std::uint64_t>(status.st_size), path)));
  store::fault_point("answers.sealed");
  if (auto sealed = map(path)) return sealed;
  return fail(Code::internal, "cannot map " + index_path(path).native());
}

SealedAnswers::~SealedAnswers() { ::munmap(const_cast<char*>(mapped_.data()), mapped_.size()); }

Result<std::optional<Answer>> SealedAnswers::find(const Digest& scope) const {
  const std::uint64_t blocks = word(mapped_, blocks_word);
  const BloomBits bloom = bloom_bits(scope, blocks);
  if (!may_hold(mapped_.substr(header_bytes + bloom.block * block_bytes, block_bytes), bloom)) return std::nullopt;
  const char* const entries = mapped_.data() + header_bytes + blocks * block_bytes;
  std::size_t low = 0;
  std::size_t high = word(mapped_, count_word);
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (std::memcmp(entries + middle * entry_bytes, scope.data(), scope.size()) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const char* const entry = entries + low * entry_bytes;
  if (low == word(mapped_, count_word) || std::memcmp(entry, scope.data(), scope.size()) != 0) return std::nullopt;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::memcpy(&offset, entry + 16, sizeof offset);
  std::memcpy(&length, entry + 24, sizeof length);

  const auto file = store::open_file(path_, O_RDONLY);
  if (!file && file.error().code == Code::not_found) return std::nullopt;  // expired just now
  if (!file) return std::unexpected(file.error());
  TRY(const auto line, store::read_at(file->get(), offset, length, path_.native()));
  auto answer = answer_from_line(line);
  if (!answer || answer->scope != scope)
    return fail(Code::degraded, fmt::format("{} is damaged at offset {}: one answer is lost", path_.native(), offset));
  return std::optional(std::move(*answer));
}

std::int64_t SealedAnswers::newest() const { return static_cast<std::int64_t>(word(mapped_, newest_word)); }
std::uint64_t SealedAnswers::bytes() const { return word(mapped_, size_word) + mapped_.size(); }

void SealedAnswers::remove() const {
  std::error_code ignored;  // if a file stays, the first expire() after the next start removes it
  fs::remove(path_, ignored);
  store::fault_point("answers.removed");
  fs::remove(index_path(path_), ignored);
}

}  // namespace sessiond::answers
