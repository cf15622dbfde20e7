// `wattle init`: writes a deployment file by looking at this machine: its GPUs by NVML, engines on its loopback ports.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "commands.h"
#include "config/locate.h"
#include "http_get.h"
#include "node/gpu/nvml.h"
#include "systems/recipe.h"

namespace wattle::apps {

namespace {

constexpr Span kPatience = Span::ms(500);  ///< with a loopback port

struct InitFlags {
  std::string out = "wattle.toml";
  std::string nvml = node::Nvml::kLibrary;
  std::vector<std::int32_t> ports{8000, 8001, 8002, 8003, 9000, 9001, 9002, 9003, 30000, 30001, 30002, 30003};
  std::string recipe = "static-max";
  bool force = false;
};

struct FoundGpu {
  std::string name;  ///< the driver's
  MegaHertz highest;
};

struct FoundEngine {
  std::string url;
  std::string model = {};  ///< as the engine names it
  std::string role = "colocated";
  std::int32_t tensor_parallel = 1;
  std::string kind = {};  ///< "SGLang", "vLLM"; empty: it does not say
};

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// The known name of which the words (between dashes) with most letters occur in `text`; the first word has to. Empty:
/// none.
std::string best_name(const std::vector<std::string>& known, const std::string& text) {
  const std::string where = lower(text);
  std::string best;
  std::size_t most = 0;
  for (const std::string& name : known) {
    std::size_t letters = 0;
    std::size_t missing = 0;
    bool first = false;
    for (std::size_t begin = 0; begin <= name.size();) {
      const std::size_t end = std::min(name.find('-', begin), name.size());
      const bool here = where.find(lower(name.substr(begin, end - begin))) != std::string::npos;
      if (begin == 0) first = here;
      (here ? letters : missing) += end - begin;
      begin = end + 1;
    }
    const std::size_t score = letters > missing ? letters - missing : 0;
    if (first && score > most) {
      most = score;
      best = name;
    }
  }
  return best;
}

std::vector<FoundGpu> look_for_gpus(const std::string& library, std::string& why_none) {
  std::vector<FoundGpu> found;
  const auto nvml = node::Nvml::open(library);
  if (!nvml) {
    why_none = nvml.error().message();
    return found;
  }
  const std::uint32_t count = (*nvml)->count().value_or(0);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto gpu = (*nvml)->by_index(i);
    if (!gpu) continue;
    found.push_back({gpu->name(), gpu->clocks().empty() ? MegaHertz(0) : gpu->clocks().back()});
  }
  if (found.empty()) why_none = library + " found none";
  return found;
}

nlohmann::json answer_of(const std::string& url) {
  const auto answer = http_get(url, {}, "", kPatience);
  if (!answer || answer->status != 200) return nullptr;
  return nlohmann::json::parse(answer->body, nullptr, false);
}

template <typename T>
T value_of(const nlohmann::json& body, const char* key, T otherwise) {
  const auto found = body.is_object() ? body.find(key) : body.end();
  if (found == body.end()) return otherwise;
  if constexpr (std::is_same_v<T, std::string>)
    return found->is_string() ? found->template get<T>() : otherwise;
  else
    return found->is_number_integer() ? found->template get<T>() : otherwise;
}

std::vector<FoundEngine> look_for_engines(const std::vector<std::int32_t>& ports) {
  std::vector<FoundEngine> found;
  for (const std::int32_t port : ports) {
    const std::string url = fmt::format("http://127.0.0.1:{}", port);
    const auto models = answer_of(url + "/v1/models");
    if (!models.is_object() || !models.contains("data") || !models["data"].is_array() || models["data"].empty())
      continue;
    FoundEngine engine{url, value_of<std::string>(models["data"][0], "id", "")};
    if (const auto info = answer_of(url + "/get_server_info"); info.is_object()) {
      engine.kind = "SGLang";
      engine.tensor_parallel = std::clamp(value_of<std::int32_t>(info, "tp_size", 1), 1, 64);
      const auto mode = value_of<std::string>(info, "disaggregation_mode", "");
      if (mode == "prefill" || mode == "decode") engine.role = mode;
    } else if (answer_of(url + "/version").is_object()) {
      engine.kind = "vLLM";
    }
    found.push_back(std::move(engine));
  }
  return found;
}

/// A string of JSON is one of TOML.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string text_of(const InitFlags& flags, const std::vector<FoundGpu>& gpus, const std::string& why_no_gpu,
                    const std::vector<FoundEngine>& engines) {
  const auto known_gpus = config::project().names(config::Project::Kind::Gpu);
  const auto known_llms = config::project().names(config::Project::Kind::Llm);
  const std::string gpu = gpus.empty() ? "" : best_name(known_gpus, gpus.front().name);
  const std::string model = engines.empty() ? "" : engines.front().model;
  const std::string llm = best_name(known_llms, model);
  std::string text =
      "# Written by `wattle init`. Keys: docs/reference/deployment.md. Then, on every node and on the gateway's "
      "machine:\n"
      "#     wattle agent --config wattle.toml\n#     wattle gateway --config wattle.toml\n\n[fleet]\n";
  text += fmt::format("recipe = \"{}\"  # `wattle recipes` lists them\n", flags.recipe);
  text += gpu.empty() ? fmt::format("gpu = \"\"  # one of: {}\n", fmt::join(known_gpus, ", "))
                      : fmt::format("gpu = \"{}\"  # NVML: {}\n", gpu, gpus.front().name);
  text += llm.empty() ? fmt::format("llm = \"\"  # one of: {}\n", fmt::join(known_llms, ", "))
                      : fmt::format("llm = \"{}\"  # the nearest to {}\n", llm, quoted(model));
  std::vector<std::string> models;
  for (const auto& engine : engines) {
    const std::string name = quoted(engine.model);
    if (std::ranges::find(models, name) == models.end()) models.push_back(name);
  }
  text += fmt::format("models = [{}]\n", fmt::join(models, ", "));
  text +=
      "\n[slo]  # 0: no objective\nttft_ms = 600\nitl_ms = 60\n\n[gateway]\nlisten = \"127.0.0.1:8080\"\nadmin = "
      "\"127.0.0.1:8081\"\n";
  text += fmt::format("\n[agent]\nnvml = {}\n\n[[node]]\nname = \"this\"\nagent = \"127.0.0.1:9100\"\n",
                      quoted(flags.nvml));
  if (gpus.empty()) text += fmt::format("# No GPU was found: {}\n", why_no_gpu);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    text += fmt::format("# GPU {}: {}, up to {} MHz\n", i, gpus[i].name, gpus[i].highest.value());
  }
  if (engines.empty())
    text += fmt::format("\n# No engine answered /v1/models on the ports {}.\n", fmt::join(flags.ports, ", "));
  std::int32_t next = 0;
  for (const auto& engine : engines) {
    std::vector<std::int32_t> mine;
    for (std::int32_t i = 0; i < engine.tensor_parallel; ++i) mine.push_back(next++);
    text += fmt::format(
        "\n[[worker]]{}\nurl = \"{}\"\nrole = \"{}\"\ngpus = [{}]  # check: engines do not report their GPUs\n"
        "# step_reports = \"tcp://127.0.0.1:PORT\"  # where it publishes forward-pass metrics; without, "
        "its streams decide\n",
        engine.kind.empty() ? "" : "  # " + engine.kind, engine.url, engine.role, fmt::join(mine, ", "));
  }
  return text;
}

