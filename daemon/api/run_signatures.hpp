// Keeps signatures that are not stored (transcripts.durableContent "full") as long as their run goes on: a provider
// asks for them within a loop of tools, so view=llm shows them until the run ends. They are in memory only; a restart
// forgets them. Thread: the loop, but for show_signatures().
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policy/context/view.hpp"
#include "policy/signatures.hpp"
#include "store/journal/event.hpp"

namespace sessiond::api {

using SignedContents = std::vector<std::shared_ptr<const policy::StrippedContent>>;  // the oldest first

class RunSignatures {
 public:
  // Keeps contents of messages of a session's active run. A content that is kept already is a request sent again.
  // Beyond limits::signature_bytes in all, the session that has the most loses its oldest ones.
  void keep(const std::string& agent, const std::string& key, const std::string& run_id,
            std::vector<policy::StrippedContent> contents);
  // Forgets what belongs to a run that ended, or to a session that is gone.
  void see(const journal::Event& event);
  // Returns what is kept of this run.
  SignedContents of(const std::string& agent, const std::string& key, const std::string& run_id) const;
  bool is_empty() const { return kept_.empty(); }

 private:
  struct Kept {
    std::string run_id{};
    SignedContents contents{};
    std::size_t bytes = 0;
  };
  void drop_oldest();

  std::map<std::pair<std::string, std::string>, Kept> kept_{};  // by agent and key
  std::size_t bytes_ = 0;
};

// Puts signatures back into those messages of a conversation that are stored as `contents` tell, before a view is made
// of it. Pure.
void show_signatures(context::Conversation& conversation, const SignedContents& contents);

}  // namespace sessiond::api
