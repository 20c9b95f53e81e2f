// Chooses the model of a run: that of the request, else of the session's entry (modelOverride, providerOverride), else
// of the agent (agents.<id>.model), else of the configuration (runs.model). The first level that names a model gives
// model and provider together, so that a provider never meets a model of another level. One exception: a request that
// names only a provider replaces the provider.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/json/raw_json.hpp"

namespace sessiond::runs {

// The names that a level gives. An empty text names nothing.
struct ModelNames {
  std::string model{};
  std::string provider{};
  friend bool operator==(const ModelNames&, const ModelNames&) = default;
};

enum class ModelSource : std::uint8_t { run, session, agent, default_, none };
std::string_view name(ModelSource source);  // "run", "session", "agent", "default", "none"

struct ModelChoice {
  ModelNames names{};  // both empty when no level names a model and the request no provider
  ModelSource source = ModelSource::none;
  friend bool operator==(const ModelChoice&, const ModelChoice&) = default;
};

struct ModelLevels {
  ModelNames request{};
  ModelNames session{};
  ModelNames agent{};
  ModelNames defaults{};
};
ModelChoice choose_model(const ModelLevels& levels);

// Returns the names that a session's entry gives. Values of another type than string name nothing.
ModelNames model_of_entry(const json::Index& entry);

}  // namespace sessiond::runs
