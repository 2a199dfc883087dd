/* What GPUs have in common whose maker's driver works like CUDA's: memory, streams, events,
 * modules and graphs. A maker's file (cuda.c, hip.c, level_zero.c) gives a table of calls and
 * does what it has in ways of its own; the caching allocator, copies through pinned buffers,
 * launches kept as one are here, once. Errors name the call as the maker does. */
#ifndef TS_DEVICES_DRIVER_DRIVER_H
#define TS_DEVICES_DRIVER_DRIVER_H

#include <stddef.h>

#include "devices/backends.h"

/* Calls that have the same arguments with several makers, so that they are used as the library
 * has them. Handles are pointers, addresses of the device as well. 0 is success.
 *
 * member, CUDA's name, suffix of the version that its symbol carries, HIP's name, arguments */
#define TS_DRIVER_CALLS(CALL)                                                                  \
  CALL(init, cuInit, "", hipInit, (unsigned flags))                                            \
  CALL(version, cuDriverGetVersion, "", hipDriverGetVersion, (int *version))                   \
  CALL(count, cuDeviceGetCount, "", hipGetDeviceCount, (int *n))                               \
  CALL(device, cuDeviceGet, "", hipDeviceGet, (int *device, int ordinal))                      \
  CALL(model, cuDeviceGetName, "", hipDeviceGetName, (char *name, int size, int device))       \
  CALL(attribute, cuDeviceGetAttribute, "", hipDeviceGetAttribute,                             \
       (int *value, int attribute, int device))                                                \
  CALL(total, cuDeviceTotalMem, "_v2", hipDeviceTotalMem, (size_t * nbytes, int device))       \
  CALL(can_reach, cuDeviceCanAccessPeer, "", hipDeviceCanAccessPeer,                           \
       (int *can, int device, int other))                                                      \
  CALL(synchronize, cuCtxSynchronize, "", hipDeviceSynchronize, (void))                        \
  CALL(room, cuMemGetInfo, "_v2", hipMemGetInfo, (size_t * nfree, size_t * total))             \
  CALL(alloc, cuMemAlloc, "_v2", hipMalloc, (void **at, size_t nbytes))                        \
  CALL(free, cuMemFree, "_v2", hipFree, (void *at))                                            \
  CALL(host_alloc, cuMemHostAlloc, "", hipHostMalloc,                                          \
       (void **at, size_t nbytes, unsigned flags))                                             \
  CALL(host_free, cuMemFreeHost, "", hipHostFree, (void *at))                                  \
  CALL(copy_to, cuMemcpyHtoDAsync, "_v2", hipMemcpyHtoDAsync,                                  \
       (void *to, const void *from, size_t nbytes, void *stream))                              \
  CALL(copy_from, cuMemcpyDtoHAsync, "_v2", hipMemcpyDtoHAsync,                                \
       (void *to, const void *from, size_t nbytes, void *stream))                              \
  CALL(copy_inside, cuMemcpyDtoDAsync, "_v2", hipMemcpyDtoDAsync,                              \
       (void *to, const void *from, size_t nbytes, void *stream))                              \
  CALL(stream_new, cuStreamCreate, "", hipStreamCreateWithFlags,                               \
       (void **stream, unsigned flags))                                                        \
  CALL(stream_first, cuStreamCreateWithPriority, "", hipStreamCreateWithPriority,              \
       (void **stream, unsigned flags, int priority))                                          \
  CALL(stream_free, cuStreamDestroy, "_v2", hipStreamDestroy, (void *stream))                  \
  CALL(stream_wait, cuStreamSynchronize, "", hipStreamSynchronize, (void *stream))             \
  CALL(stream_after, cuStreamWaitEvent, "", hipStreamWaitEvent,                                \
       (void *stream, void *event, unsigned flags))                                            \
  CALL(event_new, cuEventCreate, "", hipEventCreateWithFlags, (void **event, unsigned flags))  \
  CALL(event_free, cuEventDestroy, "_v2", hipEventDestroy, (void *event))                      \
  CALL(event_record, cuEventRecord, "", hipEventRecord, (void *event, void *stream))           \
  CALL(event_wait, cuEventSynchronize, "", hipEventSynchronize, (void *event))                 \
  CALL(event_msec, cuEventElapsedTime, "", hipEventElapsedTime,                                \
       (float *msec, void *from, void *to))                                                    \
  CALL(graph_new, cuGraphCreate, "", hipGraphCreate, (void **graph, unsigned flags))           \
  CALL(graph_free, cuGraphDestroy, "", hipGraphDestroy, (void *graph))                         \
  CALL(graph_launch, cuGraphLaunch, "", hipGraphLaunch, (void *exec, void *stream))            \
  CALL(exec_free, cuGraphExecDestroy, "", hipGraphExecDestroy, (void *exec))                   \
  CALL(module_free, cuLibraryUnload, "", hipModuleUnload, (void *module))                      \
  CALL(variable, cuLibraryGetGlobal, "", hipModuleGetGlobal,                                   \
       (void **at, size_t *nbytes, void *module, const char *name))                            \
  CALL(kernel_fact, cuFuncGetAttribute, "", hipFuncGetAttribute,                               \
       (int *value, int attribute, void *kernel))                                              \
  CALL(kernel_blocks, cuOccupancyMaxActiveBlocksPerMultiprocessor, "",                         \
       hipModuleOccupancyMaxActiveBlocksPerMultiprocessor,                                     \
       (int *blocks, void *kernel, int threads, size_t shared))

