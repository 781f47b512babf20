// The ranks that a launcher started: what the environment says, and MPI loaded where there are several.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/files.h"
#include "distributed/engine.h"
#include "heed/distributed.h"

namespace heed::distributed {

namespace {

namespace fs = std::filesystem;

std::optional<int> number_from(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view value(text);
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < 0) return std::nullopt;
  return number;
}

// Where the plugin may lie: named, beside what runs (bin/heed and lib/heed), or beside the library (lib/libheed.so).
std::vector<fs::path> plugin_places() {
  if (const char* const named = std::getenv("HEED_MPI_ENGINE")) return {named};
  const char* const name = "libheed_mpi.so";
  std::vector<fs::path> places;
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  places.push_back(program.parent_path() / HEED_LIBRARY_FOLDER / "heed" / name);
  places.push_back(program.parent_path() / "lib" / "heed" / name);
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&launch), &info) != 0 && info.dli_fname != nullptr) {
    places.push_back(fs::absolute(info.dli_fname, ignored).parent_path() / "heed" / name);
  }
  return places;
}

struct Loaded {
  const Engine* engine = nullptr;
  std::string problem;  // where there is none
};

#ifdef HEED_MPI
constexpr bool kBuiltWithMpi = true;
#else
constexpr bool kBuiltWithMpi = false;
#endif

Loaded load_engine() {
  if (!kBuiltWithMpi) return {nullptr, "this heed was built without MPI"};
  std::error_code ignored;
  for (const fs::path& file : plugin_places()) {
    if (!fs::exists(file, ignored)) continue;
    // MPI's own plugins look for MPI's symbols among those of the process.
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) return {nullptr, std::string("MPI cannot be loaded: ") + dlerror()};
    const auto* const engine = static_cast<const Engine*>(dlsym(library, kEngineSymbol));
    if (engine == nullptr || engine->version != kEngineVersion) {
      return {nullptr, files::quoted(file) + " belongs to another version of heed"};
    }
    return {engine, {}};
  }
  return {nullptr, "its part for MPI, libheed_mpi.so, is missing"};
}

// MPI, as a communicator and its messages share it; messages may outlive the communicator. One thread at a time calls
// MPI, under `lock`, and nobody does where it is not usable.
struct SharedMpi {
  explicit SharedMpi(const Engine& table) : engine(table) {}
  void require_usable() const {
    require(usable, "distributed",
            "messages that can go on; found one that was given up, whose memory MPI may still use");
  }
  const Engine& engine;
  std::mutex lock;
  bool usable = true;  // not after its end, nor where it may use memory that is gone
};

