#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>

#include "store/answers/answers.hpp"
#include "store/json/crc.hpp"
#include "store/json/raw_json.hpp"
#include "store/number.hpp"

namespace sessiond::answers {
namespace {

std::string to_hex(const Digest& digest) { return fmt::format("{:02x}", fmt::join(digest, "")); }

std::optional<Digest> from_hex(std::string_view text) {
  Digest digest{};
  if (text.size() != 2 * digest.size()) return std::nullopt;
  for (std::size_t i = 0; i < digest.size(); ++i)
    digest[i] = store::parse_number<std::uint8_t>(text.substr(2 * i, 2), 16).value_or(0);
  return to_hex(digest) == text ? std::optional(digest) : std::nullopt;  // not for other texts, capitals included
}

}  // namespace

Digest digest(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> whole{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), whole.data());
  Digest first{};
  std::copy_n(whole.begin(), first.size(), first.begin());
  return first;
}

std::string to_json(const Answer& answer) {
  json::ObjectWriter object;
  object.string("k", to_hex(answer.scope));
  object.string("b", to_hex(answer.request));
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
