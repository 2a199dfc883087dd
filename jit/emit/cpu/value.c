/* Types, constants, vectors, and the pointwise rows that have an instruction of their own. */
#include <stdio.h>
#include <string.h>

#include "jit/emit/cpu/emit.h"
#include "lib/convert_bits.h"

/* ---- types */
LLVMTypeRef ts_emit_int_type(TsEmit *e, int bits, int lanes) {
  LLVMTypeRef t = LLVMIntTypeInContext(e->ctx, (unsigned)bits);
  return lanes ? LLVMVectorType(t, (unsigned)lanes) : t;
}

LLVMTypeRef ts_emit_elem(TsEmit *e, TsDtype d) {
  if (ts_dtype_is(d, TS_KIND_C | TS_KIND_X))
    ts_emit_fail(e, "tiles of %s have no code yet", ts_dtype_name(d));
  switch (d) {
  case TS_DT_bool: return LLVMInt1TypeInContext(e->ctx);
  case TS_DT_f32: return LLVMFloatTypeInContext(e->ctx);
  case TS_DT_f64:
    if (e->target->single) ts_emit_fail(e, "%s has no f64", e->target->name);
    return LLVMDoubleTypeInContext(e->ctx);
  default: return LLVMIntTypeInContext(e->ctx, 8u * ts_dtypes[d].nbytes);
  }
}

LLVMTypeRef ts_emit_type(TsEmit *e, TsDtype d, int lanes) {
  LLVMTypeRef t = ts_emit_elem(e, d);
  return lanes ? LLVMVectorType(t, (unsigned)lanes) : t;
}

int ts_emit_lanes(LLVMValueRef x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(t) : 0;
}

/* ---- constants */
static LLVMValueRef every_lane(TsEmit *e, LLVMValueRef one, int lanes) {
  LLVMValueRef *list = ts_emit_take(e, sizeof *list * (size_t)lanes);
  for (int i = 0; i < lanes; i++) list[i] = one;
  return LLVMConstVector(list, (unsigned)lanes);
}

static LLVMTypeRef element(LLVMTypeRef t, int *lanes) {
  *lanes = LLVMGetTypeKind(t) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(t) : 0;
  return *lanes ? LLVMGetElementType(t) : t;
}

/* LLVM 22 refuses bits that do not fit the type. */
LLVMValueRef ts_emit_int(TsEmit *e, LLVMTypeRef type, int64_t v) {
  int lanes;
  LLVMTypeRef t = element(type, &lanes);
  unsigned bits = LLVMGetIntTypeWidth(t);
  uint64_t u = (uint64_t)v & (bits < 64 ? ((uint64_t)1 << bits) - 1 : ~(uint64_t)0);
  LLVMValueRef one = LLVMConstInt(t, u, 0);
  return lanes ? every_lane(e, one, lanes) : one;
}

LLVMValueRef ts_emit_float(TsEmit *e, LLVMTypeRef type, double v) {
  int lanes;
  LLVMTypeRef t = element(type, &lanes);
  LLVMValueRef one = LLVMConstReal(t, v);
  return lanes ? every_lane(e, one, lanes) : one;
}

LLVMValueRef ts_emit_i64(TsEmit *e, int64_t v) {
  return ts_emit_int(e, ts_emit_int_type(e, 64, 0), v);
}

LLVMValueRef ts_emit_number(TsEmit *e, TsDtype d, int lanes, double v) {
  LLVMTypeRef t = ts_emit_type(e, d, lanes);
  if (ts_dtype_is(d, TS_KIND_C | TS_KIND_X))
    ts_emit_fail(e, "tiles of %s have no code yet", ts_dtype_name(d));
  switch (d) {
  case TS_DT_bool: return ts_emit_int(e, t, v != 0);
  case TS_DT_f32: return ts_emit_float(e, t, (float)v);
  case TS_DT_f64: return ts_emit_float(e, t, v);
  case TS_DT_f16: return ts_emit_int(e, t, f16_of_f32(f32_odd_of_f64(v)));
  case TS_DT_bf16: return ts_emit_int(e, t, bf16_of_f32(f32_odd_of_f64(v)));
  case TS_DT_fp8_e4m3: return ts_emit_int(e, t, e4m3_of_f32(f32_odd_of_f64(v)));
  case TS_DT_fp8_e5m2: return ts_emit_int(e, t, e5m2_of_f32(f32_odd_of_f64(v)));
  default: return ts_emit_int(e, t, i64_of_f64(v));
  }
}

LLVMValueRef ts_emit_iota(TsEmit *e, int bits, int lanes) {
  LLVMTypeRef t = ts_emit_int_type(e, bits, 0);
  LLVMValueRef *list = ts_emit_take(e, sizeof *list * (size_t)lanes);
  for (int i = 0; i < lanes; i++) list[i] = LLVMConstInt(t, (unsigned)i, 0);
  return LLVMConstVector(list, (unsigned)lanes);
}

