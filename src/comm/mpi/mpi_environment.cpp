#include "comm/mpi/mpi_environment.hpp"

#include "base/log.hpp"
#include "base/memory/neighbour_memory.hpp"
#include "comm/failure/crash_report.hpp"
#include "comm/failure/watchdog.hpp"
#include "comm/mpi/check.hpp"
#include "comm/mpi/failure_reporter_election.hpp"
#include "comm/mpi/mpi_communicator.hpp"

#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr unsigned kExitSeconds = 5;

/// Whether mpirun, Slurm or another launcher has started this process, by PMIx or PMI.
bool is_launched() { return std::getenv("PMIX_RANK") != nullptr || std::getenv("PMI_RANK") != nullptr; }

/// Sets defaults of Open MPI that the user has not set.
void set_library_defaults() {
  constexpr int kKeepUsers = 0;
  // With yielding, each test that finds nothing to do might cost a slice of the scheduler beside a process
  // that only computes. Waits have their own pauses (comm/wait.cpp), and MPI's blocking calls (start, split,
  // finalize) are short.
  setenv("OMPI_MCA_mpi_yield_when_idle", "0", kKeepUsers);
  // A process that was started alone needs no daemon of its own.
  setenv("OMPI_MCA_ess_singleton_isolated", "1", kKeepUsers);
  // A process that was started alone needs no session directory: all such processes of a user share one,
  // which each removes when it ends, so that one that starts meanwhile fails in MPI_Init.
  if (!is_launched()) setenv("OMPI_MCA_orte_create_session_dirs", "0", kKeepUsers);
}

/// Turns off Open MPI 4's blocks of help, here for the one that MPI_Abort adds to a message that says it all.
/// Open MPI 5 and other MPIs have no such switch. It is set in place, because no option does only that:
/// `mpirun --quiet` also hides that slots are too few, OMPI_MCA_orte_execute_quiet (even by `mpirun -x`, for
/// the ranks alone) also hides a failing MPI_Init, and MPI_T refuses to write a variable that is read-only.
void keep_launcher_quiet() noexcept {
  if (void* const quiet = dlsym(RTLD_DEFAULT, "orte_execute_quiet")) *static_cast<bool*>(quiet) = true;
}

bool mpi_is_running() {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized && !finalized;
}

void start_mpi() {
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  SLUICE_ASSERT(provided >= MPI_THREAD_FUNNELED,
                "MPI offers thread level {}, expected at least MPI_THREAD_FUNNELED", provided);
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

/// Collective over `node`. Number of ranks that share cores with this one; ranks whose cores cannot be told
/// count too.
int count_sharing_ranks(MPI_Comm node, int local_size) {
  cpu_set_t own;
  if (sched_getaffinity(0, sizeof own, &own) != 0) std::memset(&own, 0xff, sizeof own);
  std::vector<cpu_set_t> all(static_cast<std::size_t>(local_size));
  check_mpi(MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, node),
            "MPI_Allgather");
  return static_cast<int>(std::count_if(all.begin(), all.end(), [&own](const cpu_set_t& other) {
    cpu_set_t common;
    CPU_AND(&common, &own, &other);
    return CPU_COUNT(&common) > 0;
  }));
}

/// Where a rank's memory may be read, and what is there.
struct NumberToRead {
  pid_t process = 0;
  const std::int64_t* address = nullptr;
  std::int64_t number = 0;
};

/// Collective over `node`. Whether a rank may read the memory of the one behind it on its machine, in which
/// Open MPI has allowed it as far as it can.
bool reads_next_rank(MPI_Comm node, int local_rank, int local_size) {
  static std::int64_t number = 0;
  number = 1 + local_rank;
  const NumberToRead own{getpid(), &number, number};
  std::vector<NumberToRead> all(static_cast<std::size_t>(local_size));
  check_mpi(MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, node),
            "MPI_Allgather");
  const NumberToRead& next = all[static_cast<std::size_t>((local_rank + 1) % local_size)];
  return local_size == 1 || can_read_number(next.process, next.address, next.number);
}

}  // namespace

