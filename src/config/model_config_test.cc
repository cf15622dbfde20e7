// The shipped specs, read once more from what their models' config.json says.
#include "config/model_config.h"

#include <gtest/gtest.h>

#include "config/checkpoint_formats.h"
#include "config/load.h"
#include "config/locate.h"
#include "config/reference.h"

namespace wattle::config {
namespace {

struct Case {
  const char* name;  ///< of the shipped spec
  const char* json;
};

const Case kCases[] = {
    {"llama-3.1-8b",
     R"({"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,"num_hidden_layers":32,
         "num_key_value_heads":8,"vocab_size":128256,"tie_word_embeddings":false,"torch_dtype":"bfloat16"})"},
    {"llama-3.2-1b",
     R"({"model_type":"llama","hidden_size":2048,"intermediate_size":8192,"num_attention_heads":32,"num_hidden_layers":16,
         "num_key_value_heads":8,"head_dim":64,"vocab_size":128256,"tie_word_embeddings":true})"},
    {"qwen2.5-7b",
     R"({"model_type":"qwen2","hidden_size":3584,"intermediate_size":18944,"num_attention_heads":28,"num_hidden_layers":28,
         "num_key_value_heads":4,"vocab_size":152064,"tie_word_embeddings":false,"sliding_window":131072,
         "use_sliding_window":false,"max_window_layers":28})"},
    {"qwen3-235b-a22b",
     R"({"model_type":"qwen3_moe","hidden_size":4096,"intermediate_size":12288,"num_attention_heads":64,"num_hidden_layers":94,
         "num_key_value_heads":4,"head_dim":128,"vocab_size":151936,"num_experts":128,"num_experts_per_tok":8,
         "moe_intermediate_size":1536,"decoder_sparse_step":1,"mlp_only_layers":[],"tie_word_embeddings":false,
         "sliding_window":null})"},
    {"deepseek-v3",
     R"({"model_type":"deepseek_v3","hidden_size":7168,"intermediate_size":18432,"num_attention_heads":128,
         "num_key_value_heads":128,"num_hidden_layers":61,"vocab_size":129280,"n_routed_experts":256,"n_shared_experts":1,
         "num_experts_per_tok":8,"moe_intermediate_size":2048,"first_k_dense_replace":3,"q_lora_rank":1536,
         "kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"tie_word_embeddings":false,
         "quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}})"},
    {"gpt-oss-20b",
     R"({"model_type":"gpt_oss","hidden_size":2880,"intermediate_size":2880,"num_attention_heads":64,"num_hidden_layers":24,
         "num_key_value_heads":8,"head_dim":64,"vocab_size":201088,"num_local_experts":32,"num_experts_per_tok":4,
         "sliding_window":128,"tie_word_embeddings":false,
         "quantization_config":{"quant_method":"mxfp4","modules_to_not_convert":["model.layers.*.self_attn","lm_head"]}})"},
    {"gemma-2-9b",
     R"({"model_type":"gemma2","hidden_size":3584,"intermediate_size":14336,"num_attention_heads":16,"num_hidden_layers":42,
         "num_key_value_heads":8,"head_dim":256,"vocab_size":256000,"sliding_window":4096})"},
    {"gemma-3-27b",
     R"({"model_type":"gemma3","text_config":{"model_type":"gemma3_text","hidden_size":5376,"intermediate_size":21504,
         "num_attention_heads":32,"num_hidden_layers":62,"num_key_value_heads":16,"head_dim":128,"sliding_window":1024,
         "vocab_size":262208},"vision_config":{"hidden_size":1152,"num_hidden_layers":27}})"},
    {"mixtral-8x7b",
     R"({"model_type":"mixtral","hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,"num_hidden_layers":32,
         "num_key_value_heads":8,"vocab_size":32000,"num_local_experts":8,"num_experts_per_tok":2,"sliding_window":null,
         "tie_word_embeddings":false})"},
    {"opt-13b",
     R"({"model_type":"opt","hidden_size":5120,"ffn_dim":20480,"num_attention_heads":40,"num_hidden_layers":40,
         "vocab_size":50272})"},
    {"bloom-176b",
     R"({"model_type":"bloom","n_embed":14336,"hidden_size":14336,"n_head":112,"n_layer":70,"vocab_size":250880})"},
    {"llama-4-scout",
     R"({"model_type":"llama4","text_config":{"model_type":"llama4_text","hidden_size":5120,"intermediate_size":8192,
         "intermediate_size_mlp":16384,"num_attention_heads":40,"num_hidden_layers":48,"num_key_value_heads":8,"head_dim":128,
         "vocab_size":202048,"num_local_experts":16,"num_experts_per_tok":1,"interleave_moe_layer_step":1,
         "tie_word_embeddings":false}})"},
};

