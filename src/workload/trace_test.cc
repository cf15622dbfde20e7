#include "workload/trace.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace wattle::workload {

namespace {
Trace must_parse(TraceFormat format, std::string_view text) {
  auto trace = parse_trace(format, text, "t");
  EXPECT_TRUE(trace.has_value()) << trace.error().message();
  return trace ? std::move(*trace) : Trace{};
}

std::string error_of(TraceFormat format, std::string_view text) {
  const auto trace = parse_trace(format, text, "t");
  EXPECT_FALSE(trace.has_value()) << text;
  return trace ? "" : trace.error().message();
}

void expect_rows(const Trace& trace, const std::vector<TraceRow>& expected) {
  ASSERT_EQ(trace.rows.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(trace.rows[i].arrival.ns(), expected[i].arrival.ns()) << i;
    EXPECT_EQ(trace.rows[i].prompt_tokens, expected[i].prompt_tokens) << i;
    EXPECT_EQ(trace.rows[i].output_tokens, expected[i].output_tokens) << i;
  }
}

/// The error of an Azure trace with one valid row and this one.
std::string azure_error(const std::string& row) {
  return error_of(TraceFormat::Azure,
                  "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n" + row);
}
}  // namespace

TEST(TraceReaders, ReadEveryForm) {
  const std::vector<TraceRow> expected = {{Instant(0), 374, 44}, {Instant(1'500'000'000), 396, 109}};
  expect_rows(must_parse(TraceFormat::Azure,
                         "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                         "2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:48.1805900,396,109"),
              expected);
  expect_rows(must_parse(TraceFormat::Azure,
                         "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                         "2024-05-10 00:00:00.009930+00:00,374,44\n"
                         "2024-05-10 00:00:01.509930+00:00,396,109\n"),
              expected);
  expect_rows(
      must_parse(TraceFormat::Vidur, "arrived_at,num_prefill_tokens,num_decode_tokens\n0.25,374,44\n1.75,396,109\n"),
      expected);
  expect_rows(must_parse(TraceFormat::Splitwise,
                         "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
                         "0,2,0,0,1,374,44\n1,2,0,1.5,1,396,109\n"),
              expected);
  expect_rows(must_parse(TraceFormat::Mooncake,
                         "{\"timestamp\": 27482, \"input_length\": 374, \"output_length\": 44, \"hash_ids\": [0]}\r\n"
                         "{\"timestamp\": 28982.0, \"input_length\": 396, \"output_length\": 109, \"hash_ids\": []}"),
              expected);
  const Trace burst = must_parse(TraceFormat::BurstGpt,
                                 "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                                 "3,ChatGPT,20,0,20,Conversation log\n5,ChatGPT,374,44,418,Conversation log\n"
                                 "6,GPT-4,0,0,0,API log\n6.5,\"GPT-4\",396,109,505,\"API log\"\n");
  expect_rows(burst, expected);
  EXPECT_EQ(burst.skipped_failed, 2);
}

TEST(TraceReaders, ARequestWithoutAnAnswerIsCountedAndLeftOutInEveryFormat) {
  for (const auto& [format, text] :
       {std::pair(TraceFormat::Azure,
                  "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,5,0\n2023-11-16 18:15:47,374,44\n"),
        {TraceFormat::Vidur, "arrived_at,num_prefill_tokens,num_decode_tokens\n1,5,0\n2,374,44\n"},
        {TraceFormat::Splitwise, "arrival_timestamp,prompt_size,token_size\n1,5,0\n2,374,44\n"},
        {TraceFormat::Mooncake,
         "{\"timestamp\": 1, \"input_length\": 0, \"output_length\": 0}\n"
         "{\"timestamp\": 2, \"input_length\": 374, \"output_length\": 44}\n"}}) {
    const Trace trace = must_parse(format, text);
    expect_rows(trace, {{Instant(0), 374, 44}});
    EXPECT_EQ(trace.skipped_failed, 1) << format_name(format);
  }
}

TEST(TraceReaders, FindColumnsByNameAndAcceptByteOrderMarkAndQuotes) {
  expect_rows(must_parse(TraceFormat::Azure,
                         "\xef\xbb\xbf\"GeneratedTokens\",extra,TIMESTAMP,ContextTokens\r\n"
                         "\"44\",x,\"2023-11-16 18:15:46\",374\r\n\r\n"),
              {{Instant(0), 374, 44}});
}

TEST(TraceReaders, WholeNumbersWithAPoint) {
  expect_rows(
      must_parse(TraceFormat::Azure, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,374.0,44.0\n"),
      {{Instant(0), 374, 44}});
  expect_rows(must_parse(TraceFormat::Mooncake, R"({"timestamp": 0, "input_length": 374.0, "output_length": 44})"),
              {{Instant(0), 374, 44}});
  EXPECT_NE(error_of(TraceFormat::Mooncake, R"({"timestamp": 0, "input_length": 374.5, "output_length": 44})")
                .find("'input_length' must be a whole number"),
            std::string::npos);
}

TEST(TraceReaders, HashIdsChain) {
  const Trace trace =
      must_parse(TraceFormat::Mooncake,
                 "{\"timestamp\": 0, \"input_length\": 1300, \"output_length\": 1, \"hash_ids\": [1, 2, 3]}\n"
                 "{\"timestamp\": 1, \"input_length\": 1400, \"output_length\": 1, \"hash_ids\": [1, 2, 4]}\n"
                 "{\"timestamp\": 2, \"input_length\": 1024, \"output_length\": 1, \"hash_ids\": [5, 2]}\n"
                 "{\"timestamp\": 3, \"input_length\": 600, \"output_length\": 1, \"hash_ids\": []}\n"
                 "{\"timestamp\": 4, \"input_length\": 600, \"output_length\": 1}\n");
  ASSERT_EQ(trace.rows.size(), 5U);
  const PromptBlocks& first = *trace.rows[0].content;
  const PromptBlocks& second = *trace.rows[1].content;
  EXPECT_EQ(first.block_tokens, 512);
  ASSERT_EQ(first.chain.size(), 3U);
  EXPECT_EQ(first.chain[1], second.chain[1]);
  EXPECT_NE(first.chain[2], second.chain[2]);
  EXPECT_NE(first.chain[1], trace.rows[2].content->chain[1]) << "2 after 5 is not 2 after 1";
  EXPECT_EQ(trace.rows[3].content, nullptr);
  EXPECT_EQ(trace.rows[4].content, nullptr);
  EXPECT_EQ(error_of(TraceFormat::Mooncake,
                     "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [1, -2]}"),
            "t:1: key 'hash_ids' must be a list of whole numbers from 0");
  const auto with_ids = [](const char* length, const char* ids) {
    return std::string("{\"timestamp\": 0, \"input_length\": ") + length + ", \"output_length\": 1, \"hash_ids\": [" +
           ids + "]}";
  };
  EXPECT_EQ(error_of(TraceFormat::Mooncake, with_ids("1300", "1, 2, 3, 4")),
            "t:1: key 'hash_ids' has 4 blocks of 512 tokens, and an input_length of 1300 is 3");
  EXPECT_EQ(error_of(TraceFormat::Mooncake, with_ids("1300", "1")),
            "t:1: key 'hash_ids' has 1 blocks of 512 tokens, and an input_length of 1300 is 3");
  EXPECT_EQ(must_parse(TraceFormat::Mooncake, with_ids("1300", "1, 2")).rows.at(0).content->chain.size(), 2U)
      << "an id for whole blocks only";
}

TEST(TraceReaders, EqualArrivalsAreInOrder) {
  EXPECT_EQ(
      must_parse(TraceFormat::Vidur, "arrived_at,num_prefill_tokens,num_decode_tokens\n1,1,1\n1,2,2\n").rows.size(),
      2U);
}

TEST(TraceReaders, MissingAndEmptyFiles) {
  const auto missing = load_trace(TraceFormat::Azure, "/no/such/trace.csv");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().kind, ErrorKind::BadInput);
  EXPECT_EQ(missing.error().where, "/no/such/trace.csv");
  const auto folder = load_trace(TraceFormat::Azure, std::filesystem::temp_directory_path().string());
  ASSERT_FALSE(folder.has_value());
  EXPECT_EQ(folder.error().what, "is a directory; name a file");
  EXPECT_EQ(error_of(TraceFormat::Azure, ""),
            "t: is empty; expected a header line with TIMESTAMP,ContextTokens,GeneratedTokens");
  EXPECT_EQ(error_of(TraceFormat::Azure, "TIMESTAMP,ContextTokens,GeneratedTokens\n"), "t:1: has a header but no rows");
  constexpr std::string_view kGzip = "\x1f\x8b\x08";
  const std::string packed = "t: is compressed (gzip, zstd or zip); unpack it first";
  EXPECT_EQ(error_of(TraceFormat::Mooncake, std::string(kGzip)), packed);
  const auto unknown = detect_format(kGzip, "t");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().message(), packed);
  EXPECT_EQ(error_of(TraceFormat::Mooncake, "\n"),
            "t: is empty; expected lines like {\"timestamp\": 0, \"input_length\": 10, \"output_length\": 5}");
  EXPECT_EQ(error_of(TraceFormat::BurstGpt, "Timestamp,Model,Request tokens,Response tokens\n1,m,4,0\n"),
            "t:2: has only requests without an answer (0 tokens)");
}

TEST(TraceReaders, MissingColumn) {
  EXPECT_EQ(error_of(TraceFormat::Azure, "TIMESTAMP,ContextTokens\n2023-11-16 18:15:46,1\n"),
            "t:1: the header has no column 'GeneratedTokens'; it has 'TIMESTAMP,ContextTokens'");
}

TEST(TraceReaders, TruncatedLastRow) {
  EXPECT_EQ(azure_error("2023-11-16 18:15:47,1"),
            "t:3: has 2 fields where the header has 3; is the file cut short? Remove or complete its last line");
  EXPECT_EQ(azure_error("2023-11-16 18:15:47,1,"),
            "t:3: GeneratedTokens is ''; it must be a whole number from 0 to 2147483647");
  EXPECT_EQ(azure_error("2023-11-1"),
            "t:3: has 1 field where the header has 3; is the file cut short? Remove or complete its last line");
  const std::string cut = error_of(
      TraceFormat::Mooncake, "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}\n{\"timestamp\": 0, \"in");
  EXPECT_TRUE(cut.starts_with("t:2: is not a JSON object")) << cut;
  EXPECT_TRUE(cut.ends_with("is the file cut short?")) << cut;
}

TEST(TraceReaders, UnsortedTimes) {
  EXPECT_EQ(
      azure_error("2023-11-16 18:15:46.6805899,1,1\n"),
      "t:3: TIMESTAMP is '2023-11-16 18:15:46.6805899'; it lies before the row above; sort the rows by TIMESTAMP");
  EXPECT_EQ(error_of(TraceFormat::Mooncake,
                     "{\"timestamp\": 5, \"input_length\": 1, \"output_length\": 1}\n"
                     "{\"timestamp\": 4, \"input_length\": 1, \"output_length\": 1}\n"),
            "t:2: key 'timestamp' is 4 ms, before the line above; sort the lines by timestamp");
}

TEST(TraceReaders, TokensMustBeWholeAndAtLeastOne) {
  for (const char* bad : {"-1", "0", "1.5", "nan", "inf", "1e3", "2147483648", "99999999999999999999999", "", "x"}) {
    const std::string prompt = azure_error("2023-11-16 18:15:47," + std::string(bad) + ",1\n");
    EXPECT_EQ(prompt,
              "t:3: ContextTokens is '" + std::string(bad) + "'; it must be a whole number from 1 to 2147483647");
    if (std::string_view(bad) == "0") continue;  // an answer may be none
    const std::string output = azure_error("2023-11-16 18:15:47,1," + std::string(bad) + "\n");
    EXPECT_EQ(output,
              "t:3: GeneratedTokens is '" + std::string(bad) + "'; it must be a whole number from 0 to 2147483647");
  }
  for (const char* bad : {"-1", "0", "1.5", "\"1\"", "null", "2147483648", "99999999999999999999999"}) {
    const std::string text = "{\"timestamp\": 0, \"input_length\": " + std::string(bad) + ", \"output_length\": 1}\n";
    const std::string error = error_of(TraceFormat::Mooncake, text);
    EXPECT_TRUE(error.starts_with("t:1: ")) << error;
  }
  EXPECT_EQ(error_of(TraceFormat::Mooncake, "{\"timestamp\": 0, \"output_length\": 1}"),
            "t:1: key 'input_length' is missing; add it");
  EXPECT_EQ(error_of(TraceFormat::BurstGpt, "Timestamp,Request tokens,Response tokens\n1,0,5\n"),
            "t:2: Request tokens is '0'; it must be a whole number from 1 to 2147483647");
}

TEST(TraceReaders, TimesMustBeTimes) {
  EXPECT_EQ(azure_error("2023-11-31 18:15:47,1,1\n"),
            "t:3: TIMESTAMP is '2023-11-31 18:15:47'; it must be a time like 2023-11-16 18:15:46.6805900");
  for (const char* bad : {"nan", "inf", "-inf", "-1", "1e300", "", "1s"}) {
    const std::string text = "arrived_at,num_prefill_tokens,num_decode_tokens\n" + std::string(bad) + ",1,1\n";
    EXPECT_EQ(error_of(TraceFormat::Vidur, text),
              "t:2: arrived_at is '" + std::string(bad) + "'; it must be a number from 0 to 9000000000");
  }
  const std::string error =
      error_of(TraceFormat::Mooncake, "{\"timestamp\": -1, \"input_length\": 1, \"output_length\": 1}");
  EXPECT_EQ(error, "t:1: key 'timestamp' must be a whole number from 0 to 9000000000000");
}

TEST(TraceReaders, RealAzureFiles) {
  const char* data = std::getenv("WATTLE_DATA");
  if (data == nullptr) GTEST_SKIP() << "WATTLE_DATA is not set";
  const auto conv =
      load_trace(TraceFormat::Azure, std::string(data) + "/azure-llm-2023/AzureLLMInferenceTrace_conv.csv");
  ASSERT_TRUE(conv.has_value()) << conv.error().message();
  EXPECT_EQ(conv->rows.size(), 19'366U);
  EXPECT_EQ(conv->rows.front().arrival, Instant());
  EXPECT_EQ(conv->rows.back().output_tokens, 183);
  const auto code =
      load_trace(TraceFormat::Azure, std::string(data) + "/azure-llm-2023/AzureLLMInferenceTrace_code.csv");
  ASSERT_TRUE(code.has_value()) << code.error().message();
  EXPECT_EQ(code->rows.size(), 8'819U);
}

}  // namespace wattle::workload
