/* Memory rows of the interpreter of Tile IR: alloc, load, store, gather, scatter, and what an
 * asynchronous copy moves. */
#include <stdlib.h>
#include <string.h>

#include "ir/tile/run/state.h"

typedef TsTileRunWindow Window;

static const int64_t outside = INT64_MIN;

void ts_tile_run_look(Window *w, const TsTileRunPlace *memory, int memory_rank,
                      const int64_t *at, int rank, const int64_t *dim, const int64_t *axes) {
  bool covered[TS_TILE_RANK] = {false};
  *w = (Window){.rank = rank, .n = 1, .inside = true, .bad = -1};
  for (int i = 0; i < rank; i++) {
    int a = axes ? (int)axes[i] : memory_rank - rank + i;
    covered[a] = true;
    w->dim[i] = dim[i], w->n *= dim[i];
    w->first[i] = at[a], w->size[i] = memory->dim[a], w->stride[i] = memory->stride[a];
    bool before = at[a]<0, behind = at[a] + dim[i]> memory->dim[a];
    if (!before && !behind) continue;
    w->bad = a, w->bad_size = memory->dim[a];
    w->bad_at = before ? at[a] : at[a] + dim[i] - 1;
  }
  for (int a = 0; a < memory_rank; a++) {
    if (covered[a]) continue;
    w->base += at[a] * memory->stride[a];
    if (at[a] >= 0 && at[a] < memory->dim[a]) continue;
    w->inside = false;
    w->bad = a, w->bad_at = at[a], w->bad_size = memory->dim[a];
  }
}

static int leaves(TsTileRun *r, const TsTileStmt *s, const Window *w) {
  if (w->bad < 0 || w->n == 0) return 0;
  return ts_tile_run_fail(r, s, TS_ERR_index,
                          "position %lld is outside of axis %d, which has %lld",
                          (long long)w->bad_at, w->bad, (long long)w->bad_size);
}

#define LINE(T)                                                                                \
  for (int64_t i = 0; i < n; i++) ((T *)to)[i * to_step] = ((const T *)from)[i * from_step]

void ts_tile_run_line(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t n,
                      int64_t size) {
  if (to_step == 1 && from_step == 1) {
    memcpy(to, from, (size_t)(n * size));
    return;
  }
  switch (size) {
  case 1: LINE(uint8_t); break;
  case 2: LINE(uint16_t); break;
  case 4: LINE(uint32_t); break;
  case 8: LINE(uint64_t); break;
  default:
    for (int64_t i = 0; i < n; i++)
      memcpy((char *)to + i * to_step * size, (const char *)from + i * from_step * size,
             (size_t)size);
  }
}

/* What the axes from `axis` on have, `inner` elements of the tile from `tile` on and memory
 * from `base` on; what is outside of the memory is left. */
static void lines_from(const Window *w, int axis, int64_t base, int64_t tile, int64_t inner,
                       TsTileRunLine *line, void *with) {
  if (axis == w->rank) {
    line(with, base, tile, 1, 1);
    return;
  }
  int64_t first = w->first[axis], n = w->dim[axis], end = w->size[axis] - first;
  int64_t lo = first < 0 ? -first : 0, hi = end < n ? end : n;
  if (lo >= hi) return;
  base += (first + lo) * w->stride[axis];
  if (axis + 1 == w->rank) {
    line(with, base, tile + lo, hi - lo, w->stride[axis]);
    return;
  }
  inner /= n;
  for (int64_t i = lo; i < hi; i++, base += w->stride[axis])
    lines_from(w, axis + 1, base, tile + i * inner, inner, line, with);
}

void ts_tile_run_lines(const Window *w, TsTileRunLine *line, void *with) {
  if (w->inside && w->n) lines_from(w, 0, w->base, 0, w->n, line, with);
}

/* A tile and memory of elements of `size` bytes. */
typedef struct Moving {
  int64_t size;
  char *memory, *tile;
} Moving;

static void read_line(void *with, int64_t base, int64_t tile, int64_t n, int64_t stride) {
  const Moving *m = with;
  ts_tile_run_line(m->tile + tile * m->size, 1, m->memory + base * m->size, stride, n, m->size);
}

