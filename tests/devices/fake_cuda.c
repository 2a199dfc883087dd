/* A driver without a GPU: the functions that devices/cuda*.c uses, over host memory. Streams
 * do their work at once, but for uploads and downloads, which are done when somebody waits, so
 * that a missing wait shows. fake_fail() lets the n-th call of a function fail. It knows one
 * kernel; after fake_any() it takes all, and runs none: for tests that count calls. After
 * fake_hold(1) loading code takes until fake_hold(0). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devices/cuda_api.h"

enum { NDEVICE = 2, MOST = 4096, ILLEGAL_ADDRESS = 700, NOT_FOUND = 500, INVALID = 1 };

void fake_fail(const char *call, int after, int code);
long fake_count(const char *call);
long fake_blocks(void);
long fake_used(void);
void fake_limit(long nbytes);
void fake_any(void);
void fake_hold(int on);
long fake_calls(void);
long fake_roots(void);
long fake_edges(void);
long fake_early(void); /* launches that may begin before the last one ends */

/* Declared here for the library itself: the table holds pointers of the same types. */
#define CALL(name, version, args) CUresult fake_##name args __asm__(#name version);
TS_CUDA_CALLS(CALL)
#undef CALL

static char failing[64];
static int fail_after, fail_code;
static long used, limit = 256L << 20, nblocks;
static struct {
  CUdeviceptr at;
  size_t nbytes;
} block[MOST];
static struct {
  const char *name;
  long n;
} counted[64];

void fake_fail(const char *call, int after, int code) {
  snprintf(failing, sizeof failing, "%s", call);
  fail_after = after, fail_code = code;
}
long fake_blocks(void) { return nblocks; }
long fake_used(void) { return used; }
void fake_limit(long nbytes) { limit = nbytes; }
static bool any;
void fake_any(void) { any = true; }
/* Code is loaded when it is let go. */
static atomic_int held;
void fake_hold(int on) { held = on; }

static long *counter(const char *call) {
  int i = 0;
  while (counted[i].name && strcmp(counted[i].name, call)) i++;
  if (!counted[i].name) counted[i].name = strdup(call);
  return &counted[i].n;
}
/* Threads that compile load code. */
static pthread_mutex_t entering = PTHREAD_MUTEX_INITIALIZER;
long fake_count(const char *call) {
  pthread_mutex_lock(&entering);
  long n = *counter(call);
  pthread_mutex_unlock(&entering);
  return n;
}
long fake_calls(void) {
  long n = 0;
  for (int i = 0; counted[i].name; i++) n += counted[i].n;
  return n;
}

static CUresult enter(const char *function) {
  const char *call = function + strlen("fake_");
  pthread_mutex_lock(&entering);
  ++*counter(call);
  bool fails = fail_after > 0 && !strcmp(call, failing) && --fail_after == 0;
  pthread_mutex_unlock(&entering);
  return fails ? fail_code : 0;
}
#define ENTER()                                                                                \
  do {                                                                                         \
    CUresult bad = enter(__func__);                                                            \
    if (bad) return bad;                                                                       \
  } while (0)

/* ---- copies that wait to be done, in the order in which they were asked for */
static struct {
  void *to;
  const void *from;
  size_t nbytes;
} later[MOST];
static int nlater;

static void flush(void) {
  for (int i = 0; i < nlater; i++) memcpy(later[i].to, later[i].from, later[i].nbytes);
  nlater = 0;
}
static void put_off(void *to, const void *from, size_t nbytes) {
  if (nlater == MOST) flush();
  later[nlater].to = to, later[nlater].from = from, later[nlater++].nbytes = nbytes;
}

/* A copy beyond a block is what a GPU calls an illegal address. */
static bool inside(CUdeviceptr at, size_t nbytes) {
  for (int i = 0; i < nblocks; i++)
    if (at >= block[i].at && at + nbytes <= block[i].at + block[i].nbytes) return true;
  return false;
}
static void *host(CUdeviceptr at) { return (void *)(uintptr_t)at; }

