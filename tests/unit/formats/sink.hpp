// A sink that collects what a reader gives, for tests.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "formats/reader.hpp"

namespace sessiond::testing {

struct CollectedSession {
  formats::SessionHead head{};
  std::vector<std::string> lines{};
  bool ended = false;
};

class CollectingSink : public formats::Sink {
 public:
  Result<void> session(formats::SessionHead head) override {
    sessions.push_back({.head = std::move(head)});
    return {};
  }
  Result<void> entry(std::string line) override {
    CHECK(line.find('\n') == std::string::npos);
    sessions.back().lines.push_back(std::move(line));
    return {};
  }
  Result<void> end() override {
    sessions.back().ended = true;
    return {};
  }
  void skip(formats::Skipped skipped) override { skips.push_back(std::move(skipped)); }

  // All that was given, in one text.
  std::string text() const {
    std::string out;
    for (const CollectedSession& session : sessions) {
      out.append(session.head.id).append(" ").append(session.head.key).append("\n");
      out.append(session.head.header).append("\n").append(session.head.entry).append("\n");
      for (const std::string& line : session.lines) out.append(line).append("\n");
    }
    for (const formats::Skipped& skip : skips)
      out.append("- ").append(skip.id).append(" ").append(skip.why).append("\n");
    return out;
  }

  std::vector<CollectedSession> sessions{};
  std::vector<formats::Skipped> skips{};
};

}  // namespace sessiond::testing
