/* Conversions between element types: the definitions of vm/kernels/convert.c, that is of
 * lib/convert_bits.h, as LLVM IR. One rounding, to nearest even; where a conversion
 * takes two steps, the first is exact or rounds to odd. */
#include "jit/emit/cpu/emit.h"

typedef LLVMValueRef V;

static bool is_float(TsDtype d) { return ts_dtype_is(d, TS_KIND_F); }
static bool is_small(TsDtype d) { return is_float(d) && d != TS_DT_f32 && d != TS_DT_f64; }
static bool is_unsigned(TsDtype d) { return ts_dtype_is(d, TS_KIND_U | TS_KIND_B); }

/* ---- short forms over the bits of f32 */
static V k(TsEmit *e, V like, int64_t v) { return ts_emit_int(e, LLVMTypeOf(like), v); }
static V and (TsEmit * e, V x, int64_t m) { return LLVMBuildAnd(e->b, x, k(e, x, m), ""); }
static V left(TsEmit *e, V x, int n) { return LLVMBuildShl(e->b, x, k(e, x, n), ""); }
static V right(TsEmit *e, V x, int n) { return LLVMBuildLShr(e->b, x, k(e, x, n), ""); }
static V or (TsEmit * e, V x, V y) { return LLVMBuildOr(e->b, x, y, ""); }
static V pick(TsEmit *e, V c, V x, V y) { return LLVMBuildSelect(e->b, c, x, y, ""); }
static V below(TsEmit *e, V x, int64_t v) {
  return LLVMBuildICmp(e->b, LLVMIntULT, x, k(e, x, v), "");
}
static V bits(TsEmit *e, V f) {
  return LLVMBuildBitCast(e->b, f, ts_emit_int_type(e, 32, ts_emit_lanes(f)), "");
}
static V number(TsEmit *e, V u) {
  return LLVMBuildBitCast(e->b, u, ts_emit_type(e, TS_DT_f32, ts_emit_lanes(u)), "");
}
static V scaled(TsEmit *e, V u, double by) {
  V x = number(e, u);
  return bits(e, LLVMBuildFMul(e->b, x, ts_emit_float(e, LLVMTypeOf(x), by), ""));
}

/* ---- to f32: exact */
static V widen_ieee(TsEmit *e, V magnitude, V sign, V mantissa) {
  V none = LLVMBuildICmp(e->b, LLVMIntEQ, mantissa, k(e, mantissa, 0), "");
  V quiet = pick(e, none, k(e, mantissa, 0), k(e, mantissa, 0x00400000));
  V special = or (e, or (e, k(e, mantissa, 0x7f800000), mantissa), quiet);
  V finite = below(e, magnitude, 0x0f800000);
  return number(e, or (e, pick(e, finite, scaled(e, magnitude, 0x1p112), special), sign));
}

static V widen_e4m3(TsEmit *e, V u) {
  V a = and(e, u, 0x7f), finite = scaled(e, left(e, a, 20), 0x1p120);
  V nan = LLVMBuildICmp(e->b, LLVMIntEQ, a, k(e, a, 0x7f), "");
  return number(
      e, or (e, pick(e, nan, k(e, a, 0x7fc00000), finite), left(e, and(e, u, 0x80), 24)));
}

static V widen(TsEmit *e, TsDtype from, V x) {
  int lanes = ts_emit_lanes(x);
  if (from == TS_DT_f16 && e->target->half) {
    LLVMTypeRef half = LLVMHalfTypeInContext(e->ctx);
    if (lanes) half = LLVMVectorType(half, (unsigned)lanes);
    return LLVMBuildFPExt(e->b, LLVMBuildBitCast(e->b, x, half, ""),
                          ts_emit_type(e, TS_DT_f32, lanes), "");
  }
  V u = LLVMBuildZExt(e->b, x, ts_emit_int_type(e, 32, lanes), "");
  switch (from) {
  case TS_DT_bf16: return number(e, left(e, u, 16));
  case TS_DT_f16:
    return widen_ieee(e, left(e, and(e, u, 0x7fff), 13), left(e, and(e, u, 0x8000), 16),
                      left(e, and(e, u, 0x3ff), 13));
  case TS_DT_fp8_e5m2:
    return widen_ieee(e, left(e, and(e, u, 0x7f), 21), left(e, and(e, u, 0x80), 24),
                      left(e, and(e, u, 3), 21));
  default: return widen_e4m3(e, u);
  }
}

