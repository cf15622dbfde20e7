#pragma once
// A request as the control plane may see it. The true output length is not here: only engine/ and workload/ know it.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "model/prompt_blocks.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle {

/// Latency objectives; an absent one is not judged. TTFT: time to first token. ITL: every gap between two tokens.
/// TBT: a request's mean gap. E2E: arrival to last token.
struct Slo {
  std::optional<Span> ttft;
  std::optional<Span> itl;
  std::optional<Span> tbt;
  std::optional<Span> e2e;
  /// Of the strictest of several (Objectives::strictest): some of their requests have a longer TTFT than this.
  bool ttft_varies = false;
  /// Not stated: a share of E2E (control::AnswerOptions).
  bool ttft_of_answers = false;
  /// Not stated: it follows from E2E and the longest of many answers (control::AnswerGaps).
  bool tbt_of_answers = false;

  /// The limit for each single gap: if all gaps are within TBT, so is their mean.
  [[nodiscard]] std::optional<Span> gap() const { return itl ? itl : tbt; }
  /// The limit for a request's mean gap: a request meets ITL if its mean gap does.
  [[nodiscard]] std::optional<Span> mean_gap() const { return itl && tbt ? std::min(itl, tbt) : itl ? itl : tbt; }
  bool operator==(const Slo&) const = default;
};

/// A service level with objectives of its own (model/objectives.h). Without tiers every request has tier 0.
struct Tier {
  std::string name;
  Slo slo;
  double factor = 1.0;  ///< factor on the class's or fleet's objectives where it states none
};

/// Sites where a tenant's requests may be computed.
struct Residency {
  static constexpr std::int32_t kMostSites = 64;
  std::uint64_t sites = 0;  ///< one bit per SiteId (of the first 64); 0: anywhere
  [[nodiscard]] bool stated() const { return sites != 0; }
  [[nodiscard]] bool allows(SiteId site) const {
    return sites == 0 || (site.value() >= 0 && site.value() < kMostSites && ((sites >> site.value()) & 1U) != 0);
  }
  void allow(SiteId site) { sites |= std::uint64_t{1} << site.value(); }
  bool operator==(const Residency&) const = default;
};

struct Request {
  RequestId id;
  Instant arrival;
  std::int32_t prompt_tokens = 0;
  std::int32_t max_tokens = 0;               ///< the client's cap on output tokens
  std::int32_t predicted_output_tokens = 0;  ///< belief; 0 = no prediction
  TenantId tenant;
  ClassId request_class;      ///< size class, used by planners; 0 without classes
  PoolId pool;                ///< to which it was last sent; 0 without pools
  TierId tier;                ///< whose objectives apply
  SiteId origin;              ///< where the client is
  std::int32_t priority = 0;  ///< higher first, in queue policies that use it
  Residency residency;        ///< sites where it may be computed
  bool undivided = false;     ///< must be computed by one instance, from prompt to last token
  std::int64_t order = 0;     ///< the queue policy's key when it was dispatched, smaller first; 0: none
  PromptContent content{};    ///< its prompt's content, for prefix routing; null: unknown
  std::uint64_t session = 0;  ///< hash of the conversation named by its client; 0: none
};

/// A customer, with the defaults of its requests.
struct Tenant {
  std::string name;
  TierId tier;
  SiteId origin;
  std::int32_t priority = 0;
  double share = 1.0;  ///< relative share of the simulated requests
  Residency residency = {};

  void apply_to(Request& request) const {
    request.tier = tier;
    request.origin = origin;
    request.priority = priority;
    request.residency = residency;
  }
};

}  // namespace wattle
