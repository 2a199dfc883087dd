/* Loads and stores: pointers, masks at edges, elements apart. Positions are i64, counted in
 * elements; a row of a tile that lies along an axis of stride 1 is one access, another one
 * gathers. */
#include <stdio.h>

#include "jit/emit/cpu/emit.h"

typedef LLVMValueRef V;

/* ---- memory values: pointer, strides */
void ts_emit_memory_begin(TsEmit *e, TsTileVal memory, LLVMValueRef pointer) {
  const TsTileType *t = &memory->type;
  V *part = ts_emit_define(e, memory), stride = ts_emit_i64(e, 1);
  part[0] = pointer;
  for (int a = t->rank; a-- > 0;) {
    part[1 + a] = t->strided ? ts_emit_i64(e, t->stride[a]) : stride;
    stride = LLVMBuildNSWMul(e->b, stride, ts_emit_size(e, t->dim[a]), "");
  }
}

static LLVMTypeRef stored(TsEmit *e, TsDtype d, int lanes) {
  return d == TS_DT_bool ? ts_emit_int_type(e, 8, lanes) : ts_emit_type(e, d, lanes);
}

static V to_stored(TsEmit *e, TsDtype d, V x) {
  return d == TS_DT_bool ? LLVMBuildZExt(e->b, x, stored(e, d, ts_emit_lanes(x)), "") : x;
}

static V from_stored(TsEmit *e, TsDtype d, V x) {
  return d == TS_DT_bool ? ts_emit_cast(e, TS_DT_bool, TS_DT_u8, x) : x;
}

/* ---- one access: where the rows of a tile are */
typedef struct Access {
  TsTileVal memory;
  const TsTileVal *at;
  const TsTileType *tile;
  TsDtype d;
  int axis[2]; /* of the memory, for the tile's axes */
  bool edge, stream, aligned;
  int lanes;            /* of a row; 1 for a scalar, which is a row of one at an edge */
  V pointer;            /* of the tile's first element */
  V row_stride, stride; /* between rows and between elements of a row */
  V from, until;        /* at an edge: which elements of a row are inside, i64 */
  V row_at, row_size;   /* position of the first row and size of its axis at an edge */
} Access;

/* Never below zero, as far as it can be seen: bounds of loops, constants, sizes. */
static bool natural(const TsTileValue *v, int depth) {
  const TsTileStmt *s = v->stmt;
  if (depth > 8) return false;
  if (v->region && v->region->owner && v->region->owner->op == TS_TILE_for && v->index == 0)
    return natural(v->region->owner->in[0], depth + 1);
  if (!s) return false;
  switch (s->op) {
  case TS_TILE_const: return ts_tile_attr(s, "value")->f >= 0;
  case TS_TILE_dim: return true;
  case TS_OP_add:
  case TS_OP_mul:
  case TS_OP_floordiv:
  case TS_OP_minimum: return natural(s->in[0], depth + 1) && natural(s->in[1], depth + 1);
  case TS_OP_mod: return natural(s->in[1], depth + 1);
  case TS_OP_bitwise_and:
  case TS_OP_maximum: return natural(s->in[0], depth + 1) || natural(s->in[1], depth + 1);
  default: return false;
  }
}

static V clamped(TsEmit *e, V x, int64_t most) {
  x = ts_emit_call2(e, "llvm.smax", x, ts_emit_i64(e, 0));
  return ts_emit_call2(e, "llvm.smin", x, ts_emit_i64(e, most));
}

static V below_count(TsEmit *e, V count, int lanes) {
  V n = LLVMBuildTrunc(e->b, count, ts_emit_int_type(e, 32, 0), "");
  return LLVMBuildICmp(e->b, LLVMIntULT, ts_emit_iota(e, 32, lanes), ts_emit_splat(e, n, lanes),
                       "");
}