static void write_line(void *with, int64_t base, int64_t tile, int64_t n, int64_t stride) {
  const Moving *m = with;
  ts_tile_run_line(m->memory + base * m->size, stride, m->tile + tile * m->size, 1, n, m->size);
}

/* f32, to the memory */
static void add_line(void *with, int64_t base, int64_t tile, int64_t n, int64_t stride) {
  const Moving *m = with;
  float *to = (float *)(void *)(m->memory + base * m->size);
  const float *from = (const float *)(const void *)(m->tile + tile * m->size);
  for (int64_t i = 0; i < n; i++) to[i * stride] += from[i];
}

static inline void move_window(const Window *w, TsTileRunLine *way, void *memory, void *tile,
                               int64_t size) {
  Moving m = {size, memory, tile};
  if (w->rank != 1 || !w->inside) { /* one line, else: most of them are */
    ts_tile_run_lines(w, way, &m);
    return;
  }
  int64_t first = w->first[0], end = w->size[0] - first;
  int64_t lo = first < 0 ? -first : 0, hi = end < w->dim[0] ? end : w->dim[0];
  if (lo < hi) way(&m, w->base + (first + lo) * w->stride[0], lo, hi - lo, w->stride[0]);
}

#define MOVE(T)                                                                                \
  do {                                                                                         \
    const T *from_ = from;                                                                     \
    T *to_ = to;                                                                               \
    for (int64_t i = 0; i < n; i++)                                                            \
      if (at[i] != outside) {                                                                  \
        if (write)                                                                             \
          to_[at[i]] = from_[i];                                                               \
        else                                                                                   \
          to_[i] = from_[at[i]];                                                               \
      }                                                                                        \
  } while (0)

/* n elements of size bytes, at at[] in one of the two; those outside are left. */
static void move(int64_t size, bool write, int64_t n, const int64_t *at, void *to,
                 const void *from) {
  switch (size) {
  case 1: MOVE(uint8_t); break;
  case 2: MOVE(uint16_t); break;
  case 4: MOVE(uint32_t); break;
  case 8: MOVE(uint64_t); break;
  default:
    for (int64_t i = 0; i < n; i++) {
      char *y = (char *)to + (write ? at[i] : i) * size;
      if (at[i] != outside)
        memcpy(y, (const char *)from + (write ? i : at[i]) * size, (size_t)size);
    }
  }
}

static void fill(void *to, int64_t n, int64_t size, const void *with) {
  for (int64_t i = 0; i < n; i++) memcpy((char *)to + i * size, with, (size_t)size);
}

static void fill_number(TsTileRunPlace *y, TsDtype d, double number) {
  char one[32] = {0};
  ts_tile_run_number(d, one, number);
  fill(y->at, y->n, ts_dtypes[d].nbytes, one);
}

/* ---- rows */
int ts_tile_do_alloc(TsTileRun *r, const TsTileStmt *s) {
  TsTileVal v = s->out[0];
  if (v->type.space == TS_SPACE_scratch && r->as.one)
    return ts_tile_run_alias(r, v, r->as.one->scratch[r->allocs++]) ? 0 : -1;
  TsTileRunPlace *p = ts_tile_run_place(r, v);
  if (!p) return -1;
  bool counters = r->k->form == TS_FORM_explicit && v->type.space == TS_SPACE_scratch &&
                  v->type.dtype == TS_DT_i32;
  if (v->type.space == TS_SPACE_barrier)
    memset(p->at, 0, (size_t)p->n * sizeof(TsTileRunBarrier));
  else if (counters) /* zeros whenever a kernel begins (jit/gpu/roles.h) */
    memset(p->at, 0, (size_t)(p->n * ts_tile_run_size(v)));
  else if (!v->type.strided)
    memset(p->at, 0xff, (size_t)(p->n * ts_tile_run_size(v))); /* NaN, or -1 */
  return 0;
}

int ts_tile_do_aligned(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunPlace *x = ts_tile_run_place(r, s->in[0]), *y = ts_tile_run_place(r, s->out[0]);
  if (!x || !y) return -1;
  *(bool *)y->at = (uintptr_t)x->at % 64 == 0;
  return 0;
}

