/* Gradients of softmax, log_softmax, layernorm and rmsnorm. The definitions, in f32 for
 * f32 and narrower floats, else f64, every operation rounded once, sums in the canonical
 * order, exp from lib/elem:
 *
 *   softmax      s = sum(y g); dx = y (g - s)
 *   log_softmax  s = sum(g); dx = g - exp(y) s
 *   layernorm    mean u and rstd r as in vm/rows.h; xc = x - u; gw = g w;
 *                c1 = sum(gw) / N; c2 = ((sum(gw xc) r) / N) r;
 *                dx = fma(-xc, c2, gw - c1) r; db = sum over rows of g;
 *                dw = the same order over rows, its chains of fma(g xc, r, dw) from -0
 *   rmsnorm      xc = x; c2 as above; dx = fma(-xc, c2, gw) r; dw as above
 *
 * Statistics are computed again: the row is in the first-level cache for the rest of the
 * work anyway, and nothing has to be kept from the forward pass.
 *
 * The sums over rows are made on the way: a row is read once for dx and for both sums. A
 * piece of work is a group of lanes of a leaf (vm/kernels/reduce_tree.h) that the first
 * halves of the order bring together, so that its partial rows stay in the cache, and rows
 * are taken by a few neighbours at a time: one lane alone has rows that lie 256 apart,
 * which share the sets of the caches. */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_kind.h"
#include "devices/cpu_pool.h"
#include "vm/axis.h"
#include "vm/exec.h"
#include "vm/leaf_sum.h"
#include "vm/norm_walk.h"
#include "vm/scratch.h"

enum {
  LEAF = TS_RED_LEAF,
  RUNS = 4,
  GRAIN = 1 << 14,
  PAST = 12 << 20,  /* bytes of dx that goes past the caches */
  ROW = 2 << 10,    /* bytes of a row that goes by lanes, at least */
  AHEAD = 48 << 10, /* bytes of y, and of g, from what is read to what is asked for */
  LONG = 128 << 10, /* bytes of a row that leaves no room in L2 for all of the next one */
  SHORT = 256,      /* bytes of a row of a softmax that is worth asking for by itself */
  WALK = 8 << 10,   /* bytes of a row from which several go in one walk */
  APART = 512, /* bytes between dw and db of such rows, whose places in a page are equal else */
  LINE = 64
};

typedef struct Job {
  const TsKernels *k;
  const TsRowsGradKernels *rk;
  TsConvertFn *load, *store; /* NULL where the storage type is the wide one */
  int w;                     /* index of the wide type's kernels */
  int64_t esize, size, n, rows;
  const char *x, *g; /* x is y for the softmaxes */
  char *dx;
  TsScratch scratch;
  bool past;
  /* softmaxes */
  bool log;
  int64_t step; /* bytes from what is read to what is asked for */
  /* norms */
  const char *weight; /* in the wide type, or NULL */
  bool centered, want_w, want_b;
  bool by_lanes; /* through norm_lane */
  TsNormOf of;
  int64_t sums, db_at;   /* numbers of one partial row, 0 if none is wanted; where db begins */
  int64_t lanes, groups; /* of a full leaf, after the halves within groups */
  char *part;            /* [leaves][lanes][sums] */
} Job;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- some rows at once, in the wide type */
typedef struct Batch {
  int rows;
  int64_t row[TS_GRAD_ROWS];
  int64_t ahead[TS_GRAD_ROWS]; /* who takes its place, or -1 */
  const void *x[TS_GRAD_ROWS], *g[TS_GRAD_ROWS];
  char *dx[TS_GRAD_ROWS];
  double mean[TS_GRAD_ROWS], rstd[TS_GRAD_ROWS], c1[TS_GRAD_ROWS], c2[TS_GRAD_ROWS];
} Batch; /* the last four hold numbers of the wide type */

/* Rows of a batch: scratch for narrow types, and the cache, hold so many. */
static int batch_rows(const Job *j) { return j->n > 2048 ? 1 : j->n > 512 ? 4 : TS_GRAD_ROWS; }

