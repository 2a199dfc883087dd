/* Convolutions and their weight gradients on a device, as products of which one operand exists
 * only as a rule: sums of [rows] x [columns] over k, one chain of fused multiply-adds from +0
 * for each, in the order that vm/exec/conv.c and vm/exec/conv_weight_grad.c say.
 *
 *   conv         rows: channels out of a group; columns: positions of an image;
 *                k: channel in, then place in the window
 *   weight grad  rows: the same; columns: channel in, then place in the window;
 *                k: image, then position
 *   transposed   as conv, with the window walked backwards; only of stride 1, since otherwise
 *                sums of neighbouring positions have other terms
 *
 * Either way the right operand is x at the sum of what the column says and what k says: x is
 * padded before, so that nobody asks whether it is inside, and what k says is a table in
 * memory, since to find it takes longer than to multiply. A block has 8 x 16 threads, each with
 * up to 8 x 8 sums, fewer where blocks would be few: sums are chains, so k is never divided.
 * Steps of k go through shared memory, and the next step's elements are under way meanwhile. */
#include "jit/eager/family/conv_unit.h"

#include <string.h>

#include "vm/drive/conv.h"
#include "vm/drive/epilogue.h"

typedef TsTileVal V;

enum {
  DOWN = 8,
  ACROSS = 16,
  EACH = 8,
  KC = 8,
  FEW = 4,
  FEW_KC = 64,
  BLOCKS = 264,
  PIECE = 1024
};

typedef struct Conv {
  TsConv c;
  bool grad, transposed;
  TsDtype in, other, out;                    /* of x, of the left operand, of the result */
  int64_t channels, taps, positions, window; /* channels of x; window: its elements */
  int64_t rows, cols, k;                     /* of the product */
  int64_t at_n, at_c, at[3];                 /* strides of x */
  int64_t first;                             /* where position 0 of the window's place 0 is */
  int down, across, step;                    /* sums of a thread; of k at once */
  bool bias, residual, relu;
} Conv;

