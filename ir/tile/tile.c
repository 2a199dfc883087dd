/* Kernels of Tile IR and the builder that makes them. Everything lives in the kernel's arena. */
#include "ir/tile/sequence.h"

#include <stdlib.h>
#include <string.h>

static void *take(TsTile *k, size_t nbytes) {
  void *p = k->failed ? NULL : ts_arena_alloc(&k->arena, nbytes ? nbytes : 1);
  if (!p) k->failed = true;
  return p;
}

static void *keep(TsTile *k, const void *from, size_t nbytes) {
  void *p = take(k, nbytes);
  if (p && nbytes) memcpy(p, from, nbytes);
  return p;
}

static const char *keep_text(TsTile *k, const char *s) {
  return s ? keep(k, s, strlen(s) + 1) : NULL;
}

static TsTileRegion *new_region(TsTile *k, TsTileRegion *outer, TsTileStmt *owner) {
  TsTileRegion *r = take(k, sizeof *r);
  if (r) *r = (TsTileRegion){.outer = outer, .owner = owner};
  return r;
}

static TsTileVal new_value(TsTile *k, const TsTileType *type) {
  TsTileVal v = take(k, sizeof *v);
  if (v) *v = (TsTileValue){.type = *type, .id = k->nvalue++};
  return v;
}

/* Memory lives longer than what is made of it, so it has places of its own. */
TsTileVal ts_tile_lost(const TsTileType *type) {
  enum { SOME = 128 };
  static _Thread_local TsTileValue some[2][SOME];
  static _Thread_local unsigned next[2];
  bool memory = ts_tile_memory(type);
  TsTileVal v = &some[memory][next[memory]++ % SOME];
  *v = (TsTileValue){.type = *type};
  return v;
}

TsTile *ts_tile_new(const char *name) {
  TsTile *k = calloc(1, sizeof *k);
  if (!k) return NULL;
  k->name = keep_text(k, name);
  k->target = "cpu";
  k->body = new_region(k, NULL, NULL);
  ts_tile_place(k, "");
  if (!k->failed) return k;
  ts_tile_free(k);
  return NULL;
}

TsTile *ts_tile_share(const TsTile *k) {
  TsTile *held = (TsTile *)(uintptr_t)k;
  atomic_fetch_add(&held->shares, 1);
  return held;
}

void ts_tile_free(TsTile *k) {
  if (!k || atomic_fetch_sub(&k->shares, 1) > 0) return;
  for (int i = 0; k->sequence && i < k->sequence->n; i++) ts_tile_free(k->sequence->step[i].k);
  ts_arena_free(&k->arena);
  free(k);
}

/* Appends to an array of the arena whose size is a power of two whenever it is full. */
static void *grown(TsTile *k, const void *list, int n, size_t each) {
  if (n & (n - 1)) return (void *)(uintptr_t)list;
  void *p = take(k, each * (size_t)(n ? 2 * n : 1));
  if (p && n) memcpy(p, list, each * (size_t)n);
  return p;
}

static TsTileVal lost_param(const TsTileType *type) {
  TsTileType t = *type;
  t.space = TS_SPACE_global;
  return ts_tile_lost(&t);
}

TsTileVal ts_tile_param(TsTile *k, const char *name, const TsTileType *type, bool written) {
  TsTileVal v = new_value(k, type), *list = grown(k, k->param, k->nparam, sizeof *list);
  if (!v || !list) return lost_param(type);
  v->type.space = TS_SPACE_global;
  v->name = keep_text(k, name);
  v->index = k->nparam;
  k->param = list;
  k->param[k->nparam++] = v;
  TS_ASSERT(written || k->nin == k->nparam - 1);
  k->nin += !written;
  return v;
}

int64_t ts_tile_size(TsTile *k, const char *name) {
  for (int i = 0; i < k->ndim; i++)
    if (k->dim[i] && !strcmp(k->dim[i], name)) return ts_tile_dim(i);
  if (k->failed) return ts_tile_dim(0); /* names were not kept */
  TS_ASSERT(k->ndim < TS_TILE_DIMS);
  k->dim[k->ndim] = keep_text(k, name);
  return ts_tile_dim(k->ndim++);
}

