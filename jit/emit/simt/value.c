/* The elements of values, at coordinates and in frames, and homes. See jit/emit/simt/emit.h. */
#include <string.h>

#include "jit/emit/simt/emit.h"
#include "jit/emit/simt/fold.h"

typedef LLVMValueRef V;

enum {
  DEEP = 12,    /* statements that are computed again rather than put into memory */
  TOGETHER = 4, /* elements before a branch for one */
  FEW = 200     /* statements that are looked at */
};

/* ---- elements at coordinates */
static V index_as(TsGpuEmit *g, TsTileVal v, TsGpuCoord c) {
  LLVMTypeRef t = ts_emit_elem(g->e, (TsDtype)v->type.dtype);
  V x = ts_gpu_coord(g, c);
  return LLVMGetIntTypeWidth(t) == 64 ? x : LLVMBuildTrunc(g->e->b, x, t, "");
}

static V constant(TsGpuEmit *g, TsTileVal v) {
  const TsTileStmt *s = v->stmt;
  TsEmit *e = g->e;
  TsDtype d = (TsDtype)v->type.dtype;
  if (s->op == TS_TILE_const) return ts_emit_number(e, d, 0, ts_tile_attr(s, "value")->f);
  int bits = d == TS_DT_bool ? 1 : 8 * ts_dtypes[d].nbytes;
  V x = ts_emit_int(e, ts_emit_int_type(e, bits, 0), ts_tile_attr(s, "value")->i);
  return LLVMBuildBitCast(e->b, x, ts_emit_elem(e, d), "");
}

static bool is_compute(const TsTileStmt *s) {
  if (s->op < TS_OP_COUNT) return true;
  switch (s->op) {
  case TS_TILE_shl:
  case TS_TILE_shr:
  case TS_TILE_sar:
  case TS_TILE_mulhi:
  case TS_TILE_look:
  case TS_TILE_scale:
  case TS_TILE_ult:
  case TS_TILE_ex2:
  case TS_TILE_inv:
  case TS_TILE_lg2:
  case TS_TILE_larger:
  case TS_TILE_cast:
  case TS_TILE_bitcast: return true;
  default: return false;
  }
}

static V bitcast(TsGpuEmit *g, const TsTileStmt *s, V x) {
  return LLVMBuildBitCast(g->e->b, x, ts_emit_elem(g->e, (TsDtype)s->out[0]->type.dtype), "");
}

V ts_gpu_compute(TsGpuEmit *g, const TsTileStmt *s, V *in) {
  TsDtype d = (TsDtype)s->in[s->op == TS_OP_where ? 1 : 0]->type.dtype;
  if (s->op == TS_TILE_ex2 || s->op == TS_TILE_inv || s->op == TS_TILE_lg2)
    return ts_gpu_function(g, s->op, in[0]);
  if (s->op == TS_TILE_look) return ts_emit_look(g->e, s, in[0], g->maker->constants);
  if (s->op == TS_TILE_scale) return ts_emit_scale(g->e, s, in[0], in[1]);
  if (s->op == TS_TILE_larger && ts_tile_attr(s, "nan")->i)
    return ts_gpu_extreme(g, false, in[0], in[1]);
  if (s->op == TS_TILE_larger) return ts_emit_call2(g->e, "llvm.maxnum", in[0], in[1]);
  if (s->op == TS_TILE_cast)
    return ts_emit_cast(g->e, (TsDtype)s->out[0]->type.dtype, d, in[0]);
  if (s->op == TS_TILE_bitcast) return bitcast(g, s, in[0]);
  return ts_emit_pointwise(g->e, s->op, d, in);
}

static V compute(TsGpuEmit *g, const TsTileStmt *s, V *in) {
  V x = ts_gpu_short_form(g, s, in);
  return x ? x : ts_gpu_compute(g, s, in);
}

