// Reads the members of a request's JSON body as typed values. Faults are collected, each with its JSON pointer, and
// done() returns them all. A member that was never asked for is a fault too: a misspelt field must not be ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/json/raw_json.hpp"
#include "store/problem.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::api {

class Fields {
 public:
  // `object` is JSON that body_of() has checked, or "" for no fields. It must outlive this. `pointer` is where the
  // object stands in the body.
  static Result<Fields> of(std::string_view object, std::string pointer = "");
  // `members`: those of the object.
  static Result<Fields> of(std::string_view object, std::span<const json::Member> members);

  std::string_view text() const { return text_; }  // the object

  // Each returns nothing when the member is absent or null, and adds a fault when it has another type.
  std::optional<std::string> string(std::string_view name, std::size_t max_bytes = 4096);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least = 0);
  std::optional<std::int64_t> time(std::string_view name);  // ms since the epoch, up to the year 9999
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string_view> object(std::string_view name);
  std::optional<std::string_view> array(std::string_view name);
  std::optional<std::string_view> raw(std::string_view name);  // any type, also null
  std::vector<std::string> strings(std::string_view name, std::size_t most = 100);
  // One of `texts`.
  std::optional<std::string> one_of(std::string_view name, std::initializer_list<std::string_view> texts);
  bool has(std::string_view name) const;

  void fault(std::string_view name, std::string detail);
  // Call it after all fields were read. Errors: validation_failed with every fault, unknown members included.
  Result<void> done();

 private:
  Result<void> add(const json::Member& member);
  std::optional<std::string_view> take(std::string_view name);
  std::optional<std::string_view> take(std::string_view name, json::Kind kind, const char* otherwise);

  std::string_view text_;
  std::string pointer_;
  struct Member {
    std::string name;
    std::string_view value;
    bool asked = false;
  };
  std::vector<Member> members_;
  std::vector<Fault> faults_;  // the first ones, at most limits::faults
  std::size_t fault_count_ = 0;
};

// Reads threadId, a string or an integer, as raw JSON; an absent or empty one leaves `into` as it is.
void read_thread(Fields& fields, std::string& into);

// Returns the edit that sets the object's members; null unsets a member. `object` has been checked by body_of(), so
// each name occurs once.
json::Edit edit_of(std::string_view object);

// Reads an entry that a client wants appended into `entry`, a new one. Errors: those of transcripts::parse_entry;
// validation_failed for an entry that only the daemon makes.
Result<void> read_client_entry(transcripts::NewEntry& entry, std::string_view value, const std::string& pointer);
// Reads an entry of a transcript that replaces another. It may tell of dropped messages, as the other one did.
Result<void> read_replacing_entry(transcripts::NewEntry& entry, std::string_view value, const std::string& pointer);

}  // namespace sessiond::api