/* ---- vectors */
LLVMValueRef ts_emit_shuffle(TsEmit *e, LLVMValueRef x, LLVMValueRef y, int n,
                             const int *index) {
  LLVMTypeRef t = ts_emit_int_type(e, 32, 0);
  LLVMValueRef *list = ts_emit_take(e, sizeof *list * (size_t)n);
  for (int i = 0; i < n; i++)
    list[i] = index[i] < 0 ? LLVMGetPoison(t) : LLVMConstInt(t, (unsigned)index[i], 0);
  if (!y) y = LLVMGetPoison(LLVMTypeOf(x));
  return LLVMBuildShuffleVector(e->b, x, y, LLVMConstVector(list, (unsigned)n), "");
}

LLVMValueRef ts_emit_span(TsEmit *e, LLVMValueRef x, int start, int n) {
  if (!start && n == ts_emit_lanes(x)) return x;
  int *index = ts_emit_take(e, sizeof *index * (size_t)n);
  for (int i = 0; i < n; i++) index[i] = start + i;
  return ts_emit_shuffle(e, x, NULL, n, index);
}

/* Operands of a shuffle have one length: the shorter one is filled up. */
LLVMValueRef ts_emit_join(TsEmit *e, LLVMValueRef x, LLVMValueRef y) {
  int nx = ts_emit_lanes(x), ny = ts_emit_lanes(y), most = nx > ny ? nx : ny;
  int *index = ts_emit_take(e, sizeof *index * (size_t)(nx + ny));
  for (int i = 0; i < most; i++) index[i] = i < nx ? i : -1;
  if (nx < most) x = ts_emit_shuffle(e, x, NULL, most, index);
  for (int i = 0; i < most; i++) index[i] = i < ny ? i : -1;
  if (ny < most) y = ts_emit_shuffle(e, y, NULL, most, index);
  for (int i = 0; i < nx + ny; i++) index[i] = i < nx ? i : most + i - nx;
  return ts_emit_shuffle(e, x, y, nx + ny, index);
}

LLVMValueRef ts_emit_splat(TsEmit *e, LLVMValueRef x, int lanes) {
  if (!lanes) return x;
  if (LLVMIsConstant(x)) return every_lane(e, x, lanes);
  LLVMTypeRef t = LLVMVectorType(LLVMTypeOf(x), (unsigned)lanes);
  LLVMValueRef v = LLVMBuildInsertElement(e->b, LLVMGetPoison(t), x, ts_emit_i64(e, 0), "");
  int *index = ts_emit_take(e, sizeof *index * (size_t)lanes);
  memset(index, 0, sizeof *index * (size_t)lanes);
  return ts_emit_shuffle(e, v, NULL, lanes, index);
}

LLVMValueRef ts_emit_lane(TsEmit *e, LLVMValueRef x, int lane) {
  return LLVMBuildExtractElement(e->b, x, ts_emit_i64(e, lane), "");
}

/* ---- intrinsics */
LLVMValueRef ts_emit_call(TsEmit *e, const char *name, int ntype, LLVMTypeRef *type, int nin,
                          LLVMValueRef *in) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  if (!id) ts_emit_fail(e, "this LLVM has no %s", name);
  LLVMValueRef f = LLVMGetIntrinsicDeclaration(e->module, id, type, (size_t)ntype);
  return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(f), f, in, (unsigned)nin, "");
}

