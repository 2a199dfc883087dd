/* What the files of jit/user share. */
#ifndef TS_JIT_USER_STATE_H
#define TS_JIT_USER_STATE_H

#include "jit/code/kernel.h"
#include "jit/device/kernel.h"
#include "jit/user/kernel.h"
#include "vm/core/context.h"

/* A kernel for one instruction set or device and these sizes (-1: for any), or why there is
 * none. */
typedef struct Compiled {
  const TsKernels *isa; /* NULL: not used */
  TsDevice *device;     /* NULL: the CPU */
  int64_t dim[TS_TILE_DIMS];
  TsKernel *kernel;
  TsKernel *marked; /* with profile marks; NULL until somebody profiles it */
  TsDeviceKernel *on;
  TsTile *tile; /* of which it is */
  TsError why;
  /* After attempts in vain: spent by the interpreter since the last one, and when it is
   * tried again. */
  int64_t nsec, need_nsec;
} Compiled;

enum { USER_KEPT = 32, USER_PARAMS = 40 };

/* It is compiled for all sizes if that can be; else the sizes of tiles become part of it, and
 * it is compiled again for others, of which the latest are kept. */
struct TsUserKernel {
  int refs;
  bool interpret, called;
  bool sized, sized_on;       /* for the CPU; for devices */
  int64_t seen[TS_TILE_DIMS]; /* the sizes of the last call */
  TsTile *tile;
  int next; /* to be replaced when all are used */
  Compiled of[USER_KEPT], *last;
};

/* jit/user/code.c */
/* What the CPU's code is for, or NULL with the error. */
const TsTarget *ts_user_target(const TsContext *c, TsError *err);
/* The one for these sizes; a new one has nothing yet. */
Compiled *ts_user_find(TsUserKernel *u, const TsContext *c, TsDevice *d, const int64_t *dim,
                       bool *known);
void ts_user_drop(Compiled *p);
/* The kernel with the sizes of tiles in it; fixed: those, and -1 for any. */
TsTile *ts_user_sized(const TsUserKernel *u, const int64_t *dim, int64_t *fixed, TsError *err);
/* NULL with the reason in u->last. marks: with profile marks, if it can be. */
const TsKernel *ts_user_compiled(TsUserKernel *u, TsContext *c, const int64_t *dim);
const TsKernel *ts_user_marked(TsUserKernel *u, TsContext *c, const int64_t *dim);

/* Measures the choices of jit/tune/tune.h on these inputs, of which the best is taken from
 * then on. */
int ts_user_measure(TsUserKernel *u, TsContext *c, const int64_t *dim, void *const *arg);

/* jit/user/device.c */
/* The kernel as a device has it: block form that names the target. NULL with the error. */
TsTile *ts_user_tile_on(const TsUserKernel *u, const TsTarget *t, const int64_t *dim,
                        int64_t *fixed, TsError *err);
/* 1: it was queued; 0: the device has no kernel of it, with the reason in u->last; -1 with the
 * error. arg: of parameters. */
int ts_user_run_on(TsUserKernel *u, TsContext *c, TsDevice *d, TsTensor *const *in,
                   TsTensor *const *out, const int64_t *dim);

#endif
