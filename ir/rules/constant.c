/* Constant matrices by their form: masks are built from ones, tril, triu, arange and
 * comparisons, and what they hide is known without computing an element. */
#include <math.h>
#include <string.h>

#include "ir/rules/rewrite.h"

/* A value over its last two axes, rows i and columns j:
 *   LINEAR  base + row i + col j; constants as the type stores them
 *   STEP    upto where j - i <= last, else beyond */
typedef struct Form {
  enum { UNKNOWN, LINEAR, STEP } kind;
  double base, row, col;
  int64_t last;
  double upto, beyond;
} Form;

enum { DEEPEST = 24 };
static const double LARGEST = 0x1p24; /* whole numbers up to it are exact in f32 */

static Form form_of(const TsRewrite *r, TsVal v, int depth);

static Form constant(double value) { return (Form){.kind = LINEAR, .base = value}; }
static bool is_constant(const Form *f) {
  return f->kind == LINEAR && f->row == 0 && f->col == 0;
}

/* Size of axis -1 - i. */
static int64_t size_at(const TsMeta *m, int i) {
  return i < m->ndim ? m->dim[m->ndim - 1 - i] : 1;
}

/* Linear forms count with whole numbers that the type holds. */
static bool counts(const TsMeta *m) {
  return m->weak || m->dtype == TS_DT_i32 || m->dtype == TS_DT_i64 || m->dtype == TS_DT_f32 ||
         m->dtype == TS_DT_f64;
}

static bool whole(double v) { return fabs(v) <= LARGEST && v == floor(v); }

static Form checked(Form f, const TsMeta *m) {
  if (f.kind != LINEAR || is_constant(&f)) return f;
  double reach =
      fabs(f.base) + fabs(f.row) * (double)size_at(m, 1) + fabs(f.col) * (double)size_at(m, 0);
  if (!counts(m) || !whole(f.base) || !whole(f.row) || !whole(f.col) || reach > LARGEST)
    f.kind = UNKNOWN;
  return f;
}

/* ---- shapes */
static int64_t numel_of(const TsMeta *m) { return ts_meta_numel(m); }

/* x's form where x broadcasts to m: along an axis of one element nothing varies. */
static Form spread(Form f, const TsMeta *x, const TsMeta *m) {
  bool rows = size_at(x, 1) != size_at(m, 1), cols = size_at(x, 0) != size_at(m, 0);
  if (f.kind == STEP && (rows || cols)) f.kind = UNKNOWN;
  if (f.kind == LINEAR && rows) f.row = 0;
  if (f.kind == LINEAR && cols) f.col = 0;
  return f;
}

/* The same elements in another shape: the last two axes stay, or x is a line that becomes a
 * row or a column. */
static Form reshaped(Form f, const TsMeta *x, const TsMeta *m) {
  if (is_constant(&f)) return f;
  if (size_at(x, 0) == size_at(m, 0) && size_at(x, 1) == size_at(m, 1)) return f;
  int64_t n = numel_of(x);
  bool was_row = size_at(x, 0) == n, was_column = size_at(x, 1) == n;
  bool row = size_at(m, 0) == n, column = size_at(m, 1) == n;
  if (f.kind != LINEAR || !(was_row || was_column) || !(row || column))
    return (Form){.kind = UNKNOWN};
  double step = was_row ? f.col : f.row;
  f.col = row ? step : 0;
  f.row = row ? 0 : step;
  return f;
}

static Form swapped(Form f) {
  if (f.kind == LINEAR) {
    double row = f.row;
    f.row = f.col;
    f.col = row;
  } else if (f.kind == STEP) {
    double upto = f.upto;
    f.last = -f.last - 1;
    f.upto = f.beyond;
    f.beyond = upto;
  }
  return f;
}

