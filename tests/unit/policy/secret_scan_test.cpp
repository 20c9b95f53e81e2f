#include "policy/secret_scan.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "policy/redaction.hpp"
#include "store/json/raw_json.hpp"

using namespace sessiond;
using namespace sessiond::policy;

namespace {

// Put together here, so that no file of the repository has their shape.
std::string times(std::size_t count, std::string_view text) {
  std::string out;
  while (out.size() < count) out += text;
  return out.substr(0, count);
}
std::string mixed(std::size_t count) { return times(count, "aB3dE5gH7jK9mN1pQ"); }
std::string base64url(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : bytes) {
    bits = bits << 8U | static_cast<unsigned char>(c);
    for (count += 8; count >= 6; count -= 6) out += digits[bits >> (count - 6) & 63U];
  }
  if (count > 0) out += digits[bits << (6 - count) & 63U];
  return out;
}

struct Known {
  std::string_view kind;
  std::string text;
};
const std::vector<Known>& known() {
  static const std::vector<Known> all{
      {"GitHub token", "ghp_" + mixed(36)},
      {"GitHub token", "gho_" + mixed(36)},
      {"GitHub token", "ghs_" + mixed(36)},
      {"GitHub token", "github_pat_" + mixed(22) + "_" + mixed(59)},
      {"GitLab token", "glpat-" + mixed(12) + "-_" + mixed(6)},
      {"AWS access key", "AKIA" + times(16, "IOSFODNN7EXAMPLE")},
      {"AWS access key", "ASIA" + times(16, "Y34FZKBOKMUTVV7A")},
      {"Slack token", "xoxb-" + times(12, "123") + "-" + times(12, "456") + "-" + mixed(24)},
      {"Slack token", "xoxp-" + times(12, "123") + "-" + mixed(32)},
      {"Slack webhook", "https://hooks.slack.com/services/T" + times(8, "0") + "/B" + times(8, "0") + "/" + mixed(24)},
      {"Stripe key", "sk_live_" + mixed(24)},
      {"Stripe key", "rk_live_" + mixed(99)},
      {"OpenAI key", "sk-" + mixed(20) + "T3BlbkFJ" + mixed(20)},
      {"OpenAI key", "sk-proj-" + mixed(74) + "T3BlbkFJ" + mixed(74)},
      {"Anthropic key", "sk-ant-api03-" + mixed(93) + "AA"},
      {"Google API key", "AIza" + times(35, "SyA-b_C9")},
      {"Telegram bot token", "1234567890:AA" + times(33, "F-_x9Q")},
      {"Telegram bot token", "https://api.telegram.org/bot123456789:AA" + mixed(33) + "/getMe"},
      {"Discord bot token", base64url("1093847561029384756") + "." + mixed(6) + "." + mixed(38)},
      {"npm token", "npm_" + mixed(36)},
      {"PyPI token", "pypi-AgEIcHlwaS5vcmc" + mixed(80)},
      {"SendGrid key", "SG." + mixed(22) + "." + mixed(43)},
      {"Twilio key", "SK" + times(32, "0123456789abcdef")},
      {"JSON web token",
       base64url(R"({"alg":"HS256","typ":"JWT"})") + "." + base64url(R"({"sub":"1"})") + "." + mixed(43)},
      {"JSON web token", base64url(R"({"typ":"JWT","alg":"none"})") + "." + base64url("{}") + "." + mixed(20)},
      {"private key",
       "-----BEGIN RSA PRIVATE "
       "KEY-----\nMIIB\n-----END RSA PRIVATE "
       "KEY-----"},
      {"private key",
       "-----BEGIN PRIVATE "
       "KEY-----"},
      {"private key",
       "-----BEGIN OPENSSH PRIVATE "
       "KEY-----"},
      {"private key",
       "-----BEGIN PGP PRIVATE "
       "KEY BLOCK-----"},
      {"sessiond token", "sd_ab12cd34_" + mixed(43)},
      {"sessiond token", "sd_ab12cd34_" + mixed(42)},
      {"sessiond token", "sd_nosuch_" + mixed(44)},
      {"sessiond ticket", "sdt_" + mixed(120)},
  };
  return all;
}

std::string kind_in(std::string_view text) {
  const auto found = find_secret(text);
  return found ? std::string(found->kind) : "";
}

