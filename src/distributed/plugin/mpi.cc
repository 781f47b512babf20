// The table of engine.h over MPI. The only file that calls it.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>
#include <memory>

#include "distributed/engine.h"

namespace heed::distributed {

namespace {

char last_message[MPI_MAX_ERROR_STRING];
char library_name[MPI_MAX_LIBRARY_VERSION_STRING];

bool succeeded(int status) {
  if (status == MPI_SUCCESS) return true;
  int length = 0;
  if (MPI_Error_string(status, last_message, &length) != MPI_SUCCESS) {
    std::snprintf(last_message, sizeof last_message, "MPI error %d", status);
  }
  return false;
}

int start(int* rank, int* size) {
  int provided = 0;
  if (!succeeded(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided))) return 1;
  if (provided < MPI_THREAD_SERIALIZED) {  // a thread calls MPI while another computes
    std::snprintf(last_message, sizeof last_message, "it cannot be called by several threads in turn");
    return 1;
  }
  // Errors come back, so that heed can say which rank they are about.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return succeeded(MPI_Comm_rank(MPI_COMM_WORLD, rank)) && succeeded(MPI_Comm_size(MPI_COMM_WORLD, size)) ? 0 : 1;
}

void finish() { MPI_Finalize(); }
void abort_all(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

const char* library() {
  int length = 0;
  MPI_Get_library_version(library_name, &length);
  return library_name;
}

const char* message() { return last_message; }

struct Request {
  MPI_Request request = MPI_REQUEST_NULL;
  bool can_be_cancelled = false;  // a receive, once; MPI-4 has no other
};

void* send(const void* bytes, int count, int to, int channel) {
  auto made = std::make_unique<Request>();
  if (!succeeded(MPI_Isend(bytes, count, MPI_BYTE, to, channel, MPI_COMM_WORLD, &made->request))) return nullptr;
  return made.release();
}

void* receive(void* bytes, int count, int from, int channel) {
  auto made = std::make_unique<Request>();
  made->can_be_cancelled = true;
  if (!succeeded(MPI_Irecv(bytes, count, MPI_BYTE, from, channel, MPI_COMM_WORLD, &made->request))) return nullptr;
  return made.release();
}

int poll(void* handle, int* count) {
  auto* const asked = static_cast<Request*>(handle);
  int complete = 0;
  MPI_Status status;
  if (!succeeded(MPI_Test(&asked->request, &complete, &status))) return -1;
  if (complete == 0) return 0;
  MPI_Get_count(&status, MPI_BYTE, count);
  delete asked;
  return 1;
}

int cancel(void* handle) {
  auto* const ended = static_cast<Request*>(handle);
  if (ended->request != MPI_REQUEST_NULL) {  // as it is after a failure
    if (ended->can_be_cancelled) MPI_Cancel(&ended->request);
    ended->can_be_cancelled = false;
    // A receive that was matched is not cancelled: it is complete when the message has come.
    int complete = 0;
    MPI_Test(&ended->request, &complete, MPI_STATUS_IGNORE);
    if (complete == 0 && ended->request != MPI_REQUEST_NULL) return 0;
  }
  delete ended;
  return 1;
}

void progress() {
  int found = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const Engine heed_mpi_engine = {
    kEngineVersion, start, finish, abort_all, library, message, send, receive, poll, cancel, progress};

}  // namespace heed::distributed
