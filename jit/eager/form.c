/* Calls in the form of plans, and their keys. */
#include <string.h>

#include "ir/lower/lower.h"
#include "ir/lower/transpose.h"
#include "jit/eager/state.h"

/* ---- operands */
static double number_of(const TsTensor *t) {
  return t->meta.dtype == TS_DT_i64 ? (double)*(int64_t *)t->storage->host
                                    : *(double *)t->storage->host;
}

static void set_operand(Operand *o, TsTensor *t) {
  o->t = t;
  o->kind = OPERAND_none;
  o->strided = false;
  o->meta = t ? t->meta : (TsMeta){0}; /* it is part of the key */
  if (!t) return;
  if (t->meta.weak && t->meta.ndim == 0) {
    o->kind = OPERAND_number;
    o->number = number_of(t);
    return;
  }
  o->kind = OPERAND_tensor;
  o->strided = !t->contiguous;
  memcpy(o->stride, t->stride, sizeof *t->stride * t->meta.ndim);
}

/* Strides of x's elements when it is broadcast to n axes of these sizes. */
static void spread(const TsTensor *x, int n, int64_t *stride) {
  int skip = n - x->meta.ndim;
  for (int i = 0; i < n; i++)
    stride[i] = i < skip || x->meta.dim[i - skip] == 1 ? 0 : x->stride[i - skip];
}

/* ---- the fewest axes */
typedef struct Axes {
  int n;
  int64_t dim[TS_MAX_RANK];
} Axes;

static bool joins(const Form *f, int last, int64_t size, int i) {
  for (int k = 0; k < f->nin; k++)
    if (f->in[k].kind == OPERAND_tensor && f->in[k].stride[last] != f->in[k].stride[i] * size)
      return false;
  return f->out[0].stride[last] == f->out[0].stride[i] * size;
}

static void move(Form *f, int to, int from) {
  for (int k = 0; k < f->nin; k++) f->in[k].stride[to] = f->in[k].stride[from];
  f->out[0].stride[to] = f->out[0].stride[from];
}

/* Axes of one element go, neighbours along which all operands move evenly become one. */
static Axes fewest(Form *f, const TsMeta *shape) {
  Axes a = {0};
  for (int i = 0; i < shape->ndim; i++) {
    if (shape->dim[i] == 1) continue;
    if (a.n && joins(f, a.n - 1, shape->dim[i], i)) {
      move(f, a.n - 1, i);
      a.dim[a.n - 1] *= shape->dim[i];
      continue;
    }
    move(f, a.n, i);
    a.dim[a.n++] = shape->dim[i];
  }
  if (a.n) return a;
  for (int k = 0; k < f->nin; k++) f->in[k].stride[0] = 0;
  f->out[0].stride[0] = 1;
  a.dim[a.n++] = 1;
  return a;
}

static void set_axes(Operand *o, const Axes *a) {
  o->meta.ndim = (uint8_t)a->n;
  memcpy(o->meta.dim, a->dim, sizeof *a->dim * (size_t)a->n);
  o->strided = !ts_shape_row_major(a->n, a->dim, o->stride);
}

static void collapse(Form *f) {
  const TsMeta shape = f->out[0].meta;
  for (int k = 0; k < f->nin; k++)
    if (f->in[k].kind == OPERAND_tensor) spread(f->in[k].t, shape.ndim, f->in[k].stride);
  Axes a = fewest(f, &shape);
  for (int k = 0; k < f->nin; k++)
    if (f->in[k].kind == OPERAND_tensor) set_axes(&f->in[k], &a);
  set_axes(&f->out[0], &a);
  f->collapsed = true;
}

static void strides_of(const Operand *o, int64_t *stride) {
  if (o->strided)
    memcpy(stride, o->stride, sizeof *stride * o->meta.ndim);
  else
    ts_meta_strides(&o->meta, stride);
}

/* Whether its kernel may be for any outermost size: not if it goes through tiles of two
 * axes, has to bring the result to its place, or is told how many bytes blocks have. */
static bool is_any_size(const Form *f) {
  int64_t x[TS_MAX_RANK], y[TS_MAX_RANK];
  const TsMeta *m = &f->out[0].meta;
  bool parts = ts_dtype_is((TsDtype)m->dtype, TS_KIND_C), tensors = false;
  strides_of(&f->out[0], y);
  for (int i = 0; i < f->nin; i++) {
    const Operand *o = &f->in[i];
    if (o->kind != OPERAND_tensor) continue;
    if (ts_dtype_in_blocks(o->meta.dtype)) return false;
    tensors = true, parts |= ts_dtype_is((TsDtype)o->meta.dtype, TS_KIND_C);
    if (o->meta.ndim != m->ndim) continue;
    strides_of(o, x);
    if (ts_lower_transposes(m, x, y)) return false;
  }
  return !f->out[0].strided || (tensors && !parts);
}

/* ---- the key */
static void put(Form *f, int64_t w) {
  if (f->nword < OFFLOAD_WORDS) f->word[f->nword] = w;
  f->nword++;
}

static void put_double(Form *f, double v) {
  int64_t w;
  memcpy(&w, &v, 8);
  put(f, w);
}

