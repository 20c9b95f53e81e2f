#include "daemon/auth/first_token.hpp"

#include <fmt/format.h>

#include <system_error>

#include "store/files.hpp"
#include "store/try.hpp"

namespace sessiond::auth {
namespace fs = std::filesystem;
namespace {

bool lies_below(const fs::path& path, const fs::path& base) {
  std::error_code error;
  const fs::path real_path = fs::weakly_canonical(path, error);
  if (error) return false;  // writing it will fail and be reported
  const fs::path real_base = fs::weakly_canonical(base, error);
  if (error) return false;
  const fs::path relative = real_path.lexically_relative(real_base);
  return !relative.empty() && *relative.begin() != "..";
}

Result<void> write_token(const fs::path& path, const fs::path& state_dir, const std::string& token) {
  if (lies_below(path, state_dir))
    return fail(Code::forbidden,
                fmt::format("{} lies below the state directory, where no token may be written", path.native()));
  TRY(store::make_dirs(path.parent_path()));
  return store::replace_file(path, token + "\n");
}

bool occupied(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

}  // namespace

Result<std::optional<FirstToken>> make_first_token(Tokens& tokens, const Result<fs::path>& path,
                                                   const fs::path& state_dir, std::int64_t now) {
  if (!tokens.empty()) return std::nullopt;
  TRY(auto created, tokens.create({.role = "admin", .note = "first start"}, now));

  FirstToken first{.id = created.info.id, .token = created.token, .path = path.value_or(fs::path())};
  if (path) {
    first.replaced = occupied(*path);
    if (auto written = write_token(*path, state_dir, first.token); !written) first.not_written = written.error();
  } else {
    first.not_written = path.error();
  }
  if (first.not_written) first.replaced = false;

  if (auto saved = tokens.save(); !saved) {
    // It is unknown whether tokens.json holds the token: perhaps only the fsync failed. So the file at `path` stays. At
    // the next start its token either works or is replaced.
    TRY(tokens.revoke(first.id));
    return std::unexpected(saved.error());
  }
  return first;
}

}  // namespace sessiond::auth
