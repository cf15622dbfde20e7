#pragma once
// The keys of objectives, for those that write or read them within a larger object. Internal to the library's .cc
// files.
#include "journal/json_keys.h"
#include "model/request.h"

namespace wattle::journal {

template <typename V, typename S>
void visit_slo(V& v, S& slo) {
  v.objective("ttft_ms", slo.ttft);
  v.objective("itl_ms", slo.itl);
  v.objective("tbt_ms", slo.tbt);
  v.objective("e2e_ms", slo.e2e);
  v.if_set("ttft_varies", slo.ttft_varies);
  v.if_set("ttft_of_answers", slo.ttft_of_answers);
  v.if_set("tbt_of_answers", slo.tbt_of_answers);
}

inline Json slo_json(const Slo& slo) {
  Json json = Json::object();
  JsonWriter writer(json);
  visit_slo(writer, slo);
  return json;
}

}  // namespace wattle::journal
