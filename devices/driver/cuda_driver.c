/* NVIDIA's library: CUDA's driver API. */
#include <stdio.h>
#include <string.h>

#include "devices/driver/cuda_api.h"

TsCudaApi ts_cuda;
TsCudaEdges ts_cuda_edges;
static char missing[240];

static const TsDriverSymbol common[] = {
#define CALL(member, cuda, version, hip, args) {#cuda version, offsetof(TsDriver, member)},
    TS_DRIVER_CALLS(CALL)
#undef CALL
};

static const TsDriverSymbol own[] = {
#define CALL(name, version, args) {#name version, offsetof(TsCudaApi, name)},
    TS_CUDA_CALLS(CALL)
#undef CALL
};

static const TsDriverSymbol edges[] = {
    {"cuGraphAddDependencies_v2", offsetof(TsCudaEdges, cuGraphAddDependencies)}};

static void say(int code, const char **name, const char **text) {
  ts_cuda.cuGetErrorName(code, name);
  ts_cuda.cuGetErrorString(code, text);
}

static void say_code(const char *call, int code) {
  const char *name = NULL, *text = NULL;
  say(code, &name, &text);
  snprintf(missing, sizeof missing, "no NVIDIA GPU: %s: %s (%d): %s", call,
           name ? name : "unknown error", code, text ? text : "no text");
}

/* Of an old driver that lacks other calls, too. */
static int version_of(void *library) {
  static const TsDriverSymbol symbol = {"cuDriverGetVersion", 0};
  int version = TS_CUDA_VERSION_MIN;
  int (*ask)(int *) = NULL;
  return ts_driver_symbols(library, 1, &symbol, &ask) || ask(&version) ? TS_CUDA_VERSION_MIN
                                                                       : version;
}

static void load(void) {
  static const char *const names[] = {"libcuda.so.1", NULL};
  const TsDriverLibrary l = {"no NVIDIA driver", "TESSERA_LIBCUDA", names[0], names};
  void *library = ts_driver_library(&l, missing, sizeof missing);
  if (!library) return;
  int version = version_of(library);
  if (version < TS_CUDA_VERSION_MIN) {
    snprintf(missing, sizeof missing,
             "the NVIDIA driver is one for CUDA %d.%d; %d.%d or newer is needed",
             version / 1000, version % 1000 / 10, TS_CUDA_VERSION_MIN / 1000,
             TS_CUDA_VERSION_MIN % 1000 / 10);
    return;
  }
  const char *symbol =
      ts_driver_symbols(library, sizeof common / sizeof *common, common, &ts_cuda_driver);
  if (!symbol) symbol = ts_driver_symbols(library, sizeof own / sizeof *own, own, &ts_cuda);
  if (symbol) {
    snprintf(missing, sizeof missing, "the NVIDIA driver has no %s", symbol);
    return;
  }
  if (ts_driver_symbols(library, 1, edges, &ts_cuda_edges)) ts_cuda_edges = (TsCudaEdges){NULL};
  int code = ts_cuda_driver.init(0);
  if (code) say_code("cuInit", code);
}

const char *ts_cuda_load(void) {
  static bool done;
  if (!done) load();
  done = true;
  return missing[0] ? missing : NULL;
}

/* ---- contexts: the primary one, which others in the process share */
static int cuda_open(TsDevice *d, TsError *err) {
  TsCuda *s = d->state;
  TS_CUDA(d, err, cuDevicePrimaryCtxRetain, &s->context, s->of.device);
  return 0;
}

static void cuda_close(TsDevice *d) {
  TsCuda *s = d->state;
  ts_cuda.cuCtxSetCurrent(NULL);
  ts_cuda.cuDevicePrimaryCtxRelease(s->of.device);
  s->context = NULL;
}

static int enter(TsDevice *d, TsError *err) {
  TS_CUDA(d, err, cuCtxSetCurrent, ((TsCuda *)d->state)->context);
  return 0;
}

static bool reach(TsDevice *d, TsDevice *other) {
  (void)d;
  CUresult r = ts_cuda.cuCtxEnablePeerAccess(((TsCuda *)other->state)->context, 0);
  return !r || r == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

static int copy_peer(TsDevice *d, void *to, TsDevice *source, const void *from, size_t nbytes,
                     void *stream, TsError *err) {
  CUcontext there = ((TsCuda *)d->state)->context, here = ((TsCuda *)source->state)->context;
  TS_CUDA(d, err, cuMemcpyPeerAsync, to, there, from, here, nbytes, stream);
  return 0;
}

static bool is_fatal(int code) { return code == 214 || (code >= 700 && code <= 720); }

TsDriver ts_cuda_driver = {
#define CALL(member, cuda, version, hip, args) .name.member = #cuda,
    TS_DRIVER_CALLS(CALL)
#undef CALL
        .units = "SMs",
    .full = CUDA_ERROR_OUT_OF_MEMORY,
    .threads_attribute = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
    .reads_at_once = true,
    .is_fatal = is_fatal,
    .say = say,
    .open = cuda_open,
    .close = cuda_close,
    .enter = enter,
    .reach = reach,
    .copy_peer = copy_peer,
    .node_new = ts_cuda_node_new,
    .node_set = ts_cuda_node_set,
    .exec_new = ts_cuda_exec_new,
};
