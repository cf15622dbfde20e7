#pragma once
// The gateway's admin plane as the planner uses it. What goes wrong is logged; callers try again at their next turn.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "launch/admin_call.h"

namespace wattle::planner {

class GatewayAdmin {
 public:
  explicit GatewayAdmin(std::string url) : url_(std::move(url)) {}

  enum class Answer : std::uint8_t {
    Done,
    Unknown,  ///< it knows no such worker: it has restarted
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
  [[nodiscard]] Seen look(const std::string& worker);
  /// Decisions for its journal, oldest first.
  Answer record(const nlohmann::ordered_json& records);
  /// Requests that have arrived since it started.
  [[nodiscard]] std::optional<std::int64_t> arrived();

 private:
  Answer answer_to(const std::string& what, const Result<launch::AdminAnswer>& answer);

  std::string url_;
  launch::AdminCaller caller_;
};

}  // namespace wattle::planner