// Calls MPI now and then while the rank computes.
class Progress {
 public:
  explicit Progress(SharedMpi& mpi) : mpi_(mpi) {}
  ~Progress() {
    {
      const std::lock_guard guard(wake_lock_);
      ended_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  void set(bool on) {
    if (on && !thread_.joinable()) thread_ = std::thread([this] { run(); });
    {
      const std::lock_guard guard(wake_lock_);
      on_ = on;
    }
    if (on) wake_.notify_one();
  }

 private:
  // Each time the thread wakes up, it takes the core from the rank that computes. In a virtual machine that is dear:
  // two ranks on two cores of an Emerald Rapids trained with 0.84 of the speed of one process when it woke up every 100
  // microseconds, and with 0.97 at this distance. One call moves some 100 KB at most, which takes longer than a call
  // that finds nothing to move: then it is called again.
  static constexpr std::chrono::microseconds kDistance{1000};
  static constexpr double kMoved = 4e-6;  // seconds
  static constexpr int kMostCalls = 40;

  void run() {
    std::unique_lock guard(wake_lock_);
    while (!ended_) {
      if (!on_) {
        wake_.wait(guard, [this] { return on_ || ended_; });
        continue;
      }
      guard.unlock();
      for (int call = 0; call < kMostCalls && mpi_.lock.try_lock(); ++call) {
        const Clock::time_point start = Clock::now();
        if (mpi_.usable) mpi_.engine.progress();
        mpi_.lock.unlock();
        if (seconds_since(start) < kMoved) break;
      }
      std::this_thread::sleep_for(kDistance);
      guard.lock();
    }
  }

  SharedMpi& mpi_;
  std::mutex wake_lock_;
  std::condition_variable wake_;
  bool on_ = false, ended_ = false;
  std::thread thread_;
};

class MpiTransfer : public Transfer {
 public:
  MpiTransfer(std::shared_ptr<SharedMpi> mpi, int64_t expected) : mpi_(std::move(mpi)), expected_(expected) {}
  // Where the message is not complete, its memory may be freed next, so MPI has to let go of it. That takes no time for
  // a receive that nothing was sent to. What is under way is waited for; where it does not end, because its peer is
  // lost, MPI is not called any more, for it could go on with that message.
  ~MpiTransfer() override {
    const Clock::time_point start = Clock::now();
    while (!handles_.empty()) {
      {
        const std::lock_guard guard(mpi_->lock);
        if (!mpi_->usable) return;
        if (mpi_->engine.cancel(handles_.back()) != 0) {
          handles_.pop_back();
          continue;
        }
        if (seconds_since(start) > kPatience) mpi_->usable = false;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  MpiTransfer(const MpiTransfer&) = delete;
  MpiTransfer& operator=(const MpiTransfer&) = delete;
  void add(void* handle) { handles_.push_back(handle); }

 private:
  static constexpr double kPatience = 1;  // seconds

  bool poll() override {
    while (!handles_.empty()) {
      int count = 0;
      const std::lock_guard guard(mpi_->lock);
      mpi_->require_usable();
      const int status = mpi_->engine.poll(handles_.back(), &count);
      require(status >= 0, "distributed", "a message that arrives; ", mpi_->engine.message());
      if (status == 0) return false;
      handles_.pop_back();
      moved_ += count;
    }
    require(expected_ < 0 || moved_ == expected_, "distributed", "a message of ", expected_, " bytes; found ", moved_);
    return true;
  }
  std::shared_ptr<SharedMpi> mpi_;
  std::vector<void*> handles_;  // not complete
  int64_t expected_;            // -1: a message that is sent
  int64_t moved_ = 0;
};

class Mpi : public Communicator {
 public:
  Mpi(const Engine& engine, int rank, int size)
      : Communicator(rank, size),
        mpi_(std::make_shared<SharedMpi>(engine)),
        progress_(std::make_unique<Progress>(*mpi_)) {
    char name[64] = {};
    gethostname(name, sizeof name - 1);
    introduce(name, getpid());
  }
  ~Mpi() override {
    progress_.reset();
    if (std::uncaught_exceptions() > 0 || !mpi_->usable) return;  // the others may be gone, and would be waited for
    try {
      leave();
      if (gave_up()) mpi_->engine.abort(exit_status());  // MPI would wait for the rank that does not answer
      const std::lock_guard guard(mpi_->lock);
      mpi_->usable = false;
      mpi_->engine.finish();
    } catch (const Error&) {
      return;  // a rank that died after its work was done
    }
  }
  std::string engine() const override {
    const std::string text = mpi_->engine.library();
    return text.substr(0, text.find_first_of(",\n"));
  }
  void abort(int status) override {
    // One thread at a time calls MPI, but for one that does not come back.
    for (int turn = 0; turn < 20 && !mpi_->lock.try_lock(); ++turn)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    mpi_->engine.abort(status);
    _exit(status);
  }

 protected:
  TransferPtr begin_send(std::span<const std::byte> bytes, int to, int channel) override {
    return start(-1, bytes.size(),
                 [&](size_t at, int count) { return mpi_->engine.send(bytes.data() + at, count, to, channel); });
  }
  TransferPtr begin_receive(std::span<std::byte> bytes, int from, int channel) override {
    return start(static_cast<int64_t>(bytes.size()), bytes.size(),
                 [&](size_t at, int count) { return mpi_->engine.receive(bytes.data() + at, count, from, channel); });
  }

  void keep_going(bool on) override { progress_->set(on); }

 private:
  template <class F>
  TransferPtr start(int64_t expected, size_t size, const F& begin) {
    auto transfer = std::make_unique<MpiTransfer>(mpi_, expected);
    size_t at = 0;
    do {
      const size_t count = std::min(size - at, static_cast<size_t>(kMostBytes));
      const std::lock_guard guard(mpi_->lock);
      mpi_->require_usable();
      void* const handle = begin(at, static_cast<int>(count));
      require(handle != nullptr, "distributed", "a message that can be sent or received; ", mpi_->engine.message());
      transfer->add(handle);
      at += count;
    } while (at < size);
    return transfer;
  }
  std::shared_ptr<SharedMpi> mpi_;
  std::unique_ptr<Progress> progress_;
};

}  // namespace

Launch launch() {
  struct Launcher {
    const char *rank, *size, *name;
  };
  // srun sets the number of tasks of a step; the shell of a batch job, which is alone, has none.
  constexpr Launcher kLaunchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun"},
                                     {"PMI_RANK", "PMI_SIZE", "mpirun"},
                                     {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun"}};
  for (const Launcher& each : kLaunchers) {
    const auto rank = number_from(each.rank), size = number_from(each.size);
    if (rank && size && *rank < *size) return {.rank = *rank, .size = *size, .by = each.name};
  }
  return {};
}

std::unique_ptr<Communicator> world() {
  const Launch started = launch();
  if (started.size == 1) return single();
  const Loaded loaded = load_engine();
  require(loaded.engine != nullptr, "distributed", "MPI, for the ", started.size, " processes that ", started.by,
          " started; ", loaded.problem);
  int rank = 0, size = 1;
  require(loaded.engine->start(&rank, &size) == 0, "distributed", "MPI that starts; ", loaded.engine->message());
  require(size == started.size, "distributed", "the ", started.size, " processes that ", started.by,
          " started; MPI found ", size, " (is it the MPI that heed was built with?)");
  return std::make_unique<Mpi>(*loaded.engine, rank, size);
}

std::string engine_found() {
  const Loaded loaded = load_engine();
  if (loaded.engine == nullptr) return loaded.problem;
  const std::string text = loaded.engine->library();
  return text.substr(0, text.find_first_of(",\n"));
}

}  // namespace heed::distributed
