#include "store/seal/sealed.hpp"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

#include "store/base64.hpp"

namespace sessiond::seal {
namespace {

constexpr std::string_view before_key = R"({"e":1,"k":")";
constexpr std::string_view before_nonce = R"(","n":")";
constexpr std::string_view before_text = R"(","c":")";
constexpr std::string_view at_end = R"("})";
constexpr std::size_t nonce_text = store::base64_size(nonce_bytes);

const Key& key_of_draw(const Draw& draw) {
  const Keys* const all = keys();
  const Key* const key = all == nullptr ? nullptr : all->find(draw.key);
  if (key == nullptr) throw std::logic_error("a draw of a key that is gone");
  return *key;
}

bool nonce_from(std::string_view text, Nonce& nonce) {
  std::string bytes;  // short enough for no allocation
  if (text.size() != nonce_text || !store::from_base64(text, bytes) || bytes.size() != nonce_bytes) return false;
  std::memcpy(nonce.data(), bytes.data(), nonce_bytes);
  return true;
}

}  // namespace

Draw draw() {
  const Keys* const all = keys();
  if (all == nullptr) return {};
  const Key& key = all->active();
  key.count_line();
  return {.key = key.id(), .nonce = draw_nonce()};
}

std::string to_text(const Draw& draw) {
  return draw.key + ":" + store::to_base64({draw.nonce.data(), draw.nonce.size()});
}

std::optional<Draw> draw_from_text(std::string_view text) {
  const std::size_t colon = text.find(':');
  Draw draw;
  if (colon == std::string_view::npos || !nonce_from(text.substr(colon + 1), draw.nonce)) return std::nullopt;
  draw.key = text.substr(0, colon);
  return draw;
}

std::string_view key_of(std::string_view text) {
  return is_sealed(text) ? key_of_members(text.substr(1)) : std::string_view();
}

std::string_view key_of_members(std::string_view members) {
  if (!are_sealed(members)) return {};
  members.remove_prefix(before_key.size() - 1);
  return members.substr(0, members.find('"'));
}

std::size_t sealed_size(std::size_t bytes, const Draw& draw) {
  return before_key.size() + draw.key.size() + before_nonce.size() + nonce_text + before_text.size() +
         store::base64_size(bytes + tag_bytes) + at_end.size();
}

std::optional<std::size_t> plain_size(std::string_view sealed) {
  const std::size_t around = sealed_size(0, {.key = std::string(key_of(sealed))}) - store::base64_size(tag_bytes);
  if (!is_sealed(sealed) || !sealed.ends_with(at_end) || sealed.size() < around + store::base64_size(tag_bytes) ||
      (sealed.size() - around) % 4 != 0)
    return std::nullopt;
  sealed.remove_suffix(at_end.size());
  const std::size_t padding = sealed.ends_with("==") ? 2 : sealed.ends_with('=') ? 1 : 0;
  return (sealed.size() + at_end.size() - around) / 4 * 3 - padding - tag_bytes;
}

void append_sealed(std::string& out, std::string_view text, const Draw& draw, const Place& place) {
  thread_local std::string ciphertext;
  ciphertext.resize(text.size() + tag_bytes);
  key_of_draw(draw).encrypt(text, draw.nonce, place.text(), ciphertext.data());
  out.reserve(out.size() + sealed_size(text.size(), draw) + 1);
  out.append(before_key).append(draw.key).append(before_nonce);
  out.append(store::to_base64({draw.nonce.data(), draw.nonce.size()})).append(before_text);
  const std::size_t at = out.size();
  out.resize(at + store::base64_size(ciphertext.size()));
  store::to_base64(ciphertext, out.data() + at);
  out.append(at_end);
  if (ciphertext.capacity() > std::size_t{1} << 20) ciphertext = {};
}

std::string seal(std::string text, const Place& place) {
  const Draw drawn = draw();
  if (!drawn) return text;
  std::string out;
  append_sealed(out, text, drawn, place);
  return out;
}

bool are_sealed(std::string_view members) { return members.starts_with(before_key.substr(1)); }

bool open(std::string_view sealed, const Place& place, std::string& out) {
  return sealed.starts_with('{') && open_members(sealed.substr(1), place, out);
}

bool open_members(std::string_view members, const Place& place, std::string& out) {
  const Keys* const all = keys();
  if (all == nullptr || !are_sealed(members)) return false;
  std::string_view rest = members.substr(before_key.size() - 1);
  const std::string_view id = rest.substr(0, rest.find('"'));
  const Key* const key = all->find(id);
  rest.remove_prefix(id.size());
  if (key == nullptr || !rest.starts_with(before_nonce) || !rest.ends_with(at_end)) return false;
  rest.remove_prefix(before_nonce.size());
  rest.remove_suffix(at_end.size());
  Nonce nonce{};
  if (!nonce_from(rest.substr(0, nonce_text), nonce)) return false;
  rest.remove_prefix(nonce_text);
  if (!rest.starts_with(before_text)) return false;
  thread_local std::string ciphertext;
  const bool opened = store::from_base64(rest.substr(before_text.size()), ciphertext) &&
                      key->decrypt(ciphertext, nonce, place.text(), out);
  if (ciphertext.capacity() > std::size_t{1} << 20) ciphertext = {};
  return opened;
}

Result<std::string> open_if_sealed(std::string text, const Place& place) {
  if (!is_sealed(text)) return text;
  std::string_view sealed = text;
  if (sealed.ends_with('\n')) sealed.remove_suffix(1);
  std::string out;
  if (open(sealed, place, out)) return out;
  const std::string id(key_of(sealed));
  if (keys() == nullptr || keys()->find(id) == nullptr)
    return fail(Code::degraded, fmt::format("it is sealed with the key \"{}\", which is not there", id));
  return fail(Code::degraded, fmt::format("it does not open with the key \"{}\"", id));
}

}  // namespace sessiond::seal
