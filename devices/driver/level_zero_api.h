/* What level_zero*.c share: the part of Level Zero that is used, declared here so that
 * no header of the vendor is needed to build, and the state of a device. Functions are found in
 * libze_loader.so.1 when a GPU is first asked for. */
#ifndef TS_DEVICES_DRIVER_LEVEL_ZERO_API_H
#define TS_DEVICES_DRIVER_LEVEL_ZERO_API_H

#include <pthread.h>

#include "devices/driver/driver.h"

typedef int ZeResult;
enum {
  ZE_NOT_READY = 1,
  ZE_DEVICE_LOST = 0x70000001,
  ZE_OUT_OF_HOST_MEMORY = 0x70000002,
  ZE_OUT_OF_DEVICE_MEMORY = 0x70000003,
};
enum { ZE_INIT_GPU_ONLY = 1, ZE_DEVICE_TYPE_GPU = 1 };
enum { ZE_QUEUE_IN_ORDER = 2, ZE_MODE_ASYNCHRONOUS = 2, ZE_GROUP_COMPUTE = 1 };
enum { ZE_PRIORITY_HIGH = 2 };
enum {
  ZE_POOL_HOST_VISIBLE = 1,
  ZE_POOL_TIMESTAMP = 4,
  ZE_SCOPE_DEVICE = 2,
  ZE_SCOPE_HOST = 4
};
enum { ZE_MODULE_SPIRV = 0, ZE_HAS_FP16 = 1, ZE_HAS_FP64 = 2, ZE_HAS_DPAS = 2 };
#define ZE_DOT_PRODUCTS "ZE_intel_experimental_device_module_dp_properties"
/* The first version of the interface whose immediate lists keep their order by themselves. */
enum { ZE_VERSION_IN_ORDER = 1 << 16 | 7 };

/* A struct begins with what it is and, NULL here, what extends it. */
typedef struct ZeHead {
  uint32_t type;
  const void *next;
} ZeHead;
enum {
  ZE_TYPE_DEVICE = 3,
  ZE_TYPE_COMPUTE = 4,
  ZE_TYPE_MODULE_PROPERTIES = 5,
  ZE_TYPE_QUEUE_GROUP = 6,
  ZE_TYPE_MEMORY = 7,
  ZE_TYPE_DRIVER = 1,
  ZE_TYPE_CONTEXT_DESC = 0xd,
  ZE_TYPE_QUEUE_DESC = 0xe,
  ZE_TYPE_LIST_DESC = 0xf,
  ZE_TYPE_POOL_DESC = 0x10,
  ZE_TYPE_EVENT_DESC = 0x11,
  ZE_TYPE_DEVICE_ALLOC_DESC = 0x15,
  ZE_TYPE_HOST_ALLOC_DESC = 0x16,
  ZE_TYPE_MODULE_DESC = 0x1b,
  ZE_TYPE_KERNEL_DESC = 0x1d,
  ZE_TYPE_LARGE_ALLOC_DESC = 0x20001,
  ZE_TYPE_DOT_PRODUCTS = 0x30013, /* ZE_DOT_PRODUCTS, in Intel's driver from 2024 on */
};

typedef struct ZeDriverProperties {
  ZeHead head;
  uint8_t id[16];
  uint32_t version;
} ZeDriverProperties;

typedef struct ZeDeviceProperties {
  ZeHead head;
  uint32_t type, vendor, device, flags, subdevice, clock; /* MHz */
  uint64_t most_alloc;
  uint32_t contexts, priorities, threads, simd, units, subslices, slices;
  uint64_t timer; /* ns */
  uint32_t timer_bits, kernel_timer_bits;
  uint8_t id[16];
  char name[256];
} ZeDeviceProperties;

typedef struct ZeComputeProperties {
  ZeHead head;
  uint32_t threads, size[3], count[3], shared, nsubgroup, subgroup[8];
} ZeComputeProperties;

