/* From a graph to kernels: what one job of the background thread does. */
#ifndef TS_JIT_BUILD_H
#define TS_JIT_BUILD_H

#include "jit/code/kernel.h"
#include "vm/code/fused.h"

struct TsDevice;
struct TsTuner;

/* How groups run: compiled, or, for tests, by the interpreter of Tile IR in one of its
 * forms. */
typedef enum TsBuildHow { TS_BUILD_compiled, TS_BUILD_block, TS_BUILD_explicit } TsBuildHow;

/* What the program chose for a group of the function itself (f:choose). */
typedef struct TsBuildChosen {
  struct TsBuildChosen *next;
  int group;
  TsSchedChoice want;
} TsBuildChosen;

typedef struct TsBuildJob {
  /* given */
  TsBuildHow how;
  const TsGraph *g;
  TsLayouts *layouts;
  const TsTarget
      *target; /* NULL: only schedules are made; of another machine: for ts_build_text */
  struct TsDevice *device; /* whose kernels are made; NULL: the CPU's */
  TsProfile profile;       /* strict: products of 16 bits keep the chain of the CPU; fast:
                              * those of bf16 are by the target's instruction (ir/tile/pairs.h) */
  bool marks;              /* kernels have profile marks */
  bool shows;              /* somebody will look at them: jit/shown.h */
  int threads;
  /* Gives the groups the choices that are known of them; NULL: what the passes do. */
  void (*choose)(struct TsTuner *t, struct TsBuildJob *b);
  struct TsTuner *tuner;
  TsBuildChosen *chosen; /* the job's */
  double spent_msec;     /* by the function so far: a compilation may cost as much */
  bool at_hand;          /* of a device: only if all kernels are on disk, whatever was spent */
  /* made */
  TsFusion fusion;                      /* its schedule and kernels are the caller's */
  int nkernel, ncached, nfailed, nnode; /* nnode: of the graph, in kernels */
  TsTile **shown; /* shows: kernels of the CPU that were made, once more; nshown of them */
  int nshown;
  double msec;
  double need_msec; /* > 0: not worth it before so much was spent; nothing was made */
  TsText why;       /* a line for each group without a kernel that should have one */
} TsBuildJob;

/* -1 with the error when not even a schedule could be made. */
int ts_build_run(TsBuildJob *b, TsError *err);
void ts_build_free(TsBuildJob *b);

/* The first step of it: schedules of the function and of those inside. */
int ts_build_schedule(TsBuildJob *b, TsError *err);
/* The kernel of a group of u in block form; of that, the explicit form that is compiled. */
int ts_build_tile(const TsBuildJob *b, const TsFusion *u, const TsGroup *group,
                  TsSchedKernel *out, TsError *err);
TsLayouts *ts_build_layouts(const TsBuildJob *b, const TsGraph *g);

/* What kernels are for: the device's, or target. */
const TsTarget *ts_build_target(const TsBuildJob *b);

/* ---- jit/build/choose.c */
/* Groups that the program chose for get the nearest choices that their kernels have. */
void ts_build_settle(TsBuildJob *b);
TsBuildChosen *ts_build_chosen_copy(const TsBuildChosen *c); /* as far as memory goes */
void ts_build_chosen_free(TsBuildChosen *c);
/* "rows 64 columns 128, chosen by the user"; what of it could not be had, a line each. */
void ts_build_choice_text(const TsGroup *g, TsText *t);
void ts_build_remarks_text(const TsGroup *g, TsText *t);
void ts_build_remarks(const TsBuildJob *b, TsText *t); /* of all groups, with their names */

/* What became of the groups, for people. Levels as in ts_jit_text, but for bytecode. */
int ts_build_text(const TsBuildJob *b, const char *level, TsText *text, TsError *err);
/* The same of one kernel, of a device, or, d NULL, for a target. */
int ts_build_kernel_text(const struct TsDevice *d, const TsTarget *t, const TsTile *k,
                         const char *level, TsText *text, TsError *err);

/* The pipeline below the schedule: block form (or explicit form already) to explicit form, with
 * its pointwise rows expanded unless `rows`. NULL with the error. */
TsTile *ts_build_explicit(const TsTile *k, const TsTarget *t, bool rows, TsError *err);
TsKernel *ts_build_compile(const TsTile *k, const TsTarget *t, TsError *err);

/* Whether a group is worth a kernel: the VM's own kernels of most single operators are as
 * good. */
bool ts_build_worth(const TsGroup *g);
bool ts_build_worth_on(const TsBuildJob *b, const TsGroup *g); /* the same for b's device */

#endif
