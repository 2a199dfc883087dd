/* See jit/collective/collective.h. What a sum is, by its layouts, is found out once and kept: a
 * plan has groups of devices, kernels, and sizes. A call looks it up, makes the results and
 * launches. */
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

enum { WORDS = 48, BUCKETS = 256, MOST_PLANS = 1024, PARTS = 64, MOST_PARAMS = TS_SUM_PARAMS };
enum { WHY = sizeof((TsError *)0)->message };

/* Of one part. */
typedef struct Device {
  int p, rank, nown, nparam;
  TsDeviceKernel *kernel;
  int64_t dim[TS_SUM_NDIM];
  int64_t first;     /* bytes of a summand and ... */
  int64_t out_first; /* .. of the sum before its share */
  TsMeta sum;        /* what it gets, */
  int64_t skip[TS_MAX_RANK],
      count[TS_MAX_RANK]; /* and of a summand: elements before, and of it */
} Device;

typedef struct Group {
  TsFlags *flags;
  TsDevice *list[PARTS];
  int n, part[PARTS];
  int nsum, from[TS_SUM_MOST], nth[TS_SUM_MOST]; /* summands: part, and which of its */
  TsWay way;
  bool pushes, once;
  int width;
  TsWayTile tile;
} Group;

typedef struct Plan {
  struct Plan *next;
  uint64_t hash;
  bool refused;
  char why[WHY]; /* it is refused */
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
static const char *why = "";
const char *ts_collective_why(void) { return why; }
void ts_collective_apart(const char *text) { why = text; }
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
  nplan = 0, why = "";
  ts_exchange_close();
}

/* ---- what a sum is */
static bool is_whole(const TsMeshSum *s) { return ts_layout_of(s->whole) == s->from; }

static const TsTensor *first_of(const TsMeshSum *s) {
  for (int p = 0; p < s->from->mesh->n; p++)
    if (s->nsum[p]) return s->sum[p][0].value;
  return NULL;
}

static uint64_t mixed(const TsLeafSum *x) {
  uint64_t h = ((uint64_t)x->level << 32 | (uint32_t)x->place) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 31;
}

