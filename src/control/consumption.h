#pragma once
// The ledger's totals as a run's summary states them, the same in both drivers.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "carbon/ledger.h"
#include "journal/summary.h"
#include "model/objectives.h"
#include "model/outcome.h"

namespace wattle::control {

/// `meters`: as in journal::Consumption. `service` names classes and tenants; `tenant_name`, if not null, names tenants
/// instead. The ledger must be closed up to the run's end.
[[nodiscard]] journal::Consumption consumption(const carbon::Ledger& ledger, std::string meters,
                                               const Service& service = {},
                                               const std::function<std::string(TenantId)>& tenant_name = nullptr);

/// The charge of one request, with a cost of NaN if a site has no price, or if electricity is charged separately and
/// its energy was not metered.
[[nodiscard]] Charge known(const carbon::Ledger& ledger, Charge charge);

/// Usage of the requests for one model. Energy that belongs to no request belongs to no model.
struct ModelUsage {
  journal::UsageRow all;
  std::vector<journal::UsageRow> by_tenant;
  std::vector<journal::UsageRow> by_class;
};
/// Usage by model id; `names` are the models' names.
[[nodiscard]] std::vector<ModelUsage> usage_by_model(const carbon::Ledger& ledger, std::span<const std::string> names,
                                                     const Service& service = {},
                                                     const std::function<std::string(TenantId)>& tenant_name = nullptr);

}  // namespace wattle::control
