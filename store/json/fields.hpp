// Records of ours and their JSON. A record has one list of its members:
//
//   struct Run {
//     std::string id{};
//     std::int64_t started_at = 0;
//
//     template <class V, class R>
//     static void describe(V& v, R& run) {
//       v.text("runId", run.id);
//       v.time("startedAt", run.started_at);
//     }
//   };
//
// From it the record is written (R is const) and read. The order of the list is the order of the bytes. The verb says
// which form a value has in JSON, and how it is written when there is none. `own` holds members that clients are not
// shown. Names are ours and need no escaping.
//
// A record is read into a fresh one. Members may come in any order. One that is missing, or of another kind, leaves the
// field as it is in a fresh record. Names that are written with escapes are not known.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "store/json/raw_json.hpp"

namespace sessiond::json {

enum class Show : std::uint8_t { all, clients };

class FieldWriter {
 public:
  explicit FieldWriter(ObjectWriter& out, Show show = Show::all) : out_(out), show_(show) {}

  void text(std::string_view name, std::string_view value) { out_.string(name, value); }
  void text_if(std::string_view name, const std::string& value) {
    if (!value.empty()) out_.string(name, value);
  }
  void text_if(std::string_view name, const std::optional<std::string>& value) {
    if (value) out_.string(name, *value);
  }
  void text_or_null(std::string_view name, const std::optional<std::string>& value) {
    out_.string_or_null(name, value);
  }
  void text_or_null(std::string_view name, const std::string& value) {  // null: empty
    if (value.empty()) return out_.raw(name, "null");
    out_.string(name, value);
  }
  template <class Enum>
  void named(std::string_view member, Enum value) {
    out_.string(member, name(value));
  }
  template <class Enum>
  void ordinal(std::string_view name, Enum value, Enum /*last*/) {
    out_.integer(name, static_cast<std::int64_t>(value));
  }
  template <class Number>
  void number(std::string_view name, Number value) {
    out_.integer(name, static_cast<std::int64_t>(value));
  }
  template <class Number>
  void number_if(std::string_view name, Number value) {  // not 0
    if (value != 0) out_.integer(name, static_cast<std::int64_t>(value));
  }
  void number_if(std::string_view name, const std::optional<std::int64_t>& value) {
    if (value) out_.integer(name, *value);
  }
  void time(std::string_view name, std::int64_t value) {  // null: 0
    if (value == 0) return out_.raw(name, "null");
    out_.integer(name, value);
  }
  void flag(std::string_view name, bool value) { out_.boolean(name, value); }
  void flag_if(std::string_view name, bool value) {
    if (value) out_.raw(name, "true");
  }
  void raw(std::string_view name, std::string_view value) { out_.raw(name, value); }
  void raw_if(std::string_view name, std::string_view value) {
    if (!value.empty()) out_.raw(name, value);
  }
  void raw_or_null(std::string_view name, std::string_view value) { out_.raw(name, value.empty() ? "null" : value); }
  void raw_or_null_if(std::string_view name, const std::optional<std::string>& value) {
    if (value) raw_or_null(name, *value);
  }
  // Members of a raw object that have one of these names, in the order of the object.
  void spread(std::span<const std::string_view> names, std::string_view object) {
    if (object.empty()) return;
    std::string held;
    for (const Member& member : members(object))
      if (std::ranges::find(names, name_of(member, held)) != names.end()) out_.raw(name_of(member, held), member.value);
  }
  void texts(std::string_view name, std::span<const std::string> value) { out_.strings(name, value); }
  void texts_if(std::string_view name, std::span<const std::string> value) {
    if (!value.empty()) out_.strings(name, value);
  }
  // The field `column` of each of `rows`, as an array of texts.
  template <class Rows>
  void column(std::string_view name, const Rows& rows, std::string Rows::value_type::* column) {
    ArrayWriter array(out_.value(name));
    for (const auto& row : rows) append_quoted(array.next(), row.*column);
    array.close();
  }
  template <class Record>
  void record(std::string_view name, const Record& record) {
    ObjectWriter inner(out_.value(name));
    write(inner, record);
    inner.close();
  }
  template <class Record>
  void record_if(std::string_view name, const std::optional<Record>& value) {
    if (value) record(name, *value);
  }
  template <class Record>
  void record_if(std::string_view name, const Record& value, bool is_known) {
    if (is_known) record(name, value);
  }
  template <class Records>
  void records_if(std::string_view name, const Records& records) {
    if (records.empty()) return;
    ArrayWriter array(out_.value(name));
    for (const auto& each : records) {
      ObjectWriter inner(array.next());
      write(inner, each);
      inner.close();
    }
    array.close();
  }
  // The members of a record that are there together or not at all. `name`: one that is always among them.
  template <class Record>
  void group_if(std::string_view /*name*/, const std::optional<Record>& value) {
    if (value) Record::describe(*this, *value);
  }
  template <class Body>
  void own(Body body) {
    if (show_ == Show::all) body();
  }

 private:
  template <class Record>
  void write(ObjectWriter& inner, const Record& record) {
    FieldWriter writer(inner, show_);
    Record::describe(writer, record);
  }

  ObjectWriter& out_;
  Show show_;
};

class FieldReader {
 public:
  explicit FieldReader(std::string_view object) : members_(all_members(object)) {}

