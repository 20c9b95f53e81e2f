// The keys of this process: which ones there are, which one seals, and how many lines each has sealed.
//
// They hold for the whole process, like the fence of store/confine.hpp: every place that reads or writes a sealed line
// uses them. Without a key file nothing is sealed and nothing costs.
//
// The key file: {"active":"<id>","keys":{"<id>":"<32 bytes, base64>"}}, readable by its owner alone.
// <stateDir>/journal/seals says which keys the state directory needs, how to know them, and how many lines each may
// have sealed: {"keys":{"<id>":{"check":"<16 hex>","lines":1048576}},"crc":"<8 hex>"}.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"
#include "store/seal/key.hpp"

namespace sessiond::seal {

// Immutable: a change of the key file makes another one.
class Keys {
 public:
  Keys(std::map<std::string, std::shared_ptr<const Key>, std::less<>> keys, const Key& active)
      : keys_(std::move(keys)), active_(&active) {}
  const Key& active() const { return *active_; }
  const Key* find(std::string_view id) const {
    const auto at = keys_.find(id);
    return at == keys_.end() ? nullptr : at->second.get();
  }
  const auto& all() const { return keys_; }

 private:
  std::map<std::string, std::shared_ptr<const Key>, std::less<>> keys_;
  const Key* active_;
};

// Reads a key file. degraded: it is missing, others may read it, or it is no key file; names the file and the place.
Result<Keys> read_key_file(const std::filesystem::path& path);

// What journal/seals says.
struct Record {
  struct Of {
    std::string check;
    std::uint64_t lines = 0;
  };
  std::map<std::string, Of, std::less<>> keys{};
};
// Nothing when there is no such file. degraded when it is damaged.
Result<std::optional<Record>> read_record(const std::filesystem::path& file);
Result<void> write_record(const std::filesystem::path& file, const Record& record);
std::filesystem::path record_file(const std::filesystem::path& state_dir);  // journal/seals

// Takes the keys of `key_file` for this process, and checks that they are all that the state directory needs. Without a
// key file, checks that it needs none. Writes nothing. degraded names the file and the key id. Blocks.
Result<void> start(const std::optional<std::filesystem::path>& key_file, const std::filesystem::path& state_dir);
// Reads the key file again. Returns the id of the key that seals from now on; "" without a key file. After an error the
// keys stay. Blocks.
Result<std::string> reload();
void stop();  // for tests

namespace detail {
extern constinit std::atomic<const Keys*> current;
}
// The keys; null: nothing is sealed. They stay valid as long as the process.
inline const Keys* keys() { return detail::current.load(std::memory_order_acquire); }
inline bool on() { return keys() != nullptr; }

// Makes the counts durable before lines that are counted reach the disk: call it on a thread that may block, before
// sealed lines are written. Nearly always returns at once. degraded: the active key has sealed as many lines as a key
// may. Does nothing when nothing is sealed.
Result<void> reserve();

}  // namespace sessiond::seal