typedef struct Make {
  const Conv *s;
  TsTileBuild b;
  V x, table, left, bias, residual, y;
  V image, group, row, col; /* positions of the block */
  V base;                   /* of a step's columns: where in x */
  V buffer[2], view[2];
  TsTileType sums, line, side; /* [DOWN, ACROSS]; the right and the left operand's step */
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
static void steps_of(const Conv *s, bool window, int64_t by[3]) {
  const TsConv *c = &s->c;
  for (int a = 0; a < 3; a++) by[a] = (window ? c->dilation[a] : c->stride[a]) * s->at[a];
}

/* What column `i` of the product says, and what k `i` says. */
static V offsets(TsTileBuild *b, const Conv *s, V i, bool columns) {
  int64_t by[3], inner = columns == s->grad ? s->window : s->positions;
  steps_of(s, columns == s->grad, by);
  V sum = spread(b, ts_short_by(b, TS_OP_mod, i, inner),
                 columns == s->grad ? s->c.window : s->c.out, by);
  V outer = ts_short_by(b, TS_OP_floordiv, i, inner);
  outer = ts_short_by(b, TS_OP_mul, outer, columns == s->grad ? s->at_c : s->at_n);
  return sum ? ts_tile_op2(b, TS_OP_add, sum, outer) : outer;
}

static void columns(Make *m) {
  const Conv *s = m->s;
  TsTileBuild *b = &m->b;
  V i = plus(m, ts_short_iota(b, &m->line, 1), ts_short_splat(b, &m->line, m->col));
  i = ts_short_by(b, TS_OP_minimum, i, s->cols - 1);
  V first = scalar(m, TS_OP_mul, m->group, s->c.cg * s->at_c);
  if (!s->grad) first = plus(m, first, scalar(m, TS_OP_mul, m->image, s->at_n));
  first = plus(m, first, ts_tile_index(b, s->first));
  m->base = plus(m, offsets(b, s, i, true), ts_short_splat(b, &m->line, first));
}

/* From k on; behind the last one it is that one again. */
static V right_at(Make *m, V k) {
  TsTileBuild *b = &m->b;
  V i = plus(m, ts_short_iota(b, &m->line, 0), ts_short_splat(b, &m->line, k));
  i = ts_short_by(b, TS_OP_minimum, i, m->s->k - 1);
  V at = ts_tile_cast(b, ts_short_gather(b, m->table, i, false), TS_DT_i64);
  return ts_short_gather(b, m->x, plus(m, m->base, at), false);
}

/* ---- the left operand: [rows, step] from k on */
static V left_at(Make *m, V k) {
  const Conv *s = m->s;
  TsTileBuild *b = &m->b;
  TsTileAccess edge = {.edge = true};
  TsTileType t = m->side;
  t.dtype = (uint8_t)s->other;
  if (!s->grad && !s->transposed) {
    V at[3] = {m->group, m->row, k};
    return ts_tile_load(b, m->left, at, &t, &edge);
  }
  V o = plus(m, ts_short_iota(b, &t, 0), ts_short_splat(b, &t, m->row));
  V i = plus(m, ts_short_iota(b, &t, 1), ts_short_splat(b, &t, k));
  o = ts_short_by(b, TS_OP_minimum, o, s->c.og - 1);
  i = ts_short_by(b, TS_OP_minimum, i, s->k - 1);
  if (s->transposed) { /* [groups, channels in, channels out, window] */
    V c = plus(m, ts_short_by(b, TS_OP_floordiv, i, s->window),
               ts_short_splat(b, &t, scalar(m, TS_OP_mul, m->group, s->c.cg)));
    V at = plus(m, ts_short_by(b, TS_OP_mul, c, s->c.og), o);
    at = plus(m, ts_short_by(b, TS_OP_mul, at, s->window), ts_short_by(b, TS_OP_mod, i, s->window));
    return ts_short_gather(b, m->left, at, false);
  }
  V first = ts_short_splat(b, &t, scalar(m, TS_OP_mul, m->group, s->c.og));
  V n = ts_short_by(b, TS_OP_floordiv, i, s->positions),
    p = ts_short_by(b, TS_OP_mod, i, s->positions);
  V at = plus(m, ts_short_by(b, TS_OP_mul, n, s->c.og * s->c.groups), plus(m, first, o));
  return ts_short_gather(b, m->left, plus(m, ts_short_by(b, TS_OP_mul, at, s->positions), p),
                       false);
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
  static const int64_t turned[2] = {1, 0};
  TsTileBuild *b = &m->b;
  TsDtype acc = m->s->c.acc;
  V zero = ts_tile_index(b, 0), corner[2] = {zero, zero};
  TsTileAccess left = {.naxis = 2, .axes = turned};
  ts_tile_store(b, m->buffer[0], corner, ts_tile_cast(b, h->left, acc), &left);
  ts_tile_store(b, m->buffer[1], corner, ts_tile_cast(b, h->right, acc), NULL);
}

static void multiply(Make *m, int n, V *acc) {
  static const int64_t first[2] = {1, 2}, second[2] = {0, 2};
  TsTileBuild *b = &m->b;
  const Conv *s = m->s;
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
  const Conv *s = m->s;
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

static void results(Make *m, const V *acc) {
  const Conv *s = m->s;
  TsTileBuild *b = &m->b;
  static const int64_t rows[1] = {0};
  TsTileAccess edge = {.edge = true};
  for (int j = 0; j < s->down; j++)
    for (int i = 0; i < s->across; i++) {
      V row = plus(m, m->row, ts_tile_index(b, j * DOWN));
      V col = plus(m, m->col, ts_tile_index(b, i * ACROSS)), x = acc[j * s->across + i];
      V at[4] = {m->image, m->group, row, col}, to[2] = {m->group, row};
      if (s->bias) {
        TsTileType t = ts_tile_vector(s->out, DOWN);
        V bias = ts_tile_cast(b, ts_tile_load(b, m->bias, to, &t, &edge), s->c.acc);
        x = plus(m, x, ts_tile_broadcast(b, bias, &m->sums, rows));
      }
      if (s->residual) {
        TsTileType t = m->sums;
        t.dtype = (uint8_t)s->out;
        x = plus(m, x, ts_tile_cast(b, ts_tile_load(b, m->residual, at, &t, &edge), s->c.acc));
      }
      if (s->relu) x = ts_tile_op1(b, TS_OP_relu, x);
      ts_tile_store(b, m->y, at, ts_tile_cast(b, x, s->out), &edge);
    }
}

static void buffers(Make *m) {
  const Conv *s = m->s;
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
  const Conv *s = m->s;
  const TsConv *c = &s->c;
  int64_t nx = ts_tile_size(k, "X"), nl = ts_tile_size(k, "L");
  int64_t images = s->grad ? 1 : c->batch, w[3] = {c->groups, c->og, s->k};
  int64_t y[4] = {images, c->groups, s->rows, s->cols}, bias[2] = {c->groups, c->og};
  TsTileType tx = ts_tile_type(s->in, 1, &nx), ty = ts_tile_type(s->out, 4, y);
  TsTileType tl =
      s->grad || s->transposed ? ts_tile_type(s->other, 1, &nl) : ts_tile_type(s->other, 3, w);
  TsTileType tb = ts_tile_type(s->out, 2, bias);
  TsTileType table = ts_tile_vector(TS_DT_i32, s->k);
  m->x = ts_tile_param(k, "x", &tx, false);
  m->table = ts_tile_param(k, "table", &table, false);
  m->left = ts_tile_param(k, s->grad ? "g" : "w", &tl, false);
  if (s->bias) m->bias = ts_tile_param(k, "bias", &tb, false);
  if (s->residual) m->residual = ts_tile_param(k, "residual", &ty, false);
  m->y = ts_tile_param(k, "y", &ty, true);
}

static TsTile *build(const void *arg) {
  const Conv *s = arg;
  TsTile *k = ts_tile_new(s->grad ? "conv_weight_grad" : "conv");
  if (!k) return NULL;
  Make m = {.s = s};
  int64_t sums[2] = {DOWN, ACROSS}, side[2] = {s->down * DOWN, s->step};
  m.sums = ts_tile_type(s->c.acc, 2, sums), m.side = ts_tile_type(s->other, 2, side);
  int64_t line[2] = {s->step, s->across * ACROSS};
  m.line = ts_tile_type(s->in, 2, line);
  parameters(&m, k);
  m.b = ts_tile_build(k);
  k->threads = DOWN * ACROSS, k->vector = 1;
  TsTileBuild *b = &m.b;
  V zero = ts_tile_index(b, 0);
  int64_t end[4] = {s->grad ? 1 : s->c.batch, s->c.groups, s->rows, s->cols};
  int64_t step[4] = {1, 1, s->down * DOWN, s->across * ACROSS};
  TsTileLoop l[4];
  for (int i = 0; i < 4; i++)
    l[i] = ts_tile_for(b, zero, ts_tile_index(b, end[i]), step[i], true, 0, NULL);
  m.image = l[0].i, m.group = l[1].i, m.row = l[2].i, m.col = l[3].i;
  buffers(&m);
  columns(&m);
  V acc[EACH * EACH];
  for (int i = 0; i < s->down * s->across; i++) acc[i] = ts_tile_const(b, 0, &m.sums);
  all_steps(&m, acc);
  results(&m, acc);
  for (int i = 4; i-- > 0;) ts_tile_for_end(b, &l[i], NULL, NULL);
  return k;
}

/* ---- calls */
static bool is_float(const TsTensor *t) {
  return ts_dtype_is(ts_tensor_dtype(t), TS_KIND_F) && t->meta.dtype != TS_DT_mxfp4;
}

/* last: channels are the last axis. */
static void geometry(Conv *s, const TsCall *call, const TsMeta *x, const TsMeta *y, int first,
                     bool last) {
  const TsAttr *a = call->attr + first;
  TsConv *c = &s->c;
  int nd = x->ndim - 2;
  c->nd = nd, c->batch = x->dim[0], c->groups = a[3].i;
  ts_window_list(&a[0], nd, 1, c->stride);
  ts_window_list(&a[1], nd, 0, c->before);
  ts_window_list(&a[2], nd, 1, c->dilation);
  s->positions = 1, s->channels = x->dim[last ? nd + 1 : 1], s->at_c = 1;
  for (int i = 3; i-- > 0;) {
    int at = i - (3 - nd);
    c->in[i] = at < 0 ? 1 : x->dim[2 - last + at];
    c->out[i] = at < 0 ? 1 : y->dim[2 - last + at];
    s->at[i] = s->at_c;
    s->at_c *= c->in[i];
    s->positions *= c->out[i];
  }
  s->at_n = s->at_c * s->channels;
}

static void set_window(Conv *s, const TsMeta *w, bool last) {
  TsConv *c = &s->c;
  c->cg = w->dim[last ? w->ndim - 1 : 1], c->og = w->dim[0] / c->groups, s->window = 1;
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - c->nd);
    c->window[i] = at < 0 ? 1 : w->dim[2 - last + at];
    s->window *= c->window[i];
  }
  s->taps = c->cg * s->window;
}

