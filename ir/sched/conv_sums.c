/* A round of a convolution: the image that it sees, its sums, and what follows them. See
 * ir/sched/conv.c. */
#include <string.h>

#include "ir/sched/conv.h"
#include "ir/tile/marks.h"
#include "ir/tile/position.h"

enum {
  MOST_ROWS = 12,
  MOST_VECTORS = 4,
  UNROLLED = 9, /* taps that stand one behind the other in the code */
};

/* ---- arithmetic on positions */
static TsTileVal at(TsConvKernel *p, int64_t i) { return ts_tile_index(&p->b, i); }

static bool number(TsTileVal x, int64_t *i) { return ts_tile_is_number(x, i); }

static TsTileVal plus(TsConvKernel *p, TsTileVal x, TsTileVal y) {
  return ts_tile_plus(&p->b, x, y);
}

static TsTileVal plus_int(TsConvKernel *p, TsTileVal x, int64_t i) {
  return i ? plus(p, x, at(p, i)) : x;
}

static TsTileVal times(TsConvKernel *p, TsTileVal x, int64_t n) {
  return ts_tile_times(&p->b, x, n);
}

/* x, but not below lo and not above hi. */
static TsTileVal clamp(TsConvKernel *p, TsTileVal x, int64_t lo, int64_t hi) {
  int64_t i;
  if (number(x, &i)) return at(p, i < lo ? lo : i > hi ? hi : i);
  x = ts_tile_op2(&p->b, TS_OP_minimum, x, at(p, hi));
  return ts_tile_op2(&p->b, TS_OP_maximum, x, at(p, lo));
}

static TsTileLoop loop(TsConvKernel *p, TsTileVal lo, TsTileVal hi, int64_t step) {
  return ts_tile_for(&p->b, lo, hi, step, false, 0, NULL);
}
static void end(TsConvKernel *p, TsTileLoop *l) { ts_tile_for_end(&p->b, l, NULL, NULL); }

/* ---- pieces of a row: whole ones, and one with an edge where they do not come out even */
static int64_t piece_of(const TsConvKernel *p, int64_t n) {
  int64_t w = TS_CONV_TOGETHER * (int64_t)p->lanes;
  while (w > p->lanes && n % w && n < w) w /= 2;
  for (int64_t k = w; k >= p->lanes; k /= 2)
    if (n % k == 0) return k;
  return w;
}

/* A part of the group looks at w elements from position j of the last axis on. */
static void stand(TsConvKernel *p, TsLower *l, int64_t w, TsTileVal j, bool edge) {
  int last = l->space.naxis - 1;
  l->b = p->b;
  l->n = w;
  l->at[last] = j;
  l->space.axis[last] = edge ? l->g->axis[last] : w; /* only whether it comes out even */
  for (int i = 0; i < l->naccess; i++) l->access[i].tile = NULL;
}

static int put_nodes(TsConvKernel *p, TsLower *l) {
  for (int i = 0; i < l->g->nnode; i++)
    if (l->g->node[i] != p->conv && ts_nodes_put(l, l->g->node[i])) return -1;
  return 0;
}

/* ---- the image */
static TsTileVal images_at(TsConvKernel *p) {
  TsLower *l = &p->pre;
  TsTileVal x;
  if (put_nodes(p, l)) return NULL;
  x = l->g->nnode ? *ts_nodes_made(l, p->x) : ts_access_load(l, &l->access[0]);
  return ts_nodes_spread(l, x, 1);
}

static void zeros(TsConvKernel *p, TsTileVal to, int64_t n) {
  TsTileType vector = ts_tile_vector(p->d, p->lanes), one = ts_tile_scalar(p->d);
  int64_t i = 0;
  if (n >= p->lanes) { /* up to a vector more: it is written again, or nobody's */
    TsTileLoop l = loop(p, at(p, 0), at(p, n), p->lanes);
    TsTileVal where = plus(p, to, l.i);
    ts_tile_store(&p->b, p->image, &where, ts_tile_const(&p->b, 0, &vector), NULL);
    end(p, &l);
    return;
  }
  for (; i < n; i++) {
    TsTileVal where = plus_int(p, to, i);
    ts_tile_store(&p->b, p->image, &where, ts_tile_const(&p->b, 0, &one), NULL);
  }
}