/* Which elements from a position on lie inside; `inside` tells about other axes. */
static void find_inside(TsEmit *e, Access *a, int axis, V inside) {
  a->from = ts_emit_i64(e, 0), a->until = ts_emit_i64(e, 1);
  if (axis >= 0) {
    V at = ts_emit_scalar(e, a->at[axis]), size = ts_emit_size(e, a->memory->type.dim[axis]);
    a->until = clamped(e, LLVMBuildNSWSub(e->b, size, at, ""), a->lanes);
    if (!natural(a->at[axis], 0))
      a->from = clamped(e, LLVMBuildNSWSub(e->b, a->from, at, ""), a->lanes);
  }
  if (inside) a->until = LLVMBuildSelect(e->b, inside, a->until, ts_emit_i64(e, 0), "");
}

static void find_edge(TsEmit *e, Access *a) {
  int rank = a->tile->rank, last = rank ? a->axis[rank - 1] : -1;
  V inside = NULL;
  for (int k = 0; k < a->memory->type.rank; k++) {
    if (k == last) continue;
    V at = ts_emit_scalar(e, a->at[k]), size = ts_emit_size(e, a->memory->type.dim[k]);
    if (rank == 2 && k == a->axis[0]) {
      a->row_at = at, a->row_size = size;
      continue;
    }
    V good = LLVMBuildICmp(e->b, LLVMIntULT, at, size, "");
    inside = inside ? LLVMBuildAnd(e->b, inside, good, "") : good;
  }
  find_inside(e, a, last, inside);
}

/* At an edge the pointer may lie outside of the memory, so it is computed as a number. */
static V moved(TsEmit *e, const Access *a, V from, V by) {
  LLVMTypeRef t = stored(e, a->d, 0);
  if (a->edge) return LLVMBuildGEP2(e->b, t, from, &by, 1, "");
  return LLVMBuildInBoundsGEP2(e->b, t, from, &by, 1, "");
}

static Access find(TsEmit *e, const TsTileStmt *s, const TsTileType *tile) {
  Access a = {.memory = s->in[0], .at = s->in + 1, .tile = tile, .d = s->in[0]->type.dtype};
  const TsTileType *m = &a.memory->type;
  V *part = ts_emit_registers(e, a.memory);
  const TsAttr *axes = ts_tile_attr(s, "axes");
  if (!ts_tile_memory(m) || m->space > TS_SPACE_local || tile->rank > m->rank || tile->rank > 2)
    ts_emit_fail(e, "%s: a tile that a CPU cannot reach", ts_tile_op_name(s->op));
  for (int i = 0; i < tile->rank; i++) {
    a.axis[i] =
        axes->type == TS_ATTR_ints && axes->n ? (int)axes->ints[i] : m->rank - tile->rank + i;
    if (a.axis[i] < 0 || a.axis[i] >= m->rank)
      ts_emit_fail(e, "%s: no such axis", ts_tile_op_name(s->op));
  }
  a.edge = ts_tile_attr(s, "edge")->i;
  a.stream = ts_tile_attr(s, "stream")->i;
  a.aligned = s->op == TS_TILE_store && ts_tile_attr(s, "aligned")->i;
  a.lanes = tile->rank ? ts_emit_width(tile) : 1;
  a.pointer = ts_emit_address(e, a.memory, a.at, stored(e, a.d, 0));
  a.stride = tile->rank ? part[1 + a.axis[tile->rank - 1]] : ts_emit_i64(e, 1);
  if (tile->rank == 2) a.row_stride = part[1 + a.axis[0]];
  if (a.edge) find_edge(e, &a);
  return a;
}

static V row_pointer(TsEmit *e, const Access *a, int r) {
  if (!r) return a->pointer;
  return moved(e, a, a->pointer, LLVMBuildNSWMul(e->b, a->row_stride, ts_emit_i64(e, r), ""));
}

/* Where the elements of row r that are inside end. */
static V row_until(TsEmit *e, const Access *a, int r) {
  if (!a->row_at) return a->until;
  V at = LLVMBuildAdd(e->b, a->row_at, ts_emit_i64(e, r), "");
  V inside = LLVMBuildICmp(e->b, LLVMIntULT, at, a->row_size, "");
  return LLVMBuildSelect(e->b, inside, a->until, ts_emit_i64(e, 0), "");
}

static bool is_zero(V v) { return LLVMIsAConstantInt(v) && LLVMConstIntGetSExtValue(v) == 0; }

