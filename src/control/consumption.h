#pragma once
// What the ledger holds, as a run's summary says it: the same in both drivers.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "carbon/ledger.h"
#include "journal/summary.h"
#include "model/objectives.h"
#include "model/outcome.h"

namespace wattle::control {

/// `meters` as in journal::Consumption; `service` names classes and tenants, `tenant_name` the latter where that is
/// not null. The ledger is closed up to the run's end.
[[nodiscard]] journal::Consumption consumption(const carbon::Ledger& ledger, std::string meters,
                                               const Service& service = {},
                                               const std::function<std::string(TenantId)>& tenant_name = nullptr);

/// The ledger's charge of one request, whose cost is, besides, not a number where some site states no price, or
/// electricity is paid apart and nobody metered it.
[[nodiscard]] Charge known(const carbon::Ledger& ledger, Charge charge);

/// What the requests for one model have used; energy that is nobody's is no model's.
struct ModelUsage {
  journal::UsageRow all;
  std::vector<journal::UsageRow> by_tenant;
  std::vector<journal::UsageRow> by_class;
};
/// Of each model, by its id; `names` are theirs.
[[nodiscard]] std::vector<ModelUsage> usage_by_model(const carbon::Ledger& ledger, std::span<const std::string> names,
                                                     const Service& service = {},
                                                     const std::function<std::string(TenantId)>& tenant_name = nullptr);

}  // namespace wattle::control
