#include "daemon/doctor/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "store/json/raw_json.hpp"

namespace sessiond::doctor {
namespace {

// Escapes control characters: a file name may hold any, and a terminal would act on them.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string_view name(Level level) {
  constexpr std::array<std::string_view, 3> names{"ok", "warning", "error"};  // in the order of the enum
  return names.at(static_cast<std::size_t>(level));
}

void Report::add(Finding finding) {
  status_ = std::max(status_, finding.level);
  Kind& kind = kinds_[{finding.check, finding.level}];
  if (kind.kept == most_of_a_kind) {
    ++kind.counted;
    return;
  }
  ++kind.kept;
  findings_.push_back(std::move(finding));
}

void Report::ok(std::string_view check, std::string_view path, std::string detail) {
  add({Level::ok, std::string(check), std::string(path), std::move(detail), {}});
}
void Report::warning(std::string_view check, std::string_view path, std::string detail, std::string advice) {
  add({Level::warning, std::string(check), std::string(path), std::move(detail), std::move(advice)});
}
void Report::error(std::string_view check, std::string_view path, std::string detail, std::string advice) {
  add({Level::error, std::string(check), std::string(path), std::move(detail), std::move(advice)});
}

void Report::append(Report other) {
  for (Finding& finding : other.findings_) add(std::move(finding));
  for (const auto& [key, kind] : other.kinds_) kinds_[key].counted += kind.counted;
  for (Step& each : other.steps_) step(std::move(each));
}

std::vector<Finding> Report::findings() const {
  std::vector<Finding> all = findings_;
  for (const auto& [key, kind] : kinds_) {
    if (kind.counted == 0) continue;
    all.push_back({.level = key.second,
                   .check = key.first,
                   .detail = fmt::format("and {} more like those above", kind.counted),
                   .advice = key.second == Level::ok ? "" : "settle those above and look again"});
  }
  return all;
}

std::string to_text(const Report& report) {
  std::array<std::size_t, 3> counts{};
  std::string out;
  for (const Step& step : report.steps())
    out += fmt::format("{:<8} {:<12} {}: {}{}{}\n", "done", step.action, printable(step.path), printable(step.detail),
                       step.kept.empty() ? "" : "; kept as ", printable(step.kept));
  for (const Finding& finding : report.findings()) {
    ++counts[static_cast<std::size_t>(finding.level)];
    out += fmt::format("{:<8} {:<12} {}{}{}\n", name(finding.level), finding.check, printable(finding.path),
                       finding.path.empty() ? "" : ": ", printable(finding.detail));
    if (!finding.advice.empty()) out += fmt::format("{:<8} {:<12} -> {}\n", "", "", printable(finding.advice));
  }
  const auto count = [&](Level level) { return counts[static_cast<std::size_t>(level)]; };
  out += fmt::format("\n{} {}, {} {}, {} ok\n", count(Level::error), count(Level::error) == 1 ? "error" : "errors",
                     count(Level::warning), count(Level::warning) == 1 ? "warning" : "warnings", count(Level::ok));
  return out;
}

std::string to_json(const Report& report) {
  std::string steps = "[";
  for (const Step& step : report.steps()) {
    if (steps.size() > 1) steps += ',';
    json::ObjectWriter out(steps);
    out.string("action", step.action);
    out.string("path", step.path);
    out.string("detail", step.detail);
    out.string("kept", step.kept);
    out.close();
  }
  std::string list = "[";
  for (const Finding& finding : report.findings()) {
    if (list.size() > 1) list += ',';
    json::ObjectWriter out(list);
    out.string("level", name(finding.level));
    out.string("check", finding.check);
    out.string("path", finding.path);
    out.string("detail", finding.detail);
    out.string("advice", finding.advice);
    out.close();
  }
  json::ObjectWriter out;
  out.string("status", name(report.status()));
  out.raw("repairs", steps + "]");
  out.raw("findings", list + "]");
  return out.text();
}

}  // namespace sessiond::doctor