static void put_piece(TsConvKernel *p, TsTileVal memory, TsTileVal to, TsTileVal j, int64_t w,
                      bool edge) {
  TsTileVal where = plus(p, to, j);
  stand(p, &p->pre, w, j, edge);
  TsTileVal x = images_at(p);
  if (x) ts_tile_store(&p->b, memory, &where, x, NULL);
}

static void put_elements(TsConvKernel *p, TsTileVal memory, TsTileVal first) {
  int64_t n = p->in[2], w = piece_of(p, n), whole = n / w * w;
  if (whole) {
    TsTileLoop l = loop(p, at(p, 0), at(p, whole), w);
    put_piece(p, memory, first, l.i, w, false);
    end(p, &l);
  }
  if (whole < n) put_piece(p, memory, first, at(p, whole), w, true);
}

/* Along an axis of `in` elements with padding before them, of positions q, q + stride, ..:
 * the first that is an element. */
static int64_t first_inside(int64_t before, int64_t stride, int64_t q) {
  return before > q ? (before - q + stride - 1) / stride : 0;
}

/* And the end of them. */
static int64_t end_inside(int64_t in, int64_t before, int64_t stride, int64_t q) {
  return in + before > q ? (in + before - q + stride - 1) / stride : 0;
}

static bool is_used(const TsConvKernel *p, int axis, int64_t q) {
  for (int64_t k = 0; k < p->window[axis]; k++)
    if (k * p->dilation[axis] % p->stride[axis] == q) return true;
  return false;
}

/* Elements q, q + stride, .. of the padded row whose elements lie in line. */
static void put_apart(TsConvKernel *p, TsTileVal line, TsTileVal to, int64_t q) {
  static const int64_t axes[1] = {0};
  TsTileType t = ts_tile_vector(p->d, p->lanes);
  TsTileAccess how = {.naxis = 1, .axes = axes};
  int64_t s = p->stride[2], lo = first_inside(p->before[2], s, q),
          hi = end_inside(p->in[2], p->before[2], s, q);
  if (hi > p->wide) hi = p->wide;
  if (lo > hi) lo = hi;
  int64_t from = lo < hi ? lo * s + q - p->before[2] : 0;
  zeros(p, to, lo);
  TsTileLoop l = loop(p, at(p, 0), at(p, hi - lo), p->lanes);
  TsTileVal where = plus(p, plus_int(p, to, lo), l.i);
  TsTileVal there[2] = {plus_int(p, l.i, from / s), at(p, from % s)};
  TsTileVal x = ts_tile_load(&p->b, line, there, &t, &how);
  ts_tile_store(&p->b, p->image, &where, x, NULL);
  end(p, &l);
  zeros(p, plus_int(p, to, hi), p->wide - hi);
}

/* A row: padding, elements, padding. What an edge writes too much, the padding or the next row
 * writes again; the last row has room behind it. */
static void put_row(TsConvKernel *p, TsTileVal to) {
  int64_t s = p->stride[2];
  if (s == 1) {
    TsTileVal first = plus_int(p, to, p->before[2]);
    zeros(p, to, p->before[2]);
    put_elements(p, p->image, first);
    zeros(p, plus_int(p, first, p->in[2]), p->before[2]);
    return;
  }
  TsTileType t = ts_tile_type(p->d, 2, (int64_t[]){p->line->type.dim[0] / s, s});
  t.space = TS_SPACE_local;
  put_elements(p, p->line, at(p, 0));
  TsTileVal line = ts_tile_emit1(&p->b, TS_TILE_view, 1, &p->line, NULL, &t);
  for (int64_t q = 0; q < s; q++)
    if (is_used(p, 2, q)) put_apart(p, line, plus_int(p, to, q * p->plane), q);
}