typedef struct ZeModuleProperties {
  ZeHead head;
  uint32_t spirv, flags, fp16, fp32, fp64, arguments, printf_bytes;
  uint8_t native[16];
} ZeModuleProperties;

typedef struct ZeDotProperties {
  ZeHead head;
  uint32_t flags;
} ZeDotProperties;

typedef struct ZeExtension {
  char name[256];
  uint32_t version;
} ZeExtension;

typedef struct ZeMemoryProperties {
  ZeHead head;
  uint32_t flags, clock, width; /* MHz, bits */
  uint64_t total;
  char name[256];
} ZeMemoryProperties;

typedef struct ZeQueueGroup {
  ZeHead head;
  uint32_t flags;
  size_t pattern;
  uint32_t queues;
} ZeQueueGroup;

typedef struct ZeContextDesc {
  ZeHead head;
  uint32_t flags;
} ZeContextDesc;
typedef struct ZeQueueDesc {
  ZeHead head;
  uint32_t ordinal, index, flags, mode, priority;
} ZeQueueDesc;
typedef struct ZeListDesc {
  ZeHead head;
  uint32_t ordinal, flags;
} ZeListDesc;
typedef struct ZePoolDesc {
  ZeHead head;
  uint32_t flags, count;
} ZePoolDesc;
typedef struct ZeEventDesc {
  ZeHead head;
  uint32_t index, signal, wait;
} ZeEventDesc;
typedef struct ZeAllocDesc {
  ZeHead head;
  uint32_t flags, ordinal;
} ZeAllocDesc;
typedef struct ZeModuleDesc {
  ZeHead head;
  uint32_t format;
  size_t nbytes;
  const void *code;
  const char *options;
  const void *constants;
} ZeModuleDesc;
typedef struct ZeKernelDesc {
  ZeHead head;
  uint32_t flags;
  const char *name;
} ZeKernelDesc;
typedef struct ZeGroups {
  uint32_t x, y, z;
} ZeGroups;
typedef struct ZeTimes {
  uint64_t global[2], context[2]; /* begin and end, in ticks */
} ZeTimes;