/* ---- the driver and its devices */
CUresult fake_cuInit(unsigned flags) {
  (void)flags;
  ENTER();
  const char *no = getenv("FAKE_CUDA_INIT");
  return no ? atoi(no) : 0;
}
CUresult fake_cuDriverGetVersion(int *version) {
  const char *old = getenv("FAKE_CUDA_VERSION");
  *version = old ? atoi(old) : 13000;
  return 0;
}
CUresult fake_cuGetErrorName(CUresult code, const char **text) {
  *text = code == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : code == 100 ? "CUDA_ERROR_NO_DEVICE"
          : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                        : "CUDA_ERROR_INVALID_VALUE";
  return 0;
}
CUresult fake_cuGetErrorString(CUresult code, const char **text) {
  *text = code == 2     ? "out of memory"
          : code == 100 ? "no CUDA-capable device is detected"
          : code == 700 ? "an illegal memory access was encountered"
                        : "invalid argument";
  return 0;
}
CUresult fake_cuDeviceGetCount(int *n) {
  ENTER();
  *n = NDEVICE;
  return 0;
}
CUresult fake_cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return ordinal < NDEVICE ? 0 : INVALID;
}
CUresult fake_cuDeviceGetName(char *name, int size, CUdevice device) {
  snprintf(name, (size_t)size, "Fake GPU %d", device);
  return 0;
}
CUresult fake_cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  (void)device;
  *value = attribute == CU_DEVICE_ATTRIBUTE_CLOCK_RATE                 ? 1980000
           : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT     ? 132
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
                                                                       : 0;
  return 0;
}
CUresult fake_cuDeviceTotalMem(size_t *nbytes, CUdevice device) {
  (void)device;
  *nbytes = (size_t)limit;
  return 0;
}
CUresult fake_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  ENTER();
  *context = (CUcontext)(uintptr_t)(device + 1);
  return 0;
}
CUresult fake_cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice other) {
  ENTER();
  *can = device != other;
  return 0;
}
CUresult fake_cuCtxEnablePeerAccess(CUcontext other, unsigned flags) {
  (void)other, (void)flags;
  ENTER();
  return 0;
}
CUresult fake_cuDevicePrimaryCtxRelease(CUdevice device) {
  (void)device;
  ENTER();
  return 0;
}
CUresult fake_cuCtxSetCurrent(CUcontext context) {
  (void)context;
  ENTER();
  return 0;
}
CUresult fake_cuCtxSynchronize(void) {
  ENTER();
  flush();
  return 0;
}

/* ---- memory */
CUresult fake_cuMemGetInfo(size_t *nfree, size_t *total) {
  *nfree = (size_t)(limit - used), *total = (size_t)limit;
  return 0;
}
CUresult fake_cuMemAlloc(CUdeviceptr *at, size_t nbytes) {
  ENTER();
  if (used + (long)nbytes > limit || nblocks == MOST) return CUDA_ERROR_OUT_OF_MEMORY;
  void *p = malloc(nbytes);
  if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(p, 0xa5, nbytes < 4096 ? nbytes : 4096);
  *at = (CUdeviceptr)(uintptr_t)p;
  block[nblocks].at = *at, block[nblocks++].nbytes = nbytes;
  used += (long)nbytes;
  return 0;
}
CUresult fake_cuMemFree(CUdeviceptr at) {
  ENTER();
  flush(); /* a real one waits for the device as well */
  for (int i = 0; i < nblocks; i++) {
    if (block[i].at != at) continue;
    used -= (long)block[i].nbytes;
    block[i] = block[--nblocks];
    free(host(at));
    return 0;
  }
  return INVALID;
}
static struct {
  char *at;
  size_t nbytes;
} pinned[64];
CUresult fake_cuMemHostAlloc(void **at, size_t nbytes, unsigned flags) {
  (void)flags;
  ENTER();
  if (!(*at = malloc(nbytes))) return CUDA_ERROR_OUT_OF_MEMORY;
  int i = 0;
  while (i < 63 && pinned[i].at) i++;
  pinned[i].at = *at, pinned[i].nbytes = nbytes;
  return 0;
}
static bool is_pinned(const char *at) {
  for (int i = 0; i < 64; i++)
    if (pinned[i].at && at >= pinned[i].at && at < pinned[i].at + pinned[i].nbytes) return true;
  return false;
}
CUresult fake_cuMemFreeHost(void *at) {
  flush();
  for (int i = 0; i < 64; i++)
    if (pinned[i].at == at) pinned[i].at = NULL;
  free(at);
  return 0;
}
CUresult fake_cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t n, CUstream stream) {
  ENTER();
  if (!inside(to, n) || !stream) return ILLEGAL_ADDRESS;
  put_off(host(to), from, n);
  if (!is_pinned(from)) flush(); /* it is read before the call returns */
  return 0;
}
CUresult fake_cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t n, CUstream stream) {
  ENTER();
  if (!inside(from, n) || !stream) return ILLEGAL_ADDRESS;
  put_off(to, host(from), n);
  return 0;
}
CUresult fake_cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream) {
  ENTER();
  if (!inside(from, n) || !inside(to, n) || !stream) return ILLEGAL_ADDRESS;
  put_off(host(to), host(from), n);
  return 0;
}
CUresult fake_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext there, CUdeviceptr from,
                                CUcontext here, size_t n, CUstream stream) {
  ENTER();
  if (there == here || !inside(from, n) || !inside(to, n) || !stream) return ILLEGAL_ADDRESS;
  put_off(host(to), host(from), n);
  return 0;
}

