/* Convolutions and their weight gradients of any type, as products of which one operand exists
 * only as a rule: sums of [rows] x [columns] over k, one chain of fused multiply-adds from +0
 * for each, in the order that vm/exec/conv.c and vm/exec/conv_weight_grad.c say.
 *
 *   conv         rows: channels out of a group; columns: positions of an image;
 *                k: channel in, then place in the window
 *   weight grad  rows: the same; columns: channel in, then place in the window;
 *                k: image, then position
 *   transposed   as conv, with the window walked backwards; of a stride phase by phase
 *                (ir/lower/conv/phases.c)
 *
 * Either way the right operand is x at the sum of what the column says and what k says: x is
 * padded before, so that nobody asks whether it is inside, and what k says is a table in
 * memory, since to find it takes longer than to multiply. A block has 8 x 16 threads, each with
 * up to 8 x 8 sums, fewer where blocks would be few: sums are chains, so k is never divided.
 * Steps of k go through shared memory, and the next step's elements are under way meanwhile.
 *
 * Where the target has a unit that makes squares of sums of that type (ir/tile/square.h), a block is
 * one tile of its sums, in stages of 64 bytes of k; behind the end of k stand -0 and +0, whose product
 * leaves any sum as it is. */
#include "ir/lower/conv/conv.h"

#include <string.h>

#include "ir/sched/product/product.h"
#include "ir/tile/square.h"

typedef TsTileVal V;

enum {
  DOWN = 8,
  ACROSS = 16,
  EACH = 8,
  KC = 8,
  FEW = 4,
  FEW_KC = 64,
  BLOCKS = 264,
  PIECE = 1024,
  DEEP = 64,    /* bytes of k of a stage of a unit, */
  MOST = 64,    /* rows, columns of its block, */
  THREADS = 256 /* and threads */
};

typedef struct Chain {
  const TsConvWork *w;
  TsConv c;                  /* of padded x; of a transposed one walked backwards */
  int64_t positions, window; /* their elements */
  int64_t rows, cols, k;     /* of the product */
  int64_t at_n, at_c, at[3]; /* strides of x */
  int64_t first;             /* where position 0 of the window's place 0 is */
  int down, across, step;    /* tiles of sums; of k at once */
  int tile[2];               /* rows, columns of one */
  const char *unit;          /* that multiplies numbers of `factor`, or NULL */
  TsDtype factor;
  int threads, lanes; /* of a block then, of a wave */
  TsConvPadded x;
} Chain;

typedef struct Make {
  const Chain *s;
  TsTileBuild b;
  V x, table, left, bias, residual, y;
  V image, group, row, col; /* positions of the block */
  V base;                   /* of a step's columns: where in x */
  V buffer[2], view[2];
  TsTileType sums, line, side; /* a tile; the right and the left operand's step */
} Make;

/* ---- x at the places of a step */
static V scalar(Make *m, int op, V x, int64_t y) {
  return y == 1 && (op == TS_OP_floordiv || op == TS_OP_mul)
             ? x
             : ts_tile_op2(&m->b, op, x, ts_tile_index(&m->b, y));
}

static V plus(Make *m, V x, V y) {
  return !x ? y : !y ? x : ts_tile_op2(&m->b, TS_OP_add, x, y);
}

/* The sum of the row-major coordinates of i, a tile, over three sizes, each times a factor.
 * NULL: zero. */
static V spread(TsTileBuild *b, V i, const int64_t size[3], const int64_t by[3]) {
  V sum = NULL;
  for (int a = 3; a-- > 0;) {
    if (size[a] == 1) continue;
    V own = ts_short_by(b, TS_OP_mul, ts_short_by(b, TS_OP_mod, i, size[a]), by[a]);
    sum = sum ? ts_tile_op2(b, TS_OP_add, sum, own) : own;
    i = ts_short_by(b, TS_OP_floordiv, i, size[a]);
  }
  return sum;
}

/* Elements of x from one position, or one place of the window, to the next. */
static void steps_of(const Chain *s, bool window, int64_t by[3]) {
  const TsConv *c = &s->c;
  for (int a = 0; a < 3; a++) by[a] = (window ? c->dilation[a] : c->stride[a]) * s->at[a];
}

