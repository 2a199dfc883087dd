/* Bytes of a GPU for another thread than the one that gives it work: on a stream and through pinned
 * buffers of this call alone, so that neither waits for the other (devices/cuda_copy.c is for the
 * program's thread). The bytes stand still, and an event says from when on. */
#include <string.h>

#include "devices/cuda_api.h"

enum { NSTAGE = 3, STAGE = 8 << 20 };

typedef struct Beside {
  CUstream stream;
  struct {
    void *at;
    CUevent done;
    char *to; /* where its bytes go, n of them; n is 0: it is free */
    int64_t n;
  } stage[NSTAGE];
} Beside;

static int begin(TsDevice *d, Beside *b, void *after, TsError *err) {
  if (ts_cuda_enter(d, err)) return -1;
  TS_CUDA(d, err, cuStreamCreate, &b->stream, CU_STREAM_NON_BLOCKING);
  for (int i = 0; i < NSTAGE; i++) {
    TS_CUDA(d, err, cuMemHostAlloc, &b->stage[i].at, STAGE, 0);
    TS_CUDA(d, err, cuEventCreate, &b->stage[i].done, CU_EVENT_DISABLE_TIMING);
  }
  TS_CUDA(d, err, cuStreamWaitEvent, b->stream, after, 0);
  return 0;
}

static void end(Beside *b) {
  if (b->stream) ts_cuda.cuStreamSynchronize(b->stream);
  for (int i = 0; i < NSTAGE; i++) {
    if (b->stage[i].done) ts_cuda.cuEventDestroy(b->stage[i].done);
    if (b->stage[i].at) ts_cuda.cuMemFreeHost(b->stage[i].at);
  }
  if (b->stream) ts_cuda.cuStreamDestroy(b->stream);
}

static int empty(TsDevice *d, Beside *b, int i, TsError *err) {
  if (!b->stage[i].n) return 0;
  TS_CUDA(d, err, cuEventSynchronize, b->stage[i].done);
  memcpy(b->stage[i].to, b->stage[i].at, (size_t)b->stage[i].n);
  b->stage[i].n = 0;
  return 0;
}

static int fetch(TsDevice *d, Beside *b, int n, const TsFetch *list, TsError *err) {
  int k = 0;
  for (int i = 0; i < n; i++) {
    for (int64_t at = 0; at < list[i].nbytes; at += STAGE, k = (k + 1) % NSTAGE) {
      int64_t len = list[i].nbytes - at < STAGE ? list[i].nbytes - at : STAGE;
      CUdeviceptr from = (CUdeviceptr)(uintptr_t)list[i].from + (CUdeviceptr)at;
      if (empty(d, b, k, err)) return -1;
      TS_CUDA(d, err, cuMemcpyDtoHAsync, b->stage[k].at, from, (size_t)len, b->stream);
      TS_CUDA(d, err, cuEventRecord, b->stage[k].done, b->stream);
      b->stage[k].to = (char *)list[i].to + at, b->stage[k].n = len;
    }
  }
  for (int i = 0; i < NSTAGE; i++, k = (k + 1) % NSTAGE)
    if (empty(d, b, k, err)) return -1;
  return 0;
}

int ts_cuda_fetch(TsDevice *d, int n, const TsFetch *list, void *after, TsError *err) {
  Beside b = {0};
  int failed = begin(d, &b, after, err) || fetch(d, &b, n, list, err);
  end(&b);
  return failed ? -1 : 0;
}
