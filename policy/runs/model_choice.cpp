#include "policy/runs/model_choice.hpp"

#include <array>
#include <utility>

namespace sessiond::runs {

std::string_view name(ModelSource source) {
  // In the order of the enum.
  constexpr std::array<std::string_view, 5> sources{"run", "session", "agent", "default", "none"};
  return sources.at(static_cast<std::size_t>(source));
}

ModelChoice choose_model(const ModelLevels& levels) {
  const std::array<std::pair<const ModelNames&, ModelSource>, 4> in_order{{{levels.request, ModelSource::run},
                                                                           {levels.session, ModelSource::session},
                                                                           {levels.agent, ModelSource::agent},
                                                                           {levels.defaults, ModelSource::default_}}};
  ModelChoice choice;
  for (const auto& [names, source] : in_order) {
    if (names.model.empty()) continue;
    choice = {.names = names, .source = source};
    break;
  }
  if (!levels.request.provider.empty()) choice.names.provider = levels.request.provider;
  return choice;
}

ModelNames model_of_entry(const json::Index& entry) {
  return {.model = entry.string_at("modelOverride").value_or(""),
          .provider = entry.string_at("providerOverride").value_or("")};
}

}  // namespace sessiond::runs