/* ---- order */
CUresult fake_cuStreamCreate(CUstream *stream, unsigned flags) {
  (void)flags;
  ENTER();
  *stream = malloc(1);
  return 0;
}
CUresult fake_cuStreamDestroy(CUstream stream) {
  free(stream);
  return 0;
}
CUresult fake_cuStreamSynchronize(CUstream stream) {
  ENTER();
  flush();
  return stream ? 0 : INVALID;
}
CUresult fake_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  (void)flags;
  ENTER();
  return stream && event ? 0 : INVALID;
}
/* A record keeps nodes of one pointer argument and one number, as its only kernel has. */
struct CUgraph_st {
  int n;
  struct CUgraphNode_st {
    CUdeviceptr at;
    int count;
  } node[64];
};
static long roots, edges; /* of the record that was made last */
long fake_roots(void) { return roots; }
long fake_edges(void) { return edges; }
CUresult fake_cuGraphCreate(CUgraph *graph, unsigned flags) {
  (void)flags;
  ENTER();
  return (*graph = calloc(1, sizeof **graph)) ? 0 : INVALID;
}
static void set_node(CUgraphNode node, const CUkernelNodeParams *p) {
  if (any) return;
  node->at = *(CUdeviceptr *)p->kernelParams[0];
  node->count = *(int *)p->kernelParams[1];
}
CUresult fake_cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                   size_t nafter, const CUkernelNodeParams *params) {
  ENTER();
  if (graph->n == 64) return INVALID;
  for (size_t i = 0; i < nafter; i++) { /* different launches of this record, from before */
    if (after[i] < graph->node || after[i] >= graph->node + graph->n) return INVALID;
    for (size_t k = 0; k < i; k++)
      if (after[k] == after[i]) return INVALID;
  }
  if (!graph->n) roots = edges = 0;
  roots += !nafter, edges += (long)nafter;
  set_node(*node = &graph->node[graph->n++], params);
  return 0;
}
CUresult fake_cuGraphKernelNodeSetAttribute(CUgraphNode node, int attribute,
                                            const void *value) {
  ENTER();
  return node && value && attribute == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION ? 0 : INVALID;
}
CUresult fake_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                          unsigned long long flags) {
  (void)flags;
  ENTER();
  *exec = (CUgraphExec)(void *)graph;
  return 0;
}
CUresult fake_cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUkernelNodeParams *params) {
  ENTER();
  if (!exec) return INVALID;
  set_node(node, params);
  return 0;
}
CUresult fake_cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  ENTER();
  if (!stream) return INVALID;
  flush();
  CUgraph graph = (CUgraph)(void *)exec;
  if (any) return 0;
  for (int k = 0; k < graph->n; k++) {
    float *x = host(graph->node[k].at);
    for (int i = 0; i < graph->node[k].count; i++) x[i] *= 3;
  }
  return 0;
}
CUresult fake_cuGraphDestroy(CUgraph graph) {
  free(graph);
  return 0;
}
CUresult fake_cuGraphExecDestroy(CUgraphExec exec) {
  (void)exec;
  return 0;
}
CUresult fake_cuEventCreate(CUevent *event, unsigned flags) {
  (void)flags;
  ENTER();
  *event = malloc(1);
  return 0;
}
CUresult fake_cuEventDestroy(CUevent event) {
  free(event);
  return 0;
}
CUresult fake_cuEventRecord(CUevent event, CUstream stream) {
  ENTER();
  return stream && event ? 0 : INVALID;
}
CUresult fake_cuEventSynchronize(CUevent event) {
  ENTER();
  flush();
  return event ? 0 : INVALID;
}
CUresult fake_cuEventElapsedTime(float *msec, CUevent from, CUevent to) {
  *msec = 0.5f;
  return from && to ? 0 : INVALID;
}

