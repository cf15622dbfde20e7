#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "policy/admission/always.h"
#include "policy/admission/bounded.h"
#include "policy/queueing/fcfs.h"

namespace wattle::policy {
namespace {

TEST(BoundedAdmission, HoldsBeyondTheTakersBoundAndRejectsBeyondTheQueues) {
  BoundedAdmission policy({10, 3});
  const auto asked = [&](std::int64_t held, std::int64_t in_flight, std::int64_t takers) {
    return policy.admit({}, {Instant{}, {}, held, in_flight, takers});
  };
  EXPECT_EQ(asked(0, 19, 2).verdict, Admission::Admit);
  EXPECT_EQ(asked(0, 20, 2).verdict, Admission::Hold);
  EXPECT_EQ(asked(2, 20, 2).verdict, Admission::Hold);
  EXPECT_EQ(asked(3, 20, 2).verdict, Admission::Reject);
  EXPECT_STREQ(asked(3, 20, 2).reason, "queue full");
  EXPECT_EQ(asked(0, 9, 1).verdict, Admission::Admit);
  EXPECT_EQ(asked(0, 10, 1).verdict, Admission::Hold);
  EXPECT_EQ(asked(0, 0, 0).verdict, Admission::Hold);
  EXPECT_EQ(asked(3, 0, 0).verdict, Admission::Reject);
}

TEST(BoundedAdmission, HugeBoundsDoNotOverflow) {
  BoundedAdmission policy({std::numeric_limits<std::int64_t>::max(), 0});
  EXPECT_EQ(policy.admit({}, {Instant{}, {}, 0, 1'000'000, 5}).verdict, Admission::Admit);
}

TEST(AlwaysAdmit, AdmitsWhateverTheLoad) {
  AlwaysAdmit policy;
  EXPECT_EQ(policy.admit({}, {Instant{}, {}, 1'000'000'000, 1'000'000'000, 0}).verdict, Admission::Admit);
}

TEST(Fcfs, KeysAreEqualSoThatArrivalOrderDecides) {
  Fcfs policy;
  Request longer;
  longer.prompt_tokens = 10'000;
  EXPECT_EQ(policy.key({}, Instant{}), policy.key(longer, Instant(Span::s(9).ns())));
}

}  // namespace
}  // namespace wattle::policy
