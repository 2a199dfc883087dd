/* Products of bf16 by instructions that take two steps at once (ir/tile/pairs.h): registers of the
 * matrix unit, which LLVM allocates, and their moves; words in vectors.
 *
 * All registers of a kernel hold 16 rows of 64 bytes, so that it configures the unit once, where
 * the function begins. Zeros are made where they are used and not once: a copy of a register goes
 * through memory. For the same reason no pass of LLVM's may join them (TsEmit.unit). */
#include "ir/tile/pairs.h"
#include "jit/emit/cpu/emit.h"

typedef LLVMValueRef V;

/* ---- which rows a kernel has */
static bool has(const TsTileRegion *r, bool (*of)(const TsTileStmt *s)) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (of(s)) return true;
    for (int i = 0; i < s->nregion; i++)
      if (has(s->region[i], of)) return true;
  }
  return false;
}

static bool is_of_unit(const TsTileStmt *s) {
  return s->nout && s->out[0]->type.space == TS_SPACE_fragment;
}

static bool is_dot2(const TsTileStmt *s) { return s->op == TS_TILE_dot2; }

bool ts_emit_uses_unit(const TsTile *k) { return has(k->body, is_of_unit); }

bool ts_emit_uses_pairs(const TsTile *k) {
  return ts_emit_uses_unit(k) || has(k->body, is_dot2);
}

const char *ts_emit_more_features(const TsEmit *e) {
  if (e->unit) return ",+avx512bf16,+amx-tile,+amx-bf16";
  return e->pairs ? ",+avx512bf16" : "";
}

/* ---- registers of the unit */
bool ts_emit_is_register(const TsTileType *t) { return t->space == TS_SPACE_fragment; }

LLVMTypeRef ts_emit_register_type(TsEmit *e, const TsTileType *t) {
  if (ts_emit_is_register(t)) return LLVMX86AMXTypeInContext(e->ctx);
  return ts_emit_type(e, (TsDtype)t->dtype, ts_emit_width(t));
}

static V short_int(TsEmit *e, int64_t i) {
  return ts_emit_int(e, ts_emit_int_type(e, 16, 0), i);
}

static V call(TsEmit *e, const char *name, int n, V *in) {
  V all[6] = {short_int(e, TS_PAIRS_LINE), short_int(e, TS_PAIRS_LINE_BYTES)};
  for (int i = 0; i < n; i++) all[2 + i] = in[i];
  return ts_emit_call(e, name, 0, NULL, 2 + n, all);
}

V ts_emit_zero_register(TsEmit *e) { return call(e, "llvm.x86.tilezero.internal", 0, NULL); }

/* Where a register's rows lie: the first, and bytes from one to the next. */
static void find(TsEmit *e, const TsTileStmt *s, const TsTileType *t, V where[2]) {
  TsTileVal memory = s->in[0];
  int rank = memory->type.rank;
  V *part = ts_emit_registers(e, memory);
  if (rank < 2 || ts_tile_attr(s, "edge")->i || memory->type.dtype != t->dtype ||
      (ts_tile_attr(s, "axes")->type == TS_ATTR_ints && ts_tile_attr(s, "axes")->n) ||
      (memory->type.strided && memory->type.stride[rank - 1] != 1))
    ts_emit_fail(e, "%s: a register of the matrix unit takes whole rows",
                 ts_tile_op_name(s->op));
  where[0] =
      ts_emit_address(e, memory, s->in + 1, ts_emit_elem(e, (TsDtype)memory->type.dtype));
  where[1] =
      LLVMBuildNSWMul(e->b, part[rank - 1], ts_emit_i64(e, ts_dtypes[t->dtype].nbytes), "");
}

static void load(TsEmit *e, const TsTileStmt *s) {
  V where[2];
  find(e, s, &s->out[0]->type, where);
  *ts_emit_define(e, s->out[0]) = call(e, "llvm.x86.tileloadd64.internal", 2, where);
}

static void store(TsEmit *e, const TsTileStmt *s) {
  V in[3];
  TsTileVal v = s->in[s->nin - 1];
  find(e, s, &v->type, in);
  in[2] = *ts_emit_registers(e, v);
  call(e, "llvm.x86.tilestored64.internal", 3, in);
}

static void multiply(TsEmit *e, const TsTileStmt *s) {
  V in[4] = {short_int(e, TS_PAIRS_LINE_BYTES), *ts_emit_registers(e, s->in[2]),
             *ts_emit_registers(e, s->in[0]), *ts_emit_registers(e, s->in[1])};
  *ts_emit_define(e, s->out[0]) = call(e, "llvm.x86.tdpbf16ps.internal", 4, in);
}

static void zero(TsEmit *e, const TsTileStmt *s) {
  if (ts_tile_attr(s, "value")->f != 0)
    ts_emit_fail(e, "registers of the matrix unit begin with zeros");
  ts_emit_define(e, s->out[0]);
}

