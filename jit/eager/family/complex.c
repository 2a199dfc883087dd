/* Complex numbers on a device, element by element, where each part is a few operations: add,
 * sub, mul, square, neg, conj, real, imag, complex, eq, ne, and casts. Operands may be real, be
 * views, and broadcast. What needs the planes of vm/kernels/pointwise/complex.inc is the
 * CPU's. */
#include "jit/eager/family/own.h"

#include <string.h>

typedef TsTileVal V;

enum { PIECE = 1024, OPERANDS = 3 };

typedef struct Part {
  TsDtype d;
  bool number, plain;          /* a weak number; as the result lies */
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
    if (p->stride[a]) at = op2(m, TS_OP_add, at, ts_short_by(&m->b, TS_OP_mul, c, p->stride[a]));
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

static TsTile *build(const void *arg) {
  const Each *s = arg;
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
  m.i = op2(&m, TS_OP_add, ts_short_iota(b, &m.t, 0), ts_short_splat(b, &m.t, l.i));
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

/* ---- calls */
static bool is_of(TsOp op) {
  switch (op) {
  case TS_OP_add:
  case TS_OP_sub:
  case TS_OP_mul:
  case TS_OP_square:
  case TS_OP_neg:
  case TS_OP_conj:
  case TS_OP_real:
  case TS_OP_imag:
  case TS_OP_complex:
  case TS_OP_eq:
  case TS_OP_ne:
  case TS_OP_cast: return true;
  default: return false;
  }
}

static double number_of(const TsTensor *t) {
  return t->meta.dtype == TS_DT_i64 ? (double)*(int64_t *)t->storage->host
                                    : *(double *)t->storage->host;
}

/* False: not for these kernels. */
static bool set_operand(Part *p, const TsTensor *x, const TsTensor *y) {
  int skip = y->meta.ndim - x->meta.ndim;
  p->d = ts_tensor_dtype(x);
  p->number = x->meta.weak && !x->meta.ndim;
  if (p->number) return !is_complex(p->d);
  if (p->d == TS_DT_mxfp4 || skip < 0) return false;
  for (int i = 0; i < y->meta.ndim; i++) {
    bool repeated = i < skip || (x->meta.dim[i - skip] == 1 && y->meta.dim[i] != 1);
    p->stride[i] = repeated ? 0 : x->stride[i - skip];
    if (p->stride[i] < 0) return false;
  }
  p->plain = x->contiguous && ts_meta_same_shape(&x->meta, &y->meta);
  return true;
}

int ts_offload_complex(TsOffloader *o, TsCall *call, int device) {
  TsTensor *y = call->out[0];
  TsDtype d = ts_tensor_dtype(y);
  if (!is_of(call->op) || call->nin > OPERANDS || !y->contiguous || !ts_tensor_numel(y))
    return 0;
  if (call->op == TS_OP_cast && d == TS_DT_bool) return 0; /* both parts count */
  bool any = is_complex(d);
  Each s = {.op = call->op, .out = d, .nin = call->nin, .y = y->meta};
  TsOwn k = {.build = build, .arg = &s, .nout = 1, .ndim = 1 + OPERANDS, .out = {y}};
  TsDtype in = ts_tensor_dtype(call->in[0]);
  for (int i = 0; i < call->nin; i++) {
    const TsTensor *x = call->in[i];
    if (!x) return 0;
    any |= is_complex(ts_tensor_dtype(x));
    if (!set_operand(&s.in[i], x, y)) return 0;
    if (x->storage == y->storage && !(s.in[i].plain && x->offset == y->offset)) return 0;
    if (x->storage == y->storage && ts_tensor_dtype(x) != d) return 0;
  }
  if (!any) return 0;
  s.real = ts_dtype_real(is_complex(call->compute) ? call->compute : is_complex(d) ? d : in);
  if (call->op == TS_OP_cast) s.real = stored(in);
  if (call->op == TS_OP_complex) s.real = ts_dtype_real(d);
  k.dim[0] = ts_tensor_numel(y);
  ts_own_word(&k, s.out | s.real << 8 | s.nin << 16);
  bool plain = true;
  for (int i = 0; i < call->nin; i++) {
    Part *p = &s.in[i];
    TsTensor *x = call->in[i];
    double v = p->number ? number_of(x) : 0;
    if (p->number)
      memcpy(&k.dim[1 + i], &v, 8);
    else
      k.dim[1 + i] = INT32_MAX, k.in[k.nin++] = x;
    ts_own_word(&k, p->d | p->number << 8 | p->plain << 9);
    for (int a = 0; a < s.y.ndim && !p->plain && !p->number; a++) ts_own_word(&k, p->stride[a]);
    plain &= p->plain || p->number;
  }
  for (int a = 0; a < s.y.ndim && !plain; a++) ts_own_word(&k, s.y.dim[a]);
  return k.nin ? ts_own_run(o, call, device, &k) : 0;
}