/* Arguments of these that have the same numbers with these makers. */
enum { TS_STREAM_FIRST = -5 }; /* the nearest priority that the device has */
enum { TS_STREAM_NON_BLOCKING = 1, TS_EVENT_TIMED = 0, TS_EVENT_UNTIMED = 2 };
enum {
  TS_KERNEL_FACT_SHARED = 1,
  TS_KERNEL_FACT_LOCAL = 3,
  TS_KERNEL_FACT_REGISTERS = 4,
};

typedef struct TsDriver {
#define CALL(member, cuda, version, hip, args) int(*member) args;
  TS_DRIVER_CALLS(CALL)
#undef CALL
  struct {
#define CALL(member, cuda, version, hip, args) const char *member;
    TS_DRIVER_CALLS(CALL)
#undef CALL
  } name;

  /* ---- what a maker has in ways of its own. Functions with an err fill it and give -1. */
  const char *units;     /* what processors are called */
  int full;              /* the code that says that memory is out */
  int threads_attribute; /* that a processor holds at most */
  bool reads_at_once;    /* a copy from pageable memory has read it when the call is back */
  bool (*is_fatal)(int code); /* after which a device is of no more use to this process */
  void (*say)(int code, const char **name, const char **text); /* either may be NULL */
  /* The call that gave the code to a function that has several, or `call`; optional. */
  const char *(*failed)(int code, const char *call);
  int (*open)(TsDevice *d, TsError *err);      /* before anything is made; optional */
  void (*close)(TsDevice *d);                  /* all that was made is gone; optional */
  int (*enter)(TsDevice *d, TsError *err);     /* calls of this thread are of d */
  bool (*reach)(TsDevice *d, TsDevice *other); /* opens the way; it can_reach */
  /* Whether copies go from there to d without the host; optional: they do. */
  bool (*copies)(TsDevice *d, TsDevice *source);
  int (*copy_peer)(TsDevice *d, void *to, TsDevice *source, const void *from, size_t nbytes,
                   void *stream, TsError *err);
  int (*node_new)(TsDevice *d, void **node, void *graph, void *const *after, size_t nafter,
                  const TsLaunch *l, TsError *err);
  int (*node_set)(TsDevice *d, void *exec, void *node, const TsLaunch *l, TsError *err);
  int (*exec_new)(TsDevice *d, void **exec, void *graph, TsError *err);
} TsDriver;

enum { TS_DRIVER_NPOINT = 4, TS_DRIVER_NSECTION = 32 };
enum { TS_DRIVER_NSTAGE = 3, TS_DRIVER_STAGE_NBYTES = 8 << 20 };
enum { TS_DRIVER_SMALL_STAGE_NBYTES = 256 << 10, TS_DRIVER_FEW_NBYTES = 64 << 10 };

