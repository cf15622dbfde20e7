#pragma once
// What the ledger holds, as a run's summary says it: the same in both drivers.
#include <functional>
#include <string>

#include "carbon/ledger.h"
#include "journal/summary.h"
#include "model/objectives.h"

namespace wattle::control {

/// `meters` as in journal::Consumption; `service` names classes and tenants, `tenant_name` the latter where that is
/// not null. The ledger is closed up to the run's end.
[[nodiscard]] journal::Consumption consumption(const carbon::Ledger& ledger, std::string meters,
                                               const Service& service = {},
                                               const std::function<std::string(TenantId)>& tenant_name = nullptr);

}  // namespace wattle::control
