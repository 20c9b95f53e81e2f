// Transcripts that are sent as they would be without encryption.
#include "daemon/api/transcript_source.hpp"
#include "daemon/runtime/log.hpp"
#include "store/seal/keys.hpp"
#include "transcripts/plain_file.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t piece_of_plain = 256 << 10;  // bytes

// Writes bytes [from, until) of it. Ends early when they cannot be read, or the client is gone.
asio::awaitable<void> write_plain(Api& api, std::shared_ptr<transcripts::PlainFile> file, std::uint64_t from,
                                  std::uint64_t until, http::StreamWriter& writer) {
  while (from < until) {
    const std::size_t most = std::min<std::uint64_t>(piece_of_plain, until - from);
    const auto piece = co_await on_disk(api, [file, from, most] { return file->read(from, most); });
    if (!piece || piece->empty()) {
      log::error("transcript_broken_off", {{"error", piece ? "the file became shorter" : piece.error().detail}});
      co_return;
    }
    if (!co_await writer.write({*piece})) co_return;
    from += piece->size();
  }
}

}  // namespace

asio::awaitable<Result<std::shared_ptr<transcripts::PlainFile>>> plain_file(Api& api, const TranscriptFile& file) {
  if (!seal::on() || !file.tail.exists) co_return nullptr;
  auto opened =
      co_await on_disk(api, [&file] { return transcripts::PlainFile::open(file.path, file.inode, file.tail.size); });
  if (!opened) co_return std::unexpected(std::move(opened.error()));
  co_return std::shared_ptr(std::move(*opened));
}

void send_plain(Api& api, http::Response& response, std::shared_ptr<transcripts::PlainFile> file, std::uint64_t from,
                std::uint64_t until) {
  response.stream_length = until - from;
  response.stream = [&api, file = std::move(file), from, until](http::StreamWriter& writer) -> asio::awaitable<void> {
    co_await write_plain(api, file, from, until, writer);
  };
}

}  // namespace sessiond::api
