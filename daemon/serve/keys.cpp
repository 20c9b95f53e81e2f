#include "daemon/serve/keys.hpp"

#include <filesystem>
#include <system_error>

#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/seal/keys.hpp"
#include "store/try.hpp"

namespace sessiond::serve {

Result<void> take_keys(const config::Config& config) {
  TRY(seal::start(config.store.encryption.key_file, config.state_dir));
  if (!seal::on()) return {};
  const std::filesystem::path index = std::filesystem::path(config.state_dir) / "search";
  std::error_code error;
  std::filesystem::remove_all(index, error);
  if (error) return std::unexpected(io_problem("remove", index.native(), error.value()));
  return {};
}

boost::asio::awaitable<void> reload_keys(boost::asio::thread_pool::executor_type disk) {
  if (!seal::on()) co_return;
  const auto active = co_await runtime::run_on(disk, [] { return seal::reload(); });
  if (!active) {
    log::error("encryption_keys_not_reloaded",
               {{"error", active.error().detail}, {"next", "the keys of before stay in use"}});
  } else {
    log::info("encryption_keys_reloaded", {{"active", *active}});
  }
}

}  // namespace sessiond::serve
