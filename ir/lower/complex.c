/* Complex numbers on a device, element by element, where each part is a few operations: add,
 * sub, mul, square, neg, conj, real, imag, complex, eq, ne, and casts. Operands may be real, be
 * views, and broadcast. What needs the planes of vm/kernels/pointwise/complex.inc is the
 * CPU's. */
#include "ir/lower/short.h"
#include "ir/lower/steps.h"

#include <string.h>

typedef TsTileVal V;

enum { PIECE = 1024, OPERANDS = 3 };

typedef struct Part {
  TsDtype d;
  bool number, plain;          /* a bare number; as the result lies */
  int64_t stride[TS_MAX_RANK]; /* in elements, along the result's axes */
} Part;

typedef struct Each {
  TsOp op;
  TsDtype out, real; /* real: of the parts that are computed */
  int nin;
  Part in[OPERANDS];
  TsMeta y;
} Each;

typedef struct Cx {
  V re, im;
} Cx;

typedef struct Make {
  const Each *s;
  TsTileBuild b;
  TsTileType t; /* i64 */
  V first, i, x[OPERANDS];
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }

static bool is_complex(TsDtype d) { return ts_dtype_is(d, TS_KIND_C); }

/* Complex memory as pairs. */
static TsDtype stored(TsDtype d) { return is_complex(d) ? ts_dtype_real(d) : d; }

static V place(Make *m, const Part *p) {
  const TsMeta *y = &m->s->y;
  V rest = m->i, at = ts_short_int(&m->b, &m->t, 0);
  for (int a = y->ndim; a-- > 0;) {
    V c = a ? ts_short_by(&m->b, TS_OP_mod, rest, y->dim[a]) : rest;
    if (a) rest = ts_short_by(&m->b, TS_OP_floordiv, rest, y->dim[a]);
    if (p->stride[a])
      at = op2(m, TS_OP_add, at, ts_short_by(&m->b, TS_OP_mul, c, p->stride[a]));
  }
  return at;
}

static V part_of(Make *m, int k, V at, int which) {
  const Part *p = &m->s->in[k];
  static const int64_t axes[1] = {0};
  if (!p->plain) {
    if (is_complex(p->d)) at = ts_short_by(&m->b, TS_OP_mul, at, 2);
    if (which) at = ts_short_by(&m->b, TS_OP_add, at, 1);
    return ts_short_gather(&m->b, m->x[k], at, false);
  }
  TsTileType t = ts_tile_vector(stored(p->d), PIECE);
  V to[2] = {m->first, ts_tile_index(&m->b, which)};
  TsTileAccess a = {.edge = true, .naxis = is_complex(p->d), .axes = axes};
  return ts_tile_load(&m->b, m->x[k], to, &t, &a);
}

static Cx operand(Make *m, int k) {
  const Part *p = &m->s->in[k];
  TsTileBuild *b = &m->b;
  V zero = ts_short_number(b, &m->t, m->s->real, 0);
  if (p->number) {
    V bits = ts_tile_bitcast(b, ts_short_dim(b, 1 + k), TS_DT_f64);
    return (Cx){ts_short_splat(b, &m->t, ts_tile_cast(b, bits, m->s->real)), zero};
  }
  V at = p->plain ? NULL : place(m, p);
  V re = ts_tile_cast(b, part_of(m, k, at, 0), m->s->real);
  if (!is_complex(p->d)) return (Cx){re, zero};
  return (Cx){re, ts_tile_cast(b, part_of(m, k, at, 1), m->s->real)};
}

static Cx product(Make *m, Cx x, Cx y) {
  V re = op2(m, TS_OP_sub, op2(m, TS_OP_mul, x.re, y.re), op2(m, TS_OP_mul, x.im, y.im));
  V im = op2(m, TS_OP_add, op2(m, TS_OP_mul, x.re, y.im), op2(m, TS_OP_mul, x.im, y.re));
  return (Cx){re, im};
}

/* The result; im NULL where it is real. */
static Cx value(Make *m) {
  TsTileBuild *b = &m->b;
  Cx x = operand(m, 0), y = x;
  if (m->s->nin > 1) y = operand(m, 1);
  switch (m->s->op) {
  case TS_OP_add: return (Cx){op2(m, TS_OP_add, x.re, y.re), op2(m, TS_OP_add, x.im, y.im)};
  case TS_OP_sub: return (Cx){op2(m, TS_OP_sub, x.re, y.re), op2(m, TS_OP_sub, x.im, y.im)};
  case TS_OP_mul:
  case TS_OP_square: return product(m, x, y);
  case TS_OP_neg: return (Cx){ts_tile_op1(b, TS_OP_neg, x.re), ts_tile_op1(b, TS_OP_neg, x.im)};
  case TS_OP_conj: return (Cx){x.re, ts_tile_op1(b, TS_OP_neg, x.im)};
  case TS_OP_real: return (Cx){x.re, NULL};
  case TS_OP_imag: return (Cx){x.im, NULL};
  case TS_OP_complex: return (Cx){x.re, y.re};
  case TS_OP_eq:
    return (Cx){
        op2(m, TS_OP_logical_and, op2(m, TS_OP_eq, x.re, y.re), op2(m, TS_OP_eq, x.im, y.im)),
        NULL};
  case TS_OP_ne:
    return (Cx){
        op2(m, TS_OP_logical_or, op2(m, TS_OP_ne, x.re, y.re), op2(m, TS_OP_ne, x.im, y.im)),
        NULL};
  default: return x; /* cast, clone */
  }
}

