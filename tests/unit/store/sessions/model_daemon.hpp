// Does with a SessionsFile what the daemon does: holds the entries, commits what others changed, writes
// what is dirty.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "store/sessions/sessions_file.hpp"

namespace sessiond::testing {

class ModelDaemon {
 public:
  explicit ModelDaemon(const sessions::SessionsFile::Options& options)
      : file_(options), foreign_(options.previous.parent_path() / "main.foreign.json") {}

  bool load() {
    auto report = file_.load();
    if (!report) return false;
    for (const sessions::NamedEntry& one : report->entries) held_[one.key] = *one.entry;
    if (report->foreign) commit(*report->foreign);
    return true;
  }
  const std::string& at(const std::string& key) { return held_[key]; }
  bool has(const std::string& key) const { return held_.contains(key); }
  void set(const std::string& key, std::string entry) {
    held_[key] = std::move(entry);
    dirty_[key] = true;
  }
  bool poll() {
    auto change = file_.poll();
    if (!change) return false;
    if (*change) commit(**change);
    return true;
  }
  // Writes until nothing foreign came in between.
  bool checkpoint() {
    for (int round = 0; round < 1000; ++round) {
      std::vector<sessions::NamedEntry> changes;
      for (const auto& [key, unused] : dirty_) {
        const auto held = held_.find(key);
        changes.push_back({key, held == held_.end() ? nullptr : std::make_shared<const std::string>(held->second)});
      }
      auto result = file_.checkpoint(changes);
      if (!result) return false;
      if (!result->foreign) {
        dirty_.clear();
        return true;
      }
      came_out_ = came_out_ || std::filesystem::exists(foreign_);
      commit(*result->foreign);
    }
    return false;
  }
  // A version of another program was brought out by an exchange.
  bool came_out() const { return came_out_; }
  bool settle() { return checkpoint() && poll() && checkpoint(); }

 private:
  void commit(const sessions::ForeignChange& change) {
    for (const sessions::NamedEntry& created : change.created) {
      const auto [held, fresh] = held_.try_emplace(created.key, *created.entry);
      if (!fresh) held->second = json::apply(held->second, sessions::merge_entry("{}", held->second, *created.entry));
      dirty_[created.key] = true;
    }
    for (const sessions::ForeignChange::Changed& updated : change.updated) {
      const auto [held, fresh] = held_.try_emplace(updated.key, *updated.theirs);
      if (!fresh)
        held->second = json::apply(held->second, sessions::merge_entry(*updated.base, held->second, *updated.theirs));
      dirty_[updated.key] = true;
    }
    for (const std::string& key : change.deleted) {
      if (dirty_.contains(key)) continue;
      held_.erase(key);
      dirty_[key] = true;
    }
  }

  sessions::SessionsFile file_;
  std::filesystem::path foreign_;
  bool came_out_ = false;
  std::map<std::string, std::string> held_;
  std::map<std::string, bool> dirty_;
};

}  // namespace sessiond::testing
