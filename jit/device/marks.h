/* Launches of kernels with profile marks (ir/tile/marks.h), and what they recorded. While somebody
 * collects, kernels run in a second form, with marks, which is opened beside them. */
#ifndef TS_JIT_DEVICE_MARKS_H
#define TS_JIT_DEVICE_MARKS_H

#include "devices/device.h"
#include "ir/tile/tile.h"
#include "jit/gpu/marks.h"

/* A stage of a launch, over its warps; 0 is what lies between marks. */
typedef struct TsMarkedStage {
  const char *stage; /* a word of ir/tile/marks.h; "between" */
  char what[40], place[80];
} TsMarkedStage;

/* Warps of a block that do the same, in their order; a kernel without roles has one, "". */
typedef struct TsMarkedRole {
  char name[24];
  int warps;
} TsMarkedRole;

typedef struct TsMarkedLaunch {
  char label[120], kernel[48];   /* operators and lines, as who launches says; its name */
  double bytes, far, flops; /* as who launches says; far: bytes over links to other devices */
  uint32_t grid, threads, warps; /* blocks; of a block */
  uint32_t every, apart; /* of so many blocks one has records, and one the turns of its warps */
  TsKernelFacts facts;
  const TsDevice *device;
  int processors; /* of the device */
  double clock;   /* Hz */
  bool placed;    /* records say on which processor */
  bool ticks;     /* records' begun_ns, ended_ns are ticks, of ts_marks_tick_nsec each */
  double most_bytes, most_far,
      most_flops; /* a second, of the device, of the kernel's numbers; 0: not known */
  int nrole;
  TsMarkedRole role[TS_TILE_ROLES];
  int nstage, nrecord; /* records of warps that ran */
  uint32_t turns;      /* room of a list */
  TsMarkedStage *stage;
  char *record; /* TsGpuRecord each, with its turns behind it */
  size_t record_bytes, record_room;
} TsMarkedLaunch;

/* ---- who looks */
typedef enum TsMarksOf { TS_MARKS_off, TS_MARKS_warps, TS_MARKS_stages } TsMarksOf;
void ts_marks_collect(TsMarksOf of); /* what was collected is forgotten */
TsMarksOf ts_marks_collecting(void);
/* Of launches from now on. */
void ts_marks_label(const char *name, double bytes, double far, double flops);
/* Those since, in their order; they stay until the next ts_marks_collect. */
const TsMarkedLaunch *ts_marks_launches(int *n);

/* ---- who launches a kernel whose code has marks */
/* A TsGpuLaunchFn. */
int ts_marks_launch(TsDevice *d, void *module, const TsTile *k, const TsLaunch *l,
                    TsError *err);

/* ---- jit/device/sim_marks.c: a kernel with marks that the interpreter runs. Cycles are its
 * statements, and each role is a warp. as: of ts_tile_run_as, which calls back. */
typedef struct TsSimMarks TsSimMarks;
TsSimMarks *ts_sim_marks_begin(TsDevice *d, const TsTile *k, TsTileRunAs *as, TsError *err);
/* Its launch is one of those that were collected; with failed, nothing is. */
int ts_sim_marks_end(TsSimMarks *m, bool failed, TsError *err);

/* ---- jit/device/clock.c: clocks of devices that do not count in nanoseconds */
/* A launch was over at this nanosecond of the host's, of which these are the records. */
void ts_marks_clock(const TsDevice *d, int64_t nsec, const TsGpuRecord *r, int64_t n);
/* Nanoseconds of a tick, as launches had it that lie some time apart; 0: not known yet. */
double ts_marks_tick_nsec(const TsDevice *d);
/* A counter of so few bits goes around: turns, and the end, become those of one that does not, as
 * long as no stay is longer than that. Without a list the end is not known: it becomes the begin. */
void ts_marks_unwrap(TsGpuRecord *r, TsGpuTurn *list, uint32_t room, int bits);

/* ---- between the two */
int ts_marks_outline(TsMarkedLaunch *m, const TsDevice *d, const TsTile *k, uint32_t blocks,
                     uint32_t threads, TsError *err);
/* Another record behind those of m, to which list gives its turns; not 0 without memory. */
int ts_marks_add(TsMarkedLaunch *m, const TsGpuRecord *r, const TsGpuTurn *list);
int ts_marks_keep(const TsMarkedLaunch *m, TsError *err);
void ts_marks_forget(TsMarkedLaunch *m);

#endif
