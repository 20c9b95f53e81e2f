// Writes sessions into the folder of another program, as its own files. A writer is a Sink that takes conversations
// (conversation.hpp). Each file is written beside its place and comes there whole; one that is there stays unless it
// may be replaced. What is left out is named by on_left_out. Blocks.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "formats/conversation.hpp"
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
  Result<void> session(SessionHead head) final;
  Result<void> entry(std::string line) final;
  Result<void> end() final;          // session_reset: the conversation broke off
  Result<void> end_session() const;  // after the last of its transcripts. session_reset: some are missing
  void skip(Skipped skipped) final;
  virtual Result<void> finish() { return {}; }  // call it once, when all sessions are written
  std::size_t written() const { return written_; }
  std::size_t skipped() const { return skipped_; }

 protected:
  virtual Result<void> begin(SessionHead head) = 0;
  virtual Result<void> put(const std::string& line) = 0;
  virtual Result<void> place() = 0;

  const FolderOptions& options() const { return options_; }
  LeftOut& left_out() { return left_out_; }  // of this transcript
  // Tells of a file that is written, and of what is not in it.
  void tell_written(const std::string& session, const std::filesystem::path& file);

 private:
  FolderOptions options_;
  LeftOut left_out_{};
  std::string id_{};       // of the session
  bool is_whole_ = false;  // the end of the transcript has come
  std::size_t more_ = 0;   // transcripts of the session are to follow
  std::size_t written_ = 0, skipped_ = 0;
};

// `program`: claude-code or openclaw; null: there is none of this name.
std::unique_ptr<FolderWriter> folder_writer(std::string_view program, FolderOptions options);

}  // namespace sessiond::formats