/* wide: scratch for three rows of each row of the batch, where the type is narrow. */
static void open_batch(const Job *j, Batch *b, char *wide) {
  int64_t nbytes = j->n * j->size;
  for (int i = 0; i < b->rows; i++) {
    int64_t at = b->row[i] * j->n * j->esize;
    b->x[i] = j->x + at, b->g[i] = j->g + at, b->dx[i] = j->dx + at;
    if (!j->load) continue;
    char *to = wide + 3 * i * nbytes;
    j->load(j->n, to, b->x[i]), j->load(j->n, to + nbytes, b->g[i]);
    b->x[i] = to, b->g[i] = to + nbytes, b->dx[i] = to + 2 * nbytes;
  }
}

static void close_row(const Job *j, const Batch *b, int i) {
  if (j->store) j->store(j->n, j->dx + b->row[i] * j->n * j->esize, b->dx[i]);
}

static int64_t scratch_bytes(const Job *j) {
  return j->load ? 3 * batch_rows(j) * j->n * j->size : 0;
}

/* Whether dx goes past the caches. */
static bool goes_past(const Job *j) {
  return !j->load && j->rows * j->n * j->size >= PAST && j->n * j->size % LINE == 0 &&
         (uintptr_t)j->dx % LINE == 0 && j->dx != j->x && j->dx != j->g;
}

/* ---- the softmaxes */

/* How many bytes on to ask for: whole rows behind those of the batch, or the rest of the row
 * where it is long. */
static int64_t step_of(const Job *j) {
  int64_t row = j->n * j->size, rows = AHEAD / row, batch = batch_rows(j);
  return row > LONG ? AHEAD : (rows < batch ? batch : rows) * row;
}

/* What row i asks for, in bytes from the start. It may be of the next range: a thread goes on
 * with that. */
static int64_t soft_ahead(const Job *j, int64_t i) {
  int64_t row = j->n * j->size;
  return min64(i * row + j->step, (j->rows - 1) * row);
}

static void soft_past(const Job *j, const Batch *b, int i, double sum) {
  int64_t at = soft_ahead(j, b->row[i]);
  TsSoftPast e = {.dx = b->dx[i], .y = b->x[i], .g = b->g[i], .n = j->n, .s = sum};
  e.ahead[0] = j->x + at;
  e.ahead[1] = j->n > LEAF ? j->g + at : NULL; /* else the sum asked for it */
  (j->log ? j->rk->log_softmax_past : j->rk->softmax_past)[j->w](&e);
}

static void soft_end(const Job *j, const Batch *b, int i) {
  double sum = ts_leaf_get(j->w, b->c1, i);
  if (j->past) {
    soft_past(j, b, i, sum);
    return;
  }
  (j->log ? j->rk->log_softmax : j->rk->softmax)[j->w](b->dx[i], b->x[i], b->g[i], j->n, sum);
  close_row(j, b, i);
}

static void soft_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  char *wide = ts_scratch_part(&j->scratch, worker);
  Batch b = {.rows = 0};
  for (int64_t i = lo; i < hi; i += b.rows) {
    b.rows = (int)min64(batch_rows(j), hi - i);
    for (int r = 0; r < b.rows; r++) b.row[r] = i + r;
    open_batch(j, &b, wide);
    TsRowSums s = {.rows = b.rows, .n = j->n, .x = j->log ? b.g : b.x, .g = b.g, .out = b.c1};
    const void *ahead[TS_GRAD_ROWS];
    for (int r = 0; r < b.rows && j->past; r++) ahead[r] = j->g + soft_ahead(j, i + r);
    if (j->past) s.ahead = ahead;
    ts_leaf_rows(j->w, j->log ? j->rk->sum[j->w] : j->rk->dot[j->w], &s);
    for (int r = 0; r < b.rows; r++) soft_end(j, &b, r);
  }
  if (j->past) ts_copy_fence();
}

static void set_kernels(Job *j, TsDtype d) {
  TsDtype wide = (TsDtype)ts_dtypes[d].accum;
  j->rk = &j->k->rows_grad;
  j->w = wide == TS_DT_f64;
  j->esize = ts_dtypes[d].nbytes, j->size = ts_dtypes[wide].nbytes;
  if (d == wide) return;
  j->load = j->k->convert.convert[d][wide];
  j->store = j->k->convert.convert[wide][d];
}

static int open_scratch(TsCall *call, Job *j) {
  if (!ts_scratch_open(&j->scratch, scratch_bytes(j))) return 0;
  return ts_scratch_failed(call);
}

