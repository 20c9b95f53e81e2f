#include "policy/secret_scan.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace sessiond::policy {
namespace {

using Set = std::uint8_t;  // of characters
constexpr Set digit = 1, hex_letter = 2, lower_case = 4, upper_case = 8, underscore = 16, dash = 32, slash = 64,
              dot = 128;
constexpr Set alnum = digit | lower_case | upper_case, word = alnum | underscore, base64url = word | dash;

constexpr std::array<Set, 256> sets = [] {
  std::array<Set, 256> table{};
  for (unsigned char c = '0'; c <= '9'; ++c) table[c] = digit | hex_letter;
  for (unsigned char c = 'a'; c <= 'z'; ++c) table[c] = lower_case;
  for (unsigned char c = 'A'; c <= 'Z'; ++c) table[c] = upper_case;
  for (unsigned char c = 'a'; c <= 'f'; ++c) table[c] |= hex_letter;
  table['_'] = underscore;
  table['-'] = dash;
  table['/'] = slash;
  table['.'] = dot;
  return table;
}();
bool in(Set set, char c) { return (sets[static_cast<unsigned char>(c)] & set) != 0; }

constexpr std::size_t any_length = ~std::size_t{0};

// Returns how many characters from `at` on are in the set. Stops after `most` + 1.
std::size_t run(std::string_view text, std::size_t at, Set set, std::size_t most = any_length) {
  const std::size_t end = most < text.size() - at ? at + most + 1 : text.size();
  std::size_t i = at;
  while (i < end && in(set, text[i])) ++i;
  return i - at;
}

// One of the prefixes, then at least `least` and at most `most` characters of a set. To keep the scan linear when one
// long run holds many prefixes, only `least` characters are checked before a match, or `most` if there is an upper
// limit.
struct Shape {
  std::string_view kind;
  std::array<std::string_view, 10> prefixes;  // the first empty one ends them
  Set set;
  std::size_t least;
  std::size_t most = any_length;
};
constexpr std::array shapes{
    Shape{"GitHub token", {"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, word, 36},
    Shape{"GitHub token", {"github_pat_"}, word, 82},
    Shape{"GitLab token",
          {"glpat-", "gloas-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "glsoat-"},
          base64url,
          20},
    Shape{"AWS access key", {"AKIA", "ASIA"}, upper_case | digit, 16, 16},
    Shape{"Slack token", {"xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xapp-"}, alnum | dash, 20},
    Shape{"Slack webhook",
          {"hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/"},
          alnum | slash,
          40},
    Shape{"Stripe key", {"sk_live_", "rk_live_"}, alnum, 16},
    Shape{"OpenAI key", {"sk-proj-", "sk-svcacct-", "sk-admin-"}, base64url, 40},
    Shape{"Anthropic key", {"sk-ant-"}, base64url, 32},
    Shape{"OpenRouter key", {"sk-or-"}, base64url, 32},
    Shape{"Google API key", {"AIza"}, base64url, 35, 35},
    Shape{"Google client secret", {"GOCSPX-"}, base64url, 28, 28},
    Shape{"npm token", {"npm_"}, alnum, 36, 36},
    Shape{"PyPI token", {"pypi-AgE"}, base64url, 50},
    Shape{"Twilio key", {"SK"}, hex_letter, 32, 32},
    Shape{"sessiond ticket", {"sdt_"}, base64url, 60},
    Shape{"sessiond login", {"sdc_"}, base64url, 60}};

using Found = std::optional<SecretFound>;

std::size_t prefix_size(const Shape& shape, std::string_view text) {
  for (const std::string_view prefix : shape.prefixes) {
    if (prefix.empty() || text.starts_with(prefix)) return prefix.size();
  }
  return 0;
}

Found prefixed(std::string_view text, std::size_t at) {
  for (const Shape& shape : shapes) {
    const std::size_t prefix = prefix_size(shape, text.substr(at));
    if (prefix == 0) continue;
    const std::size_t body = at + prefix;
    const bool measured = shape.most != any_length;
    std::size_t length = run(text, body, shape.set, measured ? shape.most : shape.least);
    if (length < shape.least || length > shape.most) continue;
    if (!measured) length = run(text, body, shape.set);
    const std::size_t end = body + length;
    if (measured && end < text.size() && in(alnum, text[end])) continue;  // longer than the fixed length
    return SecretFound{at, end - at, shape.kind};
  }
  return {};
}

bool has(std::string_view text, Set set) {
  return std::ranges::any_of(text, [set](char c) { return in(set, c); });
}

// Older OpenAI keys have 48 characters after sk-; services with a compatible API use 32 and more. A character of
// base64url after them means that the text is something else.
Found plain_sk(std::string_view text, std::size_t at) {
  if (!text.substr(at).starts_with("sk-")) return {};
  constexpr std::size_t most = 128;
  const std::size_t length = run(text, at + 3, alnum, most);
  const std::size_t end = at + 3 + length;
  if (length < 32 || length > most || (end < text.size() && in(base64url, text[end]))) return {};
  if (!has(text.substr(at + 3, length), digit)) return {};
  return SecretFound{at, end - at, "OpenAI key"};
}

// Finds sd_<id>_<secret>, also with some characters missing or added, unless it could be a name_of_something.
Found our_token(std::string_view text, std::size_t at) {
  if (!text.substr(at).starts_with("sd_")) return {};
  const std::size_t id = run(text, at + 3, alnum, 16);
  const std::size_t secret = at + 3 + id + 1;
  if (id < 4 || id > 16 || secret >= text.size() || text[secret - 1] != '_') return {};
  constexpr std::size_t most = 64;
  const std::size_t length = run(text, secret, base64url, most);
  const bool exact = id == 8 && length == 43;
  if (!exact && (length < 32 || !has(text.substr(secret, length), upper_case))) return {};
  return SecretFound{at, secret + run(text, secret, base64url) - at, "sessiond token"};
}

// Decodes base64url. Other characters give arbitrary bytes.
std::string decoded(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    bits = bits << 6U | static_cast<std::uint32_t>(digits.find(c) & 63U);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xFFU);
  }
  return out;
}

// Returns the ends of three runs of base64url with dots between them.
std::optional<std::array<std::size_t, 3>> three_parts(std::string_view text, std::size_t at) {
  std::array<std::size_t, 3> ends{};
  for (std::size_t part = 0; part < ends.size(); ++part) {
    ends.at(part) = at + run(text, at, base64url);
    at = ends.at(part) + 1;
    if (part < 2 && (at >= text.size() || text[at - 1] != '.')) return {};
  }
  return ends;
}

// Returns whether the first part of a token, or the beginning of one, decodes to a header that names an algorithm. It
// may be cut, so it is not read as JSON.
bool is_jwt_head(std::string_view part) { return decoded(part).contains("\"alg\""); }

Found jwt(std::string_view text, std::size_t at) {
  if (!text.substr(at).starts_with("eyJ")) return {};  // {"
  constexpr std::size_t longest_head = 4096;
  if (run(text, at, base64url, longest_head) > longest_head) return {};
  const auto ends = three_parts(text, at);
  if (!ends || (*ends)[1] - (*ends)[0] < 3 || (*ends)[2] - (*ends)[1] <= 16) return {};
  if (!is_jwt_head(text.substr(at, (*ends)[0] - at))) return {};
  return SecretFound{at, (*ends)[2] - at, jwt_kind};
}

Found discord(std::string_view text, std::size_t at) {
  if (text[at] < 'M' || text[at] > 'O') return {};  // base64 of a digit begins with M, N or O
  const std::size_t id = run(text, at, base64url, 28);
  if (id < 22 || id > 28) return {};
  const auto ends = three_parts(text, at);
  if (!ends || (*ends)[1] - (*ends)[0] != 7 || (*ends)[2] - (*ends)[1] < 28) return {};
  const std::string number = decoded(text.substr(at, id));
  if (!std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; })) return {};
  return SecretFound{at, (*ends)[2] - at, "Discord bot token"};
}

