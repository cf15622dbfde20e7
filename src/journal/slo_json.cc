#include "journal/slo_json.h"

#include "journal/slo_keys.h"

namespace wattle::journal {

std::string slo_text(const Slo& slo) { return slo_json(slo).dump(); }

Result<Slo> parse_slo(const std::string& json) {
  const Json read = Json::parse(json, nullptr, false);
  if (!read.is_object()) return bad_input("objectives", "must be a JSON object");
  Slo slo;
  std::string problem;
  JsonReader reader(read, "", problem);
  visit_slo(reader, slo);
  if (!problem.empty()) return bad_input("objectives", problem);
  if (slo_json(slo).size() != read.size()) {
    return bad_input("objectives",
                     "has keys that are not known here; known: ttft_ms, itl_ms, tbt_ms, e2e_ms, ttft_varies, "
                     "ttft_of_answers, tbt_of_answers");
  }
  return slo;
}

}  // namespace wattle::journal
