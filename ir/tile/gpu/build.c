/* Short forms for kernels with roles: ir/tile/gpu/build.h. */
#include "ir/tile/gpu/build.h"

#include <stdio.h>
#include <string.h>

typedef TsTileVal V;

TsAttr ts_gpu_whole(int64_t i) { return (TsAttr){.type = TS_ATTR_int, .i = i}; }
TsAttr ts_gpu_word(const char *s) { return (TsAttr){.type = TS_ATTR_str, .str = s}; }
TsAttr ts_gpu_choice(int i) { return (TsAttr){.type = TS_ATTR_choice, .i = i}; }
TsAttr ts_gpu_list(int n, const int64_t *v) {
  return (TsAttr){.type = TS_ATTR_ints, .n = n, .ints = v};
}
static TsAttr flag(bool b) { return (TsAttr){.type = TS_ATTR_bool, .i = b}; }

static bool is_named(const TsAttrSpec *spec, const char *name) {
  return strlen(name) == (size_t)spec->namelen &&
         !memcmp(name, spec->name, (size_t)spec->namelen);
}

TsTileStmt *ts_gpu_say(TsTileBuild *b, int op, int nin, const V *in, int n,
                       const TsGpuOption *o, const TsTileType *out) {
  TsAttr attr[TS_MAX_ATTR];
  int nspec;
  const TsAttrSpec *spec = ts_tile_op_attrs(op, &nspec);
  for (int i = 0; i < nin; i++)
    if (!in[i]) return b->k->failed = true, NULL;
  for (int i = 0; i < nspec; i++) {
    attr[i] = spec[i].preset;
    for (int k = 0; k < n; k++)
      if (is_named(&spec[i], o[k].name)) attr[i] = o[k].value;
  }
  return ts_tile_emit(b, op, nin, in, attr, out != NULL, out);
}

V ts_gpu_give(TsTileBuild *b, int op, int nin, const V *in, int n, const TsGpuOption *o,
              const TsTileType *out) {
  TsTileStmt *s = ts_gpu_say(b, op, nin, in, n, o, out);
  return s ? s->out[0] : ts_tile_lost(out);
}

/* ---- positions */
V ts_gpu_by(TsTileBuild *b, int op, V x, int64_t y) {
  return ts_tile_op2(b, op, x, ts_tile_index(b, y));
}

V ts_gpu_div_up(TsTileBuild *b, V x, int64_t y) {
  return ts_gpu_by(b, TS_OP_floordiv, ts_gpu_by(b, TS_OP_add, x, y - 1), y);
}

V ts_gpu_share(TsTileBuild *b, V total, V first, V blocks) {
  V left = ts_tile_op2(b, TS_OP_sub, total, first), less = ts_gpu_by(b, TS_OP_sub, blocks, 1);
  return ts_tile_op2(b, TS_OP_floordiv, ts_tile_op2(b, TS_OP_add, left, less), blocks);
}

void ts_gpu_order(TsTile *k, const char *order, int64_t n) {
  char text[40];
  snprintf(text, sizeof text, n ? "%s:%lld" : "%s", order, (long long)n);
  if (!(k->order = ts_arena_text(&k->arena, text))) k->failed = true;
}

V ts_gpu_size(TsTileBuild *b, int index, const char *name) {
  TsTileType t = ts_tile_scalar(TS_DT_i64);
  return ts_gpu_named(
      ts_gpu_give(b, TS_TILE_dim, TS_GPU_PLAIN, TS_GPU_SET({"index", ts_gpu_whole(index)}), &t),
      name);
}

/* ---- memory */
V ts_gpu_matrix(TsTileBuild *b, const char *name, TsDtype d, int64_t rows, int64_t cols,
                bool written) {
  TsTileType t = ts_tile_type(d, 2, (int64_t[]){rows, cols});
  return ts_tile_param(b->k, name, &t, written);
}

/* ---- memory of a block */
V ts_gpu_shared(TsTileBuild *b, const char *name, TsDtype d, int rank, const int64_t *dim,
                int swizzle) {
  TsTileType t = ts_tile_type(d, rank, dim);
  t.swizzle = (uint16_t)swizzle;
  return ts_gpu_named(ts_tile_alloc(b, TS_SPACE_shared, &t), name);
}

V ts_gpu_barriers(TsTileBuild *b, const char *name, int n, int count) {
  TsTileType t = ts_tile_vector(TS_DT_i64, n);
  t.count = (uint16_t)count;
  return ts_gpu_named(ts_tile_alloc(b, TS_SPACE_barrier, &t), name);
}

/* ---- fragments */
TsTileType ts_gpu_fragment(TsDtype d, int64_t rows, int64_t cols) {
  TsTileType t = ts_tile_type(d, cols ? 2 : 1, (int64_t[]){rows, cols});
  t.space = TS_SPACE_fragment;
  return t;
}

