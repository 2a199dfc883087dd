/* See jit/user_kernel.h. */
#include "jit/user_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "ir/tile/copy.h"
#include "ir/tile/text.h"
#include "jit/build/build.h"
#include "jit/jit.h"
#include "jit/compile/llvm.h"
#include "jit/tune/tune.h"
#include "vm/core/context.h"
#include "vm/core/profile.h"
#include "lib/clock.h"

/* A kernel for one instruction set and these sizes (-1: for any), or why there is none. */
typedef struct Compiled {
  const TsKernels *isa; /* NULL: not used */
  int64_t dim[TS_TILE_DIMS];
  TsKernel *kernel;
  TsKernel *marked; /* with profile marks; NULL until somebody profiles it */
  TsError why;
  /* After attempts in vain: spent by the interpreter since the last one, and when it is tried again. */
  int64_t nsec, need_nsec;
} Compiled;

enum { KEPT = 32, PARAMS = 40, FIRST_NSEC = 50 * 1000 * 1000 };

/* It is compiled for all sizes if that can be; else the sizes of tiles become part of it, and
 * it is compiled again for others, of which the latest are kept. */
struct TsUserKernel {
  int refs;
  bool interpret, sized, called;
  int64_t seen[TS_TILE_DIMS]; /* the sizes of the last call */
  TsTile *tile;
  int next; /* to be replaced when all are used */
  Compiled of[KEPT], *last;
};

/* ---- making */
static int suitable(const TsTile *k, TsError *err) {
  if (k->nparam > PARAMS)
    return ts_error_set(err, TS_ERR_argument, "@%.60s: more than %d parameters", k->name,
                        PARAMS);
  if (k->nparam == k->nin)
    return ts_error_set(err, TS_ERR_argument,
                        "@%.60s: nothing is written, so there is no result", k->name);
  for (int i = 0; i < k->nparam; i++)
    if (k->param[i]->type.strided)
      return ts_error_set(err, TS_ERR_argument,
                          "@%.60s: the parameters of an operator are row-major, %%%.60s is not",
                          k->name, k->param[i]->name ? k->param[i]->name : "?");
  return 0;
}

TsUserKernel *ts_user_kernel_new(TsTile *k, bool interpret, TsError *err) {
  TsUserKernel *u = NULL;
  if (!ts_tile_check(k, NULL, err) && !suitable(k, err) && !(u = calloc(1, sizeof *u)))
    ts_error_memory(err);
  if (!u) {
    ts_tile_free(k);
    return NULL;
  }
  *u = (TsUserKernel){.refs = 1, .interpret = interpret, .tile = k};
  return u;
}

TsUserKernel *ts_user_kernel_ref(TsUserKernel *u) {
  u->refs++;
  return u;
}

static void free_code(Compiled *p) {
  ts_kernel_free(p->kernel);
  ts_kernel_free(p->marked);
}

void ts_user_kernel_unref(TsUserKernel *u) {
  if (!u || --u->refs) return;
  for (int i = 0; i < KEPT; i++) free_code(&u->of[i]);
  ts_tile_free(u->tile);
  free(u);
}

const TsTile *ts_user_kernel_tile(const TsUserKernel *u) { return u->tile; }

/* ---- types */
/* "x: f32[M,N]" */
static void put_param(const TsTile *k, int i, TsText *t) {
  ts_text_format(t, "%s: ", k->param[i]->name ? k->param[i]->name : "?");
  ts_tile_type_text(k, &k->param[i]->type, t);
}

static int wrong_type(const TsTile *k, int i, const TsMeta *m, TsErrorCode code,
                      const char *what, TsError *err) {
  char have[TS_META_TEXT];
  TsText t = {0};
  put_param(k, i, &t);
  ts_error_set(err, code, "%.60s: argument %d is %s, the kernel takes %.100s%s", k->name, i + 1,
               ts_meta_text(m, have), t.at ? t.at : "", what);
  ts_text_free(&t);
  return -1;
}

/* Two sizes for one letter: the argument that gave the first is named too, if there is one. */
static int wrong_size(const TsTile *k, int i, const TsMeta *const *in, int dim, int64_t size,
                      int from, TsError *err) {
  char what[160], other[TS_META_TEXT];
  const char *name = k->dim[dim];
  if (from < 0)
    snprintf(what, sizeof what, ", where %.30s is given as %lld", name, (long long)size);
  else
    snprintf(what, sizeof what, ", and %.30s is %lld by argument %d, which is %s", name,
             (long long)size, from + 1, ts_meta_text(in[from], other));
  return wrong_type(k, i, in[i], TS_ERR_shape, what, err);
}

