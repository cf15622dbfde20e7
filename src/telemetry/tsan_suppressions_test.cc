// ThreadSanitizer does not see how libzmq (Debian's, not instrumented) hands memory between its threads and ours, so it
// takes each received message for a race. Nothing of ours is left out.
#include <gtest/gtest.h>

#include <string>

extern "C" const char* __tsan_default_suppressions();  // NOLINT: the sanitizer's own name
extern "C" const char* __tsan_default_suppressions() { return "called_from_lib:libzmq.so\nrace:libzmq.so\n"; }

TEST(TsanSuppressions, AreForForeignLibrariesOnly) {
  EXPECT_EQ(std::string(__tsan_default_suppressions()).find("wattle"), std::string::npos);
}