/* What column `i` of the product says, and what k `i` says. */
static V offsets(TsTileBuild *b, const Chain *s, V i, bool columns) {
  int64_t by[3], inner = columns == s->w->grad ? s->window : s->positions;
  steps_of(s, columns == s->w->grad, by);
  V sum = spread(b, ts_short_by(b, TS_OP_mod, i, inner),
                 columns == s->w->grad ? s->c.window : s->c.out, by);
  V outer = ts_short_by(b, TS_OP_floordiv, i, inner);
  outer = ts_short_by(b, TS_OP_mul, outer, columns == s->w->grad ? s->at_c : s->at_n);
  return sum ? ts_tile_op2(b, TS_OP_add, sum, outer) : outer;
}

static void columns(Make *m) {
  const Chain *s = m->s;
  TsTileBuild *b = &m->b;
  V i = plus(m, ts_short_iota(b, &m->line, 1), ts_short_splat(b, &m->line, m->col));
  i = ts_short_by(b, TS_OP_minimum, i, s->cols - 1);
  V first = scalar(m, TS_OP_mul, m->group, s->c.cg * s->at_c);
  if (!s->w->grad) first = plus(m, first, scalar(m, TS_OP_mul, m->image, s->at_n));
  first = plus(m, first, ts_tile_index(b, s->first));
  m->base = plus(m, offsets(b, s, i, true), ts_short_splat(b, &m->line, first));
}

/* Whether steps of k behind the last one are numbers of their own. */
static bool has_end(const Chain *s) { return s->unit && s->k % s->step; }

/* Elements at `at`, where i, steps of k, are not behind the last one; else this number. */
static V gather_until(Make *m, V memory, V at, V i, double behind) {
  TsTileBuild *b = &m->b;
  if (!has_end(m->s)) return ts_short_gather(b, memory, at, false);
  V in = ts_tile_op2(b, TS_OP_lt, i, ts_short_int(b, &i->type, m->s->k));
  at = ts_tile_op3(b, TS_OP_where, in, at, ts_short_int(b, &i->type, -1));
  TsAttr attr[3] = {{.type = TS_ATTR_int},
                    {.type = TS_ATTR_bool, .i = true},
                    {.type = TS_ATTR_f, .f = behind}};
  if (!memory || !at) return NULL;
  TsTileType t = at->type;
  t.dtype = memory->type.dtype;
  return ts_tile_emit1(b, TS_TILE_gather, 2, (V[]){memory, at}, attr, &t);
}

/* From k on; behind the last one it is that one again. */
static V right_at(Make *m, V k) {
  TsTileBuild *b = &m->b;
  V all = plus(m, ts_short_iota(b, &m->line, 0), ts_short_splat(b, &m->line, k));
  V i = ts_short_by(b, TS_OP_minimum, all, m->s->k - 1);
  V at = ts_tile_cast(b, ts_short_gather(b, m->table, i, false), TS_DT_i64);
  return gather_until(m, m->x, plus(m, m->base, at), all, 0);
}

/* ---- the left operand: [rows, step] from k on */
static V left_at(Make *m, V k) {
  const Chain *s = m->s;
  TsTileBuild *b = &m->b;
  TsTileAccess edge = {.edge = true, .fill = has_end(s) ? -0.0 : 0};
  TsTileType t = m->side;
  t.dtype = (uint8_t)s->w->d;
  if (!s->w->grad && !s->w->transposed) {
    V at[3] = {m->group, m->row, k};
    return ts_tile_load(b, m->left, at, &t, &edge);
  }
  V o = plus(m, ts_short_iota(b, &t, 0), ts_short_splat(b, &t, m->row));
  V all = plus(m, ts_short_iota(b, &t, 1), ts_short_splat(b, &t, k));
  o = ts_short_by(b, TS_OP_minimum, o, s->c.og - 1);
  V i = ts_short_by(b, TS_OP_minimum, all, s->k - 1);
  if (s->w->transposed) { /* [groups, channels in, channels out, window] */
    V c = plus(m, ts_short_by(b, TS_OP_floordiv, i, s->window),
               ts_short_splat(b, &t, scalar(m, TS_OP_mul, m->group, s->c.cg)));
    V at = plus(m, ts_short_by(b, TS_OP_mul, c, s->c.og), o);
    at = plus(m, ts_short_by(b, TS_OP_mul, at, s->window),
              ts_short_by(b, TS_OP_mod, i, s->window));
    return gather_until(m, m->left, at, all, -0.0);
  }
  V first = ts_short_splat(b, &t, scalar(m, TS_OP_mul, m->group, s->c.og));
  V n = ts_short_by(b, TS_OP_floordiv, i, s->positions),
    p = ts_short_by(b, TS_OP_mod, i, s->positions);
  V at = plus(m, ts_short_by(b, TS_OP_mul, n, s->c.og * s->c.groups), plus(m, first, o));
  at = plus(m, ts_short_by(b, TS_OP_mul, at, s->positions), p);
  return gather_until(m, m->left, at, all, -0.0);
}

