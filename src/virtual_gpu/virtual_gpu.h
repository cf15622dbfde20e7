#pragma once
// GPUs that exist only in a shared-memory file: the fake libnvidia-ml.so.1 drives them, the mock engine loads them.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::virtual_gpu {

/// What the creator of a board asks for. Written as `PATH[,key=value]...`; the first to open the path creates the
/// board from its own spec, everyone later gets the board as it is.
struct BoardSpec {
  std::string path;                            ///< shared-memory file, e.g. /dev/shm/gpus
  std::string name = "NVIDIA A100-SXM4-80GB";  ///< name=
  std::int32_t count = 1;                      ///< count=, at most kMaxGpus
  MegaHertz clock_min{210};                    ///< clock_min= MHz
  MegaHertz clock_max{1410};                   ///< clock_max= MHz
  MegaHertz clock_step{15};                    ///< clock_step= MHz
  MegaHertz memory_clock{1593};                ///< memory_clock= MHz
  Milliwatts power_limit{400'000};             ///< power_limit_w=
  Milliwatts power_limit_min{100'000};         ///< power_limit_min_w=
  Milliwatts idle_power{52'000};               ///< idle_w=; draw while no engine has the GPU
  Span call_delay = Span::ms(3);               ///< call_ms=; how long a set call blocks
  Span transition_delay = Span::ms(20);        ///< transition_ms=; from the call's return to the clock being there
};

inline constexpr std::int32_t kMaxGpus = 512;
inline constexpr const char* kBoardVariable = "WATTLE_FAKE_NVML";         ///< environment: the spec
inline constexpr const char* kFaultVariable = "WATTLE_FAKE_NVML_FAULTS";  ///< environment: see FaultPoint

[[nodiscard]] Result<BoardSpec> parse_board_spec(std::string_view text);

/// Where an injected fault applies. In the environment: `set=4,reset=10*3,get=15` (NVML code, `*n` = the next n calls).
enum class FaultPoint : std::uint8_t { Set, Reset, Get };
inline constexpr std::int32_t kFaultForever = -1;

/// Engine's view of what it runs on right now.
struct ClockState {
  MegaHertz ceiling;    ///< no step runs faster; the lock once its transition is over
  bool locked = false;  ///< false: ceiling is the GPU's maximum
};

/// Counts of driver calls that reached the device, for tests.
struct CallCounts {
  std::int64_t sets = 0;
  std::int64_t resets = 0;
};

/// A mapping of the shared board. Methods are safe to call from any thread of any process; a process killed in the
/// middle of a call leaves the state before or after that call, never between (two slots, flipped; robust mutex).
/// `gpu` is an index below count().
class Board {
 public:
  /// Opens the board or creates it. Errors: bad spec, file not ours, cannot create.
  [[nodiscard]] static Result<Board> open(const BoardSpec& spec);
  /// The board named by WATTLE_FAKE_NVML.
  [[nodiscard]] static Result<Board> open_from_environment();
  ~Board();
  Board(Board&& other) noexcept;
  Board& operator=(Board&& other) noexcept;

  [[nodiscard]] std::int32_t count() const;
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::string uuid(std::int32_t gpu) const;
  [[nodiscard]] MegaHertz clock_min() const;
  [[nodiscard]] MegaHertz clock_max() const;
  [[nodiscard]] MegaHertz clock_step() const;
  [[nodiscard]] MegaHertz memory_clock() const;
  [[nodiscard]] Milliwatts power_limit_default() const;
  [[nodiscard]] Milliwatts power_limit_min() const;
  /// CLOCK_MONOTONIC, the same in all processes; or the time a test has set.
  [[nodiscard]] Instant now() const;

  // The engine's side.
  [[nodiscard]] ClockState clock(std::int32_t gpu) const;
  /// From now on the GPU draws `power` at `reached` (the clock after power clipping), until the next call; if none
  /// comes within `lease` the engine is taken for dead and the GPU falls back to its idle draw.
  void set_activity(std::int32_t gpu, Milliwatts power, MegaHertz reached, std::int32_t utilization_percent,
                    Span lease);
  /// The engine leaves.
  void release(std::int32_t gpu);

  // The driver's side.
  void lock_clocks(std::int32_t gpu, MegaHertz min, MegaHertz max);
  void reset_clocks(std::int32_t gpu);
  [[nodiscard]] MegaHertz sm_clock(std::int32_t gpu) const;
  [[nodiscard]] bool locked(std::int32_t gpu) const;  ///< a lock is requested, reached or not
  [[nodiscard]] Milliwatts power(std::int32_t gpu) const;
  [[nodiscard]] Milliwatts power_one_second(std::int32_t gpu) const;  ///< mean of the last second
  [[nodiscard]] Picojoules energy(std::int32_t gpu) const;            ///< ground truth, to the nanosecond
  [[nodiscard]] Picojoules energy_counter(std::int32_t gpu) const;    ///< as a driver shows it: 100 ms old at worst
  [[nodiscard]] std::int32_t utilization_percent(std::int32_t gpu) const;
  [[nodiscard]] std::int32_t engine_pid(std::int32_t gpu) const;  ///< 0 = none
  [[nodiscard]] Milliwatts power_limit(std::int32_t gpu) const;
  void set_power_limit(std::int32_t gpu, Milliwatts limit);
  /// Returns after as long as a set call blocks.
  void block(std::int32_t gpu) const;

  // The tests' side.
  void inject(std::int32_t gpu, FaultPoint point, std::int32_t nvml_code, std::int32_t times = kFaultForever);
  /// The NVML code this call must fail with, 0 = none; consumes one of a counted fault.
  [[nodiscard]] std::int32_t take_fault(std::int32_t gpu, FaultPoint point);
  /// Set calls block this much longer (a hung driver), those that have begun, too: Span() lets them go on at once.
  void hang(std::int32_t gpu, Span extra);
  [[nodiscard]] CallCounts calls(std::int32_t gpu) const;
  /// Stops the board's time at `t` (not before its creation) for all processes; Instant::never() lets it run again.
  void set_time(Instant t);

 private:
  struct Shared;
  struct Gpu;
  struct Slot;
  class Update;
  Board(Shared* shared, std::size_t bytes) : shared_(shared), bytes_(bytes) {}
  [[nodiscard]] Slot read(std::int32_t gpu) const;
  [[nodiscard]] Picojoules energy_at(std::int32_t gpu, Instant t) const;

  Shared* shared_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace wattle::virtual_gpu
