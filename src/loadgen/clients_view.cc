#include "loadgen/clients_view.h"

#include <filesystem>

#include "base/file.h"
#include "journal/run_directory.h"

namespace wattle::loadgen {

Result<void> write_clients_view(const std::string& directory, const journal::RunSummary& clients,
                                const journal::RunCurves& curves) {
  auto run = journal::read_run(directory);
  if (!run) return std::unexpected(run.error());
  run->summary.slo = clients.slo;
  run->summary.ttft = clients.ttft;
  run->summary.itl = clients.itl;
  run->summary.tbt = clients.tbt;
  run->summary.e2e = clients.e2e;
  run->curves = curves;
  return write_file((std::filesystem::path(directory) / "run.json").string(), journal::run_json(*run));
}

}  // namespace wattle::loadgen