TEST(ModelConfig, SaysWhatTheShippedSpecsSay) {
  for (const auto& [name, json] : kCases) {
    const auto shipped = load_llm(project().find(Project::Kind::Llm, name, "test").value());
    ASSERT_TRUE(shipped) << name;
    const auto read = llm_from_text(json, std::string("somewhere/") + name + "/config.json");
    ASSERT_TRUE(read) << name << ": " << read.error().message();
    EXPECT_EQ(read->name, name);
    EXPECT_EQ(read->parameters(), shipped->parameters()) << name;
    EXPECT_EQ(read->active_parameters(), shipped->active_parameters()) << name;
    EXPECT_EQ(read->weight_bytes(), shipped->weight_bytes()) << name;
    EXPECT_EQ(read->kv_heads, shipped->kv_heads) << name;
    EXPECT_EQ(read->head_dim, shipped->head_dim) << name;
    EXPECT_EQ(read->sliding_window, shipped->sliding_window) << name;
    EXPECT_EQ(read->windowed_layers, shipped->windowed_layers) << name;
  }
}

struct Published {
  const char* name;
  double billions;
  double kv_bytes;  ///< of a token, without windows
  const char* json;
};
// Names of keys and nestings that no shipped spec's config has; counts as published.
const Published kPublished[] = {
    {"dbrx", 131.6, 163840,
     R"({"model_type":"dbrx","d_model":6144,"n_heads":48,"n_layers":40,"vocab_size":100352,"tie_word_embeddings":false,
         "attn_config":{"kv_n_heads":8,"clip_qkv":8},"ffn_config":{"ffn_hidden_size":10752,"moe_num_experts":16,
         "moe_top_k":4,"moe_normalize_expert_weights":1}})"},
    {"qwen3-omni-30b-a3b", 30.5, 98304,
     R"({"model_type":"qwen3_omni_moe","thinker_config":{"audio_config":{},"text_config":{"hidden_size":2048,
         "intermediate_size":768,"moe_intermediate_size":768,"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,
         "num_hidden_layers":48,"vocab_size":152064,"num_experts":128,"num_experts_per_tok":8,"decoder_sparse_step":1,
         "tie_word_embeddings":false}}})"},
    {"internvl3-8b", 7.61, 57344,
     R"({"model_type":"internvl_chat","llm_config":{"model_type":"qwen2","hidden_size":3584,"intermediate_size":18944,
         "num_attention_heads":28,"num_key_value_heads":4,"num_hidden_layers":28,"vocab_size":151674,
         "tie_word_embeddings":false},"vision_config":{"hidden_size":1024,"num_hidden_layers":24},"hidden_size":3584})"},
    {"glm-4-9b", 9.40, 40960,
     R"({"model_type":"chatglm","hidden_size":4096,"ffn_hidden_size":13696,"kv_channels":128,"multi_query_attention":true,
         "multi_query_group_num":2,"num_attention_heads":32,"num_layers":40,"padded_vocab_size":151552,
         "tie_word_embeddings":false})"},
    {"qwen-7b", 7.72, 524288,
     R"({"model_type":"qwen","hidden_size":4096,"intermediate_size":22016,"kv_channels":128,"num_attention_heads":32,
         "num_hidden_layers":32,"vocab_size":151936,"tie_word_embeddings":false})"},
    {"hunyuan-a13b", 80.4, 131072,
     R"({"model_type":"hunyuan_v1_moe","hidden_size":4096,"intermediate_size":3072,"moe_intermediate_size":[3072,3072],
         "moe_topk":[8,8],"num_shared_expert":[1,1],"num_experts":64,"attention_head_dim":128,"num_attention_heads":32,
         "num_key_value_heads":8,"num_hidden_layers":32,"vocab_size":128167,"tie_word_embeddings":true})"},
    {"apertus-8b", 8.05, 131072,
     R"({"model_type":"apertus","hidden_size":4096,"intermediate_size":21504,"num_attention_heads":32,
         "num_key_value_heads":8,"num_hidden_layers":32,"vocab_size":131072,"hidden_act":"xielu",
         "tie_word_embeddings":false})"},
    {"granite-4.0-micro", 3.40, 81920,
     R"({"model_type":"granitemoehybrid","hidden_size":2560,"intermediate_size":8192,"shared_intermediate_size":8192,
         "num_attention_heads":40,"num_key_value_heads":8,"num_hidden_layers":40,"vocab_size":100352,
         "tie_word_embeddings":true,"num_local_experts":0,"num_experts_per_tok":0,"mamba_d_state":256,
         "layer_types":["attention","attention"]})"},
    {"smollm3-3b", 3.08, 73728,
     R"({"model_type":"smollm3","hidden_size":2048,"intermediate_size":11008,"num_attention_heads":16,
         "num_key_value_heads":4,"num_hidden_layers":36,"vocab_size":128256,"layer_types":["full_attention"]})"},
    {"minicpm3-4b", 4.07, 35712,
     R"({"model_type":"minicpm3","hidden_size":2560,"intermediate_size":6400,"num_attention_heads":40,
         "num_key_value_heads":40,"num_hidden_layers":62,"vocab_size":73448,"q_lora_rank":768,"kv_lora_rank":256,
         "qk_nope_head_dim":64,"qk_rope_head_dim":32})"},
    {"gemma-3-4b", 3.88, 139264,  // heads and vocabulary are left to the model's class
     R"({"model_type":"gemma3","text_config":{"hidden_size":2560,"intermediate_size":10240,"model_type":"gemma3_text",
         "num_hidden_layers":34},"vision_config":{"hidden_size":1152,"num_hidden_layers":27}})"},
    {"gemma-3-12b", 11.77, 393216,  // so is the width of heads, which is no hidden_size over heads
     R"({"model_type":"gemma3","text_config":{"hidden_size":3840,"intermediate_size":15360,"model_type":"gemma3_text",
         "num_attention_heads":16,"num_hidden_layers":48,"num_key_value_heads":8}})"},
    {"pixtral-12b", 12.25, 163840,
     R"({"model_type":"llava","text_config":{"model_type":"mistral","hidden_size":5120,"intermediate_size":14336,
         "head_dim":128,"num_key_value_heads":8,"num_hidden_layers":40,"vocab_size":131072,"sliding_window":null},
         "vision_config":{"model_type":"pixtral"}})"},
    {"ernie-4.5-0.3b", 0.361, 18432,
     R"({"model_type":"ernie4_5","hidden_size":1024,"intermediate_size":3072,"num_attention_heads":16,
         "num_key_value_heads":2,"head_dim":128,"num_hidden_layers":18,"vocab_size":103424,"hidden_act":"silu"})"},
    {"minicpm-2b", 2.72, 368640,
     R"({"model_type":"minicpm","hidden_size":2304,"intermediate_size":5760,"num_attention_heads":36,
         "num_key_value_heads":36,"num_hidden_layers":40,"vocab_size":122753,"hidden_act":"silu"})"},
    {"gpt-neo-2.7b", 2.65, 327680,
     R"({"model_type":"gpt_neo","hidden_size":2560,"intermediate_size":null,"num_heads":20,"num_layers":32,
         "vocab_size":50257,"activation_function":"gelu_new"})"},
    {"molmo-7b-d", 7.61, 57344,
     R"({"model_type":"molmo","hidden_size":3584,"intermediate_size":37888,"num_attention_heads":28,
         "num_key_value_heads":4,"num_hidden_layers":28,"vocab_size":152064,"tie_word_embeddings":false})"},
    {"bitnet-2b", 2.41, 76800,  // gated, with an activation that others have in plain FFNs
     R"({"model_type":"bitnet","hidden_size":2560,"intermediate_size":6912,"num_attention_heads":20,
         "num_key_value_heads":5,"num_hidden_layers":30,"vocab_size":128256,"hidden_act":"relu2",
         "tie_word_embeddings":true})"},
    {"prosparse-llama-2-7b", 6.74, 524288,
     R"({"model_type":"llama","hidden_size":4096,"intermediate_size":11008,"num_attention_heads":32,
         "num_hidden_layers":32,"vocab_size":32000,"hidden_act":"relu"})"},
    {"afm-4.5b", 4.62, 73728,
     R"({"model_type":"arcee","hidden_size":2560,"intermediate_size":18432,"num_attention_heads":20,
         "num_key_value_heads":4,"head_dim":128,"num_hidden_layers":36,"vocab_size":128004,"hidden_act":"relu2",
         "tie_word_embeddings":false})"},
    {"bloom-7b1", 7.07, 491520,
     R"({"model_type":"bloom","n_embed":4096,"num_attention_heads":32,"n_layer":30,"vocab_size":250880})"},
    {"a model of MPT's class", 3.46, 16384,
     R"({"model_type":"mpt","d_model":4096,"expansion_ratio":2,"n_heads":32,"n_layers":32,"vocab_size":50432,
         "attn_config":{"attn_type":"multiquery_attention"}})"},
    {"trinity-mini", 26.1, 65536,  // two layers without experts
     R"({"model_type":"afmoe","hidden_size":2048,"intermediate_size":6144,"num_attention_heads":32,
         "num_key_value_heads":4,"head_dim":128,"num_hidden_layers":32,"vocab_size":200192,"num_experts":128,
         "num_experts_per_tok":8,"num_shared_experts":1,"moe_intermediate_size":1024,"num_dense_layers":2,
         "sliding_window":2048,"global_attn_every_n_layers":4,"tie_word_embeddings":false})"},
    {"grok-2", 269.5, 262144,
     R"({"hidden_size":8192,"intermediate_size":32768,"moe_intermediate_size":16384,"num_attention_heads":64,
         "num_key_value_heads":8,"head_dim":128,"num_hidden_layers":64,"vocab_size":131072,"num_local_experts":8,
         "num_experts_per_tok":2,"residual_moe":true,"tie_word_embeddings":false})"},
};