static bool swaps_last_two(const TsNode *n) {
  int nd = n->out[0].meta.ndim;
  if (n->op == TS_OP_transpose) {
    int a = ts_rule_axis(n, "axis0", nd), b = ts_rule_axis(n, "axis1", nd);
    return a + b == 2 * nd - 3 && a != b && a >= nd - 2 && b >= nd - 2;
  }
  const TsAttr *p = ts_rule_attr(n, "perm");
  for (int i = 0; i < nd; i++) {
    int64_t want = i < nd - 2 ? i : i == nd - 2 ? nd - 1 : nd - 2;
    if ((p->ints[i] < 0 ? p->ints[i] + nd : p->ints[i]) != want) return false;
  }
  return nd >= 2;
}

/* ---- creation */
static Form counted(const TsNode *n) {
  const TsAttr *start = ts_rule_attr(n, "start"), *stop = ts_rule_attr(n, "stop");
  Form f = {.kind = LINEAR,
            .base = stop->type == TS_ATTR_none ? 0 : start->f,
            .col = ts_rule_attr(n, "step")->f};
  return checked(f, &n->out[0].meta);
}

static Form triangle(const TsNode *n, Form f) {
  int64_t k = ts_rule_attr(n, "diagonal")->i;
  bool lower = n->op == TS_OP_tril;
  if (k < -(INT64_C(1) << 53) || k > INT64_C(1) << 53) return (Form){.kind = UNKNOWN};
  if (is_constant(&f)) {
    if (lower) return (Form){.kind = STEP, .last = k, .upto = f.base, .beyond = 0};
    return (Form){.kind = STEP, .last = k - 1, .upto = 0, .beyond = f.base};
  }
  if (f.kind != STEP || f.last != (lower ? k : k - 1)) return (Form){.kind = UNKNOWN};
  *(lower ? &f.beyond : &f.upto) = 0;
  return f;
}

/* ---- pointwise operators */
static Form compared(uint16_t op, Form x, Form y) {
  double base = x.base - y.base, row = x.row - y.row, col = x.col - y.col;
  Form f = {.kind = UNKNOWN};
  if (x.kind != LINEAR || y.kind != LINEAR || col == 0 || row != -col) return f;
  if (col < 0) { /* base + col d < 0 is -base - col d > 0 */
    base = -base, col = -col;
    op = op == TS_OP_lt   ? TS_OP_gt
         : op == TS_OP_le ? TS_OP_ge
         : op == TS_OP_gt ? TS_OP_lt
                          : TS_OP_le;
  }
  double edge = -base / col;
  if (!(fabs(edge) <= LARGEST)) return f;        /* no index is there, or it is NaN */
  bool below = op == TS_OP_lt || op == TS_OP_le; /* true up to the edge */
  bool with_edge = op == TS_OP_le || op == TS_OP_gt;
  f = (Form){.kind = STEP, .upto = below, .beyond = !below};
  f.last = (int64_t)(with_edge ? floor(edge) : ceil(edge) - 1);
  return f;
}

static Form arithmetic(uint16_t op, Form x, Form y) {
  Form f = {.kind = UNKNOWN};
  if (x.kind != LINEAR || y.kind != LINEAR) return f;
  double s = op == TS_OP_sub ? -1 : 1;
  if (op == TS_OP_mul && is_constant(&x)) {
    Form t = x;
    x = y, y = t;
  }
  if (op == TS_OP_mul)
    return is_constant(&y) ? (Form){.kind = LINEAR,
                                    .base = x.base * y.base,
                                    .row = x.row * y.base,
                                    .col = x.col * y.base}
                           : f;
  return (Form){.kind = LINEAR,
                .base = x.base + s * y.base,
                .row = x.row + s * y.row,
                .col = x.col + s * y.col};
}

static bool eval(const TsRewrite *r, const TsNode *n, const double *in, double *value) {
  const TsMeta *m[TS_MAX_IN];
  if (!r->o->eval || n->op >= TS_OP_COUNT) return false;
  for (int i = 0; i < n->nin; i++) m[i] = &n->in[i]->meta;
  return r->o->eval(r->o->arg, (TsOp)n->op, n->nin, in, m, n->attr,
                    (TsDtype)n->out[0].meta.dtype, value);
}

