/* NVIDIA GPUs as devices, by the driver API alone. Counting them and asking what they are
 * needs no context; the primary context, the streams and all memory come with first use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cuda_api.h"
#include "lib/activity.h"

static char none[120];
static TsCuda gpu[TS_MAX_DEVICES];

int ts_cuda_count(const char **why) {
  *why = ts_cuda_load();
  if (*why) return 0;
  int n = 0;
  CUresult code = ts_cuda.cuDeviceGetCount(&n);
  if (!code && n > 0) return n < TS_MAX_DEVICES ? n : TS_MAX_DEVICES;
  snprintf(none, sizeof none,
           "the NVIDIA driver works, but shows no GPU (cuDeviceGetCount: %d)", code);
  *why = none;
  return 0;
}

static _Thread_local CUcontext current;

int ts_cuda_enter(TsDevice *d, TsError *err) {
  TsCuda *s = d->state;
  if (current == s->context) return 0;
  TS_CUDA(d, err, cuCtxSetCurrent, s->context);
  current = s->context;
  return 0;
}

static int make_streams(TsDevice *d, TsError *err) {
  TsCuda *s = d->state;
  if (ts_cuda_enter(d, err)) return -1;
  TS_CUDA(d, err, cuStreamCreate, &s->work, CU_STREAM_NON_BLOCKING);
  TS_CUDA(d, err, cuStreamCreate, &s->copy, CU_STREAM_NON_BLOCKING);
  TS_CUDA(d, err, cuEventCreate, &s->worked, CU_EVENT_DISABLE_TIMING);
  TS_CUDA(d, err, cuEventCreate, &s->copied, CU_EVENT_DISABLE_TIMING);
  for (int i = 0; i < TS_CUDA_NPOINT; i++)
    TS_CUDA(d, err, cuEventCreate, &s->point[i].at, CU_EVENT_DISABLE_TIMING);
  if (!s->pool) s->pool = ts_cuda_pool_new((int64_t)s->total);
  return s->pool ? 0 : ts_error_set(err, TS_ERR_memory, "out of memory: opening %s", d->name);
}

/* All or nothing, so that the next use can try again. */
static void undo(TsCuda *s) {
  for (int i = 0; i < TS_CUDA_NPOINT; i++) {
    if (s->point[i].at) ts_cuda.cuEventDestroy(s->point[i].at);
    s->point[i].at = NULL;
  }
  if (s->copied) ts_cuda.cuEventDestroy(s->copied);
  if (s->worked) ts_cuda.cuEventDestroy(s->worked);
  if (s->copy) ts_cuda.cuStreamDestroy(s->copy);
  if (s->work) ts_cuda.cuStreamDestroy(s->work);
  s->copied = s->worked = NULL;
  s->copy = s->work = NULL;
  ts_cuda.cuCtxSetCurrent(NULL);
  current = NULL;
  ts_cuda.cuDevicePrimaryCtxRelease(s->device);
  s->context = NULL;
}

static int cuda_open(TsDevice *d, TsError *err) {
  TsCuda *s = d->state;
  TS_CUDA(d, err, cuDevicePrimaryCtxRetain, &s->context, s->device);
  if (!make_streams(d, err)) return 0;
  undo(s);
  return -1;
}

static int cuda_synchronize(TsDevice *d, TsError *err) {
  if (ts_cuda_enter(d, err)) return -1;
  TsActivity *w = ts_activity_begin(TS_ACTIVITY_wait, d->name, NULL);
  CUresult r = ts_cuda.cuCtxSynchronize();
  ts_activity_end(w, 0, 0);
  return r ? ts_cuda_fail(d, r, "cuCtxSynchronize", err) : 0;
}

static bool cuda_reach(TsDevice *d, TsDevice *other) {
  TsCuda *s = d->state, *o = other->state;
  TsError ignored;
  int can = 0;
  if (ts_device_use(d, &ignored) || ts_device_use(other, &ignored)) return false;
  if (ts_cuda.cuDeviceCanAccessPeer(&can, s->device, o->device) || !can) return false;
  if (ts_cuda_enter(d, &ignored)) return false;
  CUresult r = ts_cuda.cuCtxEnablePeerAccess(o->context, 0);
  return !r || r == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

static void cuda_describe(TsDevice *d, char *text, int size) {
  const TsCuda *s = d->state;
  int n = snprintf(text, (size_t)size, "%s, sm_%d%d, %d SMs, %.2f GHz, %.1f GiB", s->model,
                   s->major, s->minor, s->sms, s->khz * 1e-6, (double)s->total / (1 << 30));
  if (n >= size) return;
  text += n, size -= n;
  if (!d->opened) {
    snprintf(text, (size_t)size, "; not used yet");
    return;
  }
  snprintf(text, (size_t)size, "; %.1f MiB in tensors, %.1f at most, %.1f cached",
           (double)d->live / 1048576, (double)d->peak / 1048576,
           (double)ts_cuda_cached(d) / 1048576);
}

static int attribute(CUdevice device, int which) {
  int value = 0;
  ts_cuda.cuDeviceGetAttribute(&value, which, device);
  return value;
}

/* NULL: it is too old. */
static const TsTarget *target_of(int major, int minor) {
  if (major < 8) return NULL;
  if (major == 8) return ts_target(minor == 6 || minor == 9 ? "sm_86" : "sm_80");
  if (major == 9 && !minor) return ts_target("sm_90a");
  return ts_target(major == 12 ? "sm_120" : "sm_100");
}

void ts_cuda_device(TsDevice *d) {
  int number = atoi(strchr(d->name, ':') + 1);
  TsCuda *s = &gpu[number];
  d->state = s;
  ts_cuda.cuDeviceGet(&s->device, number);
  if (ts_cuda.cuDeviceGetName(s->model, sizeof s->model, s->device))
    snprintf(s->model, sizeof s->model, "NVIDIA GPU");
  s->major = attribute(s->device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  s->minor = attribute(s->device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  s->sms = attribute(s->device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  s->khz = attribute(s->device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  ts_cuda.cuDeviceTotalMem(&s->total, s->device);
  d->target = target_of(s->major, s->minor);
  d->processors = s->sms;
  d->clock = s->khz * 1e3;
  d->bandwidth = 2e3 * attribute(s->device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *
                 attribute(s->device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
  d->runs_kernels = true;
  ts_cuda.cuDriverGetVersion(&d->driver);
  d->open = cuda_open;
  d->alloc = ts_cuda_alloc;
  d->free = ts_cuda_free;
  d->trim = ts_cuda_trim;
  d->upload = ts_cuda_upload;
  d->download = ts_cuda_download;
  d->copy = ts_cuda_copy;
  d->reach = cuda_reach;
  d->fetch = ts_cuda_fetch;
  d->synchronize = cuda_synchronize;
  d->describe = cuda_describe;
  d->run = &ts_cuda_run;
}