/* ---- steps */
typedef struct Held { /* of a step, in registers */
  V left, right;
} Held;

static void fetch(Make *m, V k, Held *h) {
  h->left = left_at(m, k);
  h->right = right_at(m, k);
}

static void put(Make *m, const Held *h) {
  static const int64_t transposed[2] = {1, 0};
  TsTileBuild *b = &m->b;
  TsDtype acc = m->s->c.acc;
  V zero = ts_tile_index(b, 0), corner[2] = {zero, zero};
  TsTileAccess left = {.naxis = 2, .axes = transposed};
  ts_tile_store(b, m->buffer[0], corner, ts_tile_cast(b, h->left, acc), &left);
  ts_tile_store(b, m->buffer[1], corner, ts_tile_cast(b, h->right, acc), NULL);
}

static void multiply(Make *m, int n, V *acc) {
  static const int64_t first[2] = {1, 2}, second[2] = {0, 2};
  TsTileBuild *b = &m->b;
  const Chain *s = m->s;
  TsTileAccess left = {.naxis = 2, .axes = first}, right = {.naxis = 2, .axes = second};
  V zero = ts_tile_index(b, 0);
  for (int k = 0; k < n; k++) {
    V x[EACH], y[EACH], kk = ts_tile_index(b, k);
    for (int j = 0; j < s->down; j++) {
      V at[3] = {kk, ts_tile_index(b, j * DOWN), zero};
      x[j] = ts_tile_load(b, m->view[0], at, &m->sums, &left);
    }
    for (int i = 0; i < s->across; i++) {
      V at[3] = {zero, kk, ts_tile_index(b, i * ACROSS)};
      y[i] = ts_tile_load(b, m->view[1], at, &m->sums, &right);
    }
    for (int j = 0; j < s->down; j++)
      for (int i = 0; i < s->across; i++)
        acc[j * s->across + i] = ts_tile_op3(b, TS_OP_fma, x[j], y[i], acc[j * s->across + i]);
  }
}

static void all_steps(Make *m, V *acc) {
  const Chain *s = m->s;
  TsTileBuild *b = &m->b;
  int n = s->down * s->across, step = s->step, rest = (int)(s->k % step);
  Held h;
  V carry[EACH * EACH + 2], out[EACH * EACH + 2];
  fetch(m, ts_tile_index(b, 0), &h);
  if (s->k >= step) {
    memcpy(carry, acc, sizeof *acc * (size_t)n);
    carry[n] = h.left, carry[n + 1] = h.right;
    TsTileLoop l = ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, s->k - rest), step,
                               false, n + 2, carry);
    if (m->b.k->failed) return;
    memcpy(carry, l.carry, sizeof *carry * (size_t)(n + 2));
    h = (Held){carry[n], carry[n + 1]};
    put(m, &h);
    fetch(m, plus(m, l.i, ts_tile_index(b, step)), &h);
    multiply(m, step, carry);
    carry[n] = h.left, carry[n + 1] = h.right;
    ts_tile_for_end(b, &l, carry, out);
    memcpy(acc, out, sizeof *acc * (size_t)n);
    h = (Held){out[n], out[n + 1]};
  }
  if (!rest) return;
  put(m, &h);
  multiply(m, rest, acc);
}

/* The next stage is under way while one is multiplied. */
static void all_stages(Make *m, V *acc) {
  const Chain *s = m->s;
  TsTileBuild *b = &m->b;
  TsAttr unit = {.type = TS_ATTR_str, .str = s->unit};
  V zero = ts_tile_index(b, 0), out[3];
  Held h;
  fetch(m, zero, &h);
  TsTileLoop l = ts_tile_for(b, zero, ts_tile_index(b, s->k), s->step, false, 3,
                             (V[]){*acc, h.left, h.right});
  if (m->b.k->failed) return;
  fetch(m, plus(m, l.i, ts_tile_index(b, s->step)), &h);
  V in[3] = {ts_tile_cast(b, l.carry[1], s->factor), ts_tile_cast(b, l.carry[2], s->factor),
             l.carry[0]};
  V sums = ts_tile_emit1(b, TS_TILE_mma, 3, in, &unit, &m->sums);
  ts_tile_for_end(b, &l, (V[]){sums, h.left, h.right}, out);
  *acc = out[0];
}