/* Constants and steps at the same place: the operator on either side of it. */
static Form two_sided(const TsRewrite *r, const TsNode *n, const Form *in) {
  Form f = {.kind = STEP}, unknown = {.kind = UNKNOWN};
  double upto[TS_MAX_IN], beyond[TS_MAX_IN];
  bool any = false;
  for (int i = 0; i < n->nin; i++) {
    if (is_constant(&in[i])) {
      upto[i] = beyond[i] = in[i].base;
      continue;
    }
    if (in[i].kind != STEP || (any && in[i].last != f.last)) return unknown;
    any = true;
    f.last = in[i].last;
    upto[i] = in[i].upto, beyond[i] = in[i].beyond;
  }
  if (!eval(r, n, upto, &f.upto) || !eval(r, n, beyond, &f.beyond)) return unknown;
  return any ? f : constant(f.upto);
}

static bool all_constant(const TsNode *n, const Form *in) {
  for (int i = 0; i < n->nin; i++)
    if (!is_constant(&in[i])) return false;
  return true;
}

static Form pointwise(const TsRewrite *r, const TsNode *n, int depth) {
  Form in[TS_MAX_IN], f = {.kind = UNKNOWN};
  const TsMeta *m = &n->out[0].meta;
  for (int i = 0; i < n->nin; i++) {
    if (!n->in[i]) return f;
    in[i] = form_of(r, n->in[i], depth + 1);
    if (in[i].kind == UNKNOWN) return f;
    in[i] = spread(in[i], &n->in[i]->meta, m);
  }
  f = two_sided(r, n, in);
  if (f.kind != UNKNOWN || all_constant(n, in)) return f;
  switch (n->op) {
  case TS_OP_lt:
  case TS_OP_le:
  case TS_OP_gt:
  case TS_OP_ge: return compared(n->op, in[0], in[1]);
  case TS_OP_neg: return arithmetic(TS_OP_mul, in[0], constant(-1));
  case TS_OP_add:
  case TS_OP_sub:
  case TS_OP_mul: return checked(arithmetic(n->op, in[0], in[1]), m);
  default: return f;
  }
}

static Form cast(const TsRewrite *r, const TsNode *n, Form f) {
  Form unknown = {.kind = UNKNOWN};
  if (f.kind == LINEAR && !is_constant(&f)) return checked(f, &n->out[0].meta);
  if (f.kind == STEP)
    return eval(r, n, &f.upto, &f.upto) && eval(r, n, &f.beyond, &f.beyond) ? f : unknown;
  return f.kind == LINEAR && eval(r, n, &f.base, &f.base) ? f : unknown;
}

static Form form_of(const TsRewrite *r, TsVal v, int depth) {
  const TsNode *n = v->node;
  Form unknown = {.kind = UNKNOWN}, f;
  double value;
  if (ts_rule_fill(v, &value)) return constant(value);
  if (depth > DEEPEST || n->op >= TS_OP_COUNT || n->nout != 1) return unknown;
  if (n->op == TS_OP_arange) return counted(n);
  if (ts_rule_pointwise(n)) return pointwise(r, n, depth);
  switch (n->op) {
  case TS_OP_tril:
  case TS_OP_triu:
  case TS_OP_cast:
  case TS_OP_contiguous:
  case TS_OP_clone:
  case TS_OP_reshape:
  case TS_OP_squeeze:
  case TS_OP_unsqueeze:
  case TS_OP_flatten:
  case TS_OP_broadcast_to:
  case TS_OP_expand:
  case TS_OP_transpose:
  case TS_OP_permute: f = form_of(r, n->in[0], depth + 1); break;
  default: return unknown;
  }
  if (f.kind == UNKNOWN) return f;
  const TsMeta *x = &n->in[0]->meta, *m = &n->out[0].meta;
  switch (n->op) {
  case TS_OP_tril:
  case TS_OP_triu: return triangle(n, f);
  case TS_OP_cast: return cast(r, n, f);
  case TS_OP_broadcast_to:
  case TS_OP_expand: return spread(f, x, m);
  case TS_OP_transpose:
  case TS_OP_permute: return swaps_last_two(n) ? swapped(f) : unknown;
  default: return reshaped(f, x, m);
  }
}