static int match(const TsTile *k, int i, const TsMeta *const *in, int64_t *dim, int *from,
                 TsError *err) {
  const TsTileType *t = &k->param[i]->type;
  const TsMeta *m = in[i];
  if (m->dtype != t->dtype) return wrong_type(k, i, m, TS_ERR_dtype, "", err);
  if (m->ndim != t->rank) return wrong_type(k, i, m, TS_ERR_shape, "", err);
  for (int a = 0; a < t->rank; a++) {
    if (!ts_tile_dim_is(t->dim[a])) {
      if (t->dim[a] != m->dim[a]) return wrong_type(k, i, m, TS_ERR_shape, "", err);
      continue;
    }
    int d = ts_tile_dim_index(t->dim[a]);
    if (dim[d] < 0) {
      dim[d] = m->dim[a];
      from[d] = i;
    } else if (dim[d] != m->dim[a]) {
      return wrong_size(k, i, in, d, dim[d], from[d], err);
    }
  }
  return 0;
}

static int result(const TsTile *k, int i, const int64_t *dim, int device, TsMeta *out,
                  TsError *err) {
  const TsTileType *t = &k->param[i]->type;
  *out = (TsMeta){.dtype = t->dtype, .ndim = t->rank};
  out->device = (uint8_t)device;
  for (int a = 0; a < t->rank; a++) out->dim[a] = ts_tile_extent(t, a, dim);
  return ts_meta_check_size(out, k->name, err);
}

int ts_user_kernel_infer(const TsUserKernel *u, int nin, const TsMeta *const *in, int64_t *dim,
                         TsMeta *out, TsError *err) {
  const TsTile *k = u->tile;
  int from[TS_TILE_DIMS];
  memset(from, -1, sizeof from);
  if (nin != k->nin)
    return ts_error_set(err, TS_ERR_argument, "%.60s: takes %d tensor%s, %d given", k->name,
                        k->nin, k->nin == 1 ? "" : "s", nin);
  for (int i = 0; i < nin; i++)
    if (match(k, i, in, dim, from, err)) return -1;
  for (int d = 0; d < k->ndim; d++)
    if (dim[d] < 0) {
      ts_error_set(err, TS_ERR_argument, "%.60s: no argument gives the size %.30s", k->name,
                   k->dim[d]);
      return ts_error_hint(err, "give it behind the tensors: {%.30s = ..}", k->dim[d]);
    }
  for (int i = k->nin; i < k->nparam; i++)
    if (result(k, i, dim, nin ? in[0]->device : 0, &out[i - k->nin], err)) return -1;
  return 0;
}

/* ---- compiling */
static const TsTarget *target_of(TsContext *c, TsError *err) {
  const TsTarget *t = ts_llvm_present() ? ts_jit_target(c->k->isa) : NULL;
  if (t && t->triple) return t;
  ts_error_set(err, TS_ERR_device, "%s",
               ts_llvm_present() ? "there is no code generator for this processor"
                                 : "the program was built without LLVM");
  return NULL;
}

static bool fits(const Compiled *p, const TsContext *c, const int64_t *dim) {
  if (p->isa != c->k) return false;
  for (int d = 0; d < TS_TILE_DIMS; d++)
    if (p->dim[d] >= 0 && p->dim[d] != dim[d]) return false;
  return true;
}

static Compiled *place_for(TsUserKernel *u, const TsContext *c) {
  Compiled *p = &u->of[u->next++ % KEPT];
  free_code(p);
  *p = (Compiled){.isa = c->k};
  memset(p->dim, -1, sizeof p->dim);
  return p;
}

/* The kernel with the sizes of tiles in it. */
static TsTile *sized(const TsUserKernel *u, const int64_t *dim, int64_t *fixed, TsError *err) {
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
  if (!all.steps) all.steps = k->steps;
  if (!all.pack) all.pack = k->pack;
  ts_sched_choice_head(&all, k);
}

