#include "reproduce/catalog.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "config/load.h"
#include "config/profile.h"

namespace wattle::reproduce {

Result<fidelity::Catalog> load_catalog(const config::Project& project) {
  using Kind = config::Project::Kind;
  fidelity::Catalog catalog;
  for (const std::string& name : project.names(Kind::Gpu)) {
    const auto file = project.find(Kind::Gpu, name, name);
    if (!file) return std::unexpected(file.error());
    const auto gpu = config::load_gpu(*file);
    if (!gpu) return std::unexpected(gpu.error());
    catalog.gpus.emplace(name, *gpu);
  }
  for (const std::string& name : project.names(Kind::Llm)) {
    const auto file = project.find(Kind::Llm, name, name);
    if (!file) return std::unexpected(file.error());
    const auto llm = config::load_llm(*file);
    if (!llm) return std::unexpected(llm.error());
    catalog.llms.emplace(name, *llm);
  }
  for (const std::string& name : project.names(Kind::Profile)) {
    const auto profile = config::profile_of(name, project);
    if (!profile) return std::unexpected(profile.error());
    catalog.profiles.emplace(name, *profile);
  }
  const auto voltanallm = config::load_scenario("voltanallm-2p2d", {}, project);
  if (!voltanallm) return std::unexpected(voltanallm.error());
  const auto& workload = voltanallm->scenario.workload;
  catalog.voltanallm = {voltanallm->scenario.engine,
                        static_cast<double>(std::max(workload.max_prompt_tokens, workload.max_output_tokens))};
  const auto throttllem = config::load_scenario("throttllem-llama2-13b-tp2", {}, project);
  if (!throttllem) return std::unexpected(throttllem.error());
  catalog.throttllem = throttllem->scenario.engine;
  return catalog;
}

Result<fidelity::SeenRows> load_seen_rows(const config::Project& project) {
  const auto name = fmt::format("profiles/{}", fidelity::kSeenRows);
  const auto file = project.find(config::Project::Kind::Profile, name, name);
  if (!file) return std::unexpected(file.error());
  const auto text = read_file(*file);
  if (!text) return std::unexpected(text.error());
  return fidelity::SeenRows::parse(*text, *file);
}

}  // namespace wattle::reproduce
