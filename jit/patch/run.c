/* What is done with what the kernel is given: the edited one is looked at, the usual one and the edited
 * one run into memory of their own, bits are compared, and what runs now and the edited one timed
 * in turns. The usual kernel has the VM's bits, which the interpreter confirms on some of its
 * rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "ir/tile/run/run.h"
#include "jit/device/stand_in.h"
#include "jit/patch/state.h"
#include "jit/tune/state.h"
#include "lib/clock.h"

enum {
  TURNS_MSEC = 200,
  LEAST_TURNS = 3,
  MOST_TURNS = 15,
  SAMPLE_USEC = 100,
  ORACLE_MSEC = 150
};

/* Results of two kernels. On a device both are there, and fetched. */
typedef struct Results {
  void *arg[2][TS_SCHED_PARAMS]; /* what kernels get: inputs as they are given, and these */
  char *base[2][TS_SCHED_PARAMS], *host[2][TS_SCHED_PARAMS];
  int64_t below[TS_SCHED_PARAMS], nbytes[TS_SCHED_PARAMS];
  int64_t all[TS_SCHED_PARAMS]; /* of an allocation */
} Results;

enum { WANT, HAVE };

static void free_results(TsPatch *p, Results *r) {
  for (int w = 0; w < 2; w++)
    for (int i = 0; i < TS_SCHED_PARAMS; i++) {
      if (p->device && r->base[w][i]) p->device->free(p->device, r->base[w][i], r->all[i]);
      if (!p->device) free(r->base[w][i]);
      free(r->host[w][i]);
    }
}

/* Filled alike, so that what neither writes is the same. */
static int make_results(TsPatch *p, Results *r, void *const *arg, TsError *err) {
  const TsTile *k = p->k[PATCH_usual].tile;
  const int64_t *dim = p->dim[PATCH_usual];
  for (int i = 0; i < k->nparam; i++) {
    r->arg[WANT][i] = r->arg[HAVE][i] = arg[i];
    if (i < k->nin) continue;
    ts_tile_reach(&k->param[i]->type, dim, &r->below[i], &r->nbytes[i]);
    r->below[i] = (r->below[i] + 63) & -64;
    size_t all = (size_t)(r->all[i] = (r->below[i] + r->nbytes[i] + 127) & -64);
    for (int w = 0; w < 2; w++) {
      if (p->device) {
        r->host[w][i] = malloc(all);
        r->base[w][i] = p->device->alloc(p->device, (int64_t)all, err);
      } else
        r->base[w][i] = aligned_alloc(64, all);
      char *fill = p->device ? r->host[w][i] : r->base[w][i];
      if (!fill || !r->base[w][i]) return ts_error_memory(err);
      memset(fill, 0xff, all);
      if (p->device && p->device->upload(p->device, r->base[w][i], fill, (int64_t)all, err))
        return -1;
      r->arg[w][i] = r->base[w][i] + r->below[i];
    }
  }
  return 0;
}

/* Sizes are each kernel's own, what is drawn is the run's. */
static void set_sizes(TsPatch *p, const int64_t *given) {
  const TsSchedKernel *now = &p->k[PATCH_now];
  for (int i = 0; i < PATCH_KERNELS; i++) {
    memcpy(p->dim[i], p->k[i].dim, sizeof p->dim[i]);
    for (int d = 0; d < now->ndraw; d++)
      memcpy(p->dim[i] + p->k[i].draw[d].dim, given + now->draw[d].dim, 2 * sizeof *given);
  }
}

static int run_once(TsPatch *p, int kernel, void *const *arg, TsError *err) {
  const int64_t *dim = p->dim[kernel];
  if (p->device) return ts_device_kernel_run(p->there[kernel], arg, dim, err);
  int failed = ts_kernel_run(p->code[kernel], arg, dim, err);
  if (!failed && ts_cpu_interrupted())
    failed = ts_error_set(err, TS_ERR_interrupt, "interrupted");
  return failed;
}

static int settle(TsPatch *p, TsError *err) {
  return p->device && p->device->synchronize ? p->device->synchronize(p->device, err) : 0;
}

static int fetch(TsPatch *p, Results *r, TsError *err) {
  if (settle(p, err)) return -1;
  for (int w = 0; p->device && w < 2; w++)
    for (int i = 0; i < TS_SCHED_PARAMS; i++)
      if (r->base[w][i] && p->device->download(p->device, r->host[w][i], r->base[w][i],
                                               r->below[i] + r->nbytes[i], err))
        return -1;
  return 0;
}

