// Measured step profiles, and the belief files fitted from them: accepted ones must be usable.
#include "fuzz.h"
#include "predict/belief_file.h"

namespace wattle::fuzz {

namespace {
std::string broken_rule(const predict::StepProfile& profile) {
  if (profile.rows.empty()) return "a profile without rows was accepted";
  MegaHertz before;
  for (const auto& row : profile.rows) {
    if (row.clock < before) return "clocks that fall were accepted";
    before = row.clock;
    if (row.phase == predict::StepKind::Idle) continue;
    if (row.step <= Span() || row.requests < 1 || row.steps < 1) return "a step without time or requests was accepted";
    if (row.power && row.power->value() < 0) return "a negative power was accepted";
  }
  const auto again = predict::parse_step_profile(predict::to_csv(profile), "again");
  if (!again) return "what was accepted, written out again, is rejected: " + again.error().message();
  if (again->rows.size() != profile.rows.size()) return "what was accepted, written out again, has other rows";
  return "";
}

std::string broken_rule(const predict::LinearBelief& belief) {
  const auto time = predict::LinearLatency::make(belief.time);
  if (!time) return "an accepted belief cannot be evaluated: " + time.error().message();
  if (!belief.power.energy.clocks.empty()) {
    const auto power = predict::LinearPower::make(*time, belief.power);
    if (!power) return "an accepted belief's power cannot be evaluated: " + power.error().message();
  }
  const auto again = predict::parse_belief(predict::to_csv(belief), "again");
  if (!again) return "what was accepted, written out again, is rejected: " + again.error().message();
  return "";
}
}  // namespace

std::vector<std::string> seeds() {
  const std::string profile =
      "# engine: x\nphase,clock_mhz,requests,prompt_tokens,kv_tokens,steps,step_ms,power_w,reached_mhz\n"
      "idle,1005,0,0,0,0,0,61.5,\nprefill,1005,1,512,0,9,50.25,301.125,1005\ndecode,1005,8,0,1024,100,11.0,,\n"
      "decode,1005,8,0,2048,100,11.5,250,1005\nidle,1410,0,0,0,0,0,70,\ndecode,1410,8,0,1024,100,9.5,250,1395\n";
  const std::string belief =
      "# from: x\nphase,clock_mhz,from,to,kv_tokens_to,time_us,time_us_per_request,time_ns_per_token,energy_mj,"
      "energy_mj_per_request,energy_uj_per_token,idle_w\n"
      "idle,1005,0,0,0,0,0,0,,,,61.5\nprefill,1005,64,4096,0,5000,0,90000,1000,0,30000,\n"
      "decode,1005,1,64,192000,8000,10,50,2000,10,5,\ndecode,1005,65,128,192000,10000,10,50,2000,10,5,\n"
      "idle,1410,0,0,0,0,0,0,,,,70\nprefill,1410,64,4096,0,4000,0,60000,1000,0,30000,\n"
      "decode,1410,1,64,192000,7000,8,40,2000,10,5,\ndecode,1410,65,128,192000,8000,8,40,2000,10,5,\n";
  const std::string time_only =
      "phase,clock_mhz,from,to,kv_tokens_to,time_us,time_us_per_request,time_ns_per_token,energy_mj,"
      "energy_mj_per_request,energy_uj_per_token,idle_w\ndecode,1410,1,64,192000,7000,8,40,,,,\n";
  return {profile, belief, time_only};
}

Verdict parse(std::string_view input) {
  Verdict verdict;
  const auto profile = predict::parse_step_profile(input, "fuzz");
  const Verdict one = profile ? Verdict{true, broken_rule(*profile)} : rejected(profile.error(), "fuzz");
  if (!one.broken_rule.empty()) return one;
  const auto belief = predict::parse_belief(input, "fuzz");
  Verdict other = belief ? Verdict{true, broken_rule(*belief)} : rejected(belief.error(), "fuzz");
  other.accepted |= one.accepted;
  return other;
}

}  // namespace wattle::fuzz