/* Texts of many lines have as many places. */
static int *place_slot(const TsTile *k, const char *place) {
  uint32_t hash = 2166136261u, mask = (uint32_t)k->nplace_slot - 1;
  for (const char *s = place; *s; s++) hash = (hash ^ (unsigned char)*s) * 16777619u;
  for (uint32_t i = hash & mask;; i = (i + 1) & mask)
    if (!k->place_slot[i] || !strcmp(k->place[k->place_slot[i]], place))
      return &k->place_slot[i];
}

static bool grow_places(TsTile *k) {
  if (2 * k->nplace < k->nplace_slot) return true;
  int n = k->nplace_slot ? 2 * k->nplace_slot : 16;
  int *slot = take(k, sizeof *slot * (size_t)n);
  if (!slot) return false;
  memset(slot, 0, sizeof *slot * (size_t)n);
  k->place_slot = slot;
  k->nplace_slot = n;
  for (int i = 1; i < k->nplace; i++) *place_slot(k, k->place[i]) = i;
  return true;
}

int ts_tile_place(TsTile *k, const char *place) {
  if (!*place && k->nplace) return 0;
  if (!grow_places(k)) return 0;
  int *slot = place_slot(k, place);
  if (*slot) return *slot;
  const char **list = grown(k, k->place, k->nplace, sizeof *list);
  if (!list || !(list[k->nplace] = keep_text(k, place))) return 0;
  k->place = list;
  *slot = k->nplace;
  return k->nplace++;
}

TsTileBuild ts_tile_build(TsTile *k) { return (TsTileBuild){.k = k, .at = k->body}; }

/* ---- statements */
static const TsAttr *keep_attrs(TsTile *k, int op, const TsAttr *attr, int *n) {
  const TsAttrSpec *spec = ts_tile_op_attrs(op, n);
  TsAttr *a = take(k, sizeof *a * (size_t)*n);
  for (int i = 0; a && i < *n; i++) {
    a[i] = attr ? attr[i] : spec[i].preset;
    if (a[i].type == TS_ATTR_ints)
      a[i].ints = keep(k, a[i].ints, sizeof *a[i].ints * (size_t)a[i].n);
    else if (a[i].type == TS_ATTR_floats)
      a[i].floats = keep(k, a[i].floats, sizeof *a[i].floats * (size_t)a[i].n);
    else if (a[i].type == TS_ATTR_str)
      a[i].str = keep_text(k, a[i].str);
  }
  return a;
}

static void append(TsTileRegion *r, TsTileStmt *s) {
  s->in_region = r;
  s->prev = r->last;
  if (r->last)
    r->last->next = s;
  else
    r->first = s;
  r->last = s;
}

TsTileStmt *ts_tile_emit(TsTileBuild *b, int op, int nin, const TsTileVal *in,
                         const TsAttr *attr, int nout, const TsTileType *out) {
  TsTile *k = b->k;
  for (int i = 0; i < nin; i++)
    if (!in[i]) k->failed = true;
  TsTileStmt *s = take(k, sizeof *s);
  if (!s) return NULL;
  int nattr = 0, nregion = ts_tile_op_regions(op);
  *s = (TsTileStmt){.op = (uint16_t)op, .nin = nin, .nout = nout, .line = b->line};
  s->in = keep(k, in, sizeof *in * (size_t)nin);
  s->attr = op < TS_OP_COUNT ? NULL : keep_attrs(k, op, attr, &nattr);
  s->nattr = (uint16_t)nattr;
  s->out = take(k, sizeof *s->out * (size_t)nout);
  s->region = take(k, sizeof *s->region * (size_t)nregion);
  s->nregion = (uint16_t)nregion;
  for (int i = 0; i < nregion && !k->failed; i++) s->region[i] = new_region(k, b->at, s);
  for (int i = 0; i < nout && !k->failed; i++) {
    if (!(s->out[i] = new_value(k, &out[i]))) break;
    s->out[i]->stmt = s;
    s->out[i]->index = i;
  }
  if (k->failed) return NULL;
  append(b->at, s);
  return s;
}

TsTileVal ts_tile_emit1(TsTileBuild *b, int op, int nin, const TsTileVal *in,
                        const TsAttr *attr, const TsTileType *out) {
  TsTileStmt *s = ts_tile_emit(b, op, nin, in, attr, 1, out);
  return s ? s->out[0] : ts_tile_lost(out);
}

/* ---- types */
TsTileType ts_tile_type(TsDtype d, int rank, const int64_t *dim) {
  TsTileType t = {.dtype = (uint8_t)d, .rank = (uint8_t)rank};
  TS_ASSERT(rank <= TS_TILE_RANK);
  for (int i = 0; i < rank; i++) t.dim[i] = dim[i];
  return t;
}