static const char *result_of(const TsPatch *p, const Results *r, int w, int i) {
  return (p->device ? r->host[w][i] : r->base[w][i]) + r->below[i];
}

/* ---- bits */
static void value_text(TsDtype d, const char *at, char *text, size_t room) {
  double x;
  if (!ts_dtype_is(d, TS_KIND_F))
    snprintf(text, room, "%lld", (long long)ts_tile_run_int(d, at, 0));
  else if (!ts_tile_run_cast(TS_DT_f64, &x, d, at, 1))
    snprintf(text, room, "%.9g", x);
  else
    snprintf(text, room, "other bits");
}

static void place_text(const TsTileType *t, const int64_t *dim, int64_t n, TsText *text) {
  int64_t at[TS_TILE_RANK];
  for (int i = t->rank; i-- > 0 && !t->strided;) {
    int64_t size = ts_tile_extent(t, i, dim);
    at[i] = size ? n % size : 0;
    n = size ? n / size : 0;
  }
  if (t->strided) {
    ts_text_format(text, "[%lld of its memory]", (long long)n);
    return;
  }
  ts_text_char(text, '[');
  for (int i = 0; i < t->rank; i++)
    ts_text_format(text, "%s%lld", i ? "," : "", (long long)at[i]);
  ts_text_char(text, ']');
}

static void first_difference(TsPatch *p, const TsTileVal v, const int64_t *dim, int64_t n,
                             const char *want, const char *have, const char *whose) {
  TsText place = {0};
  char a[48], b[48];
  TsDtype d = (TsDtype)v->type.dtype;
  place_text(&v->type, dim, n, &place);
  value_text(d, want, a, sizeof a);
  value_text(d, have, b, sizeof b);
  bool same = !strcmp(a, b);
  snprintf(p->seen.first, sizeof p->seen.first, "%%%s%s: %s %s, edited %s%s", v->name,
           place.at ? place.at : "", whose, a, b, same ? " (other bits)" : "");
  ts_text_free(&place);
}

