// A file that is written beside its place: it comes there whole and durable, or not at all. Blocks.
//   TRY(auto file, NewFile::begin(path)); TRY(file.write(text)); TRY(file.place(NewFile::IfThere::stays));
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "store/files.hpp"

namespace sessiond::store {

// rename(2), but for EEXIST when something has the new name.
int rename_without_replacing(const std::filesystem::path& from, const std::filesystem::path& to);

class NewFile {
 public:
  enum class IfThere : bool { stays, is_replaced };

  // Makes the temporary file beside `file`; its folder exists.
  static Result<NewFile> begin(std::filesystem::path file);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();  // removes what was not placed

  Result<void> write(std::string_view bytes);
  // session_exists: something is there, and stays. Also when it came at the last moment.
  Result<void> place(IfThere if_there);
  // Returns whether it has its place. If place() has failed nevertheless, that may not be durable.
  bool is_placed() const { return temporary_.empty(); }
  const std::filesystem::path& file() const { return file_; }

 private:
  NewFile(std::filesystem::path file, std::filesystem::path temporary, Fd fd);
  Result<void> flush();

  std::filesystem::path file_, temporary_;  // temporary_ is empty: placed, or moved away
  Fd fd_;
  std::string buffer_{};
};

}  // namespace sessiond::store
