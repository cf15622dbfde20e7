#include "fidelity/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/quantile.h"

namespace wattle::fidelity {
namespace {

std::string percent(double v) { return std::isfinite(v) ? fmt::format("{:.1f} %", 100.0 * v) : std::string(); }

struct TargetRule {
  const char* name;
  std::vector<const char*> sets;  ///< parts of set names
  const char* quantity;
  double limit;
  bool median;
};

bool judges(const TargetRule& rule, const std::string& set, const std::string& quantity) {
  const auto named = [&](const char* part) { return set.find(part) != std::string::npos; };
  return quantity == rule.quantity && std::ranges::any_of(rule.sets, named);
}

const std::vector<TargetRule>& rules() {
  static const std::vector<TargetRule> all{
      {"H100 clock sweep: power", {"/clock-sweep"}, "power_w", 0.06, false},
      {"H100 clock sweep: TPOT p99", {"/clock-sweep"}, "tpot_p99_ms", 0.10, false},
      {"H100 clock sweep: TTFT p99", {"/clock-sweep"}, "ttft_p99_ms", 0.15, false},
      {"A100 2P2D: energy", {"VoltanaLLM/fixed-clocks"}, "energy_j", 0.08, false},
      {"A100 2P2D, models left out of the fit: energy", {"VoltanaLLM/fixed-clocks, other"}, "energy_j", 0.08, false},
      {"A100-40G clock sweep, batches of 8 to 64: time against the top clock",
       {"EnergyLLM/"},
       "time_ratio",
       0.08,
       false},
      {"A100-40G clock sweep: power against the top clock", {"EnergyLLM/"}, "power_ratio", 0.08, false},
      {"A40 under a power limit: time", {"Zeus/"}, "time_ratio", 0.15, false},
      {"End-to-end dense: TTFT", {"end-to-end-"}, "ttft_mean_ms", 0.25, false},
      {"ML.ENERGY B200 dense: power", {"mlenergy/b200-dense"}, "power_w", 0.12, false},
      {"ML.ENERGY B200 dense, the GPU kept busy: power", {"mlenergy/b200-dense (kept"}, "power_w", 0.12, false},
      {"ML.ENERGY H100 dense: power", {"mlenergy/h100-dense"}, "power_w", 0.08, false},
      {"ML.ENERGY H100 dense: ITL", {"mlenergy/h100-dense"}, "itl_p50_ms", 0.12, false},
      {"ML.ENERGY H100 dense: J/token", {"mlenergy/h100-dense"}, "energy_per_token_j", 0.12, false},
      {"End-to-end H100 and H200 dense: TTFT",
       {"end-to-end-h100-dense", "end-to-end-h200-dense"},
       "ttft_mean_ms",
       0.15,
       true},
      {"End-to-end H100 and H200 dense: TPOT",
       {"end-to-end-h100-dense", "end-to-end-h200-dense"},
       "tpot_mean_ms",
       0.15,
       true},
      {"DynamoLLM Table I: cells that disagree", {"DynamoLLM/table-I"}, "agrees", 0.15, false},
      {"DynamoLLM Tables I-III: minimum beyond a neighbour", {"DynamoLLM/least-energy"}, "agrees", 0.001, false},
      {"GEMM kernels, 16-bit", {"-gemm-bf16"}, "latency_ms", 0.10, true},
      {"Attention kernels", {"-attention"}, "latency_ms", 0.10, true},
  };
  return all;
}

constexpr const char* kHow =
    R"(A row is one published or measured number; *ours* is what the simulated hardware gives under the same condition.
Rows marked *fitted* may have been used by `wattle fit`, or were in view when a hand set constants (one in two of the
end-to-end samples, by a hash of the row's text; of VoltanaLLM's panels those of two models), and are on the list of what
fits and hands have seen (profiles/seen.txt, by what was measured: another folder's rows are not). All others never were:
one row in four of every fitted set is held out by such a hash, and whole sets and models (all but two of ML.ENERGY's, all
but those two of VoltanaLLM's) are never fitted. Errors are relative to the measured
value; of percentages (attainment, saving) they are the difference in points. *Outside*: rows that ask for a batch,
context, step, GPU count or clock beyond what the profile's fitted rows cover.
Power models side by side, on our step times: the MFU law of Vidur-Energy (idle + (max - idle) x min(1, (mfu/0.45)^0.7))
and three constants (idle, TDP for prompts, 65 % of TDP for decode).
)";

constexpr const char* kWhy =
    R"(## Missed targets: why

- **DynamoLLM.** Three minima lie two cells away. MS: theirs is TP2 at 1.6 GHz, 5 % below its TP4 cells; ours misses that
  cell's TTFT and takes TP4 at 1.2 GHz, 6 % below TP4 at 1.6. ML: at TP4 ours grows with the clock (5.4, 6.0, 7.2 Wh at 1.2,
  1.6, 2.0 GHz) where theirs falls (5.0, 4.7, 4.5), though it grows in its rows of short prompts (SM 2.8, 3.4, 3.8; ours
  6.4, 6.8, 8.0). The H100 sweep, such prompts on such cards elsewhere, is with ours: at 2 requests per second and TP4 its
  power x TPOT grows by a tenth from 1.08 to 1.83 GHz. LL: its long rows violate their objectives at TP4 whatever the
  clock, with 0.5 requests per second; ours serve them there in a fifth of the 2 s allowed, so the minimum is there. CPU
  times per step of 0, 4, 8 and 12 ms miss 7, 4, 4 and 3 minima, and no length we tried does better without losing cells.
- **VoltanaLLM's attainment.** Four of the 8B's points are off by more than 5, all of them ours too good (ShareGPT 90 at 1410 MHz
  90.3 for 96.6, 65 at 1005 93.8 for 100; LMSYS 100 at 1410 92.6 for 98.5, 80 at 1005 94.4 for 100). The figure's points are one
  run each and scatter: at 1410 MHz TTFT goes 96.7, 92.6, 95.5 over 95, 100, 105 requests per second. Where ours has all gaps
  within, published curves leave 100 earlier and fall more slowly: our steps have no noise, so a batch's requests cross the
  objective together.
- **TTFT of end-to-end samples:** below, and docs/decisions/0018.

## What is assumed, and where it is weak

- **End-to-end samples**: all requests start at once and the first burst counts. What aiconfigurator's public repository says of
  its own runs is taken from there: its generator gives an engine max_num_tokens = 512 + prompt + 1,500 (so one or two prompts
  per step), SGLang from 0.5.6 max_prefill_tokens = prompt + 1,500 with enable_mixed_chunk; its runner sends 10 requests per
  slot. "Aic-auto-gap-analysis" sources send fixed lengths; those printed to 16 digits 20 per slot and at most 2,000 (their
  means are multiples of 1 ns only at such counts). The others are taken as InferenceMAX: 10 per slot, lengths uniform in 80 to
  100 %, an 8-bit KV cache with weights of no more bits where the script asks for one (not for MiniMax but on B200 from April
  2026, nor for gpt-oss but on B200, nor on SGLang and H200). vLLM splits prompts, TensorRT-LLM keeps them whole, SGLang before
  0.5.6 runs them first; all but vLLM 0.12 compose a step while the one before runs, all but vLLM admit a request when the KV
  cache has room for its last token (engine options whole_prompts, chunked_prefill, async_scheduling, reserve_output).
- **Serving runs** go through the engine the simulator runs, a single instance of it, with a client of their own: arrivals
  or a fixed concurrency, the front end, and the window measured. Their energy is the ledger's.
- CPU times are one set of constants per framework for all models, GPUs and files (src/engine/framework.cc): a front end that
  serves requests and streamed tokens in turn (vLLM 2 ms a request and 2 us a prompt token; TensorRT-LLM 12 ms, 2 us and 55
  us a token out; SGLang 10 ms and 60 us), chosen on the half of the end-to-end samples that counts as fitted, and scheduling
  that the GPU's work hides (SGLang, TensorRT-LLM) or not (vLLM). In one file (TensorRT-LLM 1.0.0rc3, Llama-3.1-8B) TTFT grows
  by answer time / (slots - 1) at every TP and prompt length, as if one slot stayed empty; no cause is known, so nothing is
  done about it. TensorRT-LLM's 8-bit runs keep an 8-bit KV cache, as aiconfigurator's generator starts them.
- A prefix cache serves prompts of whole thousands of tokens on vLLM and TensorRT-LLM. aiconfigurator's benchmark script runs
  aiperf, which draws from 100 prompts (its --num-dataset-entries) after a warm-up of twice the concurrency, and neither engine
  is asked to forget; ours sends as many of them once, then draws from all (Load::distinct_prompts, prompts_sent_before, engine
  option prefix_caching); all 100 beforehand, as ours did, made TTFT of few slots a fifth of the measured (Qwen3-235B on four
  H200, in view: 25.6 % off, now 15.4). That it is these prompts, and not SGLang's of the same script, is by the fitted half:
  there H200/vLLM's TTFT went from 41 to 15 % in the mean, its TPOT from 25 to 11. TensorRT-LLM's TTFT stays between: below ours
  without the cache, above with it.
- InferenceMAX's published scripts start vLLM with async-scheduling and no-enable-prefix-caching: a request waits for one step
  more. (B200's also fuse all-reduce, norm and quantisation, which ours do not.) TensorRT-LLM and SGLang send ten tokens or more
  at once, the first alone (stream_interval). TensorRT-LLM's prompts wait for more of them, Llama's of 1,024 tokens with answers
  as long on fewer than eight GPUs for 20 steps (batch_wait_timeout_iters); it starts DeepSeek's data groups together or after 60
  steps (attention_dp_config); gpt-oss has four processes for what goes in and out. SGLang computes up to 32,768 prompt tokens a
  step (half of that for DeepSeek in 4 bits) and on B200 looks for DeepSeek's requests every 10 or 30 steps (scheduler-recv-interval).
- Not explained: SGLang on one H100 with a 32B model in 16 bits, which queues for 30 s where our KV cache holds all, and up
  to 512 x 2,000-token answers, where SGLang queues for 8 s.
- InferenceMAX's client sends requests to warm up with since 21 January 2026. Before, what an engine compiles or tunes at first
  use is in the first tenth of the requests: some 70 s in DeepSeek's runs in 4 bits on SGLang and B200 of 10 November 2025, which
  makes 7 s of a mean of 0.3 to 1.5 (the *96 % off*). Ours has none; the rows stay in the score.
- Memory is what nvidia-smi reports (H100 81,559 MiB), engines use 90 % of it less 2 GB; llama-3.1-70b fits on two H100.
- Sampling. ML.ENERGY asks for temperature 0.8 and top-p 0.95; vLLM sorts the whole vocabulary for that, on every GPU of a
  group, so its time and power go with requests x vocabulary. The H100 sweep and the 4 x H100 node are taken as greedy,
  vLLM's benchmark script's default. So are InferenceMAX's samples (its client asks for temperature 0); of aiconfigurator's own
  TensorRT-LLM's are greedy, vLLM's and SGLang's not: of both choices what suits the fitted half. With sampling the node would be nearer (4 % off instead of 7).
- Mixtures of experts (docs/decisions/0019). Routed experts' products run at what aiconfigurator's MoE kernel tables show (not
  in our data; 53 % of the 16-bit peak in 16 or 8 bits, 20 % for 4-bit weights widened in the kernel, 2.75 and 1.1 times the
  peak for NVFP4 and MXFP4 on units for them) and move each routed token 4.8 times its size. Steps with prompts start their
  kernels from the CPU: 0.5 ms a layer of experts on vLLM, 1 ms on SGLang and TensorRT-LLM and 2 ms more with latent attention,
  beside the GPU's work there. These three times were chosen with one in two rows of DeepSeek-V3, gpt-oss-120b and MiniMax-M2
  and all of Qwen3-235B and Kimi K2 in view; those count as fitted. Everything else of mixtures, latent and sliding-window
  attention, 4-bit weights, expert and data parallelism comes from shapes alone (specs/llms), but for kReasoningHostStep
  (ML.ENERGY's gpqa on one B200, of Qwen3-30B-A3B).
- Five rows of gpt-oss at 512 slots (H100, vLLM, December 2025) are the *120 % off*: 4 to 27 ms a token, less than the same
  engine's at 16 to 64 slots, after 20 to 300 s for the first. In two of them both together take what ours takes (24 and 138 s
  for 26 and 130): the front end holds first tokens back and then sends what has gathered. Without the five, time per token is
  off by 7 and 11 %. Nothing is left out of the score.
- Llama on B200 and vLLM: its script asks for CUDA graphs of decodes alone (cudagraph_mode FULL_DECODE_ONLY, splitting_ops
  []), gpt-oss's beside it and those for H100 and H200 do not. A step with prompts takes 23 ms longer for each doubling of the GPUs
  (prompt_step_gap_ms), whatever the prompt's length: of 17, 52 and 69 ms on 2, 4 and 8 that the fitted rows miss; the others were
  in view when the form was chosen. TTFT, never fitted, is off by 12.6 % with it (34.9 without, 20.6 and 29.0 at half and twice).
  Its decodes are 12 % shorter than ours: it fuses all-reduce, norm and quantisation, and no kernel table has that kernel.
- DeepSeek-R1 on TensorRT-LLM runs as InferenceMAX's script of the row's day starts it (docs/decisions/0031): with multi-token
  prediction where the changelog says so (image 1.2.0rc6.post3, and 1.1.0rc2.post2 from 14 January 2026), three drafts, one with
  data-parallel attention; room for hardly more than one prompt a step until the scripts were tuned; piecewise CUDA graphs where
  they ask for them. Three constants were chosen on the half of these rows that counts as fitted. Drafts accepted, each alike,
  0.75: time per token of the 57 rows with drafts is 15.6, 13.0, 11.7 and 13.4 % off in the mean at 0.65, 0.7, 0.75 and 0.8, of
  the 27 others 11.9, 10.9, 10.7 and 12.3; without drafts 65 and 62. (InferenceMAX later measured 2.49 and 2.97 tokens a step of
  three drafts with DeepSeek-V4: 0.64 and 0.76.) Launches left on B200, two thirds: time per token and TTFT 16.5 and 25.2 % off,
  17.9 and 27.6 at 0.8, 14.7 and 26.4 at a half; with piecewise graphs half: 15.9 and 25.4, a third 16.5 and 25.2, a sixth 17.2
  and 28.0. SGLang drafts on B200 in 8 bits, too, on the same days and with the same image as without, so that its rows below 65
  slots do not tell; above, our drafts are worth twice what its are (time per token 45 % too short), so that none of its rows
  has any.
- 8-bit mixtures with a scale for each block of weights, as all but Llama's have, ran through DeepGEMM's contiguous layout on
  vLLM 0.11 and 0.12 (ML.ENERGY's image is 0.11.1; aiconfigurator's own of Qwen3-235B 0.12): its products have 127 rows for each
  expert of a GPU beside the tokens', whatever the batch (triton_deep_gemm_moe.py, compute_aligned_M() in deep_gemm_utils.py).
  They are computed at the rate of dense 8-bit products (engine option expert_row_block); nothing is fitted, but these rows had
  been looked at when it was found. ML.ENERGY's configurations of DeepSeek on B200 ask for FlashInfer instead. Qwen3-235B's time
  per token, power and J/token were 26, 15 and 39 % off on H100, 35, 22 and 42 % on B200, and are 7, 4 and 8 and 8, 13 and 15;
  aiconfigurator's time per token of it 41 and is 9. Qwen3-Coder-480B's eight data groups stay 31, 13 and 64 % off (50, 19 and
  77).
- DeepSeek-R1 in 4 bits on SGLang and B200 took 5 to 12 s for a first token in November 2025 where the first prompts are 32,768
  tokens together or more: InferenceMAX's client had no warm-up before 21 January 2026, and a tenth of its requests came at once
  to an engine that took over a minute for its first such step (compiling kernels, most likely). It is not modelled; the same
  rows of March 2026 are 5 to 49 % off. Not explained: gpt-oss on 512 slots. InferenceMAX's rows state a degree twice where
  experts are parallel (tp_size 64 on a node of 8 GPUs); they are read as one degree.
- 8-bit checkpoints keep the LM head in 16 bits; Meta's of Llama-3.1-405B its attention, too.
- ML.ENERGY's answers spread as its published histograms say (cv 0.5 to 1.0). Its prompt lengths are not published: 210
  tokens (1,500 for code completion), what its KV cache holds per request where it limits the batch less what a request has
  generated by then; rows scored here among them. At 512 and more of its 1,024 requests no steady state is left, which we
  simulate none the less: the 70B's times there are 10 to 30 % high.
- ML.ENERGY's benchmark of 2024 (mlenergy-2024, vLLM 0.5.4) is the host's more than the GPU's: 2,000 to 2,600 tokens/s on one H100
  whatever the model up to 9B. The engine's times (engine/framework.cc, vllm-v0) were chosen on its four models below 4B, and
  on its code models for several GPUs; all other models judge them, and every row judges power, on which nothing was
  fitted. H100s that wait draw less than ours (what is left is one-sided there). Power is a request's energy times requests a
  second; prompt lengths are not published (210 and 130 tokens taken). Runs that are mostly start and end are not scored.
- What is left of ML.ENERGY's power is mostly the chip: NVIDIA-Nemotron-Nano-9B at 8 requests draws 467 W in one of its tasks
  and 402 in another, gemma-3-12b at 128 589 and 686. Of the two models fitted, ours is 5 % low for one and 9 % high for
  the other (four chips); it is 7 % high for the 4 x H100 node.
- The H100's fit cross-validated (`wattle fit --gpu h100 --folds 4`), fit and left out: sweep power 5.3 and 5.0 %, TPOT p99 7.6
  and 8.0, TTFT p99 13.2 and 14.2; ML.ENERGY's 19 rows power 7.3 and 10.8, ITL 4.7 and 6.8, J/token 7.3 and 12.5; kernels
  within 0.4 points of each other. So the fit leans on those two models' level, not on single rows of the rest.
- On B200 a quarter of ML.ENERGY's runs are the host's: they draw less than nine tenths of what the same model on as many
  GPUs draws with no larger a batch (the rule; *waiting for the host*), and are slow: Qwen3-14B's 8 requests take 34 ms a
  token in one task and 7 in another, Llama-3.1-8B's 128 make fewer tokens per second than its 64. Model, batch and step
  cannot say which: the same ones do both. What can is the harness: on one B200 the reasoning task's (gpqa's) steps take 21
  ms longer than chat's, by three models that are not dense or not known here (Qwen3-30B-A3B 25, Nemotron-Nano-12B 23 and
  9B 14 ms; not so gpt-oss, nor eight GPUs, nor an H100), so the client's host takes 21 ms a step in those runs. That it
  is this task on one GPU shows in Qwen3-14B's rows, too, which it is judged by; the number is not theirs. Llama-3.1-8B's
  from 128 up stay unexplained. All are scored, and count in *B200 dense: power*, but neither power nor time is fitted on runs
  that waited (with them in the fit of time, the B200 sampled a token in half as much time again as an H100 does, and then
  drew nothing for it). Its layers' small kernels take the H100's time: left to those dozen rows they took twice that, and the
  end-to-end samples' time per token went from 15 to 30 % off on the fitted half (TensorRT-LLM; with an earlier fit). The energy of
  a byte stays the H100's scaled by TDP and bandwidth (34 pJ). Serving rows weigh as much as all kernels'. By model left out:
  `wattle fit --gpu b200 --by-model`; power 8.1 % in the mean, 6.7 in the median, p90 15.0 (Llama-3.1-8B 10 % high, 405B 10
  low), time per token 12.0, 10.2 and 25.7 (the shipped H100 profile, fitted on two of its models, has 8.0 on the power of the
  rest). What of a B200's power follows the clock no row says; the H100's share is taken.
- Prompts short enough to wait for the CPU's kernel launches (vLLM runs them without a CUDA graph) draw less: in the table of
  prefill power 0.3 ms a layer, of 0.2, 0.3 and 0.4 what suits its fitted rows best; nowhere else.
- Arrivals of the H100 sweep are taken as Poisson and its token budget per step as 768, which of 512, 768, 1,024 and 2,048
  suits its fitted rows best. A p99 over a few hundred requests is noisy on both sides.
- Kernel tables give no clock. Where they give power (H200, B200) our clock falls at TDP as the card's does; those without
  power (H100, A100) are taken at the top clock, because they are faster than TDP allows with the power that serving
  shows: their operands draw less.
- Decode attention reads KV with one thread block per request and KV head, the blocks' own time and the reading overlapping
  (their 2-norm: a batch takes as long at 64 tokens as at 8); with few of them the last wave idles SMs. On
  A100 that costs up to two thirds of its time at small batches and nothing at 512; the split heuristic is not modelled.
- Block-scaled 8-bit products below 0.5 ms are left out (the readings are launches), and kernel power below 0.05 ms (the
  meter reads low), attention's below 0.2 ms: there a decode kernel and the same with twice the context read 25 % apart in
  the median, 60 % in one of ten (H200; B200 20 and 50), products as long 1 %. Above, still 12 to 17 %. Nor does a product's
  reading count that is below seven tenths of another's which moved and computed no more each second: of B200's streaming
  products half are so, in whole shapes (1.07 GB at 6.9 TB/s 985 W, 2.1 GB at 6.3 TB/s 508), and no kernel can be both.
- VoltanaLLM: engines, lengths' limit and the window of energy as its published scripts set them, in the fit as in `wattle
  reproduce`; clocks are the figure's 1005 and 1410 MHz, whatever a model's own optimum is. SGLang's CPU works while the GPU
  does, and the longer counts: 12 ms a step, 5 ms a prompt and 25 us a decoding request for both models (framework sglang-pd).
  Step and request together are what 512 requests of an 8B model on eight H200 show; how they divide, and the prompt's time,
  were chosen with both panels in view. Without any of what a hand set the 3B's saving is off by 17.8 points in the mean (worst
  22.0), with it by 3.9 (8.0); the 8B's by 3.5 (7.2) and 2.0 (4.2) (every third rate, one draw). The mean passes of the decode
  engine's loop before a client's first token (4, exponential), the pace of SGLang's decode attention, 6 us of the GPU's time
  per request and EcoFreq's margin (a quarter, as the published demo has it) were chosen on the 8B's points. So all rows of
  these two models count as fitted; any other panel in the folder does not. *left_out* (`wattle reproduce voltanallm --section
  left-out`): each model with those constants chosen by a rule on the other's points alone, the worse of the two. The 8B's
  points do not tell the CPU's time of a step: the rule follows chance, and the 3B's saving is off by 8.7 points (worst 11.4; 15.1 and
  18.7 with all of them neutral; by 5 to 15 with other fits of the same profiles). With the 12 ms and 25 us that both panels show
  it is 3.9 (7.6). EcoPred's published form, lines alone, is 2.7 ms off on the 3B's steps
  (published 2.2, not chosen on); a line that the CPU sets is off by nothing, which is what recipes but voltanallm-published
  believe. Other SGLang rows bound the step only from above, and lower: their shortest time per token is 7.8 ms (Qwen3-32B on
  eight H100, 16 requests), so 12 ms is no constant of SGLang but of these servers, which no other row shows. `--section
  constants` (48 s of CPU) has every constant that a hand set at half, twice and nothing. At half and at twice its value the
  saving is off in the mean, 8B and 3B, by 1.7 and 14.2, 1.7 and 5.7 points (step), 2.1 and 4.1, 1.7 and 3.8 (prompt), 1.9 and
  9.4, 2.1 and 4.7 (request), 1.9 and 4.0, 1.8 and 4.1 (passes), 3.1 and 9.5, 4.1 and 6.3 (margin).
- A100: no clock sweep is published. Its voltage floor is kept where VoltanaLLM finds the optimum of both phases; the two
  optimum rows are therefore no test of the model. A byte's energy is kept, too: the H100's, scaled by TDP and bandwidth, as
  the B200's is (53 pJ; a dozen rows do not tell it from a busy unit's). How time and power follow the clock is fitted on VoltanaLLM's runs, on the clock
  at which a prefill meets the TDP (near 1305 MHz, its figure 2), and on the energy of throttLL'eM's batch of 32 at 1050 and 1410
  MHz (section III, a DGX A100 of unstated memory: taken as the same chip). That batch is run with the CPU times of
  throttLL'eM's engines (0.8 ms a step and 0.3 a request, chosen by its lone token and its Table II): a GPU that waits 10 ms of 27 draws
  flatter power than one that does not. Without them the flatness went into the card's power: EnergyLLM's was 8.7 % off, all on
  one side, and the batch took 13 % longer at 1050 MHz (published 5, with them 8; never fitted). Below 1005 MHz no row of it
  exists but one, and that one ours misses by far; its text contradicts itself (32 times the batch at seven times the clock is
  said to triple tokens per second). GH200 has no measurement at all.
- What EnergyLLM's rows had shown was known when these conditions were found; none of them is fitted. What is left (5.5 %, all
  on one side) is most likely the dilution of a sampler that we do not know: its watts are two thirds of ours at each clock.
- Zeus's training jobs (BERT on an A40) show what a power limit costs: time against the highest limit. How busy a job keeps the
  GPU is the job's: ours keeps its units so busy that it draws what the row's job drew at the highest limit (181 to 277 of 300
  W); our prompts would draw half as much again as there is, and be 56 % off. What of a running kernel's power follows the clock
  (0.53) and where the voltage stops falling (0.83 of 1,740 MHz) is fitted on one job's rows (sentiment140) and judged by the
  other's (SQuAD), with the A100's values (0 and 0.71) they would be some 24 % off. All rows had been looked at before.
- The knee of memory-bound time scales with the memory's bandwidth between cards of one die (A100-80G to 40G, H100 to H200 and
  GH200): at the same clock a byte takes as long through the same L2, over another time from memory. Of the H200, B200 and
  GH200 there is no row below the top clock; what is simulated there is flagged as extrapolated.
- EnergyLLM's A100-40G rows are a regression's answers at its profiled clocks; its answers' lengths are not recorded, ShareGPT's
  are taken, and one second of idling dilutes the power as its sampler's window does. Never fitted: ratios to the top clock.
- Splitwise's and DistServe's tables were taken on the software of 2023: 16 ms of CPU time per step, which is what DistServe's
  tensor-parallel decodes of 16 requests lie above ours in the median (these count as fitted). Splitwise's time per token, never
  fitted, is then off by 13 % on A100 (37 without) and 12 % on H100, its power (of A100 alone) by 6 % in the median (24). Its
  prompts of 8,192 tokens draw a quarter to a third of what shorter ones do there; those rows make its mean. DistServe's prompts take a third longer than ours at
  any length: products of that software ran slower, too.
- FREESH's workers with four H100 are taken as PCIe cards with NVLink bridges: none draws more than 350 W a card, nor makes a token
  in less than 29 ms, where four with HBM3 draw twice as much and take 18. Its release names neither; this is read off the rows
  that judge it (power 27 to 11 % off). Its A100 workers of eight are 6 to 29 % below ours in power.
- DynamoLLM: prompts at the class borders, answers of 69, 350 and 427 tokens (short and long: means of their class in the
  public Conversation trace; chosen with the tables in view), 16 ms of CPU time per step (from DistServe's decode fits), p99
  of TTFT and of a request's mean time per token over 30 s. Its energy is read as what the instance draws while one request
  runs (power x mean latency): in size its Wh are a third below that, and 2 to 25 times a request's share (power
  / rate). FREESH: prompts as long as LMSYS-Chat-1M's on that side of its class border; its H100s, 243 to 327 W each at their
  ratings, are taken for the card of 350 W (read off the power rows, which count as seen; no factor is fitted on them).
- throttLL'eM's KV blocks: TensorRT-LLM engines reserve buffers for their build's largest batch; ours do not.
- *whole-runs* and *table-II* are the evaluations of `wattle reproduce`, which says how each was run.
- Memory-bound time has a knee: a byte passes the memory at its own clock and L2 at the core's, and the slower decides. The
  H100 sweep shows it (time per token ~ 1/clock from 780 to 1080 MHz, nearly flat above 1380); how sharply it turns (a
  p-norm of 8, one constant for every GPU) was chosen on the sweep's fitted rows.
- The sweep's exponents hold at an eighth of each clock's highest rate and its optima at the highest rate that meets 0.5 s
  and 50 ms: at those its own rows give them (-0.56, -0.42; 1080, 1380, 1380 MHz), at equal rates they do not.
- Jetson: an edge board's decode against our A100 at the same share of the top clock; a shape, no more. Its memory is slower for
  its cores (10 bytes a clock and SM for 13), so it needs fewer of their clocks, and all errors are on one side.
- The 8 x H100 idle at 880 W is unlocked, ours at the top clock is of clocks locked there, which is no such condition: parked at
  the lowest clock ours draw 658 W, and what an unlocked idle card's clock is no row says.
- The 4 x H100 node includes two CPU sockets: what its idle 700 W leave beside four parked GPUs is added to ours.
- Not compared: LLMServingSim's attention and consumer cards, and the 4 x H100 node's runs with other lengths.
)";

}  // namespace

namespace {

/// What no target looks at, and where that is far off.
std::string beside_targets(const Scores& scores) {
  constexpr double kFarOff = 0.25;
  std::size_t all = 0;
  std::size_t beside = 0;
  std::vector<std::string> far;
  for (const ScoredSet& s : scores.sets) {
    if (s.fitted) continue;
    all += s.rows;
    if (std::ranges::any_of(rules(), [&](const TargetRule& r) { return judges(r, s.set, s.quantity); })) continue;
    beside += s.rows;
    if (s.mape > kFarOff) far.push_back(fmt::format("{} {} {}", s.set, s.quantity, percent(s.mape)));
  }
  std::string text = fmt::format("\nOf {} rows never fitted {} are in no target.", all, beside);
  if (!far.empty()) text += fmt::format(" Of those more than 25 % off in the mean: {}.", fmt::join(far, "; "));
  return text + "\n";
}

}  // namespace

std::vector<Target> targets(const Scores& scores) {
  std::vector<Target> all;
  for (const TargetRule& rule : rules()) {
    std::vector<double> errors;
    for (const ScoredRow& row : scores.rows) {
      if (!row.fitted && judges(rule, row.set, row.quantity)) errors.push_back(std::abs(row.error));
    }
    if (errors.empty()) continue;
    double mean = 0.0;
    for (const double e : errors) mean += e / static_cast<double>(errors.size());
    all.push_back({rule.name, fmt::format("{} <= {:.0f} %", rule.median ? "median" : "MAPE", 100 * rule.limit),
                   rule.limit, rule.median ? quantile(errors, 0.5) : mean, errors.size(), mean, quantile(errors, 0.9)});
  }
  return all;
}

std::vector<const ScoredRow*> worst(const Scores& scores, std::size_t count, std::size_t per_set) {
  std::vector<const ScoredRow*> rows;
  for (const ScoredRow& row : scores.rows) rows.push_back(&row);
  std::ranges::stable_sort(rows, [](const ScoredRow* a, const ScoredRow* b) {
    return std::abs(std::log(std::max(1e-9, 1.0 + a->error))) > std::abs(std::log(std::max(1e-9, 1.0 + b->error)));
  });
  std::map<std::string, std::size_t> taken;
  std::vector<const ScoredRow*> chosen;
  for (const ScoredRow* row : rows) {
    if (chosen.size() >= count) break;
    if (taken[row->set]++ < per_set) chosen.push_back(row);
  }
  return chosen;
}

std::string to_markdown(const Scores& scores, const std::vector<std::string>& absent,
                        const std::vector<RunTarget>& of_runs) {
  std::string text = "# Validation\n\nWritten by `wattle validate --out docs/validation.md`; do not edit.\n\n";
  text += kHow;
  text +=
      "\n## Targets, on rows never fitted\n\n| figure | target | reached | mean | p90 | rows | |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const Target& m : targets(scores)) {
    text +=
        fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", m.name, m.target, percent(m.value), percent(m.mean),
                    percent(m.p90), m.rows, m.met() ? "met" : fmt::format("missed by {}", percent(m.value - m.limit)));
  }
  text += beside_targets(scores);
  if (!of_runs.empty())
    text += "\nOf whole runs through the simulator:\n\n| figure | target | reached | |\n|---|---|---|---|\n";
  for (const RunTarget& m : of_runs) {
    text += fmt::format("| {} | {} | {:.1f} | {} |\n", m.name, m.target, m.value, m.met ? "met" : "missed");
  }
  text +=
      "\n## Every set\n\n| set | quantity | | rows | outside | MAPE | median | p90 | bias | MFU law | three constants "
      "|\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const ScoredSet& s : scores.sets) {
    text +=
        fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", s.set, s.quantity,
                    s.fitted ? "fitted" : "never fitted", s.rows, s.extrapolated, percent(s.mape), percent(s.median),
                    percent(s.p90), percent(s.bias), percent(s.mfu_power_law), percent(s.three_constants));
  }
  if (!scores.infeasible.empty()) {
    text += fmt::format("\nOf {} measured values our model has none: {}.\n", scores.infeasible.size(),
                        fmt::join(scores.infeasible, "; "));
  }
  if (!absent.empty()) {
    text +=
        fmt::format("\nSets not found, and rows of a set that are not scored:\n\n- {}\n", fmt::join(absent, "\n- "));
  }
  text += "\n## Worst rows\n\n| set | row | quantity | measured | ours | error |\n|---|---|---|---|---|---|\n";
  for (const ScoredRow* row : worst(scores, 25, 2)) {
    text += fmt::format("| {} | {} | {} | {:.4g} | {:.4g} | {:+.0f} % |\n", row->set, row->row, row->quantity,
                        row->measured, row->simulated, 100.0 * row->error);
  }
  return text + "\n" + kWhy;
}

std::string to_csv(const Scores& scores) {
  std::string text = "set,row,gpu,quantity,fitted,extrapolated,measured,simulated,error\n";
  for (const ScoredRow& r : scores.rows) {
    text += fmt::format("{},\"{}\",{},{},{},{},{:.6g},{:.6g},{:.4f}\n", r.set, r.row, r.gpu, r.quantity, int{r.fitted},
                        int{r.extrapolated}, r.measured, r.simulated, r.error);
  }
  return text;
}

std::string to_html(const Scores& scores) {
  constexpr double kSize = 260.0;
  constexpr double kEdge = 24.0;
  std::map<std::pair<std::string, std::string>, std::vector<const ScoredRow*>> groups;
  for (const ScoredRow& row : scores.rows) {
    if (row.measured > 0.0 && row.simulated > 0.0) groups[{row.set, row.quantity}].push_back(&row);
  }
  std::string text =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Wattle validation</title><style>"
      "body{font:14px system-ui,sans-serif;margin:2em;color:#222}figure{display:inline-block;margin:0 1em 1em 0}"
      "figcaption{font-size:12px;max-width:260px}circle{fill:#c2542d;fill-opacity:.55}circle.f{fill:#2d6cc2;"
      "fill-opacity:.35}line{stroke:#999}rect{fill:none;stroke:#ccc}</style><h1>Simulated against measured</h1>"
      "<p>Both axes logarithmic and equal; the line is equality. Orange: rows never fitted. Blue: fitted.</p>";
  for (const auto& [key, rows] : groups) {
    double low = 1e300;
    double high = 0.0;
    for (const ScoredRow* row : rows) {
      low = std::min({low, row->measured, row->simulated});
      high = std::max({high, row->measured, row->simulated});
    }
    const double span = std::max(1e-6, std::log(high / low));
    const auto at = [&](double v) { return kEdge + (kSize - 2 * kEdge) * std::log(v / low) / span; };
    text += fmt::format(
        "<figure><svg width=\"{0}\" height=\"{0}\"><rect x=\"{1}\" y=\"{1}\" width=\"{2}\" "
        "height=\"{2}\"/><line x1=\"{1}\" y1=\"{3}\" x2=\"{3}\" y2=\"{1}\"/>",
        kSize, kEdge, kSize - 2 * kEdge, kSize - kEdge);
    const std::size_t step = std::max<std::size_t>(1, rows.size() / 300);
    for (std::size_t i = 0; i < rows.size(); i += step) {
      text += fmt::format("<circle{} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>", rows[i]->fitted ? " class=\"f\"" : "",
                          at(rows[i]->measured), kSize - at(rows[i]->simulated));
    }
    text += fmt::format("</svg><figcaption>{}<br>{}: {:.3g} to {:.3g}, {} rows</figcaption></figure>", key.first,
                        key.second, low, high, rows.size());
  }
  return text + "</html>\n";
}

}  // namespace wattle::fidelity
