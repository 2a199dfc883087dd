/* What a device promises. One struct of functions and numbers a device; a new
 * backend fills one in and adds its row to devices/registry.c. Optional members
 * are NULL. Addresses are of the device's own kind: only it looks behind them. */
#ifndef TS_DEVICES_DEVICE_H
#define TS_DEVICES_DEVICE_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "devices/target.h"
#include "lib/error.h"

enum { TS_MAX_DEVICES = 16 };

typedef struct TsDevice TsDevice;
typedef struct TsDeviceRun TsDeviceRun;

typedef struct TsFetch {
  void *to;
  const void *from; /* on the device */
  int64_t nbytes;
} TsFetch;

struct TsDevice {
  char name[24];    /* "cpu:0", "cuda:1", "null:0" */
  const char *kind; /* "cpu", "cuda", ... */
  int index;        /* place in the registry, TsMeta.device */
  bool host_memory; /* addresses are plain pointers that CPU kernels may use */
  /* Calls are lowered for it (jit/eager/offload.h); else the CPU runs them. */
  bool runs_kernels;
  bool opened; /* open() was called and went well */
  int driver;  /* its version, once the device is counted */
  /* What its kernels are made for, known before it is opened; NULL: none are. Who schedules asks
   * ts_target_of. */
  const TsTarget *target;
  int processors; /* that run blocks of threads */
  double clock,
      bandwidth; /* of a processor in Hz, of the memory in bytes a second; 0: not known */
  /* Why no code reads a clock there, so that kernels have no profile marks; NULL: it can. */
  const char *no_clock;
  /* It is played by the host, which interprets its kernels: block after block, so that none may
   * wait for another, and whoever makes the GPU. */
  bool simulated;
  bool only_named;    /* nothing goes there that does not name it */
  int64_t most_work;  /* multiply-adds above which kernels with roles take too long; 0: none */
  void *state;        /* the backend's */
  int64_t live, peak; /* bytes allocated now, and at most */
  uint64_t queued;    /* how often something was put into its order */
  uint64_t skipped;   /* launches that had nothing to do, of kernels that may have had more */
  /* Whoever puts launches off, whose memory has to stay until then: launches them now, so that what was freed
   * may go back to the driver. NULL: nobody does. -1 with the error of a launch. */
  int (*let_go)(void *holder, TsError *err);
  void *holder;
  /* What is put there next touches nothing, before it waits, that the launch in front of it writes. */
  bool dependent;

  /* Makes the device usable; called once, before its first allocation (ts_device_use).
   * One that failed is tried again by the next use. */
  int (*open)(TsDevice *d, TsError *err);
  /* NULL with err filled; out of memory is TS_ERR_memory and says what was live. */
  void *(*alloc)(TsDevice *d, int64_t nbytes, TsError *err);
  void (*free)(TsDevice *d, void *at, int64_t nbytes);
  void (*trim)(TsDevice *d); /* cached memory goes back to the driver; optional */
  /* All work and copies of a device are in one order, and a freed block may be handed out
   * at once. upload returns when from_host may change, download when the bytes are there. */
  int (*upload)(TsDevice *d, void *to, const void *from_host, int64_t nbytes, TsError *err);
  int (*download)(TsDevice *d, void *to_host, const void *from, int64_t nbytes, TsError *err);
  /* From a device of the same kind, without the host; optional. It is queued: whoever reads
   * on either device comes after it. */
  int (*copy)(TsDevice *d, void *to, TsDevice *source, const void *from, int64_t nbytes,
              TsError *err);
  /* The same in d's own order alone: both have met before and meet behind it (devices/meet.h), so that
   * copies of both directions go at a time. Optional. */
  int (*copy_met)(TsDevice *d, void *to, TsDevice *source, const void *from, int64_t nbytes,
                  TsError *err);
  /* Opens the way for kernels of d to the memory of `other`, of the same kind; false: there is none.
   * Optional; who asks does it by ts_device_reaches. */
  bool (*reach)(TsDevice *d, TsDevice *other);
  /* Downloads by another thread than the program's, while that one goes on: of bytes that nobody
   * changes or frees once the event `after` has come. Optional. */
  int (*fetch)(TsDevice *d, int n, const TsFetch *list, void *after, TsError *err);
  /* Waits for everything queued; failures of earlier work show up here. Optional: without
   * it calls return when they are done. */
  int (*synchronize)(TsDevice *d, TsError *err);
  const TsDeviceRun *run; /* kernels, streams, events; NULL: there is nothing to launch */
  /* One sentence for :devices: model, memory, state. */
  void (*describe)(TsDevice *d, char *text, int size);
};

/* One start of a kernel. */
typedef struct TsLaunch {
  void *kernel;
  void *stream; /* NULL: the device's own order */
  uint32_t grid[3], block[3];
  uint32_t cluster[3]; /* blocks that share their memory; 0: none */
  uint32_t shared;     /* bytes of dynamic shared memory */
  bool early;          /* may begin before the last launch ends, for which its code waits */
  bool together;       /* all blocks run at the same time, or it is refused */
  bool dependent;      /* its code reads before it waits: so if TsDevice.dependent says so */
  bool small; /* that is worth it in a record alone: to say it takes longer than it gives */
  void **args;         /* the address of each argument */
  /* How many of them are addresses of the device, and how many words of 8 bytes stand behind those:
   * for drivers that take arguments one by one. */
  int pointers, words;
} TsLaunch;

/* Of a kernel as it is on a device, with blocks of so many threads and so much dynamic memory. */
typedef struct TsKernelFacts {
  int registers;    /* of a thread */
  int64_t spilled;  /* bytes of a thread's registers that are in memory */
  int64_t shared;   /* bytes of a block */
  int blocks;       /* that a processor holds at a time */
  int threads_most; /* that a processor holds at a time, of any kernel */
} TsKernelFacts;