bool ts_emit_unit(TsEmit *e, const TsTileStmt *s) {
  TsTileVal v = s->nout ? s->out[0] : s->nin ? s->in[s->nin - 1] : NULL;
  if (!v || s->nregion || !ts_emit_is_register(&v->type)) return false;
  switch (s->op) {
  case TS_TILE_load: load(e, s); return true;
  case TS_TILE_store: store(e, s); return true;
  case TS_TILE_const: zero(e, s); return true;
  case TS_TILE_mma: multiply(e, s); return true;
  case TS_TILE_bitcast: *ts_emit_define(e, v) = *ts_emit_registers(e, s->in[0]); return true;
  case TS_TILE_yield: return false;
  default: ts_emit_fail(e, "%s of a register of the matrix unit", ts_tile_op_name(s->op));
  }
}

/* ---- words in vectors */
void ts_emit_dot2(TsEmit *e, const TsTileStmt *s) {
  enum { WORDS = 16 };
  const TsTileType *t = &s->out[0]->type;
  LLVMTypeRef pairs = LLVMVectorType(LLVMBFloatTypeInContext(e->ctx), 2 * WORDS);
  V *in[3], *out;
  if (ts_emit_width(t) != WORDS || e->target->vector_bytes != 64)
    ts_emit_fail(e, "dot2 takes vectors of %d words", WORDS);
  for (int i = 0; i < 3; i++) in[i] = ts_emit_registers(e, s->in[i]);
  out = ts_emit_define(e, s->out[0]);
  for (int r = 0; r < ts_emit_rows(t); r++) {
    V one[3] = {in[2][r], LLVMBuildBitCast(e->b, in[0][r], pairs, ""),
                LLVMBuildBitCast(e->b, in[1][r], pairs, "")};
    out[r] = ts_emit_call(e, "llvm.x86.avx512bf16.dpbf16ps.512", 0, NULL, 3, one);
  }
  ts_emit_computed(e, s->out[0]);
}

/* ---- rounding. The instruction takes denormals for zeros and keeps payloads of NaN: a vector that
 * has one goes the long way. */
enum { LANES = 16, ODD = 0x01 | 0x20 | 0x80 /* quiet NaN, denormal, signalling NaN */ };

bool ts_emit_rounds_itself(const TsEmit *e, V x) {
  int n = ts_emit_lanes(x);
  return e->pairs && (n == LANES || n == 2 * LANES);
}

static V is_odd(TsEmit *e, V x) {
  V in[2] = {x, ts_emit_int(e, ts_emit_int_type(e, 32, 0), ODD)};
  return ts_emit_call(e, "llvm.x86.avx512.fpclass.ps.512", 0, NULL, 2, in);
}

static void seldom(TsEmit *e, V branch) {
  LLVMTypeRef i32 = ts_emit_int_type(e, 32, 0);
  LLVMMetadataRef list[3] = {LLVMMDStringInContext2(e->ctx, "branch_weights", 14),
                             LLVMValueAsMetadata(ts_emit_int(e, i32, 1)),
                             LLVMValueAsMetadata(ts_emit_int(e, i32, 1 << 20))};
  V node = LLVMMetadataAsValue(e->ctx, LLVMMDNodeInContext2(e->ctx, list, 3));
  LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(e->ctx, "prof", 4), node);
}

V ts_emit_round_itself(TsEmit *e, V x) {
  int n = ts_emit_lanes(x);
  V low = n > LANES ? ts_emit_span(e, x, 0, LANES) : x, odd = is_odd(e, low), y[2];
  if (n > LANES) {
    V in[2] = {ts_emit_span(e, x, LANES, LANES), low};
    odd = LLVMBuildOr(e->b, odd, is_odd(e, in[0]), "");
    y[0] = ts_emit_call(e, "llvm.x86.avx512bf16.cvtne2ps2bf16.512", 0, NULL, 2, in);
  } else {
    y[0] = ts_emit_call(e, "llvm.x86.avx512bf16.cvtneps2bf16.512", 0, NULL, 1, &low);
  }
  LLVMTypeRef i16 = ts_emit_int_type(e, 16, 0);
  y[0] = LLVMBuildBitCast(e->b, y[0], ts_emit_int_type(e, 16, n), "");
  odd = LLVMBuildICmp(e->b, LLVMIntNE, LLVMBuildBitCast(e->b, odd, i16, ""),
                      ts_emit_int(e, i16, 0), "");
  LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(e->b)};
  LLVMBasicBlockRef rare = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
  LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
  seldom(e, LLVMBuildCondBr(e->b, odd, rare, after));
  LLVMPositionBuilderAtEnd(e->b, rare);
  y[1] = ts_emit_narrow_bf16(e, x);
  from[1] = LLVMGetInsertBlock(e->b);
  LLVMBuildBr(e->b, after);
  LLVMPositionBuilderAtEnd(e->b, after);
  V phi = LLVMBuildPhi(e->b, LLVMTypeOf(y[0]), "");
  LLVMAddIncoming(phi, y, from, 2);
  return phi;
}