void ts_emit_attribute(TsEmit *e, const char *name, const char *value) {
  LLVMAttributeRef a = LLVMCreateStringAttribute(e->ctx, name, (unsigned)strlen(name), value,
                                                 (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(e->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

/* Newer ones read some of these yet, and lists of numbers end them. */
static void annotate(TsEmit *e, const char *what, LLVMMetadataRef value) {
  if (LLVM_VERSION_MAJOR >= 21) return;
  LLVMMetadataRef list[3] = {LLVMValueAsMetadata(e->fn),
                             LLVMMDStringInContext2(e->ctx, what, strlen(what)), value};
  LLVMAddNamedMetadataOperand(
      e->module, "nvvm.annotations",
      LLVMMetadataAsValue(e->ctx, LLVMMDNodeInContext2(e->ctx, list, 3)));
}

static LLVMMetadataRef number(TsEmit *e, int value) {
  return LLVMValueAsMetadata(
      LLVMConstInt(LLVMInt32TypeInContext(e->ctx), (unsigned long long)value, 0));
}

void ts_emit_launch(TsEmit *e, const char *attribute, const char *annotation, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  ts_emit_attribute(e, attribute, text);
  annotate(e, annotation, number(e, value));
}

/* Annotations count parameters from 1. */
void ts_emit_grid_constants(TsEmit *e, int first, int n) {
  LLVMMetadataRef *list = ts_emit_take(e, sizeof *list * (size_t)n);
  LLVMAttributeRef a = LLVMCreateStringAttribute(e->ctx, "nvvm.grid_constant", 18, "", 0);
  for (int i = 0; i < n; i++) {
    LLVMAddAttributeAtIndex(e->fn, (unsigned)(first + i + 1), a);
    list[i] = number(e, first + i + 1);
  }
  if (n) annotate(e, "grid_constant", LLVMMDNodeInContext2(e->ctx, list, (size_t)n));
}

LLVMValueRef ts_emit_call1(TsEmit *e, const char *name, LLVMValueRef x) {
  return ts_emit_call(e, name, 1, (LLVMTypeRef[]){LLVMTypeOf(x)}, 1, &x);
}

LLVMValueRef ts_emit_call2(TsEmit *e, const char *name, LLVMValueRef x, LLVMValueRef y) {
  return ts_emit_call(e, name, 1, (LLVMTypeRef[]){LLVMTypeOf(x)}, 2, (LLVMValueRef[]){x, y});
}

LLVMValueRef ts_emit_fma(TsEmit *e, TsDtype d, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z) {
  if (!ts_dtype_is(d, TS_KIND_F))
    return LLVMBuildAdd(e->b, LLVMBuildMul(e->b, x, y, ""), z, "");
  return ts_emit_call(e, "llvm.fma", 1, (LLVMTypeRef[]){LLVMTypeOf(x)}, 3,
                      (LLVMValueRef[]){x, y, z});
}

/* ---- rows */
static bool is_float(TsDtype d) { return ts_dtype_is(d, TS_KIND_F); }
static bool is_unsigned(TsDtype d) { return ts_dtype_is(d, TS_KIND_U | TS_KIND_B); }

LLVMValueRef ts_emit_less(TsEmit *e, TsDtype d, bool or_equal, LLVMValueRef x, LLVMValueRef y) {
  if (is_float(d)) return LLVMBuildFCmp(e->b, or_equal ? LLVMRealOLE : LLVMRealOLT, x, y, "");
  if (is_unsigned(d)) return LLVMBuildICmp(e->b, or_equal ? LLVMIntULE : LLVMIntULT, x, y, "");
  return LLVMBuildICmp(e->b, or_equal ? LLVMIntSLE : LLVMIntSLT, x, y, "");
}

/* f64 has more than twice the bits of f32 and two, so that what it rounds first rounds as the exact
 * value does. */
static LLVMTypeRef by_f64(TsEmit *e, LLVMValueRef x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return e->target->rough && t == ts_emit_elem(e, TS_DT_f32) ? ts_emit_elem(e, TS_DT_f64)
                                                             : NULL;
}

LLVMValueRef ts_emit_fdiv(TsEmit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMTypeRef f64 = by_f64(e, x);
  if (!f64) return LLVMBuildFDiv(e->b, x, y, "");
  LLVMValueRef q = LLVMBuildFDiv(e->b, LLVMBuildFPExt(e->b, x, f64, ""),
                                 LLVMBuildFPExt(e->b, y, f64, ""), "");
  return LLVMBuildFPTrunc(e->b, q, LLVMTypeOf(x), "");
}

static LLVMValueRef root(TsEmit *e, LLVMValueRef x) {
  LLVMTypeRef f64 = by_f64(e, x);
  if (!f64) return ts_emit_call1(e, "llvm.sqrt", x);
  LLVMValueRef y = ts_emit_call1(e, "llvm.sqrt", LLVMBuildFPExt(e->b, x, f64, ""));
  return LLVMBuildFPTrunc(e->b, y, LLVMTypeOf(x), "");
}

static LLVMValueRef float_row(TsEmit *e, int op, LLVMValueRef *in) {
  LLVMBuilderRef b = e->b;
  switch (op) {
  case TS_OP_add: return LLVMBuildFAdd(b, in[0], in[1], "");
  case TS_OP_sub: return LLVMBuildFSub(b, in[0], in[1], "");
  case TS_OP_mul: return LLVMBuildFMul(b, in[0], in[1], "");
  case TS_OP_div: return ts_emit_fdiv(e, in[0], in[1]);
  case TS_OP_neg: return LLVMBuildFNeg(b, in[0], "");
  case TS_OP_abs: return ts_emit_call1(e, "llvm.fabs", in[0]);
  case TS_OP_sqrt: return root(e, in[0]);
  case TS_OP_floor: return ts_emit_call1(e, "llvm.floor", in[0]);
  case TS_OP_ceil: return ts_emit_call1(e, "llvm.ceil", in[0]);
  case TS_OP_trunc: return ts_emit_call1(e, "llvm.trunc", in[0]);
  case TS_OP_round: return ts_emit_call1(e, "llvm.roundeven", in[0]);
  case TS_OP_eq: return LLVMBuildFCmp(b, LLVMRealOEQ, in[0], in[1], "");
  case TS_OP_ne: return LLVMBuildFCmp(b, LLVMRealUNE, in[0], in[1], "");
  default: return NULL;
  }
}

static LLVMValueRef integer_row(TsEmit *e, int op, TsDtype d, LLVMValueRef *in) {
  LLVMBuilderRef b = e->b;
  switch (op) {
  case TS_OP_add: return LLVMBuildAdd(b, in[0], in[1], "");
  case TS_OP_sub: return LLVMBuildSub(b, in[0], in[1], "");
  case TS_OP_mul: return LLVMBuildMul(b, in[0], in[1], "");
  case TS_OP_neg: return LLVMBuildNeg(b, in[0], "");
  case TS_OP_floordiv: return ts_emit_floordiv(e, d, in[0], in[1]);
  case TS_OP_mod: return ts_emit_mod(e, d, in[0], in[1]);
  case TS_TILE_shl: return LLVMBuildShl(b, in[0], in[1], "");
  case TS_TILE_shr: return LLVMBuildLShr(b, in[0], in[1], "");
  case TS_TILE_sar: return LLVMBuildAShr(b, in[0], in[1], "");
  case TS_TILE_mulhi: return ts_emit_mulhi(e, in[0], in[1]);
  case TS_TILE_ult: return LLVMBuildICmp(b, LLVMIntULT, in[0], in[1], "");
  default: return NULL;
  }
}

/* Of integers and bool. */
static LLVMValueRef bits_row(TsEmit *e, int op, TsDtype d, LLVMValueRef *in) {
  LLVMBuilderRef b = e->b;
  switch (op) {
  case TS_OP_bitwise_not:
  case TS_OP_logical_not: return LLVMBuildNot(b, in[0], "");
  case TS_OP_bitwise_and:
  case TS_OP_logical_and: return LLVMBuildAnd(b, in[0], in[1], "");
  case TS_OP_bitwise_or:
  case TS_OP_logical_or: return LLVMBuildOr(b, in[0], in[1], "");
  case TS_OP_bitwise_xor:
  case TS_OP_logical_xor: return LLVMBuildXor(b, in[0], in[1], "");
  case TS_OP_eq: return LLVMBuildICmp(b, LLVMIntEQ, in[0], in[1], "");
  case TS_OP_ne: return LLVMBuildICmp(b, LLVMIntNE, in[0], in[1], "");
  case TS_OP_minimum:
    return ts_emit_call2(e, is_unsigned(d) ? "llvm.umin" : "llvm.smin", in[0], in[1]);
  case TS_OP_maximum:
    return ts_emit_call2(e, is_unsigned(d) ? "llvm.umax" : "llvm.smax", in[0], in[1]);
  default: return NULL;
  }
}

static bool logical(int op) {
  return op == TS_OP_logical_not || op == TS_OP_logical_and || op == TS_OP_logical_or ||
         op == TS_OP_logical_xor;
}

LLVMValueRef ts_emit_pointwise(TsEmit *e, int op, TsDtype d, LLVMValueRef *in) {
  LLVMValueRef r = NULL;
  switch (op) {
  case TS_OP_where: return LLVMBuildSelect(e->b, in[0], in[1], in[2], "");
  case TS_OP_lt: r = ts_emit_less(e, d, false, in[0], in[1]); break;
  case TS_OP_le: r = ts_emit_less(e, d, true, in[0], in[1]); break;
  case TS_OP_gt: r = ts_emit_less(e, d, false, in[1], in[0]); break;
  case TS_OP_ge: r = ts_emit_less(e, d, true, in[1], in[0]); break;
  default:
    if (is_float(d)) {
      r = op == TS_OP_fma ? ts_emit_fma(e, d, in[0], in[1], in[2]) : float_row(e, op, in);
      break;
    }
    if (d == TS_DT_bool || !logical(op)) r = bits_row(e, op, d, in);
    if (!r && d != TS_DT_bool) r = integer_row(e, op, d, in);
  }
  if (!r)
    ts_emit_fail(e, "%s of %s is no primitive row", ts_tile_op_name(op), ts_dtype_name(d));
  if (is_float(d) && d != TS_DT_f32 && d != TS_DT_f64)
    ts_emit_fail(e, "%s: %s is a storage type", ts_tile_op_name(op), ts_dtype_name(d));
  return r;
}