/* A view of a matrix for the copy engine: rows of `cols` neighbouring elements, `pitch` bytes
 * apart, fetched and stored in boxes. In shared memory a box lies in the pattern of `swizzle`
 * bytes; 0: row by row. */
typedef struct TsTensorMap {
  void *at; /* a multiple of 16, as is pitch */
  uint8_t dtype;
  int64_t rows, cols, pitch;
  int box_rows, box_cols, swizzle;
  /* Of so many matrices, 0: of one. Coordinates are column in a panel of box_cols, row, panel,
   * matrix, and a box has so many panels, one behind the other. With batches of matrices, 0:
   * without, the batch is the last coordinate. Pitches are bytes from one to the next. With
   * heads and no panels coordinates are column, row, matrix, batch. */
  int64_t heads, head_pitch, batch, batch_pitch;
  int box_panels;
} TsTensorMap;

enum { TS_TENSOR_MAP_NBYTES = 128, TS_TENSOR_MAP_ALIGN = 64 };

/* What a device that runs code of its own offers beside memory: a real one works while the
 * host goes on, so it needs an order (streams), points in it (events), code (modules) and
 * starts (launch). A NULL stream is the device's own, the one that allocations and copies are
 * ordered by; work on another one is joined with it by events before memory changes hands.
 * All return -1 with err filled. */
struct TsDeviceRun {
  int (*stream_new)(TsDevice *d, void **stream, TsError *err);
  void (*stream_free)(TsDevice *d, void *stream);
  int (*stream_wait)(TsDevice *d, void *stream, void *event, TsError *err);
  int (*event_new)(TsDevice *d, void **event, TsError *err);
  void (*event_free)(TsDevice *d, void *event);
  int (*event_record)(TsDevice *d, void *event, void *stream, TsError *err);
  int (*event_wait)(TsDevice *d, void *event, TsError *err); /* the host waits */
  int (*event_usec)(TsDevice *d, void *from, void *to, double *usec, TsError *err);
  /* A second order beside the device's own one (devices/aside.h). Optional. */
  int (*aside_begin)(TsDevice *d, TsError *err);
  int (*aside_end)(TsDevice *d, uint64_t ticket, TsError *err);
  int (*aside_rejoin)(TsDevice *d, uint64_t ticket, TsError *err);
  /* Code of the device's kind (cubin, or PTX ended by a zero; an object of AMD's; SPIR-V), of so
   * many bytes, which stay the caller's while the module lives; a refusal quotes the log. */
  int (*module_new)(TsDevice *d, const void *code, size_t nbytes, void **module, TsError *err);
  void (*module_free)(TsDevice *d, void *module);
  /* `shared`: the most dynamic shared memory it will be launched with. */
  int (*kernel)(TsDevice *d, void *module, const char *name, int shared, void **kernel,
                TsError *err);
  int (*launch)(TsDevice *d, const TsLaunch *l, TsError *err);
  /* A variable of a module, which copies may read and write. Optional. */
  int (*variable)(TsDevice *d, void *module, const char *name, void **at, int64_t *nbytes,
                  TsError *err);
  /* What the driver made of a kernel. Optional. */
  int (*facts)(TsDevice *d, void *kernel, int threads, uint32_t shared, TsKernelFacts *out,
               TsError *err);
  /* Launches on the device's own order between begin and end are not run but kept, as one thing
   * that is launched again and again. end gives NULL after a failure. */
  int (*record_begin)(TsDevice *d, TsError *err);
  int (*record_end)(TsDevice *d, void **record, TsError *err);
  /* From then on launches replace those of the record from number `first` on, of the same
   * kernels; until the record is NULL. */
  int (*record_patch)(TsDevice *d, void *record, int first, TsError *err);
  int (*record_launch)(TsDevice *d, void *record, TsError *err);
  void (*record_free)(TsDevice *d, void *record);
  /* While on, memory that is freed stays the device's: launches that use it are still to come. */
  void (*hold)(TsDevice *d, bool on);
  /* The next launch of the record that is made comes behind these launches alone, by number, and
   * not behind the last one. Optional. */
  int (*record_after)(TsDevice *d, int n, const int *launch, TsError *err);
  /* An argument for kernels that use the copy engine, TS_TENSOR_MAP_NBYTES. Optional. */
  int (*tensor_map)(TsDevice *d, const TsTensorMap *view, void *out, TsError *err);
};

/* The devices of this process. GPUs are looked for when somebody counts, or names one.
 * Index 0 is cpu:0 and always there. */
int ts_device_count(void);
TsDevice *ts_device_at(int index);
/* What kernels of d are made for now; NULL: none are. TESSERA_GPU=sm_80 makes newer GPUs of
 * its maker run the code of that one, and simulated ones that of any, for tests of it. */
const TsTarget *ts_target_of(const TsDevice *d);
/* Kinds that could be here and are not, or not with all of their devices: 0.. gives kind and
 * sentence; NULL: no more. */
const char *ts_device_missing(int i, const char **why);
/* Opens the device, if that was not done. */
int ts_device_use(TsDevice *d, TsError *err);
/* The plain error of a device without room; -1. */
int ts_device_full(TsDevice *d, int64_t nbytes, TsError *err);
/* By name; "cpu" is "cpu:0". NULL with an error that lists the known ones. */
TsDevice *ts_device_find(const char *name, TsError *err);
/* Makes n virtual CPU devices: "cpu:8" in --devices, a mesh for tests. */
int ts_device_configure(const char *spec, TsError *err);

#endif
