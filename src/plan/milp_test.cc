#include "plan/milp.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cmath>
#include <future>
#include <vector>

#include "base/random.h"

namespace wattle::plan {
namespace {

/// Those of this build.
std::vector<MilpSolver> solvers() {
  std::vector<MilpSolver> all = {MilpSolver::Cbc};
  if (has_solver(MilpSolver::Highs)) all.push_back(MilpSolver::Highs);
  return all;
}

class MilpBySolver : public ::testing::TestWithParam<MilpSolver> {};
INSTANTIATE_TEST_SUITE_P(Milp, MilpBySolver, ::testing::ValuesIn(solvers()),
                         [](const auto& i) { return i.param == MilpSolver::Cbc ? "Cbc" : "Highs"; });

/// max 5a + 4b + 3c by the textbook; negated, and with whole numbers.
Milp small(Domain domain) {
  Milp program;
  const int a = program.variable(0, kNoLimit, -5, domain);
  const int b = program.variable(0, kNoLimit, -4, domain);
  const int c = program.variable(0, kNoLimit, -3, domain);
  program.row(-kNoLimit, 5, {{a, 2}, {b, 3}, {c, 1}});
  program.row(-kNoLimit, 11, {{a, 4}, {b, 1}, {c, 2}});
  program.row(-kNoLimit, 8, {{a, 3}, {b, 4}, {c, 2}});
  return program;
}

TEST_P(MilpBySolver, SolvesATextbookProgram) {
  const MilpSolution solution = solve(small(Domain::Continuous), {.solver = GetParam()});
  EXPECT_EQ(solution.status, MilpStatus::Optimal);
  EXPECT_NEAR(solution.cost, -13.0, 1e-9);
  EXPECT_NEAR(solution.values[0], 2.0, 1e-9);
  EXPECT_NEAR(solution.values[2], 1.0, 1e-9);
}

TEST_P(MilpBySolver, WholeNumbersAreWholeAndTheBoundHolds) {
  Milp program;
  const int x = program.variable(0, 10, -1, Domain::Integer);
  const int y = program.variable(0, 10, -1);
  program.row(-kNoLimit, 7.5, {{x, 2}, {y, 1}});
  program.row(-kNoLimit, 2.25, {{y, 1}});
  const MilpSolution solution = solve(program, {.solver = GetParam()});
  ASSERT_EQ(solution.status, MilpStatus::Optimal);
  EXPECT_EQ(solution.values[0], 3.0);
  EXPECT_NEAR(solution.cost, -4.5, 1e-9);
  EXPECT_LE(solution.bound, solution.cost);
  const MilpSolution relaxed = solve(program, {.solver = GetParam(), .relaxed = true});
  EXPECT_NEAR(relaxed.cost, -4.875, 1e-9);
}

TEST_P(MilpBySolver, SaysInfeasibleAndUnbounded) {
  for (const Domain domain : {Domain::Integer, Domain::Continuous}) {
    Milp infeasible;
    const int x = infeasible.variable(0, 3, 1, domain);
    infeasible.row(4, kNoLimit, {{x, 1}});
    EXPECT_EQ(solve(infeasible, {.solver = GetParam()}).status, MilpStatus::Infeasible);
    EXPECT_FALSE(solve(infeasible, {.solver = GetParam()}).found());
    Milp unbounded;
    const int y = unbounded.variable(0, kNoLimit, -1, domain);
    const int z = unbounded.variable(0, kNoLimit, 1, domain);
    unbounded.row(-kNoLimit, 4, {{y, 1}, {z, -1}});
    unbounded.set_cost(z, 0.5);
    unbounded.row(0.5, kNoLimit, {{z, 1}});
    EXPECT_EQ(solve(unbounded, {.solver = GetParam()}).status, MilpStatus::Unbounded);
  }
}

TEST_P(MilpBySolver, OnlyWholeNumbersCanBeInfeasible) {
  Milp program;  // 2x = 3
  const int x = program.variable(0, 5, 1, Domain::Integer);
  program.row(3, 3, {{x, 2}});
  EXPECT_EQ(solve(program, {.solver = GetParam()}).status, MilpStatus::Infeasible);
  EXPECT_TRUE(solve(program, {.solver = GetParam(), .relaxed = true}).found());
}

TEST_P(MilpBySolver, NoRowsAndRepeatedTerms) {
  Milp program;
  const int x = program.variable(-2, 5, 1, Domain::Integer);
  EXPECT_NEAR(solve(program, {.solver = GetParam()}).cost, -2.0, 1e-9);
  program.row(3, kNoLimit, {{x, 0.5}, {x, 0.5}});
  EXPECT_NEAR(solve(program, {.solver = GetParam()}).cost, 3.0, 1e-9);
}

TEST_P(MilpBySolver, CostsOfAnySizeAreSolvedAlike) {
  for (const double scale : {1e-9, 1.0, 1e12}) {
    Milp program;
    const int x = program.variable(0, 10, 3 * scale, Domain::Integer);
    const int y = program.variable(0, 10, 2 * scale, Domain::Integer);
    program.row(7, kNoLimit, {{x, 2}, {y, 1}});
    const MilpSolution solution = solve(program, {.solver = GetParam()});
    ASSERT_TRUE(solution.found());
    EXPECT_NEAR(solution.cost / scale, 11.0, 1e-9) << scale;  // 3 x + 1 y
  }
}

TEST_P(MilpBySolver, StartsFromAFeasiblePointAndIgnoresAnInfeasibleOne) {
  const Milp program = small(Domain::Integer);
  const std::array feasible{2.0, 0.0, 1.0};
  EXPECT_NEAR(solve(program, {.solver = GetParam()}, feasible).cost, -13.0, 1e-9);
  const std::array infeasible{9.0, 9.0, 9.0};
  EXPECT_GT(program.violation(infeasible), 1.0);
  EXPECT_NEAR(solve(program, {.solver = GetParam()}, infeasible).cost, -13.0, 1e-9);
}

/// Workers of one and two GPUs at two sites serve four kinds of demand, as little as can be is left.
TEST_P(MilpBySolver, ARowWithoutBoundsChangesNothing) {
  const auto left = [&](bool with_free_rows, bool preprocess) {
    Milp program;
    std::vector<std::vector<Milp::Term>> gpus(2), served(4);
    std::vector<Milp::Term> all;
    constexpr std::array kDemand = {3.0, 0.01, 60.0, 5.0};
    for (std::size_t site = 0; site < 2; ++site) {
      for (std::size_t kind = 0; kind < kDemand.size(); ++kind) {
        for (const auto& [needs, carries] : {std::pair(1.0, 2.0), std::pair(2.0, 4.5)}) {
          const int workers = program.variable(0, 8 / needs, 0.0, Domain::Integer);
          const int load = program.variable(0, kDemand.at(kind), 0.0);
          program.row(-kNoLimit, 0.0, {{load, 1.0}, {workers, -carries}});
          gpus[site].push_back({workers, needs});
          served[kind].push_back({load, 1.0});
        }
      }
    }
    for (std::size_t kind = 0; kind < kDemand.size(); ++kind) {
      const double each = 1.0 / kDemand.at(kind);
      all.push_back({program.variable(0, kDemand.at(kind), each), each});
      served[kind].push_back({all.back().variable, 1.0});
      program.row(kDemand.at(kind), kDemand.at(kind), served[kind]);
    }
    for (const auto& row : gpus) program.row(-kNoLimit, 8.0, row);
    for (const auto& row : served) {
      if (with_free_rows) program.row(-kNoLimit, kNoLimit, row);
    }
    if (with_free_rows) program.row(-kNoLimit, kNoLimit, all);
    const MilpSolution solution = solve(program, {.solver = GetParam(), .preprocess = preprocess});
    EXPECT_TRUE(solution.found());
    return solution.cost;
  };
  for (const bool preprocess : {true, false}) {
    EXPECT_NEAR(left(false, preprocess), 0.625, 1e-9);
    EXPECT_NEAR(left(true, preprocess), 0.625, 1e-9);
  }
}

TEST_P(MilpBySolver, NothingBelowTheCutoffIsInfeasible) {
  const Milp program = small(Domain::Integer);
  EXPECT_EQ(solve(program, {.solver = GetParam(), .cutoff = -13.5}).status, MilpStatus::Infeasible);
  EXPECT_NEAR(solve(program, {.solver = GetParam(), .cutoff = -12.5}).cost, -13.0, 1e-9);
}

/// Knapsacks against brute force.
RC_GTEST_PROP(MilpProperty, MatchesEnumeration, ()) {
  const auto items = *rc::gen::inRange<std::size_t>(1, 7);
  std::vector<int> worth(items), weight(items);
  for (std::size_t i = 0; i < items; ++i) {
    worth[i] = *rc::gen::inRange(-5, 20);
    weight[i] = *rc::gen::inRange(1, 12);
  }
  const int room = *rc::gen::inRange(0, 30);
  Milp program;
  std::vector<Milp::Term> terms;
  for (std::size_t i = 0; i < items; ++i) {
    terms.push_back({program.variable(0, 2, -worth[i], Domain::Integer), static_cast<double>(weight[i])});
  }
  program.row(-kNoLimit, room, terms);
  int best = 0;
  std::size_t combinations = 1;
  for (std::size_t i = 0; i < items; ++i) combinations *= 3;
  for (std::size_t code = 0; code < combinations; ++code) {
    int value = 0, used = 0;
    std::size_t rest = code;
    for (std::size_t i = 0; i < items; ++i, rest /= 3) {
      value += worth[i] * static_cast<int>(rest % 3);
      used += weight[i] * static_cast<int>(rest % 3);
    }
    if (used <= room) best = std::max(best, value);
  }
  for (const MilpSolver solver : solvers()) {
    const MilpSolution solution = solve(program, {.solver = solver});
    RC_ASSERT(solution.status == MilpStatus::Optimal);
    RC_ASSERT(std::abs(solution.cost + best) < 1e-6);
    RC_ASSERT(program.violation(solution.values) < 1e-6);
  }
}

TEST_P(MilpBySolver, IsSilent) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  (void)solve(small(Domain::Integer), {.solver = GetParam()});
  (void)solve(small(Domain::Continuous), {.solver = GetParam()});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

/// Programs that no two of which are alike: uneven counts of four kinds that cover a demand at least cost.
Milp covering(std::size_t number) {
  RandomStream random(number, "covering");
  Milp program;
  std::vector<Milp::Term> gpus;
  for (int row = 0; row < 4; ++row) {
    std::vector<Milp::Term> served;
    for (int kind = 0; kind < 4; ++kind) {
      const int count = program.variable(0, 9, 1.0 + random.uniform(), Domain::Integer);
      served.push_back({count, 0.5 + random.uniform()});
      gpus.push_back({count, static_cast<double>(1 << kind)});
    }
    program.row(5.0 + 5.0 * random.uniform(), kNoLimit, served);
  }
  program.row(-kNoLimit, 160.0, gpus);
  return program;
}

TEST_P(MilpBySolver, ProgramsSolvedAtOnceHaveTheAnswersTheyHaveAlone) {
  constexpr std::size_t kPrograms = 60;
  const auto solve_all = [solver = GetParam()] {
    std::vector<MilpSolution> all;
    for (std::size_t i = 0; i < kPrograms; ++i) all.push_back(solve(covering(i), {.solver = solver}));
    return all;
  };
  const std::vector<MilpSolution> alone = solve_all();
  auto beside = std::async(std::launch::async, solve_all);
  const std::vector<MilpSolution> at_once = solve_all();
  const std::vector<MilpSolution> other = beside.get();
  for (std::size_t i = 0; i < kPrograms; ++i) {
    ASSERT_EQ(alone[i].status, MilpStatus::Optimal) << i;
    EXPECT_EQ(at_once[i].values, alone[i].values) << i;
    EXPECT_EQ(other[i].values, alone[i].values) << i;
  }
}

}  // namespace
}  // namespace wattle::plan