Result<void> run(const InitFlags& flags) {
  if (!flags.force && std::filesystem::exists(flags.out)) {
    return bad_input("--out " + flags.out, "is there already; --force writes over it");
  }
  if (const auto recipe = systems::load_recipe(flags.recipe, {}, config::project()); !recipe) {
    return std::unexpected(recipe.error());
  }
  std::string why_no_gpu;
  const auto gpus = look_for_gpus(flags.nvml, why_no_gpu);
  const auto engines = look_for_engines(flags.ports);
  if (auto ok = replace_file(flags.out, text_of(flags, gpus, why_no_gpu, engines)); !ok) return ok;
  fmt::print("{}: {} GPU(s), {} engine(s). Check it: what could not be found is left open.\n", flags.out, gpus.size(),
             engines.size());
  return {};
}

}  // namespace

void add_init(Command app, int& exit_code) {
  Command command = app.add_subcommand("init", "Write a deployment file by looking at this machine's GPUs and engines");
  auto flags = std::make_shared<InitFlags>();
  command.add_option("-o,--out", flags->out, "The file").capture_default_str();
  command.add_option("--nvml", flags->nvml, "The NVML library").capture_default_str();
  command.add_option("--ports", flags->ports, "This machine's ports to search for engines")
      .delimiter(',')
      .check(range(1, 65'535))
      .capture_default_str();
  command.add_option("--recipe", flags->recipe, "The recipe in the file").capture_default_str();
  command.add_flag("--force", flags->force, "Overwrite an existing file");
  command.callback([flags, &exit_code] {
    if (const auto done = run(*flags); !done) exit_code = fail(done.error());
  });
}

}  // namespace wattle::apps