/* The operand's coordinates of a row that changes the shape. */
static void operand_coords(TsGpuEmit *g, const TsTileStmt *s, const TsGpuCoord *at,
                           TsGpuCoord *to) {
  const TsTileType *from = &s->in[0]->type, *t = &s->out[0]->type;
  memset(to, 0, sizeof *to * TS_TILE_RANK);
  if (s->op == TS_TILE_broadcast) {
    const TsAttr *axes = ts_tile_attr(s, "axes");
    for (int i = 0; i < from->rank; i++) to[i] = at[axes->ints[i]];
  } else if (s->op == TS_TILE_transpose) {
    const TsAttr *perm = ts_tile_attr(s, "perm");
    for (int i = 0; i < t->rank; i++) to[perm->ints[i]] = at[i];
  } else if (s->op == TS_TILE_part) {
    const TsAttr *start = ts_tile_attr(s, "start");
    for (int i = 0; i < t->rank; i++)
      to[i] = (TsGpuCoord){at[i].base, at[i].off + start->ints[i], at[i].multiple};
  } else {
    V linear = NULL;
    for (int i = 0; i < t->rank; i++) {
      if (linear && ts_tile_dim_is(t->dim[i]))
        linear = LLVMBuildNSWMul(g->e->b, linear, ts_emit_size(g->e, t->dim[i]), "");
      else if (linear)
        linear = ts_gpu_mul(g, linear, t->dim[i]);
      linear = ts_gpu_add(g, linear, ts_gpu_coord(g, at[i]));
    }
    if (from->rank) ts_gpu_split(g, from, linear ? linear : ts_gpu_i64(g, 0), to);
  }
}

static bool moves(const TsTileStmt *s) {
  return s->op == TS_TILE_broadcast || s->op == TS_TILE_transpose || s->op == TS_TILE_part ||
         s->op == TS_TILE_reshape;
}

/* How many statements an element at free coordinates takes; DEEP: it has to be in memory. */
static int depth(const TsGpuEmit *g, TsTileVal v) {
  const TsTileStmt *s = v->stmt;
  int n = 1;
  if (!v->type.rank) return 0;
  if (!s) return DEEP;
  switch (s->op) {
  case TS_TILE_const:
  case TS_TILE_bits:
  case TS_TILE_iota: return 0;
  case TS_TILE_load: return ts_gpu_reads_only(g, s->in[0]) ? 1 : DEEP;
  case TS_TILE_join: return DEEP;
  default: break;
  }
  if (!is_compute(s) && !moves(s)) return DEEP;
  for (int i = 0; i < s->nin && n < DEEP; i++) n += depth(g, s->in[i]);
  return n < DEEP ? n : DEEP;
}

static bool ready(const TsGpuEmit *g, TsGpuFrame *f, TsTileVal v, int *left) {
  const TsTileStmt *s = v->stmt;
  if (!v->type.rank) return g->scalar[v->id] != NULL;
  if (!ts_gpu_frame_fits(f, &v->type)) return false;
  if (f->memo[v->id]) return true;
  if (!s || --*left < 0) return false;
  if (s->op == TS_TILE_const || s->op == TS_TILE_bits || s->op == TS_TILE_iota) return true;
  if (s->op == TS_TILE_load) return ts_gpu_for_all_rounds(g, s);
  if (s->op == TS_TILE_broadcast) return ready(g, f, s->in[0], left) && !s->in[0]->type.rank;
  if (!is_compute(s)) return false;
  for (int i = 0; i < s->nin; i++)
    if (!ready(g, f, s->in[i], left)) return false;
  return true;
}

bool ts_gpu_ready(const TsGpuEmit *g, TsGpuFrame *f, TsTileVal v) {
  int left = FEW;
  return ready(g, f, v, &left);
}

static TsGpuHome *find_home(const TsGpuEmit *g, TsTileVal v) {
  for (TsGpuHome *h = g->homes; h; h = h->next)
    if (h->v == v) return h;
  return NULL;
}

/* c by n, and what is left of it. */
static V split(TsGpuEmit *g, TsGpuCoord c, int n, TsGpuCoord *rest) {
  if (!c.base || (c.multiple && c.multiple % n == 0)) {
    *rest = (TsGpuCoord){NULL, c.off % n, 0};
    return ts_gpu_add(g, c.base ? ts_gpu_div(g, c.base, n) : NULL, ts_gpu_i64(g, c.off / n));
  }
  V x = ts_gpu_coord(g, c);
  *rest = (TsGpuCoord){ts_gpu_mod(g, x, n), 0, 0};
  return ts_gpu_div(g, x, n);
}

/* The vectors of a row change places by the row's number, so that rows below one another lie in
 * different banks. */
