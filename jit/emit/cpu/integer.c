/* Integer division and high products. Vector units divide floats only: a quotient of integers
 * with twice their bits and two more cannot round up to the next integer, since it lies at
 * least 1/y away; so types below 64 bits divide as floats, with the definition of the kernels
 * in C. */
#include "jit/emit/cpu/emit.h"

static LLVMValueRef quotient_as(TsEmit *e, TsDtype real, bool is_signed, LLVMValueRef x,
                                LLVMValueRef y) {
  LLVMTypeRef f = ts_emit_type(e, real, ts_emit_lanes(x)), t = LLVMTypeOf(x);
  LLVMTypeRef wide = ts_emit_int_type(e, 32, ts_emit_lanes(x));
  LLVMValueRef a =
      is_signed ? LLVMBuildSIToFP(e->b, x, f, "") : LLVMBuildUIToFP(e->b, x, f, "");
  LLVMValueRef c =
      is_signed ? LLVMBuildSIToFP(e->b, y, f, "") : LLVMBuildUIToFP(e->b, y, f, "");
  LLVMValueRef q = LLVMBuildFPToSI(e->b, ts_emit_fdiv(e, a, c), wide, "");
  return t == wide ? q : LLVMBuildTrunc(e->b, q, t, "");
}

/* Towards zero; 0 of a divisor 0; the least number over -1 wraps. */
static LLVMValueRef quotient(TsEmit *e, TsDtype d, LLVMValueRef x, LLVMValueRef y) {
  bool is_signed = d != TS_DT_u8;
  LLVMTypeRef t = LLVMTypeOf(x);
  LLVMValueRef zero = ts_emit_int(e, t, 0), one = ts_emit_int(e, t, 1);
  LLVMValueRef by_zero = LLVMBuildICmp(e->b, LLVMIntEQ, y, zero, ""), negate = NULL, q;
  LLVMValueRef safe = LLVMBuildSelect(e->b, by_zero, one, y, "");
  if (is_signed) {
    negate = LLVMBuildICmp(e->b, LLVMIntEQ, y, ts_emit_int(e, t, -1), "");
    safe = LLVMBuildSelect(e->b, negate, one, safe, "");
  }
  if (d == TS_DT_i64 || (d == TS_DT_i32 && e->target->single))
    q = LLVMBuildSDiv(e->b, x, safe, "");
  else
    q = quotient_as(e, d == TS_DT_i32 ? TS_DT_f64 : TS_DT_f32, is_signed, x, safe);
  if (negate) q = LLVMBuildSelect(e->b, negate, LLVMBuildNeg(e->b, x, ""), q, "");
  return LLVMBuildSelect(e->b, by_zero, zero, q, "");
}

/* The remainder of q, and whether it has not the divisor's sign. */
static LLVMValueRef remainder_of(TsEmit *e, TsDtype d, LLVMValueRef x, LLVMValueRef y,
                                 LLVMValueRef q, LLVMValueRef *past) {
  LLVMTypeRef t = LLVMTypeOf(x);
  LLVMValueRef zero = ts_emit_int(e, t, 0);
  LLVMValueRef r = LLVMBuildSub(e->b, x, LLVMBuildMul(e->b, q, y, ""), "");
  LLVMValueRef some = LLVMBuildICmp(e->b, LLVMIntNE, r, zero, "");
  LLVMValueRef apart = LLVMBuildICmp(e->b, LLVMIntSLT, LLVMBuildXor(e->b, r, y, ""), zero, "");
  *past = d == TS_DT_u8 ? LLVMConstNull(LLVMTypeOf(some)) : LLVMBuildAnd(e->b, some, apart, "");
  return r;
}

LLVMValueRef ts_emit_floordiv(TsEmit *e, TsDtype d, LLVMValueRef x, LLVMValueRef y) {
  LLVMTypeRef t = LLVMTypeOf(x);
  LLVMValueRef past, q = quotient(e, d, x, y);
  remainder_of(e, d, x, y, q, &past);
  LLVMValueRef real = LLVMBuildICmp(e->b, LLVMIntNE, y, ts_emit_int(e, t, 0), "");
  LLVMValueRef less = LLVMBuildSub(e->b, q, ts_emit_int(e, t, 1), "");
  return LLVMBuildSelect(e->b, LLVMBuildAnd(e->b, past, real, ""), less, q, "");
}

LLVMValueRef ts_emit_mod(TsEmit *e, TsDtype d, LLVMValueRef x, LLVMValueRef y) {
  LLVMTypeRef t = LLVMTypeOf(x);
  LLVMValueRef past, r = remainder_of(e, d, x, y, quotient(e, d, x, y), &past);
  LLVMValueRef zero = ts_emit_int(e, t, 0);
  r = LLVMBuildSelect(e->b, past, LLVMBuildAdd(e->b, r, y, ""), r, "");
  return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, y, zero, ""), zero, r, "");
}

LLVMValueRef ts_emit_mulhi(TsEmit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMTypeRef t = LLVMTypeOf(x);
  int lanes = ts_emit_lanes(x);
  int bits = (int)LLVMGetIntTypeWidth(lanes ? LLVMGetElementType(t) : t);
  LLVMTypeRef wide = ts_emit_int_type(e, 2 * bits, lanes);
  LLVMValueRef p = LLVMBuildMul(e->b, LLVMBuildZExt(e->b, x, wide, ""),
                                LLVMBuildZExt(e->b, y, wide, ""), "");
  return LLVMBuildTrunc(e->b, LLVMBuildLShr(e->b, p, ts_emit_int(e, wide, bits), ""), t, "");
}