std::string pointers(std::string_view value) {
  CHECK(json::check(value));
  std::string out;
  for (const Fault& fault : secret_faults(value, "/entry")) out += (out.empty() ? "" : " ") + fault.pointer;
  return out;
}

}  // namespace

TEST_CASE("well-known shapes, wherever in a text they stand") {
  for (const Known& one : known()) {
    CAPTURE(one.text);
    CHECK(kind_in(one.text) == one.kind);
    CHECK(kind_in("key=" + one.text) == one.kind);
    CHECK(kind_in("Bearer " + one.text + ", thanks") == one.kind);
    CHECK(kind_in("\"" + one.text + "\"") == one.kind);
    CHECK(kind_in("(" + one.text + ")\n") == one.kind);
  }
}

TEST_CASE("what is like them and is none") {
  const std::vector<std::string> fine{
      "",
      "hello, Ada",
      "3f9a1c02-1842",
      "6ba7b810-9dad-41d1-80b4-00c04fd430c8",
      "2026-02-25T09-41-12-345Z_1a2b3c04-5e55-4d00-8d00-03297f657fbc",
      "agent:main:telegram:direct:1234567890",
      "agent:main:slack:channel:C0123456789:thread:1700000000.123456",
      times(40, "0123456789abcdef"),
      times(64, "0123456789abcdef"),
      times(128, "0123456789abcdef"),
      "sha256:" + times(64, "0123456789abcdef"),
      "task-" + times(48, "0123456789abcdef"),                    // no word begins with sk-
      "sk-learn-pipeline-with-a-rather-long-name-1-2-3",          //
      "sd_xl_base_model_with_a_rather_long_name_for_it_all",      // a name
      "sd_card_reader",                                           //
      "SK" + times(31, "0123456789abcdef"),                       // too short
      "AKIA" + times(17, "IOSFODNN7EXAMPLE"),                     // too long
      "RAKIA" + times(16, "IOSFODNN7EXAMPLE"),                    //
      "ghp_short",                                                //
      "the prefix is ghp_, github_pat_, glpat-, xoxb-, sk-ant-",  //
      "eyJ0eXAiOiJKV1QifQ.e30." + mixed(20),                      // no alg
      "eyJhbGciOiJIUzI1NiJ9",                                     // a head alone
      "-----BEGIN CERTIFICATE-----",                              //
      "-----BEGIN PUBLIC KEY-----",                               //
      "12:30:AA",                                                 //
      "MTIzNDU2Nzg5MDEyMzQ1Njc4.txt.gz",                          //
      "hooks.slack.com/services/",                                //
      "v1.2.3 npm_config_registry AIza",                          //
      "AC" + times(32, "0123456789abcdef"),                       // Twilio's account id is no secret
  };
  for (const std::string& text : fine) {
    CAPTURE(text);
    CHECK(kind_in(text) == "");
  }
}

TEST_CASE("base64 of files passes") {
  std::string bytes;
  std::uint64_t state = 1;
  for (int i = 0; i < 300'000; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    bytes += static_cast<char>(state >> 56U);
  }
  const std::string url = base64url(bytes);
  CHECK(kind_in(url) == "");
  std::string plain = url;
  for (char& c : plain) c = c == '-' ? '+' : c == '_' ? '/' : c;
  CHECK(kind_in("data:image/png;base64," + plain) == "");
}

TEST_CASE("a value's faults have pointers and never the secret") {
  const std::string key = known().front().text;
  CHECK(pointers(R"({"label":"x","n":1,"a":[true,null,"b"]})") == "");
  CHECK(pointers("{\"label\":\"" + key + "\"}") == "/entry/label");
  CHECK(pointers("{\"context\":{\"variables\":{\"a/b\":[\"\",\"x " + key + "\"]}}}") ==
        "/entry/context/variables/a~1b/1");
  CHECK(pointers("{\"a\":\"" + key + "\",\"b\":{\"c\":\"" + key + "\"}}") == "/entry/a /entry/b/c");
  CHECK(pointers("{\"o\":{\"" + key + "\":{\"x\":1}}}") == "/entry/o");
  CHECK(pointers("{\"o\":\"\\n" + key + "\"}") == "/entry/o");  // an escape before it
  CHECK(pointers("{\"o\":\"\\u0067" + key.substr(1) + "\"}") == "/entry/o");
  CHECK(pointers("{\"o\":\"https:\\/\\/hooks.slack.com\\/services\\/" + mixed(44) + "\"}") == "/entry/o");
  for (const Known& one : known()) {
    for (const Fault& fault : secret_faults("{" + json::quote(one.text) + ":" + json::quote(one.text) + "}", "")) {
      CHECK(!fault.detail.contains(one.text));
      CHECK(!fault.pointer.contains(one.text));
    }
  }
}

