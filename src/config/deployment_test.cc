#include "config/deployment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace wattle::config {
namespace {

const std::string kText = R"(
[fleet]
recipe = "voltanallm"
gpu = "a100-80g"
llm = "llama-3.1-8b"
models = ["a", "b"]
set = ["frequency.decode.margin=0.1"]

[slo]
ttft_ms = 600
itl_ms = 60.5

[engine]
block_size = 32

[gateway]
listen = "127.0.0.1:8000"
admin = "127.0.0.1:8001"
threads = 3

[agent]
no_guardian = true

[[node]]
name = "n0"
agent = "127.0.0.1:9100"

[[node]]
name = "n1"
agent = "127.0.0.1:9101"
watt_budget_w = 650

[[worker]]
url = "http://127.0.0.1:9000"
role = "prefill"
node = "n0"
gpus = [0, 1]
step_reports = "tcp://127.0.0.1:5557"
site = "west"

[[worker]]
url = "http://127.0.0.1:9001"
role = "decode"
node = "n1"
gpus = ["GPU-1234"]
step_reports = "tcp://127.0.0.1:5558"
)";

std::string as_line(const std::vector<FlagText>& flags) {
  std::string line;
  for (const auto& flag : flags) line += flag.name + "=" + flag.value + "\n";
  return line;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string problem(const std::string& text) {
  const auto made = Deployment::from_text(text, "w.toml");
  return made ? "" : made.error().message();
}

TEST(Deployment, AnEngineWithoutReportsIsNamedAsTheGatewayNamesIt) {
  auto text = replaced(kText, "step_reports = \"tcp://127.0.0.1:5558\"", "");
  text = replaced(text, "http://127.0.0.1:9001", "LocalHost:9001/v1/");
  const auto made = Deployment::from_text(text, "w.toml");
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_NE(as_line(*made->agent("n1")).find("--engine=http://localhost:9001=GPU-1234@decode"), std::string::npos);
  EXPECT_NE(problem(replaced(text, "LocalHost:9001/v1/", "ftp://x")).find("ftp://x"), std::string::npos);
}

TEST(Deployment, GatewayAndAgentsGetTheSame) {
  const auto made = Deployment::from_text(kText, "w.toml");
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(as_line(made->gateway()),
            "--recipe=voltanallm\n--set=frequency.decode.margin=0.1\n--gpu=a100-80g\n--llm=llama-3.1-8b\n"
            "--model=a\n--model=b\n--block-size=32\n--ttft-slo-ms=600\n--itl-slo-ms=60.5\n"
            "--agent=http://127.0.0.1:9100\n--agent=http://127.0.0.1:9101\n"
            "--worker=http://127.0.0.1:9000=prefill,tp=2,fpm=tcp://127.0.0.1:5557,site=west\n"
            "--worker=http://127.0.0.1:9001=decode,tp=1,fpm=tcp://127.0.0.1:5558\n"
            "--admin=127.0.0.1:8001\n--listen=127.0.0.1:8000\n--threads=3\n");
  const auto agent = made->agent("n1");
  ASSERT_TRUE(agent) << agent.error().message();
  EXPECT_EQ(as_line(*agent),
            "--recipe=voltanallm\n--set=frequency.decode.margin=0.1\n--gpu=a100-80g\n--llm=llama-3.1-8b\n"
            "--block-size=32\n--ttft-slo-ms=600\n--itl-slo-ms=60.5\n--admin=127.0.0.1:9101\n--watt-budget-w=650\n"
            "--engine=tcp://127.0.0.1:5558=GPU-1234@decode\n--no-guardian=true\n");
  const auto means = Deployment::from_text(replaced(kText, "itl_ms = 60.5", "tbt_ms = 30"), "w.toml");
  ASSERT_TRUE(means) << means.error().message();
  for (const auto& flags : {means->gateway(), *means->agent("n1")}) {
    EXPECT_NE(as_line(flags).find("--ttft-slo-ms=600\n--tbt-slo-ms=30\n"), std::string::npos);
  }
  EXPECT_EQ(as_line(made->planner()),
            "--recipe=voltanallm\n--set=frequency.decode.margin=0.1\n--gateway=http://127.0.0.1:8001\n");
  EXPECT_EQ(made->gateway().back().where, "w.toml:19") << "flags know their lines";
  const auto open = Deployment::from_text(replaced(kText, "models = [\"a\", \"b\"]", "models = []"), "w.toml");
  ASSERT_TRUE(open) << open.error().message();
  const auto flags = open->gateway();
  const auto model = std::ranges::find(flags, "--model", &FlagText::name);
  ASSERT_NE(model, flags.end()) << "so that its line is named where nobody says a model";
  EXPECT_TRUE(model->value.empty() && model->where.starts_with("w.toml:")) << model->where;
}

TEST(Deployment, WhatIsWrongIsNamedByItsLine) {
  EXPECT_EQ(problem(replaced(kText, "gpu = \"a100", "gpus = \"a100")),
            "w.toml:4: unknown key fleet.gpus; did you mean fleet.gpu?");
  EXPECT_NE(problem(replaced(kText, "[gateway]", "[gatewaay]"))
                .find("w.toml:16: unknown section [gatewaay]; did you mean [gateway]?"),
            std::string::npos);
  EXPECT_NE(problem(replaced(kText, "block_size = 32", "block_size = -1")).find("w.toml:14"), std::string::npos);
  EXPECT_NE(problem(replaced(kText, "block_size", "blok_size")).find("did you mean block_size?"), std::string::npos);
  EXPECT_NE(
      problem(replaced(kText, "node = \"n1\"", "node = \"n7\"")).find("there is no node \"n7\"; there are n0, n1"),
      std::string::npos);
  EXPECT_NE(problem(replaced(kText, "node = \"n1\"\n", "")).find("node is needed; one of n0, n1"), std::string::npos);
  EXPECT_NE(problem(replaced(kText, "name = \"n1\"", "name = \"n0\"")).find("is listed twice"), std::string::npos);
  EXPECT_EQ(problem(replaced(kText, "127.0.0.1:9101", "127.0.0.1:9100")),
            "w.toml:28: another node's agent is at 127.0.0.1:9100, too");
  EXPECT_NE(problem(replaced(kText, "gpus = [0, 1]", "gpus = []")).find("is empty"), std::string::npos);
  EXPECT_NE(problem(replaced(kText, "gpus = [0, 1]", "gpus = [1, 1]")).find("GPU 1 is listed twice"),
            std::string::npos);
  const std::string shared = replaced(kText, "gpus = [0, 1]", "gpus = [0, \"GPU-1234\"]");
  EXPECT_EQ(problem(shared), "") << "of another node";
  EXPECT_NE(problem(replaced(shared, "node = \"n1\"", "node = \"n0\"")).find("GPU GPU-1234 is listed twice"),
            std::string::npos);
  EXPECT_NE(problem(replaced(kText, "role = \"prefill\"", "role = \"prefil\"")).find("did you mean \"prefill\"?"),
            std::string::npos);
  EXPECT_NE(problem("recipe = \"x\"\n" + kText).find("w.toml:1: recipe is in no section"), std::string::npos);
  EXPECT_NE(problem(replaced(kText, "recipe = \"voltanallm\"\n", "")).find("fleet.recipe is missing"),
            std::string::npos);
}

TEST(Deployment, IsPrintedAsWhatEachProcessIsStartedWith) {
  const std::string text =
      Deployment::from_text(kText + "[planner]\nstate = \"it's\"\n", "wattle.toml").value().effective_text();
  EXPECT_TRUE(text.starts_with("wattle gateway \\\n  --recipe='voltanallm' \\\n")) << text;
  EXPECT_NE(text.find("  --agent='http://127.0.0.1:9101' \\\n"), std::string::npos);
  EXPECT_NE(text.find("\n\nwattle agent \\\n"), std::string::npos);
  EXPECT_NE(text.find("  --watt-budget-w='650' \\\n"), std::string::npos);
  EXPECT_NE(text.find("  --state='it'\\''s'\n"), std::string::npos) << text;
}

/// Gateway and agent both identify it by its URL.
TEST(Deployment, AnEngineWithoutStepReportsIsNamedByItsUrl) {
  const auto made = Deployment::from_text(replaced(kText, "step_reports = \"tcp://127.0.0.1:5558\"", ""), "w.toml");
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_NE(as_line(made->gateway()).find("--worker=http://127.0.0.1:9001=decode,tp=1\n"), std::string::npos);
  EXPECT_NE(as_line(*made->agent("n1")).find("--engine=http://127.0.0.1:9001=GPU-1234@decode\n"), std::string::npos);
}

TEST(Deployment, OfSeveralNodesAnAgentHasToSayWhichItIs) {
  const auto made = Deployment::from_text(kText, "w.toml");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->agent("").error().message(), "w.toml: node is needed; one of n0, n1");
  EXPECT_EQ(made->agent("n9").error().message(), "--node: there is no node \"n9\"; there are n0, n1");
}

}  // namespace
}  // namespace wattle::config