static TsTile *build(const Each *s) {
  TsTile *k = ts_tile_new(ts_op_info(s->op)->name);
  if (!k) return NULL;
  static const int64_t axes[1] = {0};
  static const char *const name[] = {"N", "a", "b", "c"};
  Make m = {.s = s, .t = ts_tile_vector(TS_DT_i64, PIECE)};
  int64_t n = ts_tile_size(k, name[0]), pairs[2] = {n, 2};
  for (int i = 0; i < OPERANDS; i++) ts_tile_size(k, name[1 + i]);
  for (int i = 0; i < s->nin; i++) {
    const Part *p = &s->in[i];
    int64_t any = ts_tile_size(k, name[1 + i]);
    if (p->number) continue;
    TsTileType t = p->plain ? ts_tile_type(stored(p->d), 1 + is_complex(p->d), pairs)
                            : ts_tile_type(stored(p->d), 1, &any);
    m.x[i] = ts_tile_param(k, NULL, &t, false);
  }
  bool wide = is_complex(s->out);
  TsTileType out = ts_tile_type(stored(s->out), 1 + wide, pairs);
  V y = ts_tile_param(k, "y", &out, true);
  m.b = ts_tile_build(k);
  k->threads = PIECE / 4, k->vector = 8;
  TsTileBuild *b = &m.b;
  V count = ts_short_dim(b, 0);
  TsTileLoop l = ts_tile_for(b, ts_tile_index(b, 0), count, PIECE, true, 0, NULL);
  TsTileAccess a = {.edge = true, .naxis = wide, .axes = axes};
  m.first = l.i;
  m.i = ts_short_positions(b, &m.t, l.i);
  V last = ts_tile_op2(b, TS_OP_sub, count, ts_tile_index(b, 1));
  m.i = op2(&m, TS_OP_minimum, m.i, ts_short_splat(b, &m.t, last));
  Cx v = value(&m);
  for (int i = 0; i < 1 + wide && !k->failed; i++) {
    V at[2] = {l.i, ts_tile_index(b, i)};
    ts_tile_store(b, y, at, ts_tile_cast(b, i ? v.im : v.re, stored(s->out)), &a);
  }
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* ---- nodes */
/* False: not for these kernels. */
static bool set_operand(Part *p, TsVal x, const TsMeta *y, TsLayoutFn *layout, void *arg) {
  const TsMeta *m = &x->meta;
  int64_t stride[TS_MAX_RANK];
  int skip = y->ndim - m->ndim;
  p->d = (TsDtype)m->dtype;
  p->number = x->node->op == TS_NODE_number;
  if (p->number) return !is_complex(p->d);
  if (ts_dtype_in_blocks(p->d) || skip < 0) return false;
  ts_sched_strides(layout, arg, x, stride);
  for (int i = 0; i < y->ndim; i++) {
    bool repeated = i < skip || (m->dim[i - skip] == 1 && y->dim[i] != 1);
    p->stride[i] = repeated ? 0 : stride[i - skip];
    if (p->stride[i] < 0) return false;
  }
  p->plain = ts_sched_row_major(layout, arg, x) && ts_meta_same_shape(m, y);
  return true;
}

/* Of the parts that are computed: as the operands are together, or the result. */
static TsDtype computed(const Each *s) {
  TsDtype in = s->in[0].d, both = in;
  if (s->op == TS_OP_cast) return stored(in);
  if (s->op == TS_OP_complex) return ts_dtype_real(s->out);
  for (int i = 1; i < s->nin; i++)
    if (!s->in[i].number)
      both = s->in[0].number ? s->in[i].d : ts_dtype_promote(both, s->in[i].d);
  return ts_dtype_real(is_complex(both) ? both : is_complex(s->out) ? s->out : in);
}

int ts_lower_complex(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                     TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  const TsMeta *y = &n->out[0].meta;
  TsDtype d = (TsDtype)y->dtype;
  if (n->nin > OPERANDS || !ts_meta_numel(y)) return 0;
  if (n->op == TS_OP_cast && d == TS_DT_bool) return 0; /* both parts count */
  bool any = is_complex(d), tensors = false;
  Each s = {.op = (TsOp)n->op, .out = d, .nin = n->nin, .y = *y};
  for (int i = 0; i < n->nin; i++) {
    if (!n->in[i] || !set_operand(&s.in[i], n->in[i], y, layout, arg)) return 0;
    any |= is_complex(s.in[i].d), tensors |= !s.in[i].number;
  }
  if (!any || !tensors) return 0;
  s.real = computed(&s);
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int list[OPERANDS + 1], count = 0;
  int64_t dim[1 + OPERANDS] = {ts_meta_numel(y)};
  for (int i = 0; i < n->nin; i++) {
    if (!s.in[i].number) list[count++] = ts_steps_in_place(&x, i);
    dim[1 + i] = INT64_MAX >> 8; /* as far as strides go */
    if (s.in[i].number) memcpy(&dim[1 + i], &n->in[i]->node->number, 8);
  }
  list[count++] = ts_steps_out(&x, 0, NULL);
  ts_steps_add(&x, build(&s), list, dim);
  if (sched->sizes_vary) ts_steps_bind(&x, 0, ts_steps_elements(&x));
  for (int i = 0; i < n->nin && sched->numbers_vary; i++)
    if (s.in[i].number) ts_steps_bind(&x, 1 + i, ts_steps_number(&x, i));
  return ts_steps_end(&x, out);
}