/* ---- from f32: one rounding */
typedef struct Narrow {
  int shift, bias, mantissa, width; /* bits dropped; of the exponent; kept; of the result */
  double magic;                     /* 2^23 times the ulp of denormals */
  uint32_t tiny;                    /* magnitudes below are denormal */
  uint32_t most, nan;               /* the greatest magnitude, which saturates; NaN */
} Narrow;

static const Narrow narrow_f16 = {13, 112, 10, 16, 0.5, 0x38800000, 0x7c00, 0x7e00};
static const Narrow narrow_e5m2 = {21, 112, 2, 8, 128, 0x38800000, 0x7c, 0x7e};
static const Narrow narrow_e4m3 = {20, 120, 3, 8, 16384, 0x3c800000, 0x7e, 0x7f};

static V round_up(TsEmit *e, V a, int shift) {
  V half = k(e, a, (1 << (shift - 1)) - 1), odd = and(e, right(e, a, shift), 1);
  return right(e, LLVMBuildAdd(e->b, LLVMBuildAdd(e->b, a, half, ""), odd, ""), shift);
}

static V narrow_bits(TsEmit *e, const Narrow *n, V x) {
  V u = bits(e, x), a = and(e, u, 0x7fffffff);
  V normal = LLVMBuildSub(e->b, round_up(e, a, n->shift),
                          k(e, a, (int64_t)n->bias << n->mantissa), "");
  V magic = ts_emit_float(e, LLVMTypeOf(x), n->magic);
  V tiny = LLVMBuildSub(e->b, bits(e, LLVMBuildFAdd(e->b, number(e, a), magic, "")),
                        bits(e, magic), "");
  V r = pick(e, below(e, normal, n->most), normal, k(e, a, n->most));
  r = pick(e, below(e, a, n->tiny), tiny, r);
  r = or (e, r, and(e, right(e, u, 32 - n->width), (int64_t)1 << (n->width - 1)));
  r = pick(e, below(e, a, 0x7f800001), r, k(e, a, n->nan));
  return LLVMBuildTrunc(e->b, r, ts_emit_int_type(e, n->width, ts_emit_lanes(x)), "");
}

LLVMValueRef ts_emit_round_bf16(TsEmit *e, LLVMValueRef x) {
  V u = bits(e, x), finite = below(e, and(e, u, 0x7fffffff), 0x7f800001);
  V odd = and(e, right(e, u, 16), 1);
  V up = LLVMBuildAdd(e->b, LLVMBuildAdd(e->b, u, k(e, u, 0x7fff), ""), odd, "");
  return number(e, pick(e, finite, and(e, up, 0xffff0000), k(e, u, 0x7fc00000)));
}

/* Rounded by an instruction; NaN is one value. */
static V narrow_by(TsEmit *e, LLVMTypeRef type, int64_t nan, V x) {
  int lanes = ts_emit_lanes(x);
  if (lanes) type = LLVMVectorType(type, (unsigned)lanes);
  V h = LLVMBuildFPTrunc(e->b, x, type, ""), no = LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, "");
  h = LLVMBuildBitCast(e->b, h, ts_emit_int_type(e, 16, lanes), "");
  return pick(e, no, k(e, h, nan), h);
}

/* By the form that allows other roundings, which LLVM joins with nothing. */
static V narrow_apart(TsEmit *e, V x) {
  static const char nearest[] = "round.tonearest", ignore[] = "fpexcept.ignore";
  LLVMTypeRef type[2] = {LLVMHalfTypeInContext(e->ctx), LLVMTypeOf(x)};
  V in[3] = {
      x,
      LLVMMetadataAsValue(e->ctx, LLVMMDStringInContext2(e->ctx, nearest, sizeof nearest - 1)),
      LLVMMetadataAsValue(e->ctx, LLVMMDStringInContext2(e->ctx, ignore, sizeof ignore - 1))};
  V h = ts_emit_call(e, "llvm.experimental.constrained.fptrunc", 2, type, 3, in);
  V no = LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, "");
  h = LLVMBuildBitCast(e->b, h, ts_emit_int_type(e, 16, 0), "");
  return pick(e, no, k(e, h, 0x7e00), h);
}

