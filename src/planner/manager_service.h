#pragma once
// DynamoLLM's cluster manager and its pool managers as processes of their own (docs/plan-protocol.md): each answers
// what the level below observes with what holds for it. One thread.
#include <memory>
#include <optional>
#include <string>

#include "launch/admin_call.h"
#include "managers/hierarchy.h"

namespace wattle::planner {

struct ManagerAnswer {
  int status = 200;
  std::string body;
};

/// The cluster manager's side.
class ClusterService {
 public:
  explicit ClusterService(std::shared_ptr<managers::Hierarchy> levels) : levels_(std::move(levels)) {}
  /// Of a ClusterObservation; 400 with what is wrong with it.
  [[nodiscard]] ManagerAnswer observe(const std::string& body, Instant now);

 private:
  std::shared_ptr<managers::Hierarchy> levels_;
};

/// Pool managers' side.
class PoolService {
 public:
  /// `above`: URL of the cluster manager.
  PoolService(std::shared_ptr<managers::Hierarchy> levels, std::string above)
      : levels_(std::move(levels)), above_(std::move(above)) {}
  /// Of an Observation: the part of the plan that is theirs. While the cluster manager does not answer its last mandate
  /// holds; where there has been none, what is observed. 400: what is wrong with the observation; 503: there is
  /// neither.
  [[nodiscard]] ManagerAnswer observe(const std::string& body, Instant now);

 private:
  void ask_above(const managers::ClusterObservation& seen, Instant now);

  std::shared_ptr<managers::Hierarchy> levels_;
  std::string above_;
  launch::AdminCaller caller_;
  std::optional<managers::ClusterMandate> mandate_;
  bool answered_ = true;  ///< when last asked; so that a change is logged once
};

}  // namespace wattle::planner
