/* Streams, events, modules and launches on a GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cuda_api.h"
#include "lib/activity.h"

static CUstream stream_of(TsDevice *d, void *stream) {
  return stream ? stream : ((TsCuda *)d->state)->work;
}

static int stream_new(TsDevice *d, void **out, TsError *err) {
  CUstream stream;
  if (ts_cuda_enter(d, err)) return -1;
  TS_CUDA(d, err, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  *out = stream;
  return 0;
}

static void stream_free(TsDevice *d, void *stream) {
  TsError ignored;
  if (stream && !ts_cuda_enter(d, &ignored)) ts_cuda.cuStreamDestroy(stream);
}

static int stream_wait(TsDevice *d, void *stream, void *event, TsError *err) {
  if (ts_cuda_enter(d, err)) return -1;
  if (!stream) ts_cuda_queue(d);
  TS_CUDA(d, err, cuStreamWaitEvent, stream_of(d, stream), event, 0);
  return 0;
}

static int event_new(TsDevice *d, void **out, TsError *err) {
  CUevent event;
  if (ts_cuda_enter(d, err)) return -1;
  TS_CUDA(d, err, cuEventCreate, &event, CU_EVENT_DEFAULT);
  *out = event;
  return 0;
}

static void event_free(TsDevice *d, void *event) {
  TsError ignored;
  if (event && !ts_cuda_enter(d, &ignored)) ts_cuda.cuEventDestroy(event);
}

static int event_record(TsDevice *d, void *event, void *stream, TsError *err) {
  if (ts_cuda_enter(d, err)) return -1;
  TS_CUDA(d, err, cuEventRecord, event, stream_of(d, stream));
  return 0;
}

static int event_wait(TsDevice *d, void *event, TsError *err) {
  if (ts_cuda_enter(d, err)) return -1;
  TsActivity *w = ts_activity_begin(TS_ACTIVITY_wait, d->name, NULL);
  CUresult r = ts_cuda.cuEventSynchronize(event);
  ts_activity_end(w, 0, 0);
  return r ? ts_cuda_fail(d, r, "cuEventSynchronize", err) : 0;
}

static int event_usec(TsDevice *d, void *from, void *to, double *usec, TsError *err) {
  float msec = 0;
  if (ts_cuda_enter(d, err)) return -1;
  TS_CUDA(d, err, cuEventElapsedTime, &msec, from, to);
  *usec = (double)msec * 1e3;
  return 0;
}

/* The driver's own compiler says what it dislikes in a buffer: its first lines belong to the
 * message. */
typedef struct Log {
  char text[4096];
  int option[2];
  void *value[2];
} Log;

static void log_begin(Log *l) {
  l->text[0] = 0;
  l->option[0] = CU_JIT_ERROR_LOG_BUFFER, l->value[0] = l->text;
  l->option[1] = CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
  l->value[1] = (void *)(uintptr_t)sizeof l->text;
}

static int refused(TsDevice *d, Log *l, CUresult code, const char *call, TsError *err) {
  ts_cuda_fail(d, code, call, err);
  size_t n = strlen(err->message);
  l->text[sizeof l->text - 1] = 0;
  if (l->text[0]) snprintf(err->message + n, sizeof err->message - n, "\n%s", l->text);
  return -1;
}

/* A library, not a module: the driver compiles a module's PTX under the lock of its context, so
 * that every copy, launch and compile of another thread waits (200 ms for an attention), and a
 * library's before it takes one, ten side by side in the time of the longest. */
static int module_new(TsDevice *d, const void *code, size_t nbytes, void **out, TsError *err) {
  (void)nbytes; /* PTX ends with a zero, and a cubin says its size */
  Log log;
  CUlibrary library = NULL;
  if (ts_cuda_enter(d, err)) return -1;
  log_begin(&log);
  CUresult failed =
      ts_cuda.cuLibraryLoadData(&library, code, log.option, log.value, 2, NULL, NULL, 0);
  *out = library;
  return failed ? refused(d, &log, failed, "cuLibraryLoadData", err) : 0;
}

