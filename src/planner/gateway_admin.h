#pragma once
// The gateway's admin plane as the planner uses it. What goes wrong is logged, once until it goes otherwise; callers
// try again at their next turn.
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
  /// `token`: of the admin plane; empty: it wants none.
  explicit GatewayAdmin(std::string url, std::string_view token = "") : url_(std::move(url)) {
    caller_.set_token(token);
  }

  enum class Answer : std::uint8_t {
    Done,
    Unknown,  ///< it knows no such worker, or another one by that id: it has restarted
    Refused,  ///< what was said is wrong, and will be when it is said again
    Failed,
  };

  /// The id it gives a worker; empty: it would not hear of it.
  [[nodiscard]] std::string add_worker(const nlohmann::json& worker);
  /// The worker at `url` takes requests from now on.
  Answer offer(const std::string& worker, const std::string& url);
  /// It gets no more.
  Answer withdraw(const std::string& worker);
  struct Seen {
    Answer answer = Answer::Failed;
    std::string status;
    std::int64_t active_requests = -1;
  };
  /// `url`: where that worker stands; empty: it has not said yet.
  [[nodiscard]] Seen look(const std::string& worker, const std::string& url);
  /// Decisions for its journal, oldest first.
  Answer record(const nlohmann::ordered_json& records);
  /// What it carries out of a plan; it holds until the next, clock ranges for as long as `lease`.
  Answer put_plan(std::span<const PoolWeight> weights, std::span<const ClockRange> clocks, Span lease);
  struct InForce {
    std::vector<PoolWeight> weights;
    std::vector<ClockRange> clocks;
    std::vector<std::int64_t> arrived;  ///< requests by class, since it started
    TurnedOut turned_out;               ///< since it started
    bool stopping = false;              ///< it takes no new requests
  };
  [[nodiscard]] std::optional<InForce> in_force();

 private:
  Answer answer_to(const std::string& what, const Result<launch::AdminAnswer>& answer);

  std::string url_;
  std::map<std::string, std::string> complaints_;  ///< by what it was about: the newest
  launch::AdminCaller caller_;
};

}  // namespace wattle::planner
