// What the disk would hold if the power went now. Of a file: what the last fsync or fdatasync left, plus any subset of
// the 4 KiB pages written since, at the old size, the new one or one between. Of names: what the last fsync of their
// directory left, plus any subset of the changes since (a rename is one change, whole or not at all; a change that
// builds on one that is gone is gone as well). After a failed fsync of a file the pages that were dirty count as
// written to nobody: a later fsync that succeeds does not bring them. The caller holds the shim's lock over all of this
// and the call itself. What a killed process had not synced counts as synced: its pages are the kernel's.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace crash {

void before_change(int fd, std::uint64_t offset,
                   std::uint64_t end);  // bytes [offset, end) of the file will be other ones
void file_synced(int fd);
void sync_failed(int fd);
void directory_synced(const std::string& path);
[[noreturn]] void cut_power();  // takes the network first: no answer is given after it

// Around a call that changes these names: what they led to before is remembered, and kept where the call may be the end
// of it.
class NameChange {
 public:
  explicit NameChange(std::initializer_list<std::string> names);
  void done();  // the call has succeeded

 private:
  std::vector<std::pair<std::string, std::uint64_t>> before_;
};

}  // namespace crash