V ts_gpu_zeros(TsTileBuild *b, int64_t rows, int64_t cols) {
  TsTileType t = ts_gpu_fragment(TS_DT_f32, rows, cols);
  return ts_tile_const(b, 0, &t);
}

V ts_gpu_all(TsTileBuild *b, double v, const TsTileType *like) {
  TsTileType t = *like;
  t.dtype = TS_DT_f32;
  return ts_tile_const(b, v, &t);
}

V ts_gpu_operand(TsTileBuild *b, V memory, V slot, bool transposed) {
  static const int64_t axes[2] = {2, 1};
  V zero = ts_tile_index(b, 0), at[3] = {slot, zero, zero};
  if (!memory) return NULL;
  const int64_t *dim = memory->type.dim;
  TsTileType t =
      ts_gpu_fragment((TsDtype)memory->type.dtype, dim[1 + transposed], dim[2 - transposed]);
  TsTileAccess access = {.naxis = 2, .axes = axes};
  return ts_tile_load(b, memory, at, &t, transposed ? &access : NULL);
}

V ts_gpu_mma(TsTileBuild *b, V x, V y, V acc) {
  return acc ? ts_gpu_give(b, TS_TILE_mma, TS_GPU_IN(x, y, acc),
                           TS_GPU_SET({"unit", ts_gpu_word("wgmma")}), &acc->type)
             : NULL;
}

V ts_gpu_span(TsTileBuild *b, V x, int64_t from, int64_t n) {
  if (!x) return NULL;
  TsTileType t = x->type;
  int64_t start[2] = {0, from};
  t.dim[1] = n;
  return ts_gpu_give(b, TS_TILE_part, TS_GPU_IN(x),
                     TS_GPU_SET({"start", ts_gpu_list(2, start)}), &t);
}

V ts_gpu_spread(TsTileBuild *b, V x, const TsTileType *like, int axis) {
  int64_t axes[1] = {axis};
  return ts_tile_broadcast(b, x, like, axes);
}

V ts_gpu_ex2(TsTileBuild *b, V x) {
  return x ? ts_gpu_give(b, TS_TILE_ex2, TS_GPU_IN(x), TS_GPU_PLAIN, &x->type) : NULL;
}

V ts_gpu_larger(TsTileBuild *b, V x, V y) {
  return x ? ts_gpu_give(b, TS_TILE_larger, TS_GPU_IN(x, y), TS_GPU_PLAIN, &x->type) : NULL;
}

/* ---- control */
void ts_gpu_commit(TsTileBuild *b, int of) {
  ts_gpu_say(b, TS_TILE_commit, TS_GPU_PLAIN, TS_GPU_SET({"of", ts_gpu_choice(of)}), NULL);
}

void ts_gpu_wait(TsTileBuild *b, int of, int pending) {
  ts_gpu_say(b, TS_TILE_wait, TS_GPU_PLAIN,
             TS_GPU_SET({"pending", ts_gpu_whole(pending)}, {"of", ts_gpu_choice(of)}), NULL);
}

void ts_gpu_await(TsTileBuild *b, V barrier, V slot, V parity) {
  ts_gpu_say(b, TS_TILE_await, TS_GPU_IN(barrier, slot, parity), TS_GPU_PLAIN, NULL);
}

void ts_gpu_arrive(TsTileBuild *b, V barrier, V slot) {
  ts_gpu_say(b, TS_TILE_arrive, TS_GPU_IN(barrier, slot), TS_GPU_PLAIN, NULL);
}

void ts_gpu_plain(TsTileBuild *b, int op) {
  ts_gpu_say(b, op, TS_GPU_PLAIN, TS_GPU_PLAIN, NULL);
}

void ts_gpu_async_fence(TsTileBuild *b) {
  ts_gpu_say(b, TS_TILE_fence, TS_GPU_PLAIN, TS_GPU_SET({"scope", ts_gpu_choice(2)}), NULL);
}

void ts_gpu_turn(TsTileBuild *b, bool end) {
  ts_gpu_say(b, TS_TILE_turn, TS_GPU_PLAIN, TS_GPU_SET({"end", flag(end)}), NULL);
}

void ts_gpu_registers(TsTileBuild *b, int n) {
  ts_gpu_say(b, TS_TILE_registers, TS_GPU_PLAIN, TS_GPU_SET({"count", ts_gpu_whole(n)}), NULL);
}

static TsTileRegion *enter(TsTileBuild *b, TsTileStmt *s) {
  TsTileRegion *before = b->at;
  if (s) b->at = s->region[0];
  return before;
}

TsTileRegion *ts_gpu_role(TsTileBuild *b, const char *name, int warps) {
  return enter(
      b, ts_gpu_say(b, TS_TILE_role, TS_GPU_PLAIN,
                    TS_GPU_SET({"name", ts_gpu_word(name)}, {"warps", ts_gpu_whole(warps)}),
                    NULL));
}