TEST(ModelConfig, ModelsThatAreNotShippedHaveTheirPublishedSize) {
  for (const auto& [name, billions, kv_bytes, json] : kPublished) {
    const auto read = llm_from_text(json, std::string(name) + "/config.json");
    ASSERT_TRUE(read) << name << ": " << read.error().message();
    EXPECT_NEAR(read->parameters() / 1e9, billions, 0.01 * billions) << name;
    EXPECT_EQ(read->kv_bytes_per_token(), kv_bytes) << name;
  }
}

std::string refused(const std::string& json) {
  const auto read = llm_from_text(json, "m/config.json");
  return read ? "accepted" : read.error().message();
}

TEST(ModelConfig, NamesWhatIsMissingOrNotModelled) {
  const std::string begins =
      R"({"model_type":"llama","hidden_size":4096,"num_attention_heads":32,"num_hidden_layers":2,"vocab_size":32000)";
  EXPECT_NE(refused("{\"model_type\":\"llama\"}").find("m/config.json: num_hidden_layers is missing"),
            std::string::npos)
      << refused("{\"model_type\":\"llama\"}");
  EXPECT_NE(refused(begins + "}").find("intermediate_size"), std::string::npos);
  const std::string whole = begins + R"(,"intermediate_size":11008)";
  EXPECT_EQ(refused(whole + "}"), "accepted");
  EXPECT_NE(refused(whole + R"(,"layer_types":["linear_attention","full_attention"]})").find("linear_attention"),
            std::string::npos);
  for (const char* hybrid :
       {R"("mamba_d_state":16)", R"("attn_layer_period":8)", R"("hybrid_override_pattern":"M-M*")",
        R"("full_attention_interval":4)", R"("linear_attn_config":{})", R"("attn_type_list":[1,0])"}) {
    EXPECT_NE(refused(whole + "," + hybrid + "}").find("layers without attention"), std::string::npos) << hybrid;
  }
  for (const char* other : {R"("layer_group_size":8)",
                            R"("state_size":16)",
                            R"("attention_hidden_size":2560)",
                            R"("block_configs":[{}])",
                            R"("num_key_value_heads_per_layer":[4,4])",
                            R"("hybrid_layer_pattern":[0,1])",
                            R"("cross_attention_layers":[3])",
                            R"("hidden_size_per_layer_input":256)",
                            R"("parallel_attn_mlp_res":true)",
                            R"("is_encoder_decoder":true)",
                            R"("num_key_value_heads":[4,8])",
                            R"("type_vocab_size":1)",
                            R"("architectures":["MPNetForMaskedLM"])",
                            R"("use_cla":true)",
                            R"("num_kv_shared_layers":15)",
                            R"("global_head_dim":512)",
                            R"("hybrid_block_layout":["t","m2"])",
                            R"("decay_low_rank_dim":96)",
                            R"("word_embed_proj_dim":512)",
                            R"("num_experts":8,"num_experts_per_tok":2,"moe_layer_freq":2)",
                            R"("num_experts":8,"num_experts_per_tok":2,"zero_expert_num":256)",
                            R"("num_experts":8,"num_experts_per_tok":2,"shared_expert_intermediate_size":11009)"}) {
    EXPECT_NE(refused(whole + "," + other + "}").find("not modelled"), std::string::npos) << other;
  }
  for (const char* encoder : {"bert", "modernbert", "xlm-roberta", "clip_text_model"}) {
    const std::string json = R"({"model_type":")" + std::string(encoder) + whole.substr(begins.find("llama") + 5);
    EXPECT_NE(refused(json + "}").find("is of an encoder"), std::string::npos) << json << refused(json + "}");
  }
  const std::string unknown = R"({"model_type":"new")" + whole.substr(whole.find(','));
  for (const char* activation : {"gelu_new", "relu2"}) {
    const std::string json = unknown + R"(,"hidden_act":")" + activation + "\"}";
    EXPECT_NE(refused(json).find("whether the FFN is gated"), std::string::npos) << json << refused(json);
  }
  EXPECT_EQ(refused(whole + R"(,"hidden_act":"gelu_new"})"), "accepted") << "llama's is gated with any activation";
  EXPECT_NE(refused(R"({"model_type":"jetmoe")" + whole.substr(whole.find(',')) + "}").find("experts in attention"),
            std::string::npos);
  EXPECT_EQ(refused(whole + R"(,"time_step_limit":[-Infinity,Infinity],"note":"a \" Infinity","x":NaN})"), "accepted")
      << "as Python writes them";
  EXPECT_EQ(refused(whole + R"(,"hidden_act":"silu","num_kv_shared_layers":0,"moe_layer_freq":1})"), "accepted");
  EXPECT_NE(refused(R"({"hidden_size":4000,"num_attention_heads":96,"num_hidden_layers":2,"vocab_size":9,
                        "intermediate_size":10})")
                .find("head_dim is missing"),
            std::string::npos);
  EXPECT_EQ(refused(whole + R"(,"is_encoder_decoder":false,"layer_group_size":null})"), "accepted");
  EXPECT_EQ(refused(whole + R"(,"attn_type_list":[1,1]})"), "accepted");
  EXPECT_EQ(refused(whole + R"(,"full_attention_interval":4,"layer_types":["full_attention","full_attention"]})"),
            "accepted");
  EXPECT_NE(refused(whole + R"(,"num_selected_experts":2})").find("num_selected_experts is of experts"),
            std::string::npos);
  EXPECT_EQ(refused(whole + R"(,"num_experts":0,"num_experts_per_tok":2})"), "accepted");
  const auto ernie = llm_from_text(whole + R"(,"moe_num_experts":64,"moe_k":6,"moe_intermediate_size":1536,
        "moe_num_shared_experts":2,"moe_layer_start_index":1})",
                                   "m/config.json");
  ASSERT_TRUE(ernie) << ernie.error().message();
  EXPECT_EQ(ernie->experts, 64);
  EXPECT_EQ(ernie->experts_per_token, 6);
  EXPECT_EQ(ernie->shared_experts, 2);
  EXPECT_EQ(ernie->dense_layers, 1);
  const auto falcon = llm_from_text(
      R"({"model_type":"falcon","hidden_size":4544,"num_attention_heads":71,"num_kv_heads":71,"num_hidden_layers":32,
          "multi_query":true,"new_decoder_architecture":false,"vocab_size":65024})",
      "m/config.json");
  ASSERT_TRUE(falcon) << falcon.error().message();
  EXPECT_EQ(falcon->kv_heads, 1);
  EXPECT_NE(refused(whole + R"(,"quantization_config":{"quant_method":"bitsandbytes"}})").find("bitsandbytes"),
            std::string::npos);
  EXPECT_NE(refused(whole + R"(,"num_experts":8})").find("num_experts_per_tok"), std::string::npos);
  EXPECT_NE(refused(whole + R"(,"head_dim":"wide"})").find("head_dim"), std::string::npos);
  EXPECT_NE(refused(whole + R"(,"num_attention_heads":0})").find("num_attention_heads"), std::string::npos);
  EXPECT_NE(refused("{\"model_type\":").find("no JSON object"), std::string::npos);
}

