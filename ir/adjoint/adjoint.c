/* Derivatives: the table, fitting gradients to their values, definitions. The reverse
 * pass is ir/adjoint/reverse.c. */
#include "ir/adjoint/adjoint.h"

#include <stdlib.h>
#include <string.h>

TsAdjointFn *const ts_adjoint_table[TS_OP_COUNT] = {
#define OP(name, cls, arity, types, dtype, shape, adjoint, ...)                                \
  [TS_OP_##name] = ts_adjoint_##adjoint,
#include "lib/ops.def"
#undef OP
};

int ts_adjoint_none(TsAdjoint *a) {
  return ts_build_fail(a->b, TS_ERR_value, "%s has no derivative", ts_op_info(a->op)->name);
}

int ts_adjoint_zero(TsAdjoint *a) {
  (void)a;
  return 0;
}

int ts_adjoint_compose(TsAdjoint *a) {
  TS_BUG("%s was not expanded before it was differentiated", ts_op_info(a->op)->name);
}

/* ---- fitting */
static TsVal fit_shape(TsBuild *b, TsVal g, TsVal x) {
  TsMeta mg = *b->meta(b, g), mx = *b->meta(b, x);
  int64_t axis[TS_MAX_RANK];
  int n = 0, skip = mg.ndim - mx.ndim;
  if (skip < 0) return ts_build_expand(b, g, mx.dim, mx.ndim);
  for (int i = 0; i < mg.ndim; i++)
    if (i < skip || (mx.dim[i - skip] == 1 && mg.dim[i] != 1)) axis[n++] = i;
  if (n) g = ts_build_sum(b, g, axis, n, true);
  if (b->failed) return NULL;
  if (n && skip) g = ts_build_reshape(b, g, mx.dim, mx.ndim);
  if (b->failed || ts_meta_same_shape(b->meta(b, g), &mx)) return g;
  return ts_build_expand(b, g, mx.dim, mx.ndim); /* a scalar gradient of a larger value */
}

TsVal ts_adjoint_fit(TsBuild *b, TsVal g, TsVal x) {
  if (!g || b->failed) return NULL;
  TsDtype have = (TsDtype)b->meta(b, g)->dtype, want = (TsDtype)b->meta(b, x)->dtype;
  if (ts_dtype_is(have, TS_KIND_C) && !ts_dtype_is(want, TS_KIND_C)) {
    g = ts_build1(b, TS_OP_real, g);
    have = g ? (TsDtype)b->meta(b, g)->dtype : want;
  }
  /* The sum is made in the wider type. */
  bool narrow = ts_dtypes[have].nbytes < ts_dtypes[want].nbytes;
  if (have != want && narrow) g = ts_build_cast(b, g, want);
  if (g && !ts_meta_same_shape(b->meta(b, g), b->meta(b, x))) g = fit_shape(b, g, x);
  if (g && (TsDtype)b->meta(b, g)->dtype != want) g = ts_build_cast(b, g, want);
  return g;
}

/* ---- by definition: a builder that notes what passes through it */
typedef struct Recorder {
  TsBuild b;
  TsBuild *under;
  TsTapeEntry *tape;
  int n, cap;
  struct Block *blocks;
} Recorder;

typedef struct Block {
  struct Block *next;
  TsVal val[];
} Block;

static void *keep(Recorder *r, size_t nbytes) {
  Block *k = malloc(sizeof *k + nbytes);
  if (!k) {
    ts_build_fail(&r->b, TS_ERR_memory, "out of memory");
    return NULL;
  }
  k->next = r->blocks;
  r->blocks = k;
  return k->val;
}

static bool grow(Recorder *r) {
  if (r->n < r->cap) return true;
  int cap = r->cap ? r->cap * 2 : 32;
  TsTapeEntry *t = realloc(r->tape, (size_t)cap * sizeof *t);
  if (!t) return ts_build_fail(&r->b, TS_ERR_memory, "out of memory"), false;
  r->tape = t;
  r->cap = cap;
  return true;
}

/* Lists in attributes may live on the definition's stack. */
static const TsAttr *copy_attrs(Recorder *r, TsOp op, const TsAttr *attr) {
  int n = ts_op_info(op)->nattr;
  TsAttr *to = keep(r, sizeof(TsAttr) * (size_t)(n + 1));
  if (!to) return NULL;
  memcpy(to, attr, sizeof(TsAttr) * (size_t)n);
  for (int i = 0; i < n; i++) {
    if (to[i].type != TS_ATTR_ints && to[i].type != TS_ATTR_floats) continue;
    void *list = keep(r, 8 * (size_t)(to[i].n + 1));
    if (!list) return NULL;
    if (to[i].n) memcpy(list, attr[i].ints, 8 * (size_t)to[i].n);
    to[i].ints = list;
  }
  return to;
}

static TsVal record_emit(TsBuild *b, TsOp op, int nin, const TsVal *in, const TsAttr *attr,
                         TsVal *out) {
  Recorder *r = (Recorder *)b;
  TsVal made[TS_MAX_OUT] = {NULL};
  if (b->failed) return NULL;
  if (ts_compose_table[op]) {
    TsVal room[TS_MAX_OUT];
    TsAttr preset[TS_MAX_ATTR];
    ts_op_defaults(op, preset);
    TsCompose k = {.b = b,
                   .op = op,
                   .nin = nin,
                   .given = in,
                   .attr = attr ? attr : preset,
                   .nout = 1,
                   .room = TS_MAX_OUT,
                   .out = room};
    if (ts_compose(&k)) return NULL;
    if (out) memcpy(out, room, sizeof(TsVal) * (size_t)k.nout);
    return room[0];
  }
  TsVal first = r->under->emit(r->under, op, nin, in, attr, made);
  b->failed = r->under->failed;
  if (b->failed || !grow(r)) return NULL;
  int nout = 0;
  while (nout < TS_MAX_OUT && made[nout]) nout++;
  TsVal *list = keep(r, sizeof(TsVal) * (size_t)(nin + nout));
  const TsAttr *own = attr ? copy_attrs(r, op, attr) : NULL;
  if (b->failed) return NULL;
  if (nin) memcpy(list, in, sizeof(TsVal) * (size_t)nin);
  memcpy(list + nin, made, sizeof(TsVal) * (size_t)nout);
  r->tape[r->n++] = (TsTapeEntry){.op = op,
                                  .nin = nin,
                                  .nout = nout,
                                  .in = list,
                                  .out = list + nin,
                                  .attr = own,
                                  .line = -1};
  if (out) memcpy(out, made, sizeof(TsVal) * (size_t)nout);
  return first;
}

static const TsMeta *record_meta(TsBuild *b, TsVal v) {
  TsBuild *under = ((Recorder *)b)->under;
  return under->meta(under, v);
}

static TsVal record_number(TsBuild *b, double value) {
  TsBuild *under = ((Recorder *)b)->under;
  TsVal v = under->number(under, value);
  b->failed |= under->failed;
  return v;
}

static int record_whole(TsBuild *b, TsVal v, int64_t *out) {
  TsBuild *under = ((Recorder *)b)->under;
  return under->whole(under, v, out);
}

int ts_adjoint_by_definition(TsAdjoint *a, TsComposeFn *definition) {
  Recorder r = {.b = {.emit = record_emit,
                      .meta = record_meta,
                      .number = record_number,
                      .whole = a->b->whole ? record_whole : NULL,
                      .err = a->b->err},
                .under = a->b};
  TsVal out[TS_MAX_OUT] = {NULL}, y[TS_MAX_OUT], dy[TS_MAX_OUT];
  TsVal x[TS_MAX_IN + TS_MAX_OUT], dx[TS_MAX_IN + TS_MAX_OUT];
  int at[TS_MAX_IN + TS_MAX_OUT], nx = 0, ny = 0;
  TsCompose k = {.b = &r.b,
                 .op = a->op,
                 .nin = a->nin,
                 .in = a->in,
                 .attr = a->attr,
                 .nout = 1,
                 .room = TS_MAX_OUT,
                 .out = out};
  int failed = definition(&k) || r.b.failed;
  for (int i = 0; i < k.nout && i < a->nout; i++)
    if (a->grad[i]) y[ny] = out[i], dy[ny++] = a->grad[i];
  for (int i = 0; i < a->nin; i++)
    if (ts_wanted_once(a, i)) x[nx] = a->in[i], at[nx++] = i;
  TsReverse v = {.b = a->b,
                 .ntape = r.n,
                 .tape = r.tape,
                 .ny = ny,
                 .y = y,
                 .dy = dy,
                 .nx = nx,
                 .x = x,
                 .dx = dx,
                 .nheld = nx, /* one of them may be computed from another */
                 .held = x};
  if (!failed) failed = ts_reverse(&v);
  for (int i = 0; i < nx && !failed; i++) a->grad_in[at[i]] = dx[i];
  free(r.tape);
  for (Block *next; r.blocks; r.blocks = next) {
    next = r.blocks->next;
    free(r.blocks);
  }
  a->b->failed |= r.b.failed;
  return failed ? -1 : 0;
}

/* ---- one call */
static int itself(TsCompose *k) {
  TsBuild *b = k->b;
  memset(k->out, 0, sizeof(TsVal) * (size_t)k->room);
  b->emit(b, k->op, k->nin, k->in, k->attr, k->out);
  for (k->nout = 0; k->nout < k->room && k->out[k->nout];) k->nout++;
  return b->failed ? -1 : 0;
}

static void want_floats(TsBuild *b, int n, const TsVal *in, bool *wanted) {
  for (int i = 0; i < n; i++)
    wanted[i] = in[i] && ts_dtype_is((TsDtype)b->meta(b, in[i])->dtype, TS_KIND_F | TS_KIND_C);
}

static int first_order(TsBuild *b, TsOp op, int nin, int ngrad, const TsVal *in,
                       const TsAttr *attr, TsVal *grad_in) {
  bool wanted[TS_MAX_IN + TS_MAX_OUT];
  TsAdjoint a = {.b = b,
                 .op = op,
                 .nin = nin,
                 .nout = ngrad,
                 .in = in,
                 .attr = attr,
                 .grad = in + nin,
                 .wanted = wanted,
                 .grad_in = grad_in};
  want_floats(b, nin, in, wanted);
  return ts_adjoint_by_definition(&a, itself);
}

/* The first derivative as a definition: inputs and gradients in, gradients out. Inputs
 * without one give zeros, so that places stay. */
static int derivative(TsCompose *k) {
  int ngrad = (int)k->attr[TS_MAX_ATTR].i, nin = k->nin - ngrad;
  TsVal g[TS_MAX_IN] = {NULL};
  if (first_order(k->b, k->op, nin, ngrad, k->in, k->attr, g)) return -1;
  for (int i = 0; i < nin; i++) {
    bool blocks = k->in[i] && ts_dtype_in_blocks(k->b->meta(k->b, k->in[i])->dtype);
    k->out[i] = g[i]       ? g[i]
                : blocks   ? k->b->number(k->b, 0)
                : k->in[i] ? ts_build_zeros_like(k->b, k->in[i])
                           : NULL;
  }
  k->nout = nin;
  return 0;
}

int ts_vjp(TsBuild *b, TsOp op, int nin, int ngrad, const TsVal *in, const TsAttr *attr,
           const TsVal *second, TsVal *grad_in) {
  bool wanted[TS_MAX_IN + TS_MAX_OUT];
  TsAttr full[TS_MAX_ATTR + 1]; /* the last tells the definition how many are gradients */
  for (int i = 0; i < nin + ngrad; i++) grad_in[i] = NULL;
  if (!second) return first_order(b, op, nin, ngrad, in, attr, grad_in);
  ts_op_defaults(op, full);
  if (attr) memcpy(full, attr, sizeof(TsAttr) * TS_MAX_ATTR);
  full[TS_MAX_ATTR].i = ngrad;
  TsAdjoint a = {.b = b,
                 .op = op,
                 .nin = nin + ngrad,
                 .nout = nin,
                 .in = in,
                 .attr = full,
                 .grad = second,
                 .wanted = wanted,
                 .grad_in = grad_in};
  want_floats(b, nin + ngrad, in, wanted);
  return ts_adjoint_by_definition(&a, derivative);
}
