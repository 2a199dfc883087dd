/* Rows of the gradients of norms and the sums over them, dw and db.
 *
 * The sums are made on the way: a row is read once for dx and for both. A piece of work is a
 * group of lanes of a leaf (vm/kernels/rows/reduce_tree.h) that the first halves of the
 * order bring together, so that its partial rows stay in the cache. In batches rows are
 * taken by a few neighbours at a time: one lane alone has rows that lie 256 apart, which
 * share the sets of the caches. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/rows/rows_grad_job.h"

enum { RUNS = 4 };

static void clear(const TsGradJob *j, char *to) {
  float *narrow = (float *)(void *)to;
  double *wide = (double *)(void *)to;
  if (j->w)
    for (int64_t i = 0; i < j->sums; i++) wide[i] = -0.0;
  else
    for (int64_t i = 0; i < j->sums; i++) narrow[i] = -0.0f;
}

/* Lanes of a leaf of m rows: 256 or 128, or for short leaves pow2ceil(m). */
static int64_t lanes_of(const TsGradJob *j, int64_t m) {
  int64_t w = j->w ? TS_RED_LANES_f64 : TS_RED_LANES_f32;
  while (w / 2 >= m) w /= 2;
  return w;
}

/* Lanes that a group takes from each of its runs. */
static int64_t run_length(const TsGradJob *j) { return j->n <= 256 ? 4 : j->n <= 512 ? 2 : 1; }

/* A group of lanes of one leaf of m rows from `base` on: lane c of run r is
 * first + c + r w / runs. */
typedef struct Group {
  const TsGradJob *j;
  int64_t leaf, base, m, w, first, runs, length;
  char *lane, *wide, *nothing; /* partial rows; scratch of a batch; one that adds nothing */
  TsGradBatch b;
} Group;

static char *lane_at(const Group *g, int64_t i) {
  return g->lane + i * g->j->sums * g->j->size;
}

static void add_rows(Group *g, const int *place, int n, int first) {
  const TsGradJob *j = g->j;
  g->b.rows = n;
  ts_grad_open_batch(j, &g->b, g->wide);
  ts_norm_statistics(j, &g->b);
  for (int i = 0; i < n; i++) {
    char *to = lane_at(g, place[i]);
    char *db = j->want_b ? to + j->db_at * j->size : NULL;
    ts_norm_end_row(j, &g->b, i, j->want_w ? to : NULL, db, first);
  }
}

/* The row of the next step, or that of the next group's first one. */
static int64_t next_of(const Group *g, int64_t i, int64_t row) {
  int64_t next = row + g->w;
  if (next >= g->m) next = row - i + g->length;
  return next < g->m ? g->base + next : -1;
}

/* Where its i-th lane begins. */
static int64_t start_of(const Group *g, int64_t i) {
  return g->first + i % g->length + i / g->length * g->w / g->runs;
}

/* The q-th row in the order of steps, or of the next group; -1: none. */
static int64_t row_of(const Group *g, int64_t q) {
  int64_t count = g->runs * g->length, all = (g->m + g->w - 1) / g->w * count;
  int64_t over = q < all ? 0 : g->length, row;
  q = q < all ? q : q - all;
  row = q / count * g->w + start_of(g, q % count) + over;
  return row < g->m ? row : -1;
}

/* The step of every lane of the group that begins at row i of the leaf. */
static void one_step(Group *g, int64_t i) {
  int n = 0, most = ts_grad_batch_rows(g->j), place[TS_GRAD_ROWS];
  for (int64_t r = 0; r < g->runs; r++)
    for (int64_t c = 0; c < g->length; c++) {
      int64_t row = i + g->first + c + r * g->w / g->runs;
      if (row >= g->m) continue;
      g->b.prefetch[n] = next_of(g, i, row);
      place[n] = (int)(r * g->length + c), g->b.row[n++] = g->base + row;
      if (n < most) continue;
      add_rows(g, place, n, i == 0);
      n = 0;
    }
  if (n) add_rows(g, place, n, i == 0);
}