TEST(ModelConfig, AWindowAsLongAsTheContextIsNone) {
  const auto windowed = [](const char* window) {
    const auto read = llm_from_text(
        std::string(R"({"model_type":"phi3","hidden_size":3072,"num_attention_heads":24,"num_hidden_layers":32,
            "vocab_size":200064,"intermediate_size":8192,"max_position_embeddings":131072,"sliding_window":)") +
            window + "}",
        "m/config.json");
    return read ? read->windowed_layers : -1;
  };
  EXPECT_EQ(windowed("262144"), 0);
  EXPECT_EQ(windowed("131072"), 0);
  EXPECT_EQ(windowed("2047"), 32);
}

/// A dense Llama with these keys, too.
Result<LlmSpec> llama_with(const std::string& more, int layers = 8) {
  return llm_from_text(R"({"model_type":"llama","hidden_size":4096,"num_attention_heads":32,"vocab_size":32000,
                           "intermediate_size":11008,"num_hidden_layers":)" +
                           std::to_string(layers) + "," + more + "}",
                       "m/config.json");
}

TEST(ModelConfig, NumberFormatsOfCheckpoints) {
  const auto format = [](const std::string& config) {
    const auto read = llama_with("\"quantization_config\":" + config);
    return read ? std::optional(read->dtype) : std::nullopt;
  };
  EXPECT_EQ(format(R"({"quant_method":"awq","bits":4})"), Dtype::Int4);
  EXPECT_EQ(format(R"({"quant_method":"modelopt","quant_algo":"NVFP4"})"), Dtype::Nvfp4);
  EXPECT_EQ(
      format(
          R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":8,"type":"float"}}}})"),
      Dtype::Fp8);
  EXPECT_EQ(
      format(
          R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":4,"type":"int"}}}})"),
      Dtype::Int4);
  const auto four_bit_floats = [&](const char* group_size) {
    return format(std::string(R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{)") +
                  R"("num_bits":4,"type":"float","group_size":)" + group_size + "}}}}");
  };
  EXPECT_EQ(four_bit_floats("16"), Dtype::Nvfp4);
  EXPECT_EQ(four_bit_floats("32"), Dtype::Mxfp4);
  EXPECT_EQ(format(R"({"quant_method":"gptq","bits":8})"), std::nullopt);
  const std::string eight = R"({"weights":{"num_bits":8,"type":"float"}})";
  const auto groups = [&](const std::string& second) {
    return format(R"({"quant_method":"compressed-tensors","config_groups":{"a":)" + eight + R"(,"b":)" + second + "}}");
  };
  EXPECT_EQ(groups(eight), Dtype::Fp8);
  const auto nested = llm_from_text(
      R"({"model_type":"new","text_config":{"model_type":"llama","hidden_size":4096,"num_attention_heads":32,
          "num_hidden_layers":2,"vocab_size":32000,"intermediate_size":11008,
          "quantization_config":{"quant_method":"awq","bits":4}}})",
      "m/config.json");
  ASSERT_TRUE(nested) << nested.error().message();
  EXPECT_EQ(nested->dtype, Dtype::Int4);
  EXPECT_EQ(groups(R"({"weights":{"num_bits":4,"type":"float","group_size":16}})"), std::nullopt);
}

