/* How bytes go from process to process. A transport is one struct; who carries them is MPI (mpi.c)
 * or NCCL (nccl.c), found when it is asked for. Nothing here adds anything up: sums are a tree of
 * our own (vm/mesh/leaves.h), so that their bits do not depend on who carries them.
 *
 * All ranks list the same transfers in the same order, and each does those in which it takes part.
 * So between two ranks the k-th that one sends is the k-th that the other receives, and nobody
 * waits for what comes later in his own list: a batch cannot lock. */
#ifndef TS_NET_TRANSPORT_H
#define TS_NET_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "devices/device.h"
#include "lib/error.h"

typedef struct TsTransfer {
  int from, to; /* ranks, of which one is this one, or none */
  int device;   /* local: of `at`; */
  void *at;     /* and where the bytes are, or come; NULL at others' */
  int64_t nbytes;
} TsTransfer;

typedef struct TsBatch {
  uint64_t number; /* of the collective, from 1, */
  int round;       /* and which exchange of it */
  uint64_t
      digest; /* of what it is: the same for all ranks, or they have come to different ones */
  int n;
  const TsTransfer *transfer;
} TsBatch;

/* Called while ranks are waited for, about each millisecond: 0, or -1 with the error for which
 * waiting ends. waits: by rank, whether something of it is still to come. NULL: for all. */
typedef int TsWait(void *arg, const TsBatch *b, const bool *waits, TsError *err);

typedef struct TsTransport TsTransport;
struct TsTransport {
  char name[64]; /* "MPI (Open MPI v4.1.4)", "NCCL 2.28.9" */
  int rank, size;
  /* Where its bytes are: a device that it sends from and receives into, or NULL: the host. */
  TsDevice *device;
  TsWait *wait;
  void *wait_arg;
  void *state;

  /* 0, or -1 with the error: what was to be received is then unspecified. Bytes that the transport's
   * device is to send may be queued there, and those that it receives are there for what is
   * queued on it afterwards. */
  int (*exchange)(TsTransport *t, const TsBatch *b, TsError *err);
  /* all[rank]: nbytes of each rank, the same number for all. On the host. b: its number and digest
   * alone, or NULL. */
  int (*gather)(TsTransport *t, const TsBatch *b, const void *own, void *all, int nbytes,
                TsError *err);
  /* A few bytes to a rank that may not listen, and from one that may have said nothing: *got. Neither
   * waits. Optional. */
  int (*say)(TsTransport *t, int to, const void *at, int nbytes, TsError *err);
  int (*hear)(TsTransport *t, int from, void *at, int nbytes, bool *got, TsError *err);
  /* From any thread: nobody will send any more what the device waits for. Optional. */
  void (*abort_waiting)(TsTransport *t);
  /* Ends the processes of the job. Optional: a launcher does so when one of them fails. */
  void (*abort)(TsTransport *t, int code);
  /* good: all ranks come here, having done the same. */
  void (*free)(TsTransport *t, bool good);
};

/* Opens one over the processes that a launcher has started, or gives NULL with the error: why not.
 * size: how many there have to be. */
TsTransport *ts_transport_mpi(int size, TsError *err);
/* Whether there is an NCCL. */
bool ts_transport_nccl_is_there(const TsDevice *d, TsError *err);
/* d: the GPU that carries; others' bytes go through it. id: how all ranks get the same id: a
 * function of theirs by which rank 0 tells it; NULL: by MASTER_ADDR and MASTER_PORT. */
typedef int TsTellId(void *arg, void *id, int nbytes, TsError *err);
TsTransport *ts_transport_nccl(TsDevice *d, int rank, int size, TsTellId *tell, void *arg,
                               TsError *err);

#endif
