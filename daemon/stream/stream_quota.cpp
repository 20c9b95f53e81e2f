#include "daemon/stream/stream_quota.hpp"

#include <fmt/format.h>

#include "store/json/raw_json.hpp"

namespace sessiond {
namespace {

constexpr std::size_t many_tokens = 1000;  // from here on, tokens without a stream are forgotten
constexpr int try_again_s = 5;

}  // namespace

Result<StreamQuota::Slot> StreamQuota::take(const Principal& who, std::uint64_t most) {
  if (who.id == "local") return Slot{};
  if (taken_.size() > many_tokens) std::erase_if(taken_, [](const auto& token) { return *token.second == 0; });
  std::shared_ptr<Count>& count = taken_[who.id];
  if (!count) count = std::make_shared<Count>(0);
  if (most != 0 && *count >= most) {
    return std::unexpected(Problem{.code = Code::too_many_requests,
                                   .detail = fmt::format("token {} has {} open streams; limits.streamsPerToken is {}",
                                                         who.id, count->load(), most),
                                   .members = {{"limit", json::quote("streamsPerToken")}},
                                   .retry_after_s = try_again_s});
  }
  ++*count;
  return Slot(count.get(), [count](void*) { --*count; });
}

}  // namespace sessiond