TEST(ModelConfig, FormatsInAFileBesideIt) {
  const std::string shape =
      R"("hidden_size":4096,"num_attention_heads":32,"num_hidden_layers":2,"vocab_size":9,"intermediate_size":9)";
  const auto read = [&](const std::string& config, const std::string& formats) -> std::string {
    const auto whole = with_modelopt_formats("{" + shape + config + "}", formats, "m/hf_quant_config.json");
    if (!whole) return whole.error().message();
    const auto llm = llm_from_text(*whole, "m/config.json");
    return llm ? effective_text(*llm) : llm.error().message();
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const std::string nvfp4 = R"({"quantization":{"quant_algo":"NVFP4","exclude_modules":["lm_head"]}})";
  EXPECT_TRUE(has(read("", nvfp4), "\ndtype = \"nvfp4\""));
  EXPECT_TRUE(has(read(R"(,"quantization_config":{"quant_method":"fp8"})", nvfp4), "\ndtype = \"fp8\""));
  const std::string cache = read("", R"({"quantization":{"quant_algo":null,"kv_cache_quant_algo":"FP8"}})");
  EXPECT_TRUE(has(cache, "\ndtype = \"bf16\"") && has(cache, "\nkv_dtype = \"fp8\"")) << cache;
  EXPECT_TRUE(has(read("", nvfp4), "\nkv_dtype = \"bf16\""));
  EXPECT_TRUE(has(read("", R"({"quantization":{"quant_algo":"W4A8_AWQ"}})"), "W4A8_AWQ"));
  EXPECT_TRUE(has(read("", "[]"), "m/hf_quant_config.json"));
}

TEST(ModelConfig, AttentionThatIsNotConvertedIsOfTheTextPart) {
  const auto attention = [](const std::string& module) {
    const auto read = llama_with(R"("quantization_config":{"quant_method":"fp8","ignore":[")" + module + "\"]}", 2);
    return read ? read->attention_dtype() : Dtype::Mxfp4;
  };
  EXPECT_EQ(attention("model.layers.0.self_attn.q_proj"), Dtype::Bf16);
  EXPECT_EQ(attention("vision_tower.vision_model.encoder.layers.0.self_attn.q_proj"), Dtype::Fp8);
  EXPECT_EQ(attention("lm_head"), Dtype::Fp8);
  EXPECT_EQ(attention("re:.*self_attn.*"), Dtype::Bf16);
}

