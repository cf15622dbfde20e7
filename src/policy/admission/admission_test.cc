#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "policy/admission/always.h"
#include "policy/admission/bounded.h"
#include "policy/queueing/fcfs.h"

namespace wattle::policy {
namespace {

TEST(BoundedAdmission, HoldsBeyondTheFleetsBoundAndRejectsBeyondTheQueues) {
  BoundedAdmission policy({10, 3});
  InstanceSpec decode;
  decode.role = Role::Decode;
  std::vector<InstanceView> fleet(3);
  fleet[2].spec = &decode;  // takes no first legs
  const auto verdict = [&](std::int64_t held, std::int64_t in_flight) {
    return policy.admit({}, {Instant{}, fleet, held, in_flight}).verdict;
  };
  EXPECT_EQ(verdict(0, 19), Admission::Admit);
  EXPECT_EQ(verdict(0, 20), Admission::Hold);
  EXPECT_EQ(verdict(2, 20), Admission::Hold);
  EXPECT_EQ(verdict(3, 20), Admission::Reject);
  EXPECT_STREQ(policy.admit({}, {Instant{}, fleet, 3, 20}).reason, "queue full");
  fleet[0].accepting = false;
  EXPECT_EQ(verdict(0, 9), Admission::Admit);
  EXPECT_EQ(verdict(0, 10), Admission::Hold);
  fleet[1].accepting = false;
  EXPECT_EQ(verdict(0, 0), Admission::Hold);
  EXPECT_EQ(verdict(3, 0), Admission::Reject);
}

TEST(BoundedAdmission, HugeBoundsDoNotOverflow) {
  BoundedAdmission policy({std::numeric_limits<std::int64_t>::max(), 0});
  std::vector<InstanceView> fleet(5);
  EXPECT_EQ(policy.admit({}, {Instant{}, fleet, 0, 1'000'000}).verdict, Admission::Admit);
}

TEST(AlwaysAdmit, AdmitsWhateverTheLoad) {
  AlwaysAdmit policy;
  EXPECT_EQ(policy.admit({}, {Instant{}, {}, 1'000'000'000, 1'000'000'000}).verdict, Admission::Admit);
}

TEST(Fcfs, KeysAreEqualSoThatArrivalOrderDecides) {
  Fcfs policy;
  Request longer;
  longer.prompt_tokens = 10'000;
  EXPECT_EQ(policy.key({}, Instant{}), policy.key(longer, Instant(Span::s(9).ns())));
}

}  // namespace
}  // namespace wattle::policy