static int tile_of(void *arg, const TsSchedChoice *c, TsSchedKernel *k, TsError *err) {
  Sized *s = arg;
  *k = (TsSchedKernel){.tile = NULL};
  memset(s->fixed, -1, sizeof s->fixed);
  k->tile = s->u->sized ? sized(s->u, s->dim, s->fixed, err)
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
  if (c->jit) ts_tune_known(ts_jit_tuner(c->jit), &x, &choice);
  if (tile_of(&s, &choice, &k, &p->why)) return NULL;
  memcpy(p->dim, s.fixed, sizeof p->dim);
  k.tile->marks = marks;
  TsKernel *kernel = ts_build_compile(k.tile, t, &p->why);
  ts_tile_free(k.tile);
  return kernel;
}

static void attempt(TsUserKernel *u, TsContext *c, Compiled *p, const int64_t *dim) {
  const TsTarget *t = target_of(c, &p->why);
  if (t && !u->sized) p->kernel = compile(u, c, p, t, dim, false);
  if (t && !p->kernel) {
    u->sized = true;
    p->kernel = compile(u, c, p, t, dim, false);
  }
  p->nsec = 0;
  p->need_nsec = p->need_nsec ? ts_jit_need_longer(p->need_nsec) : FIRST_NSEC;
}

static const TsKernel *compiled(TsUserKernel *u, TsContext *c, const int64_t *dim) {
  Compiled *p = NULL;
  for (int i = 0; i < KEPT && !p; i++)
    if (fits(&u->of[i], c, dim)) p = &u->of[i];
  bool known = p != NULL;
  u->last = p = known ? p : place_for(u, c);
  if (!known || (!p->kernel && p->nsec >= p->need_nsec)) attempt(u, c, p, dim);
  return p->kernel;
}

static int interpret(TsUserKernel *u, TsContext *c, void **arg, const int64_t *dim) {
  int64_t start = ts_clock_nsec();
  int failed = ts_tile_run(u->tile, arg, dim, &c->err);
  if (u->last) u->last->nsec += ts_clock_nsec() - start;
  return failed;
}

/* The same with profile marks, if they can be. */
static const TsKernel *marked(TsUserKernel *u, TsContext *c, const int64_t *dim) {
  TsError ignored = {0};
  const TsTarget *t = compiled(u, c, dim) ? target_of(c, &ignored) : NULL;
  Compiled *p = u->last;
  if (t && !p->marked) p->marked = compile(u, c, p, t, dim, true);
  return p->marked ? p->marked : p->kernel;
}

TsUserKernelStatus ts_user_kernel_status(const TsUserKernel *u) {
  const Compiled *p = u->last;
  if (u->interpret) return (TsUserKernelStatus){.why = "it is to be interpreted"};
  if (!p) return (TsUserKernelStatus){.why = "it has not run yet"};
  return (TsUserKernelStatus){.compiled = p->kernel != NULL,
                              .cached = p->kernel && p->kernel->cached,
                              .why = p->kernel ? NULL : p->why.message};
}

static int explicit_text(const TsTile *k, const TsTarget *t, const char *level, TsText *text,
                         TsError *err) {
  TsTile *plain = ts_build_explicit(k, t, !strcmp(level, "explicit"), err);
  if (!plain) return -1;
  int failed = 0;
  if (!strcmp(level, "explicit"))
    ts_tile_text_places(plain, text);
  else
    failed = ts_llvm_text(plain, t, !strcmp(level, "asm"), text, err);
  ts_tile_free(plain);
  return failed;
}

int ts_user_kernel_text(const TsUserKernel *u, TsContext *c, const char *level, TsText *text,
                        TsError *err) {
  if (!strcmp(level, "tile")) return ts_tile_text_places(u->tile, text), 0;
  if (strcmp(level, "explicit") && strcmp(level, "llvm") && strcmp(level, "asm"))
    return ts_error_set(err, TS_ERR_argument,
                        "there is no level '%.40s'; levels are tile, explicit, llvm, asm",
                        level);
  /* Passes to explicit form need a target's numbers but no code generator. */
  const TsTarget *t = strcmp(level, "explicit") ? target_of(c, err) : ts_jit_target(c->k->isa);
  if (!t) {
    if (!err->code) ts_error_set(err, TS_ERR_device, "there are no vectors on this processor");
    return -1;
  }
  if (!explicit_text(u->tile, t, level, text, err)) return 0;
  if (!u->called) return ts_error_hint(err, "call it first: then its sizes are known");
  int64_t fixed[TS_TILE_DIMS];
  TsTile *k = sized(u, u->seen, fixed, err);
  int failed = k ? explicit_text(k, t, level, text, err) : -1;
  ts_tile_free(k);
  return failed;
}