static void zero_rows(TsConvKernel *p, TsTileVal slice, TsTileVal lo, TsTileVal hi) {
  int64_t i, k;
  if (number(lo, &i) && number(hi, &k) && i >= k) return;
  TsTileLoop l = loop(p, lo, hi, 1);
  TsTileVal row = plus(p, slice, times(p, l.i, p->wide));
  for (int64_t q = 0; q < p->stride[2]; q++)
    if (is_used(p, 2, q)) zeros(p, plus_int(p, row, q * p->plane), p->wide);
  end(p, &l);
}

/* The rows q, q + stride, .. of one channel in one plane of the window. */
static void put_slice(TsConvKernel *p, TsTileVal slice, int64_t plane, int64_t q) {
  TsLower *l = &p->pre;
  int64_t s = p->stride[1];
  TsTileVal lo = at(p, first_inside(p->before[1], s, q)),
            hi = at(p, end_inside(p->in[1], p->before[1], s, q));
  lo = clamp(p, ts_tile_op2(&p->b, TS_OP_sub, lo, p->row), 0, p->high);
  hi = clamp(p, ts_tile_op2(&p->b, TS_OP_sub, hi, p->row), 0, p->high);
  if (p->nd == 3) {
    TsTileVal depth =
        plus_int(p, times(p, p->depth, p->stride[0]), plane * p->dilation[0] - p->before[0]);
    TsTileVal inside = clamp(p, depth, 0, p->in[0] - 1);
    TsTileVal is = ts_tile_op2(&p->b, TS_OP_eq, depth, inside);
    hi = ts_tile_op3(&p->b, TS_OP_where, is, hi, lo);
    l->at[2] = inside;
  }
  zero_rows(p, slice, at(p, 0), lo);
  TsTileLoop r = loop(p, lo, hi, 1);
  if (p->nd >= 2)
    l->at[l->space.naxis - 2] =
        plus_int(p, times(p, plus(p, r.i, p->row), s), q - p->before[1]);
  put_row(p, plus(p, slice, times(p, r.i, p->wide)));
  end(p, &r);
  zero_rows(p, slice, hi, at(p, p->high));
}

void ts_sched_conv_image(TsConvKernel *p) {
  ts_tile_mark(&p->b, TS_STAGE_load, "image", false);
  TsTileLoop c = loop(p, at(p, 0), at(p, p->channels), 1);
  p->pre.at[0] = p->n, p->pre.at[1] = c.i;
  TsTileVal channel = times(p, c.i, p->pitch);
  for (int64_t k = 0; k < p->window[0]; k++)
    for (int64_t q = 0; q < p->stride[1]; q++) {
      int64_t planes = (k * p->stride[1] + q) * p->stride[2];
      if (is_used(p, 1, q)) put_slice(p, plus_int(p, channel, planes * p->plane), k, q);
    }
  end(p, &c);
  ts_tile_mark(&p->b, TS_STAGE_load, "image", true);
}

/* ---- the sums */
typedef struct Panel {
  int rows, vectors;
  TsTileVal map;    /* the first, of the result */
  TsTileVal tap[4]; /* channel, and place in the window */
  TsTileVal sum[MOST_ROWS * MOST_VECTORS];
} Panel;

