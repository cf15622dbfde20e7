#pragma once
// Tests only: a fleet loop's driver and journal that write down what they are given, and plain fleets and requests.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/fleet_loop.h"

namespace wattle::control {

class Journal final : public journal::Sink {
 public:
  void decision(const journal::DecisionRecord& record) override { decisions.push_back(record); }
  [[nodiscard]] std::int64_t count(journal::DecisionKind kind) const {
    return std::ranges::count(decisions, kind, &journal::DecisionRecord::kind);
  }
  std::vector<journal::DecisionRecord> decisions;
};

/// Where each request is, by what the loop asked of its driver; aborts the test on a request started twice or refused
/// after all.
class Driver final : public RequestPort {
 public:
  enum class Place : std::uint8_t { Prefill, Decode, Refused };
  struct At {
    Place place;
    InstanceId instance;
  };

  void start(const Request& request, Tag, const RouteDecision& at, Instant) override {
    ASSERT_TRUE(where.emplace(request.id, At{Place::Prefill, at.instance}).second) << "started twice";
    why = at.reason;
    if (!begun_in_vain.contains(request.id)) started.push_back(request.id.value());
    if (on_start) on_start(request);
  }
  void hand_over(const Request& request, Tag, InstanceId prefill, const RouteDecision& decode, Instant) override {
    const At& at = where.at(request.id);
    ASSERT_EQ(at.place, Place::Prefill);
    ASSERT_EQ(at.instance, prefill);
    where[request.id] = {Place::Decode, decode.instance};
    why = decode.reason;
    if (on_hand_over) on_hand_over(request);
  }
  void in_vain(const Request& request, Tag, InstanceId, Instant) override {
    where.erase(request.id);
    begun_in_vain.insert(request.id);
  }
  void handed_over(const HandOver& what, Instant) override { handed.push_back(what); }
  Served refuse(const Request& request, Tag, Refusal, const char* reason, Instant) override {
    const auto at = where.find(request.id);
    EXPECT_TRUE(at == where.end() || at->second.place == Place::Prefill);
    where[request.id] = {Place::Refused, kNoInstance};
    reasons.emplace_back(reason);
    return {};
  }

  std::map<RequestId, At> where;
  std::set<RequestId> begun_in_vain;
  std::vector<std::int64_t> started;
  std::vector<HandOver> handed;
  std::vector<std::string> reasons;
  std::string why;  ///< the newest request went where it went
  std::function<void(const Request&)> on_start;
  std::function<void(const Request&)> on_hand_over;
};

inline const InstanceSpec* spec_of(Role role) {
  static const std::array specs = [] {
    std::array<InstanceSpec, 3> made;
    for (const Role r : {Role::Colocated, Role::Prefill, Role::Decode}) made[static_cast<std::size_t>(r)].role = r;
    return made;
  }();
  return &specs[static_cast<std::size_t>(role)];
}

inline std::vector<InstanceView> fleet(std::initializer_list<Role> roles) {
  std::vector<InstanceView> views;
  for (const Role role : roles) {
    InstanceView view;
    view.id = InstanceId{static_cast<std::int32_t>(views.size())};
    view.spec = spec_of(role);
    views.push_back(view);
  }
  return views;
}

inline Request request(std::int64_t id, std::int32_t prompt = 100) {
  Request r;
  r.id = RequestId{id};
  r.prompt_tokens = prompt;
  return r;
}

class FleetLoopTest : public ::testing::Test {
 protected:
  FleetLoop make(std::vector<InstanceView> views, DispatchPolicies policies) {
    return FleetLoop(std::move(views), std::move(policies), 1, {}, driver, journal);
  }
  Driver driver;
  Journal journal;
};

}  // namespace wattle::control
