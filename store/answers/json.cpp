#include <openssl/evp.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "store/answers/answers.hpp"
#include "store/hex.hpp"
#include "store/json/crc.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::answers {
namespace {

std::optional<Digest> from_hex(std::string_view text) {
  Digest digest{};
  return store::from_hex(text, digest) ? std::optional(digest) : std::nullopt;
}

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

}  // namespace

Digest digest(std::string_view bytes) {
  // Kept for the next digest: making both takes longer than the digest of a short text.
  static const EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  thread_local const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  std::array<unsigned char, EVP_MAX_MD_SIZE> whole{};
  if (EVP_DigestInit_ex2(context.get(), sha256, nullptr) != 1 ||
      EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) != 1 ||
      EVP_DigestFinal_ex(context.get(), whole.data(), nullptr) != 1)
    throw std::runtime_error("OpenSSL could not make a digest");
  Digest first{};
  std::copy_n(whole.begin(), first.size(), first.begin());  // of 32 bytes
  return first;
}

std::string to_json(const Answer& answer) {
  json::ObjectWriter object;
  object.string("k", store::to_hex(answer.scope));
  object.string("b", store::to_hex(answer.request));
  object.integer("t", answer.time);
  object.integer("s", answer.status);
  object.raw("h", answer.headers.empty() ? "{}" : answer.headers);
  object.string("r", answer.body);
  return object.text();
}

Result<Answer> answer_from_json(std::string_view text) {
  if (const auto checked = json::check(text); !checked)
    return fail(Code::bad_request, "not an idempotency answer: " + checked.error().detail);
  if (!json::crc_fits(text)) return fail(Code::bad_request, "not an idempotency answer: its CRC is wrong");
  const auto scope = from_hex(json::string_at(text, "k").value_or(""));
  const auto request = from_hex(json::string_at(text, "b").value_or(""));
  const auto time = json::int_at(text, "t");
  const auto status = json::int_at(text, "s");
  const auto headers = json::find(text, "h");
  auto body = json::string_at(text, "r");
  const bool complete = scope && request && time && status && *status >= 100 && *status <= 999 && headers &&
                        json::kind(*headers) == json::Kind::object && body;
  if (!complete) return fail(Code::bad_request, "not an idempotency answer: a member is missing or of the wrong kind");
  return Answer{.scope = *scope,
                .request = *request,
                .time = *time,
                .status = static_cast<int>(*status),
                .headers = *headers == "{}" ? std::string() : std::string(*headers),
                .body = std::move(*body)};
}

}  // namespace sessiond::answers