static int64_t grain_of(const Job *j) { return GRAIN / (j->n + 1) + 1; }

static int soft(TsCall *call, Job *j, TsTensor *y, TsTensor *g) {
  int nd = y->meta.ndim;
  int64_t axis = call->attr[0].i;
  TsAxisRows yr = {.t = NULL}, gr = {.t = NULL};
  TsAxisOut dx = {.t = NULL};
  axis = axis < 0 ? axis + (nd ? nd : 1) : axis;
  if (open_scratch(call, j) || ts_axis_read(call->ctx, y, (int)axis, &yr)) return -1;
  int failed = ts_axis_read(call->ctx, g, (int)axis, &gr);
  if (!failed && !(failed = ts_axis_open(call->ctx, call->out[0], (int)axis, &dx))) {
    j->x = yr.at, j->g = gr.at, j->dx = dx.at, j->n = yr.n, j->rows = yr.rows;
    j->past = j->n * j->size >= SHORT && goes_past(j), j->step = step_of(j);
    ts_cpu_parallel(j->rows, grain_of(j), soft_rows, j);
    ts_axis_close(&dx);
  }
  ts_tensor_unref(yr.t);
  if (gr.at) ts_tensor_unref(gr.t);
  return failed ? -1 : 0;
}

static int soft_grad(TsCall *call, bool log) {
  TsContext *c = call->ctx;
  TsDtype d = ts_tensor_dtype(call->out[0]);
  Job j = {.k = c->k, .log = log};
  if (ts_tensor_numel(call->out[0]) == 0) return 0;
  set_kernels(&j, d);
  int nd = call->in[0]->meta.ndim;
  int64_t axis = call->attr[0].i;
  j.n = nd ? call->in[0]->meta.dim[axis < 0 ? axis + nd : axis] : 1;
  TsTensor *y = call->in[0], *g = call->in[1];
  y = ts_tensor_dtype(y) == d ? ts_tensor_ref(y) : ts_tensor_cast(c, y, d);
  g = ts_tensor_dtype(g) == d ? ts_tensor_ref(g) : ts_tensor_cast(c, g, d);
  int failed = !y || !g || soft(call, &j, y, g);
  ts_scratch_close(&j.scratch);
  ts_tensor_unref(y);
  ts_tensor_unref(g);
  return failed ? -1 : 0;
}

int ts_exec_softmax_grad(TsCall *call) { return soft_grad(call, false); }

int ts_exec_log_softmax_grad(TsCall *call) { return soft_grad(call, true); }

/* ---- norms */

/* y = y / n */
static void mean_of(const Job *j, int rows, double *y) {
  for (int i = 0; i < rows; i++)
    ts_leaf_put(j->w, y, i, ts_leaf_get(j->w, y, i) / (double)j->n);
}

/* A row of x, g or dx, or NULL. */
static const char *ahead_in(const Job *j, int64_t row, const char *of) {
  return row < 0 || j->load ? NULL : of + row * j->n * j->size;
}

/* To rstd, c2 and c1: the sums of squares, of (g w) xc and of g w. */
static void sums_of(const Job *j, Batch *b) {
  TsRowSums s = {.rows = b->rows,
                 .n = j->n,
                 .x = b->x,
                 .g = b->g,
                 .w = j->weight,
                 .out = b->c2,
                 .mean = j->centered ? b->mean : NULL,
                 .gw = b->c1,
                 .squares = b->rstd};
  const void *ahead[TS_GRAD_ROWS];
  for (int i = 0; i < b->rows; i++) ahead[i] = ahead_in(j, b->ahead[i], j->x);
  s.ahead = ahead;
  if (j->n <= LEAF) {
    j->rk->norms[j->w](&s);
    return;
  }
  ts_leaf_rows(j->w, j->rk->norm[j->w], &s);
  s.out = b->rstd;
  ts_leaf_rows(j->w, j->centered ? j->rk->sqdev[j->w] : j->rk->square[j->w], &s);
  const void *w[1] = {j->weight};
  TsRowSums c = {.rows = 1, .n = j->n, .x = b->g, .g = w, .out = b->c1};
  if (j->centered) ts_leaf_rows(j->w, j->weight ? j->rk->dot[j->w] : j->rk->sum[j->w], &c);
}