static void put_text(Form *f, const char *s) {
  size_t n = strlen(s);
  put(f, (int64_t)n);
  for (size_t i = 0; i < n; i += 8) {
    int64_t w = 0;
    memcpy(&w, s + i, n - i < 8 ? n - i : 8);
    put(f, w);
  }
}

static void put_attr(Form *f, const TsAttr *a) {
  put(f, a->type | (int64_t)a->n << 8);
  switch (a->type) {
  case TS_ATTR_none: break;
  case TS_ATTR_f: put_double(f, a->f); break;
  case TS_ATTR_str: put_text(f, a->str); break;
  case TS_ATTR_ints:
    for (int i = 0; i < a->n; i++) put(f, a->ints[i]);
    break;
  case TS_ATTR_floats:
    for (int i = 0; i < a->n; i++) put_double(f, a->floats[i]);
    break;
  default: put(f, a->i);
  }
}

/* Of collapsed axes the first size is left out, but not whether it is 1. */
static void put_operand(Form *f, const Operand *o) {
  const TsMeta *m = &o->meta;
  bool tensor = o->kind == OPERAND_tensor, one = tensor && m->ndim && m->dim[0] == 1;
  put(f, o->kind | m->dtype << 8 | (tensor ? m->ndim : 0) << 16 | o->strided << 24 | one << 25 |
             m->weak << 26);
  if (!tensor) return;
  for (int i = f->collapsed; i < m->ndim; i++) put(f, m->dim[i]);
  for (int i = 0; i < m->ndim && o->strided; i++) put(f, o->stride[i]);
}

static bool make_key(Form *f) {
  f->nword = 0;
  put(f, f->op | f->device << 16 | (int64_t)f->nin << 24 | (int64_t)f->nout << 32 |
             (int64_t)f->collapsed << 40 | (int64_t)f->profile << 41);
  for (int i = 0; i < f->nin; i++) put_operand(f, &f->in[i]);
  for (int i = 0; i < f->nout; i++) put_operand(f, &f->out[i]);
  const TsOpInfo *o = ts_op_info((TsOp)f->op);
  /* Seed and stream of a draw, and what else kernels take as sizes, are given when they run. */
  int nattr = o->cls == TS_CLASS_RANDOM ? o->nattr - 2 : o->nattr;
  int varies = o->varying;
  for (int i = 0; i < nattr && f->attr; i++)
    if (i == varies)
      put(f, f->attr[i].type);
    else
      put_attr(f, &f->attr[i]);
  if (f->choice) put_text(f, f->choice);
  if (f->nword > OFFLOAD_WORDS) return false;
  uint64_t h = 0;
  for (int i = 0; i < f->nword; i++) {
    h = (h ^ (uint64_t)f->word[i]) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  f->hash = h;
  return true;
}

/* ---- calls */
static bool is_elementwise(TsOp op) {
  return ts_op_info(op)->cls == TS_CLASS_POINTWISE || op == TS_OP_cast || op == TS_OP_clone;
}

bool ts_offload_form(const TsCall *call, int device, Form *f) {
  if (call->nin > OFFLOAD_IN || call->nout > OFFLOAD_OUT) return false;
  f->op = call->op, f->device = device, f->attr = call->attr;
  f->nin = call->nin, f->nout = call->nout;
  f->collapsed = false;
  f->profile = call->ctx->profile, f->choice = call->ctx->choice;
  for (int i = 0; i < call->nin; i++) set_operand(&f->in[i], call->in[i]);
  for (int i = 0; i < call->nout; i++) set_operand(&f->out[i], call->out[i]);
  if (call->nout == 1 && is_elementwise(call->op))
    collapse(f), f->collapsed = is_any_size(f);
  else if (call->attr)
    ts_offload_permute(f);
  return make_key(f);
}

/* Elements that only move are bits. */
static TsDtype bits_of(TsDtype d) {
  switch (ts_dtypes[d].nbytes) {
  case 1: return TS_DT_u8;
  case 2: return TS_DT_i16;
  case 4: return TS_DT_i32;
  case 8: return TS_DT_i64;
  default: return d;
  }
}

bool ts_offload_form_assign(TsTensor *dst, TsTensor *src, Form *f) {
  static TsAttr to[TS_DT_COUNT];
  if (ts_dtype_in_blocks(dst->meta.dtype) || ts_dtype_in_blocks(src->meta.dtype)) return false;
  f->op = TS_OP_cast, f->device = dst->meta.device;
  f->profile = TS_PROFILE_deterministic, f->choice = NULL;
  f->nin = f->nout = 1;
  set_operand(&f->in[0], src);
  set_operand(&f->out[0], dst);
  f->in[0].meta.weak = f->out[0].meta.weak = 0;
  if (f->in[0].kind == OPERAND_tensor && src->meta.dtype == dst->meta.dtype)
    f->in[0].meta.dtype = f->out[0].meta.dtype = (uint8_t)bits_of(ts_tensor_dtype(dst));
  TsDtype d = (TsDtype)f->out[0].meta.dtype;
  to[d] = ts_attr_dtype(d);
  f->attr = &to[d];
  for (int i = 0; i < dst->meta.ndim; i++) /* elements on each other */
    if (dst->meta.dim[i] > 1 && dst->stride[i] == 0) return false;
  collapse(f);
  f->collapsed = is_any_size(f);
  return make_key(f);
}
