// Kernel tables: aiconfigurator (GEMM, attention, all-reduce; power on H200 and B200) and Vidur's operators.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "fidelity/experiment.h"
#include "fidelity/kernel.h"
#include "fidelity/table.h"

namespace wattle::fidelity {
namespace {

using engine::HardwareProfile;
using engine::Operations;
using engine::Work;

struct Files {
  const char* gpu;
  const char* prefix;
  const char* power;  // infix of files that carry power
};

constexpr Files kFiles[] = {
    {"a100-80g", "a100", ""}, {"h100", "h100", ""}, {"h200", "h200", "_power"}, {"b200", "b200", "_power"}};

// Every n-th row is plenty for a table of tens of thousands, and keeps the command within its time.
constexpr std::size_t kMostRows = 1500;
constexpr double kShortestPowerMs = 0.05;  // shorter kernels read low on the meter
// Attention's readings scatter longer: below, decode kernels and the same with twice the context read 25 % (median) and
// 60 % (p90) apart on H200; products as long 1 %.
constexpr double kShortestAttentionPowerMs = 0.2;
// Block-scaled 8-bit products: below, the reading is the launch of several kernels.
constexpr double kShortestFp8Ms = 0.50;

/// Without rows if the file is not there.
Result<Table> optional_table(const std::string& file, const std::string& set, Collection& to,
                             const std::vector<std::string>& texts, const std::vector<Numbers>& numbers) {
  if (!to.found(std::filesystem::exists(file), set)) return Table{};
  return Table::read(file, texts, numbers);
}

/// An LLM of one layer with the row's heads.
LlmSpec attention_only(double heads, double kv_heads) {
  LlmSpec llm;
  llm.layers = 1;
  llm.heads = static_cast<std::int32_t>(heads);
  llm.kv_heads = static_cast<std::int32_t>(kv_heads);
  return llm;
}

/// A measured kernel, and what of the model repeats it.
struct Kernel {
  std::string set;
  std::string row;
  const GpuSpec* gpu = nullptr;
  double latency_ms = 0.0;
  double power_w = -1.0;  ///< 0: the reading is not believed; negative: the table has none
  LlmSpec llm;            ///< only what the work depends on
  std::int32_t tp = 1;
  double flops = 0.0;
  engine::AskedRange asked;  ///< but for the clock, which is the GPU's highest
  std::function<Work(const Operations&)> work;
  const char* quantity = "latency_ms";
  bool unseen = false;  ///< no fit sees it, whatever held_out() returns for it
};

void add(Collection& to, Kernel kernel) {
  Experiment e;
  e.set = kernel.set;
  e.row = kernel.row;
  e.gpu = kernel.gpu->name;
  e.tp = kernel.tp;
  e.fitted = !kernel.unseen && !held_out(e.set, e.row);
  e.quantities.push_back({kernel.quantity, kernel.latency_ms});
  const bool power = kernel.power_w > 0.0 && kernel.latency_ms >= kShortestPowerMs;
  if (power) e.quantities.push_back({"power_w", kernel.power_w});
  kernel.asked.clock_low_mhz = kernel.asked.clock_high_mhz = kernel.gpu->clock_max.value();
  // Tables without power were taken with operands that draw less (790 TFLOP/s on an H100, where the H200 at its limit
  // does 690): no clip. Those with power show the card at its limit.
  const bool clip = kernel.power_w >= 0.0;
  e.simulate = [kernel = std::move(kernel), clip, power](const HardwareProfile& profile,
                                                         const Rival& rival) -> Simulated {
    const GpuSpec& gpu = *kernel.gpu;
    const KernelResult r = repeat_kernel(gpu, kernel.llm, kernel.tp, profile, clip, kernel.work);
    std::vector<double> values{r.seconds * 1e3};
    if (!power) return {std::move(values), kernel.asked};
    if (rival.law == PowerLaw::Mfu) {
      const double mfu = kernel.flops / r.seconds / gpu.bf16_flops_per_s;
      values.push_back(rival.idle_w + (gpu.tdp.value() - rival.idle_w) * std::min(1.0, std::pow(mfu / 0.45, 0.7)));
    } else if (rival.law == PowerLaw::ThreeConstants) {
      values.push_back(rival.decode_w);
    } else {
      values.push_back(r.power_w);
    }
    return {std::move(values), kernel.asked};
  };
  to.experiments.push_back(std::move(e));
}

std::int64_t whole(double v) { return static_cast<std::int64_t>(v); }

/// Thins a table to one row in some.
class Thinned {
 public:
  explicit Thinned(std::size_t step) : step_(step) {}
  Thinned(std::size_t rows, std::size_t most) : Thinned(std::max<std::size_t>(1, rows / most)) {}
  /// Whether the row counts; lists it as left out if not.
  bool takes(std::size_t row, const std::string& set, Collection& to) const {
    if (row % step_ == 0) return true;
    to.leave_out(set, fmt::format("of so many one in {} is enough", step_));
    return false;
  }