/* TsDevice.state of a GPU; that of a maker begins with it. */
typedef struct TsDriven {
  const TsDriver *driver;
  int device;               /* the driver's number for it */
  char model[64], code[32]; /* code: what its maker calls what runs on it, "sm_90" */
  int processors, khz;
  size_t total; /* bytes of memory */
  /* The device's work is in order of `work`; copies to and from the host have a stream of
   * their own and are joined with it by two events. */
  void *work, *copy;
  void *worked, *copied;
  /* Points in the device's order, and how much had been freed at each (ts_driver_freed): a copy
   * into memory that was free then need not wait for what was queued later. */
  struct {
    void *at;
    uint64_t freed;
  } point[TS_DRIVER_NPOINT];
  int npoint; /* ever taken */
  struct {
    char *at;
    void *done; /* the copy out of it, or into it */
  } stage
      [TS_DRIVER_NSTAGE]; /* pinned, made by the first copy, larger ones by the first large one */
  int64_t stage_nbytes;   /* of each */
  char *few;              /* pinned, for a few bytes that are fetched */
  /* The second order (aside.c): while `aside`, `work` is its stream, and `own` the
   * device's. */
  void *side, *own, *turned; /* turned: the event at which the orders meet */
  bool aside;
  struct {
    void *at; /* when it was over */
    uint64_t ticket;
  } section[TS_DRIVER_NSECTION]; /* the last ones */
  uint64_t nsection, rejoined; /* rejoined: the last ticket behind which the own order stands */
  struct TsDriverLate *late;   /* blocks that sections have freed */
  int nlate, caplate;
  struct TsDriverPool *pool;
  struct TsDriverRecord *recording, *patching; /* devices/driver/record.c; NULL: launches run */
  int patch_at;
} TsDriven;

static inline const TsDriver *ts_driver_of(const TsDevice *d) {
  return ((const TsDriven *)d->state)->driver;
}

/* ---- devices/driver/driver.c: the library, errors, what a device does as a whole */
/* A library by the first of its names that opens; of a variable of the environment, if it is
 * set: tests name one that stands for the driver there, a path, or "self" for the program.
 * NULL: `why` says what could not be opened, behind `none`; `words` stand for the names. */
typedef struct TsDriverLibrary {
  const char *none, *variable, *words;
  const char *const *names;
} TsDriverLibrary;
void *ts_driver_library(const TsDriverLibrary *l, char *why, size_t room);
/* Finds the symbols, n of them; the one that is missing, or NULL. */
typedef struct TsDriverSymbol {
  const char *name;
  size_t at; /* in a table of functions */
} TsDriverSymbol;
const char *ts_driver_symbols(void *library, int n, const TsDriverSymbol *list, void *table);
/* Fills err with device, call, code and text; -1. */
int ts_driver_fail(TsDevice *d, int code, const char *call, TsError *err);
/* Fills in what a driver's devices have in common, of which state and target are there. */
void ts_driver_device(TsDevice *d);

/* Makes the device the thread's. */
extern _Thread_local const TsDriven *ts_driver_current;
int ts_driver_switch(TsDevice *d, TsError *err);
static inline int ts_driver_enter(TsDevice *d, TsError *err) {
  return ts_driver_current == d->state ? 0 : ts_driver_switch(d, err);
}

/* Something goes into the device's order: true if it may go ahead of the end of the last
 * one. */
static inline bool ts_driver_queue(TsDevice *d) {
  bool dependent = d->dependent;
  d->queued++;
  d->dependent = false;
  return dependent;
}

/* A call of the device's driver, or the function returns -1 with err filled. */
#define TS_DRIVER(d, err, call, ...)                                                           \
  do {                                                                                         \
    const TsDriver *driver_ = ts_driver_of(d);                                                 \
    int code_ = driver_->call(__VA_ARGS__);                                                    \
    if (code_) return ts_driver_fail(d, code_, driver_->name.call, err);                       \
  } while (0)

/* ---- devices/driver/memory.c */
struct TsDriverPool *ts_driver_pool_new(const TsDriven *s);
void *ts_driver_alloc(TsDevice *d, int64_t nbytes, TsError *err);
void ts_driver_free(TsDevice *d, void *at, int64_t nbytes);
void ts_driver_trim(TsDevice *d);
void ts_driver_hold(TsDevice *d, bool on);
int64_t ts_driver_cached(const TsDevice *d);
/* Blocks freed so far, and when the block at this address was, if it is the last one that was
 * handed out; else now. */
uint64_t ts_driver_freed(const TsDevice *d);
uint64_t ts_driver_freed_at(const TsDevice *d, const void *block);

/* ---- devices/driver/cut.c */
typedef struct TsCuts TsCuts;
TsCuts *ts_cuts_new(void);
/* An allocation of the driver that is free since `used` may be cut; false: the host has no
 * memory, and it may not. */
bool ts_cuts_add(TsCuts *s, uintptr_t at, int64_t nbytes, uint64_t used);
/* The free piece that fits best, and since when it was free; false: there is none. */
bool ts_cuts_take(TsCuts *s, int64_t nbytes, uintptr_t *at, uint64_t *used);
/* Whether a block is a piece, which is free now. If with it all of its allocation is, that is
 * whole again and none of the cuts: its address and size, else size 0. */
