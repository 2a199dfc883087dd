/* What cuda*.c share: the part of the CUDA driver API that is used beside
 * driver.h, declared here so that no header of the vendor is needed to build, and the
 * state of a device. Functions are found in libcuda.so.1 when a GPU is first asked for. */
#ifndef TS_DEVICES_DRIVER_CUDA_API_H
#define TS_DEVICES_DRIVER_CUDA_API_H

#include "devices/driver/driver.h"

/* The driver of CUDA 12.0: the first that takes code for sm_90a, and that has all of these. */
enum { TS_CUDA_VERSION_MIN = 12000 };

typedef int CUresult;
/* Handles. */
typedef void *CUcontext, *CUlibrary, *CUkernel, *CUfunction, *CUstream, *CUgraph, *CUgraphNode,
    *CUgraphExec;

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
enum { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
enum { CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6 };
enum {
  CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
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
    int early;    /* PROGRAMMATIC_STREAM_SERIALIZATION */
    int together; /* COOPERATIVE */
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
  CALL(cuGetErrorName, "", (CUresult code, const char **text))                                 \
  CALL(cuGetErrorString, "", (CUresult code, const char **text))                               \
  CALL(cuDevicePrimaryCtxRetain, "", (CUcontext * context, int device))                        \
  CALL(cuDevicePrimaryCtxRelease, "_v2", (int device))                                         \
  CALL(cuCtxEnablePeerAccess, "", (CUcontext other, unsigned flags))                           \
  CALL(cuCtxSetCurrent, "", (CUcontext context))                                               \
  CALL(cuMemcpyPeerAsync, "",                                                                  \
       (void *to, CUcontext there, const void *from, CUcontext here, size_t nbytes,            \
        CUstream stream))                                                                      \
  CALL(cuGraphAddKernelNode, "_v2",                                                            \
       (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t nafter,            \
        const CUkernelNodeParams *params))                                                     \
  CALL(cuGraphKernelNodeSetAttribute, "",                                                      \
       (CUgraphNode node, int attribute, const void *value))                                   \
  CALL(cuGraphInstantiateWithFlags, "",                                                        \
       (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                          \
  CALL(cuGraphExecKernelNodeSetParams, "_v2",                                                  \
       (CUgraphExec exec, CUgraphNode node, const CUkernelNodeParams *params))                 \
  CALL(cuLibraryLoadData, "",                                                                  \
       (CUlibrary * library, const void *code, int *options, void **values, unsigned n,        \
        int *library_options, void **library_values, unsigned nlibrary))                       \
  CALL(cuTensorMapEncodeTiled, "",                                                             \
       (void *map, int type, unsigned rank, void *at, const uint64_t *dim,                     \
        const uint64_t *stride, const uint32_t *box, const uint32_t *step, int interleave,     \
        int swizzle, int promotion, int fill))                                                 \
  CALL(cuLibraryGetKernel, "", (CUkernel * kernel, CUlibrary library, const char *name))       \
  CALL(cuKernelGetFunction, "", (CUfunction * function, CUkernel kernel))                      \
  CALL(cuFuncSetAttribute, "", (CUfunction function, int attribute, int value))                \
  CALL(cuLaunchKernelEx, "",                                                                   \
       (const CUlaunchConfig *config, CUfunction function, void **args, void **extra))

/* Of an edge of a graph: where it leaves, and what it stands for. */
typedef struct CUgraphEdgeData {
  unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdgeData;
enum { CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC = 1, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC = 1 };

/* What drivers have from CUDA 12.3 on; NULL: this one has not. */
typedef struct TsCudaEdges {
  CUresult (*cuGraphAddDependencies)(CUgraph graph, const CUgraphNode *from,
                                     const CUgraphNode *to, const CUgraphEdgeData *edge,
                                     size_t n);
} TsCudaEdges;
extern TsCudaEdges ts_cuda_edges;

typedef struct TsCudaApi {
#define CALL(name, version, args) CUresult(*name) args;
  TS_CUDA_CALLS(CALL)
#undef CALL
} TsCudaApi;

/* Both valid once ts_cuda_load() gave NULL. */
extern TsCudaApi ts_cuda;
extern TsDriver ts_cuda_driver;
/* Loads the driver once. NULL, or the sentence that says why there is none. */
const char *ts_cuda_load(void);

typedef struct TsCuda {
  TsDriven of;
  CUcontext context;
  struct TsCudaMaps *maps; /* devices/driver/cuda_map.c; made by the first */
} TsCuda;

/* ts_cuda.call(args), or the function returns -1 with err filled. */
#define TS_CUDA(d, err, call, ...)                                                             \
  do {                                                                                         \
    CUresult code_ = ts_cuda.call(__VA_ARGS__);                                                \
    if (code_) return ts_driver_fail(d, code_, #call, err);                                    \
  } while (0)

/* devices/driver/cuda_map.c: as TsDeviceRun.tensor_map. */
int ts_cuda_tensor_map(TsDevice *d, const TsTensorMap *view, void *out, TsError *err);

/* devices/driver/cuda_run.c */
extern const TsDeviceRun ts_cuda_run;
/* Of TsDriver: launches in graphs. */
int ts_cuda_node_new(TsDevice *d, void **node, void *graph, void *const *after, size_t nafter,
                     const TsLaunch *l, TsError *err);
int ts_cuda_node_set(TsDevice *d, void *exec, void *node, const TsLaunch *l, TsError *err);
int ts_cuda_exec_new(TsDevice *d, void **exec, void *graph, TsError *err);

#endif