static void tap(TsConvKernel *p, Panel *t, TsTileVal from) {
  TsTileType vector = ts_tile_vector(p->d, p->lanes), one = ts_tile_scalar(p->d);
  TsTileVal x[MOST_VECTORS], where[TS_TILE_RANK];
  for (int u = 0; u < t->vectors; u++) {
    TsTileVal i = plus_int(p, from, (int64_t)u * p->lanes);
    x[u] = ts_tile_load(&p->b, p->image, &i, &vector, NULL);
  }
  where[1] = t->tap[0];
  for (int i = 0; i < p->nd; i++) where[2 + i] = t->tap[1 + 3 - p->nd + i];
  for (int r = 0; r < t->rows; r++) {
    where[0] = plus_int(p, t->map, r);
    TsTileVal w = ts_tile_load(&p->b, p->w, where, &one, NULL);
    w = ts_tile_broadcast(&p->b, w, &vector, NULL);
    TsTileVal *s = t->sum + r * t->vectors;
    for (int u = 0; u < t->vectors; u++) s[u] = ts_tile_op3(&p->b, TS_OP_fma, w, x[u], s[u]);
  }
}

/* Channels are a loop; the window's axes are as well, from the left, while it has many taps
 * and these lie evenly. */
static bool is_loop(const TsConvKernel *p, int axis) {
  int64_t taps = 1;
  if (axis > 1 && p->stride[axis - 1] > 1) return false;
  for (int i = axis; i < 4; i++) taps *= i ? p->window[i - 1] : p->channels;
  return axis == 0 || taps > UNROLLED;
}

static void walk(TsConvKernel *p, Panel *t, int axis, TsTileVal from) {
  if (axis == 4) {
    tap(p, t, from);
    return;
  }
  int64_t n = axis ? p->window[axis - 1] : p->channels;
  if (!is_loop(p, axis)) {
    for (int64_t i = 0; i < n; i++) {
      t->tap[axis] = at(p, i);
      walk(p, t, axis + 1, plus_int(p, from, ts_sched_conv_step(p, axis - 1, i)));
    }
    return;
  }
  int count = t->rows * t->vectors;
  TsTileLoop l = ts_tile_for(&p->b, at(p, 0), at(p, n), 1, false, count, t->sum);
  if (!l.carry) return;
  memcpy(t->sum, l.carry, sizeof *t->sum * (size_t)count);
  t->tap[axis] = l.i;
  int64_t step = axis ? ts_sched_conv_step(p, axis - 1, 1) : p->pitch;
  walk(p, t, axis + 1, plus(p, from, times(p, l.i, step)));
  ts_tile_for_end(&p->b, &l, t->sum, t->sum);
}

/* i: the first map in the round, j: the first element of the round's span. */
static void panel(TsConvKernel *p, TsTileVal i, TsTileVal j, int rows) {
  TsTileType vector = ts_tile_vector(p->d, p->lanes);
  Panel t = {.rows = rows, .vectors = p->nv, .map = plus(p, p->map, i)};
  for (int k = 0; k < rows * p->nv; k++) t.sum[k] = ts_tile_const(&p->b, 0, &vector);
  walk(p, &t, 0, j);
  for (int k = 0; k < rows * p->nv; k++) {
    TsTileVal where[2] = {plus_int(p, i, k / p->nv),
                          plus_int(p, j, (int64_t)(k % p->nv) * p->lanes)};
    ts_tile_store(&p->b, p->sum, where, t.sum[k], NULL);
  }
}

/* Maps of this round. */
static TsTileVal maps_of(TsConvKernel *p) {
  if (p->some >= p->maps) return at(p, p->maps);
  if (p->maps % p->some == 0) return at(p, p->some);
  TsTileVal rest = ts_tile_op2(&p->b, TS_OP_sub, at(p, p->maps), p->map);
  return ts_tile_op2(&p->b, TS_OP_minimum, rest, at(p, p->some));
}