TEST(ModelConfig, CacheFormatsThatEnginesTakeFromTheCheckpoint) {
  const auto cache = [](const std::string& config) {
    const auto read = llama_with("\"quantization_config\":" + config);
    return read ? std::optional(read->kv_dtype) : std::nullopt;
  };
  const std::string compressed =
      R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":8,"type":"float"}}})";
  EXPECT_EQ(cache(compressed + "}"), Dtype::Bf16);
  EXPECT_EQ(cache(compressed + R"(,"kv_cache_scheme":null})"), Dtype::Bf16);
  EXPECT_EQ(cache(compressed + R"(,"kv_cache_scheme":{"num_bits":8,"type":"float"}})"), Dtype::Fp8);
  EXPECT_EQ(cache(R"({"quant_method":"modelopt","quant_algo":"FP8","kv_cache_quant_algo":"FP8"})"), Dtype::Fp8);
  EXPECT_EQ(cache(R"({"quantization":{"quant_algo":"FP8","kv_cache_quant_algo":"FP8"}})"), Dtype::Fp8);
  EXPECT_EQ(cache(R"({"quant_method":"fp8","kv_cache_scheme":"static"})"), Dtype::Bf16) << "vLLM asks for a flag";
}

TEST(ModelConfig, PartsThatAreNotConverted) {
  const auto gptq = llama_with(R"("quantization_config":{"quant_method":"gptq","bits":4,"dynamic":{"-:.*attn.*":{}}})");
  ASSERT_TRUE(gptq) << gptq.error().message();
  EXPECT_EQ(gptq->attention_dtype(), Dtype::Bf16);
  EXPECT_EQ(gptq->dtype, Dtype::Int4);
  const auto norms = llama_with(R"("quantization_config":{"quant_method":"fp8","modules_to_not_convert":
      ["lm_head","re:.*post_attention_layernorm","model.layers.0.mlp.down_proj"]})");
  ASSERT_TRUE(norms) << norms.error().message();
  EXPECT_EQ(norms->attention_dtype(), Dtype::Fp8);
  const auto said = [](const std::string& more) {
    const auto read = llama_with(more);
    return read ? "accepted" : read.error().message();
  };
  EXPECT_NE(said(R"("quantization_config":{"quant_method":"awq","bits":4,
                    "modules_to_not_convert":["re:.*mlp.down_proj"]})")
                .find("keeps parts of the FFN"),
            std::string::npos);
  EXPECT_NE(said(R"("quantization_config":{"quant_method":"gptq","bits":4,"dynamic":{"+:.*down.*":{"bits":8}}})")
                .find("other widths"),
            std::string::npos);
  EXPECT_NE(said(R"("quantization":{"group_size":64,"bits":4})").find("MLX"), std::string::npos);
}

TEST(ModelConfig, OneLayersAttentionIsNotAllLayers) {
  const auto read = llama_with(R"("quantization_config":{"quant_method":"fp8",
      "ignore":["model.layers.0.self_attn.q_proj","model.layers.0.self_attn.k_proj"]})");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->attention_dtype(), Dtype::Fp8);
}

}  // namespace
}  // namespace wattle::config