static int fit(int64_t n, int unit) {
  int each = 1;
  while (each < EACH && each * unit < n) each *= 2;
  return each;
}

static int64_t blocks(const Conv *s) {
  int64_t rows = s->down * DOWN, cols = s->across * ACROSS;
  return (s->grad ? 1 : s->c.batch) * s->c.groups * ((s->rows + rows - 1) / rows) *
         ((s->cols + cols - 1) / cols);
}

static void choose(Conv *s) {
  s->down = fit(s->rows, DOWN), s->across = fit(s->cols, ACROSS);
  while (blocks(s) < BLOCKS && s->down * s->across > 1)
    *(s->down > s->across ? &s->down : &s->across) /= 2;
  s->step = s->down * s->across <= FEW ? FEW_KC : KC;
}

static TsTile *build_table(const void *arg) {
  const Conv *s = arg;
  TsTile *k = ts_tile_new("conv_table");
  if (!k) return NULL;
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE), table = ts_tile_vector(TS_DT_i32, s->k);
  TsTileAccess edge = {.edge = true};
  V to = ts_tile_param(k, "table", &table, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop l =
      ts_tile_for(&b, ts_tile_index(&b, 0), ts_tile_index(&b, s->k), PIECE, true, 0, NULL);
  V i = ts_tile_op2(&b, TS_OP_add, ts_short_iota(&b, &t, 0), ts_short_splat(&b, &t, l.i));
  ts_tile_store(&b, to, &l.i, ts_tile_cast(&b, offsets(&b, s, i, false), TS_DT_i32), &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

static void words(TsOwn *k, const Conv *s) {
  int64_t words[] = {s->in | s->other << 8 | s->out << 16 | s->grad << 24,
                     s->c.batch,
                     s->c.groups,
                     s->c.cg,
                     s->c.og,
                     s->bias | s->residual << 1 | s->relu << 2 | s->transposed << 3};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) ts_own_word(k, words[i]);
  for (int i = 0; i < 3; i++) {
    const TsConv *c = &s->c;
    int64_t w[] = {c->in[i],     c->out[i],    c->window[i],
                   c->stride[i], c->before[i], c->dilation[i]};
    for (int j = 0; j < 6; j++) ts_own_word(k, w[j]);
  }
}

static TsTensor *make_table(TsOffloader *o, const TsCall *call, int device, const Conv *s) {
  TsMeta m = {.dtype = TS_DT_i32, .ndim = 1, .device = (uint8_t)device, .dim = {s->k}};
  TsTensor *t = ts_tensor_new(call->ctx, &m);
  TsOwn k = {.build = build_table, .arg = s, .nout = 1, .out = {t}};
  ts_own_word(&k, 'T' << 8);
  words(&k, s);
  if (t && ts_own_run(o, call, device, &k) == 1) return t;
  ts_tensor_unref(t);
  return NULL;
}

/* x with zeros around it as far as windows reach, which the geometry is of afterwards. */
static TsTensor *padded(const TsCall *call, Conv *s, TsTensor *x) {
  TsConv *c = &s->c;
  TsMeta m = x->meta;
  int64_t step = 1, first = 0;
  bool any = false;
  s->first = 0;
  for (int a = 3; a-- > 0;) {
    int64_t far = (c->window[a] - 1) * c->dilation[a], low = (far < 0 ? far : 0) - c->before[a];
    int64_t high = (c->out[a] - 1) * c->stride[a] - c->before[a] + (far > 0 ? far : 0);
    int64_t front = low < 0 ? -low : 0, back = high >= c->in[a] ? high + 1 - c->in[a] : 0;
    any |= front || back;
    first += front * step;
    c->in[a] += front + back, c->before[a] -= front;
    if (a >= 3 - c->nd) m.dim[2 + a - (3 - c->nd)] = c->in[a];
    s->at[a] = step;
    s->first -= c->before[a] * step;
    step *= c->in[a];
  }
  s->at_c = step, s->at_n = step * s->channels;
  if (!any) return ts_own_ready(call, x);
  m.weak = 0;
  TsTensor *y = ts_tensor_new(call->ctx, &m), *none = y ? ts_tensor_number(call->ctx, 0) : NULL;
  TsTensor *inner = NULL;
  int failed = !none || ts_vm_assign(call->ctx, y, none);
  if (!failed)
    inner =
        ts_tensor_view(y, &x->meta, y->stride, y->offset + first * ts_dtypes[m.dtype].nbytes);
  failed = !inner || ts_vm_assign(call->ctx, inner, x);
  ts_tensor_unref(none), ts_tensor_unref(inner);
  if (failed) ts_tensor_unref(y);
  return failed ? NULL : y;
}

static int run(TsOffloader *o, TsCall *call, int device, Conv *s, int nin,
               TsTensor *const *in) {
  TsOwn k = {.build = build, .arg = s, .nin = nin, .nout = 1, .ndim = 2, .out = {call->out[0]}};
  int done = 0;
  s->rows = s->c.og, s->cols = s->grad ? s->taps : s->positions;
  s->k = s->grad ? s->c.batch * s->positions : s->taps;
  if (!s->k || !s->rows || !s->cols || !s->c.batch) return 0;
  choose(s);
  if (!(k.in[0] = padded(call, s, in[0]))) return -1;
  if (ts_tensor_numel(k.in[0]) >= INT32_MAX) done = -2;
  k.nin = nin + 1;
  for (int i = 1; i < nin && !done; i++)
    if (!(k.in[i + 1] = ts_own_ready(call, in[i]))) done = -1;
  if (!done && !(k.in[1] = make_table(o, call, device, s)))
    done = call->ctx->err.code ? -1 : -2;
  words(&k, s);
  if (!done) {
    k.dim[0] = ts_tensor_numel(k.in[0]), k.dim[1] = ts_tensor_numel(in[1]);
    done = ts_own_run(o, call, device, &k);
  }
  for (int i = 0; i <= nin; i++) ts_tensor_unref(k.in[i]);
  return done == -2 ? 0 : done;
}

/* On the matrix unit, where there is one for it: geometry as of conv1d .. conv3d. */
static int by_unit(TsOffloader *o, TsCall *call, int device, const Conv *s, bool last,
                   TsTensor *bias) {
  TsConvUnit u = {.c = s->c, .last = last, .transposed = s->transposed, .bias = bias};
  u.x = call->in[0], u.w = call->in[1];
  for (int i = 0; i < 3 && s->transposed; i++)
    u.c.dilation[i] = -u.c.dilation[i], u.c.before[i] = -u.c.before[i];
  return s->residual || s->relu ? 0 : ts_conv_unit(o, call, device, &u);
}

static TsTensor *input(const TsCall *call, int i) { return i < call->nin ? call->in[i] : NULL; }

/* bias, residual, relu, in that order. */
static bool words_of(TsCall *call, Conv *s) {
  TsEpilogueWord word[TS_EPILOGUE_MAX];
  if (ts_epilogue_read(call, &call->attr[5], input(call, 2) != NULL, input(call, 3) != NULL,
                       s->c.acc, word))
    return false;
  const TsEpilogueWord *w = word;
  if (*w == TS_EPILOGUE_bias) s->bias = true, w++;
  if (*w == TS_EPILOGUE_residual) s->residual = true, w++;
  if (*w == TS_EPILOGUE_relu) s->relu = true, w++;
  return *w == TS_EPILOGUE_end;
}

static int forward(TsOffloader *o, TsCall *call, int device, bool last) {
  TsTensor *x = call->in[0], *w = call->in[1], *y = call->out[0], *in[4] = {x, w};
  Conv s = {.in = ts_tensor_dtype(x), .other = ts_tensor_dtype(w), .out = ts_tensor_dtype(y)};
  int n = 2;
  s.c.acc = (TsDtype)ts_dtypes[s.out].accum;
  if (s.in != s.out || s.other != s.out) return 0;
  if (!words_of(call, &s)) return 0;
  for (int i = 2; i < 4; i++) {
    TsTensor *t = input(call, i);
    if (!t) continue;
    if (ts_tensor_dtype(t) != s.out) return 0;
    if (i == 3 && !ts_meta_same_shape(&t->meta, &y->meta)) return 0;
    if (i == 2 && ts_tensor_numel(t) != w->meta.dim[0]) return 0;
    in[n++] = t;
  }
  geometry(&s, call, &x->meta, &y->meta, 0, last);
  set_window(&s, &w->meta, last);
  int done = by_unit(o, call, device, &s, last, s.bias ? input(call, 2) : NULL);
  return done || last ? done : run(o, call, device, &s, n, in);
}

static int transposed(TsOffloader *o, TsCall *call, int device) {
  TsTensor *x = call->in[0], *w = call->in[1], *y = call->out[0], *bias = input(call, 2);
  TsTensor *in[3] = {x, w, bias};
  Conv s = {.transposed = true, .in = ts_tensor_dtype(x), .other = ts_tensor_dtype(w)};
  TsConv *c = &s.c;
  s.out = ts_tensor_dtype(y), c->acc = (TsDtype)ts_dtypes[s.out].accum;
  if (s.in != s.out || s.other != s.out) return 0;
  if (bias && (ts_tensor_dtype(bias) != s.out || ts_tensor_numel(bias) != y->meta.dim[1]))
    return 0;
  geometry(&s, call, &x->meta, &y->meta, 0, false);
  c->groups = call->attr[4].i, s.bias = bias != NULL, s.window = 1;
  c->cg = x->meta.dim[1] / c->groups, c->og = w->meta.dim[1];
  ts_window_list(&call->attr[3], c->nd, 1, c->dilation);
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - c->nd);
    if (c->stride[i] != 1) return 0;
    c->window[i] = at < 0 ? 1 : w->meta.dim[2 + at];
    c->dilation[i] = -c->dilation[i], c->before[i] = -c->before[i];
    s.window *= c->window[i];
  }
  s.taps = c->cg * s.window;
  int done = by_unit(o, call, device, &s, false, bias);
  return done ? done : run(o, call, device, &s, bias ? 3 : 2, in);
}

