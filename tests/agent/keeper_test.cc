// Locks are released whatever happens: real processes, real kill -9.
#include "node/keeper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <tuple>

#include "board_fixture.h"
#include "net/await_test.h"
#include "node/actuator.h"
#include "node/claim.h"

namespace wattle::live {
namespace {

using virtual_gpu::FaultPoint;

class Keeper : public BoardFixture {
 protected:
  void SetUp() override {
    BoardFixture::SetUp();
    state_ = path_ + ".state";
    nvml_ = node::Nvml::open(FAKE_NVML).value();
    options_.library = FAKE_NVML;
    options_.state_file = state_;
    options_.guardian_command = {AGENT_HELPER, "agent-guardian"};
  }
  void TearDown() override {
    nvml_.reset();
    unlink(state_.c_str());
    unlink((state_ + ".lock").c_str());
    BoardFixture::TearDown();
  }

  struct Process {
    pid_t pid = -1;
    pid_t guardian = -1;
    std::string said;
  };
  /// Runs the helper that locks these GPUs, until it has or has refused.
  Process lock_in_another_process(const std::vector<std::string>& gpus) {
    int pipe_ends[2];
    EXPECT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
    std::vector<std::string> words = {AGENT_HELPER, "lock", FAKE_NVML, state_, "1005"};
    words.insert(words.end(), gpus.begin(), gpus.end());
    std::vector<char*> arguments;
    for (auto& w : words) arguments.push_back(w.data());
    arguments.push_back(nullptr);
    Process process;
    process.pid = fork();
    if (process.pid == 0) {
      dup2(pipe_ends[1], STDOUT_FILENO);
      execv(AGENT_HELPER, arguments.data());
      _exit(127);
    }
    close(pipe_ends[1]);
    char c = 0;
    while (read(pipe_ends[0], &c, 1) == 1 && c != '\n') process.said.push_back(c);
    close(pipe_ends[0]);
    if (process.said.starts_with("locked ")) process.guardian = std::atoi(process.said.c_str() + 7);
    return process;
  }
  static void kill_and_reap(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  std::string state_;
  std::shared_ptr<const node::Nvml> nvml_;
  node::KeeperOptions options_;
};

TEST_F(Keeper, KillNineOfTheAgentUnlocksItsGpusAndNoOther) {
  board().lock_clocks(1, MegaHertz(900), MegaHertz(900));  // set by another process
  const Process agent = lock_in_another_process({"0"});
  ASSERT_GT(agent.guardian, 0) << agent.said;
  EXPECT_TRUE(board().locked(0));
  EXPECT_TRUE(node::StateFile(state_).read()->contains(board().uuid(0)));
  kill_and_reap(agent.pid);
  EXPECT_TRUE(eventually([&] { return !board().locked(0); }));
  EXPECT_TRUE(eventually([&] { return node::StateFile(state_).read()->empty(); }));
  EXPECT_TRUE(eventually([&] { return kill(agent.guardian, 0) != 0; })) << "the guardian goes home";
  EXPECT_TRUE(board().locked(1));
  EXPECT_EQ(board().calls(1).resets, 0);
}

TEST_F(Keeper, TheGuardianRidesOutASignalStorm) {
  const Process agent = lock_in_another_process({"0", "1"});
  ASSERT_GT(agent.guardian, 0) << agent.said;
  for (int i = 0; i < 200; ++i) {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1}) kill(agent.guardian, signal);
  }
  EXPECT_EQ(kill(agent.guardian, 0), 0);
  EXPECT_NE(getsid(agent.guardian), getsid(agent.pid)) << "a terminal's Ctrl-C does not reach it";
  kill_and_reap(agent.pid);
  for (int i = 0; i < 200; ++i) kill(agent.guardian, SIGTERM);
  EXPECT_TRUE(eventually([&] { return !board().locked(0) && !board().locked(1); }));
}

TEST_F(Keeper, TheGuardianRetriesATransientFailure) {
  const Process agent = lock_in_another_process({"0"});
  ASSERT_GT(agent.guardian, 0) << agent.said;
  board().inject(0, FaultPoint::Reset, node::nvml::kTimeout, 3);
  kill_and_reap(agent.pid);
  EXPECT_TRUE(eventually([&] { return !board().locked(0); }));
}

/// True if the process sleeps, and used no CPU time for 200 ms.
bool rests(pid_t pid) {
  const auto now = [&] {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string field;
    for (int i = 1; i <= 2; ++i) file >> field;  // pid, name
    std::string state;
    file >> state;
    for (int i = 4; i <= 13; ++i) file >> field;
    long user = -1, system = -1;
    file >> user >> system;
    return std::tuple(state, user, system);
  };
  const auto before = now();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return std::get<0>(before) == "S" && now() == before;
}

TEST_F(Keeper, AStoppedGuardianIsWokenByItsAgentsDeath) {
  const Process agent = lock_in_another_process({"0"});
  ASSERT_GT(agent.guardian, 0) << agent.said;
  ASSERT_TRUE(eventually([&] { return rests(agent.guardian); })) << "it has started, and asked to be woken";
  kill(agent.guardian, SIGSTOP);
  kill_and_reap(agent.pid);
  EXPECT_TRUE(eventually([&] { return !board().locked(0); }));
  kill(agent.guardian, SIGCONT);  // it holds this process' output open
}

TEST_F(Keeper, AGpuThatIsLostAtTheEndIsUnlockedOnceItIsBackOrStaysOnRecord) {
  const Process agent = lock_in_another_process({"0", "1"});
  ASSERT_GT(agent.guardian, 0) << agent.said;
  board().inject(0, FaultPoint::Reset, node::nvml::kGpuIsLost, 3);
  board().inject(1, FaultPoint::Reset, node::nvml::kGpuIsLost);
  kill_and_reap(agent.pid);
  EXPECT_TRUE(eventually([&] { return !board().locked(0); }));
  EXPECT_TRUE(eventually([&] { return kill(agent.guardian, 0) != 0; })) << "it does not wait for it for long";
  EXPECT_EQ(*node::StateFile(state_).read(), std::set<std::string>{board().uuid(1)});
  board().inject(1, FaultPoint::Reset, 0);
  ASSERT_TRUE(board().locked(1));
  EXPECT_TRUE(node::LockKeeper::start(options_, nvml_));
  EXPECT_FALSE(board().locked(1)) << "by the next start";
}

TEST_F(Keeper, AnAgentWhoseGuardianDiedIsStillCleanedUpAfterAtTheNextStart) {
  const Process agent = lock_in_another_process({"0"});
  ASSERT_GT(agent.guardian, 0) << agent.said;
  kill(agent.guardian, SIGKILL);
  kill_and_reap(agent.pid);
  EXPECT_TRUE(board().locked(0));
  auto keeper = node::LockKeeper::start(options_, nvml_);
  ASSERT_TRUE(keeper) << keeper.error().message();
  EXPECT_FALSE(board().locked(0));
  EXPECT_EQ((*keeper)->counts().restored_at_start, 1);
  EXPECT_TRUE(node::StateFile(state_).read()->empty());
}

TEST_F(Keeper, ABusyGpuThatItHadLockedIsRestoredAtStartAndNoOther) {
  ASSERT_TRUE(node::StateFile(state_).write({board().uuid(0)}));
  board().lock_clocks(0, MegaHertz(1005), MegaHertz(1005));
  board().set_activity(0, Milliwatts(300'000), MegaHertz(1005), 90, Span::s(60));
  board().lock_clocks(1, MegaHertz(1005), MegaHertz(1005));  // not in the file: not ours
  auto keeper = node::LockKeeper::start(options_, nvml_);
  ASSERT_TRUE(keeper);
  EXPECT_FALSE(board().locked(0));
  EXPECT_TRUE(board().locked(1));
  EXPECT_EQ((*keeper)->counts().restored_at_start, 1);
  EXPECT_TRUE(node::StateFile(state_).read()->empty());
}

TEST_F(Keeper, AGpuIsOneAgentsWhateverStateFileAnotherKeeps) {
  options_.gpus = {board().uuid(0)};
  options_.lock_patience_s = 0;
  auto first = node::LockKeeper::start(options_, nvml_);
  ASSERT_TRUE(first) << first.error().message();
  node::KeeperOptions other = options_;
  other.state_file = state_ + ".other";
  auto second = node::LockKeeper::start(other, nvml_);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message().find(board().uuid(0)), std::string::npos) << second.error().message();
  other.gpus = {board().uuid(1)};
  EXPECT_TRUE(node::LockKeeper::start(other, nvml_)) << "another GPU is free";
  other.gpus = options_.gpus;
  first->reset();
  other.lock_patience_s = 20;  // the first's guardian has to go home, too
  EXPECT_TRUE(node::LockKeeper::start(other, nvml_));
}

TEST_F(Keeper, AnOperatorUnlocksWhatADeadAgentLeft) {
  ASSERT_TRUE(node::StateFile(state_).write({board().uuid(0), "GPU-not-here"}));
  board().lock_clocks(0, MegaHertz(1005), MegaHertz(1005));
  const auto done = node::unlock_recorded(options_, *nvml_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(done->reset, std::vector{board().uuid(0)});
  EXPECT_EQ(done->failed, std::vector<std::string>{"GPU-not-here"});
  EXPECT_FALSE(board().locked(0));
  auto keeper = node::LockKeeper::start(options_, nvml_);
  ASSERT_TRUE(keeper);
  options_.lock_patience_s = 0;
  EXPECT_FALSE(node::unlock_recorded(options_, *nvml_)) << "an agent is running";
}

TEST_F(Keeper, UnlockingWaitsForWhatIsStillDying) {
  ASSERT_TRUE(node::StateFile(state_).write({board().uuid(0)}));
  board().lock_clocks(0, MegaHertz(1005), MegaHertz(1005));
  auto dying = node::lock_state(state_, 0);
  ASSERT_TRUE(dying);
  std::jthread gone([held = std::move(*dying)]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const auto let_go = std::move(held);
  });
  const auto done = node::unlock_recorded(options_, *nvml_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_FALSE(board().locked(0));
}

TEST_F(Keeper, AdvisoryClaimsNothingAndLeavesNothing) {
  options_.advisory = true;
  auto keeper = node::LockKeeper::start(options_, nvml_);
  ASSERT_TRUE(keeper);
  EXPECT_FALSE((*keeper)->claim(board().uuid(0)));
  EXPECT_EQ((*keeper)->guardian_pid(), -1);
  EXPECT_NE(access((state_ + ".lock").c_str(), F_OK), 0) << "no file of its own";
}

TEST_F(Keeper, AnUnreadableStateFileStopsTheStartAndStaysAsItIs) {
  const std::pair<std::string, const char*> cases[] = {{"", "not a whole list"},
                                                       {"garbage\n", "not a whole list"},
                                                       {std::string(1 << 21, 'G'), "not a whole list"},
                                                       {"wattle-agent-locks 1\nGPU-cut-off", "not a whole list"},
                                                       {"wattle-agent-locks 2\nGPU\nend\n", "another version"}};
  for (const auto& [text, why] : cases) {
    std::ofstream(state_) << text;
    const auto keeper = node::LockKeeper::start(options_, nvml_);
    ASSERT_FALSE(keeper) << why;
    const std::string& said = keeper.error().message();
    EXPECT_TRUE(said.find(state_) != std::string::npos && said.find(why) != std::string::npos) << said;
    std::ifstream in(state_);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), text);
  }
  unlink(state_.c_str());
  mkdir(state_.c_str(), 0755);  // not readable as a file
  EXPECT_FALSE(node::LockKeeper::start(options_, nvml_));
  rmdir(state_.c_str());
  EXPECT_TRUE(node::LockKeeper::start(options_, nvml_)) << "no file at all is conclusive: nothing is locked";
}

TEST_F(Keeper, ASecondAgentIsTurnedAwayUntilTheFirstAndItsGuardianAreThrough) {
  const Process agent = lock_in_another_process({"0"});
  ASSERT_GT(agent.guardian, 0) << agent.said;
  options_.lock_patience_s = 0;
  EXPECT_FALSE(node::LockKeeper::start(options_, nvml_));
  board().inject(0, FaultPoint::Reset, node::nvml::kTimeout);  // its guardian cannot finish yet
  kill_and_reap(agent.pid);
  EXPECT_FALSE(node::LockKeeper::start(options_, nvml_)) << "a late reset would undo the new agent's locks";
  board().inject(0, FaultPoint::Reset, 0);
  options_.lock_patience_s = 20;
  EXPECT_TRUE(node::LockKeeper::start(options_, nvml_));
  EXPECT_FALSE(board().locked(0));
}

TEST_F(Keeper, NothingIsLockedThatCouldNotBeRemembered) {
  options_.state_file = path_ + ".dir/state";
  mkdir((path_ + ".dir").c_str(), 0755);
  auto keeper = node::LockKeeper::start(options_, nvml_).value();
  // Where the draft must go, there is a directory: every write fails, reading still says "no file".
  mkdir((options_.state_file + ".new").c_str(), 0755);
  {
    node::Actuator actuator({{InstanceId(0), {nvml_->by_index(0).value()}}}, keeper);
    actuator.command(InstanceId(0), MegaHertz(1005), Instant());
    EXPECT_TRUE(eventually([&] { return keeper->counts().persist_failures >= 2; })) << "it is tried again";
    EXPECT_EQ(board().calls(0).sets, 0);
    rmdir((options_.state_file + ".new").c_str());
    EXPECT_TRUE(eventually([&] { return board().locked(0); })) << "and acted upon once it can be";
  }
  EXPECT_FALSE(board().locked(0));
  unlink(options_.state_file.c_str());
  unlink((options_.state_file + ".lock").c_str());
  rmdir((path_ + ".dir").c_str());
}

TEST_F(Keeper, WhereNothingCanBeRememberedNoAgentStarts) {
  mkdir((state_ + ".new").c_str(), 0755);  // in the draft's place
  const auto keeper = node::LockKeeper::start(options_, nvml_);
  ASSERT_FALSE(keeper);
  EXPECT_EQ(keeper.error().kind, ErrorKind::External);
  EXPECT_EQ(keeper.error().where, state_ + ".new") << keeper.error().message();
  rmdir((state_ + ".new").c_str());
}

TEST_F(Keeper, AKilledGuardianIsReplacedAndKnowsWhatIsLocked) {
  auto keeper = node::LockKeeper::start(options_, nvml_).value();
  ASSERT_TRUE(keeper->claim(board().uuid(0)));
  const pid_t first = keeper->guardian_pid();
  kill(first, SIGKILL);
  EXPECT_TRUE(eventually([&] {
    keeper->check();
    return keeper->guardian_pid() != first;
  }));
  EXPECT_EQ(keeper->counts().guardian_restarts, 1);
  board().lock_clocks(0, MegaHertz(1005), MegaHertz(1005));
  keeper.reset();  // as a death of ours looks to the guardian: its socket closes
  EXPECT_TRUE(eventually([&] { return !board().locked(0); }));
}

TEST_F(Keeper, APowerLimitComesBackByTheGuardianAndByTheNextStart) {
  const std::string claim = node::claim_of_power(board().uuid(0), Milliwatts(300'000));
  const auto is_back = [&] { return board().power_limit(0) == Milliwatts(300'000); };
  auto keeper = node::LockKeeper::start(options_, nvml_).value();
  ASSERT_TRUE(keeper->claim(claim));
  board().set_power_limit(0, Milliwatts(150'000));
  keeper.reset();
  EXPECT_TRUE(eventually(is_back)) << "the guardian's";
  EXPECT_TRUE(eventually([&] { return node::StateFile(state_).read()->empty(); }));

  board().set_power_limit(0, Milliwatts(150'000));
  ASSERT_TRUE(node::StateFile(state_).write({claim}));
  keeper = node::LockKeeper::start(options_, nvml_).value();
  EXPECT_TRUE(is_back());
  EXPECT_EQ(keeper->counts().restored_at_start, 1);
  EXPECT_TRUE(node::StateFile(state_).read()->empty());
  EXPECT_FALSE(node::undo(*nvml_, board().uuid(0) + " power_limit_mw=much"));
}

}  // namespace
}  // namespace wattle::live
