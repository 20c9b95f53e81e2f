// Writes sessions into the folder of another program, as its own files. A writer is a Sink: read_jsonl gives it the
// sessions. Each file is written beside its place and comes there whole; one that is there stays unless it may be
// replaced. What the other program has no place for is named by on_left_out. Blocks.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "formats/reader.hpp"

namespace sessiond::formats {

struct FolderOptions {
  std::filesystem::path dir{};
  std::string agent{};
  std::string cwd{};      // absolute: where the sessions go on; empty: where their transcripts say
  bool replaces = false;  // files that are there
  std::function<void(const std::string& session, const std::filesystem::path& file)> on_file{};
  std::function<void(const std::string& session, const std::string& what)> on_left_out{};
  std::function<void(const Skipped&)> on_skip{};
};

class FolderWriter : public Sink {
 public:
  explicit FolderWriter(FolderOptions options) : options_(std::move(options)) {}
  void skip(Skipped skipped) final;
  virtual Result<void> finish() { return {}; }  // call it once, when all sessions are written
  std::size_t written() const { return written_; }
  std::size_t skipped() const { return skipped_; }

 protected:
  const FolderOptions& options() const { return options_; }
  void tell_written(const std::string& session, const std::filesystem::path& file);
  // Tells what was left out of a session, by kind.
  using LeftOut = std::map<std::string, std::size_t, std::less<>>;
  void tell_left_out(const std::string& session, const LeftOut& counts);

 private:
  FolderOptions options_;
  std::size_t written_ = 0, skipped_ = 0;
};

// `program`: claude-code or openclaw; null: there is none of this name.
std::unique_ptr<FolderWriter> folder_writer(std::string_view program, FolderOptions options);

}  // namespace sessiond::formats
