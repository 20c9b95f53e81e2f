// A request's JSON body, read once into typed values. Every fault is collected with its JSON pointer; members that
// nobody asked for are faults too (API §1: unknown request fields are 422 on commands).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/http/message.hpp"
#include "store/json/raw_json.hpp"
#include "store/problem.hpp"

namespace sessiond {

// The body as one JSON value: unsupported_media_type, bad_request (with the place). An empty body is "" when
// `optional`. A view into request.body.
Result<std::string_view> json_body(const Request& request, std::size_t max_depth, bool optional = false);

class Fields {
 public:
  // `object` must be a JSON object that json_body has passed, or "" (no fields).
  static Result<Fields> of(std::string_view object, std::string pointer = "");

  // Absent and null are the same: nothing. Another type is a fault.
  std::optional<std::string> string(std::string_view name, std::size_t max_bytes = 4096);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least = 0);
  std::optional<std::int64_t> time(std::string_view name);  // ms since the epoch, up to the year 9999
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string_view> object(std::string_view name);
  std::optional<std::string_view> array(std::string_view name);
  std::optional<std::string_view> raw(std::string_view name);  // of any type, null too
  std::vector<std::string> strings(std::string_view name, std::size_t most = 100);
  // One of the texts; else a fault naming them.
  std::optional<std::string> one_of(std::string_view name, std::initializer_list<std::string_view> texts);
  bool has(std::string_view name) const;

  void fault(std::string_view name, std::string detail);
  // After all fields were asked for: validation_failed with every fault, unknown members included.
  Result<void> done();

 private:
  std::optional<std::string_view> take(std::string_view name);

  std::string pointer_;
  struct Member {
    std::string name;
    std::string_view value;
    bool asked = false;
  };
  std::vector<Member> members_;
  std::vector<Fault> faults_;  // the first of them
  std::size_t fault_count_ = 0;
};

// The members of an object that json_body has passed (so each name is there once) as an edit that sets them (null:
// unset).
json::Edit edit_of(std::string_view object);

// RFC 6901
std::string pointer_token(std::string_view name);

}  // namespace sessiond