static V row_mask(TsEmit *e, const Access *a, int r) {
  V mask = below_count(e, row_until(e, a, r), a->lanes);
  if (is_zero(a->from)) return mask;
  return LLVMBuildAnd(e->b, mask, LLVMBuildNot(e->b, below_count(e, a->from, a->lanes), ""),
                      "");
}

static bool is_one(V v) { return LLVMIsAConstantInt(v) && LLVMConstIntGetSExtValue(v) == 1; }

/* ---- masked accesses. Since LLVM 22 the alignment is an attribute of the pointer and no
 * operand; without it a gather assumes that of its element, the others 1. */
static V masked(TsEmit *e, const char *name, int align, LLVMTypeRef data, V where, V mask,
                V other, V value) {
  V in[4];
  int n = 0;
  LLVMTypeRef type[2] = {data, LLVMTypeOf(where)};
  if (value) in[n++] = value;
  unsigned pointer = (unsigned)n;
  in[n++] = where;
#if LLVM_VERSION_MAJOR < 22
  in[n++] = ts_emit_int(e, ts_emit_int_type(e, 32, 0), align);
#endif
  in[n++] = mask;
  if (other) in[n++] = other;
  V call = ts_emit_call(e, name, 2, type, n, in);
#if LLVM_VERSION_MAJOR >= 22
  unsigned kind = LLVMGetEnumAttributeKindForName("align", 5);
  LLVMAddCallSiteAttribute(call, pointer + 1,
                           LLVMCreateEnumAttribute(e->ctx, kind, (uint64_t)align));
#else
  (void)pointer;
#endif
  return call;
}

static V apart(TsEmit *e, const Access *a, V pointer) {
  V by = LLVMBuildMul(e->b, ts_emit_iota(e, 64, a->lanes),
                      ts_emit_splat(e, a->stride, a->lanes), "");
  return LLVMBuildGEP2(e->b, stored(e, a->d, 0), pointer, &by, 1, "");
}

static V all_lanes(TsEmit *e, int lanes) {
  return ts_emit_int(e, ts_emit_int_type(e, 1, lanes), 1);
}

static V fill_of(TsEmit *e, const TsTileStmt *s, TsDtype d, int lanes) {
  V v = ts_emit_number(e, d, lanes, ts_tile_attr(s, "fill")->f);
  return to_stored(e, d, v);
}

/* ---- edges without masked instructions: LLVM would make a branch for each element, hundreds
 * of blocks for one load. The elements go through a place on the stack instead. */
static bool has_masks(const TsEmit *e, TsDtype d) {
  return e->target->vector_bytes == 64 ||
         (e->target->vector_bytes == 32 && ts_dtypes[d].nbytes >= 4);
}

static V stack_place(TsEmit *e, LLVMTypeRef t) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b), entry = LLVMGetEntryBasicBlock(e->fn);
  LLVMMetadataRef line = LLVMGetCurrentDebugLocation2(e->b);
  LLVMPositionBuilderBefore(e->b, LLVMGetFirstInstruction(entry));
  V place = LLVMBuildAlloca(e->b, t, "");
  LLVMSetAlignment(place, 64);
  LLVMPositionBuilderAtEnd(e->b, here);
  LLVMSetCurrentDebugLocation2(e->b, line);
  return place;
}

/* to[i * step] = from[i * stride] for i from a->from to until, the one or the other by 1. */
static void move_apart(TsEmit *e, const Access *a, V to, V to_step, V from, V from_step,
                       V until) {
  LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
  LLVMBasicBlockRef head = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
  LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
  LLVMTypeRef t = stored(e, a->d, 0);
  unsigned align = ts_dtypes[a->d].nbytes;
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, a->from, until, ""), head, after);
  LLVMPositionBuilderAtEnd(e->b, head);
  V i = LLVMBuildPhi(e->b, ts_emit_int_type(e, 64, 0), "");
  V start = a->from;
  LLVMAddIncoming(i, &start, &before, 1);
  V source = LLVMBuildMul(e->b, i, from_step, ""), goal = LLVMBuildMul(e->b, i, to_step, "");
  V x = LLVMBuildLoad2(e->b, t, LLVMBuildGEP2(e->b, t, from, &source, 1, ""), "");
  LLVMSetAlignment(x, align);
  LLVMSetAlignment(LLVMBuildStore(e->b, x, LLVMBuildGEP2(e->b, t, to, &goal, 1, "")), align);
  V next = LLVMBuildNSWAdd(e->b, i, ts_emit_i64(e, 1), "");
  LLVMAddIncoming(i, &next, &head, 1);
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, until, ""), head, after);
  LLVMPositionBuilderAtEnd(e->b, after);
}