/* ---- calls */
static int run(TsUserKernel *u, TsContext *c, void **arg, const int64_t *dim) {
  memcpy(u->seen, dim, sizeof u->seen);
  u->called = true;
  bool marks = c->spans && c->spans->marks;
  const TsKernel *kernel = u->interpret ? NULL
                           : marks      ? marked(u, c, dim)
                                        : compiled(u, c, dim);
  return kernel ? ts_kernel_run_timed(kernel, arg, dim, c->spans, &c->err)
                : interpret(u, c, arg, dim);
}

static int bind(TsContext *c, int nin, TsTensor *const *in, TsTensor **own, int nout,
                const TsMeta *type, TsTensor **out, void **arg) {
  for (int i = 0; i < nin; i++)
    if (!(own[i] = ts_tensor_contiguous(c, in[i])) || !(arg[i] = ts_tensor_read(own[i])))
      return -1;
  for (int i = 0; i < nout; i++)
    if (!(out[i] = ts_tensor_new(c, &type[i])) || !(arg[nin + i] = ts_tensor_write(out[i])))
      return -1;
  return 0;
}

int ts_user_kernel_call(TsUserKernel *u, TsContext *c, int nin, TsTensor *const *in,
                        const int64_t *given, TsTensor **out) {
  int nout = u->tile->nparam - u->tile->nin;
  TsTensor *own[PARAMS] = {NULL};
  const TsMeta *m[PARAMS] = {NULL};
  TsMeta type[PARAMS];
  void *arg[PARAMS];
  int64_t dim[TS_TILE_DIMS];
  for (int i = 0; i < nout; i++) out[i] = NULL;
  for (int i = 0; i < nin && i < PARAMS; i++) m[i] = &in[i]->meta;
  memcpy(dim, given, sizeof dim);
  if (ts_user_kernel_infer(u, nin, m, dim, type, &c->err)) return -1;
  int failed = bind(c, nin, in, own, nout, type, out, arg) || run(u, c, arg, dim);
  for (int i = 0; i < nin; i++) ts_tensor_unref(own[i]);
  for (int i = 0; i < nout && failed; i++) {
    ts_tensor_unref(out[i]);
    out[i] = NULL;
  }
  return failed ? -1 : 0;
}

/* Kernels of these sizes are compiled again at the next call. */
static void forget(TsUserKernel *u, const TsContext *c, const int64_t *dim) {
  for (int i = 0; i < KEPT; i++) {
    Compiled *p = &u->of[i];
    if (!fits(p, c, dim)) continue;
    free_code(p);
    *p = (Compiled){.isa = NULL};
    if (u->last == p) u->last = NULL;
  }
}

static int measure(TsUserKernel *u, TsContext *c, const int64_t *dim, void *const *arg) {
  TsError *err = &c->err;
  const TsTarget *t = u->interpret ? NULL : target_of(c, err);
  if (u->interpret)
    ts_error_set(err, TS_ERR_argument, "%.60s: it is interpreted", u->tile->name);
  if (!t || !c->jit) return -1;
  const TsKernel *kernel = compiled(u, c, dim); /* whether for these sizes only */
  if (!kernel) return *err = u->last->why, -1;
  Sized s = {.u = u, .dim = dim};
  TsSchedChoice choice = {0};
  TsTuneSubject x = subject_of(&s, t);
  x.in = arg;
  ts_tune_subject(ts_jit_tuner(c->jit), &x, false, NULL, &choice);
  forget(u, c, dim);
  return 0;
}

int ts_user_kernel_tune(TsUserKernel *u, TsContext *c, int nin, TsTensor *const *in,
                        const int64_t *given) {
  TsTensor *own[PARAMS] = {NULL};
  const TsMeta *m[PARAMS] = {NULL};
  TsMeta type[PARAMS];
  void *arg[PARAMS];
  int64_t dim[TS_TILE_DIMS];
  for (int i = 0; i < nin && i < PARAMS; i++) m[i] = &in[i]->meta;
  memcpy(dim, given, sizeof dim);
  if (ts_user_kernel_infer(u, nin, m, dim, type, &c->err)) return -1;
  int failed = bind(c, nin, in, own, 0, NULL, NULL, arg) || measure(u, c, dim, arg);
  for (int i = 0; i < nin; i++) ts_tensor_unref(own[i]);
  return failed ? -1 : 0;
}
