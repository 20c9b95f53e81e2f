// Blobs: media of messages, by their hash. A blob is there for whoever sees a session or an archive that names it.
#include <fmt/format.h>

#include <array>

#include "daemon/api/byte_range.hpp"
#include "daemon/api/media.hpp"

namespace sessiond::api {
namespace {

struct Magic {
  std::size_t at;
  std::string_view bytes, type;
};
using namespace std::string_view_literals;
constexpr std::array<Magic, 17> magics{{{0, "\x89PNG\r\n\x1a\n"sv, "image/png"},
                                        {0, "\xff\xd8\xff"sv, "image/jpeg"},
                                        {0, "GIF8"sv, "image/gif"},
                                        {8, "WEBP"sv, "image/webp"},
                                        {4, "ftypavif"sv, "image/avif"},
                                        {4, "ftypheic"sv, "image/heic"},
                                        {0, "BM"sv, "image/bmp"},
                                        {0, "II*\0"sv, "image/tiff"},
                                        {0, "MM\0*"sv, "image/tiff"},
                                        {0, "%PDF-"sv, "application/pdf"},
                                        {8, "WAVE"sv, "audio/wav"},
                                        {0, "ID3"sv, "audio/mpeg"},
                                        {0, "\xff\xfb"sv, "audio/mpeg"},
                                        {0, "OggS"sv, "audio/ogg"},
                                        {0, "fLaC"sv, "audio/flac"},
                                        {0, "\x1a\x45\xdf\xa3"sv, "video/webm"},
                                        {4, "ftyp"sv, "video/mp4"}}};

// By the first bytes: what a client said of them is not to be believed.
std::string_view type_of(std::string_view bytes) {
  for (const Magic& magic : magics)
    if (bytes.size() > magic.at && bytes.substr(magic.at).starts_with(magic.bytes)) return magic.type;
  return "application/octet-stream";
}

HandlerResult get_blob(Api& api, http::Request& request) {
  const std::string hash = request.params.at(0);
  const auto none = [&hash] { return fail(Code::not_found, fmt::format("there is no blob {}", hash)); };
  if (!blobs::is_hash(hash)) co_return fail(Code::not_found, "a blob is named by the 64 hex digits of its SHA-256");
  CO_TRY(const bool seen, co_await sees_blob(api, request, hash));
  if (!seen) co_return none();
  http::Response response;
  set_etag(response, hash);
  if (request.header("if-none-match").contains("\"" + hash + "\"")) {
    response.status = 304;
    response.content_type = {};
    co_return response;
  }
  auto read = co_await on_disk(api, [&api, &hash] { return api.blobs.store().read(hash); });
  if (!read && read.error().code == Code::not_found)
    co_return fail(Code::degraded,
                   fmt::format("the file of the blob {} is missing. Bring it back from a backup, or send "
                               "the same content again",
                               hash));
  if (!read) co_return std::unexpected(std::move(read.error()));
  response.content_type = type_of(*read);
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("Content-Disposition", fmt::format("attachment; filename=\"{}\"", hash.substr(0, 16)));
  response.headers.emplace_back("Content-Security-Policy", "default-src 'none'; sandbox");
  response.headers.emplace_back("Accept-Ranges", "bytes");
  const auto range = byte_range(request, read->size(), "the blob");
  if (!range) {
    http::Response problem = http::to_response(range.error(), request);
    problem.headers.emplace_back("Content-Range", fmt::format("bytes */{}", read->size()));
    co_return problem;
  }
  if (*range) {
    response.status = 206;
    response.headers.emplace_back("Content-Range", (*range)->header(read->size()));
    response.body = read->substr((*range)->first, (*range)->length);
  } else {
    response.body = std::move(*read);
  }
  co_return response;
}

}  // namespace

void add_blob_routes(http::Router& router, Api& api) {
  adding(router, api)("GET", "/v1/blobs/{sha256}", auth::Permission::read, get_blob);
}

}  // namespace sessiond::api