static V swizzled(TsGpuEmit *g, const TsGpuHome *h, const TsGpuCoord *at, int64_t *off) {
  TsGpuCoord in_row, in;
  V row = split(g, at[0], h->swizzle, &in_row), column = split(g, at[1], h->swizzle, &in);
  V key = LLVMBuildAnd(g->e->b, row, ts_gpu_i64(g, 7), "");
  V linear = ts_gpu_mul(g, LLVMBuildXor(g->e->b, column, key, ""), h->swizzle);
  if (at[0].base) linear = ts_gpu_add(g, linear, ts_gpu_mul(g, at[0].base, h->pitch));
  *off = at[0].off * h->pitch + in.off;
  return ts_gpu_add(g, linear, in.base);
}

/* Elements from the home's begin: what is not known, and what is. */
static V home_place(TsGpuEmit *g, const TsGpuHome *h, const TsGpuCoord *at, int64_t *off) {
  const TsTileType *t = &h->v->type;
  V linear = NULL;
  int64_t step = 1;
  if (h->swizzle) return swizzled(g, h, at, off);
  *off = 0;
  for (int i = t->rank; i-- > 0;) {
    if (at[i].base) linear = ts_gpu_add(g, linear, ts_gpu_mul(g, at[i].base, step));
    *off += at[i].off * step;
    step *= i == t->rank - 1 ? h->pitch : t->dim[i];
  }
  return linear;
}

static V home_at(TsGpuEmit *g, const TsGpuHome *h, const TsGpuCoord *at) {
  TsDtype d = (TsDtype)h->v->type.dtype;
  int64_t off;
  V linear = home_place(g, h, at, &off);
  LLVMTypeRef m = ts_gpu_stored(g, d);
  V p = ts_gpu_shared_at(g, h->offset + off * ts_dtypes[d].nbytes, m, linear);
  return ts_gpu_from_stored(g, d, LLVMBuildLoad2(g->e->b, m, p, ""));
}

/* By way of a frame of one element, which remembers what was computed. */
static V alone(TsGpuEmit *g, TsTileVal v, const TsGpuCoord *at) {
  TsGpuFrame *f = ts_gpu_frame_new(g, &v->type, 1);
  f->vector = 1, f->loose = true;
  memcpy(f->at[0], at, sizeof f->at[0]);
  return ts_gpu_elem(g, f, v, 0);
}

V ts_gpu_elem_at(TsGpuEmit *g, TsTileVal v, const TsGpuCoord *at) {
  const TsTileStmt *s = v->stmt;
  TsGpuCoord to[TS_TILE_RANK];
  if (!v->type.rank) return ts_gpu_scalar(g, v);
  TsGpuHome *home = find_home(g, v);
  if (home) return home_at(g, home, at);
  if (!s) ts_emit_fail(g->e, "an element of a tile that is nowhere");
  switch (s->op) {
  case TS_TILE_const:
  case TS_TILE_bits: return constant(g, v);
  case TS_TILE_iota: return index_as(g, v, at[ts_tile_attr(s, "axis")->i]);
  case TS_TILE_load: return ts_gpu_load_at(g, s, at);
  default: break;
  }
  if (moves(s)) {
    operand_coords(g, s, at, to);
    return ts_gpu_elem_at(g, s->in[0], to);
  }
  if (!is_compute(s) && s->op != TS_TILE_rare)
    ts_emit_fail(g->e, "%s: its elements are nowhere", ts_tile_op_name(s->op));
  if (depth(g, v) >= DEEP) return alone(g, v, at);
  V in[4];
  for (int i = 0; i < s->nin; i++) in[i] = ts_gpu_elem_at(g, s->in[i], at);
  return compute(g, s, in);
}

/* Whether a move makes another axis the fastest one: reading what lies in memory at such
 * coordinates would touch a line for each element. */
static bool transposes(const TsTileStmt *s) {
  if (s->op != TS_TILE_transpose) return false;
  const TsAttr *perm = ts_tile_attr(s, "perm");
  int rank = s->out[0]->type.rank;
  return perm->ints[rank - 1] != rank - 1 && s->in[0]->type.dim[rank - 1] > 1;
}

static bool wants_home(TsGpuEmit *g, const TsTileStmt *s, TsTileVal x) {
  if (!x->type.rank || find_home(g, x) || !ts_gpu_resident(g, &x->type)) return false;
  int n = depth(g, x);
  return n >= DEEP || (n > 0 && transposes(s));
}

/* Frames of as many elements, spread alike, have the same element in each slot. */
static TsGpuFrame *same_order(const TsGpuEmit *g, const TsTileStmt *s, const TsGpuFrame *f) {
  if (s->op != TS_TILE_reshape || !s->in[0]->type.rank || !f || f->loose || f->laned)
    return NULL;
  for (TsGpuFrame *x = g->frames; x; x = x->next)
    if (ts_gpu_frame_fits(x, &s->in[0]->type))
      return x->vector == f->vector && !x->laned ? x : NULL;
  return NULL;
}