TEST_CASE("masked") {
  CHECK(without_secrets("nothing") == "nothing");
  for (const Known& one : known()) {
    CAPTURE(one.text);
    const std::string masked = without_secrets("a " + one.text + " b " + one.text);
    CHECK(masked.starts_with("a "));
    CHECK(masked.contains("(secret)"));
    CHECK(kind_in(masked) == "");
  }
  CHECK(without_secrets("/v1/sd_ab12cd34_" + mixed(43) + "/x") == "/v1/(secret)/x");
}

TEST_CASE("a text in pieces is redacted as the whole is, wherever it is cut") {
  std::mt19937 random(7);
  const auto below = [&random](std::size_t most) { return random() % most; };
  const auto check = [&](const std::string& text) {
    const std::string whole = redacted_text(text);
    for (int turn = 0; turn < 60; ++turn) {
      PieceRedactor pieces;
      std::string told;
      std::size_t taken_out = 0;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t size = turn == 0 ? 1 : 1 + below(turn % 3 == 0 ? 4 : text.size());
        const auto piece = pieces.take(text.substr(at, size));
        told += piece.text;
        taken_out += piece.kinds.size();
        at += size;
      }
      const bool waits = !pieces.held_kind().empty();
      told += pieces.rest();
      CHECK(told == whole);
      CHECK(taken_out + (waits ? 1U : 0U) >= 1);
    }
  };
  for (const auto& [kind, key] : known()) {
    if (kind == "private key" || kind == "Telegram bot token") continue;
    CAPTURE(kind);
    check("My key: " + key + ", use it");
    check("Zürich \n" + key);
  }
}

TEST_CASE("a text in pieces: what is long is dropped to its end, and told again behind it") {
  const std::string head = base64url(R"({"alg":"HS256","typ":"JWT"})");
  const std::vector<std::string> longer{"sk-ant-api03-" + mixed(5'000), head + "." + mixed(3'000) + "." + mixed(900),
                                        "-----BEGIN RSA PRIVATE "
                                        "KEY-----\n" +
                                            times(4'000, "MIIEow\n") + "\n-----END RSA PRIVATE KEY-----"};
  for (const std::string& key : longer) {
    for (const std::size_t size : {1U, 7U, 100U, 199U, 201U, 3'000U}) {
      CAPTURE(size);
      PieceRedactor pieces;
      std::string told;
      const std::string text = "a " + key + " and so on, for long enough";
      for (std::size_t at = 0; at < text.size(); at += size) told += pieces.take(text.substr(at, size)).text;
      told += pieces.rest();
      CHECK(told.starts_with("a "));
      CHECK(told.contains("[redacted: "));
      CHECK(told.ends_with(" long enough"));
      CHECK(told.size() < 70);
    }
  }
}

TEST_CASE("a text in pieces: no part that is told holds the secret") {
  std::mt19937 random(11);
  for (const auto& [kind, key] : known()) {
    CAPTURE(kind);
    for (int turn = 0; turn < 200; ++turn) {
      const std::string text = "x " + key + " y";
      PieceRedactor pieces;
      std::string told;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t size = 1 + random() % 40;
        told += pieces.take(text.substr(at, size)).text;
        at += size;
      }
      told += pieces.rest();
      CHECK_FALSE(find_secret(told));
      CHECK(told.contains("[redacted: "));
    }
  }
}

TEST_CASE("a text in pieces: prose does not wait") {
  PieceRedactor pieces;
  for (const std::string_view piece : {"The", " quick", " brown", " fox",   " asks",
                                       " in", " 2026",  ":",      " \"is",  " it",
                                       "?\"", " Grün",  "\n",     "e.g.",   " https://example.com/a",
                                       " No", " SKI",   "PED",    " risk-", "free"}) {
    CAPTURE(piece);
    CHECK(pieces.take(piece).text == piece);
    CHECK_FALSE(pieces.waits());
  }
}

TEST_CASE("a message: ids, base64 and signatures by their places") {
  const std::string key = "sk-ant-api03-" + mixed(93);
  const auto look = [](const std::string& json) {
    REQUIRE(json::check(json));
    return redact(json, "", {.message = true});
  };
  const auto in_id = [&](const std::string& json) {
    const auto found = look(json).found;
    return found.size() == 1 && found[0].in_id;
  };
  CHECK(in_id(R"({"id":")" + key + "\"}"));
  CHECK(in_id(R"({"entries":[{"parentId":")" + key + "\"}]}"));
  CHECK(in_id(R"({"content":[{"type":"toolCall","id":")" + key + "\"}]}"));
  CHECK(in_id(R"({"channel":")" + key + "\"}"));
  CHECK(in_id(R"({"replyTo":{"to":")" + key + "\"}}"));
  for (const std::string text :
       {R"({"text":"%"})", R"({"content":[{"type":"toolCall","id":"c","arguments":{"id":"%"}}]})",
        R"({"content":[{"a":{"b":{"key":"%"}}}]})", R"({"from":{"name":"%"}})"}) {
    CAPTURE(text);
    std::string json = text;
    json.replace(json.find('%'), 1, key);
    CHECK(look(json).found.size() == 1);
    CHECK_FALSE(in_id(json));
    CHECK_FALSE(look(json).text.contains(mixed(60)));
  }
  const std::string aws = "AKIA" + times(16, "IOSFODNN7EXAMPLE");
  for (const std::string text : {R"([{"type":"image","data":"% ","mimeType":"image/png"}])",
                                 R"({"source":{"type":"base64","media_type":"image/png","data":"% "}})",
                                 R"({"image_url":{"url":"data:image/png;base64,% "}})", R"({"signature":"% "})",
                                 R"([{"type":"redacted_thinking","data":"% "}])"}) {
    CAPTURE(text);
    std::string json = text;
    json.replace(json.find("% "), 2, "iVBOR/" + aws + "/x==");
    CHECK(look(json).found.empty());
  }
  CHECK(look(R"({"type":"image","data":"no base64: )" + aws + R"( ","mimeType":"image/png"})").found.size() == 1);
  CHECK(look(R"({"data":")" + aws + "\"}").found.size() == 1);
}