Found sendgrid(std::string_view text, std::size_t at) {
  if (!text.substr(at).starts_with("SG.")) return {};
  const std::size_t first = run(text, at + 3, base64url, 22);
  const std::size_t second = at + 3 + first + 1;
  if (first != 22 || second >= text.size() || text[second - 1] != '.') return {};
  if (run(text, second, base64url, 43) != 43) return {};
  return SecretFound{at, second + 43 - at, "SendGrid key"};
}

// `colon` is the index of the colon in <digits>:AA…. The digits may follow anything, as in
// https://api.telegram.org/bot<token>/.
Found telegram(std::string_view text, std::size_t colon) {
  if (!text.substr(colon + 1).starts_with("AA")) return {};
  std::size_t first = colon;
  while (first > 0 && colon - first < 17 && in(digit, text[first - 1])) --first;
  const std::size_t digits = colon - first;
  if (digits < 6 || digits > 16 || run(text, colon + 1, base64url, 35) != 35) return {};
  return SecretFound{first, colon + 36 - first, "Telegram bot token"};
}

constexpr std::string_view pem_begin = "-----BEGIN ";
constexpr std::size_t longest_label = 64;

Found pem(std::string_view text, std::size_t at) {
  if (!text.substr(at).starts_with(pem_begin)) return {};
  const std::string_view label = text.substr(at + pem_begin.size(), longest_label);
  const std::size_t key = label.find("PRIVATE KEY");
  const std::size_t dashes = label.find("-----");
  if (key == label.npos || dashes < key) return {};
  const std::size_t end = text.find(pem_end, at);
  return SecretFound{
      at, (end == text.npos ? text.size() : std::min(end + pem_end.size() + pem_end_label, text.size())) - at,
      pem_kind};
}