/* Of one result; `wrote`: only where the first has something. */
static void compare(TsPatch *p, int i, const int64_t *dim, const char *want, const char *have,
                    int64_t nbytes, bool wrote, const char *whose) {
  const TsTileVal v = p->k[PATCH_usual].tile->param[i];
  TsDtype d = (TsDtype)v->type.dtype;
  int size = ts_dtypes[d].nbytes;
  static const char none[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  if (!memcmp(want, have, (size_t)nbytes)) return;
  for (int64_t n = 0; n < nbytes; n += size) {
    const char *x = want + n, *y = have + n;
    if (!memcmp(x, y, (size_t)size) || (ts_tune_is_nan(d, x) && ts_tune_is_nan(d, y))) continue;
    if (wrote && !memcmp(x, none, (size_t)size)) continue;
    if (!p->seen.differing++) first_difference(p, v, dim, n / size, x, y, whose);
  }
}

static void compare_all(TsPatch *p, const Results *r) {
  const TsTile *k = p->k[PATCH_usual].tile;
  const int64_t *dim = p->dim[PATCH_usual];
  for (int i = k->nin; i < k->nparam; i++) {
    p->seen.elements += r->nbytes[i] / ts_dtypes[k->param[i]->type.dtype].nbytes;
    compare(p, i, dim, result_of(p, r, WANT, i), result_of(p, r, HAVE, i), r->nbytes[i], false,
            "now");
  }
}

/* ---- the interpreter. Results of host copies lie where these are. */
typedef struct Copies {
  TsPatch *p;
  Results *r;
  bool oracle; /* else what the edited kernel touches */
} Copies;

/* Rounds that need nothing of others. */
static bool by_itself(const TsTile *k) {
  int loops = 0;
  for (const TsTileStmt *s = k->body->first; s; s = s->next) {
    loops += s->op == TS_TILE_for;
    if (s->op == TS_TILE_alloc) return false;
  }
  return loops == 1;
}

static int oracle(Copies *c, void *const *at, const int64_t *dim) {
  TsPatch *p = c->p;
  const TsTile *k = p->k[p->oracle].tile;
  double until = ts_clock_msec() + ORACLE_MSEC;
  TsError err = {0};
  bool some = by_itself(k);
  TsTileRunAs as = {.every = some ? INT64_MAX : 0, .stop = ts_patch_late, .stopper = &until};
  bool late = ts_tile_run_as(k, at, dim, &as, &err) && err.code == TS_ERR_interrupt;
  if (err.code && !(late && some)) {
    ts_patch_remark(p, "the interpreter confirmed nothing: %s",
                    late ? "it takes too long" : err.message);
    return 0;
  }
  for (int i = k->nin; i < k->nparam && !p->seen.differing; i++)
    compare(p, i, dim, at[i], result_of(p, c->r, HAVE, i), c->r->nbytes[i], true,
            "interpreted");
  return 0;
}

/* Results of copies are memory of their own, and hold nothing. */
static int with_copies(void *with, const TsTile *k, void *const *given, const int64_t *dim,
                       TsError *err) {
  Copies *c = with;
  void *at[TS_SCHED_PARAMS];
  char *own[TS_SCHED_PARAMS] = {NULL};
  int failed = 0;
  for (int i = 0; i < k->nparam; i++) {
    at[i] = given[i];
    if (i < k->nin) continue;
    size_t all = (size_t)(c->r->below[i] + c->r->nbytes[i] + 64);
    if (!(own[i] = malloc(all))) failed = ts_error_memory(err);
    if (own[i]) memset(own[i], 0xff, all), at[i] = own[i] + c->r->below[i];
  }
  if (!failed) failed = c->oracle ? oracle(c, at, dim) : ts_patch_safe(c->p, at, dim, err);
  for (int i = 0; i < k->nparam; i++) free(own[i]);
  return failed;
}

static int interpret(TsPatch *p, Results *r, bool is_oracle, void *const *arg, TsError *err) {
  Copies c = {p, r, is_oracle};
  int of = is_oracle ? p->oracle : PATCH_made;
  const TsTile *k = p->k[of].tile;
  const int64_t *dim = p->dim[of];
  if (!is_oracle && !p->lines) return 0; /* the passes made it */
  if (!p->device) return with_copies(&c, k, arg, dim, err);
  return ts_stand_in_here(p->device, k, arg, dim, with_copies, &c, false, err);
}

/* ---- times */
static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double sample(TsPatch *p, int kernel, void *const *arg, int times, TsError *err) {
  double start = ts_clock_msec();
  for (int i = 0; i < times; i++)
    if (run_once(p, kernel, arg, err)) return -1;
  if (settle(p, err)) return -1;
  return (ts_clock_msec() - start) * 1e3 / times;
}

static int take_times(TsPatch *p, Results *r, TsError *err) {
  double x[2][MOST_TURNS], start = ts_clock_msec();
  double once = sample(p, PATCH_now, r->arg[WANT], 1, err);
  int n = 0, times = once > 0 && once < SAMPLE_USEC ? (int)(SAMPLE_USEC / once) + 1 : 1;
  for (; n < MOST_TURNS && (n < LEAST_TURNS || ts_clock_msec() - start < TURNS_MSEC); n++) {
    x[0][n] = sample(p, PATCH_now, r->arg[WANT], times, err);
    x[1][n] = x[0][n] < 0 ? -1 : sample(p, PATCH_made, r->arg[HAVE], times, err);
    if (x[1][n] < 0) return -1;
  }
  for (int i = 0; i < 2; i++) qsort(x[i], (size_t)n, sizeof *x[i], by_value);
  p->seen.was_usec = x[0][n / 2];
  p->seen.usec = x[1][n / 2];
  return 0;
}

/* ---- all of it */
static int look(TsPatch *p, Results *r, void *const *arg, TsError *err) {
  bool known = !p->device || p->device->simulated; /* whose arithmetic the interpreter has */
  if (make_results(p, r, arg, err) || interpret(p, r, false, arg, err)) return -1;
  if (run_once(p, PATCH_usual, r->arg[WANT], err)) return -1;
  if (run_once(p, PATCH_made, r->arg[HAVE], err) || fetch(p, r, err)) return -1;
  compare_all(p, r);
  if (known && !p->k[p->oracle].tile->sequence && !p->seen.differing &&
      interpret(p, r, true, arg, err))
    return -1;
  return take_times(p, r, err);
}

int ts_patch_look(void *patch, TsDevice *d, void *const *arg, const int64_t *dim,
                  TsError *err) {
  TsPatch *p = patch;
  const TsCatch *own = ts_catch;
  Results r = {.base = {{NULL}}};
  if (p->seen.came) return 0;
  p->seen.came = true;
  ts_catch = NULL;
  set_sizes(p, dim);
  (void)look(p, &r, arg, &p->seen.failed);
  free_results(p, &r);
  ts_catch = own;
  if (d) return 0;
  return ts_error_set(err, TS_ERR_value, "the kernel was looked at, and the call ended there");
}
