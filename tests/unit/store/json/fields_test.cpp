#include "store/json/fields.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace sessiond;

namespace {

enum class FieldColour : std::uint8_t { red, green, blue };
std::string_view name(FieldColour colour) {
  return std::array<std::string_view, 3>{"red", "green", "blue"}.at(static_cast<std::size_t>(colour));
}
std::optional<FieldColour> value_named(std::string_view text, FieldColour) {
  for (const FieldColour each : {FieldColour::red, FieldColour::green, FieldColour::blue})
    if (name(each) == text) return each;
  return {};
}

struct FieldPoint {
  std::int64_t x = 0;
  std::string label{};

  template <class V, class P>
  static void describe(V& v, P& point) {
    v.number("x", point.x);
    v.text_if("label", point.label);
  }
};

struct FieldRecord {
  static constexpr std::array<std::string_view, 2> spread_names{"left", "right"};

  std::string text{}, text_if{}, text_or_null{}, raw = "{}", raw_if{}, raw_or_null{}, spread{};
  std::optional<std::string> optional_text{}, null_text{}, raw_or_null_if{};
  FieldColour colour = FieldColour::red, ordinal = FieldColour::red;
  std::int64_t number = 0, time = 0;
  std::uint64_t number_if = 0;
  std::optional<std::int64_t> optional_number{};
  bool flag = false, flag_if = false;
  std::vector<std::string> texts{}, texts_if{};
  std::vector<FieldPoint> rows{}, points{};
  std::optional<FieldPoint> point{}, group{};
  FieldPoint known{};
  std::string secret{};

  template <class V, class R>
  static void describe(V& v, R& record) {
    v.text("text", record.text);
    v.text_if("textIf", record.text_if);
    v.text_or_null("textOrNull", record.text_or_null);
    v.text_if("optionalText", record.optional_text);
    v.text_or_null("nullText", record.null_text);
    v.named("colour", record.colour);
    v.ordinal("ordinal", record.ordinal, FieldColour::blue);
    v.number("number", record.number);
    v.number_if("numberIf", record.number_if);
    v.number_if("optionalNumber", record.optional_number);
    v.time("time", record.time);
    v.flag("flag", record.flag);
    v.flag_if("flagIf", record.flag_if);
    v.raw("raw", record.raw);
    v.raw_if("rawIf", record.raw_if);
    v.raw_or_null("rawOrNull", record.raw_or_null);
    v.raw_or_null_if("rawOrNullIf", record.raw_or_null_if);
    v.spread(spread_names, record.spread);
    v.texts("texts", record.texts);
    v.texts_if("textsIf", record.texts_if);
    v.column("labels", record.rows, &FieldPoint::label);
    v.record_if("point", record.point);
    v.record_if("known", record.known, record.known.x != 0);
    v.records_if("points", record.points);
    v.group_if("x", record.group);
    v.own([&] { v.text("secret", record.secret); });
  }
};

FieldRecord full_record() {
  FieldRecord record{.text = "a\"\n",
                     .text_if = "b",
                     .text_or_null = "c",
                     .raw = "[1]",
                     .raw_if = "1.0",
                     .raw_or_null = R"({"a":1})",
                     .spread = R"({"right":1,"left":"\ud83d"})",
                     .optional_text = "",
                     .null_text = "",
                     .raw_or_null_if = "",
                     .colour = FieldColour::green,
                     .ordinal = FieldColour::blue,
                     .number = -3,
                     .time = 7,
                     .number_if = 9007199254740993,
                     .optional_number = 0,
                     .flag = true,
                     .flag_if = true,
                     .texts = {"x", "y"},
                     .texts_if = {""}};
  record.rows = {{.label = "one"}, {.label = "two"}};
  record.points = {{.x = 1, .label = "p"}, {.x = 2}};
  record.point = {.x = 5};
  record.group = {.x = 6, .label = "g"};
  record.known = {.x = 8};
  record.secret = "s";
  return record;
}

constexpr const char* full_text =
    R"({"text":"a\"\n","textIf":"b","textOrNull":"c","optionalText":"","nullText":"","colour":"green","ordinal":2,)"
    R"("number":-3,"numberIf":9007199254740993,"optionalNumber":0,"time":7,"flag":true,"flagIf":true,"raw":[1],)"
    R"("rawIf":1.0,"rawOrNull":{"a":1},"rawOrNullIf":null,"right":1,"left":"\ud83d","texts":["x","y"],"textsIf":[""],)"
    R"("labels":["one","two"],"point":{"x":5},"known":{"x":8},"points":[{"x":1,"label":"p"},{"x":2}],)"
    R"("x":6,"label":"g","secret":"s"})";
constexpr const char* empty_text =
    R"({"text":"","textOrNull":null,"nullText":null,"colour":"red","ordinal":0,"number":0,"time":null,"flag":false,)"
    R"("raw":{},"rawOrNull":null,"texts":[],"labels":[],"secret":""})";

}  // namespace

TEST_CASE("each form of a member is written as its verb says, and read back") {
  CHECK(json::to_json(full_record()) == full_text);
  CHECK(json::to_json(FieldRecord{}) == empty_text);
  for (const char* text : {full_text, empty_text}) {
    CHECK(json::check(text, {.unique_names = true}));
    CHECK(json::to_json(json::from_json<FieldRecord>(text)) == text);
  }
}

TEST_CASE("clients are not shown what is the daemon's own") {
  const std::string shown = json::to_json(full_record(), json::Show::clients);
  CHECK_FALSE(json::find(shown, "secret"));
  CHECK(json::find(shown, "label") == R"("g")");
}

TEST_CASE("members are read in any order, and among others") {
  std::vector<json::Member> members = json::all_members(full_text);
  std::string turned = "{\"unknown\":[{}]";
  for (auto each = members.rbegin(); each != members.rend(); ++each)
    turned.append(",\"").append(each->name).append("\":").append(each->value);
  turned += '}';
  FieldRecord read = json::from_json<FieldRecord>(turned);
  CHECK(read.spread == R"({"left":"\ud83d","right":1})");  // in the order in which they came
  read.spread = full_record().spread;
  CHECK(json::to_json(read) == full_text);
}

TEST_CASE("a member of another kind leaves the field as it was") {
  const auto read = json::from_json<FieldRecord>(
      R"({"text":1,"colour":"pink","ordinal":-1,"number":"x","time":{},"texts":{"a":1},"points":3,"flag":"true"})");
  CHECK(json::to_json(read) == empty_text);
  CHECK(json::from_json<FieldRecord>(R"({"ordinal":99})").ordinal == FieldColour::blue);
}