static void statistics(const Job *j, Batch *b) {
  if (j->centered) {
    TsRowSums s = {.rows = b->rows, .n = j->n, .x = b->x, .out = b->mean};
    ts_leaf_rows(j->w, j->rk->sum[j->w], &s);
    mean_of(j, b->rows, b->mean);
  }
  sums_of(j, b);
  for (int i = 0; i < b->rows; i++) ts_norm_numbers(&j->of, b->rstd, b->c1, b->c2, i);
}

static void end_row(const Job *j, const Batch *b, int i, char *dw, char *db, int first) {
  int64_t at = i * j->size;
  TsNormEnd e = {.dx = b->dx[i],
                 .x = b->x[i],
                 .g = b->g[i],
                 .w = j->weight,
                 .n = j->n,
                 .mean = j->centered ? (const char *)b->mean + at : NULL,
                 .rstd = (const char *)b->rstd + at,
                 .c1 = (const char *)b->c1 + at,
                 .c2 = (const char *)b->c2 + at,
                 .dw = dw,
                 .db = db,
                 .first = first,
                 .past = j->past};
  int64_t next = b->ahead[i];
  e.ahead[0] = ahead_in(j, next, j->g), e.ahead[1] = ahead_in(j, next, j->dx);
  if (j->n > LEAF) e.ahead[2] = ahead_in(j, next, j->x); /* else norms asked for it */
  j->rk->norm_end[j->w](&e);
  close_row(j, b, i);
}

/* Of the rows that a lane asks for, how far the last one is: the first cache has w, dw, db and the
 * rows of x and g up to it. 1: it does not hold three rows. */
static int far_row(const Job *j) {
  int64_t row = j->n * j->size, rows = (ts_cpu_first_cache() - 3 * row) / (2 * row);
  return (int)(rows > 4 ? 3 : rows < 3 ? 1 : rows - 1);
}

/* Whether a row of 2 KiB to a leaf goes through norm_lane: where vectors are lines, or the first
 * cache holds rows of 4 KiB and what comes behind them. GB/s of a Zen 5 with one thread, layernorm
 * and rmsnorm, before and after: 512 columns 30 to 41 and 37 to 42, 1024 36 to 45 and 40 to 45,
 * 4096 31 to 36 and 31 to 39; two threads with 4096 51 to 68 and 56 to 74. With vectors of 32 bytes:
 * 1024 16 to 36 and 33 to 44. Long rows only on AMD's processors: others read several rows at a time
 * faster (4096, two threads of an Emerald Rapids: 22 and 25 GB/s in one walk, 18 and 22 so; of
 * 1024 20 and 22, 23 and 25 so). */
static bool goes_by_lanes(const Job *j) {
  bool lanes = j->rk->vector_bytes >= LINE || ts_cpu_first_cache() >= 48 << 10;
  bool fits = far_row(j) > 1 || ts_cpu_is_amd();
  return j->past && lanes && fits && j->n <= LEAF && j->n * j->size >= ROW;
}

/* Whether others go through ts_norm_rows. */
static bool walks(const Job *j) {
  return j->past && !j->by_lanes && j->n <= LEAF && j->n * j->size >= WALK;
}

/* Row i, then row `next`, and some rows later row `far`. */
static TsNormRow walk_row(const Job *j, int64_t i, int64_t next, int64_t far) {
  int64_t row = j->n * j->size;
  return (TsNormRow){.x = j->x + i * row,
                     .g = j->g + i * row,
                     .dx = j->dx + i * row,
                     .next_x = j->x + next * row,
                     .next_g = j->g + next * row,
                     .far_x = j->x + far * row,
                     .far_g = j->g + far * row};
}

static void walk_rows(const Job *j, int64_t lo, int64_t hi) {
  TsNormRows r = {.of = &j->of};
  int64_t ahead = AHEAD / (j->n * j->size), last = j->rows - 1;
  for (int64_t i = lo; i < hi; i++) {
    TsNormRow row = walk_row(j, i, min64(i + 1, last), min64(i + ahead, last));
    ts_norm_rows_push(&r, &row);
  }
  ts_norm_rows_end(&r);
}

/* Rows at one step from each other: their first, how many. */
typedef struct Lane {
  int64_t first, rows, step;
} Lane;