static void move_inside(TsEmit *e, const Access *a, V to, V to_step, V from, V from_step,
                        V until) {
  if (!is_one(to_step) || !is_one(from_step)) {
    move_apart(e, a, to, to_step, from, from_step, until);
    return;
  }
  LLVMTypeRef t = stored(e, a->d, 0);
  V n =
      ts_emit_call2(e, "llvm.smax", LLVMBuildSub(e->b, until, a->from, ""), ts_emit_i64(e, 0));
  V first = a->from, bytes = LLVMBuildMul(e->b, n, ts_emit_i64(e, ts_dtypes[a->d].nbytes), "");
  LLVMBuildMemCpy(e->b, LLVMBuildGEP2(e->b, t, to, &first, 1, ""), ts_dtypes[a->d].nbytes,
                  LLVMBuildGEP2(e->b, t, from, &first, 1, ""), ts_dtypes[a->d].nbytes, bytes);
}

static V load_through(TsEmit *e, const TsTileStmt *s, const Access *a, int r) {
  LLVMTypeRef t = stored(e, a->d, a->lanes);
  V place = stack_place(e, t), one = ts_emit_i64(e, 1);
  LLVMBuildStore(e->b, fill_of(e, s, a->d, a->lanes), place);
  move_inside(e, a, place, one, row_pointer(e, a, r), a->stride, row_until(e, a, r));
  return LLVMBuildLoad2(e->b, t, place, "");
}

static void store_through(TsEmit *e, const Access *a, int r, V x) {
  V place = stack_place(e, LLVMTypeOf(x)), one = ts_emit_i64(e, 1);
  LLVMBuildStore(e->b, x, place);
  move_inside(e, a, row_pointer(e, a, r), a->stride, place, one, row_until(e, a, r));
}

/* One by one: processors need longer for a gather of as many elements. */
static V load_each(TsEmit *e, const Access *a, V at) {
  LLVMTypeRef t = stored(e, a->d, 0);
  V x = LLVMGetPoison(stored(e, a->d, a->lanes));
  for (int i = 0; i < a->lanes; i++) {
    V by = LLVMBuildNSWMul(e->b, a->stride, ts_emit_i64(e, i), "");
    V one = LLVMBuildLoad2(e->b, t, moved(e, a, at, by), "");
    LLVMSetAlignment(one, ts_dtypes[a->d].nbytes);
    x = LLVMBuildInsertElement(e->b, x, one, ts_emit_int(e, ts_emit_int_type(e, 32, 0), i), "");
  }
  return x;
}

static V load_row(TsEmit *e, const TsTileStmt *s, const Access *a, int r) {
  int align = ts_dtypes[a->d].nbytes;
  LLVMTypeRef t = stored(e, a->d, a->lanes);
  if (a->edge && !has_masks(e, a->d)) return load_through(e, s, a, r);
  V at = row_pointer(e, a, r), mask = a->edge ? row_mask(e, a, r) : all_lanes(e, a->lanes);
  V fill = a->edge ? fill_of(e, s, a->d, a->lanes) : LLVMGetPoison(t);
  if (!is_one(a->stride) && !a->edge && a->lanes > 1 && a->lanes <= 16)
    return load_each(e, a, at);
  if (!is_one(a->stride))
    return masked(e, "llvm.masked.gather", align, t, apart(e, a, at), mask, fill, NULL);
  if (a->edge) return masked(e, "llvm.masked.load", align, t, at, mask, fill, NULL);
  V x = LLVMBuildLoad2(e->b, t, at, "");
  LLVMSetAlignment(x, (unsigned)align);
  return x;
}