 private:
  std::size_t step_;
};

/// A kernel's work per second, and the power reading.
struct Reading {
  double bytes_per_s, flops_per_s, watts;
};

/// Whether a reading is far below that of another kernel which moved and computed no more per second: an error of the
/// meter. Half of B200's streaming products are such (1.07 GB at 6.9 TB/s 985 W, twice as many at 6.3 TB/s 508).
bool reads_low(const Reading& r, const std::vector<Reading>& all) {
  return std::ranges::any_of(all, [&](const Reading& other) {
    return r.watts < 0.7 * other.watts && other.bytes_per_s <= r.bytes_per_s && other.flops_per_s <= r.flops_per_s;
  });
}

/// Of a product of 16-bit activations and weights of `bytes` each.
Reading product_reading(double m, double n, double k, double bytes, double ms, double watts) {
  const double seconds = ms * 1e-3;
  return {(n * k * bytes + 2.0 * m * (n + k)) / seconds, 2.0 * m * n * k / seconds, watts};
}

Result<void> gemm(const std::string& data, const Files& f, const GpuSpec& gpu, Collection& to) {
  const std::string file = fmt::format("{}/aiconfigurator/{}_gemm{}.csv", data, f.prefix, f.power);
  const std::string set = fmt::format("aiconfigurator/{}-gemm", f.prefix);
  Result<Table> read =
      optional_table(file, set, to, {"dtype"},
                     {size("m"), size("n"), size("k"), measured("latency_ms"), measured("power_w").if_there()});
  if (!read) return std::unexpected(read.error());
  const Table& t = *read;
  const auto is_fp8 = [&](std::size_t i) { return t.text(i, "dtype").starts_with("fp8"); };
  const auto reading = [&](std::size_t i) {
    return product_reading(t.number(i, "m"), t.number(i, "n"), t.number(i, "k"), is_fp8(i) ? 1.0 : 2.0,
                           t.number(i, "latency_ms"), t.number(i, "power_w"));
  };
  std::map<bool, std::vector<Reading>> readings;  // 8 bits or not
  for (std::size_t i = 0; t.has("power_w") && i < t.rows(); ++i) {
    const std::string& dtype = t.text(i, "dtype");
    const double ms = t.number(i, "latency_ms");
    if (ms < kShortestPowerMs || (dtype == "fp8_block" && ms < kShortestFp8Ms)) continue;
    if (is_fp8(i) || dtype == "bfloat16") readings[is_fp8(i)].push_back(reading(i));
  }
  std::size_t kept = 0;
  const Thinned thinned(t.rows(), kMostRows);
  for (std::size_t i = 0; i < t.rows(); ++i) {
    const std::string& dtype = t.text(i, "dtype");
    const bool fp8 = is_fp8(i);
    if (!fp8 && dtype != "bfloat16") {
      to.leave_out(set, "products in " + dtype);
      continue;
    }
    const double m = t.number(i, "m");
    const double n = t.number(i, "n");
    const double k = t.number(i, "k");
    const double ms = t.number(i, "latency_ms");
    double power = t.has("power_w") ? t.number(i, "power_w") : -1.0;
    if (dtype == "fp8_block" && ms < kShortestFp8Ms) {
      to.leave_out(set, "products in fp8_block so short that the reading is their launches");
      continue;
    }
    if (!thinned.takes(kept++, set, to)) continue;
    if (power > 0.0 && ms >= kShortestPowerMs && reads_low(reading(i), readings[fp8])) power = 0.0;
    LlmSpec llm;
    llm.dtype = fp8 ? Dtype::Fp8 : Dtype::Bf16;
    add(to, {.set = set + (fp8 ? "-fp8" : "-bf16"),
             .row = fmt::format("m={} n={} k={}", m, n, k),
             .gpu = &gpu,
             .latency_ms = ms,
             .power_w = power,
             .llm = llm,
             .flops = 2 * m * n * k,
             .asked = {0, 0, whole(m), 0, 0},
             .work = [m, n, k](const Operations& o) { return o.product(m, n, k); }});
  }
  return {};
}

Result<void> attention(const std::string& data, const Files& f, const GpuSpec& gpu, bool decode, Collection& to) {
  const std::string kind = decode ? "generation" : "context";
  const std::string set = fmt::format("aiconfigurator/{}-{}-attention", f.prefix, kind);
  Result<Table> read = optional_table(
      fmt::format("{}/aiconfigurator/{}_{}_attention{}.csv", data, f.prefix, kind, f.power), set, to,
      {"kv_cache_dtype"},
      {size("num_heads"), size("num_kv_heads"), requests("batch_size"), tokens(decode ? "context_len" : "input_len"),
       measured("latency_ms"), measured("power_w").if_there()});
  if (!read) return std::unexpected(read.error());
  const Table& t = *read;
  const Thinned thinned(t.rows(), kMostRows);
  for (std::size_t i = 0; i < t.rows(); ++i) {
    if (const std::string& dtype = t.text(i, "kv_cache_dtype"); dtype != "bfloat16") {
      to.leave_out(set, "KV cache in " + dtype);
      continue;
    }
    if (!thinned.takes(i, set, to)) continue;
    const double heads = t.number(i, "num_heads");
    const double kv = t.number(i, "num_kv_heads");
    const double batch = t.number(i, "batch_size");
    const double length = t.number(i, decode ? "context_len" : "input_len");
    const std::string row = fmt::format("heads={} kv_heads={} batch={} length={}", heads, kv, batch, length);
    const double pairs = decode ? batch * length : batch * length * length / 2;
    const auto work = [batch, length, decode, pairs](const Operations& o) {
      if (decode) {
        Work reading = o.decode_attention_per_kv_token() * pairs;
        reading.seconds *= o.decode_attention_tail(static_cast<std::int64_t>(batch));
        return o.attention_ramp() + engine::decode_attention(o.decode_attention_per_request() * batch, reading);
      }
      return o.attention_ramp() + o.prefill_attention_per_pair() * pairs +
             o.prefill_attention_per_token() * (batch * length);
    };
    const double ms = t.number(i, "latency_ms");
    double power = t.has("power_w") ? t.number(i, "power_w") : -1.0;
    if (power > 0.0 && ms < kShortestAttentionPowerMs) power = 0.0;
    add(to, {.set = set,
             .row = row,
             .gpu = &gpu,
             .latency_ms = ms,
             .power_w = power,
             .llm = attention_only(heads, kv),
             .flops = 4 * pairs * heads * 128,
             .asked = decode ? engine::AskedRange{whole(batch), whole(length), 0, 0, 0}
                             : engine::AskedRange{0, 0, whole(batch * length), 0, 0},
             .work = work});
  }
  return {};
}

Result<void> all_reduce(const std::string& data, const Files& f, const GpuSpec& gpu, Collection& to) {
  const std::string set = fmt::format("aiconfigurator/{}-allreduce", f.prefix);
  const std::string file = fmt::format("{}/aiconfigurator/{}_allreduce.csv", data, f.prefix);
  if (!std::filesystem::exists(file)) return {};
  Result<Table> read =
      Table::read(file, {"backend"}, {gpus("num_gpus"), measured("message_elems"), measured("latency_ms")});
  if (!read) return std::unexpected(read.error());
  for (std::size_t i = 0; i < read->rows(); ++i) {
    if (const std::string& backend = read->text(i, "backend"); backend != "vllm_graph") {
      to.leave_out(set, "backend " + backend);
      continue;
    }
    const double elements = read->number(i, "message_elems");
    if (elements > 2e8) {
      to.leave_out(set, "more at once than a step of any LLM sends");
      continue;
    }
    const double gpus = read->number(i, "num_gpus");
    LlmSpec llm;
    llm.layers = 1;
    add(to, {.set = set,
             .row = fmt::format("gpus={} elements={}", gpus, elements),
             .gpu = &gpu,
             .latency_ms = read->number(i, "latency_ms"),
             .llm = llm,
             .tp = static_cast<std::int32_t>(gpus),
             .asked = {},
             .work = [elements](const Operations& o) { return o.all_reduce(elements * 2.0); }});
  }
  return {};
}

struct VidurFile {
  const char* gpu;
  const char* file;
  const char* llm;
};
constexpr VidurFile kVidur[] = {
    {"a100-80g", "a100_Llama-2-70b-hf", "llama-2-70b"},   {"a100-80g", "a100_Llama-2-7b-hf", "llama-2-7b"},
    {"a100-80g", "a100_Meta-Llama-3-70B", "llama-3-70b"}, {"a100-80g", "a100_Meta-Llama-3-8B", "llama-3-8b"},
    {"h100", "h100_Llama-2-70b-hf", "llama-2-70b"},       {"h100", "h100_Llama-2-7b-hf", "llama-2-7b"}};

/// One layer without attention and all-reduce: the products and the small kernels.
Result<void> vidur(const std::string& data, const Catalog& catalog, Collection& to) {
  for (const VidurFile& v : kVidur) {
    const std::string set = fmt::format("vidur-profiles/{}", v.file);
    Result<Table> read = optional_table(fmt::format("{}/vidur-profiles/{}_mlp.csv", data, v.file), set, to, {},
                                        {gpus("tp"), tokens("num_tokens"), measured("attn_pre_proj_ms").or_none(),
                                         measured("attn_post_proj_ms").or_none(), measured("mlp_up_proj_ms").or_none(),
                                         measured("mlp_down_proj_ms").or_none()});
    if (!read) return std::unexpected(read.error());
    const GpuSpec* gpu = catalog.gpu(v.gpu);
    const LlmSpec* published = catalog.llm(v.llm);
    if (gpu == nullptr || published == nullptr) continue;
    LlmSpec llm = *published;
    llm.layers = 1;
    const Thinned thinned(read->rows(), 200);
    for (std::size_t i = 0; i < read->rows(); ++i) {
      if (!thinned.takes(i, set, to)) continue;
      double ms = 0.0;
      for (const char* column : {"attn_pre_proj_ms", "attn_post_proj_ms", "mlp_up_proj_ms", "mlp_down_proj_ms"}) {
        ms += read->number(i, column);
      }
      const auto tp = static_cast<std::int32_t>(read->number(i, "tp"));
      const double tokens = read->number(i, "num_tokens");
      if (std::isnan(ms)) {
        to.leave_out(set, "a product was not timed");
        continue;
      }
      const double heads = static_cast<double>(llm.heads) / tp;
      const double kv = std::max(1.0, static_cast<double>(llm.kv_heads) / tp);
      const double ffn = static_cast<double>(llm.ffn) / tp;
      const double hidden = llm.hidden;
      const double head_dim = llm.head_dim;
      const auto work = [=](const Operations& o) {
        return o.product(tokens, (heads + 2 * kv) * head_dim, hidden) + o.product(tokens, hidden, heads * head_dim) +
               o.product(tokens, 2 * ffn, hidden) + o.product(tokens, hidden, ffn);
      };
      add(to, {.set = set,
               .row = fmt::format("tp={} tokens={}", tp, tokens),
               .gpu = gpu,
               .latency_ms = ms,
               .llm = llm,
               .tp = tp,
               .asked = {0, 0, whole(tokens), 0, 0},
               .work = work,
               .quantity = "products_ms",
               .unseen = true});
    }
  }
  return {};
}

// Vidur's all-reduces on one DGX H100, NCCL's started from Python: below, the readings are that start. Its A100 table
// mixes two kinds of machine, 11 and 156 GB/s of one size on two GPUs, and is not read.
constexpr double kShortestVidurReduce = 8.0 * 1024.0 * 1024.0;

Result<void> vidur_all_reduce(const std::string& data, const Catalog& catalog, Collection& to) {
  const std::string set = "vidur-profiles/h100-allreduce";
  Result<Table> read = optional_table(data + "/vidur-profiles/h100_dgx_all_reduce.csv", set, to, {},
                                      {gpus("num_workers"), measured("size_bytes"), measured("median_ms")});
  if (!read) return std::unexpected(read.error());
  const GpuSpec* gpu = catalog.gpu("h100");
  if (gpu == nullptr) return {};
  const Thinned thinned(20);
  for (std::size_t i = 0; i < read->rows(); ++i) {
    const double bytes = read->number(i, "size_bytes");
    if (bytes < kShortestVidurReduce) {
      to.leave_out(set, "so short that the reading is its start");
      continue;
    }
    if (!thinned.takes(i, set, to)) continue;
    const double gpus = read->number(i, "num_workers");
    LlmSpec llm;
    llm.layers = 1;
    add(to, {.set = set,
             .row = fmt::format("gpus={} bytes={}", gpus, bytes),
             .gpu = gpu,
             .latency_ms = read->number(i, "median_ms"),
             .llm = llm,
             .tp = static_cast<std::int32_t>(gpus),
             .asked = {},
             .work = [bytes](const Operations& o) { return o.all_reduce(bytes); },
             .unseen = true});
  }
  return {};
}

}  // namespace

Result<void> collect_kernels(const std::string& data, const Catalog& catalog, Collection& to) {
  for (const Files& f : kFiles) {
    const GpuSpec* gpu = catalog.gpu(f.gpu);
    if (gpu == nullptr) continue;
    if (auto ok = gemm(data, f, *gpu, to); !ok) return ok;
    for (const bool decode : {false, true}) {
      if (auto ok = attention(data, f, *gpu, decode, to); !ok) return ok;
    }
    if (auto ok = all_reduce(data, f, *gpu, to); !ok) return ok;
  }
  if (auto ok = vidur_all_reduce(data, catalog, to); !ok) return ok;
  return vidur(data, catalog, to);
}

}  // namespace wattle::fidelity