TsTileType ts_tile_vector(TsDtype d, int64_t n) { return ts_tile_type(d, 1, &n); }
TsTileType ts_tile_scalar(TsDtype d) { return ts_tile_type(d, 0, NULL); }
bool ts_tile_memory(const TsTileType *t) { return t->space >= TS_SPACE_global; }

int64_t ts_tile_numel(const TsTileType *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->dim[i];
  return n;
}

void ts_tile_set_strides(TsTileType *t, const int64_t *stride) {
  memcpy(t->stride, stride, sizeof *stride * t->rank);
  ts_shape_settle(t->rank, t->dim, t->stride);
  t->strided = !ts_shape_row_major(t->rank, t->dim, t->stride);
  if (!t->strided) memset(t->stride, 0, sizeof t->stride);
}

int64_t ts_tile_dense_bytes(const TsTileType *t, const int64_t *dim) {
  int64_t n = ts_dtypes[t->dtype].nbytes;
  for (int i = 0; i < t->rank; i++) n *= ts_tile_extent(t, i, dim);
  return n;
}

void ts_tile_reach(const TsTileType *t, const int64_t *dim, int64_t *below, int64_t *above) {
  int64_t step = 1, first = 0, last = 0;
  for (int i = t->rank; i-- > 0;) {
    int64_t n = ts_tile_extent(t, i, dim), far = (n - 1) * (t->strided ? t->stride[i] : step);
    *(far < 0 ? &first : &last) += far;
    step *= n;
  }
  *below = step ? -first * ts_dtypes[t->dtype].nbytes : 0;
  *above = step ? (last + 1) * ts_dtypes[t->dtype].nbytes : 0;
}

bool ts_tile_type_same(const TsTileType *a, const TsTileType *b) {
  bool same = a->dtype == b->dtype && a->rank == b->rank && a->space == b->space &&
              a->strided == b->strided && a->swizzle == b->swizzle && a->count == b->count &&
              a->split == b->split;
  for (int i = 0; same && i < a->rank; i++)
    same = a->dim[i] == b->dim[i] && (!a->strided || a->stride[i] == b->stride[i]);
  return same;
}

/* ---- short forms */
/* The attributes of a row with some of them set; what is not named keeps its default. */
typedef struct Named {
  const char *name;
  TsAttr value;
} Named;

/* The names of a table of attributes end where their length says. */
static bool is_named(const TsAttrSpec *s, const char *name) {
  return strlen(name) == (size_t)s->namelen && !memcmp(s->name, name, (size_t)s->namelen);
}

static TsTileStmt *emit(TsTileBuild *b, int op, int nin, const TsTileVal *in, int nnamed,
                        const Named *named, int nout, const TsTileType *out) {
  TsAttr attr[TS_MAX_ATTR];
  int n;
  const TsAttrSpec *spec = ts_tile_op_attrs(op, &n);
  for (int i = 0; i < n; i++) attr[i] = spec[i].preset;
  for (int k = 0; k < nnamed; k++)
    for (int i = 0; i < n; i++)
      if (is_named(&spec[i], named[k].name)) attr[i] = named[k].value;
  return ts_tile_emit(b, op, nin, in, attr, nout, out);
}

static TsAttr number(double f) { return (TsAttr){.type = TS_ATTR_f, .f = f}; }
static TsAttr whole(int64_t i) { return (TsAttr){.type = TS_ATTR_int, .i = i}; }
static TsAttr flag(bool v) { return (TsAttr){.type = TS_ATTR_bool, .i = v}; }
static TsAttr list(int n, const int64_t *v) {
  return (TsAttr){.type = TS_ATTR_ints, .n = n, .ints = v};
}

TsTileVal ts_tile_index(TsTileBuild *b, int64_t i) {
  TsTileType t = ts_tile_scalar(TS_DT_i64);
  return ts_tile_const(b, (double)i, &t);
}

TsTileVal ts_tile_const(TsTileBuild *b, double value, const TsTileType *type) {
  TsAttr a = number(value);
  return ts_tile_emit1(b, TS_TILE_const, 0, NULL, &a, type);
}

TsTileVal ts_tile_bits(TsTileBuild *b, uint64_t bits, const TsTileType *type) {
  TsAttr a = whole((int64_t)bits);
  return ts_tile_emit1(b, TS_TILE_bits, 0, NULL, &a, type);
}

