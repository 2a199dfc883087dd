/* What hip*.c share: the part of AMD's HIP that is used beside devices/driver/driver.h,
 * declared here so that no header of the vendor is needed to build. Functions are found in
 * libamdhip64.so, of versions 7, 6 or 5, when a GPU is first asked for; numbers and structs are
 * the same in all of them. */
#ifndef TS_DEVICES_DRIVER_HIP_API_H
#define TS_DEVICES_DRIVER_HIP_API_H

#include "devices/driver/driver.h"

enum {
  HIP_ERROR_OUT_OF_MEMORY = 2,
  HIP_ERROR_NO_BINARY_FOR_GPU = 209,
  HIP_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
};
enum {
  HIP_ATTRIBUTE_CLOCK_RATE = 5, /* kHz */
  HIP_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 57,
  HIP_ATTRIBUTE_MEMORY_BUS_WIDTH = 59,  /* bits */
  HIP_ATTRIBUTE_MEMORY_CLOCK_RATE = 60, /* kHz */
  HIP_ATTRIBUTE_MULTIPROCESSOR_COUNT = 63,
};

typedef struct HipDim {
  uint32_t x, y, z;
} HipDim;

typedef struct HipKernelNodeParams {
  HipDim block;
  void **extra;
  void *function;
  HipDim grid;
  void **params;
  unsigned shared;
} HipKernelNodeParams;

/* name, arguments */
#define TS_HIP_CALLS(CALL)                                                                     \
  CALL(hipSetDevice, (int device))                                                             \
  CALL(hipDeviceEnablePeerAccess, (int other, unsigned flags))                                 \
  CALL(hipMemcpyPeerAsync,                                                                     \
       (void *to, int there, const void *from, int here, size_t nbytes, void *stream))         \
  CALL(hipGraphAddKernelNode, (void **node, void *graph, void *const *after, size_t nafter,    \
                               const HipKernelNodeParams *params))                             \
  CALL(hipGraphInstantiate, (void **exec, void *graph, void **bad, char *log, size_t size))    \
  CALL(hipGraphExecKernelNodeSetParams,                                                        \
       (void *exec, void *node, const HipKernelNodeParams *params))                            \
  CALL(hipModuleLoadData, (void **module, const void *code))                                   \
  CALL(hipModuleGetFunction, (void **function, void *module, const char *name))                \
  CALL(hipModuleLaunchKernel,                                                                  \
       (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,   \
        unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **params,      \
        void **extra))

typedef struct TsHipApi {
#define CALL(name, args) int(*name) args;
  TS_HIP_CALLS(CALL)
#undef CALL
  const char *(*name)(int code), *(*text)(int code);
  int (*properties)(void *out, int device);
} TsHipApi;

/* Both valid once ts_hip_load() gave NULL. */
extern TsHipApi ts_hip;
extern TsDriver ts_hip_driver;
/* Loads the driver once. NULL, or the sentence that says why there is none. */
const char *ts_hip_load(void);

/* ts_hip.call(args), or the function returns -1 with err filled. */
#define TS_HIP(d, err, call, ...)                                                              \
  do {                                                                                         \
    int code_ = ts_hip.call(__VA_ARGS__);                                                      \
    if (code_) return ts_driver_fail(d, code_, #call, err);                                    \
  } while (0)

/* devices/driver/hip_run.c */
extern const TsDeviceRun ts_hip_run;
int ts_hip_node_new(TsDevice *d, void **node, void *graph, void *const *after, size_t nafter,
                    const TsLaunch *l, TsError *err);
int ts_hip_node_set(TsDevice *d, void *exec, void *node, const TsLaunch *l, TsError *err);
int ts_hip_exec_new(TsDevice *d, void **exec, void *graph, TsError *err);

#endif