int ts_tile_do_view(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunPlace *x = ts_tile_run_place(r, s->in[0]);
  if (!x) return -1;
  TsTileRunPlace *p = ts_tile_run_alias(r, s->out[0], x->at);
  int64_t last = 0;
  for (int i = 0; i < s->out[0]->type.rank; i++) last += (p->dim[i] - 1) * p->stride[i];
  if (p->n == 0 || last < x->n) return 0;
  return ts_tile_run_fail(r, s, TS_ERR_shape, "element %lld of memory that has %lld",
                          (long long)last, (long long)x->n);
}

static const int64_t *axes_of(const TsTileStmt *s) {
  const TsAttr *a = ts_tile_attr(s, "axes");
  return a->type == TS_ATTR_ints ? a->ints : NULL;
}

/* The first axis ends there. */
static void end_at(Window *w, const TsTileStmt *s, int64_t first, int64_t end) {
  const int64_t *axes = axes_of(s);
  int rank = s->in[0]->type.rank;
  bool covered = false;
  for (int i = 0; i < w->rank; i++) {
    if ((axes ? (int)axes[i] : rank - w->rank + i) != 0) continue;
    covered = true;
    if (end < w->size[i]) w->size[i] = end;
  }
  if (!covered && first >= end) w->inside = false;
}

/* Positions are operands 1 .. rank. */
int ts_tile_run_window(TsTileRun *r, const TsTileStmt *s, TsTileVal tile, Window *w) {
  TsTileVal memory = s->in[0];
  TsTileRunPlace *m = ts_tile_run_place(r, memory), *t = ts_tile_run_place(r, tile);
  int64_t at[TS_TILE_RANK];
  if (!m || !t) return -1;
  for (int i = 0; i < memory->type.rank; i++) at[i] = ts_tile_run_scalar(r, s->in[1 + i]);
  ts_tile_run_look(w, m, memory->type.rank, at, tile->type.rank, t->dim, axes_of(s));
  if (s->op == TS_TILE_store_below)
    end_at(w, s, at[0], ts_tile_run_scalar(r, s->in[s->nin - 2]));
  return 0;
}

static int window_of(TsTileRun *r, const TsTileStmt *s, TsTileVal tile, Window *w) {
  if (ts_tile_run_window(r, s, tile, w)) return -1;
  return ts_tile_attr(s, "edge")->i ? 0 : leaves(r, s, w);
}

int ts_tile_do_load(TsTileRun *r, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  Window w;
  if (window_of(r, s, y, &w)) return -1;
  if (w.bad >= 0)
    fill_number(ts_tile_run_place(r, y), y->type.dtype, ts_tile_attr(s, "fill")->f);
  move_window(&w, read_line, ts_tile_run_tile(r, s->in[0]), ts_tile_run_tile(r, y),
              ts_tile_run_size(y));
  return 0;
}

int ts_tile_do_store(TsTileRun *r, const TsTileStmt *s) {
  TsTileVal x = s->in[s->nin - 1];
  Window w;
  if (window_of(r, s, x, &w)) return -1;
  move_window(&w, write_line, ts_tile_run_tile(r, s->in[0]), ts_tile_run_tile(r, x),
              ts_tile_run_size(x));
  return 0;
}

int ts_tile_do_store_below(TsTileRun *r, const TsTileStmt *s) { return ts_tile_do_store(r, s); }

/* Offsets of gather and scatter from the tile of positions. */
static int64_t *chosen(TsTileRun *r, const TsTileStmt *s, bool edge) {
  TsTileRunPlace *m = ts_tile_run_place(r, s->in[0]), *p = ts_tile_run_place(r, s->in[1]);
  int64_t *at = m && p ? ts_tile_run_work(r, s, p->n * 8) : NULL;
  TsDtype d = (TsDtype)s->in[1]->type.dtype;
  for (int64_t i = 0; at && i < p->n; i++) {
    int64_t i_at = ts_tile_run_int(d, p->at, i);
    bool in = i_at >= 0 && i_at < m->dim[0];
    at[i] = in ? i_at * m->stride[0] : outside;
    if (!in && !edge) {
      ts_tile_run_fail(r, s, TS_ERR_index,
                       "position %lld is outside of memory of %lld elements", (long long)i_at,
                       (long long)m->dim[0]);
      return NULL;
    }
  }
  return at;
}