static bool gives_bool(int op) {
  return op == TS_TILE_ult || (op < TS_OP_COUNT && ts_op_info((TsOp)op)->gives_bool);
}

static TsTileVal apply(TsTileBuild *b, int op, int n, const TsTileVal *in) {
  for (int i = 0; i < n; i++)
    if (!in[i]) return b->k->failed = true, NULL;
  TsTileType t = in[op == TS_OP_where || op == TS_TILE_rare ? 1 : 0]->type;
  if (gives_bool(op)) t.dtype = TS_DT_bool;
  return ts_tile_emit1(b, op, n, in, NULL, &t);
}

TsTileVal ts_tile_op1(TsTileBuild *b, int op, TsTileVal x) { return apply(b, op, 1, &x); }
TsTileVal ts_tile_op2(TsTileBuild *b, int op, TsTileVal x, TsTileVal y) {
  return apply(b, op, 2, (TsTileVal[]){x, y});
}
TsTileVal ts_tile_op3(TsTileBuild *b, int op, TsTileVal x, TsTileVal y, TsTileVal z) {
  return apply(b, op, 3, (TsTileVal[]){x, y, z});
}

static TsTileVal retype(TsTileBuild *b, int op, TsTileVal x, TsDtype d) {
  if (!x || x->type.dtype == d) return x;
  TsTileType t = x->type;
  t.dtype = (uint8_t)d;
  return ts_tile_emit1(b, op, 1, &x, NULL, &t);
}

TsTileVal ts_tile_cast(TsTileBuild *b, TsTileVal x, TsDtype d) {
  return retype(b, TS_TILE_cast, x, d);
}
TsTileVal ts_tile_bitcast(TsTileBuild *b, TsTileVal x, TsDtype d) {
  return retype(b, TS_TILE_bitcast, x, d);
}

TsTileVal ts_tile_alloc(TsTileBuild *b, TsSpace space, const TsTileType *type) {
  TsTileType t = *type;
  t.space = (uint8_t)space;
  return ts_tile_emit1(b, TS_TILE_alloc, 0, NULL, NULL, &t);
}

TsTileVal ts_tile_transposed(TsTileBuild *b, TsTileVal x) {
  if (!x) return b->k->failed = true, NULL;
  int64_t dim[2] = {x->type.dim[1], x->type.dim[0]};
  TsTileType t = ts_tile_type((TsDtype)x->type.dtype, 2, dim);
  TsAttr perm = list(2, (int64_t[]){1, 0});
  return ts_tile_emit1(b, TS_TILE_transpose, 1, &x, &perm, &t);
}

TsTileVal ts_tile_broadcast(TsTileBuild *b, TsTileVal x, const TsTileType *type,
                            const int64_t *axes) {
  if (!x) return b->k->failed = true, NULL;
  TsTileType t = *type;
  t.dtype = x->type.dtype;
  TsAttr a = list(x->type.rank, axes);
  return ts_tile_emit1(b, TS_TILE_broadcast, 1, &x, &a, &t);
}

static int access_attrs(const TsTileAccess *a, Named named[5]) {
  if (!a) return 0;
  named[0] = (Named){"edge", flag(a->edge)};
  named[1] = (Named){"stream", flag(a->stream)};
  named[2] = (Named){"fill", number(a->fill)};
  named[3] = (Named){"aligned", flag(a->aligned)};
  named[4] = (Named){"axes", list(a->naxis, a->axes)};
  return a->naxis ? 5 : 4;
}

static int operands(TsTileBuild *b, TsTileVal memory, const TsTileVal *at, TsTileVal v[]) {
  int n = 0;
  if (!memory || b->k->failed) return b->k->failed = true, 0; /* a lost one has any rank */
  v[n++] = memory;
  for (int i = 0; i < memory->type.rank; i++) v[n++] = at[i];
  return n;
}

TsTileVal ts_tile_load(TsTileBuild *b, TsTileVal memory, const TsTileVal *at,
                       const TsTileType *type, const TsTileAccess *access) {
  TsTileVal v[TS_TILE_RANK + 2];
  Named named[5];
  TsTileType t = *type;
  int n = operands(b, memory, at, v);
  if (!n) return ts_tile_lost(&t);
  t.dtype = memory->type.dtype;
  int nnamed = access_attrs(access, named);
  if (nnamed) named[3] = (Named){"", {0}}; /* nor asks a load */
  TsTileStmt *s = emit(b, TS_TILE_load, n, v, nnamed, named, 1, &t);
  return s ? s->out[0] : ts_tile_lost(&t);
}