/* For a value about to be computed in a frame. */
static void prepare_moves(TsGpuEmit *g, TsTileVal v, bool free) {
  const TsTileStmt *s = v->stmt;
  if (!v->type.rank || !s || g->visit[v->id] == g->visits || find_home(g, v)) return;
  g->visit[v->id] = g->visits;
  TsGpuFrame *f = ts_gpu_frame_found(g, &v->type);
  if (!free && f && f->memo[v->id]) return;
  if (!free && (same_order(g, s, f) || ts_gpu_matrix_spread(g, s, f))) {
    prepare_moves(g, s->in[0], false);
    return;
  }
  if (moves(s) && wants_home(g, s, s->in[0])) {
    ts_gpu_home(g, s->in[0]);
    return;
  }
  if (s->op == TS_TILE_join) {
    for (int i = 0; i < s->nin; i++)
      if (ts_gpu_resident(g, &s->in[i]->type)) ts_gpu_home(g, s->in[i]);
    return;
  }
  if (!is_compute(s) && !moves(s) && s->op != TS_TILE_rare) return;
  for (int i = 0; i < s->nin; i++) prepare_moves(g, s->in[i], free || moves(s));
}

void ts_gpu_prepare(TsGpuEmit *g, TsTileVal v) {
  g->visits++;
  prepare_moves(g, v, true);
}

/* ---- elements in frames */
static V joined(TsGpuEmit *g, const TsTileStmt *s, const TsGpuCoord *at) {
  int64_t axis = ts_tile_attr(s, "axis")->i, begin = 0;
  V c = ts_gpu_coord(g, at[axis]), x = NULL;
  for (int i = 0; i < s->nin; i++) {
    int64_t n = s->in[i]->type.dim[axis];
    TsGpuCoord to[TS_TILE_RANK];
    memcpy(to, at, sizeof to);
    V own = LLVMBuildSub(g->e->b, c, ts_gpu_i64(g, begin), "");
    own = ts_emit_call2(g->e, "llvm.smax", own, ts_gpu_i64(g, 0));
    to[axis] = (TsGpuCoord){ts_emit_call2(g->e, "llvm.smin", own, ts_gpu_i64(g, n - 1)), 0, 0};
    V y = n ? ts_gpu_elem_at(g, s->in[i], to) : NULL;
    V in = LLVMBuildICmp(g->e->b, LLVMIntSGE, c, ts_gpu_i64(g, begin), "");
    if (y) x = x ? LLVMBuildSelect(g->e->b, in, y, x, "") : y;
    begin += n;
  }
  return x;
}

enum { LOADS_FIRST = 16 };

/* Loads that v is made of, each once; g->visits is new. */
static void find_loads(TsGpuEmit *g, TsGpuFrame *f, TsTileVal v, int slot, TsTileVal *list,
                       int *n) {
  const TsTileStmt *s = v->stmt;
  if (!s || !v->type.rank || g->visit[v->id] == g->visits) return;
  g->visit[v->id] = g->visits;
  if (f->memo[v->id] && f->memo[v->id][slot]) return;
  if (s->op == TS_TILE_load && *n < LOADS_FIRST) list[(*n)++] = v;
  if (!is_compute(s)) return;
  for (int i = 0; i < s->nin; i++) find_loads(g, f, s->in[i], slot, list, n);
}

/* Outside of a branch, where they are seen behind it. */
static void load_first(TsGpuEmit *g, TsGpuFrame *f, TsTileVal v, int slot) {
  TsTileVal list[LOADS_FIRST];
  int n = 0;
  g->visits++;
  find_loads(g, f, v, slot, list, &n);
  for (int i = 0; i < n; i++) ts_gpu_elem(g, f, list[i], slot);
}

/* The third operand is computed behind a branch, and what was computed on the way there is
 * forgotten. What others need comes first: between branches little is under way. */