static int weights(TsOffloader *o, TsCall *call, int device, bool last) {
  TsTensor *x = call->in[0], *g = call->in[1], *y = call->out[0], *in[2] = {x, g};
  Conv s = {.grad = true, .in = ts_tensor_dtype(x), .other = ts_tensor_dtype(g)};
  s.out = ts_tensor_dtype(y), s.c.acc = (TsDtype)ts_dtypes[s.out].accum;
  if (s.in != s.out || s.other != s.out) return 0;
  geometry(&s, call, &x->meta, &g->meta, 1, last);
  set_window(&s, &y->meta, last);
  TsConvUnit u = {.c = s.c, .last = last, .x = x, .w = g};
  int done = ts_conv_unit_grad(o, call, device, &u);
  return done || last ? done : run(o, call, device, &s, 2, in);
}

int ts_offload_conv(TsOffloader *o, TsCall *call, int device) {
  TsOp op = call->op;
  bool plain = op == TS_OP_conv1d || op == TS_OP_conv2d || op == TS_OP_conv3d;
  bool back = op == TS_OP_conv_transpose;
  if (!plain && !back && op != TS_OP_conv_weight_grad) return 0;
  const TsTensor *y = call->out[0];
  if (!is_float(call->in[0]) || !is_float(call->in[1]) || !is_float(y)) return 0;
  if (!y->contiguous || !ts_tensor_numel(y)) return 0;
  if (back) return transposed(o, call, device);
  bool last = call->attr[plain ? 4 : 5].i;
  return plain ? forward(o, call, device, last) : weights(o, call, device, last);
}