static void module_free(TsDevice *d, void *module) {
  TsError ignored;
  if (module && !ts_cuda_enter(d, &ignored)) ts_cuda.cuLibraryUnload(module);
}

/* More than 48 KiB of shared memory have to be asked for once a kernel. */
static int kernel_find(TsDevice *d, void *module, const char *name, int shared, void **out,
                       TsError *err) {
  CUkernel k;
  CUfunction f;
  if (ts_cuda_enter(d, err)) return -1;
  TS_CUDA(d, err, cuLibraryGetKernel, &k, module, name);
  TS_CUDA(d, err, cuKernelGetFunction, &f, k);
  if (shared > 48 << 10)
    TS_CUDA(d, err, cuFuncSetAttribute, f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            shared);
  *out = f;
  return 0;
}

static int variable(TsDevice *d, void *module, const char *name, void **at, int64_t *nbytes,
                    TsError *err) {
  CUdeviceptr p = 0;
  size_t n = 0;
  if (ts_cuda_enter(d, err)) return -1;
  TS_CUDA(d, err, cuLibraryGetGlobal, &p, &n, module, name);
  *at = (void *)(uintptr_t)p, *nbytes = (int64_t)n;
  return 0;
}

static int facts(TsDevice *d, void *kernel, int threads, uint32_t shared, TsKernelFacts *out,
                 TsError *err) {
  int registers, local, fixed, blocks, most;
  if (ts_cuda_enter(d, err)) return -1;
  TS_CUDA(d, err, cuFuncGetAttribute, &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel);
  TS_CUDA(d, err, cuFuncGetAttribute, &local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, kernel);
  TS_CUDA(d, err, cuFuncGetAttribute, &fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel);
  TS_CUDA(d, err, cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, kernel, threads,
          shared);
  TS_CUDA(d, err, cuDeviceGetAttribute, &most,
          CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, ((TsCuda *)d->state)->device);
  *out = (TsKernelFacts){registers, local, fixed + (int64_t)shared, blocks, most};
  return 0;
}

static int launch(TsDevice *d, const TsLaunch *l, TsError *err) {
  const TsCuda *s = d->state;
  if (!l->stream && (s->recording || s->patching)) return ts_cuda_record_add(d, l, err);
  CUlaunchAttribute list[2] = {{.id = 0}};
  CUlaunchConfig config = {.gridDimX = l->grid[0],
                           .gridDimY = l->grid[1],
                           .gridDimZ = l->grid[2],
                           .blockDimX = l->block[0],
                           .blockDimY = l->block[1],
                           .blockDimZ = l->block[2],
                           .sharedMemBytes = l->shared,
                           .hStream = stream_of(d, l->stream),
                           .attrs = list};
  if (l->cluster[0]) {
    CUlaunchAttribute *a = &list[config.numAttrs++];
    a->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a->value.cluster.x = l->cluster[0];
    a->value.cluster.y = l->cluster[1];
    a->value.cluster.z = l->cluster[2];
  }
  bool dependent = !l->stream && ts_cuda_queue(d) && l->dependent;
  if (l->early || dependent) {
    CUlaunchAttribute *a = &list[config.numAttrs++];
    a->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    a->value.early = 1;
  }
  if (ts_cuda_enter(d, err)) return -1;
  TS_CUDA(d, err, cuLaunchKernelEx, &config, l->kernel, l->args, NULL);
  return 0;
}

const TsDeviceRun ts_cuda_run = {stream_new,
                                 stream_free,
                                 stream_wait,
                                 event_new,
                                 event_free,
                                 event_record,
                                 event_wait,
                                 event_usec,
                                 module_new,
                                 module_free,
                                 kernel_find,
                                 launch,
                                 variable,
                                 facts,
                                 ts_cuda_record_begin,
                                 ts_cuda_record_end,
                                 ts_cuda_record_patch,
                                 ts_cuda_record_launch,
                                 ts_cuda_record_free,
                                 ts_cuda_hold,
                                 ts_cuda_record_after,
                                 ts_cuda_tensor_map};