bool ts_rule_step(const TsRewrite *r, TsVal v, int64_t *last, double *upto, double *beyond) {
  Form f = v->meta.ndim < 2 ? (Form){.kind = UNKNOWN} : form_of(r, v, 0);
  *last = f.last, *upto = f.upto, *beyond = f.beyond;
  return f.kind == STEP;
}

/* ---- single elements along an axis */
static bool element(const TsRewrite *r, TsVal v, int axis, int64_t at, double *value,
                    int depth);

/* Where an axis of m stands in x, of the same elements, if all else has one element. */
static bool line(const TsMeta *m, int axis) { return ts_meta_numel(m) == m->dim[axis]; }

static bool line_element(const TsRewrite *r, TsVal x, int64_t at, double *value, int depth) {
  for (int i = 0; i < x->meta.ndim; i++)
    if (line(&x->meta, i)) return element(r, x, i, at, value, depth);
  return false;
}

static bool joined(const TsRewrite *r, const TsNode *n, int axis, int64_t at, double *value,
                   int depth) {
  if (ts_rule_axis(n, "axis", n->out[0].meta.ndim) != axis) return false;
  for (int i = 0; i < n->nin; i++) {
    int64_t size = n->in[i]->meta.dim[axis];
    if (at < size) return element(r, n->in[i], axis, at, value, depth);
    at -= size;
  }
  return false;
}

static bool pointwise_element(const TsRewrite *r, const TsNode *n, int axis, int64_t at,
                              double *value, int depth) {
  double in[TS_MAX_IN];
  for (int i = 0; i < n->nin; i++) {
    const TsMeta *m = n->in[i] ? &n->in[i]->meta : NULL;
    int own = m ? axis - (n->out[0].meta.ndim - m->ndim) : 0;
    if (!m || (own < 0 && m->ndim > 0 && ts_meta_numel(m) != 1)) return false;
    bool one = own < 0 || m->dim[own] == 1;
    if (!element(r, n->in[i], own < 0 ? 0 : own, one ? 0 : at, &in[i], depth)) return false;
  }
  return eval(r, n, in, value);
}

static bool element(const TsRewrite *r, TsVal v, int axis, int64_t at, double *value,
                    int depth) {
  const TsNode *n = v->node;
  if (ts_rule_fill(v, value)) return true;
  if (depth > DEEPEST || n->op >= TS_OP_COUNT || n->nout != 1 || !line(&v->meta, axis))
    return false;
  depth++;
  if (ts_rule_pointwise(n)) return pointwise_element(r, n, axis, at, value, depth);
  switch (n->op) {
  case TS_OP_arange: {
    Form f = counted(n);
    *value = f.base + f.col * (double)at;
    return f.kind == LINEAR;
  }
  case TS_OP_reshape:
  case TS_OP_squeeze:
  case TS_OP_unsqueeze:
  case TS_OP_flatten: return line_element(r, n->in[0], at, value, depth);
  case TS_OP_concat: return joined(r, n, axis, at, value, depth);
  case TS_OP_narrow:
    if (ts_rule_axis(n, "axis", v->meta.ndim) == axis) at += ts_rule_attr(n, "start")->i;
    return element(r, n->in[0], axis, at, value, depth);
  default: return false;
  }
}

bool ts_rule_element(const TsRewrite *r, TsVal v, int axis, int64_t at, double *value) {
  return element(r, v, axis, at, value, 0);
}
