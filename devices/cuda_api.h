/* What devices/cuda*.c share: the part of the CUDA driver API that is used, declared
 * here so that no header of the vendor is needed to build, and the state of a device.
 * Functions are found in libcuda.so.1 when a GPU is first asked for. */
#ifndef TS_DEVICES_CUDA_API_H
#define TS_DEVICES_CUDA_API_H

#include <stddef.h>

#include "devices/backends.h"

/* The driver of CUDA 12.0: the first that takes code for sm_90a, and that has all of these. */
enum { TS_CUDA_VERSION_MIN = 12000 };

typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;

enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
};
enum {
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13, /* kHz */
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,       /* kHz */
  CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37, /* bits */
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
};
enum { CU_STREAM_NON_BLOCKING = 1 };
enum { CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2 };
enum {
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
};
enum { CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6 };
enum {
  CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6
};
enum {
  CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
  CU_TENSOR_MAP_DATA_TYPE_INT32 = 3,
  CU_TENSOR_MAP_DATA_TYPE_INT64 = 5,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT64 = 8,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9
};
enum { CU_TENSOR_MAP_L2_PROMOTION_128B = 2 };

typedef struct CUlaunchAttribute {
  int id;
  char pad[4];
  union {
    char room[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int early; /* PROGRAMMATIC_STREAM_SERIALIZATION */
  } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute *attrs;
  unsigned numAttrs;
} CUlaunchConfig;

typedef struct CUkernelNodeParams {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  void **kernelParams, **extra;
  void *kern, *ctx;
} CUkernelNodeParams;

/* name, suffix of the version that the symbol carries, arguments */
#define TS_CUDA_CALLS(CALL)                                                                    \
  CALL(cuInit, "", (unsigned flags))                                                           \
  CALL(cuDriverGetVersion, "", (int *version))                                                 \
  CALL(cuGetErrorName, "", (CUresult code, const char **text))                                 \
  CALL(cuGetErrorString, "", (CUresult code, const char **text))                               \
  CALL(cuDeviceGetCount, "", (int *n))                                                         \
  CALL(cuDeviceGet, "", (CUdevice * device, int ordinal))                                      \
  CALL(cuDeviceGetName, "", (char *name, int size, CUdevice device))                           \
  CALL(cuDeviceGetAttribute, "", (int *value, int attribute, CUdevice device))                 \
  CALL(cuDeviceTotalMem, "_v2", (size_t * nbytes, CUdevice device))                            \
  CALL(cuDevicePrimaryCtxRetain, "", (CUcontext * context, CUdevice device))                   \
  CALL(cuDeviceCanAccessPeer, "", (int *can, CUdevice device, CUdevice other))                 \
  CALL(cuCtxEnablePeerAccess, "", (CUcontext other, unsigned flags))                           \
  CALL(cuDevicePrimaryCtxRelease, "_v2", (CUdevice device))                                    \
  CALL(cuCtxSetCurrent, "", (CUcontext context))                                               \
  CALL(cuCtxSynchronize, "", (void))                                                           \
  CALL(cuMemGetInfo, "_v2", (size_t * nfree, size_t * total))                                  \
  CALL(cuMemAlloc, "_v2", (CUdeviceptr * at, size_t nbytes))                                   \
  CALL(cuMemFree, "_v2", (CUdeviceptr at))                                                     \
  CALL(cuMemHostAlloc, "", (void **at, size_t nbytes, unsigned flags))                         \
  CALL(cuMemFreeHost, "", (void *at))                                                          \
  CALL(cuMemcpyHtoDAsync, "_v2",                                                               \
       (CUdeviceptr to, const void *from, size_t nbytes, CUstream stream))                     \
  CALL(cuMemcpyDtoHAsync, "_v2", (void *to, CUdeviceptr from, size_t nbytes, CUstream stream)) \
  CALL(cuMemcpyDtoDAsync, "_v2",                                                               \
       (CUdeviceptr to, CUdeviceptr from, size_t nbytes, CUstream stream))                     \
  CALL(cuMemcpyPeerAsync, "",                                                                  \
       (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t nbytes,      \
        CUstream stream))                                                                      \
  CALL(cuStreamCreate, "", (CUstream * stream, unsigned flags))                                \
  CALL(cuStreamDestroy, "_v2", (CUstream stream))                                              \
  CALL(cuStreamSynchronize, "", (CUstream stream))                                             \
  CALL(cuStreamWaitEvent, "", (CUstream stream, CUevent event, unsigned flags))                \
  CALL(cuGraphCreate, "", (CUgraph * graph, unsigned flags))                                   \
  CALL(cuGraphAddKernelNode, "_v2",                                                            \
       (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t nafter,            \
        const CUkernelNodeParams *params))                                                     \
  CALL(cuGraphKernelNodeSetAttribute, "",                                                      \
       (CUgraphNode node, int attribute, const void *value))                                   \
  CALL(cuGraphInstantiateWithFlags, "",                                                        \
       (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                          \
  CALL(cuGraphExecKernelNodeSetParams, "_v2",                                                  \
       (CUgraphExec exec, CUgraphNode node, const CUkernelNodeParams *params))                 \
  CALL(cuGraphLaunch, "", (CUgraphExec exec, CUstream stream))                                 \
  CALL(cuGraphDestroy, "", (CUgraph graph))                                                    \
  CALL(cuGraphExecDestroy, "", (CUgraphExec exec))                                             \
  CALL(cuEventCreate, "", (CUevent * event, unsigned flags))                                   \
  CALL(cuEventDestroy, "_v2", (CUevent event))                                                 \
  CALL(cuEventRecord, "", (CUevent event, CUstream stream))                                    \
  CALL(cuEventSynchronize, "", (CUevent event))                                                \
  CALL(cuEventElapsedTime, "", (float *msec, CUevent from, CUevent to))                        \
  CALL(cuLibraryLoadData, "",                                                                  \
       (CUlibrary * library, const void *code, int *options, void **values, unsigned n,        \
        int *library_options, void **library_values, unsigned nlibrary))                       \
  CALL(cuTensorMapEncodeTiled, "",                                                             \
       (void *map, int type, unsigned rank, void *at, const uint64_t *dim,                     \
        const uint64_t *stride, const uint32_t *box, const uint32_t *step, int interleave,     \
        int swizzle, int promotion, int fill))                                                 \
  CALL(cuLibraryUnload, "", (CUlibrary library))                                               \
  CALL(cuLibraryGetKernel, "", (CUkernel * kernel, CUlibrary library, const char *name))       \
  CALL(cuKernelGetFunction, "", (CUfunction * function, CUkernel kernel))                      \
  CALL(cuFuncGetAttribute, "", (int *value, int attribute, CUfunction function))               \
  CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, "",                                        \
       (int *blocks, CUfunction function, int threads, size_t shared))                         \
  CALL(cuLibraryGetGlobal, "",                                                                 \
       (CUdeviceptr * at, size_t * nbytes, CUlibrary library, const char *name))               \
  CALL(cuFuncSetAttribute, "", (CUfunction function, int attribute, int value))                \
  CALL(cuLaunchKernelEx, "",                                                                   \
       (const CUlaunchConfig *config, CUfunction function, void **args, void **extra))

typedef struct TsCudaApi {
#define CALL(name, version, args) CUresult(*name) args;
  TS_CUDA_CALLS(CALL)
#undef CALL
} TsCudaApi;

/* Valid once ts_cuda_load() gave NULL. */
extern TsCudaApi ts_cuda;
/* Loads the driver once. NULL, or the sentence that says why there is none. */
const char *ts_cuda_load(void);

enum { TS_CUDA_NPOINT = 4 };
enum { TS_CUDA_NSTAGE = 3, TS_CUDA_STAGE_NBYTES = 8 << 20 };
enum { TS_CUDA_SMALL_STAGE_NBYTES = 256 << 10, TS_CUDA_FEW_NBYTES = 64 << 10 };

typedef struct TsCudaPool TsCudaPool;
typedef struct TsCuda {
  CUdevice device;
  char model[64];
  int major, minor, sms, khz;
  size_t total; /* bytes of memory */
  CUcontext context;
  /* The device's work is in order of `work`; copies to and from the host have a stream of
   * their own and are joined with it by two events. */
  CUstream work, copy;
  CUevent worked, copied;
  /* Points in the device's order, and how much had been freed at each (ts_cuda_freed): a copy
   * into memory that was free then need not wait for what was queued later. */
  struct {
    CUevent at;
    uint64_t freed;
  } point[TS_CUDA_NPOINT];
  int npoint; /* ever taken */
  struct {
    char *at;
    CUevent done; /* the copy out of it, or into it */
  } stage
      [TS_CUDA_NSTAGE]; /* pinned, made by the first copy, larger ones by the first large one */
  int64_t stage_nbytes; /* of each */
  char *few;            /* pinned, for a few bytes that are fetched */
  TsCudaPool *pool;
  struct TsCudaMaps *maps;                   /* devices/cuda_map.c; made by the first */
  struct TsCudaRecord *recording, *patching; /* devices/cuda_record.c; NULL: launches run */
  int patch_at;
} TsCuda;

/* Fills err with device, call, code and text; -1. */
int ts_cuda_fail(TsDevice *d, CUresult code, const char *call, TsError *err);
/* Makes the device's context the thread's. */
int ts_cuda_enter(TsDevice *d, TsError *err);

/* Something goes into the device's order: true if it may go ahead of the end of the last one. */
static inline bool ts_cuda_queue(TsDevice *d) {
  bool dependent = d->dependent;
  d->queued++;
  d->dependent = false;
  return dependent;
}

/* ts_cuda.call(args), or the function returns -1 with err filled. */
#define TS_CUDA(d, err, call, ...)                                                             \
  do {                                                                                         \
    CUresult code_ = ts_cuda.call(__VA_ARGS__);                                                \
    if (code_) return ts_cuda_fail(d, code_, #call, err);                                      \
  } while (0)

/* devices/cuda_memory.c */
TsCudaPool *ts_cuda_pool_new(int64_t total); /* bytes of the GPU */
void *ts_cuda_alloc(TsDevice *d, int64_t nbytes, TsError *err);
void ts_cuda_free(TsDevice *d, void *at, int64_t nbytes);
void ts_cuda_trim(TsDevice *d);
void ts_cuda_hold(TsDevice *d, bool on);
int64_t ts_cuda_cached(const TsDevice *d);
/* Blocks freed so far, and when the block at this address was, if it is the last one that was
 * handed out; else now. */
uint64_t ts_cuda_freed(const TsDevice *d);
uint64_t ts_cuda_freed_at(const TsDevice *d, const void *block);

/* devices/cuda_fetch.c */
int ts_cuda_fetch(TsDevice *d, int n, const TsFetch *list, void *after, TsError *err);

/* devices/cuda_copy.c */
int ts_cuda_upload(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err);
int ts_cuda_download(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err);
int ts_cuda_copy(TsDevice *d, void *to, TsDevice *source, const void *from, int64_t nbytes,
                 TsError *err);

/* devices/cuda_record.c */
int ts_cuda_record_begin(TsDevice *d, TsError *err);
int ts_cuda_record_end(TsDevice *d, void **record, TsError *err);
int ts_cuda_record_patch(TsDevice *d, void *record, int first, TsError *err);
int ts_cuda_record_after(TsDevice *d, int n, const int *launch, TsError *err);
int ts_cuda_record_launch(TsDevice *d, void *record, TsError *err);
void ts_cuda_record_free(TsDevice *d, void *record);
/* A launch while a record is made or changed. */
int ts_cuda_record_add(TsDevice *d, const TsLaunch *l, TsError *err);

/* devices/cuda_map.c: as TsDeviceRun.tensor_map. */
int ts_cuda_tensor_map(TsDevice *d, const TsTensorMap *view, void *out, TsError *err);

/* devices/cuda_run.c */
extern const TsDeviceRun ts_cuda_run;

#endif
