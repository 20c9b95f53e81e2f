#include "daemon/decide/lineage.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "store/hex.hpp"
#include "store/names.hpp"

namespace sessiond::decide {
namespace {

constexpr int most_ancestors = 1000;  // looked at; in a foreign store parents may form a ring
constexpr int most_tags = 64;

// Calls call(folded key) for each ancestor, nearest first, until it returns true.
template <class Call>
bool any_ancestor(const AgentState& state, const Session& session, int most, const Call& call) {
  const Session* at = &session;
  for (int i = 0; at != nullptr && !at->spawned_by.empty() && i < most; ++i) {
    if (call(store::folded_key(at->spawned_by))) return true;
    at = state.find_key(at->spawned_by);
  }
  return false;
}

}  // namespace

bool descends_from(const AgentState& state, const Session& session, std::string_view key) {
  return any_ancestor(state, session, most_ancestors,
                      [folded = store::folded_key(key)](std::string_view ancestor) { return ancestor == folded; });
}

std::vector<const Session*> family_of(const AgentState& state, std::string_view key) {
  std::vector<const Session*> out;
  std::unordered_set<const Session*> known;
  const auto add = [&](const Session* session) {
    if (known.insert(session).second) out.push_back(session);
  };
  if (const Session* session = state.find_key(key)) {
    add(session);
  } else {
    for (const Session* child : state.children(key)) add(child);
  }
  for (std::size_t at = 0; at < out.size(); ++at) {
    for (const Session* child : state.children(out[at]->key())) add(child);
  }
  return out;
}

std::string Lineage::tag(std::string_view agent, std::string_view key) const {
  std::string text("lineage ");
  text.append(agent).append(1, '\0').append(store::folded_key(key));
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
  unsigned length = 0;
  ::HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &length);
  std::array<unsigned char, 8> head{};
  std::copy_n(mac.begin(), head.size(), head.begin());
  return store::to_hex(head);
}

std::string Lineage::of(const AgentState& state, const Session& session) const {
  std::string out;
  any_ancestor(state, session, most_tags, [&](std::string_view ancestor) {
    out.append(out.empty() ? "" : " ").append(tag(state.id(), ancestor));
    return false;
  });
  return out;
}

}  // namespace sessiond::decide
