#pragma once
// The report: one HTML page that needs nothing but a browser.
#include <string>
#include <string_view>

#include "report/comparison.h"

namespace wattle::report {

/// Style, script and plots are inline; no request leaves the page.
[[nodiscard]] std::string html(const Comparison& comparison);

// The page's parts, each a well-formed piece of HTML.
[[nodiscard]] std::string energy_table(const Comparison& comparison);
/// By tenant, class, instance and site, of those there are several of.
[[nodiscard]] std::string usage_tables(const Comparison& comparison);
[[nodiscard]] std::string service_table(const Comparison& comparison);
/// By class and tier, of those there are several of.
[[nodiscard]] std::string group_tables(const Comparison& comparison);
[[nodiscard]] std::string energy_plots(const Comparison& comparison);
[[nodiscard]] std::string latency_plots(const Comparison& comparison);
/// Nothing where no run had several sites.
[[nodiscard]] std::string site_plots(const Comparison& comparison);
[[nodiscard]] std::string time_plots(const Comparison& comparison);
[[nodiscard]] std::string style();
[[nodiscard]] std::string_view script();

}  // namespace wattle::report