static void results(Make *m, const V *acc) {
  const Chain *s = m->s;
  TsTileBuild *b = &m->b;
  static const int64_t rows[1] = {0};
  TsTileAccess edge = {.edge = true};
  for (int j = 0; j < s->down; j++)
    for (int i = 0; i < s->across; i++) {
      V row = plus(m, m->row, ts_tile_index(b, j * s->tile[0]));
      V col = plus(m, m->col, ts_tile_index(b, i * s->tile[1])), x = acc[j * s->across + i];
      V at[4] = {m->image, m->group, row, col}, to[2] = {m->group, row};
      if (s->w->bias) {
        TsTileType t = ts_tile_vector(s->w->d, s->tile[0]);
        V bias = ts_tile_cast(b, ts_tile_load(b, m->bias, to, &t, &edge), s->c.acc);
        x = plus(m, x, ts_tile_broadcast(b, bias, &m->sums, rows));
      }
      if (s->w->residual) {
        TsTileType t = m->sums;
        t.dtype = (uint8_t)s->w->d;
        x = plus(m, x, ts_tile_cast(b, ts_tile_load(b, m->residual, at, &t, &edge), s->c.acc));
      }
      if (s->w->relu) x = ts_tile_op1(b, TS_OP_relu, x);
      ts_tile_store(b, m->y, at, ts_tile_cast(b, x, s->w->d), &edge);
    }
}

static void buffers(Make *m) {
  const Chain *s = m->s;
  TsTileBuild *b = &m->b;
  int64_t rows = s->down * DOWN, cols = s->across * ACROSS;
  int64_t left[2] = {s->step, rows + 1}, right[2] = {s->step, cols};
  TsTileType type[2] = {ts_tile_type(s->c.acc, 2, left), ts_tile_type(s->c.acc, 2, right)};
  int64_t lv[3] = {s->step, rows, ACROSS}, rv[3] = {DOWN, s->step, cols};
  TsTileType view[2] = {ts_tile_type(s->c.acc, 3, lv), ts_tile_type(s->c.acc, 3, rv)};
  view[0].stride[0] = rows + 1, view[0].stride[1] = 1, view[0].stride[2] = 0;
  view[1].stride[0] = 0, view[1].stride[1] = cols, view[1].stride[2] = 1;
  for (int i = 0; i < 2; i++) {
    m->buffer[i] = ts_tile_alloc(b, TS_SPACE_shared, &type[i]);
    view[i].space = TS_SPACE_shared, view[i].strided = true;
    m->view[i] = ts_tile_emit1(b, TS_TILE_view, 1, &m->buffer[i], NULL, &view[i]);
  }
}

static void parameters(Make *m, TsTile *k) {
  const Chain *s = m->s;
  const TsConv *c = &s->c;
  int64_t nx = ts_tile_size(k, "X"), nl = ts_tile_size(k, "L");
  int64_t images = s->w->grad ? 1 : c->batch, w[3] = {c->groups, c->og, s->k};
  int64_t y[4] = {images, c->groups, s->rows, s->cols}, bias[2] = {c->groups, c->og};
  TsTileType tx = ts_tile_type(s->w->d, 1, &nx), ty = ts_tile_type(s->w->d, 4, y);
  TsTileType tl = s->w->grad || s->w->transposed ? ts_tile_type(s->w->d, 1, &nl)
                                                 : ts_tile_type(s->w->d, 3, w);
  TsTileType tb = ts_tile_type(s->w->d, 2, bias);
  TsTileType table = ts_tile_vector(TS_DT_i32, s->k);
  m->x = ts_tile_param(k, "x", &tx, false);
  m->table = ts_tile_param(k, "table", &table, false);
  m->left = ts_tile_param(k, s->w->grad ? "g" : "w", &tl, false);
  if (s->w->bias) m->bias = ts_tile_param(k, "bias", &tb, false);
  if (s->w->residual) m->residual = ts_tile_param(k, "residual", &ty, false);
  m->y = ts_tile_param(k, "y", &ty, true);
}

