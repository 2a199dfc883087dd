/* x 2^n rounded once: one instruction with AVX-512, else a product by two powers of two, the first
 * of which is exact: the halves of n, or, where n is not above 0, one that is too large by a
 * constant and what takes that back. */
#include <stdio.h>

#include "jit/emit/cpu/emit.h"

/* The power of two of a whole number in the range of normal ones. */
static LLVMValueRef power(TsEmit *e, bool wide, LLVMTypeRef type, LLVMValueRef k) {
  LLVMTypeRef i = LLVMTypeOf(k);
  LLVMValueRef biased = LLVMBuildAdd(e->b, k, ts_emit_int(e, i, wide ? 1023 : 127), "");
  LLVMValueRef bits = LLVMBuildShl(e->b, biased, ts_emit_int(e, i, wide ? 52 : 23), "");
  return LLVMBuildBitCast(e->b, bits, type, "");
}

/* A float whose lowest bits are the whole number n + more. Conversions of vectors to integers that
 * say what becomes of every number are one an element on most processors. A NaN becomes anything; x
 * is one as well then. */
static LLVMValueRef lowest(TsEmit *e, bool wide, LLVMValueRef n, int more, LLVMTypeRef i) {
  LLVMValueRef magic = ts_emit_float(e, LLVMTypeOf(n), (wide ? 0x1.8p52 : 0x1.8p23) + more);
  return LLVMBuildBitCast(e->b, LLVMBuildFAdd(e->b, n, magic, ""), i, "");
}

static LLVMValueRef whole(TsEmit *e, bool wide, LLVMValueRef n, LLVMTypeRef i) {
  LLVMValueRef magic = ts_emit_float(e, LLVMTypeOf(n), wide ? 0x1.8p52 : 0x1.8p23);
  LLVMValueRef bits = lowest(e, wide, n, 0, i);
  return LLVMBuildSub(e->b, bits, LLVMBuildBitCast(e->b, magic, i, ""), "");
}

static LLVMTypeRef integers(TsEmit *e, bool wide, LLVMValueRef x) {
  return ts_emit_int_type(e, wide ? 64 : 32, ts_emit_lanes(x));
}

/* The shift leaves nothing of the sum but an exponent, that of the factor which is too large by
 * K_TOO_MUCH of lib/elem: no product of it and x is out of range. */
static LLVMValueRef down(TsEmit *e, bool wide, LLVMValueRef x, LLVMValueRef n) {
  LLVMTypeRef type = LLVMTypeOf(x), i = integers(e, wide, x);
  int much = wide ? 512 : 64;
  LLVMValueRef sum = lowest(e, wide, n, (wide ? 1023 : 127) + much, i);
  LLVMValueRef bits = LLVMBuildShl(e->b, sum, ts_emit_int(e, i, wide ? 52 : 23), "");
  LLVMValueRef y = LLVMBuildFMul(e->b, x, LLVMBuildBitCast(e->b, bits, type, ""), "");
  return LLVMBuildFMul(e->b, y, ts_emit_float(e, type, wide ? 0x1p-512 : 0x1p-64), "");
}

static LLVMValueRef by_halves(TsEmit *e, bool wide, LLVMValueRef x, LLVMValueRef n) {
  LLVMTypeRef type = LLVMTypeOf(x), i = integers(e, wide, x);
  LLVMValueRef k = whole(e, wide, n, i);
  LLVMValueRef half = LLVMBuildAShr(e->b, k, ts_emit_int(e, i, 1), "");
  LLVMValueRef rest = LLVMBuildSub(e->b, k, half, "");
  LLVMValueRef y = LLVMBuildFMul(e->b, x, power(e, wide, type, half), "");
  return LLVMBuildFMul(e->b, y, power(e, wide, type, rest), "");
}

/* Of 64 bytes, or of 16 where only lane 0 counts. */
static LLVMValueRef instruction(TsEmit *e, bool wide, bool one, LLVMValueRef x,
                                LLVMValueRef n) {
  char name[64];
  int lanes = one ? 8 : wide ? 8 : 16;
  snprintf(name, sizeof name, "llvm.x86.avx512.mask.scalef.p%c.%d", wide ? 'd' : 's',
           one ? 128 : 512);
  LLVMTypeRef mask = LLVMIntTypeInContext(e->ctx, (unsigned)lanes);
  LLVMTypeRef i32 = LLVMInt32TypeInContext(e->ctx);
  LLVMValueRef in[5] = {x, n, x, LLVMConstAllOnes(mask), LLVMConstInt(i32, 4, false)};
  return ts_emit_call(e, name, 0, NULL, one ? 4 : 5, in);
}

static LLVMValueRef scalar(TsEmit *e, bool wide, LLVMValueRef x, LLVMValueRef n) {
  int lanes = wide ? 2 : 4;
  LLVMValueRef y =
      instruction(e, wide, true, ts_emit_splat(e, x, lanes), ts_emit_splat(e, n, lanes));
  return ts_emit_lane(e, y, 0);
}

static LLVMValueRef vectors(TsEmit *e, bool wide, LLVMValueRef x, LLVMValueRef n) {
  int lanes = ts_emit_lanes(x), each = wide ? 8 : 16;
  LLVMValueRef y = NULL;
  for (int at = 0; at < lanes; at += each) {
    int *index = ts_emit_take(e, sizeof *index * (size_t)each);
    for (int i = 0; i < each; i++) index[i] = at + i < lanes ? at + i : -1;
    LLVMValueRef part = instruction(e, wide, false, ts_emit_shuffle(e, x, NULL, each, index),
                                    ts_emit_shuffle(e, n, NULL, each, index));
    if (lanes - at < each) part = ts_emit_span(e, part, 0, lanes - at);
    y = y ? ts_emit_join(e, y, part) : part;
  }
  return y;
}

LLVMValueRef ts_emit_scale(TsEmit *e, const TsTileStmt *s, LLVMValueRef x, LLVMValueRef n) {
  bool wide = s->in[0]->type.dtype == TS_DT_f64;
  if (e->target->scale)
    return (ts_emit_lanes(x) ? vectors : scalar)(e, wide, x, n);
  return (ts_tile_attr(s, "down")->i ? down : by_halves)(e, wide, x, n);
}
