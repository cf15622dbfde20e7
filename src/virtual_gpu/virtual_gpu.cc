#include "virtual_gpu/virtual_gpu.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

namespace wattle::virtual_gpu {

namespace {

constexpr std::uint64_t kMagic = 0x77617474'6c673032;  // "wattlg02"
constexpr std::uint32_t kRing = 4096;
/// Energy counters of real boards refresh about ten times a second, and not in step with each other.
constexpr std::int64_t kQuantumNs = 100'000'000;
constexpr std::int64_t kQuantumSkewNs = 17'000'000;

struct Point {
  std::int64_t at_ns;
  std::int64_t energy_nj;
};

struct Fault {
  std::atomic<std::int32_t> code;
  std::atomic<std::int32_t> remaining;
};

std::int64_t monotonic_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void sleep_ns(std::int64_t ns) {
  timespec t{ns / 1'000'000'000, ns % 1'000'000'000};
  while (nanosleep(&t, &t) != 0) {
  }
}

}  // namespace

/// One GPU's state; a writer fills the inactive slot and flips, so a killed writer leaves nothing half-done.
struct Board::Slot {
  std::int64_t since_ns;  ///< energy_pj is exact at this instant
  Int128 energy_pj;
  std::int64_t power_mw;
  std::int64_t lease_until_ns;
  std::int64_t power_limit_mw;
  std::int64_t effective_at_ns;  ///< target_ceiling holds from here, before_ceiling until then
  std::int64_t sets;
  std::int64_t resets;
  std::int32_t before_ceiling;
  std::int32_t target_ceiling;
  std::int32_t lock_min;  ///< 0 = unlocked
  std::int32_t reached_mhz;
  std::int32_t utilization;
  std::int32_t engine_pid;
  std::uint32_t points;  ///< energy points ever written
};

struct Board::Gpu {
  pthread_mutex_t mutex;
  std::atomic<std::uint32_t> active;
  std::array<Slot, 2> slots;
  std::array<Point, kRing> ring;
  std::array<Fault, 3> faults;
  std::atomic<std::int64_t> extra_delay_ns;
};

struct Board::Shared {
  std::uint64_t magic;
  std::int64_t bytes;
  std::array<char, 64> name;
  std::uint64_t identity;
  std::int32_t count, clock_min, clock_max, clock_step, memory_clock;
  std::int64_t power_limit_mw, power_limit_min_mw, idle_mw, call_ns, transition_ns;
  std::atomic<std::int64_t> manual_ns;  ///< negative: time runs
  std::array<Gpu, kMaxGpus> gpus;
};

/// Locks a GPU and brings a copy of its state up to `now`; a writer publishes that copy when it goes out of scope.
class Board::Update {
 public:
  enum class For : std::uint8_t { Reading, Writing };

  Update(const Shared& shared, Gpu& gpu, std::int64_t now, For purpose) : gpu_(gpu), purpose_(purpose) {
    if (pthread_mutex_lock(&gpu_.mutex) == EOWNERDEAD) pthread_mutex_consistent(&gpu_.mutex);
    slot = gpu_.slots[gpu_.active.load(std::memory_order_relaxed)];
    if (now <= slot.since_ns) return;
    if (slot.lease_until_ns > slot.since_ns && slot.lease_until_ns <= now) {  // the engine died in between
      advance(slot.lease_until_ns, slot.power_mw);
      slot.engine_pid = 0;
      slot.utilization = 0;
    }
    advance(now, slot.since_ns < slot.lease_until_ns ? slot.power_mw : shared.idle_mw);
  }
  ~Update() {
    if (purpose_ == For::Writing) {
      const std::uint32_t next = 1 - gpu_.active.load(std::memory_order_relaxed);
      gpu_.slots[next] = slot;
      gpu_.active.store(next, std::memory_order_release);
    }
    pthread_mutex_unlock(&gpu_.mutex);
  }
  Update(const Update&) = delete;
  Update& operator=(const Update&) = delete;

  Slot slot;

