/* Streams, events, modules and launches on a GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cuda_api.h"
#include "lib/dtype.h"

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
  TS_CUDA(d, err, cuEventSynchronize, event);
  return 0;
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

static int module_new(TsDevice *d, const void *code, void **out, TsError *err) {
  Log log;
  CUmodule module = NULL;
  if (ts_cuda_enter(d, err)) return -1;
  log_begin(&log);
  CUresult failed = ts_cuda.cuModuleLoadDataEx(&module, code, 2, log.option, log.value);
  *out = module;
  return failed ? refused(d, &log, failed, "cuModuleLoadDataEx", err) : 0;
}

/* The linker's code belongs to the linker. */
static int assemble(TsDevice *d, const char *ptx, void **code, size_t *nbytes, TsError *err) {
  Log log;
  CUlinkState link = NULL;
  void *made = NULL;
  if (ts_cuda_enter(d, err)) return -1;
  log_begin(&log);
  const char *call = "cuLinkCreate";
  CUresult failed = ts_cuda.cuLinkCreate(2, log.option, log.value, &link);
  if (!failed) {
    call = "cuLinkAddData";
    failed = ts_cuda.cuLinkAddData(link, CU_JIT_INPUT_PTX, ptx, strlen(ptx) + 1, "kernel", 0,
                                   NULL, NULL);
  }
  if (!failed) call = "cuLinkComplete", failed = ts_cuda.cuLinkComplete(link, &made, nbytes);
  int result = failed ? refused(d, &log, failed, call, err) : 0;
  if (!failed && (*code = malloc(*nbytes)))
    memcpy(*code, made, *nbytes);
  else if (!failed)
    result = ts_error_set(err, TS_ERR_memory, "no memory for code");
  if (link) ts_cuda.cuLinkDestroy(link);
  return result;
}

static void module_free(TsDevice *d, void *module) {
  TsError ignored;
  if (module && !ts_cuda_enter(d, &ignored)) ts_cuda.cuModuleUnload(module);
}

/* More than 48 KiB of shared memory have to be asked for once a kernel. */
static int kernel_find(TsDevice *d, void *module, const char *name, int shared, void **out,
                       TsError *err) {
  CUfunction f;
  if (ts_cuda_enter(d, err)) return -1;
  TS_CUDA(d, err, cuModuleGetFunction, &f, module, name);
  if (shared > 48 << 10)
    TS_CUDA(d, err, cuFuncSetAttribute, f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            shared);
  *out = f;
  return 0;
}

static int launch(TsDevice *d, const TsLaunch *l, TsError *err) {
  const TsCuda *s = d->state;
  if (!l->stream && (s->recording || s->patching)) return ts_cuda_record_add(d, l, err);
  CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
  CUlaunchConfig config = {.gridDimX = l->grid[0],
                           .gridDimY = l->grid[1],
                           .gridDimZ = l->grid[2],
                           .blockDimX = l->block[0],
                           .blockDimY = l->block[1],
                           .blockDimZ = l->block[2],
                           .sharedMemBytes = l->shared,
                           .hStream = stream_of(d, l->stream)};
  if (l->cluster[0]) {
    cluster.value.cluster.x = l->cluster[0];
    cluster.value.cluster.y = l->cluster[1];
    cluster.value.cluster.z = l->cluster[2];
    config.attrs = &cluster, config.numAttrs = 1;
  }
  if (ts_cuda_enter(d, err)) return -1;
  TS_CUDA(d, err, cuLaunchKernelEx, &config, l->kernel, l->args, NULL);
  return 0;
}

static int map_type(uint8_t dtype) {
  switch (dtype) {
  case TS_DT_i32: return CU_TENSOR_MAP_DATA_TYPE_INT32;
  case TS_DT_i64: return CU_TENSOR_MAP_DATA_TYPE_INT64;
  case TS_DT_f16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  case TS_DT_bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  case TS_DT_f32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  case TS_DT_f64: return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
  default: return ts_dtypes[dtype].nbytes == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : -1;
  }
}

/* Axes of the view, the innermost first; strides but for that one. */
static unsigned view_axes(const TsTensorMap *v, uint64_t dim[4], uint64_t stride[3],
                          uint32_t box[4]) {
  dim[0] = (uint64_t)v->cols, dim[1] = (uint64_t)v->rows, stride[0] = (uint64_t)v->pitch;
  box[0] = (uint32_t)v->box_cols, box[1] = (uint32_t)v->box_rows;
  if (!v->batch) return 2;
  dim[0] = box[0], dim[2] = (uint64_t)v->cols / box[0], dim[3] = (uint64_t)v->batch;
  stride[1] = (uint64_t)box[0] * (uint64_t)ts_dtypes[v->dtype].nbytes;
  stride[2] = (uint64_t)(v->pitch * v->rows);
  box[2] = (uint32_t)v->box_panels, box[3] = 1;
  return 4;
}

static int tensor_map(TsDevice *d, const TsTensorMap *v, void *out, TsError *err) {
  uint64_t dim[4], stride[3];
  uint32_t box[4], step[4] = {1, 1, 1, 1};
  unsigned rank = view_axes(v, dim, stride, box);
  int type = map_type(v->dtype), swizzle = v->swizzle >= 128 ? 3 : v->swizzle / 32;
  if (type < 0 || ((uintptr_t)v->at | (uintptr_t)v->pitch) % 16)
    return ts_error_set(err, TS_ERR_argument,
                        "%s: the copy engine takes rows that begin at multiples of 16 bytes",
                        d->name);
  if (ts_cuda_enter(d, err)) return -1;
  TS_CUDA(d, err, cuTensorMapEncodeTiled, out, type, rank, v->at, dim, stride, box, step, 0,
          swizzle, CU_TENSOR_MAP_L2_PROMOTION_128B, 0);
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
                                 assemble,
                                 module_free,
                                 kernel_find,
                                 launch,
                                 ts_cuda_record_begin,
                                 ts_cuda_record_end,
                                 ts_cuda_record_patch,
                                 ts_cuda_record_launch,
                                 ts_cuda_record_free,
                                 ts_cuda_hold,
                                 tensor_map};
