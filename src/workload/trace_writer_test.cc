#include "workload/trace_writer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "workload/trace.h"

namespace wattle::workload {

namespace {
constexpr TraceFormat kAll[] = {TraceFormat::Azure, TraceFormat::Vidur, TraceFormat::Splitwise, TraceFormat::Mooncake,
                                TraceFormat::BurstGpt};

std::string written(TraceFormat format, const std::vector<TraceRow>& rows) {
  std::string text = trace_header(format);
  for (std::size_t i = 0; i < rows.size(); ++i) append_row(format, static_cast<std::int64_t>(i), rows[i], text);
  return text;
}
}  // namespace

RC_GTEST_PROP(TraceWriter, EveryFormReadsBackEqual, ()) {
  const auto gaps = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 100'000'000'000)));
  std::vector<TraceRow> rows;
  std::int64_t at = -gaps.front();
  for (const auto gap : gaps) {
    rows.push_back({Instant(at += gap), *rc::gen::inRange(1, 1'000'000), *rc::gen::inRange(1, 1'000'000)});
  }
  for (const TraceFormat format : kAll) {
    const std::string text = written(format, rows);
    const auto detected = detect_format(text, "t");
    RC_ASSERT(detected.has_value() && *detected == format);
    const auto trace = parse_trace(format, text, "t");
    RC_ASSERT(trace.has_value());
    RC_ASSERT(trace->rows.size() == rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      RC_ASSERT(trace->rows[i].arrival == rows[i].arrival);
      RC_ASSERT(trace->rows[i].prompt_tokens == rows[i].prompt_tokens);
      RC_ASSERT(trace->rows[i].output_tokens == rows[i].output_tokens);
    }
  }
}

TEST(TraceWriter, PromptsThatBeginAlikeStillDo) {
  std::vector<TraceRow> rows(3, TraceRow{Instant(), 1200, 1});
  const std::uint64_t ids[][3] = {{1, 2, 3}, {1, 2, 4}, {5, 2, 3}};
  for (std::size_t i = 0; i < 3; ++i) rows[i].content = chained(512, ids[i]);
  TraceRow finer{Instant(), 1200, 1};  // of two prompts, 1,024 tokens in common
  std::vector<std::uint64_t> small(75, 8);
  finer.content = chained(16, small);
  rows.push_back(finer);
  small.back() = 9;
  finer.content = chained(16, small);
  rows.push_back(finer);
  const auto trace = parse_trace(TraceFormat::Mooncake, written(TraceFormat::Mooncake, rows), "t");
  ASSERT_TRUE(trace.has_value()) << trace.error().message();
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 0; b < 3; ++b) {
      for (std::size_t k = 0; k < 3; ++k) {
        EXPECT_EQ(trace->rows[a].content->chain[k] == trace->rows[b].content->chain[k],
                  rows[a].content->chain[k] == rows[b].content->chain[k]);
      }
    }
  }
  ASSERT_EQ(trace->rows[3].content->chain.size(), 2U) << "whole blocks of 512";
  EXPECT_EQ(trace->rows[3].content->chain, trace->rows[4].content->chain);
}

TEST(TraceWriter, WritesFilesInBlocks) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("wattle-writer-test-" + std::to_string(::getpid()))).string();
  auto writer = TraceWriter::create(path, TraceFormat::Vidur);
  ASSERT_TRUE(writer.has_value()) << writer.error().message();
  constexpr int kRows = 30'000;  // more than one block
  for (int i = 0; i < kRows; ++i) ASSERT_TRUE(writer->add({Instant() + Span::ms(i), 1 + i, 2}).has_value());
  ASSERT_TRUE(writer->finish().has_value());
  const auto trace = load_trace(TraceFormat::Vidur, path);
  std::filesystem::remove(path);
  ASSERT_TRUE(trace.has_value()) << trace.error().message();
  ASSERT_EQ(trace->rows.size(), static_cast<std::size_t>(kRows));
  EXPECT_EQ(trace->rows.back().prompt_tokens, kRows);
  EXPECT_EQ(trace->rows.back().arrival, Instant() + Span::ms(kRows - 1));
}

TEST(TraceWriter, SaysWhyItCannotWrite) {
  const auto writer = TraceWriter::create("/no/such/folder/t.csv", TraceFormat::Azure);
  ASSERT_FALSE(writer.has_value());
  EXPECT_EQ(writer.error().kind, ErrorKind::External);
  EXPECT_EQ(writer.error().where, "/no/such/folder/t.csv");
}

TEST(TraceFormats, NamesAreInverse) {
  for (const TraceFormat format : kAll) EXPECT_EQ(format_from_name(format_name(format)), format);
  EXPECT_FALSE(format_from_name("csv").has_value());
  EXPECT_FALSE(detect_format("", "t").has_value());
  const auto unknown = detect_format("a,b\n1,2\n", "t");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(
      unknown.error().message(),
      "t:1: has none of what begins a known trace: ContextTokens (azure), num_prefill_tokens (vidur), prompt_size "
      "(splitwise), \"input_length\" (mooncake), Request tokens (burstgpt)");
}

}  // namespace wattle::workload