static TsTile *build(const Chain *s) {
  TsTile *k = ts_tile_new(s->w->grad ? "conv_weight_grad" : "conv");
  if (!k) return NULL;
  Make m = {.s = s};
  int64_t sums[2] = {s->tile[0], s->tile[1]}, side[2] = {s->down * s->tile[0], s->step};
  m.sums = ts_tile_type(s->c.acc, 2, sums), m.side = ts_tile_type(s->w->d, 2, side);
  int64_t line[2] = {s->step, s->across * s->tile[1]};
  m.line = ts_tile_type(s->w->d, 2, line);
  parameters(&m, k);
  m.b = ts_tile_build(k);
  k->threads = s->unit ? s->threads : DOWN * ACROSS, k->vector = !s->unit;
  if (s->unit) k->stages = 2;
  TsTileBuild *b = &m.b;
  V zero = ts_tile_index(b, 0);
  int64_t end[4] = {s->w->grad ? 1 : s->c.batch, s->c.groups, s->rows, s->cols};
  int64_t step[4] = {1, 1, s->down * s->tile[0], s->across * s->tile[1]};
  TsTileLoop l[4];
  for (int i = 0; i < 4; i++)
    l[i] = ts_tile_for(b, zero, ts_tile_index(b, end[i]), step[i], true, 0, NULL);
  m.image = l[0].i, m.group = l[1].i, m.row = l[2].i, m.col = l[3].i;
  if (!s->unit) buffers(&m);
  columns(&m);
  V acc[EACH * EACH];
  for (int i = 0; i < s->down * s->across; i++) acc[i] = ts_tile_const(b, 0, &m.sums);
  (s->unit ? all_stages : all_steps)(&m, acc);
  results(&m, acc);
  for (int i = 4; i-- > 0;) ts_tile_for_end(b, &l[i], NULL, NULL);
  return k;
}

/* ---- which steps */
static int fit(int64_t n, int unit) {
  int each = 1;
  while (each < EACH && each * unit < n) each *= 2;
  return each;
}

static int64_t blocks(const Chain *s) {
  int64_t rows = s->down * s->tile[0], cols = s->across * s->tile[1];
  return (s->w->grad ? 1 : s->c.batch) * s->c.groups * ((s->rows + rows - 1) / rows) *
         ((s->cols + cols - 1) / cols);
}

static void choose(Chain *s) {
  s->tile[0] = DOWN, s->tile[1] = ACROSS;
  if (s->unit) {
    s->tile[0] = TS_SQUARE, s->tile[1] = MOST, s->down = s->across = 1;
    while (s->tile[0] < s->rows && s->tile[0] < MOST) s->tile[0] *= 2;
    s->step = DEEP / ts_dtypes[s->factor].nbytes;
    /* a square for each wave at least */
    int squares = s->tile[0] / TS_SQUARE * (MOST / TS_SQUARE) * s->lanes;
    s->threads = squares < THREADS ? squares : THREADS;
    return;
  }
  s->down = fit(s->rows, DOWN), s->across = fit(s->cols, ACROSS);
  while (blocks(s) < BLOCKS && s->down * s->across > 1)
    *(s->down > s->across ? &s->down : &s->across) /= 2;
  s->step = s->down * s->across <= FEW ? FEW_KC : KC;
}

