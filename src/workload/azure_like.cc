#include "workload/azure_like.h"

namespace wattle::workload {

std::unique_ptr<LengthSource> azure_conversation_lengths(std::uint64_t seed) {
  // Tokens at each share of requests. The steps (about 400, 1,050 and 4,080 prompt tokens; 90 and 400 output tokens)
  // come from the services behind the trace; a lognormal would lose them.
  QuantileTable prompts({{0.000, 2},    {0.010, 29},   {0.025, 120},  {0.050, 181},   {0.100, 207},
                         {0.150, 372},  {0.200, 387},  {0.300, 403},  {0.350, 414},   {0.400, 703},
                         {0.450, 984},  {0.500, 1020}, {0.600, 1071}, {0.700, 1130},  {0.750, 1189},
                         {0.800, 1315}, {0.850, 1877}, {0.900, 2735}, {0.925, 4075},  {0.975, 4092},
                         {0.990, 4142}, {0.995, 4831}, {0.999, 6212}, {0.9999, 7930}, {1.000, 14050}});
  QuantileTable outputs({{0.000, 7},   {0.010, 16},  {0.025, 28},  {0.050, 41},  {0.100, 54},
                         {0.150, 67},  {0.200, 77},  {0.300, 91},  {0.400, 103}, {0.450, 113},
                         {0.500, 129}, {0.550, 151}, {0.600, 177}, {0.650, 217}, {0.700, 384},
                         {0.750, 395}, {0.800, 400}, {0.850, 411}, {0.900, 424}, {0.950, 451},
                         {0.975, 522}, {0.990, 601}, {0.995, 644}, {0.999, 954}, {1.000, 1000}});
  return quantile_lengths(std::move(prompts), std::move(outputs), seed);
}

}  // namespace wattle::workload