/* Elements that only multiply rows are loaded one by one: that is a broadcast from memory. */
static bool wanted_apart(const TsEmit *e, TsTileVal v) {
  const TsEmitted *m = &e->value[v->id];
  return v->type.rank == 1 && m->outers && m->uses == m->outers && v->type.dim[0] <= 64;
}

static void load_apart(TsEmit *e, const TsTileStmt *s, const Access *a) {
  V *out = ts_emit_take(e, sizeof *out * (size_t)a->lanes);
  ts_emit_define(e, s->out[0]);
  for (int i = 0; i < a->lanes; i++) {
    V by = LLVMBuildNSWMul(e->b, a->stride, ts_emit_i64(e, i), "");
    out[i] = LLVMBuildLoad2(e->b, stored(e, a->d, 0), moved(e, a, a->pointer, by), "");
    LLVMSetAlignment(out[i], ts_dtypes[a->d].nbytes);
    out[i] = from_stored(e, a->d, out[i]);
  }
  e->value[s->out[0]->id].part = out;
  e->value[s->out[0]->id].split = true;
}

static void load(TsEmit *e, const TsTileStmt *s) {
  Access a = find(e, s, &s->out[0]->type);
  if (s->out[0]->type.dtype != a.d) ts_emit_fail(e, "load: types differ");
  if (e->crowded && !s->out[0]->type.rank) ts_emit_hold(e);
  if (!a.edge && wanted_apart(e, s->out[0])) {
    load_apart(e, s, &a);
    return;
  }
  V *out = ts_emit_define(e, s->out[0]);
  if (!a.tile->rank && !a.edge) {
    *out = LLVMBuildLoad2(e->b, stored(e, a.d, 0), a.pointer, "");
    LLVMSetAlignment(*out, ts_dtypes[a.d].nbytes);
    *out = from_stored(e, a.d, *out);
    return;
  }
  for (int r = 0; r < ts_emit_rows(a.tile); r++)
    out[r] = from_stored(e, a.d, load_row(e, s, &a, r));
  if (!a.tile->rank) *out = ts_emit_lane(e, *out, 0);
}

/* ---- stores */
static V plain_store(TsEmit *e, V x, V at, unsigned align) {
  V s = LLVMBuildStore(e->b, x, at);
  LLVMSetAlignment(s, align);
  return s;
}

static void past_caches(TsEmit *e, V stored) {
  V one = ts_emit_int(e, ts_emit_int_type(e, 32, 0), 1);
  LLVMMetadataRef list = LLVMValueAsMetadata(one);
  LLVMValueRef node = LLVMMetadataAsValue(e->ctx, LLVMMDNodeInContext2(e->ctx, &list, 1));
  LLVMSetMetadata(stored, LLVMGetMDKindIDInContext(e->ctx, "nontemporal", 11), node);
}

/* Past the caches whole aligned vectors only; what stands elsewhere is found when it runs. */
static void stream_store(TsEmit *e, const Access *a, V x, V at) {
  LLVMTypeRef i64 = ts_emit_int_type(e, 64, 0);
  int width = e->target->vector_bytes, align = ts_dtypes[a->d].nbytes;
  if (a->lanes * align % width) {
    plain_store(e, x, at, (unsigned)align);
    return;
  }
  e->streamed = true;
  if (a->aligned) {
    past_caches(e, plain_store(e, x, at, (unsigned)width));
    return;
  }
  V low =
      LLVMBuildAnd(e->b, LLVMBuildPtrToInt(e->b, at, i64, ""), ts_emit_i64(e, width - 1), "");
  LLVMBasicBlockRef past = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
  LLVMBasicBlockRef plain = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
  LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, low, ts_emit_i64(e, 0), ""), past,
                  plain);
  LLVMPositionBuilderAtEnd(e->b, past);
  past_caches(e, plain_store(e, x, at, (unsigned)width));
  LLVMBuildBr(e->b, after);
  LLVMPositionBuilderAtEnd(e->b, plain);
  plain_store(e, x, at, (unsigned)align);
  LLVMBuildBr(e->b, after);
  LLVMPositionBuilderAtEnd(e->b, after);
}