static TsTile *build_table(const Chain *s) {
  TsTile *k = ts_tile_new("conv_table");
  if (!k) return NULL;
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE), table = ts_tile_vector(TS_DT_i32, s->k);
  TsTileAccess edge = {.edge = true};
  V to = ts_tile_param(k, "table", &table, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop l =
      ts_tile_for(&b, ts_tile_index(&b, 0), ts_tile_index(&b, s->k), PIECE, true, 0, NULL);
  V i = ts_short_positions(&b, &t, l.i);
  ts_tile_store(&b, to, &l.i, ts_tile_cast(&b, offsets(&b, s, i, false), TS_DT_i32), &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

/* Room for zeros around x as far as windows reach, which the geometry is of afterwards. */
static void make_room(Chain *s) {
  TsConv *c = &s->c;
  const TsMeta *m = &s->w->n->in[0]->meta;
  s->x = ts_conv_padded(m, m->ndim - 1);
  s->at_c = 1, s->first = 0;
  for (int a = 3; a-- > 0; s->at_c *= c->in[a]) {
    int64_t far = (c->window[a] - 1) * c->dilation[a], low = (far < 0 ? far : 0) - c->before[a];
    int64_t high = (c->out[a] - 1) * c->stride[a] - c->before[a] + (far > 0 ? far : 0);
    int64_t front = low < 0 ? -low : 0, back = high >= c->in[a] ? high + 1 - c->in[a] : 0;
    int i = 2 + a - (3 - c->nd);
    c->in[a] += front + back, c->before[a] -= front;
    if (a >= 3 - c->nd) s->x.size[i] = c->in[a], s->x.first[i] = front;
    s->at[a] = s->at_c;
    s->first -= c->before[a] * s->at_c;
  }
  s->at_n = s->at_c * m->dim[1];
}

/* Windows may be dilated without end. */
static bool fits(const Chain *s) {
  double n = 1;
  for (int i = 0; i < s->x.ndim; i++) n *= (double)s->x.size[i];
  return n < INT32_MAX;
}

static bool plan(Chain *s) {
  const TsConvWork *w = s->w;
  TsConv *c = &s->c;
  s->window = s->positions = 1;
  for (int a = 0; a < 3; a++) {
    s->window *= c->window[a], s->positions *= c->out[a];
    if (w->transposed) c->dilation[a] = -c->dilation[a], c->before[a] = -c->before[a];
  }
  int64_t taps = c->cg * s->window;
  s->rows = c->og, s->cols = w->grad ? taps : s->positions;
  s->k = w->grad ? c->batch * s->positions : taps;
  if (!s->k || !s->rows || !s->cols || !c->batch) return false;
  choose(s);
  make_room(s);
  return fits(s);
}

/* Images, channels and positions of the result, row-major. */
static void result_strides(const Chain *s, int64_t stride[5]) {
  int64_t step = 1;
  for (int a = 3; a-- > 0; step *= s->c.out[a]) stride[2 + a] = step;
  stride[1] = step, stride[0] = step * s->c.og * s->c.groups;
}

static bool plan_of(Chain *s, const TsConvWork *w, const TsSched *sched) {
  *s = (Chain){.w = w, .c = w->c, .lanes = sched->target->lanes};
  if (w->c.og >= TS_SQUARE) s->unit = ts_sched_square_unit(sched, w->d, &s->factor);
  return !w->last && plan(s);
}

static void add(TsSteps *x, const TsConvWork *w) {
  Chain s;
  if (!plan_of(&s, w, x->s)) return;
  const TsMeta *weights = &w->n->in[1]->meta;
  int64_t dim[2] = {ts_conv_padded_numel(&s.x), ts_meta_numel(weights)}, stride[5];
  if (w->in_phases) dim[1] = weights->dim[0] * weights->dim[1] * s.window;
  int list[6], n = 0;
  list[n++] = ts_conv_padded_in(x, 0, &s.x);
  int table = list[n++] = ts_steps_temp(x, s.k * ts_dtypes[TS_DT_i32].nbytes);
  ts_steps_add(x, build_table(&s), &table, NULL);
  list[n++] = w->in_phases ? ts_conv_phase_weights(x, w, false, 0) : ts_steps_in(x, 1, NULL);
  if (w->bias) list[n++] = ts_steps_in(x, 2, NULL);
  if (w->residual) list[n++] = ts_steps_in(x, 3, NULL);
  result_strides(&s, stride);
  int64_t nbytes = s.c.batch * stride[0] * ts_dtypes[w->d].nbytes;
  int to = list[n++] = w->in_phases ? ts_steps_temp(x, nbytes) : ts_steps_out(x, 0, NULL);
  ts_steps_add(x, build(&s), list, dim);
  if (w->in_phases) ts_conv_phase_back(x, w, to, stride);
}

/* Whether all phases can be done. One that no place of the window meets is the sum of nothing, to which
 * a bias of -0 would have to be added. */
static bool takes_phases(const TsConvWork *w, const TsSched *sched) {
  for (int i = 0, n = ts_conv_phases(w); i < n; i++) {
    TsConvWork own;
    Chain s;
    if (ts_conv_phase(w, i, &own) ? !plan_of(&s, &own, sched) : w->bias) return false;
  }
  return true;
}

int ts_conv_chain(const TsConvWork *w, const TsSched *sched, TsLayoutFn *layout, void *arg,
                  TsSchedKernel *out, TsError *err) {
  Chain s;
  TsSteps x;
  bool strided = ts_conv_has_phases(w);
  if (!(strided ? takes_phases(w, sched) : plan_of(&s, w, sched))) return 0;
  ts_steps_begin(&x, sched, layout, arg, w->n, err);
  for (int i = 0, n = strided ? ts_conv_phases(w) : 0; i < n; i++) {
    TsConvWork own;
    if (ts_conv_phase(w, i, &own))
      add(&x, &own);
    else
      ts_conv_phase_zeros(&x, &own);
  }
  if (!strided) add(&x, w);
  return ts_steps_end(&x, out);
}