int ts_tile_do_gather(TsTileRun *r, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  TsTileRunPlace *p = ts_tile_run_place(r, y);
  int64_t *at = p ? chosen(r, s, ts_tile_attr(s, "edge")->i) : NULL;
  if (!at) return -1;
  fill_number(p, y->type.dtype, ts_tile_attr(s, "fill")->f);
  move(ts_tile_run_size(y), false, p->n, at, p->at, ts_tile_run_tile(r, s->in[0]));
  return 0;
}

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static int no_twice(TsTileRun *r, const TsTileStmt *s, int64_t *at, int64_t n) {
  qsort(at, (size_t)n, sizeof *at, by_value);
  for (int64_t i = 1; i < n; i++)
    if (at[i] == at[i - 1] && at[i] != outside)
      return ts_tile_run_fail(r, s, TS_ERR_value, "position %lld comes twice",
                              (long long)at[i]);
  return 0;
}

int ts_tile_do_scatter(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunPlace *x = ts_tile_run_place(r, s->in[2]);
  bool edge = ts_tile_attr(s, "edge")->i;
  int64_t *at = x ? chosen(r, s, edge) : NULL;
  if (!at || no_twice(r, s, at, x->n) || !(at = chosen(r, s, edge))) return -1;
  move(ts_tile_run_size(s->in[2]), true, x->n, at, ts_tile_run_tile(r, s->in[0]), x->at);
  return 0;
}

int ts_tile_do_prefetch(TsTileRun *r, const TsTileStmt *s) {
  (void)r, (void)s;
  return 0;
}

/* ---- asynchronous copies */
int ts_tile_run_copy_shape(TsTileRun *r, const TsTileStmt *s, int64_t dim[TS_TILE_RANK]) {
  const TsAttr *a = ts_tile_attr(s, "shape");
  TsTileRunPlace *to = ts_tile_run_place(r, s->in[0]);
  int rank = a->type == TS_ATTR_ints ? a->n : s->in[0]->type.rank;
  for (int i = 0; to && i < rank; i++)
    dim[i] = a->type == TS_ATTR_ints ? a->ints[i] : to->dim[i];
  return rank;
}

int64_t ts_tile_run_copy_bytes(TsTileRun *r, const TsTileStmt *s) {
  int64_t dim[TS_TILE_RANK], n = ts_tile_run_size(s->in[0]);
  int rank = ts_tile_run_copy_shape(r, s, dim);
  for (int i = 0; i < rank; i++) n *= dim[i];
  return n;
}

int ts_tile_run_copy(TsTileRun *r, const TsTileRunCopy *c) {
  const TsTileStmt *s = c->stmt;
  TsTileVal to = s->in[0], from = s->in[1];
  TsTileRunPlace *y = ts_tile_run_place(r, to), *x = ts_tile_run_place(r, from);
  int64_t dim[TS_TILE_RANK], size = ts_tile_run_size(to);
  Window out, in;
  if (!y || !x) return -1;
  int rank = ts_tile_run_copy_shape(r, s, dim);
  ts_tile_run_look(&out, y, to->type.rank, c->to, rank, dim, NULL);
  ts_tile_run_look(&in, x, from->type.rank, c->from, rank, dim, NULL);
  if (s->op == TS_TILE_copy_async && leaves(r, s, &out)) return -1;
  bool inside = s->op == TS_TILE_copy_async && ts_tile_attr(s, "inside")->i;
  if (inside && leaves(r, s, &in)) return -1;
  bool adds = s->op == TS_TILE_store_bulk && ts_tile_attr(s, "add")->i;
  void *tile = ts_tile_run_work(r, s, out.n * size);
  if (!tile) return -1;
  memset(tile, 0, (size_t)(out.n * size));
  move_window(&in, read_line, x->at, tile, size);
  move_window(&out, adds ? add_line : write_line, y->at, tile, size);
  return 0;
}
