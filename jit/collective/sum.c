/* See jit/collective/collective.h. What a sum is, by its layouts, is found out once and kept: a plan
 * has groups of devices, kernels, and sizes. A call looks it up, makes the results and launches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/flags.h"
#include "devices/meet.h"
#include "jit/collective/collective.h"
#include "jit/collective/kernel.h"
#include "jit/collective/policy.h"
#include "jit/collective/state.h"
#include "jit/device/kernel.h"
#include "jit/device/marks.h"
#include "jit/launch/launch.h"
#include "net/world.h"
#include "vm/core/context.h"
#include "vm/mesh/wire.h"

enum { WORDS = 48, BUCKETS = 256, MOST_PLANS = 1024, PARTS = 64 };

/* Of one part. */
typedef struct Device {
  int p, rank;
  TsDeviceKernel *kernel;
  int64_t dim[TS_SUM_NDIM];
  int64_t first;     /* bytes of a summand and ... */
  int64_t out_first; /* .. of the sum before its share */
} Device;

typedef struct Group {
  TsFlags *flags;
  TsDevice *list[PARTS];
  int n, part[PARTS];
  int nsum, from[TS_SUM_MOST], nth[TS_SUM_MOST]; /* summands: part, and which of its */
  bool shares;                                   /* each adds up its share, for all */
} Group;

typedef struct Plan {
  struct Plan *next;
  uint64_t hash;
  bool refused;
  int ngroup;
  Group *group;
  Device device[PARTS];
  int nword;
  int64_t word[];
} Plan;

static Plan *bucket[BUCKETS];
static int nplan;
static bool off;
int64_t ts_collectives;

void ts_collective_use(bool on) { off = !on; }
static char why[sizeof((TsError *)0)->message];
const char *ts_collective_why(void) { return why; }
void ts_collective_refused(const TsError *err) {
  snprintf(why, sizeof why, "%s", err->message);
}
bool ts_collective_off(void) { return off; }
int64_t ts_collective_count(void) { return ts_collectives; }

static void free_plan(Plan *p) {
  for (int i = 0; i < PARTS; i++) ts_device_kernel_free(p->device[i].kernel);
  free(p->group);
  free(p);
}

void ts_collective_close(void) {
  for (int i = 0; i < BUCKETS; i++)
    for (Plan *p = bucket[i], *next; (bucket[i] = p); p = next) next = p->next, free_plan(p);
  nplan = 0;
  ts_exchange_close();
}

/* ---- what a sum is */
static bool in_group(const TsMeshSum *s, int p, int q) {
  const TsMesh *m = s->from->mesh;
  for (int a = 0; a < m->naxis; a++)
    if (!(s->axes >> a & 1) && ts_mesh_coordinate(m, p, a) != ts_mesh_coordinate(m, q, a))
      return false;
  return true;
}

static bool is_whole(const TsMeshSum *s) { return ts_layout_of(s->whole) == s->from; }

static const TsTensor *first_of(const TsMeshSum *s) {
  for (int p = 0; p < s->from->mesh->n; p++)
    if (s->nsum[p]) return s->sum[p][0].value;
  return NULL;
}

/* All on which the plan depends; false: too much. */
static bool words_of(const TsMeshSum *s, int64_t *w, int *n) {
  const TsMesh *m = s->from->mesh;
  const TsTensor *x = first_of(s);
  int k = 0;
  if (!x || m->n > PARTS) return false;
  w[k++] = (int64_t)m->id << 32 | s->from->id << 16 | s->whole->layout;
  w[k++] = s->axes | s->kind << 8 | s->whole->dtype << 16 | x->meta.dtype << 24;
  w[k++] = (int64_t)s->leaves << 32 | ts_flags_lane() << 8 | s->whole->ndim;
  for (int d = 0; d < s->whole->ndim; d++) w[k++] = s->whole->dim[d];
  uint64_t h = 0;
  for (int p = 0; p < m->n; p++)
    for (int i = 0; i < s->nsum[p]; i++)
      h = h * 1099511628211u + (uint64_t)(p + 1) * 257 + (uint64_t)s->sum[p][i].level * 65537 +
          (uint64_t)s->sum[p][i].place;
  w[k++] = (int64_t)h;
  *n = k;
  return true;
}

static uint64_t hash_of(const int64_t *w, int n) {
  uint64_t h = 14695981039346656037u;
  for (int i = 0; i < n; i++) h = (h ^ (uint64_t)w[i]) * 1099511628211u, h ^= h >> 29;
  return h;
}