/* name, arguments; handles are pointers */
#define TS_ZE_CALLS(CALL)                                                                      \
  CALL(zeInit, (unsigned flags))                                                               \
  CALL(zeDriverGet, (uint32_t * n, void **driver))                                             \
  CALL(zeDriverGetApiVersion, (void *driver, uint32_t *version))                               \
  CALL(zeDriverGetProperties, (void *driver, ZeDriverProperties *out))                         \
  CALL(zeDriverGetExtensionProperties, (void *driver, uint32_t *n, ZeExtension *list))         \
  CALL(zeDeviceGet, (void *driver, uint32_t *n, void **device))                                \
  CALL(zeDeviceGetSubDevices, (void *device, uint32_t *n, void **part))                        \
  CALL(zeDeviceGetProperties, (void *device, ZeDeviceProperties *out))                         \
  CALL(zeDeviceGetComputeProperties, (void *device, ZeComputeProperties *out))                 \
  CALL(zeDeviceGetModuleProperties, (void *device, ZeModuleProperties *out))                   \
  CALL(zeDeviceGetMemoryProperties, (void *device, uint32_t *n, ZeMemoryProperties *out))      \
  CALL(zeDeviceGetCommandQueueGroupProperties, (void *device, uint32_t *n, ZeQueueGroup *out)) \
  CALL(zeDeviceCanAccessPeer, (void *device, void *other, uint8_t *can))                       \
  CALL(zeContextCreate, (void *driver, const ZeContextDesc *desc, void **context))             \
  CALL(zeMemAllocDevice, (void *context, const ZeAllocDesc *desc, size_t nbytes, size_t align, \
                          void *device, void **at))                                            \
  CALL(zeMemAllocHost,                                                                         \
       (void *context, const ZeContextDesc *desc, size_t nbytes, size_t align, void **at))     \
  CALL(zeMemFree, (void *context, void *at))                                                   \
  CALL(zeMemGetAddressRange, (void *context, const void *at, void **base, size_t *nbytes))     \
  CALL(zeCommandListCreateImmediate,                                                           \
       (void *context, void *device, const ZeQueueDesc *desc, void **list))                    \
  CALL(zeCommandListDestroy, (void *list))                                                     \
  CALL(zeCommandListCreate,                                                                    \
       (void *context, void *device, const ZeListDesc *desc, void **list))                     \
  CALL(zeCommandListClose, (void *list))                                                       \
  CALL(zeCommandListReset, (void *list))                                                       \
  CALL(zeCommandQueueCreate,                                                                   \
       (void *context, void *device, const ZeQueueDesc *desc, void **queue))                   \
  CALL(zeCommandQueueExecuteCommandLists, (void *queue, uint32_t n, void **list, void *fence)) \
  CALL(zeCommandListAppendEventReset, (void *list, void *event))                               \
  CALL(zeCommandListAppendMemoryCopy, (void *list, void *to, const void *from, size_t nbytes,  \
                                       void *signal, uint32_t nwait, void **wait))             \
  CALL(zeCommandListAppendBarrier, (void *list, void *signal, uint32_t nwait, void **wait))    \
  CALL(zeCommandListAppendSignalEvent, (void *list, void *event))                              \
  CALL(zeCommandListAppendWaitOnEvents, (void *list, uint32_t n, void **event))                \
  CALL(zeCommandListAppendLaunchKernel, (void *list, void *kernel, const ZeGroups *groups,     \
                                         void *signal, uint32_t nwait, void **wait))           \
  CALL(zeEventPoolCreate,                                                                      \
       (void *context, const ZePoolDesc *desc, uint32_t n, void **device, void **pool))        \
  CALL(zeEventPoolDestroy, (void *pool))                                                       \
  CALL(zeEventCreate, (void *pool, const ZeEventDesc *desc, void **event))                     \
  CALL(zeEventDestroy, (void *event))                                                          \
  CALL(zeEventHostSynchronize, (void *event, uint64_t nsec))                                   \
  CALL(zeEventHostReset, (void *event))                                                        \
  CALL(zeEventQueryKernelTimestamp, (void *event, ZeTimes *out))                               \
  CALL(zeModuleCreate,                                                                         \
       (void *context, void *device, const ZeModuleDesc *desc, void **module, void **log))     \
  CALL(zeModuleDestroy, (void *module))                                                        \
  CALL(zeModuleBuildLogGetString, (void *log, size_t *n, char *text))                          \
  CALL(zeModuleBuildLogDestroy, (void *log))                                                   \
  CALL(zeKernelCreate, (void *module, const ZeKernelDesc *desc, void **kernel))                \
  CALL(zeKernelDestroy, (void *kernel))                                                        \
  CALL(zeKernelSetGroupSize, (void *kernel, uint32_t x, uint32_t y, uint32_t z))               \
  CALL(zeKernelSetArgumentValue, (void *kernel, uint32_t i, size_t nbytes, const void *value))

typedef struct TsZeApi {
#define CALL(name, args) ZeResult(*name) args;
  TS_ZE_CALLS(CALL)
#undef CALL
} TsZeApi;

/* Both valid once ts_level_zero_count() gave some. */
extern TsZeApi ts_ze;
extern const TsDriver ts_ze_driver;
/* NULL, or the sentence that says why there is none. */
const char *ts_ze_load(void);

/* A call of ours is several of theirs: which one of this thread gave a code that comes back
 * from ours. Those whose code nobody is told are called plainly. */
typedef struct TsZeFailed {
  const char *call;
  ZeResult code;
} TsZeFailed;
extern _Thread_local TsZeFailed ts_ze_failed;
static inline ZeResult ts_ze_noted(const char *call, ZeResult code) {
  if (code) ts_ze_failed = (TsZeFailed){call, code};
  return code;
}
#define ZE_DO(call, ...) ts_ze_noted(#call, ts_ze.call(__VA_ARGS__))