static V narrow_bf16(TsEmit *e, V x) {
  if (e->target->brain) return narrow_by(e, LLVMBFloatTypeInContext(e->ctx), 0x7fc0, x);
  return ts_emit_rounds_itself(e, x) ? ts_emit_round_itself(e, x) : ts_emit_narrow_bf16(e, x);
}

V ts_emit_narrow_bf16(TsEmit *e, V x) {
  V u = bits(e, x), finite = below(e, and(e, u, 0x7fffffff), 0x7f800001);
  V r = pick(e, finite, round_up(e, u, 16), k(e, u, 0x7fc0));
  return LLVMBuildTrunc(e->b, r, ts_emit_int_type(e, 16, ts_emit_lanes(x)), "");
}

static V narrow(TsEmit *e, TsDtype to, V x) {
  switch (to) {
  case TS_DT_bf16: return narrow_bf16(e, x);
  case TS_DT_f16:
    if (e->target->mixes) return narrow_apart(e, x);
    if (e->target->half) return narrow_by(e, LLVMHalfTypeInContext(e->ctx), 0x7e00, x);
    return narrow_bits(e, &narrow_f16, x);
  case TS_DT_fp8_e5m2: return narrow_bits(e, &narrow_e5m2, x);
  default: return narrow_bits(e, &narrow_e4m3, x);
  }
}

/* ---- rounding to odd, before a narrower type rounds */
static V odd_of_f64(TsEmit *e, V x) {
  int lanes = ts_emit_lanes(x);
  const int64_t last = (int64_t)1 << 40, rest = last - 1;
  V u = LLVMBuildBitCast(e->b, x, ts_emit_int_type(e, 64, lanes), "");
  V sticky = and(e, LLVMBuildAdd(e->b, and(e, u, rest), k(e, u, rest), ""), last);
  u = or (e, and(e, u, ~rest), sticky);
  return LLVMBuildFPTrunc(e->b, LLVMBuildBitCast(e->b, u, LLVMTypeOf(x), ""),
                          ts_emit_type(e, TS_DT_f32, lanes), "");
}

static V odd_of_i64(TsEmit *e, V x) {
  V low = and(e, x, 0x7ff), none = LLVMBuildICmp(e->b, LLVMIntEQ, low, k(e, x, 0), "");
  V sticky = or (e, and(e, x, ~(int64_t)0x7ff), pick(e, none, k(e, x, 0), k(e, x, 0x800)));
  V high = LLVMBuildICmp(e->b, LLVMIntSGE, x, k(e, x, (int64_t)1 << 53), "");
  V deep = LLVMBuildICmp(e->b, LLVMIntSLE, x, k(e, x, -((int64_t)1 << 53)), "");
  x = pick(e, or (e, high, deep), sticky, x);
  return LLVMBuildSIToFP(e->b, x, ts_emit_type(e, TS_DT_f64, ts_emit_lanes(x)), "");
}

/* ---- pairs */
static V to_bool(TsEmit *e, TsDtype from, V x) {
  if (from == TS_DT_bool) return x;
  V zero = LLVMConstNull(LLVMTypeOf(x));
  if (is_float(from)) return LLVMBuildFCmp(e->b, LLVMRealUNE, x, zero, "");
  return LLVMBuildICmp(e->b, LLVMIntNE, x, zero, "");
}

/* An f32 that every narrower type rounds as x: from 2^24 on, where f32 would round first, the last
 * bits become one, so that 24 are left. At least 15 stay; bf16 looks at 9, and what has more
 * overflows there. */
static V integer_to_f32(TsEmit *e, V x, int bits) {
  static const struct {
    int from, rest;
  } range[] = {{24, 9}, {32, 17}, {40, 25}, {48, 33}, {56, 41}};
  LLVMTypeRef f32 = ts_emit_type(e, TS_DT_f32, ts_emit_lanes(x));
  V y = x, minus = LLVMBuildNeg(e->b, x, ""), zero = k(e, x, 0);
  V size = pick(e, LLVMBuildICmp(e->b, LLVMIntSLT, x, zero, ""), minus, x);
  for (size_t i = 0; i < sizeof range / sizeof *range && range[i].from < bits; i++) {
    int64_t rest = ((int64_t)1 << range[i].rest) - 1;
    V none = LLVMBuildICmp(e->b, LLVMIntEQ, and(e, x, rest), zero, "");
    V sticky = or (e, and(e, x, ~rest), pick(e, none, zero, k(e, x, (rest + 1) / 2)));
    V large = LLVMBuildICmp(e->b, LLVMIntUGE, size, k(e, x, (int64_t)1 << range[i].from), "");
    y = pick(e, large, sticky, y);
  }
  return LLVMBuildSIToFP(e->b, y, f32, "");
}