// Finds a secret that begins at `at`, where one of `pairs` stands. `before` is the character before it.
Found found_at(std::string_view text, std::size_t at, char before) {
  const char c = text[at];
  if (c == ':') return telegram(text, at);
  if (c == '-') return before == '-' ? Found{} : pem(text, at);
  if (in(alnum, before)) return {};
  const bool apart = !in(base64url, before);
  switch (c) {
    case 'e':
      return apart ? jwt(text, at) : Found{};
    case 'M':
    case 'N':
    case 'O':
      return apart ? discord(text, at) : Found{};
    case 'S': {
      const Found found = sendgrid(text, at);
      return found ? found : prefixed(text, at);
    }
    case 's': {
      if (const Found found = prefixed(text, at)) return found;
      const Found found = plain_sk(text, at);
      return found ? found : our_token(text, at);
    }
    default:
      return prefixed(text, at);
  }
}

// The first two characters of everything that found_at() finds: nearly all of a text is passed over by a look at these
// tables. Each first character has a bit; a second character has the bits of those that it may follow.
struct Pairs {
  std::array<std::uint32_t, 256> first{}, second{};
};
constexpr Pairs pairs = [] {
  Pairs made;
  unsigned known = 0;
  const auto add = [&made, &known](char a, char b) {
    std::uint32_t& bit = made.first[static_cast<unsigned char>(a)];
    if (bit == 0) bit = std::uint32_t{1} << known++;
    made.second[static_cast<unsigned char>(b)] |= bit;
  };
  for (const Shape& shape : shapes)
    for (const std::string_view prefix : shape.prefixes)
      if (prefix.size() > 1) add(prefix[0], prefix[1]);
  for (const std::string_view pair : {":A", "--", "ey", "SG", "sk", "sd"}) add(pair[0], pair[1]);
  for (const char begin : {'M', 'N', 'O'})  // of a bot's id in base64
    for (const char c : {'D', 'T', 'j', 'z'}) add(begin, c);
  return made;
}();
// The same, and every backslash with what follows it.
constexpr std::uint32_t bit_of_escapes = std::uint32_t{1} << 31U;
static_assert(std::ranges::find(pairs.first, bit_of_escapes) == pairs.first.end());
constexpr Pairs pairs_and_escapes = [] {
  Pairs made = pairs;
  made.first['\\'] = bit_of_escapes;
  for (std::uint32_t& bits : made.second) bits |= bit_of_escapes;
  return made;
}();

// Returns where the next of these pairs begins, at `at` or behind it; the text's size when there is none.
std::size_t next_pair(const Pairs& wanted, std::string_view text, std::size_t at) {
  if (at >= text.size()) return text.size();
  std::uint32_t bit = wanted.first[static_cast<unsigned char>(text[at])];
  for (std::size_t next = at + 1; next < text.size(); ++next) {
    const auto c = static_cast<unsigned char>(text[next]);
    if ((bit & wanted.second[c]) != 0) return next - 1;
    bit = wanted.first[c];
  }
  return text.size();
}

// Returns the character before `at`; a space if it is the end of an escape, as in "\nsk-": no letter of a word.
char before(std::string_view text, std::size_t at) {
  if (at == 0 || (at >= 2 && text[at - 2] == '\\')) return ' ';
  return at >= 6 && text[at - 6] == '\\' && text[at - 5] == 'u' ? ' ' : text[at - 1];
}

