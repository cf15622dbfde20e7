#include "fidelity/published_names.h"

#include <gtest/gtest.h>

#include "fidelity/h100_catalog_test.h"

namespace wattle::fidelity {
namespace {

Catalog with_cards() {
  Catalog catalog = h100_catalog();
  for (const char* name : {"h200", "b200", "a100-80g", "a100-40g", "h100-pcie", "gh200-96g", "gh200-144g", "l40s"}) {
    catalog.gpus[name] = catalog.gpus["h100"];
    catalog.gpus[name].name = name;
  }
  return catalog;
}

TEST(PublishedNames, AGpuIsFoundByItsWholeName) {
  const Catalog catalog = with_cards();
  for (const auto& [published, ours] : {std::pair{"H100", "h100"},
                                        {"h100_sxm", "h100"},
                                        {"h100-80gb", "h100"},
                                        {"NVIDIA H100 80GB HBM3", "h100"},
                                        {"NVIDIA H100 PCIe", "h100-pcie"},
                                        {"h200_sxm", "h200"},
                                        {"b200_sxm", "b200"},
                                        {"NVIDIA GH200 480GB", "gh200-96g"},
                                        {"NVIDIA GH200 144G HBM3e", "gh200-144g"},
                                        {"A100", "a100-80g"},
                                        {"NVIDIA A100-SXM4-80GB", "a100-80g"},
                                        {"A100-SXM4-40GB", "a100-40g"},
                                        {"A100-40GB", "a100-40g"},
                                        {"NVIDIA L40S", "l40s"},
                                        {"gh200-96g", "gh200-96g"}}) {
    const auto gpu = published_gpu(catalog, published);
    ASSERT_TRUE(gpu) << published;
    EXPECT_EQ((*gpu)->name, ours) << published;
  }
}

TEST(PublishedNames, AGpuThatOnlySoundsLikeOursIsUnknown) {
  const Catalog catalog = with_cards();
  for (const char* other : {"GH200", "gh200_sxm", "GB200 NVL72", "gb200", "B300", "H100 NVL", "H200 NVL", "h100x",
                            "NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe", "v100-32gb", "mi300x", ""}) {
    const auto gpu = published_gpu(catalog, other);
    ASSERT_FALSE(gpu) << other << ": " << (*gpu)->name;
    EXPECT_EQ(gpu.error(), std::string("unknown GPU ") + other);
  }
}

TEST(PublishedNames, TheFirstStatedFormatOrElseTheNamesIsTheWeights) {
  const Catalog catalog = h100_catalog();
  const auto dtype = [&](const char* name, std::initializer_list<std::string_view> formats) {
    const auto llm = published_llm(catalog, name, formats);
    EXPECT_TRUE(llm) << llm.error();
    return llm ? llm->dtype : Dtype::Mxfp4;
  };
  EXPECT_EQ(dtype("meta-llama/Llama-3.1-8B-Instruct", {}), Dtype::Bf16);
  EXPECT_EQ(dtype("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", {}), Dtype::Fp8);
  EXPECT_EQ(dtype("nvidia/Llama-3.1-8B-Instruct-FP8", {"", ""}), Dtype::Fp8);
  EXPECT_EQ(dtype("nvidia/Llama-3.1-8B-Instruct-NVFP4", {}), Dtype::Nvfp4);
  EXPECT_EQ(dtype("nvidia/Llama-3.1-8B-Instruct-FP8", {"bfloat16"}), Dtype::Bf16) << "a column says more than a name";
  EXPECT_EQ(dtype("Llama-3.1-8B", {"", "fp8"}), Dtype::Fp8);
  EXPECT_EQ(dtype("Llama-3.1-8B", {"int4_wo", "int4"}), Dtype::Int4);
  for (const auto& formats : {std::pair{"int8", ""}, {"fp8", "int8_wo"}, {"", "w4a8"}}) {
    const auto llm = published_llm(catalog, "Llama-3.1-8B", {formats.first, formats.second});
    ASSERT_FALSE(llm) << formats.first << formats.second;
    EXPECT_TRUE(llm.error().starts_with("weights in ")) << llm.error();
  }
  const auto unknown = published_llm(catalog, "acme/New-8B");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error(), "unknown model acme/New-8B");
}

TEST(PublishedNames, FormatsReplaceThePublishedOnes) {
  LlmSpec mixture;
  mixture.experts = 256;
  mixture.experts_per_token = 8;
  EXPECT_EQ(in_format(mixture, "fp4")->expert_dtype(), Dtype::Nvfp4);
  EXPECT_EQ(in_format(mixture, "nvfp4")->attention_dtype(), Dtype::Bf16);
  EXPECT_EQ(in_format(LlmSpec{}, "fp4")->attention_dtype(), Dtype::Nvfp4);
  EXPECT_EQ(in_format(mixture, "fp8_block")->attention_dtype(), Dtype::Fp8);
  LlmSpec published = mixture;
  published.expert_weights = Dtype::Mxfp4;
  EXPECT_EQ(in_format(published, "fp4")->expert_dtype(), Dtype::Mxfp4);
  EXPECT_EQ(in_format(published, "bf16")->expert_dtype(), Dtype::Bf16);
  published.expert_weights = Dtype::Int4;
  EXPECT_EQ(in_format(published, "int4")->attention_dtype(), Dtype::Bf16);
  EXPECT_EQ(in_format(published, "fp8")->expert_dtype(), Dtype::Fp8);
  EXPECT_FALSE(in_format(mixture, "int8"));
}

}  // namespace
}  // namespace wattle::fidelity