/* All on which the plan depends; false: too much. */
static bool words_of(const TsMeshSum *s, int64_t *w, int *n) {
  const TsMesh *m = s->from->mesh;
  const TsTensor *x = first_of(s);
  int k = 0;
  if (!x || m->n > PARTS) return false;
  w[k++] = (int64_t)m->id << 32 | s->from->id << 16 | s->whole->layout;
  w[k++] = s->axes | s->kind << 8 | s->whole->dtype << 16 | x->meta.dtype << 24;
  w[k++] = ts_flags_patience(0);
  w[k++] = (int64_t)s->leaves << 32 | ts_flags_lane() << 8 | s->whole->ndim;
  for (int d = 0; d < s->whole->ndim; d++) w[k++] = s->whole->dim[d];
  uint64_t h = 0;
  for (int p = 0; p < m->n; p++)
    for (int i = 0; i < s->nsum[p]; i++)
      h = (h * 1099511628211u + (uint64_t)p) * 1099511628211u + mixed(&s->sum[p][i]);
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

/* Not for kernels, for this reason: 1. */
static int no(TsError *err, const char *text) {
  ts_error_set(err, TS_ERR_device, "%s", text);
  return 1;
}

TsDevice *ts_collective_gpu(int index) {
  if (index < 0 || index >= ts_device_count()) return NULL;
  TsDevice *d = ts_device_at(index);
  if (d->host_memory || !d->runs_kernels) return NULL;
  const TsTarget *target = d->simulated ? ts_target_of(d) : d->target; /* of the same maker */
  return target && target->maker == TS_MAKER_nvidia ? d : NULL;
}

/* 0: GPUs of this process, each once in its group, that reach each other, and whose kernels
 * meet. */
static int find_devices(const TsMeshSum *s, TsError *err) {
  const TsMesh *m = s->from->mesh;
  if (ts_world_size() > 1) return no(err, "there are several processes");
  for (int p = 0; p < m->n; p++) {
    TsDevice *d = ts_wire_end_of(m, p).host ? NULL : ts_collective_gpu(m->device[p]);
    if (!d) return no(err, "kernels meet on GPUs of NVIDIA alone");
    for (int q = 0; q < m->n; q++) {
      if (q == p || !ts_mesh_sum_joins(s, p, q)) continue;
      if (m->device[q] == m->device[p]) return no(err, "a device has several of the parts");
      if (m->device[q] < 0 || !ts_device_reaches(d, ts_device_at(m->device[q])))
        return no(err, "devices do not reach each other's memory");
    }
  }
  return 0;
}

static int64_t elements_of(const TsMeshSum *s, int p) {
  TsMeta m = ts_layout_part(is_whole(s) ? s->from : ts_layout_of(s->whole), s->whole, p);
  return ts_meta_numel(&m);
}

/* ---- plans */
static int make_group(const TsMeshSum *s, int first, Group *g, TsError *err) {
  const TsMesh *m = s->from->mesh;
  for (int q = first; q < m->n; q++) {
    if (!ts_mesh_sum_joins(s, first, q)) continue;
    g->list[g->n] = ts_device_at(m->device[q]);
    g->part[g->n++] = q;
    for (int i = 0; i < s->nsum[q]; i++) {
      if (g->nsum == TS_SUM_MOST) {
        ts_error_set(err, TS_ERR_device, "more than %d summands", TS_SUM_MOST);
        return 1;
      }
      g->from[g->nsum] = q, g->nth[g->nsum++] = i;
    }
  }
  return g->n > 1 && g->nsum ? 0 : no(err, "");
}

/* Rows of `width` elements, so that a vector never crosses what a device has. */
static int width_of(const TsMeshSum *s, const Group *g) {
  int size = ts_dtypes[first_of(s)->meta.dtype].nbytes, w = size == 8 ? 4 : 8;
  for (int i = 0; i < g->n; i++)
    if (elements_of(s, g->part[i]) % w) return 1;
  return w;
}

static TsSumKernel kernel_of(const TsMeshSum *s, const Group *g, int nown) {
  TsSumKernel k = {.name = is_whole(s) ? "all_reduce" : "reduce_scatter",
                   .n = g->n,
                   .nsum = g->nsum,
                   .nout = g->way == TS_WAY_share ? g->n : 1,
                   .leaves = s->leaves,
                   .width = g->width,
                   .tile = g->tile.elements,
                   .threads = g->tile.threads,
                   .pushes = g->pushes,
                   .once = g->once,
                   .apart = g->way != TS_WAY_whole,
                   .nown = nown,
                   .op = ts_factor_operator(s->kind),
                   .of = ts_tensor_dtype(first_of(s)),
                   .to = (TsDtype)s->whole->dtype};
  for (int i = 0; i < g->nsum; i++) {
    const TsLeafSum *x = &s->sum[g->from[i]][g->nth[i]];
    k.level[i] = x->level, k.place[i] = x->place;
  }
  return k;
}

/* What each device adds up. */
static int64_t make_sizes(const TsMeshSum *s, Plan *p, const Group *g) {
  int64_t most = 0;
  int64_t of = ts_dtypes[first_of(s)->meta.dtype].nbytes,
          to = ts_dtypes[s->whole->dtype].nbytes;
  bool shares = g->way == TS_WAY_share;
  int first = 0;
  for (int i = 0; i < g->n; i++) {
    Device *d = &p->device[g->part[i]];
    int64_t rows = elements_of(s, g->part[i]) / g->width;
    int64_t lo = shares ? rows * i / g->n : 0, hi = shares ? rows * (i + 1) / g->n : rows;
    d->p = g->part[i], d->rank = i, d->nown = s->nsum[g->part[i]];
    d->dim[TS_SUM_rows] = hi - lo, d->dim[TS_SUM_rank] = i, d->dim[TS_SUM_go] = 1;
    d->dim[TS_SUM_first] = first, first += d->nown;
    d->first = lo * g->width * of, d->out_first = lo * g->width * to;
    if (hi - lo > most) most = hi - lo;
  }
  return most;
}

/* Alike on all. Of a share that is a row short the one before the last row of all is read as
 * well: the last share is as long as any. */
static void make_rounds(Plan *p, Group *g, const TsWayRow *row, int64_t most, int64_t fit) {
  int64_t by = g->tile.elements / g->width, tiles = (most + by - 1) / by;
  int64_t at_once = ts_way_blocks(row, tiles), rounds = (tiles + at_once - 1) / at_once;
  int64_t chunks = g->pushes && rounds > fit ? (rounds + fit - 1) / fit : 1;
  rounds = rounds ? (rounds + chunks - 1) / chunks : 1;
  int64_t blocks = ts_way_blocks(row, (tiles + chunks * rounds - 1) / (chunks * rounds));
  for (int i = 0; i < g->n; i++) {
    Device *d = &p->device[g->part[i]];
    d->dim[TS_SUM_blocks] = blocks, d->dim[TS_SUM_rounds] = rounds;
    d->dim[TS_SUM_reads] = most, d->dim[TS_SUM_chunks] = chunks;
  }
  g->once = g->pushes && chunks == 1 && rounds == 1;
  TS_ASSERT(blocks * rounds * chunks >= tiles); /* every element is added up */
}

static int64_t meetings_of(const Plan *p, const Group *g) {
  int64_t chunks = p->device[g->part[0]].dim[TS_SUM_chunks];
  return g->pushes ? chunks + (g->way == TS_WAY_share) : 2;
}

/* The driver may load code with the first launch, and wait for all devices for it: so there is
 * one that does nothing, before any device waits for another. */
static int warm(const Group *g, const Device *d, const int64_t *dim, int nparam, TsError *err) {
  void *arg[MOST_PARAMS];
  int64_t none[TS_SUM_NDIM];
  if (g->list[d->rank]->simulated) return 0;
  memcpy(none, dim, sizeof none);
  none[TS_SUM_go] = 0, none[TS_SUM_blocks] = 1;
  for (int i = 0; i < nparam; i++) arg[i] = g->flags->words[d->rank];
  return ts_device_kernel_run(d->kernel, arg, none, err);
}

/* Whether what it has goes into the rooms of others: pieces are of one size, and there is room
 * for one tile of each summand. */
static bool can_push(const TsMeshSum *s, const Group *g) {
  for (int i = 0; i < g->n; i++) {
    TsSumKernel k = kernel_of(s, g, s->nsum[g->part[i]]);
    k.pushes = true;
    if (!ts_sum_rounds(&k) || ts_sum_params(&k) > MOST_PARAMS) return false;
    if (g->way == TS_WAY_piece && elements_of(s, g->part[i]) != elements_of(s, g->part[0]))
      return false;
  }
  return true;
}

/* Sums are rounded to fewer bytes than summands have. */
static bool is_narrowed(const TsMeshSum *s) {
  return ts_dtypes[s->whole->dtype].nbytes < ts_dtypes[first_of(s)->meta.dtype].nbytes;
}

static int open_group(const TsMeshSum *s, Plan *p, Group *g, TsError *err) {
  int64_t bytes = elements_of(s, g->part[0]) * ts_dtypes[first_of(s)->meta.dtype].nbytes;
  const TsWayRow *row =
      is_whole(s) ? ts_way_of_sum(g->n, bytes, is_narrowed(s)) : ts_way_of_pieces();
  TsError none = {0};
  g->width = width_of(s, g);
  g->way = row->way == TS_WAY_share && g->width == 1 ? TS_WAY_whole : row->way;
  if (!(g->flags = ts_flags_of(g->n, g->list, ts_flags_lane(), err))) return -1;
  int64_t most = make_sizes(s, p, g);
  g->tile = ts_way_tile(row, most * g->width, ts_dtypes[first_of(s)->meta.dtype].nbytes);
  g->pushes = row->pushes && can_push(s, g) && !ts_flags_make_room(g->flags, &none);
  TsSumKernel first = kernel_of(s, g, p->device[g->part[0]].nown);
  make_rounds(p, g, row, most, ts_sum_rounds(&first));
  for (int i = 0; i < g->n; i++) {
    Device *d = &p->device[g->part[i]];
    TsSumKernel k = kernel_of(s, g, d->nown);
    if (ts_sum_params(&k) > MOST_PARAMS) {
      ts_error_set(err, TS_ERR_device, "%d summands of %d devices are too many for one kernel",
                   g->nsum, g->n);
      return 1;
    }
    TsTile *t = ts_sum_kernel(&k, ts_target_of(g->list[i])->name, err);
    if (t) d->kernel = ts_device_kernel_open(g->list[i], t, err);
    d->nparam = ts_sum_params(&k);
    ts_tile_free(t);
    if (!d->kernel) return -1;
  }
  for (int i = 0; i < g->n; i++) {
    const Device *d = &p->device[g->part[i]];
    if (warm(g, d, d->dim, d->nparam, err)) return -1;
  }
  return 0;
}

static void place_piece(const TsMeshSum *s, int p, Device *d) {
  const TsLayout *to = ts_layout_of(s->whole);
  d->sum = ts_layout_part(is_whole(s) ? s->from : to, s->whole, p);
  for (int i = 0; i < s->whole->ndim; i++) {
    int64_t have = 0, all = 0, want = 0;
    ts_layout_run(s->from, i, s->whole->dim[i], p, 0, &have, &all);
    if (!ts_layout_run(to, i, s->whole->dim[i], p, 0, &want, &d->count[i])) want = have;
    d->skip[i] = want - have;
  }
}

/* 1: it is not for us. */
static int open_plan(const TsMeshSum *s, Plan *p, TsError *err) {
  const TsMesh *m = s->from->mesh;
  const TsTensor *x = first_of(s);
  bool seen[PARTS] = {false};
  if (!takes(ts_tensor_dtype(x), (TsDtype)s->whole->dtype, s->kind))
    return no(err, "kernels that meet have no such type or operator");
  if (find_devices(s, err)) return 1;
  if (!(p->group = calloc((unsigned)m->n, sizeof *p->group))) return ts_error_memory(err);
  for (int f = 0; f < m->n; f++) {
    if (seen[f]) continue;
    Group *g = &p->group[p->ngroup++];
    if (make_group(s, f, g, err)) return 1;
    for (int i = 0; i < g->n; i++) {
      seen[g->part[i]] = true;
      place_piece(s, g->part[i], &p->device[g->part[i]]);
    }
    int failed = open_group(s, p, g, err);
    if (failed) return failed;
  }
  return 0;
}

/* What cannot be opened goes the other way. No memory is an error: it may be there the next
 * time. */
static Plan *make_plan(TsContext *c, const TsMeshSum *s, uint64_t hash, const int64_t *word,
                       int nword) {
  TsError err = {0};
  if (ts_launch_flush(c)) return NULL;
  if (nplan == MOST_PLANS) ts_collective_close();
  Plan *p = calloc(1, sizeof *p + sizeof *word * (size_t)nword);
  if (!p) return ts_error_memory(&c->err), NULL;
  int failed = open_plan(s, p, &err);
  if (failed < 0 && err.code == TS_ERR_memory) {
    free_plan(p);
    c->err = err;
    return NULL;
  }
  p->refused = failed;
  snprintf(p->why, sizeof p->why, "%s", err.message);
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
  static Plan none = {.refused = true, .why = "the mesh has too many parts, or no summands"};
  if (!words_of(s, word, &n)) return &none;
  uint64_t hash = hash_of(word, n);
  for (Plan *p = bucket[hash % BUCKETS]; p; p = p->next)
    if (p->hash == hash && p->nword == n && !memcmp(p->word, word, sizeof *word * (size_t)n))
      return p;
  return make_plan(c, s, hash, word, n);
}

/* ---- a call */
/* The first byte of what a part takes of a summand, or NULL: it does not lie in one piece. */
static char *address(const TsMeshSum *s, const Device *part, TsTensor *x) {
  int64_t by = 0;
  bool whole = is_whole(s);
  if (whole && !x->contiguous) return NULL;
  for (int d = 0; d < x->meta.ndim && !whole; d++) by += part->skip[d] * x->stride[d];
  if (!whole && !ts_shape_row_major(x->meta.ndim, part->count, x->stride)) return NULL;
  char *at = ts_tensor_read_on(x, x->meta.device);
  return at ? at + by * ts_dtypes[x->meta.dtype].nbytes : NULL;
}

/* What device r has of summand k, of which `to` gets its share or piece; NULL: as address. */
static char *summand(const TsMeshSum *s, const Plan *p, const Group *g, int k, int to) {
  TsTensor *x = s->sum[g->from[k]][g->nth[k]].value;
  const Device *d = &p->device[g->part[to]];
  bool there = x->meta.device == g->list[0]->index || !ts_tensor_is_away(x);
  char *at = there ? address(s, d, x) : NULL;
  return at ? at + d->first : NULL;
}

/* Where the summands lie; what comes behind them: the next parameter, or NULL. */
static void **give_summands(const TsMeshSum *s, const Plan *p, const Group *g, int r,
                            void **arg) {
  const Device *d = &p->device[g->part[r]];
  int first = g->pushes ? (int)d->dim[TS_SUM_first] : 0, n = g->pushes ? d->nown : g->nsum;
  uintptr_t low = 0;
  for (int k = first; k < first + n; k++)
    for (int q = 0; q < (g->pushes && g->way != TS_WAY_whole ? g->n : 1); q++) {
      char *at = summand(s, p, g, k, g->pushes ? q : r);
      if (!at) return NULL;
      low |= (uintptr_t)at;
      *arg++ = at;
    }
  return low % 16 ? NULL : arg;
}

/* Results, and what each launch is given. 0: something does not lie as kernels want it. */
static int prepare(TsContext *c, const TsMeshSum *s, Plan *p, void *(*arg)[MOST_PARAMS]) {
  void **next[PARTS];
  for (int i = 0; i < p->ngroup; i++) {
    const Group *g = &p->group[i];
    for (int r = 0; r < g->n; r++)
      if (!(next[g->part[r]] = give_summands(s, p, g, r, arg[g->part[r]])))
        return c->err.code ? -1 : 0;
  }
  for (int q = 0; q < s->from->mesh->n; q++)
    if (!(s->out[q] = ts_tensor_new(c, &p->device[q].sum))) return -1;
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
      bool shares = g->way == TS_WAY_share;
      void **a = next[d->p];
      if (g->pushes) *a++ = g->flags->room[r];
      *a++ = g->flags->words[r];
      for (int k = 0; k < g->n && shares; k++) *a++ = out[k] + d->out_first;
      if (!shares) *a++ = out[r];
      for (int k = 0; k < g->n && g->pushes; k++) *a++ = g->flags->room[k];
      for (int k = 0; k < g->n; k++) *a++ = g->flags->words[k];
      TS_ASSERT(a == arg[d->p] + d->nparam);
    }
  }
  return 1;
}

