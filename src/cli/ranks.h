// Several processes that mpirun or srun started: which commands they can share, what they say, and how they end.
#pragma once

#include <optional>
#include <string>

#include "heed/distributed.h"

namespace heed::cli {

// The ranks of this run: one where nothing started several. Made at the first call.
[[nodiscard]] distributed::Communicator& ranks();
// What the environment says, without making them.
[[nodiscard]] bool several_processes();
[[nodiscard]] bool leads();  // rank 0, or the only process

// Throws Error for a command that several processes would run side by side, each as if it were alone.
void require_one_process();

// Gives each process that mpirun or srun started, also one alone, its share of the cores it may use where --threads
// does not say how many. Warns where a process is bound to fewer cores than it has threads, or cores are left idle.
void share_cores(std::optional<int64_t> threads);

// The command with which the user goes on after a rank was lost: "mpirun -n 4 heed train --output run --resume". Part
// of the message then, and of what is said where this process is asked to stop while it waits for another.
void set_way_to_go_on(std::string command);
[[nodiscard]] std::string way_to_go_on();  // "go on with: ...", or nothing
[[nodiscard]] std::string mpirun_command(const std::string& command);

// From here on a thread looks after the other processes of this host, because this one may compute for longer than it
// takes mpirun to end it where another one was lost. It says who was lost and how to go on, at once, and ends all
// processes if that does not happen within seconds. Asked to stop, rank 0 says that it saves first, if that takes long;
// one process alone does no more than this.
void watch_ranks();

// The last words of a process that failed. One of several says them once, with its rank, and ends all; where another
// has said why it ends, nothing is said again. `lost`: the rank that it failed for. Returns the status to exit with.
[[nodiscard]] int end_with(int status, const std::string& text, const distributed::PeerError* lost = nullptr);
// What this process is about to exit with: the status of the job where a rank hangs and MPI has to end all.
void set_exit_status(int status);

}  // namespace heed::cli
