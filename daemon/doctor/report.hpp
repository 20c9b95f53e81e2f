// The doctor's report: text with one finding a line, or JSON:
//   {"status":"ok|warning|error","repairs":[{"action","path","detail","kept"}],
//    "findings":[{"level","check","path","detail","advice"}]}
// `repairs` lists what was done, in order; the findings are what was found after that. The report keeps the first 50
// findings of a kind and counts the others, so that it stays readable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sessiond::doctor {

enum class Level : std::uint8_t { ok, warning, error };
std::string_view name(Level level);

struct Finding {
  Level level = Level::ok;
  std::string check{};   // the check that found it: "state_dir", "journal", "transcript", …
  std::string path{};    // absolute; empty when it concerns no file
  std::string detail{};  // what was found
  std::string advice{};  // what the operator can do about it; empty for ok
};
// One thing that --repair or --migrate did.
struct Step {
  std::string action{};  // the check whose fault it repaired, or "migrate"
  std::string path{};    // absolute
  std::string detail{};  // what was done
  std::string kept{};    // where the previous content is now; empty when there was none to keep
};

class Report {
 public:
  static constexpr std::size_t most_of_a_kind = 50;

  void add(Finding finding);
  void ok(std::string_view check, std::string_view path, std::string detail);
  void warning(std::string_view check, std::string_view path, std::string detail, std::string advice);
  void error(std::string_view check, std::string_view path, std::string detail, std::string advice);
  void step(Step step) { steps_.push_back(std::move(step)); }
  void append(Report other);

  std::vector<Finding> findings() const;  // ends with one finding for each kind of which some were only counted
  const std::vector<Step>& steps() const { return steps_; }
  Level status() const { return status_; }
  int exit_code() const { return static_cast<int>(status_); }  // 0 all ok, 1 warnings, 2 errors

 private:
  struct Kind {
    std::size_t kept = 0;
    std::size_t counted = 0;
  };
  std::vector<Finding> findings_{};
  std::vector<Step> steps_{};
  std::map<std::pair<std::string, Level>, Kind> kinds_{};
  Level status_ = Level::ok;
};

std::string to_text(const Report& report);
std::string to_json(const Report& report);  // one line, without '\n'

}  // namespace sessiond::doctor