static V rare(TsGpuEmit *g, TsGpuFrame *f, const TsTileStmt *s, int slot) {
  LLVMBuilderRef b = g->e->b;
  size_t n = g->e->k->nvalue + 1;
  int some = f->vector < TOGETHER ? f->vector : TOGETHER, first = slot / some * some;
  for (int i = first; i < first + some; i++) {
    load_first(g, f, s->in[2], i);
    g->single = true;
    ts_gpu_elem(g, f, s->in[1], i);
    g->single = false;
    ts_gpu_elem(g, f, s->in[0], i);
  }
  V x[2] = {ts_gpu_elem(g, f, s->in[1], slot)}, holds = ts_gpu_elem(g, f, s->in[0], slot);
  V *known = ts_emit_take(g->e, sizeof *known * n);
  for (size_t i = 0; i < n; i++) known[i] = f->memo[i] ? f->memo[i][slot] : NULL;
  LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(b)}, after = ts_gpu_if(g, holds);
  x[1] = ts_gpu_elem(g, f, s->in[2], slot);
  from[1] = LLVMGetInsertBlock(b);
  ts_gpu_if_end(g, after);
  for (size_t i = 0; i < n; i++)
    if (f->memo[i]) f->memo[i][slot] = known[i];
  V y = LLVMBuildPhi(b, LLVMTypeOf(x[0]), "");
  LLVMAddIncoming(y, x, from, 2);
  return y;
}

static V elem_new(TsGpuEmit *g, TsGpuFrame *f, TsTileVal v, int slot) {
  const TsTileStmt *s = v->stmt;
  TsGpuCoord at[TS_TILE_RANK], to[TS_TILE_RANK];
  V in[4];
  if (!s) ts_emit_fail(g->e, "a tile round a loop is too large for registers");
  switch (s->op) {
  case TS_TILE_const:
  case TS_TILE_bits: return constant(g, v);
  case TS_TILE_iota: return index_as(g, v, f->at[slot][ts_tile_attr(s, "axis")->i]);
  case TS_TILE_join: ts_gpu_slot_at(g, f, slot, to); return joined(g, s, to);
  case TS_TILE_rare: return rare(g, f, s, slot);
  default: break;
  }
  if (moves(s)) {
    if (!s->in[0]->type.rank) return ts_gpu_scalar(g, s->in[0]);
    TsGpuFrame *same = same_order(g, s, f);
    if (same) return ts_gpu_elem(g, same, s->in[0], slot);
    TsGpuFrame *rows = ts_gpu_matrix_spread(g, s, f);
    if (rows) return ts_gpu_elem(g, rows, s->in[0], ts_gpu_matrix_row_of(f, slot));
    ts_gpu_slot_at(g, f, slot, at);
    operand_coords(g, s, at, to);
    return ts_gpu_elem_at(g, s->in[0], to);
  }
  if (s == g->rows.else_of) return ts_gpu_elem(g, f, s->in[2], slot);
  if (!is_compute(s) || s->nin > 3)
    ts_emit_fail(g->e, "%s: its result is too large for registers", ts_tile_op_name(s->op));
  for (int i = 0; i < s->nin; i++) in[i] = ts_gpu_elem(g, f, s->in[i], slot);
  return compute(g, s, in);
}

static V *memo_of(TsGpuEmit *g, TsGpuFrame *f, TsTileVal v) {
  size_t n = (size_t)(f->vector * f->chunks);
  if (f->memo[v->id]) return f->memo[v->id];
  V *list = ts_emit_take(g->e, sizeof *list * n);
  memset(list, 0, sizeof *list * n);
  return f->memo[v->id] = list;
}

/* A vector of a row that lies in shared memory as it did before. */
static void read_home(TsGpuEmit *g, const TsGpuHome *h, TsGpuFrame *f, int k, V *out) {
  TsDtype d = (TsDtype)h->v->type.dtype;
  const TsGpuCoord *at = f->at[k * f->vector];
  V p = ts_gpu_shared_at(g, h->offset + at->off * ts_dtypes[d].nbytes, ts_gpu_stored(g, d),
                         at->base);
  ts_gpu_read_row(g, d, p, f->vector, out);
}

V ts_gpu_elem(TsGpuEmit *g, TsGpuFrame *f, TsTileVal v, int slot) {
  if (!v->type.rank) return ts_gpu_scalar(g, v);
  V *list = memo_of(g, f, v);
  if (list[slot]) return list[slot];
  if (v->stmt && v->stmt->op == TS_TILE_load) {
    int k = slot / f->vector;
    const TsGpuHome *h = f->loose ? find_home(g, v) : NULL;
    if (h && h->row)
      read_home(g, h, f, k, list + k * f->vector);
    else
      ts_gpu_load_chunk(g, f, v->stmt, k, list + k * f->vector);
    return list[slot];
  }
  return list[slot] = elem_new(g, f, v, slot);
}