static bool takes(TsDtype of, TsDtype to, TsFactorKind kind) {
  bool floats = ts_dtype_is(of, TS_KIND_F) && ts_dtype_is(to, TS_KIND_F);
  bool whole = of == to && (of == TS_DT_i32 || of == TS_DT_i64);
  bool known = of == TS_DT_f32 || of == TS_DT_f64 || of == TS_DT_bf16 || of == TS_DT_f16;
  known &= to == TS_DT_f32 || to == TS_DT_f64 || to == TS_DT_bf16 || to == TS_DT_f16;
  if (kind == TS_FACTOR_any || kind == TS_FACTOR_all) return false;
  return (floats && known) || whole;
}

/* GPUs of this process, each once in its group, that reach each other, and whose kernels meet. */
static bool has_devices(const TsMeshSum *s) {
  const TsMesh *m = s->from->mesh;
  if (ts_world_size() > 1) return false;
  for (int p = 0; p < m->n; p++) {
    TsWireEnd end = ts_wire_end_of(m, p);
    TsDevice *d = end.host || m->device[p] < 0 ? NULL : ts_device_at(m->device[p]);
    const TsTarget *t = d ? ts_target_of(d) : NULL;
    if (!d || !d->runs_kernels || !t || t->maker != TS_MAKER_nvidia) return false;
    for (int q = 0; q < m->n; q++)
      if (q != p && in_group(s, p, q) &&
          (m->device[q] < 0 || m->device[q] == m->device[p] ||
           !ts_device_reaches(d, ts_device_at(m->device[q]))))
        return false;
  }
  return true;
}

static int64_t elements_of(const TsMeshSum *s, int p) {
  TsMeta m = ts_layout_part(is_whole(s) ? s->from : ts_layout_of(s->whole), s->whole, p);
  return ts_meta_numel(&m);
}

/* ---- plans */
static int make_group(const TsMeshSum *s, int first, Group *g) {
  const TsMesh *m = s->from->mesh;
  for (int q = first; q < m->n; q++) {
    if (!in_group(s, first, q)) continue;
    g->list[g->n] = ts_device_at(m->device[q]);
    g->part[g->n++] = q;
    for (int i = 0; i < s->nsum[q]; i++) {
      if (g->nsum == TS_SUM_MOST) return -1;
      g->from[g->nsum] = q, g->nth[g->nsum++] = i;
    }
  }
  return g->n > 1 && g->nsum && g->n <= TS_MAX_DEVICES ? 0 : -1;
}

static TsTile *kernel_of(const TsMeshSum *s, const Group *g, int width, const TsTarget *t,
                         TsError *err) {
  TsSumKernel k = {.name = is_whole(s) ? "all_reduce" : "reduce_scatter",
                   .n = g->n,
                   .nsum = g->nsum,
                   .nout = g->shares ? g->n : 1,
                   .leaves = s->leaves,
                   .width = width,
                   .op = ts_factor_operator(s->kind),
                   .of = ts_tensor_dtype(first_of(s)),
                   .to = (TsDtype)s->whole->dtype};
  for (int i = 0; i < g->nsum; i++) {
    const TsLeafSum *x = &s->sum[g->from[i]][g->nth[i]];
    k.level[i] = x->level, k.place[i] = x->place;
  }
  return ts_sum_kernel(&k, t->name, err);
}

/* Rows of `width` elements, so that a vector never crosses what a device has. */
static int width_of(const TsMeshSum *s, const Group *g) {
  int size = ts_dtypes[first_of(s)->meta.dtype].nbytes, w = size == 8 ? 4 : 8;
  for (int i = 0; i < g->n; i++)
    if (elements_of(s, g->part[i]) % w) return 1;
  return w;
}

static void make_sizes(const TsMeshSum *s, Plan *p, const Group *g, int width) {
  const TsMesh *m = s->from->mesh;
  (void)m;
  int64_t most = 0, tile = TS_SUM_TILE / width;
  int64_t of = ts_dtypes[first_of(s)->meta.dtype].nbytes,
          to = ts_dtypes[s->whole->dtype].nbytes;
  int64_t bytes = elements_of(s, g->part[0]) * of;
  const TsWayRow *row = ts_way_of_sum(g->n, is_whole(s) ? bytes : INT64_MAX);
  for (int i = 0; i < g->n; i++) {
    Device *d = &p->device[g->part[i]];
    int64_t rows = elements_of(s, g->part[i]) / width;
    int64_t lo = g->shares ? rows * i / g->n : 0, hi = g->shares ? rows * (i + 1) / g->n : rows;
    d->p = g->part[i], d->rank = i;
    d->dim[TS_SUM_rows] = hi - lo, d->dim[TS_SUM_rank] = i, d->dim[TS_SUM_go] = 1;
    d->first = lo * width * of, d->out_first = lo * width * to;
    if (hi - lo > most) most = hi - lo;
  }
  int64_t tiles = (most + tile - 1) / tile, blocks = ts_way_blocks(row, tiles);
  for (int i = 0; i < g->n; i++) {
    Device *d = &p->device[g->part[i]];
    d->dim[TS_SUM_blocks] = blocks, d->dim[TS_SUM_rounds] = (tiles + blocks - 1) / blocks;
  }
}