/* `then` is what comes behind them. */
static void lane_rows(const Job *j, Lane lane, Lane then, char *dw, char *db,
                      const char *nothing) {
  int64_t row = j->n * j->size;
  TsNormLane a = {.x = j->x + lane.first * row,
                  .g = j->g + lane.first * row,
                  .w = j->weight,
                  .dx = j->dx + lane.first * row,
                  .dw = dw,
                  .db = db,
                  .n = j->n,
                  .rows = lane.rows,
                  .step = lane.step * j->n,
                  .eps = j->of.eps,
                  .nothing = nothing,
                  .then_x = j->x + then.first * row,
                  .then_g = j->g + then.first * row,
                  .then_rows = then.rows,
                  .far = far_row(j),
                  .centered = j->centered};
  j->rk->norm_lane[j->w](&a);
}

static void norm_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  if (walks(j)) {
    walk_rows(j, lo, hi);
    ts_copy_fence();
    return;
  }
  if (j->by_lanes) {
    int64_t then = min64(hi, j->rows - 1);
    lane_rows(j, (Lane){lo, hi - lo, 1}, (Lane){then, j->rows - then, 1}, NULL, NULL, NULL);
    ts_copy_fence();
    return;
  }
  char *wide = ts_scratch_part(&j->scratch, worker);
  Batch b = {.rows = 0};
  for (int64_t i = lo; i < hi; i += b.rows) {
    b.rows = (int)min64(batch_rows(j), hi - i);
    for (int r = 0; r < b.rows; r++) {
      b.row[r] = i + r;
      b.ahead[r] = i + r + b.rows < hi ? i + r + b.rows : -1;
    }
    open_batch(j, &b, wide);
    statistics(j, &b);
    for (int r = 0; r < b.rows; r++) end_row(j, &b, r, NULL, NULL, 0);
  }
  if (j->past) ts_copy_fence();
}

/* ---- norms: rows and their sums */
static void clear(const Job *j, char *to) {
  float *narrow = (float *)(void *)to;
  double *wide = (double *)(void *)to;
  if (j->w)
    for (int64_t i = 0; i < j->sums; i++) wide[i] = -0.0;
  else
    for (int64_t i = 0; i < j->sums; i++) narrow[i] = -0.0f;
}

/* Lanes of a leaf of m rows: 256 or 128, or for short leaves pow2ceil(m). */
static int64_t lanes_of(const Job *j, int64_t m) {
  int64_t w = j->w ? TS_RED_LANES_f64 : TS_RED_LANES_f32;
  while (w / 2 >= m) w /= 2;
  return w;
}

/* Lanes that a group takes from each of its runs. */
static int64_t run_length(const Job *j) { return j->n <= 256 ? 4 : j->n <= 512 ? 2 : 1; }

/* A group of lanes of one leaf of m rows from `base` on: lane c of run r is
 * first + c + r w / runs. */
typedef struct Group {
  const Job *j;
  int64_t leaf, base, m, w, first, runs, length;
  char *lane, *wide, *nothing; /* partial rows; scratch of a batch; one that adds nothing */
  Batch b;
} Group;

static char *lane_at(const Group *g, int64_t i) {
  return g->lane + i * g->j->sums * g->j->size;
}

static void add_rows(Group *g, const int *place, int n, int first) {
  const Job *j = g->j;
  g->b.rows = n;
  open_batch(j, &g->b, g->wide);
  statistics(j, &g->b);
  for (int i = 0; i < n; i++) {
    char *to = lane_at(g, place[i]);
    char *db = j->want_b ? to + j->db_at * j->size : NULL;
    end_row(j, &g->b, i, j->want_w ? to : NULL, db, first);
  }
}

/* The row of the next step, or that of the next group's first one. */
static int64_t ahead_of(const Group *g, int64_t i, int64_t row) {
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
  int n = 0, most = batch_rows(g->j), place[TS_GRAD_ROWS];
  for (int64_t r = 0; r < g->runs; r++)
    for (int64_t c = 0; c < g->length; c++) {
      int64_t row = i + g->first + c + r * g->w / g->runs;
      if (row >= g->m) continue;
      g->b.ahead[n] = ahead_of(g, i, row);
      place[n] = (int)(r * g->length + c), g->b.row[n++] = g->base + row;
      if (n < most) continue;
      add_rows(g, place, n, i == 0);
      n = 0;
    }
  if (n) add_rows(g, place, n, i == 0);
}