void ts_gpu_slots_begin(TsGpuEmit *g, TsTileVal v) {
  g->visits++;
  prepare_moves(g, v, false);
}

V *ts_gpu_slots(TsGpuEmit *g, TsGpuFrame *f, TsTileVal v) {
  V *out = ts_emit_take(g->e, sizeof *out * (size_t)(f->vector * f->chunks));
  if (!f->loose) ts_gpu_slots_begin(g, v);
  for (int i = 0; i < f->vector * f->chunks; i++) out[i] = ts_gpu_elem(g, f, v, i);
  return out;
}

void ts_gpu_force(TsGpuEmit *g, TsTileVal v) {
  if (!ts_gpu_is_tile(v) || !ts_gpu_resident(g, &v->type)) return;
  ts_gpu_slots(g, ts_gpu_frame(g, &v->type), v);
}

V ts_gpu_scalar(TsGpuEmit *g, TsTileVal v) {
  if (v->type.rank) ts_emit_fail(g->e, "a scalar is wanted");
  if (!g->scalar[v->id]) ts_emit_fail(g->e, "a value is used where it is not visible");
  return g->scalar[v->id];
}

/* ---- homes */
static bool read_transposed(const TsGpuEmit *g, TsTileVal v, const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nin; i++)
      if (s->in[i] == v && transposes(s)) return true;
    for (int i = 0; i < s->nregion; i++)
      if (read_transposed(g, v, s->region[i])) return true;
  }
  return false;
}

/* The vector of chunk k into shared memory. */
static void put_chunk(TsGpuEmit *g, const TsGpuHome *h, TsGpuFrame *f, const V *x, int k) {
  TsEmit *e = g->e;
  TsDtype d = (TsDtype)h->v->type.dtype;
  LLVMTypeRef m = ts_gpu_stored(g, d);
  int size = ts_dtypes[d].nbytes, n = f->vector;
  int64_t off;
  V linear = home_place(g, h, f->at[k * n], &off);
  LLVMBasicBlockRef after = f->valid[k] ? ts_gpu_if(g, f->valid[k]) : NULL;
  V p = ts_gpu_shared_at(g, h->offset + off * size, m, linear);
  bool whole = n > 1 && n * size <= 16 && h->pitch % n == 0;
  if (whole) {
    V vector = LLVMGetPoison(LLVMVectorType(m, (unsigned)n));
    for (int i = 0; i < n; i++)
      vector = LLVMBuildInsertElement(e->b, vector, ts_gpu_to_stored(g, d, x[k * n + i]),
                                      ts_emit_int(e, ts_emit_int_type(e, 32, 0), i), "");
    LLVMSetAlignment(LLVMBuildStore(e->b, vector, p), (unsigned)(n * size));
  }
  for (int i = 0; i < n && !whole; i++) {
    V by = ts_gpu_i64(g, i);
    LLVMBuildStore(e->b, ts_gpu_to_stored(g, d, x[k * n + i]),
                   LLVMBuildInBoundsGEP2(e->b, m, p, &by, 1, ""));
  }
  if (after) ts_gpu_if_end(g, after);
}

TsGpuHome *ts_gpu_home(TsGpuEmit *g, TsTileVal v) {
  TsGpuHome *h = find_home(g, v);
  if (h) return h;
  TsGpuFrame *f = ts_gpu_frame(g, &v->type);
  V *x = ts_gpu_slots(g, f, v);
  int64_t last = v->type.dim[v->type.rank - 1], size = ts_dtypes[v->type.dtype].nbytes;
  h = ts_emit_take(g->e, sizeof *h);
  *h = (TsGpuHome){.v = v, .pitch = (int)last};
  bool lines = v->type.rank == 2 && f->vector * size == 16 && last * size % 128 == 0;
  if (lines && read_transposed(g, v, g->phase->loop->region[0]))
    h->swizzle = f->vector;
  else if (v->type.rank > 1 && last * size % 64 == 0 &&
           read_transposed(g, v, g->phase->loop->region[0]))
    h->pitch += size < 4 ? (int)(4 / size) : 1;
  h->offset =
      ts_gpu_shared_take(g, ts_tile_numel(&v->type) / (last ? last : 1) * h->pitch * size);
  for (int k = 0; k < f->chunks; k++) put_chunk(g, h, f, x, k);
  ts_gpu_sync(g);
  h->next = g->homes;
  return g->homes = h;
}