/* How many elements of a row at an edge are inside, where that is known now; else -1. */
static int64_t known_until(TsEmit *e, const Access *a, int r) {
  if (!a->edge || !is_one(a->stride) || !is_zero(a->from)) return -1;
  V until = row_until(e, a, r);
  return LLVMIsAConstantInt(until) ? LLVMConstIntGetSExtValue(until) : -1;
}

/* Masked stores cost a score of cycles (Zen 4), and LLVM 22 writes 4 bytes for a masked store
 * of one constant lane of 2 bytes that come from a narrowing: a shorter vector has neither. */
static bool store_known(TsEmit *e, const Access *a, int r, V x) {
  int64_t n = known_until(e, a, r);
  if (n < 0) return false;
  if (!n) return true;
  V some = n < a->lanes ? ts_emit_span(e, x, 0, (int)n) : x;
  plain_store(e, some, row_pointer(e, a, r), ts_dtypes[a->d].nbytes);
  return true;
}

static void store_row(TsEmit *e, const Access *a, int r, V x) {
  int align = ts_dtypes[a->d].nbytes;
  if (store_known(e, a, r, x)) return;
  if (a->edge && !has_masks(e, a->d)) {
    store_through(e, a, r, x);
    return;
  }
  V at = row_pointer(e, a, r), mask = a->edge ? row_mask(e, a, r) : all_lanes(e, a->lanes);
  if (!is_one(a->stride))
    masked(e, "llvm.masked.scatter", align, LLVMTypeOf(x), apart(e, a, at), mask, NULL, x);
  else if (a->edge)
    masked(e, "llvm.masked.store", align, LLVMTypeOf(x), at, mask, NULL, x);
  else if (a->stream)
    stream_store(e, a, x, at);
  else
    plain_store(e, x, at, (unsigned)align);
}

static void store(TsEmit *e, const TsTileStmt *s) {
  TsTileVal v = s->in[s->nin - 1];
  Access a = find(e, s, &v->type);
  V *in = ts_emit_registers(e, v);
  if (v->type.dtype != a.d) ts_emit_fail(e, "store: types differ");
  if (!a.tile->rank) {
    V x = to_stored(e, a.d, *in);
    if (a.edge)
      store_row(e, &a, 0, ts_emit_splat(e, x, 1));
    else
      plain_store(e, x, a.pointer, ts_dtypes[a.d].nbytes);
    return;
  }
  for (int r = 0; r < ts_emit_rows(a.tile); r++) store_row(e, &a, r, to_stored(e, a.d, in[r]));
}

/* ---- elements at positions */
static V pointers(TsEmit *e, TsTileVal memory, V at) {
  V *part = ts_emit_registers(e, memory);
  if (!is_one(part[1]))
    at = LLVMBuildMul(e->b, at, ts_emit_splat(e, part[1], ts_emit_lanes(at)), "");
  return LLVMBuildGEP2(e->b, stored(e, memory->type.dtype, 0), part[0], &at, 1, "");
}

static V vector_of(TsEmit *e, const TsTileType *t, V x) {
  return t->rank ? x : ts_emit_splat(e, x, 1);
}

static void check_one_axis(TsEmit *e, const TsTileStmt *s) {
  if (s->in[0]->type.rank != 1 || s->in[1]->type.dtype != TS_DT_i64)
    ts_emit_fail(e, "%s: memory of rank 1 and positions of i64", ts_tile_op_name(s->op));
}