// Returns whether a prefix of a secret stands at `at`, or so much of one as the JSON string has left.
bool prefix_at(std::string_view json, std::size_t at) {
  const std::string_view rest = json.substr(at, 32);
  const std::string_view left = rest.substr(0, rest.find('"'));
  const auto begins = [&](std::string_view prefix) {
    return left.starts_with(prefix) || (left.size() < rest.size() && prefix.starts_with(left));
  };
  if (begins("sk-") || begins("sd_")) return true;
  return std::ranges::any_of(shapes, [&](const Shape& shape) {
    return std::ranges::any_of(shape.prefixes,
                               [&](std::string_view prefix) { return !prefix.empty() && begins(prefix); });
  });
}

// The end of a text, in which beginnings of secrets are looked for. How far back the text is of one set is found out
// once, so that many beginnings that go on to the end cost no more than one.
class TextEnd {
 public:
  TextEnd(std::string_view text, std::size_t least, std::size_t* steps) : text_(text), least_(least), steps_(steps) {
    begins_.fill(any_length);
  }
  std::string_view text() const { return text_; }
  std::string_view from(std::size_t at) const { return text_.substr(at); }
  // Returns whether all characters from `at` on are in the set.
  bool is_of(Set set, std::size_t at) {
    std::size_t& begin = begins_[set];
    if (begin == any_length) {
      begin = text_.size();
      while (begin > least_ && in(set, text_[begin - 1])) --begin;
      count(text_.size() - begin);
    }
    return at >= begin;
  }
  std::size_t run_at(std::size_t at, Set set, std::size_t most) {
    const std::size_t length = run(text_, at, set, most);
    count(length);
    return length;
  }
  void count(std::size_t steps) {
    if (steps_ != nullptr) *steps_ += steps;
  }

 private:
  std::string_view text_;
  std::size_t least_;                      // nothing before is asked for
  std::array<std::size_t, 256> begins_{};  // by set: from where on the text is of it; any_length: not known yet
  std::size_t* steps_;
};

// Returns whether the text from `at` on may be the beginning of what a shape describes.
bool may_begin(const Shape& shape, TextEnd& end, std::size_t at) {
  const std::string_view text = end.from(at);
  for (const std::string_view prefix : shape.prefixes) {
    if (prefix.empty()) return false;
    if (text.size() <= prefix.size()) {
      if (prefix.starts_with(text)) return true;
      continue;
    }
    if (text.starts_with(prefix) && text.size() - prefix.size() <= shape.most &&
        end.is_of(shape.set, at + prefix.size()))
      return true;
  }
  return false;
}

// Returns whether a text is the beginning of parts with dots between, the first of which has `most` characters at most.
bool may_be_parts(TextEnd& end, std::size_t at, std::size_t most) {
  return end.is_of(base64url | dot, at) && end.run_at(at, base64url, most) <= most;
}

bool may_be_discord(TextEnd& end, std::size_t at) {
  constexpr std::size_t most = 28;
  const std::string_view text = end.from(at);
  if (text[0] < 'M' || text[0] > 'O' || (text.size() > 1 && !std::string_view("DTjz").contains(text[1]))) return false;
  if (!may_be_parts(end, at, most)) return false;
  const std::string number = decoded(text.substr(0, end.run_at(at, base64url, most)));
  return std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
}

bool may_be_our_token(TextEnd& end, std::size_t at) {
  constexpr std::size_t longest_id = 16;
  const std::string_view text = end.from(at);
  if (!text.starts_with("sd_")) return std::string_view("sd_").starts_with(text);
  const std::size_t id = end.run_at(at + 3, alnum, longest_id);
  if (id > longest_id) return false;
  if (3 + id == text.size()) return true;
  return id >= 4 && text[3 + id] == '_' && end.is_of(base64url, at + 4 + id);
}