TEST_CASE("only our own tokens are taken out where others may stand") {
  const std::string own = "sd_ab12cd34_" + mixed(43);
  const std::string json = R"([{"type":"text","text":"AKIA)" + times(16, "IOSFODNN7EXAMPLE") + " " + own + R"("}])";
  const Redaction found = redact(json, "", {.taken = TakenOut::own});
  REQUIRE(found.found.size() == 2);
  CHECK(found.text.contains("AKIA"));
  CHECK(found.text.contains("[redacted: sessiond token]"));
  CHECK_FALSE(found.text.contains(own));
  const std::string other = R"(["AKIA)" + times(16, "IOSFODNN7EXAMPLE") + R"("])";
  CHECK(redact(other, "", {.taken = TakenOut::own}).text.empty());
  CHECK(redact(other, "", {.taken = TakenOut::own}).found.size() == 1);
}

TEST_CASE("linear: what begins like one again and again") {
  const auto count = [](std::string_view piece) {  // no clock: the work is bounded, so this ends
    std::string text = times(1 << 17, piece);
    return find_secret(text).has_value();
  };
  for (const char* piece : {"AIza-", "sk-", "sk-ant", "-AKIA", "eyJ.", "eyJ-", "MTIz.", ":AA", "1:AA", "-----BEGIN ",
                            "sd_abcd_", "SG.", "glpat", "xoxb", "sdt", "hooks.slack.com/", "/eyJhbGci"}) {
    CAPTURE(piece);
    CHECK(!count(piece));
  }
}

TEST_CASE("linear: the end of a text that may be the beginning of one again and again") {
  const auto steps_of = [](std::string_view piece, std::string_view end, std::size_t size) {
    std::size_t steps = 0;
    begun_secret(times(size, piece) + std::string(end), &steps);
    return steps;
  };
  for (const char* piece : {"/eyJ.", "/eyJa", ".sk-ant-", "-sk-", "/sdt_", "/xoxb-", ".MTIz", "123456:AA", "/sd_abcd_",
                            "/SG.", "/AKIA", "/glpat-", "/hooks.slack.com/services/"})
    for (const char* end : {"", "/", ".", ":", "-"}) {
      CAPTURE(piece);
      CAPTURE(end);
      CHECK(steps_of(piece, end, 3'600) < 5 * steps_of(piece, end, 900));
    }
}
