/* Code of a kernel that a program brings along, for the CPU: compiled at the first call, with what
 * the tuner knows of it. */
#include <stdio.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "ir/tile/copy.h"
#include "jit/build/build.h"
#include "jit/compile/llvm.h"
#include "jit/jit.h"
#include "jit/tune/tune.h"
#include "jit/user/state.h"

enum { FIRST_NSEC = 50 * 1000 * 1000 };

const TsTarget *ts_user_target(const TsContext *c, TsError *err) {
  const TsTarget *t = ts_llvm_present() ? ts_jit_target(c->k->isa) : NULL;
  if (t && t->triple) return t;
  ts_error_set(err, TS_ERR_device, "%s",
               ts_llvm_present() ? "there is no code generator for this processor"
                                 : "the program was built without LLVM");
  return NULL;
}

static bool fits(const Compiled *p, const TsContext *c, const TsDevice *d, const int64_t *dim) {
  if (p->isa != c->k || p->device != d) return false;
  for (int i = 0; i < TS_TILE_DIMS; i++)
    if (p->dim[i] >= 0 && p->dim[i] != dim[i]) return false;
  return true;
}

void ts_user_drop(Compiled *p) {
  ts_kernel_free(p->kernel);
  ts_kernel_free(p->marked);
  ts_device_kernel_free(p->on);
  ts_tile_free(p->tile);
  *p = (Compiled){.isa = NULL};
}

Compiled *ts_user_find(TsUserKernel *u, const TsContext *c, TsDevice *d, const int64_t *dim,
                       bool *known) {
  Compiled *p = NULL;
  for (int i = 0; i < USER_KEPT && !p; i++)
    if (fits(&u->of[i], c, d, dim)) p = &u->of[i];
  *known = p != NULL;
  if (p) return p;
  p = &u->of[u->next++ % USER_KEPT];
  ts_user_drop(p);
  p->isa = c->k, p->device = d;
  memset(p->dim, -1, sizeof p->dim);
  return p;
}

TsTile *ts_user_sized(const TsUserKernel *u, const int64_t *dim, int64_t *fixed, TsError *err) {
  bool of_tiles[TS_TILE_DIMS];
  ts_tile_sizes_of_tiles(u->tile, of_tiles);
  for (int d = 0; d < TS_TILE_DIMS; d++) fixed[d] = of_tiles[d] ? dim[d] : -1;
  return ts_tile_fix(u->tile, fixed, err);
}

/* What the tuner is shown: the kernel for sizes. */
typedef struct Sized {
  const TsUserKernel *u;
  const int64_t *dim;
  int64_t fixed[TS_TILE_DIMS]; /* made: those that became part of it, -1: any */
} Sized;

/* Words that the program wrote in the head stay. */
static void put_head(const TsSchedChoice *c, TsTile *k) {
  TsSchedChoice all = *c;
  if (!all.unroll) all.unroll = k->unroll;
  if (!all.vector) all.vector = k->vector;
  if (!all.grain) all.grain = k->grain;
  if (!all.high) all.high = k->high;
  if (!all.depth) all.depth = k->depth;
  if (!all.pack) all.pack = k->pack;
  ts_sched_choice_head(&all, k);
}

static int tile_of(void *arg, const TsSchedChoice *c, TsSchedKernel *k, TsError *err) {
  Sized *s = arg;
  *k = (TsSchedKernel){.tile = NULL};
  memset(s->fixed, -1, sizeof s->fixed);
  k->tile = s->u->sized ? ts_user_sized(s->u, s->dim, s->fixed, err)
                        : ts_tile_copy(s->u->tile, NULL, NULL, err);
  if (!k->tile) return -1;
  memcpy(k->dim, s->dim, sizeof k->dim);
  put_head(c, k->tile);
  return 0;
}

static TsTuneSubject subject_of(Sized *s, const TsTarget *t) {
  int threads = ts_cpu_threads();
  TsTuneSubject x = {.tile = tile_of, .arg = s, .target = t, .threads = threads};
  x.n = ts_sched_choices_tile(s->u->tile, t, threads, s->dim, x.choice);
  snprintf(x.what, sizeof x.what, "kernel %s", s->u->tile->name);
  return x;
}

/* With the winner of the tuner, if there is one. */
static TsKernel *compile(TsUserKernel *u, const TsContext *c, Compiled *p, const TsTarget *t,
                         const int64_t *dim, bool marks) {
  Sized s = {.u = u, .dim = dim};
  TsSchedChoice choice = {0};
  TsSchedKernel k;
  TsTuneSubject x = subject_of(&s, t);
  if (c->jit) ts_tune_known(ts_jit_tuner(c->jit), &x, &choice, NULL);
  if (tile_of(&s, &choice, &k, &p->why)) return NULL;
  memcpy(p->dim, s.fixed, sizeof p->dim);
  k.tile->marks = marks;
  TsKernel *kernel = ts_build_compile(k.tile, t, &p->why);
  ts_tile_free(k.tile);
  return kernel;
}

static void attempt(TsUserKernel *u, TsContext *c, Compiled *p, const int64_t *dim) {
  const TsTarget *t = ts_user_target(c, &p->why);
  if (t && !u->sized) p->kernel = compile(u, c, p, t, dim, false);
  if (t && !p->kernel) {
    u->sized = true;
    p->kernel = compile(u, c, p, t, dim, false);
  }
  p->nsec = 0;
  p->need_nsec = p->need_nsec ? ts_jit_need_longer(p->need_nsec) : FIRST_NSEC;
}

const TsKernel *ts_user_compiled(TsUserKernel *u, TsContext *c, const int64_t *dim) {
  bool known;
  Compiled *p = u->last = ts_user_find(u, c, NULL, dim, &known);
  if (!known || (!p->kernel && p->nsec >= p->need_nsec)) attempt(u, c, p, dim);
  return p->kernel;
}

const TsKernel *ts_user_marked(TsUserKernel *u, TsContext *c, const int64_t *dim) {
  TsError ignored = {0};
  const TsTarget *t = ts_user_compiled(u, c, dim) ? ts_user_target(c, &ignored) : NULL;
  Compiled *p = u->last;
  if (t && !p->marked) p->marked = compile(u, c, p, t, dim, true);
  return p->marked ? p->marked : p->kernel;
}

/* Kernels of these sizes are compiled again at the next call. */
static void forget(TsUserKernel *u, const TsContext *c, const int64_t *dim) {
  for (int i = 0; i < USER_KEPT; i++) {
    Compiled *p = &u->of[i];
    if (!fits(p, c, NULL, dim)) continue;
    ts_user_drop(p);
    if (u->last == p) u->last = NULL;
  }
}

int ts_user_measure(TsUserKernel *u, TsContext *c, const int64_t *dim, void *const *arg) {
  TsError *err = &c->err;
  const TsTarget *t = u->interpret ? NULL : ts_user_target(c, err);
  if (u->interpret)
    ts_error_set(err, TS_ERR_argument, "%.60s: it is interpreted", u->tile->name);
  if (!t || !c->jit) return -1;
  const TsKernel *kernel = ts_user_compiled(u, c, dim); /* whether for these sizes only */
  if (!kernel) return *err = u->last->why, -1;
  Sized s = {.u = u, .dim = dim};
  TsSchedChoice choice = {0};
  TsTuneSubject x = subject_of(&s, t);
  x.in = arg;
  ts_tune_subject(ts_jit_tuner(c->jit), &x, false, NULL, &choice, NULL);
  forget(u, c, dim);
  return 0;
}