void ts_tile_store(TsTileBuild *b, TsTileVal memory, const TsTileVal *at, TsTileVal x,
                   const TsTileAccess *access) {
  TsTileVal v[TS_TILE_RANK + 2];
  Named named[5];
  int n = operands(b, memory, at, v);
  if (!n) return;
  v[n++] = x;
  int nnamed = access_attrs(access, named);
  if (nnamed) named[2] = (Named){"", {0}}; /* a store fills nothing */
  emit(b, TS_TILE_store, n, v, nnamed, named, 0, NULL);
}

/* ---- loops */
TsTileVal ts_tile_region_param(TsTile *k, TsTileRegion *r, const TsTileType *type) {
  TsTileVal v = new_value(k, type), *list = grown(k, r->param, r->nparam, sizeof *list);
  if (!v || !list) return ts_tile_lost(type);
  v->region = r;
  v->index = r->nparam;
  r->param = list;
  r->param[r->nparam++] = v;
  return v;
}

TsTileVal *ts_tile_lost_carry(int n, const TsTileVal *carry) {
  enum { MOST = 64 };
  static _Thread_local TsTileVal own[MOST];
  static const TsTileType none;
  TS_ASSERT(n <= MOST);
  for (int i = 0; i < n; i++) own[i] = ts_tile_lost(carry[i] ? &carry[i]->type : &none);
  return own;
}

/* Of a loop that memory fails for. */
static TsTileLoop lost_loop(TsTileBuild *b, int ncarry, const TsTileVal *carry) {
  TsTileType index = ts_tile_scalar(TS_DT_i64);
  b->k->failed = true;
  return (TsTileLoop){.before = b->at,
                      .ncarry = ncarry,
                      .i = ts_tile_lost(&index),
                      .carry = ts_tile_lost_carry(ncarry, carry)};
}

TsTileLoop ts_tile_for(TsTileBuild *b, TsTileVal lo, TsTileVal hi, int64_t step, bool parallel,
                       int ncarry, const TsTileVal *carry) {
  TsTile *k = b->k;
  TsTileLoop l = {.before = b->at, .ncarry = ncarry};
  TsTileVal *in = take(k, sizeof *in * (size_t)(ncarry + 2));
  TsTileType *type = take(k, sizeof *type * (size_t)(ncarry + 1)),
             index = ts_tile_scalar(TS_DT_i64);
  if (!in || !type) return lost_loop(b, ncarry, carry);
  in[0] = lo;
  in[1] = hi;
  for (int i = 0; i < ncarry; i++) {
    if (!(in[2 + i] = carry[i])) return lost_loop(b, ncarry, carry);
    type[i] = carry[i]->type;
  }
  l.stmt = emit(b, TS_TILE_for, ncarry + 2, in, 2,
                (Named[]){{"step", whole(step)}, {"parallel", flag(parallel)}}, ncarry, type);
  if (!l.stmt) return lost_loop(b, ncarry, carry);
  TsTileRegion *r = l.stmt->region[0];
  l.i = ts_tile_region_param(k, r, &index);
  for (int i = 0; i < ncarry; i++) ts_tile_region_param(k, r, &type[i]);
  if (k->failed) return lost_loop(b, ncarry, carry);
  l.carry = r->param + 1;
  b->at = r;
  return l;
}

void ts_tile_for_end(TsTileBuild *b, TsTileLoop *l, const TsTileVal *yield, TsTileVal *out) {
  int n = l->ncarry;
  if (!l->stmt || b->k->failed) {
    for (int i = 0; out && i < n; i++) out[i] = l->carry[i];
    b->k->failed = true;
    return;
  }
  if (n) ts_tile_emit(b, TS_TILE_yield, n, yield, NULL, 0, NULL);
  b->at = l->before;
  for (int i = 0; out && i < n; i++) out[i] = l->stmt->out[i];
}

const TsAttr *ts_tile_attr(const TsTileStmt *s, const char *name) {
  int n;
  const TsAttrSpec *spec = ts_tile_op_attrs(s->op, &n);
  for (int i = 0; i < n; i++)
    if (is_named(&spec[i], name)) return &s->attr[i];
  TS_BUG("%s has no attribute %s", ts_tile_op_name(s->op), name);
}