/* Pushes its rows; returns how many. */
static int64_t walk_group(const Group *g, TsNormRows *r) {
  const Job *j = g->j;
  int64_t count = g->runs * g->length, ahead = AHEAD / (j->n * j->size), rows = 0;
  for (int64_t q = 0; q < (g->m + g->w - 1) / g->w * count; q++) {
    int64_t i = row_of(g, q), next = row_of(g, q + 1), far = row_of(g, q + ahead);
    if (i < 0) continue;
    TsNormRow row = walk_row(j, g->base + i, g->base + (next < 0 ? i : next),
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
  for (int64_t i = 0; i < g->runs * g->length; i++)
    if (start_of(g, i) >= g->m) clear(g->j, lane_at(g, i));
}

/* Group i, or false where the leaf has fewer. */
static bool open_group(Group *g, int64_t i) {
  const Job *j = g->j;
  g->leaf = i / j->groups;
  g->base = g->leaf * LEAF, g->m = min64(LEAF, j->rows - g->base), g->w = lanes_of(j, g->m);
  g->runs = min64(RUNS, g->w), g->length = min64(run_length(j), g->w / g->runs);
  g->first = i % j->groups * g->length;
  return g->first < g->w / g->runs;
}

/* The halves of the order that stay within a group, all rows of which are done. */
static void close_group(const Group *g) {
  const Job *j = g->j;
  int64_t row = j->sums * j->size;
  for (int64_t h = g->runs * g->length / 2; h >= g->length; h /= 2)
    j->rk->add[j->w](g->lane, lane_at(g, h), h * j->sums);
  memcpy(j->part + (g->leaf * j->lanes + g->first) * row, g->lane, (size_t)(g->length * row));
}

static void groups(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  Group g = {.j = j, .lane = ts_scratch_part(&j->scratch, worker)};
  g.wide = g.lane + TS_GRAD_ROWS * j->sums * j->size;
  for (int64_t i = lo; i < hi; i++) {
    if (!open_group(&g, i)) continue;
    clear_rest(&g);
    for (int64_t k = 0; k < g.m; k += g.w) one_step(&g, k);
    close_group(&g);
  }
  if (j->past) ts_copy_fence();
}

/* The rows of a leaf that begin at its row i. */
static Lane lane_from(const Group *g, int64_t i) {
  return (Lane){g->base + i, i < g->m ? (g->m - i + g->w - 1) / g->w : 0, g->w};
}

/* The same lane by lane: its sums stay in the first cache. */
static void lane_groups(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  Group g = {.j = j, .lane = ts_scratch_part(&j->scratch, worker)};
  g.nothing = lane_at(&g, TS_GRAD_ROWS);
  clear(j, g.nothing);
  for (int64_t i = lo; i < hi; i++) {
    if (!open_group(&g, i)) continue;
    clear_rest(&g);
    int64_t count = g.runs * g.length;
    for (int64_t l = 0; l < count; l++) {
      Lane lane = lane_from(&g, start_of(&g, l));
      Lane next = lane_from(&g, l + 1 < count ? start_of(&g, l + 1) : g.first + g.length);
      char *to = lane_at(&g, l), *db = j->want_b ? to + j->db_at * j->size : NULL;
      if (lane.rows > 0)
        lane_rows(j, lane, next.rows > 0 ? next : lane, j->want_w ? to : NULL, db, g.nothing);
    }
    close_group(&g);
  }
  ts_copy_fence();
}

/* The same through ts_norm_rows. The last rows of a group are under way while the next one
 * begins, which has lanes of its own. */
static void walk_groups(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
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
static void merge(const Job *j, int64_t leaves) {
  int64_t row = j->sums * j->size;
  for (int64_t i = 0; i < leaves; i++) {
    int64_t w = lanes_of(j, min64(LEAF, j->rows - i * LEAF));
    char *from = j->part + i * j->lanes * row;
    for (int64_t h = w / min64(RUNS, w) / 2; h > 0; h /= 2)
      j->rk->add[j->w](from, from + h * row, h * j->sums);
    if (i) memmove(j->part + i * row, from, (size_t)row);
  }
  j->k->reduce.tree[j->w ? TS_RED_F64 : TS_RED_F32](TS_RED_SUM, j->part, leaves, j->sums);
}

static int store_sum(TsCall *call, const Job *j, TsTensor *out, const char *from) {
  TsDtype wide = j->w ? TS_DT_f64 : TS_DT_f32, d = ts_tensor_dtype(out);
  void *to = ts_tensor_write(out);
  if (!to) return -1;
  if (d == wide)
    memcpy(to, from, (size_t)(j->n * j->size));
  else
    call->ctx->k->convert.convert[wide][d](j->n, to, from);
  return 0;
}

static int norm_sums(TsCall *call, Job *j) {
  int64_t leaves = (j->rows + LEAF - 1) / LEAF, row = j->sums * j->size, next = 1;
  j->lanes = (j->w ? TS_RED_LANES_f64 : TS_RED_LANES_f32) / RUNS;
  j->groups = j->lanes / run_length(j);
  j->part = ts_work_take(leaves * j->lanes * row);
  if (!j->part || ts_scratch_open(&j->scratch, (TS_GRAD_ROWS + 1) * row + scratch_bytes(j)))
    return ts_scratch_failed(call);
  ts_cpu_parallel(leaves * j->groups, grain_of(j) / TS_GRAD_ROWS + 1,
                  j->by_lanes ? lane_groups
                  : walks(j)  ? walk_groups
                              : groups,
                  j);
  merge(j, leaves);
  if (j->want_w && store_sum(call, j, call->out[next++], j->part)) return -1;
  return j->want_b ? store_sum(call, j, call->out[next], j->part + j->db_at * j->size) : 0;
}

static int norm(TsCall *call, Job *j) {
  if (j->sums) return norm_sums(call, j);
  if (open_scratch(call, j)) return -1;
  ts_cpu_parallel(j->rows, grain_of(j), norm_rows, j);
  return 0;
}

/* Sums over no rows, or no numbers, are zero. */
static int norm_nothing(TsCall *call) {
  for (int i = 1; i < call->nout; i++) {
    void *to = ts_tensor_write(call->out[i]);
    if (!to) return -1;
    memset(to, 0, (size_t)ts_meta_nbytes(&call->out[i]->meta));
  }
  return 0;
}

static int norm_grad(TsCall *call, bool centered) {
  TsContext *c = call->ctx;
  TsDtype d = ts_tensor_dtype(call->out[0]), wide = (TsDtype)ts_dtypes[d].accum;
  Job j = {.k = c->k, .n = 1, .centered = centered};
  if (ts_tensor_numel(call->out[0]) == 0) return norm_nothing(call);
  const TsMeta *m = &call->in[0]->meta;
  set_kernels(&j, d);
  for (int i = m->ndim - (int)call->attr[0].i; i < m->ndim; i++) j.n *= m->dim[i];
  j.rows = ts_tensor_numel(call->in[0]) / j.n;
  j.want_w = call->in[1] != NULL, j.want_b = centered && call->attr[2].i;
  TsTensor *x = ts_tensor_cast(c, call->in[0], d);
  TsTensor *g = x ? ts_tensor_cast(c, call->in[2], d) : NULL;
  TsTensor *w = g && call->in[1] ? ts_tensor_cast(c, call->in[1], wide) : NULL;
  int failed = !g || (call->in[1] && !w);
  if (!failed) {
    j.x = ts_tensor_read(x), j.g = ts_tensor_read(g), j.dx = ts_tensor_write(call->out[0]);
    failed = !j.x || !j.g || !j.dx || (w && !(j.weight = ts_tensor_read(w)));
    j.past = goes_past(&j);
    j.by_lanes = goes_by_lanes(&j);
    j.of = (TsNormOf){j.rk, j.w, j.n, centered, call->attr[1].f, j.weight};
    if (j.want_w && j.want_b) j.db_at = j.n + (walks(&j) ? APART / j.size : 0);
    j.sums = j.want_b ? j.db_at + j.n : j.want_w ? j.n : 0;
  }
  if (!failed) failed = norm(call, &j);
  ts_work_give(j.part), ts_scratch_close(&j.scratch);
  ts_tensor_unref(x);
  ts_tensor_unref(g);
  ts_tensor_unref(w);
  return failed ? -1 : 0;
}

int ts_exec_layernorm_grad(TsCall *call) { return norm_grad(call, true); }

int ts_exec_rmsnorm_grad(TsCall *call) { return norm_grad(call, false); }