static V integer_to_small(TsEmit *e, TsDtype to, TsDtype from, V x) {
  int lanes = ts_emit_lanes(x);
  if (e->target->single && (from == TS_DT_i64 || from == TS_DT_i32))
    return narrow(e, to, integer_to_f32(e, x, from == TS_DT_i64 ? 64 : 32));
  LLVMTypeRef f64 = ts_emit_type(e, TS_DT_f64, lanes);
  if (from == TS_DT_i64) return narrow(e, to, odd_of_f64(e, odd_of_i64(e, x)));
  if (from == TS_DT_i32) return narrow(e, to, odd_of_f64(e, LLVMBuildSIToFP(e->b, x, f64, "")));
  return narrow(e, to, ts_emit_cast(e, TS_DT_f32, from, x));
}

/* LLVM's SPIR-V loses a step from 64 bits to 8 or 16 that is widened again: what is "and"ed with the mask
 * has 64 bits then. So it goes by 32. */
static V shortened(TsEmit *e, V x, LLVMTypeRef t) {
  int lanes = ts_emit_lanes(x);
  if (e->target->maker == TS_MAKER_spirv && LLVMTypeOf(x) == ts_emit_type(e, TS_DT_i64, lanes))
    x = LLVMBuildTrunc(e->b, x, ts_emit_type(e, TS_DT_i32, lanes), "");
  return LLVMBuildTrunc(e->b, x, t, "");
}

static V integer_to_integer(TsEmit *e, TsDtype to, TsDtype from, V x) {
  LLVMTypeRef t = ts_emit_type(e, to, ts_emit_lanes(x));
  int nto = ts_dtypes[to].nbytes, nfrom = from == TS_DT_bool ? 0 : ts_dtypes[from].nbytes;
  if (nto == nfrom) return x;
  if (nto < nfrom) return shortened(e, x, t);
  return is_unsigned(from) ? LLVMBuildZExt(e->b, x, t, "") : LLVMBuildSExt(e->b, x, t, "");
}

/* Towards zero, saturating, 0 for NaN: what these intrinsics promise. */
static V float_to_integer(TsEmit *e, TsDtype to, V x) {
  LLVMTypeRef type[2] = {ts_emit_type(e, to, ts_emit_lanes(x)), LLVMTypeOf(x)};
  return ts_emit_call(e, is_unsigned(to) ? "llvm.fptoui.sat" : "llvm.fptosi.sat", 2, type, 1,
                      &x);
}

static V float_to_float(TsEmit *e, TsDtype to, TsDtype from, V x) {
  LLVMTypeRef t = ts_emit_type(e, to, ts_emit_lanes(x));
  if (is_small(to)) return narrow(e, to, from == TS_DT_f64 ? odd_of_f64(e, x) : x);
  return to == TS_DT_f64 ? LLVMBuildFPExt(e->b, x, t, "") : LLVMBuildFPTrunc(e->b, x, t, "");
}

LLVMValueRef ts_emit_cast(TsEmit *e, TsDtype to, TsDtype from, LLVMValueRef x) {
  if (to == from) return x;
  LLVMTypeRef t = ts_emit_type(e, to, ts_emit_lanes(x)); /* fails for what has no code */
  if (is_small(from)) {
    x = widen(e, from, x);
    if (to == (from = TS_DT_f32)) return x;
  }
  if (to == TS_DT_bool) return to_bool(e, from, x);
  if (is_float(from))
    return is_float(to) ? float_to_float(e, to, from, x) : float_to_integer(e, to, x);
  if (!is_float(to)) return integer_to_integer(e, to, from, x);
  if (is_small(to)) return integer_to_small(e, to, from, x);
  return is_unsigned(from) ? LLVMBuildUIToFP(e->b, x, t, "") : LLVMBuildSIToFP(e->b, x, t, "");
}