static int launch(TsContext *c, Plan *p, void *(*arg)[MOST_PARAMS], int nth, int n) {
  int failed = 0;
  for (int i = 0; i < p->ngroup && !failed; i++) {
    Group *g = &p->group[i];
    TsReplayMeeting m[PARTS];
    for (int r = 0; r < g->n; r++) {
      const Device *d = &p->device[g->part[r]];
      int ndim = g->pushes ? TS_SUM_NDIM : TS_SUM_reads;
      m[r] = (TsReplayMeeting){d->kernel, d->nparam, ndim, arg[d->p], d->dim};
    }
    failed = ts_launch_meet(c, g->n, m);
    if (failed)
      ts_flags_drop(g->flags);
    else
      ts_collective_queued(g->flags, meetings_of(p, g), nth, n);
  }
  return failed;
}

/* Words that were dropped are made again, behind what was put off: that may still use their
 * memory. Those that are there are asked for first, so that none of them goes for the
 * others. */
static int words_there(TsContext *c, Plan *p) {
  bool all = true;
  for (int i = 0; i < p->ngroup; i++) {
    const TsFlags *f = p->group[i].flags;
    all &= f->words[0] && (!p->group[i].pushes || f->room[0]);
  }
  if (all) return 0;
  if (ts_launch_flush(c)) return -1;
  for (int there = 1; there >= 0; there--)
    for (int i = 0; i < p->ngroup; i++) {
      const Group *g = &p->group[i];
      if (!there == !g->flags->words[0] && !ts_flags_of(g->n, g->list, g->flags->lane, &c->err))
        return -1;
    }
  for (int i = 0; i < p->ngroup; i++)
    if (p->group[i].pushes && ts_flags_make_room(p->group[i].flags, &c->err)) return -1;
  return 0;
}

int ts_collective_sum(TsContext *c, const TsMeshSum *s, int nth, int n) {
  void *arg[PARTS][MOST_PARAMS];
  TsLaunches *l = ts_launches(c);
  if (off || l->prepares || ts_marks_collecting()) return 0;
  Plan *p = plan_of(c, s);
  if (!p) return -1;
  if (p->refused && *p->why) ts_collective_apart(p->why); /* else nothing is sent */
  if (p->refused) return 0;
  if (words_there(c, p)) return -1;
  int done = prepare(c, s, p, arg);
  if (!done)
    ts_collective_apart("summands do not lie in a row, from a multiple of 16 bytes on");
  if (done == 1 && launch(c, p, arg, nth, n)) done = -1;
  if (done == 1) ts_collectives++, l->guarded = c->waiting = true;
  for (int q = 0; q < s->from->mesh->n && done != 1; q++) {
    ts_tensor_unref(s->out[q]);
    s->out[q] = NULL;
  }
  return done;
}
