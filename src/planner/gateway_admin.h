#pragma once
// The planner's client of the gateway's admin plane. A failure is logged once, until its outcome changes; callers try
// again at their next turn.
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/admin_call.h"
#include "model/plan.h"
#include "model/turned_out.h"

namespace wattle::planner {

class GatewayAdmin {
 public:
  /// `token`: of the admin plane; empty: none is required.
  explicit GatewayAdmin(std::string url, std::string_view token = "");

  enum class Answer : std::uint8_t {
    Done,
    Unknown,  ///< it has no such worker, or another one with that id: it has restarted
    Refused,  ///< the request is wrong; repeating it would fail again
    Failed,
  };

  /// The id of a newly registered worker; empty: it was not registered.
  [[nodiscard]] std::string add_worker(const nlohmann::json& worker);
  /// The worker at `url` takes requests from now on.
  Answer offer(const std::string& worker, const std::string& url);
  /// It gets no more requests.
  Answer withdraw(const std::string& worker);
  struct Seen {
    Answer answer = Answer::Failed;
    std::string status;
    std::int64_t active_requests = -1;
  };
  /// `url`: the worker's address; empty: not known yet.
  [[nodiscard]] Seen look(const std::string& worker, const std::string& url);
  /// Decisions for its journal, oldest first.
  Answer record(const nlohmann::ordered_json& records);
  /// The part of a plan that the gateway carries out; in force until the next, clock ranges for `lease`.
  Answer put_plan(std::span<const PoolWeight> weights, std::span<const ClockRange> clocks, Span lease);
  struct InForce {
    std::vector<PoolWeight> weights;
    std::vector<ClockRange> clocks;
    std::vector<std::int64_t> arrived;  ///< requests by class, since it started
    TurnedOut turned_out;               ///< since it started
    bool stopping = false;              ///< it accepts no new requests
  };
  [[nodiscard]] std::optional<InForce> in_force();

 private:
  Answer answer_to(const std::string& what, const Result<launch::AdminAnswer>& answer);

  std::string url_;
  std::string name_;                               ///< unique: of two planners' plans the newer one's holds
  std::map<std::string, std::string> complaints_;  ///< the newest message by subject
  launch::AdminCaller caller_;
};

}  // namespace wattle::planner