/* An order of work: an immediate list, and an event by which the host waits for it. A list is
 * one thread's at a time: who appends to it, or waits for it, has the lock. */
typedef struct TsZeStream {
  struct TsZeStream *next; /* of the device */
  pthread_mutex_t lock;    /* recursive */
  void *list, *pool, *done;
  bool open;   /* the last command has no barrier behind it that it should have */
  bool unsure; /* `done` may be signalled */
} TsZeStream;
/* A command of the list, and what makes the order behind it. */
#define ZE_APPEND(stream, call, ...)                                                           \
  ts_ze_appended(stream, ZE_DO(call, ts_ze_append(stream), __VA_ARGS__))
void *ts_ze_append(TsZeStream *s); /* the list, locked */
ZeResult ts_ze_appended(TsZeStream *s, ZeResult code);

typedef struct TsZe {
  TsDriven of;
  void *driver, *context, *device; /* the context is all devices' of the driver */
  ZeDeviceProperties properties;
  bool in_order, f64;
  uint32_t compute;    /* the group of queues that run kernels */
  size_t taken;        /* bytes of memory */
  TsZeStream *streams; /* all that live */
  void *queue;         /* of lists that are closed; NULL before the first one */
} TsZe;

/* The thread's device. */
static inline TsZe *ts_ze_here(void) { return (TsZe *)(uintptr_t)ts_driver_current; }

/* devices/driver/level_zero_order.c: as members of TsDriver. */
ZeResult ts_ze_stream_new(void **stream, unsigned flags);
ZeResult ts_ze_stream_first(void **stream, unsigned flags, int priority);
ZeResult ts_ze_stream_free(void *stream);
ZeResult ts_ze_stream_wait(void *stream);
ZeResult ts_ze_stream_after(void *stream, void *event, unsigned flags);
ZeResult ts_ze_synchronize(void);
ZeResult ts_ze_event_new(void **event, unsigned flags);
ZeResult ts_ze_event_free(void *event);
ZeResult ts_ze_event_record(void *event, void *stream);
ZeResult ts_ze_event_wait(void *event);
ZeResult ts_ze_event_msec(float *msec, void *from, void *to);

/* Events of a thread's device: host and devices see them. */
ZeResult ts_ze_pool_new(unsigned flags, uint32_t n, void **pool);
ZeResult ts_ze_place_new(void *pool, uint32_t i, void **event);
/* The list signals it; if that fails it is as it was. And back, what may be on its way. */
ZeResult ts_ze_signal(TsZeStream *s, void *event);
void ts_ze_unsignal(TsZeStream *s, void *event);

/* devices/driver/level_zero_record.c: as members of TsDriver. */
ZeResult ts_ze_graph_new(void **graph, unsigned flags);
ZeResult ts_ze_graph_free(void *graph);
ZeResult ts_ze_graph_launch(void *exec, void *stream);
ZeResult ts_ze_exec_free(void *exec);
int ts_ze_node_new(TsDevice *d, void **out, void *graph, void *const *after, size_t nafter,
                   const TsLaunch *l, TsError *err);
int ts_ze_node_set(TsDevice *d, void *exec, void *node, const TsLaunch *l, TsError *err);
int ts_ze_exec_new(TsDevice *d, void **exec, void *graph, TsError *err);

/* level_zero_run.c. A kernel ends before its module, and holds the arguments of the next
 * launch: one thread launches. */
typedef struct TsZeKernel {
  struct TsZeKernel *next; /* of the module */
  void *at;
  uint32_t block[3];
} TsZeKernel;
ZeResult ts_ze_kernel_append(void *list, const TsLaunch *l);
extern const TsDeviceRun ts_ze_run;
ZeResult ts_ze_module_free(void *module);

#endif