/* The driver may load code with the first launch, and wait for all devices for it: so there is one
 * that does nothing, before any device waits for another. */
static int warm(const Group *g, const Device *d, const int64_t *dim, TsError *err) {
  void *arg[TS_SUM_MOST * 3];
  int64_t none[TS_SUM_NDIM];
  int n = 0;
  if (g->list[d->rank]->simulated) return 0;
  memcpy(none, dim, sizeof none);
  none[TS_SUM_go] = 0, none[TS_SUM_blocks] = 1;
  while (n < g->nsum + (g->shares ? g->n : 1) + g->n) arg[n++] = g->flags->words[d->rank];
  return ts_device_kernel_run(d->kernel, arg, none, err);
}

static int open_group(const TsMeshSum *s, Plan *p, Group *g, TsError *err) {
  int width = width_of(s, g);
  int64_t bytes = elements_of(s, g->part[0]) * ts_dtypes[first_of(s)->meta.dtype].nbytes;
  g->shares = is_whole(s) && width > 1 && ts_way_of_sum(g->n, bytes)->way == TS_WAY_share;
  if (g->nsum + 2 * g->n > 64) return 1;
  if (!(g->flags = ts_flags_of(g->n, g->list, ts_flags_lane(), err))) return -1;
  make_sizes(s, p, g, width);
  for (int i = 0; i < g->n; i++) {
    Device *d = &p->device[g->part[i]];
    TsTile *k = kernel_of(s, g, width, ts_target_of(g->list[i]), err);
    if (k) d->kernel = ts_device_kernel_open(g->list[i], k, err);
    ts_tile_free(k);
    if (!d->kernel) return -1;
  }
  for (int i = 0; i < g->n; i++)
    if (warm(g, &p->device[g->part[i]], p->device[g->part[i]].dim, err)) return -1;
  return 0;
}

/* 1: it is not for us. */
static int open_plan(const TsMeshSum *s, Plan *p, TsError *err) {
  const TsMesh *m = s->from->mesh;
  const TsTensor *x = first_of(s);
  bool seen[PARTS] = {false};
  if (!takes(ts_tensor_dtype(x), (TsDtype)s->whole->dtype, s->kind) || !has_devices(s))
    return 1;
  if (!(p->group = calloc(PARTS, sizeof *p->group))) return ts_error_memory(err);
  for (int f = 0; f < m->n; f++) {
    if (seen[f]) continue;
    Group *g = &p->group[p->ngroup++];
    if (make_group(s, f, g)) return 1;
    for (int i = 0; i < g->n; i++) seen[g->part[i]] = true;
    int failed = open_group(s, p, g, err);
    if (failed) return failed;
  }
  return 0;
}

/* What cannot be opened goes the other way; memory may be there the next time. */
static Plan *make_plan(TsContext *c, const TsMeshSum *s, uint64_t hash, const int64_t *word,
                       int nword) {
  TsError err = {0};
  if (nplan == MOST_PLANS) ts_collective_close();
  Plan *p = calloc(1, sizeof *p + sizeof *word * (size_t)nword);
  if (!p) return ts_error_memory(&c->err), NULL;
  int failed = open_plan(s, p, &err);
  if (failed < 0 && err.code == TS_ERR_memory) {
    free_plan(p);
    c->err = err;
    return NULL;
  }
  if (failed < 0) ts_collective_refused(&err);
  p->refused = failed;
  p->hash = hash, p->nword = nword;
  memcpy(p->word, word, sizeof *word * (size_t)nword);
  p->next = bucket[hash % BUCKETS];
  bucket[hash % BUCKETS] = p;
  nplan++;
  return p;
}

static Plan *plan_of(TsContext *c, const TsMeshSum *s) {
  int64_t word[WORDS];
  int n;
  static Plan none = {.refused = true};
  if (!words_of(s, word, &n)) return &none;
  uint64_t hash = hash_of(word, n);
  for (Plan *p = bucket[hash % BUCKETS]; p; p = p->next)
    if (p->hash == hash && p->nword == n && !memcmp(p->word, word, sizeof *word * (size_t)n))
      return p;
  return make_plan(c, s, hash, word, n);
}