/* All maps meet a few vectors of positions, which stay in the first cache meanwhile. */
void ts_sched_conv_sums(TsConvKernel *p) {
  ts_tile_mark(&p->b, TS_STAGE_mma, NULL, false);
  TsTileVal maps = maps_of(p), whole = maps;
  int64_t n;
  if (number(maps, &n))
    whole = at(p, n / p->mr * p->mr);
  else if (p->maps % p->mr)
    whole = times(p, ts_tile_op2(&p->b, TS_OP_floordiv, maps, at(p, p->mr)), p->mr);
  TsTileLoop j = loop(p, at(p, 0), at(p, p->span), (int64_t)p->nv * p->lanes);
  TsTileLoop i = loop(p, at(p, 0), whole, p->mr);
  panel(p, i.i, j.i, p->mr);
  end(p, &i);
  if (p->maps % p->mr) {
    TsTileLoop rest = loop(p, whole, maps, p->mr);
    panel(p, rest.i, j.i, (int)(p->maps % p->mr));
    end(p, &rest);
  }
  end(p, &j);
  ts_tile_mark(&p->b, TS_STAGE_mma, NULL, true);
}

/* ---- what follows */
static TsTileVal put_words(TsConvKernel *p, TsTileVal map, TsTileVal x) {
  TsTileType one = ts_tile_scalar(p->d);
  for (int i = 0; i < p->nword; i++) {
    TsTileVal y = NULL;
    if (p->word[i] == TS_CONV_bias) y = ts_tile_load(&p->b, p->bias, &map, &one, NULL);
    if (p->word[i] == TS_CONV_residual)
      y = ts_access_load(&p->post, &p->post.access[p->residual]);
    if (p->word[i] >= 0)
      x = ts_tile_op1(&p->b, p->word[i], x);
    else
      x = ts_tile_op2(&p->b, TS_OP_add, x, ts_nodes_spread(&p->post, y, 1));
  }
  return x;
}

static int end_piece(TsConvKernel *p, TsTileVal map, TsTileVal from, TsTileVal j, int64_t w,
                     bool edge) {
  TsLower *l = &p->post;
  TsTileType t = ts_tile_vector(p->d, w);
  TsTileVal where[2] = {map, plus(p, from, j)};
  stand(p, l, w, j, edge);
  TsTileVal x = ts_tile_load(&p->b, p->sum, where, &t, NULL);
  l->made[ts_nodes_index(l, p->conv) * TS_MAX_OUT] = put_words(p, plus(p, p->map, map), x);
  if (put_nodes(p, l)) return -1;
  for (int i = 0; i < l->naccess; i++)
    if (l->access[i].written)
      ts_access_store(l, &l->access[i], *ts_nodes_made(l, l->access[i].v));
  return 0;
}

int ts_sched_conv_end(TsConvKernel *p) {
  TsLower *l = &p->post;
  int64_t n = p->out[2], w = piece_of(p, n), whole = n / w * w;
  int failed = 0;
  ts_tile_mark(&p->b, TS_STAGE_epilogue, "rows", false);
  TsTileVal rows = at(p, p->rows);
  if (p->out[1] % p->rows) {
    TsTileVal rest = ts_tile_op2(&p->b, TS_OP_sub, at(p, p->out[1]), p->row);
    rows = ts_tile_op2(&p->b, TS_OP_minimum, rest, rows);
  }
  TsTileLoop m = loop(p, at(p, 0), maps_of(p), 1);
  l->at[0] = p->n, l->at[1] = plus(p, p->map, m.i);
  if (p->nd == 3) l->at[2] = p->depth;
  TsTileLoop r = loop(p, at(p, 0), rows, 1);
  if (p->nd >= 2) l->at[l->space.naxis - 2] = plus(p, p->row, r.i);
  TsTileVal from = times(p, r.i, p->wide);
  if (whole) {
    TsTileLoop j = loop(p, at(p, 0), at(p, whole), w);
    failed = end_piece(p, m.i, from, j.i, w, false);
    end(p, &j);
  }
  if (!failed && whole < n) failed = end_piece(p, m.i, from, at(p, whole), w, true);
  end(p, &r);
  end(p, &m);
  ts_tile_mark(&p->b, TS_STAGE_epilogue, "rows", true);
  return failed;
}
