/* The part of MPI that is used, declared here so that no MPI is needed to build. Its libraries agree
 * on names and meanings, not on what a handle is: a pointer, or an int. Handles are words here. Where
 * they are ints a call takes the lower half of a register; where one is written into memory, so
 * many bytes are (TsMpi.handle). */
#ifndef TS_NET_MPI_API_H
#define TS_NET_MPI_API_H

#include <stddef.h>
#include <stdint.h>

typedef uintptr_t TsMpiHandle;

/* name, result and arguments */
#define TS_MPI_CALLS(CALL)                                                                     \
  CALL(Initialized, (int *))                                                                   \
  CALL(Init_thread, (int *, char ***, int, int *))                                             \
  CALL(Finalize, (void))                                                                       \
  CALL(Abort, (TsMpiHandle, int))                                                              \
  CALL(Get_library_version, (char *, int *))                                                   \
  CALL(Error_string, (int, char *, int *))                                                     \
  CALL(Comm_dup, (TsMpiHandle, TsMpiHandle *))                                                 \
  CALL(Comm_rank, (TsMpiHandle, int *))                                                        \
  CALL(Comm_size, (TsMpiHandle, int *))                                                        \
  CALL(Comm_set_errhandler, (TsMpiHandle, TsMpiHandle))                                        \
  CALL(Isend, (const void *, int, TsMpiHandle, int, int, TsMpiHandle, void *))                 \
  CALL(Irecv, (void *, int, TsMpiHandle, int, int, TsMpiHandle, void *))                       \
  CALL(Recv, (void *, int, TsMpiHandle, int, int, TsMpiHandle, void *))                        \
  CALL(Iprobe, (int, int, TsMpiHandle, int *, void *))                                         \
  CALL(Test, (void *, int *, void *))                                                          \
  CALL(Cancel, (void *))                                                                       \
  CALL(Request_free, (void *))

/* One binary interface. */
typedef struct TsMpiTable {
  const char *file[3];
  const char *family; /* a word of the library's version; NULL: it may be anybody's */
  int handle;         /* bytes of a handle */
  TsMpiHandle world, byte, errors_return, no_request;
  const char *world_symbol, *byte_symbol, *errors_symbol, *request_symbol; /* or at these */
  uintptr_t no_status;
  int funneled; /* MPI_THREAD_FUNNELED */
} TsMpiTable;

#endif