/* Pushes its rows; returns how many. */
static int64_t walk_group(const Group *g, TsNormRows *r) {
  const TsGradJob *j = g->j;
  int64_t count = g->runs * g->length, prefetch = TS_GRAD_PREFETCH / (j->n * j->size), rows = 0;
  for (int64_t q = 0; q < (g->m + g->w - 1) / g->w * count; q++) {
    int64_t i = row_of(g, q), next = row_of(g, q + 1), far = row_of(g, q + prefetch);
    if (i < 0) continue;
    TsNormRow row = ts_norm_walk_row(j, g->base + i, g->base + (next < 0 ? i : next),
                                     g->base + (far < 0 ? i : far));
    char *to = lane_at(g, q % count);
    row.dw = j->want_w ? to : NULL;
    row.db = j->want_b ? to + j->db_at * j->size : NULL;
    row.nothing = q < count ? g->nothing : NULL;
    ts_norm_rows_push(r, &row);
    rows++;
  }
  return rows;
}

/* Lanes that no row of the leaf reaches. */
static void clear_rest(const Group *g) {
  for (int64_t i = 0; i < g->runs * g->length && !ts_cpu_interrupted(); i++)
    if (start_of(g, i) >= g->m) clear(g->j, lane_at(g, i));
}

/* Group i, or false where the leaf has fewer. */
static bool open_group(Group *g, int64_t i) {
  const TsGradJob *j = g->j;
  g->leaf = i / j->groups;
  g->base = g->leaf * TS_RED_LEAF, g->m = ts_grad_min(TS_RED_LEAF, j->rows - g->base),
  g->w = lanes_of(j, g->m);
  g->runs = ts_grad_min(RUNS, g->w), g->length = ts_grad_min(run_length(j), g->w / g->runs);
  g->first = i % j->groups * g->length;
  return g->first < g->w / g->runs;
}

/* The halves of the order that stay within a group, all rows of which are done. */
static void close_group(const Group *g) {
  const TsGradJob *j = g->j;
  int64_t row = j->sums * j->size;
  for (int64_t h = g->runs * g->length / 2; h >= g->length && !ts_cpu_interrupted(); h /= 2)
    j->rk->add[j->w](g->lane, lane_at(g, h), h * j->sums);
  memcpy(j->part + (g->leaf * j->lanes + g->first) * row, g->lane, (size_t)(g->length * row));
}

static void groups(void *arg, int64_t lo, int64_t hi, int worker) {
  const TsGradJob *j = arg;
  Group g = {.j = j, .lane = ts_scratch_part(&j->scratch, worker)};
  g.wide = g.lane + TS_GRAD_ROWS * j->sums * j->size;
  for (int64_t i = lo; i < hi; i++) {
    if (!open_group(&g, i)) continue;
    clear_rest(&g);
    for (int64_t k = 0; k < g.m && !ts_cpu_interrupted(); k += g.w) one_step(&g, k);
    if (ts_cpu_interrupted()) break;
    close_group(&g);
  }
  if (j->past) ts_copy_fence();
}

/* The rows of a leaf that begin at its row i. */
static TsNormRun run_from(const Group *g, int64_t i) {
  return (TsNormRun){g->base + i, i < g->m ? (g->m - i + g->w - 1) / g->w : 0, g->w};
}

/* The same lane by lane: its sums stay in the first cache. */
static void lane_groups(void *arg, int64_t lo, int64_t hi, int worker) {
  const TsGradJob *j = arg;
  Group g = {.j = j, .lane = ts_scratch_part(&j->scratch, worker)};
  g.nothing = lane_at(&g, TS_GRAD_ROWS);
  clear(j, g.nothing);
  for (int64_t i = lo; i < hi; i++) {
    if (!open_group(&g, i)) continue;
    clear_rest(&g);
    int64_t count = g.runs * g.length;
    for (int64_t l = 0; l < count && !ts_cpu_interrupted(); l++) {
      TsNormRun run = run_from(&g, start_of(&g, l));
      TsNormRun next = run_from(&g, l + 1 < count ? start_of(&g, l + 1) : g.first + g.length);
      char *to = lane_at(&g, l), *db = j->want_b ? to + j->db_at * j->size : NULL;
      if (run.rows > 0)
        ts_norm_lane_rows(j, run, next.rows > 0 ? next : run, j->want_w ? to : NULL, db,
                          g.nothing);
    }
    close_group(&g);
  }
  ts_copy_fence();
}