 private:
  void advance(std::int64_t to, std::int64_t power_mw) {
    slot.energy_pj += Int128{power_mw} * (to - slot.since_ns);
    slot.since_ns = to;
    if (purpose_ == For::Reading) return;
    // Ring entries at and beyond `points` are invisible until the slot is published.
    gpu_.ring[slot.points % kRing] = {to, static_cast<std::int64_t>(slot.energy_pj / 1000)};
    ++slot.points;
  }
  Gpu& gpu_;
  For purpose_;
};

Result<Board> Board::open(const BoardSpec& spec) {
  const auto map = [&](int fd, std::size_t bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? nullptr : static_cast<Shared*>(at);
  };
  for (int attempt = 0; attempt < 2; ++attempt) {
    const int fd = ::open(spec.path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
      struct stat info {};
      Shared* shared = nullptr;
      if (fstat(fd, &info) == 0 && info.st_size == static_cast<off_t>(sizeof(Shared))) shared = map(fd, sizeof(Shared));
      ::close(fd);
      if (shared == nullptr)
        return bad_input(spec.path, "is not a board of virtual GPUs; name a file that does not exist");
      if (shared->magic != kMagic || shared->bytes != static_cast<std::int64_t>(sizeof(Shared))) {
        munmap(shared, sizeof(Shared));
        return bad_input(spec.path, "is a board of another version; delete it");
      }
      return Board(shared, sizeof(Shared));
    }
    if (errno != ENOENT) return external_failure(spec.path, std::string("cannot open: ") + std::strerror(errno));

    // Creates the board under a temporary name and links it, so that it is never visible half-made and one of two
    // creators wins.
    std::string draft = spec.path + ".XXXXXX";
    const int draft_fd = mkostemp(draft.data(), O_CLOEXEC);
    if (draft_fd < 0) return external_failure(spec.path, std::string("cannot create: ") + std::strerror(errno));
    Shared* shared = ftruncate(draft_fd, sizeof(Shared)) == 0 ? map(draft_fd, sizeof(Shared)) : nullptr;
    ::close(draft_fd);
    if (shared == nullptr) {
      ::unlink(draft.c_str());
      return external_failure(spec.path, "cannot map the new board");
    }
    shared->bytes = sizeof(Shared);
    std::snprintf(shared->name.data(), shared->name.size(), "%s", spec.name.c_str());
    shared->identity = std::hash<std::string>{}(spec.path);
    shared->count = spec.count;
    shared->clock_min = spec.clock_min.value();
    shared->clock_max = spec.clock_max.value();
    shared->clock_step = spec.clock_step.value();
    shared->memory_clock = spec.memory_clock.value();
    shared->power_limit_mw = spec.power_limit.value();
    shared->power_limit_min_mw = spec.power_limit_min.value();
    shared->idle_mw = spec.idle_power.value();
    shared->call_ns = spec.call_delay.ns();
    shared->transition_ns = spec.transition_delay.ns();
    shared->manual_ns = -1;
    pthread_mutexattr_t robust;
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setpshared(&robust, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    for (auto& gpu : shared->gpus) {
      pthread_mutex_init(&gpu.mutex, &robust);
      Slot& slot = gpu.slots[0];
      slot.since_ns = monotonic_ns();
      slot.power_mw = shared->idle_mw;
      slot.power_limit_mw = shared->power_limit_mw;
      slot.before_ceiling = slot.target_ceiling = shared->clock_max;
      slot.reached_mhz = shared->clock_min;
      gpu.ring[0] = {slot.since_ns, 0};
      slot.points = 1;
    }
    pthread_mutexattr_destroy(&robust);
    shared->magic = kMagic;
    const bool won = ::link(draft.c_str(), spec.path.c_str()) == 0;
    const int why = errno;
    ::unlink(draft.c_str());
    if (won) return Board(shared, sizeof(Shared));
    munmap(shared, sizeof(Shared));
    if (why != EEXIST) return external_failure(spec.path, std::string("cannot create: ") + std::strerror(why));
  }
  return external_failure(spec.path, "vanished while being opened");
}

Result<Board> Board::open_from_environment() {
  const char* text = std::getenv(kBoardVariable);
  if (text == nullptr) return bad_input(kBoardVariable, "is not set; it names the board of virtual GPUs");
  auto spec = parse_board_spec(text);
  if (!spec) return std::unexpected(spec.error());
  return open(*spec);
}

Board::~Board() {
  if (shared_ != nullptr) munmap(shared_, bytes_);
}
Board::Board(Board&& other) noexcept : shared_(std::exchange(other.shared_, nullptr)), bytes_(other.bytes_) {}
Board& Board::operator=(Board&& other) noexcept {
  std::swap(shared_, other.shared_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

std::int32_t Board::count() const { return shared_->count; }
std::string Board::name() const { return shared_->name.data(); }
MegaHertz Board::clock_min() const { return MegaHertz(shared_->clock_min); }
MegaHertz Board::clock_max() const { return MegaHertz(shared_->clock_max); }
MegaHertz Board::clock_step() const { return MegaHertz(shared_->clock_step); }
MegaHertz Board::memory_clock() const { return MegaHertz(shared_->memory_clock); }
Milliwatts Board::power_limit_default() const { return Milliwatts(shared_->power_limit_mw); }
Milliwatts Board::power_limit_min() const { return Milliwatts(shared_->power_limit_min_mw); }

std::string Board::uuid(std::int32_t gpu) const {
  std::array<char, 48> text{};
  const std::uint64_t id = shared_->identity;
  std::snprintf(text.data(), text.size(), "GPU-%08x-%04x-%04x-beef-%012x", static_cast<unsigned>(id >> 32),
                static_cast<unsigned>(id >> 16) & 0xffffU, static_cast<unsigned>(id) & 0xffffU,
                static_cast<unsigned>(gpu));
  return text.data();
}

Instant Board::now() const {
  const std::int64_t manual = shared_->manual_ns.load(std::memory_order_acquire);
  return Instant(manual >= 0 ? manual : monotonic_ns());
}

void Board::set_time(Instant t) {
  shared_->manual_ns.store(t == Instant::never() ? -1 : t.ns(), std::memory_order_release);
}

Board::Slot Board::read(std::int32_t gpu) const {
  return Update(*shared_, shared_->gpus[static_cast<std::size_t>(gpu)], now().ns(), Update::For::Reading).slot;
}

ClockState Board::clock(std::int32_t gpu) const {
  const std::int64_t t = now().ns();
  const Slot slot = read(gpu);
  return {MegaHertz(t >= slot.effective_at_ns ? slot.target_ceiling : slot.before_ceiling), slot.lock_min != 0};
}

void Board::set_activity(std::int32_t gpu, Milliwatts power, MegaHertz reached, std::int32_t utilization_percent,
                         Span lease) {
  const std::int64_t t = now().ns();
  Update update(*shared_, shared_->gpus[static_cast<std::size_t>(gpu)], t, Update::For::Writing);
  update.slot.power_mw = power.value();
  update.slot.reached_mhz = reached.value();
  update.slot.utilization = utilization_percent;
  update.slot.lease_until_ns = t + lease.ns();
  update.slot.engine_pid = getpid();
}

void Board::release(std::int32_t gpu) {
  const std::int64_t t = now().ns();
  Update update(*shared_, shared_->gpus[static_cast<std::size_t>(gpu)], t, Update::For::Writing);
  update.slot.lease_until_ns = t;
  update.slot.utilization = 0;
  update.slot.engine_pid = 0;
}

void Board::lock_clocks(std::int32_t gpu, MegaHertz min, MegaHertz max) {
  const std::int64_t t = now().ns();
  Update update(*shared_, shared_->gpus[static_cast<std::size_t>(gpu)], t, Update::For::Writing);
  Slot& slot = update.slot;
  // As real drivers do, a value between two steps becomes the lower one, and the ends of the range hold.
  const auto supported = [this](MegaHertz f) {
    const std::int32_t in_range = std::clamp(f.value(), shared_->clock_min, shared_->clock_max);
    return in_range - (in_range - shared_->clock_min) % shared_->clock_step;
  };
  slot.before_ceiling = t >= slot.effective_at_ns ? slot.target_ceiling : slot.before_ceiling;
  slot.target_ceiling = supported(max);
  slot.lock_min = supported(min);
  slot.effective_at_ns = slot.before_ceiling == slot.target_ceiling ? t : t + shared_->transition_ns;
  ++slot.sets;
}

void Board::reset_clocks(std::int32_t gpu) {
  const std::int64_t t = now().ns();
  Update update(*shared_, shared_->gpus[static_cast<std::size_t>(gpu)], t, Update::For::Writing);
  Slot& slot = update.slot;
  slot.before_ceiling = t >= slot.effective_at_ns ? slot.target_ceiling : slot.before_ceiling;
  slot.target_ceiling = shared_->clock_max;
  slot.lock_min = 0;
  slot.effective_at_ns = slot.before_ceiling == slot.target_ceiling ? t : t + shared_->transition_ns;
  ++slot.resets;
}

MegaHertz Board::sm_clock(std::int32_t gpu) const {
  const ClockState state = clock(gpu);
  const Slot slot = read(gpu);
  if (slot.engine_pid != 0) return std::min(MegaHertz(slot.reached_mhz), state.ceiling);
  return state.locked ? state.ceiling : clock_min();
}

bool Board::locked(std::int32_t gpu) const { return read(gpu).lock_min != 0; }

Milliwatts Board::power(std::int32_t gpu) const {
  const Slot slot = read(gpu);
  return Milliwatts(slot.engine_pid != 0 ? slot.power_mw : shared_->idle_mw);
}

Picojoules Board::energy(std::int32_t gpu) const { return Picojoules(read(gpu).energy_pj); }

Picojoules Board::energy_at(std::int32_t gpu, Instant t) const {
  Gpu& device = shared_->gpus[static_cast<std::size_t>(gpu)];
  // Brought up to t if t is after the newest change, otherwise left at that change; locked while the past is read.
  const Update update(*shared_, device, t.ns(), Update::For::Reading);
  if (update.slot.since_ns <= t.ns()) return Picojoules(update.slot.energy_pj);
  // The first point after t, by binary search; energy is linear between points.
  std::uint32_t low = update.slot.points > kRing ? update.slot.points - kRing : 0;
  const std::uint32_t oldest = low;
  std::uint32_t high = update.slot.points - 1;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (device.ring[middle % kRing].at_ns > t.ns()) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  const Point after = device.ring[low % kRing];
  if (low == oldest) return Picojoules(Int128{after.energy_nj} * 1000);
  const Point before = device.ring[(low - 1) % kRing];
  const Int128 share =
      Int128{after.energy_nj - before.energy_nj} * (t.ns() - before.at_ns) / (after.at_ns - before.at_ns);
  return Picojoules((Int128{before.energy_nj} + share) * 1000);
}

Picojoules Board::energy_counter(std::int32_t gpu) const {
  const std::int64_t skewed = now().ns() - gpu * kQuantumSkewNs;
  return energy_at(gpu, Instant(skewed - skewed % kQuantumNs + gpu * kQuantumSkewNs));
}

Milliwatts Board::power_one_second(std::int32_t gpu) const {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const Instant t = now();
  const Int128 used = (energy_at(gpu, t) - energy_at(gpu, t - Span(kSecond))).value();
  return Milliwatts(static_cast<std::int64_t>(used / kSecond));
}

std::int32_t Board::utilization_percent(std::int32_t gpu) const { return read(gpu).utilization; }
std::int32_t Board::engine_pid(std::int32_t gpu) const { return read(gpu).engine_pid; }
Milliwatts Board::power_limit(std::int32_t gpu) const { return Milliwatts(read(gpu).power_limit_mw); }
void Board::set_power_limit(std::int32_t gpu, Milliwatts limit) {
  Update update(*shared_, shared_->gpus[static_cast<std::size_t>(gpu)], now().ns(), Update::For::Writing);
  update.slot.power_limit_mw = limit.value();
}

void Board::inject(std::int32_t gpu, FaultPoint point, std::int32_t nvml_code, std::int32_t times) {
  Fault& fault = shared_->gpus[static_cast<std::size_t>(gpu)].faults[static_cast<std::size_t>(point)];
  fault.remaining = 0;
  fault.code = nvml_code;
  fault.remaining = nvml_code == 0 ? 0 : times;
}

std::int32_t Board::take_fault(std::int32_t gpu, FaultPoint point) {
  Fault& fault = shared_->gpus[static_cast<std::size_t>(gpu)].faults[static_cast<std::size_t>(point)];
  std::int32_t left = fault.remaining.load();
  while (left > 0 && !fault.remaining.compare_exchange_weak(left, left - 1)) {
  }
  return left == 0 ? 0 : fault.code.load();
}

void Board::hang(std::int32_t gpu, Span extra) {
  shared_->gpus[static_cast<std::size_t>(gpu)].extra_delay_ns = extra.ns();
}
void Board::block(std::int32_t gpu) const {
  sleep_ns(shared_->call_ns);
  const std::int64_t begin = monotonic_ns();
  while (monotonic_ns() - begin < shared_->gpus[static_cast<std::size_t>(gpu)].extra_delay_ns) sleep_ns(1'000'000);
}

CallCounts Board::calls(std::int32_t gpu) const {
  const Slot slot = read(gpu);
  return {slot.sets, slot.resets};
}

}  // namespace wattle::virtual_gpu
