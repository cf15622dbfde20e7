// (prompt, output) pairs that synthetic workloads draw from.
#include "fuzz.h"
#include "workload/lengths.h"

namespace wattle::fuzz {

std::vector<std::string> seeds() {
  return {"input_tokens,output_tokens\n74,918\n290,905\n1402,711\n",
          "start_time_offset_ns_poisson,input_tokens,output_tokens\r\n197890289,156,67\r\n1500203480,115,390",
          "\"prompt_tokens\",\"output_tokens\",note\n1,2,\"a,b\"\n3,4,\"say \"\"so\"\"\"\n"};
}

Verdict parse(std::string_view input) {
  const auto pairs = workload::parse_pairs(input, "fuzz");
  if (!pairs) return rejected(pairs.error(), "fuzz");
  if (pairs->empty()) return {true, "a file without pairs was accepted"};
  for (const auto& pair : *pairs) {
    if (pair.prompt < 1 || pair.output < 1) return {true, "a length below one token was accepted"};
  }
  return {true, ""};
}

}  // namespace wattle::fuzz