  void text(std::string_view name, std::string& value) {
    if (auto text = string_at(name)) value = *std::move(text);
  }
  void text_if(std::string_view name, std::string& value) { text(name, value); }
  void text_if(std::string_view name, std::optional<std::string>& value) { value = string_at(name); }
  void text_or_null(std::string_view name, std::optional<std::string>& value) { value = string_at(name); }
  void text_or_null(std::string_view name, std::string& value) { text(name, value); }
  template <class Enum>
  void named(std::string_view member, Enum& value) {
    if (const auto known = value_named(string_at(member).value_or(""), value)) value = *known;
  }
  template <class Enum>
  void ordinal(std::string_view name, Enum& value, Enum last) {
    if (const auto known = int_at(name))
      value = static_cast<Enum>(std::clamp<std::int64_t>(*known, 0, static_cast<std::int64_t>(last)));
  }
  template <class Number>
  void number(std::string_view name, Number& value) {
    if (const auto known = int_at(name)) value = static_cast<Number>(*known);
  }
  template <class Number>
  void number_if(std::string_view name, Number& value) {
    number(name, value);
  }
  void number_if(std::string_view name, std::optional<std::int64_t>& value) { value = int_at(name); }
  void time(std::string_view name, std::int64_t& value) { number(name, value); }
  void flag(std::string_view name, bool& value) {
    if (const auto known = find(name)) value = *known == "true";
  }
  void flag_if(std::string_view name, bool& value) { flag(name, value); }
  void raw(std::string_view name, std::string& value) {
    if (const auto known = find(name)) value = *known;
  }
  void raw_if(std::string_view name, std::string& value) { raw(name, value); }
  void raw_or_null(std::string_view name, std::string& value) {
    if (const auto known = find(name)) value = *known == "null" ? std::string_view() : *known;
  }
  void raw_or_null_if(std::string_view name, std::optional<std::string>& value) {
    if (const auto known = find(name)) value = *known == "null" ? std::string_view() : *known;
  }
  void spread(std::span<const std::string_view> names, std::string& object) {
    ObjectWriter out;
    for (const Member& member : members_)
      if (std::ranges::find(names, member.name) != names.end()) out.raw(member.name, member.value);
    if (std::string text = out.text(); text != "{}") object = std::move(text);
  }
  void texts(std::string_view name, std::vector<std::string>& value) {
    for (const std::string_view each : list_at(name)) value.push_back(as_string(each).value_or(""));
  }
  void texts_if(std::string_view name, std::vector<std::string>& value) { texts(name, value); }
  template <class Rows>
  void column(std::string_view name, Rows& rows, std::string Rows::value_type::* column) {
    const bool is_known = !rows.empty();
    std::size_t at = 0;
    for (const std::string_view each : list_at(name)) {
      if (at == rows.size() && is_known) return;  // it has more than the first column
      if (at == rows.size()) rows.emplace_back();
      rows[at++].*column = as_string(each).value_or("");
    }
  }
  template <class Record>
  void record(std::string_view name, Record& record) {
    if (const auto object = find(name)) record = read<Record>(*object);
  }
  template <class Record>
  void record_if(std::string_view name, std::optional<Record>& value) {
    if (const auto object = find(name)) value = read<Record>(*object);
  }
  template <class Record>
  void record_if(std::string_view name, Record& value, bool /*is_known*/) {
    record(name, value);
  }
  template <class Records>
  void records_if(std::string_view name, Records& records) {
    for (const std::string_view each : list_at(name)) records.push_back(read<typename Records::value_type>(each));
  }
  template <class Record>
  void group_if(std::string_view name, std::optional<Record>& value) {
    if (!find(name)) return;
    value = Record{};
    Record::describe(*this, *value);
  }
  template <class Body>
  void own(Body body) {
    body();
  }

 private:
  template <class Record>
  static Record read(std::string_view object) {
    Record record{};
    FieldReader reader(object);
    Record::describe(reader, record);
    return record;
  }
  // Members nearly always come in the order of the list: the next one is looked at first. No record is written with
  // duplicates.
  std::optional<std::string_view> find(std::string_view name) {
    if (next_ < members_.size() && members_[next_].name == name) return members_[next_++].value;
    for (std::size_t at = members_.size(); at-- > 0;) {
      if (members_[at].name != name) continue;
      next_ = at + 1;
      return members_[at].value;
    }
    return {};
  }
  std::optional<std::string> string_at(std::string_view name) {
    const auto value = find(name);
    return value ? as_string(*value) : std::nullopt;
  }
  std::optional<std::int64_t> int_at(std::string_view name) {
    const auto value = find(name);
    return value ? as_int(*value) : std::nullopt;
  }
  Range<ElementIterator> list_at(std::string_view name) { return elements(find(name).value_or("[]")); }

  std::vector<Member> members_;
  std::size_t next_ = 0;
};

template <class Record>
void write_fields(ObjectWriter& out, const Record& record, Show show = Show::all) {
  FieldWriter writer(out, show);
  Record::describe(writer, record);
}
template <class Record>
std::string to_json(const Record& record, Show show = Show::all) {
  ObjectWriter out;
  write_fields(out, record, show);
  return out.text();
}
template <class Record>
Record from_json(std::string_view object) {
  Record record{};
  FieldReader reader(object);
  Record::describe(reader, record);
  return record;
}

}  // namespace sessiond::json