/* ---- a call */
/* The first byte of what part p takes of a summand, or NULL: it does not lie in one piece. */
static char *address(const TsMeshSum *s, int p, TsTensor *x) {
  int64_t dim[TS_MAX_RANK], by = 0;
  bool whole = is_whole(s);
  const TsLayout *to = ts_layout_of(s->whole);
  if (whole && !x->contiguous) return NULL;
  for (int d = 0; d < x->meta.ndim && !whole; d++) {
    int64_t have = 0, all = 0, want = 0;
    ts_layout_run(s->from, d, s->whole->dim[d], p, 0, &have, &all);
    if (!ts_layout_run(to, d, s->whole->dim[d], p, 0, &want, &dim[d])) want = have, dim[d] = 0;
    by += (want - have) * x->stride[d];
  }
  if (!whole && !ts_shape_row_major(x->meta.ndim, dim, x->stride)) return NULL;
  char *at = ts_tensor_read_on(x, x->meta.device);
  return at ? at + by * ts_dtypes[x->meta.dtype].nbytes : NULL;
}

/* Results, and what each launch is given. 0: something does not lie as kernels want it. */
static int prepare(TsContext *c, const TsMeshSum *s, Plan *p, void *(*arg)[TS_SUM_MOST * 2]) {
  uintptr_t low = 0;
  for (int i = 0; i < p->ngroup; i++) {
    const Group *g = &p->group[i];
    for (int r = 0; r < g->n; r++)
      for (int k = 0; k < g->nsum; k++) {
        TsTensor *x = s->sum[g->from[k]][g->nth[k]].value;
        const Device *d = &p->device[g->part[r]];
        char *at = x->meta.device == g->list[0]->index || !ts_tensor_is_away(x)
                       ? address(s, d->p, x)
                       : NULL;
        if (!at) return c->err.code ? -1 : 0;
        arg[d->p][k] = at + d->first;
        low |= (uintptr_t)arg[d->p][k];
      }
  }
  if (low % 16) return 0;
  for (int q = 0; q < s->from->mesh->n; q++) {
    TsMeta m = ts_layout_part(is_whole(s) ? s->from : ts_layout_of(s->whole), s->whole, q);
    if (!(s->out[q] = ts_tensor_new(c, &m))) return -1;
  }
  for (int i = 0; i < p->ngroup; i++) {
    const Group *g = &p->group[i];
    char *out[PARTS];
    for (int r = 0; r < g->n; r++) {
      TsTensor *y = s->out[g->part[r]];
      out[r] = ts_tensor_write_on(y, g->list[r]->index, true);
      if (!out[r] && ts_tensor_numel(y)) return -1;
    }
    for (int r = 0; r < g->n; r++) {
      const Device *d = &p->device[g->part[r]];
      void **a = arg[d->p] + g->nsum;
      for (int k = 0; k < g->n && g->shares; k++) *a++ = out[k] + d->out_first;
      if (!g->shares) *a++ = out[r];
      for (int k = 0; k < g->n; k++) *a++ = g->flags->words[k];
    }
  }
  return 1;
}

static int launch(TsContext *c, Plan *p, void *(*arg)[TS_SUM_MOST * 2], int nth, int n) {
  int failed = 0;
  for (int i = 0; i < p->ngroup && !failed; i++) {
    Group *g = &p->group[i];
    ts_device_together(true);
    for (int r = 0; r < g->n && !failed; r++) {
      const Device *d = &p->device[g->part[r]];
      failed = ts_device_kernel_run(d->kernel, arg[d->p], d->dim, &c->err);
    }
    ts_device_together(false);
    if (failed)
      ts_flags_drop(g->flags);
    else
      ts_collective_queued(g->flags, nth, n);
  }
  return failed;
}

/* Words that were dropped are made again. */
static int words_there(TsContext *c, Plan *p) {
  for (int i = 0; i < p->ngroup; i++) {
    Group *g = &p->group[i];
    if (!g->flags->words[0] && !ts_flags_of(g->n, g->list, g->flags->lane, &c->err)) return -1;
  }
  return 0;
}

int ts_collective_sum(TsContext *c, const TsMeshSum *s, int nth, int n) {
  void *arg[PARTS][TS_SUM_MOST * 2];
  TsLaunches *l = ts_launches(c);
  if (off || l->prepares || ts_marks_collecting()) return 0;
  Plan *p = plan_of(c, s);
  if (!p) return -1;
  if (p->refused) return 0;
  if (words_there(c, p)) return -1;
  int done = prepare(c, s, p, arg);
  if (done == 1 && (ts_launch_flush(c) || launch(c, p, arg, nth, n))) done = -1;
  if (done == 1) ts_collectives++, l->guarded = c->waiting = true;
  for (int q = 0; q < s->from->mesh->n && done != 1; q++) {
    ts_tensor_unref(s->out[q]);
    s->out[q] = NULL;
  }
  return done;
}
