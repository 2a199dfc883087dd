/* Calls that stand together and need nothing of each other: steps of an optimiser, weights that
 * are rounded. Those with one kernel are launched as one (jit/emit/simt/batch.c). */
#include <string.h>

#include "devices/work.h"
#include "jit/eager/state.h"
#include "jit/launch/profile.h"
#include "vm/core/offload.h"
#include "vm/drive/optim.h"

enum { MOST_RUNS = 64, PARAMS = OFFLOAD_IN + OFFLOAD_OUT };

/* Runs that wait for others. */
typedef struct Batch {
  TsContext *c;
  TsOp op;
  int n, most;
  TsOffloadLaunch first;
  double nbytes;
  bool said; /* what all of them touch */
  int64_t size[MOST_RUNS * PARAMS];
  void *arg[MOST_RUNS * PARAMS];
  int64_t dim[MOST_RUNS * TS_TILE_DIMS];
} Batch;

static int launch(Batch *b) {
  const TsOffloadLaunch *l = &b->first;
  int n = b->n;
  b->n = 0;
  if (!n) return 0;
  for (int i = 0; i < n * l->nparam && b->said; i++)
    ts_launch_touch_bytes(b->c, b->arg[i], b->size[i], i % l->nparam >= l->nread);
  if (ts_profile_on()) ts_profile_label(ts_op_info(b->op)->name, b->nbytes, 0);
  bool again = true; /* nothing was queued then */
  while (ts_launch_many(b->c, l->kernel, n, l->nparam, b->arg, l->ndim, b->dim)) {
    if (!again || !ts_context_once_more(b->c)) return -1;
    again = false;
  }
  return 0;
}

/* All parameters begin at multiples of 16 bytes. */
static bool aligned(const TsOffloadLaunch *l) {
  uintptr_t low = 0;
  for (int i = 0; i < l->nparam; i++) low |= (uintptr_t)l->arg[i];
  return low % 16 == 0;
}

static bool joins(const Batch *b, const TsOffloadLaunch *l) {
  const TsOffloadLaunch *f = &b->first;
  return b->n < b->most && l->kernel == f->kernel && aligned(l) &&
         !memcmp(l->dim + 1, f->dim + 1, sizeof *l->dim * (size_t)(l->ndim - 1));
}

static int add(Batch *b, TsOp op, const TsOffloadLaunch *l) {
  if (b->n && !joins(b, l) && launch(b)) return -1;
  if (!b->n) {
    b->op = op, b->first = *l, b->nbytes = 0, b->said = true;
    b->most = l->ndim && aligned(l) ? ts_device_kernel_most(l->kernel) : 1;
    if (b->most > MOST_RUNS) b->most = MOST_RUNS;
  }
  memcpy(b->arg + b->n * l->nparam, l->arg, sizeof *l->arg * (size_t)l->nparam);
  memcpy(b->size + b->n * l->nparam, l->size, sizeof *l->size * (size_t)l->nparam);
  b->said &= l->nread == b->first.nread && l->nread >= 0;
  memcpy(b->dim + b->n * l->ndim, l->dim, sizeof *l->dim * (size_t)l->ndim);
  b->nbytes += l->nbytes;
  b->n++;
  return 0;
}

/* Batches of a few kernels wait side by side: of a model's gradients some are of 16 bits. */
enum { SIDE_BY_SIDE = 4 };

static Batch *batch_for(Batch *b, const TsOffloadLaunch *l, int nth) {
  for (int i = 0; i < SIDE_BY_SIDE; i++)
    if (b[i].n && joins(&b[i], l)) return &b[i];
  for (int i = 0; i < SIDE_BY_SIDE; i++)
    if (!b[i].n) return &b[i];
  return &b[nth % SIDE_BY_SIDE];
}

/* What may fail for want of memory is asked for before anything is launched. */
static int ready_all(TsOffloader *o, int n, TsCall *const *call, int device,
                     TsOffloadLaunch *l) {
  int done = 1, i = 0;
  for (; i < n && done == 1; i++)
    done = ts_optim_groups(call[i]->op) ? ts_offload_optim_ready(o, call[i], device, &l[i])
                                        : ts_offload_ready(o, call[i], device, &l[i]);
  return done < 0 ? -1 : done ? n : i - 1;
}

static int launch_all(TsContext *c, int n, TsCall *const *call, const TsOffloadLaunch *l) {
  Batch b[SIDE_BY_SIDE];
  int failed = 0;
  for (int k = 0; k < SIDE_BY_SIDE; k++) b[k].c = c, b[k].n = 0;
  for (int i = 0; i < n && !failed; i++)
    if (l[i].kernel) failed = add(batch_for(b, &l[i], i), call[i]->op, &l[i]);
  for (int k = 0; k < SIDE_BY_SIDE && !failed; k++) failed |= launch(&b[k]);
  return failed;
}

int ts_offload_group(TsContext *c, int n, TsCall *const *call, int device) {
  TsOffloader *o = c->offloader;
  if (!o->on) return 0;
  TsOffloadLaunch *l = ts_work_take(sizeof *l * (int64_t)n);
  if (!l) return ts_error_memory(&c->err);
  o->grouping = true;
  int ready = ready_all(o, n, call, device, l);
  o->grouping = false;
  int failed = ready > 0 ? launch_all(c, ready, call, l) : 0;
  ts_work_give(l);
  /* Some of it may have been launched: nobody shall do it once more. */
  if (failed && c->err.code == TS_ERR_memory) c->err.code = TS_ERR_device;
  return failed ? -1 : ready;
}