TsTileRegion *ts_gpu_role_with_lanes(TsTileBuild *b, const char *name, int warps) {
  return enter(b, ts_gpu_say(b, TS_TILE_role, TS_GPU_PLAIN,
                             TS_GPU_SET({"name", ts_gpu_word(name)},
                                        {"warps", ts_gpu_whole(warps)}, {"lanes", flag(true)}),
                             NULL));
}

TsTileRegion *ts_gpu_when(TsTileBuild *b, V condition) {
  return enter(b, ts_gpu_say(b, TS_TILE_if, TS_GPU_IN(condition), TS_GPU_PLAIN, NULL));
}

int64_t ts_gpu_slot_bytes(V memory) {
  const TsTileType *t = &memory->type;
  return t->dim[1] * t->dim[2] * ts_dtypes[t->dtype].nbytes;
}

void ts_gpu_expect(TsTileBuild *b, V barrier, V slot, V memory) {
  if (!memory) return;
  ts_gpu_say(b, TS_TILE_expect, TS_GPU_IN(barrier, slot),
             TS_GPU_SET({"bytes", ts_gpu_whole(ts_gpu_slot_bytes(memory))}), NULL);
  ts_gpu_arrive(b, barrier, slot);
}

void ts_gpu_fetch_rows(TsTileBuild *b, V to, V from, V barrier, V slot, int at, int rows,
                       V head, V row) {
  V zero = ts_tile_index(b, 0);
  if (!to) return;
  int64_t shape[2] = {rows, to->type.dim[2]};
  ts_gpu_say(
      b, TS_TILE_copy_bulk,
      TS_GPU_IN(to, from, barrier, slot, slot, ts_tile_index(b, at), zero, head, row, zero),
      TS_GPU_SET({"shape", ts_gpu_list(2, shape)}), NULL);
}

void ts_gpu_fetch_once(TsTileBuild *b, V to, V from, V barrier, V slot, V head, V row) {
  V zero = ts_tile_index(b, 0);
  if (!to) return;
  ts_gpu_say(b, TS_TILE_copy_bulk,
             TS_GPU_IN(to, from, barrier, slot, slot, zero, zero, head, row, zero),
             TS_GPU_SET({"shape", ts_gpu_list(2, to->type.dim + 1)}, {"stream", flag(true)}),
             NULL);
}

void ts_gpu_fetch(TsTileBuild *b, V to, V from, V barrier, V slot, V batch, V head, V row) {
  V zero = ts_tile_index(b, 0);
  if (!to) return;
  TsAttr shape = ts_gpu_list(2, to->type.dim + 1);
  if (batch)
    ts_gpu_say(b, TS_TILE_copy_bulk,
               TS_GPU_IN(to, from, barrier, slot, slot, zero, zero, batch, head, row, zero),
               TS_GPU_SET({"shape", shape}), NULL);
  else
    ts_gpu_say(b, TS_TILE_copy_bulk,
               TS_GPU_IN(to, from, barrier, slot, slot, zero, zero, head, row, zero),
               TS_GPU_SET({"shape", shape}), NULL);
}

void ts_gpu_advance(TsTileBuild *b, V *s, V *parity, int n) {
  V next = ts_gpu_by(b, TS_OP_add, *s, 1), end = ts_gpu_by(b, TS_OP_eq, next, n);
  V over = ts_tile_cast(b, end, TS_DT_i64);
  *s = ts_tile_op3(b, TS_OP_where, end, ts_tile_index(b, 0), next);
  *parity = ts_tile_op2(b, TS_OP_bitwise_xor, *parity, over);
}

TsGpuRepeat ts_gpu_repeat(TsTileBuild *b, int n, const V *first) {
  TsTileType type[32] = {{0}};
  TsGpuRepeat l = {.before = b->at}, lost = l;
  TS_ASSERT(n <= 32);
  lost.carry = ts_tile_lost_carry(n, first);
  for (int i = 0; i < n; i++) {
    if (!first[i]) return b->k->failed = true, lost;
    type[i] = first[i]->type;
  }
  l.stmt = ts_tile_emit(b, TS_TILE_repeat, n, first, NULL, n, type);
  if (!l.stmt) return lost;
  for (int i = 0; i < n; i++) ts_tile_region_param(b->k, l.stmt->region[0], &type[i]);
  if (b->k->failed) return lost;
  l.carry = l.stmt->region[0]->param;
  b->at = l.stmt->region[0];
  return l;
}

void ts_gpu_repeat_end(TsTileBuild *b, TsGpuRepeat *l, V again, const V *next) {
  V all[33] = {again};
  if (!l->stmt || b->k->failed) return;
  int n = l->stmt->nout;
  for (int i = 0; i < n; i++) all[1 + i] = next[i];
  ts_gpu_say(b, TS_TILE_yield, n + 1, all, TS_GPU_PLAIN, NULL);
  b->at = l->before;
}