MpiEnvironment::MpiEnvironment(double limit_seconds)
    : limit_seconds_(limit_seconds),
      exceptions_at_start_(std::uncaught_exceptions()),
      watchdog_(std::make_shared<Watchdog>()) {
  set_library_defaults();
  {
    const Watchdog::Guard guard(*watchdog_, "MPI_Init_thread", limit_seconds_);
    start_mpi();
  }
  world_ = make_world(MpiCommunicator::kMessageLimitBytes);
  log::set_rank(world_->rank(), world_->size());
  watchdog_->set_rank(world_->rank());
  find_local_ranks();
}

MpiEnvironment::~MpiEnvironment() {
  watchdog_->share(nullptr, 1);
  set_crash_rank(-1, 0, nullptr);
  if (std::uncaught_exceptions() > exceptions_at_start_) return;
  try {
    finalize();
  } catch (const std::exception& e) {
    log::error("{}", e.what());
  }
}

std::unique_ptr<Communicator> MpiEnvironment::make_world(std::int64_t message_limit_bytes) {
  return std::make_unique<MpiCommunicator>(MPI_COMM_WORLD, watchdog_, WaitLimit{"setup", limit_seconds_},
                                           message_limit_bytes);
}

void MpiEnvironment::find_local_ranks() {
  const Watchdog::Guard guard(*watchdog_, "MPI_Comm_split_type, MPI_Allgather", limit_seconds_);
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world_->rank(), MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(node, &local_rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(node, &local_size_), "MPI_Comm_size");
  sharing_ranks_ = count_sharing_ranks(node, local_size_);
  reads_neighbours_ = reads_next_rank(node, local_rank_, local_size_);
  failure_reporter_ = std::make_unique<FailureReporterElection>(node, world_->rank());
  watchdog_->share(failure_reporter_->flags(), local_size_);
  set_crash_rank(world_->rank(), world_->size(), failure_reporter_->flags());
  check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
}

bool MpiEnvironment::elect_failure_reporter() const noexcept { return failure_reporter_->take(); }

bool MpiEnvironment::claim_cause() const noexcept { return failure_reporter_->record(); }

void MpiEnvironment::cause_is_written() const noexcept { failure_reporter_->has_recorded(); }

bool MpiEnvironment::has_cause() const noexcept {
  const NodeFlags* const flags = failure_reporter_->flags();
  return flags != nullptr && flags->recorded != 0;
}

std::string MpiEnvironment::crash_text() const {
  const NodeFlags* const flags = failure_reporter_->flags();
  const int crash = flags == nullptr ? 0 : flags->crashed.load();
  return crash == 0 ? "" : fmt::format("rank {} crashed with signal {}", crash / 256 - 1, crash % 256);
}

void MpiEnvironment::on_stall(std::function<void(const Outcome&)> last_words) {
  watchdog_->on_stall(std::move(last_words));
}

void MpiEnvironment::finalize(double limit_seconds) {
  if (finalized_) return;
  finalized_ = true;
  world_.reset();
  const Watchdog::Guard guard(*watchdog_, "MPI_Finalize", limit_seconds);
  check_mpi(MPI_Finalize(), "MPI_Finalize");
}

void MpiEnvironment::abort(ExitCode code) noexcept {
  exit_within(kExitSeconds, code);
  // MPI_Abort writes to stderr; if its reader has left, SIGPIPE must not replace the exit status.
  std::signal(SIGPIPE, SIG_IGN);
  keep_launcher_quiet();
  if (mpi_is_running()) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  _exit(static_cast<int>(code));
}

std::string MpiEnvironment::library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string_view all(text.data(), static_cast<std::size_t>(length));
  return std::string(all.substr(0, all.find_first_of(",\n")));
}

}  // namespace sluice