bool ts_cuts_give(TsCuts *s, uintptr_t at, uint64_t now, uintptr_t *whole, int64_t *nbytes);

/* ---- devices/driver/aside.c */
int ts_driver_aside_begin(TsDevice *d, TsError *err);
int ts_driver_aside_end(TsDevice *d, uint64_t ticket, TsError *err);
int ts_driver_aside_rejoin(TsDevice *d, uint64_t ticket, TsError *err);
/* A block is freed: true where a section did that, which keeps it until it is rejoined. */
bool ts_driver_aside_keeps(TsDevice *d, void *block, int64_t nbytes);
/* The host waits for the sections, and what they keep is free. */
void ts_driver_aside_wait(TsDevice *d);
void ts_driver_aside_close(TsDevice *d);

/* ---- devices/driver/fetch.c */
int ts_driver_fetch(TsDevice *d, int n, const TsFetch *list, void *after, TsError *err);

/* ---- devices/driver/copy.c */
int ts_driver_upload(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err);
int ts_driver_download(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err);
int ts_driver_copy_met(TsDevice *d, void *to, TsDevice *source, const void *from,
                       int64_t nbytes, TsError *err); /* device.h */
int ts_driver_copy(TsDevice *d, void *to, TsDevice *source, const void *from, int64_t nbytes,
                   TsError *err);
/* Between two that do not see each other's memory. */
int ts_device_copy_by_host(TsDevice *d, void *to, TsDevice *source, const void *from,
                           int64_t nbytes, TsError *err);

/* ---- devices/driver/record.c */
int ts_driver_record_begin(TsDevice *d, TsError *err);
int ts_driver_record_end(TsDevice *d, void **record, TsError *err);
int ts_driver_record_patch(TsDevice *d, void *record, int first, TsError *err);
int ts_driver_record_after(TsDevice *d, int n, const int *launch, TsError *err);
int ts_driver_record_launch(TsDevice *d, void *record, TsError *err);
void ts_driver_record_free(TsDevice *d, void *record);
/* A launch while a record is made or changed. */
int ts_driver_record_add(TsDevice *d, const TsLaunch *l, TsError *err);
static inline bool ts_driver_records(const TsDriven *s, const TsLaunch *l) {
  return !l->stream && (s->recording || s->patching);
}

/* ---- devices/driver/run.c: members of TsDeviceRun, but for module_new, kernel and launch */
#define TS_DRIVER_RUN                                                                          \
  .stream_new = ts_driver_stream_new, .stream_free = ts_driver_stream_free,                    \
  .stream_wait = ts_driver_stream_wait, .event_new = ts_driver_event_new,                      \
  .event_free = ts_driver_event_free, .event_record = ts_driver_event_record,                  \
  .event_wait = ts_driver_event_wait, .event_usec = ts_driver_event_usec,                      \
  .module_free = ts_driver_module_free, .hold = ts_driver_hold,                                \
  .aside_begin = ts_driver_aside_begin, .aside_end = ts_driver_aside_end,                      \
  .aside_rejoin = ts_driver_aside_rejoin
#define TS_DRIVER_RECORDS                                                                      \
  .record_begin = ts_driver_record_begin, .record_end = ts_driver_record_end,                  \
  .record_patch = ts_driver_record_patch, .record_launch = ts_driver_record_launch,            \
  .record_free = ts_driver_record_free, .record_after = ts_driver_record_after
int ts_driver_stream_new(TsDevice *d, void **stream, TsError *err);
void ts_driver_stream_free(TsDevice *d, void *stream);
int ts_driver_stream_wait(TsDevice *d, void *stream, void *event, TsError *err);
int ts_driver_event_new(TsDevice *d, void **event, TsError *err);
void ts_driver_event_free(TsDevice *d, void *event);
int ts_driver_event_record(TsDevice *d, void *event, void *stream, TsError *err);
int ts_driver_event_wait(TsDevice *d, void *event, TsError *err);
int ts_driver_event_usec(TsDevice *d, void *from, void *to, double *usec, TsError *err);
void ts_driver_module_free(TsDevice *d, void *module);
int ts_driver_variable(TsDevice *d, void *module, const char *name, void **at, int64_t *nbytes,
                       TsError *err);
int ts_driver_facts(TsDevice *d, void *kernel, int threads, uint32_t shared, TsKernelFacts *out,
                    TsError *err);

#endif