// Returns whether the rest of a text from `at` on may be the beginning of a secret.
bool may_begin_at(TextEnd& end, std::size_t at) {
  end.count(1);
  const std::string_view text = end.text();
  const std::string_view rest = end.from(at);
  const char last = before(text, at);
  // One character is a beginning only if it is a letter by itself: prose has dashes and colons, and words may end with
  // a letter behind one that is not ASCII.
  if (rest.size() == 1 && (!in(alnum, rest[0]) || (static_cast<unsigned char>(last) & 0x80U) != 0)) return false;
  if (rest[0] == ':') {
    std::size_t digits = 0;
    while (digits < at && digits < 17 && in(digit, text[at - 1 - digits])) ++digits;
    const bool named = rest.size() < 3 ? std::string_view(":AA").starts_with(rest) : rest.starts_with(":AA");
    return digits >= 6 && digits <= 16 && named && end.is_of(base64url, at + 1);
  }
  if (rest[0] == '-') return last != '-' && pem_begin.starts_with(rest);
  if (in(alnum, last)) return false;
  if (std::ranges::any_of(shapes, [&](const Shape& shape) { return may_begin(shape, end, at); })) return true;
  if (rest[0] == 's')
    return may_be_our_token(end, at) || std::string_view("sk-").starts_with(rest) ||
           (rest.starts_with("sk-") && end.is_of(alnum, at + 3));
  if (rest[0] == 'S' && (rest.starts_with("SG.") || std::string_view("SG.").starts_with(rest)))
    return may_be_parts(end, at, 2);
  if (in(base64url, last)) return false;
  if (rest[0] == 'e')
    return std::string_view("eyJ").starts_with(rest) || (rest.starts_with("eyJ") && may_be_parts(end, at, 4096));
  return may_be_discord(end, at);
}

}  // namespace

std::optional<SecretFound> find_secret(std::string_view text, std::size_t from) {
  constexpr std::size_t shortest = 20;
  if (text.size() < from + shortest) return {};
  for (std::size_t at = next_pair(pairs, text, from); at < text.size(); at = next_pair(pairs, text, at + 1)) {
    if (Found found = found_at(text, at, before(text, at))) return found;
  }
  return {};
}

std::size_t begun_secret(std::string_view text, std::size_t* steps) {
  constexpr std::size_t longest = 4096;
  constexpr Set in_secrets = base64url | dot | slash;
  const std::size_t least = text.size() - std::min(text.size(), longest);
  std::size_t first = text.size();
  while (first > least && (in(in_secrets, text[first - 1]) || text[first - 1] == ':')) --first;
  TextEnd end(text, least, steps);
  end.count(text.size() - first);
  std::size_t begun = next_pair(pairs, text, first);
  while (begun < text.size() && !may_begin_at(end, begun)) begun = next_pair(pairs, text, begun + 1);
  if (begun == text.size() && first < begun && may_begin_at(end, begun - 1)) --begun;  // one character is no pair
  const std::size_t open = text.rfind(pem_begin);
  if (open == text.npos || open > begun) return begun;
  const std::string_view label = text.substr(open + pem_begin.size());
  return label.size() < longest_label && !label.contains("-----") ? open : begun;
}

std::size_t rest_of_secret(std::string_view kind, std::string_view more) {
  if (kind == jwt_kind) return run(more, 0, base64url | dot);
  const auto* shape = std::ranges::find(shapes, kind, &Shape::kind);
  return run(more, 0, shape == shapes.end() ? base64url : shape->set);
}

bool begins_as_jwt(std::string_view text) {
  return text.starts_with("eyJ") && is_jwt_head(text.substr(0, run(text, 0, base64url)));
}

bool is_own(std::string_view kind) { return kind.starts_with("sessiond "); }

bool may_hold_secret(std::string_view json) {
  const auto next = [json](std::size_t at) { return next_pair(pairs_and_escapes, json, at); };
  for (std::size_t at = next(0); at < json.size(); at = next(at + 1)) {
    if (json[at] == '\\') {  // escapes hide what a plain writer would not escape: \u0073k-, and slashes
      // One backslash at this level, more of them in JSON within strings.
      const std::size_t end = std::min(json.find_first_not_of('\\', at), json.size());
      const std::string_view escape = json.substr(end, 4);
      if (escape.starts_with('/') ||
          (escape.starts_with("u00") && escape.size() == 4 && escape[3] >= '2' && escape[3] <= '7'))
        return true;
      at = (end - at) % 2 == 0 ? end - 1 : end;
      continue;
    }
    const char last = before(json, at);
    if (found_at(json, at, last) || (!in(alnum, last) && prefix_at(json, at))) return true;
  }
  return false;
}

std::string replace_secrets(std::string_view text, const std::function<std::string(const SecretFound& found)>& with) {
  std::string out;
  std::size_t from = 0;
  for (Found found = find_secret(text); found; found = find_secret(text, from)) {
    // The digits of a bot token may overlap the secret before it.
    if (found->at > from) out += text.substr(from, found->at - from);
    out += with(*found);
    from = std::max(from, found->at + found->size);
  }
  return out.append(text.substr(from));
}

std::string without_secrets(std::string_view text) {
  return replace_secrets(text, [](const SecretFound&) { return std::string("(secret)"); });
}

}  // namespace sessiond::policy