/* ---- code: the one kernel it knows, "triple", works on (float *x, int n) */
CUresult fake_cuLibraryLoadData(CUlibrary *library, const void *code, int *options,
                                void **values, unsigned n, int *library_options,
                                void **library_values, unsigned nlibrary) {
  (void)library_options, (void)library_values;
  ENTER();
  while (held) usleep(100);
  for (unsigned i = 0; i < n && strstr(code, ".bad"); i++)
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) strcpy(values[i], "ptxas: line 1: syntax error");
  if (strstr(code, ".bad")) return 218;
  *library = malloc(1);
  return nlibrary ? INVALID : 0;
}
/* A map is its arguments. */
CUresult fake_cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *at,
                                     const uint64_t *dim, const uint64_t *stride,
                                     const uint32_t *box, const uint32_t *step, int interleave,
                                     int swizzle, int promotion, int fill) {
  (void)type, (void)at, (void)step, (void)interleave, (void)swizzle, (void)promotion,
      (void)fill;
  ENTER();
  if (rank < 2 || rank > 5 || !dim[0] || stride[0] % 16 || box[0] > 256 || box[1] > 256)
    return INVALID;
  memcpy(map, box, 2 * sizeof *box);
  return 0;
}
CUresult fake_cuLibraryUnload(CUlibrary library) {
  free(library);
  return 0;
}
CUresult fake_cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  ENTER();
  *kernel = (CUkernel)(void *)library;
  return strcmp(name, "triple") && !any ? NOT_FOUND : 0;
}
CUresult fake_cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
  ENTER();
  *function = (CUfunction)(void *)kernel;
  return 0;
}
CUresult fake_cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  (void)function;
  ENTER();
  return attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value < 232449
             ? 0
             : INVALID;
}
CUresult fake_cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
  (void)function;
  ENTER();
  *value = attribute == CU_FUNC_ATTRIBUTE_NUM_REGS ? 32 : 0;
  return 0;
}
CUresult fake_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                          int threads, size_t shared) {
  (void)function, (void)shared;
  ENTER();
  *blocks = threads > 0 ? 2048 / threads : 0;
  return threads > 0 ? 0 : INVALID;
}
/* Its modules have no variables. */
CUresult fake_cuLibraryGetGlobal(CUdeviceptr *at, size_t *nbytes, CUlibrary library,
                                 const char *name) {
  (void)library, (void)name;
  ENTER();
  *at = 0, *nbytes = 0;
  return NOT_FOUND;
}
static long early;
long fake_early(void) { return early; }
CUresult fake_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **args,
                               void **extra) {
  (void)extra;
  ENTER();
  if (!function || !config->hStream || config->blockDimX > 1024) return INVALID;
  for (unsigned i = 0; i < config->numAttrs; i++)
    early += config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
             config->attrs[i].value.early;
  flush();
  if (any) return 0;
  float *x = host(*(CUdeviceptr *)args[0]);
  for (int i = 0; i < *(int *)args[1]; i++) x[i] *= 3;
  return 0;
}