static void gather(TsEmit *e, const TsTileStmt *s) {
  const TsTileType *m = &s->in[0]->type, *t = &s->in[1]->type;
  check_one_axis(e, s);
  V *at = ts_emit_registers(e, s->in[1]), *out = ts_emit_define(e, s->out[0]);
  bool edge = ts_tile_attr(s, "edge")->i;
  int lanes = t->rank ? ts_emit_width(t) : 1;
  LLVMTypeRef type = stored(e, m->dtype, lanes);
  for (int r = 0; r < ts_emit_rows(t); r++) {
    V pos = vector_of(e, t, at[r]), mask = all_lanes(e, lanes), fill = LLVMGetPoison(type);
    if (edge) {
      V size = ts_emit_splat(e, ts_emit_size(e, m->dim[0]), lanes);
      mask = LLVMBuildICmp(e->b, LLVMIntULT, pos, size, "");
      fill = fill_of(e, s, m->dtype, lanes);
    }
    V x = masked(e, "llvm.masked.gather", ts_dtypes[m->dtype].nbytes, type,
                 pointers(e, s->in[0], pos), mask, fill, NULL);
    x = from_stored(e, m->dtype, x);
    out[r] = t->rank ? x : ts_emit_lane(e, x, 0);
  }
}

static void scatter(TsEmit *e, const TsTileStmt *s) {
  const TsTileType *m = &s->in[0]->type, *t = &s->in[1]->type;
  check_one_axis(e, s);
  V *at = ts_emit_registers(e, s->in[1]), *in = ts_emit_registers(e, s->in[2]);
  for (int r = 0; r < ts_emit_rows(t); r++) {
    V x = to_stored(e, m->dtype, vector_of(e, t, in[r])), pos = vector_of(e, t, at[r]);
    int lanes = ts_emit_lanes(x);
    V size = ts_emit_splat(e, ts_emit_size(e, m->dim[0]), lanes);
    V mask = ts_tile_attr(s, "edge")->i ? LLVMBuildICmp(e->b, LLVMIntULT, pos, size, "")
                                        : all_lanes(e, lanes);
    masked(e, "llvm.masked.scatter", ts_dtypes[m->dtype].nbytes, LLVMTypeOf(x),
           pointers(e, s->in[0], pos), mask, NULL, x);
  }
}

/* Instructions that do nothing. */
static void rest(TsEmit *e, int n) {
  char text[64];
  int len = snprintf(text, sizeof text, ".rept %d\nnop\n.endr", n);
  LLVMTypeRef f = LLVMFunctionType(LLVMVoidTypeInContext(e->ctx), NULL, 0, 0);
  V nothing = LLVMGetInlineAsm(f, text, (size_t)len, "", 0, 1, 0, LLVMInlineAsmDialectATT, 0);
  LLVMBuildCall2(e->b, f, nothing, NULL, 0, "");
}

static void prefetch(TsEmit *e, const TsTileStmt *s) {
  if (ts_tile_attr(s, "pace")->i) rest(e, (int)ts_tile_attr(s, "pace")->i);
  LLVMTypeRef i32 = ts_emit_int_type(e, 32, 0), p = LLVMPointerTypeInContext(e->ctx, 0);
  LLVMTypeRef elem = stored(e, s->in[0]->type.dtype, 0);
  V in[4] = {ts_emit_address(e, s->in[0], s->in + 1, elem),
             ts_emit_int(e, i32, ts_tile_attr(s, "write")->i),
             ts_emit_int(e, i32, ts_tile_attr(s, "far")->i ? 2 : 3), ts_emit_int(e, i32, 1)};
  ts_emit_call(e, "llvm.prefetch", 1, &p, 4, in);
}

static void aligned(TsEmit *e, const TsTileStmt *s) {
  V at =
      LLVMBuildPtrToInt(e->b, *ts_emit_registers(e, s->in[0]), ts_emit_int_type(e, 64, 0), "");
  V low = LLVMBuildAnd(e->b, at, ts_emit_i64(e, 63), "");
  *ts_emit_define(e, s->out[0]) = LLVMBuildICmp(e->b, LLVMIntEQ, low, ts_emit_i64(e, 0), "");
}

void ts_emit_memory(TsEmit *e, const TsTileStmt *s) {
  switch (s->op) {
  case TS_TILE_load: load(e, s); return;
  case TS_TILE_store: store(e, s); return;
  case TS_TILE_gather: gather(e, s); return;
  case TS_TILE_scatter: scatter(e, s); return;
  case TS_TILE_aligned: aligned(e, s); return;
  default: prefetch(e, s); return;
  }
}