/* The same through ts_norm_rows. The last rows of a group are under way while the next one
 * begins, which has lanes of its own. */
static void walk_groups(void *arg, int64_t lo, int64_t hi, int worker) {
  const TsGradJob *j = arg;
  char *lane = ts_scratch_part(&j->scratch, worker);
  Group g = {.j = j, .lane = lane, .nothing = lane + 2 * RUNS * j->sums * j->size}, last = g;
  TsNormRows r = {.of = &j->of};
  for (int i = 0; i <= 2 * RUNS; i++) clear(j, lane_at(&g, i));
  bool open = false; /* whether `last` has rows under way */
  for (int64_t i = lo; i < hi; i++) {
    if (!open_group(&g, i)) continue;
    clear_rest(&g);
    bool few = walk_group(&g, &r) < TS_NORM_ROWS;
    if (few) ts_norm_rows_end(&r);
    if (open) close_group(&last);
    if (few) close_group(&g);
    open = !few, last = g;
    g.lane = g.lane == lane ? lane + RUNS * j->sums * j->size : lane;
  }
  ts_norm_rows_end(&r);
  if (open) close_group(&last);
  ts_copy_fence();
}

/* The rest of the halves of each leaf, then the leaves pairwise; the total stands first. */
static void merge(const TsGradJob *j, int64_t leaves) {
  int64_t row = j->sums * j->size;
  for (int64_t i = 0; i < leaves && !ts_cpu_interrupted(); i++) {
    int64_t w = lanes_of(j, ts_grad_min(TS_RED_LEAF, j->rows - i * TS_RED_LEAF));
    char *from = j->part + i * j->lanes * row;
    for (int64_t h = w / ts_grad_min(RUNS, w) / 2; h > 0 && !ts_cpu_interrupted(); h /= 2)
      j->rk->add[j->w](from, from + h * row, h * j->sums);
    if (i) memmove(j->part + i * row, from, (size_t)row);
  }
  j->k->reduce.tree[j->w ? TS_RED_F64 : TS_RED_F32](TS_RED_SUM, j->part, leaves, j->sums);
}

static int store_sum(TsCall *call, const TsGradJob *j, TsTensor *out, const char *from) {
  TsDtype wide = j->w ? TS_DT_f64 : TS_DT_f32, d = ts_tensor_dtype(out);
  void *to = ts_tensor_write(out);
  if (!to) return -1;
  if (d == wide)
    memcpy(to, from, (size_t)(j->n * j->size));
  else
    call->ctx->k->convert.convert[wide][d](j->n, to, from);
  return 0;
}

int ts_norm_grad_sums(TsCall *call, TsGradJob *j) {
  int64_t leaves = (j->rows + TS_RED_LEAF - 1) / TS_RED_LEAF, row = j->sums * j->size, next = 1;
  j->lanes = (j->w ? TS_RED_LANES_f64 : TS_RED_LANES_f32) / RUNS;
  j->groups = j->lanes / run_length(j);
  j->part = ts_work_take(leaves * j->lanes * row);
  if (!j->part ||
      ts_scratch_open(&j->scratch, (TS_GRAD_ROWS + 1) * row + ts_grad_scratch_bytes(j)))
    return ts_scratch_failed(call);
  ts_cpu_parallel(leaves * j->groups, ts_grad_grain(j) / TS_GRAD_ROWS + 1,
                  j->by_lanes        ? lane_groups
                  : ts_norm_walks(j) ? walk_groups
                                     : groups,
                  j);
  merge(j, leaves);
  if (ts_cpu_interrupted()) return 0;
  if (j->want_w && store_sum(call, j, call->out[next++], j->part)) return -1;
  return j->want_b ? store_sum(call, j, call->out[next], j->part + j->db_at * j->size) : 0;
}
