/* x 2^n rounded once: one instruction with AVX-512, else a product by two powers of two, the first
 * of which is exact. */
#include <stdio.h>
#include <string.h>

#include "jit/emit.h"

/* The power of two of a whole number in the range of normal ones. */
static LLVMValueRef power(TsEmit *e, bool wide, LLVMTypeRef type, LLVMValueRef k) {
  LLVMTypeRef i = LLVMTypeOf(k);
  LLVMValueRef biased = LLVMBuildAdd(e->b, k, ts_emit_int(e, i, wide ? 1023 : 127), "");
  LLVMValueRef bits = LLVMBuildShl(e->b, biased, ts_emit_int(e, i, wide ? 52 : 23), "");
  return LLVMBuildBitCast(e->b, bits, type, "");
}

/* A whole number in the range of n as an integer: by an addition after which it is the lowest bits
 * of a float. Conversions of vectors that say what becomes of every number are one an element on
 * most processors. A NaN becomes anything; x is one as well then. */
static LLVMValueRef whole(TsEmit *e, bool wide, LLVMValueRef n, LLVMTypeRef i) {
  LLVMTypeRef type = LLVMTypeOf(n);
  LLVMValueRef magic = ts_emit_float(e, type, wide ? 0x1.8p52 : 0x1.8p23);
  LLVMValueRef bits = LLVMBuildBitCast(e->b, LLVMBuildFAdd(e->b, n, magic, ""), i, "");
  return LLVMBuildSub(e->b, bits, LLVMBuildBitCast(e->b, magic, i, ""), "");
}

static LLVMValueRef by_halves(TsEmit *e, bool wide, LLVMValueRef x, LLVMValueRef n) {
  LLVMTypeRef type = LLVMTypeOf(x), i = ts_emit_int_type(e, wide ? 64 : 32, ts_emit_lanes(x));
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

LLVMValueRef ts_emit_scale(TsEmit *e, TsDtype d, LLVMValueRef x, LLVMValueRef n) {
  bool wide = d == TS_DT_f64;
  if (strcmp(e->target->tile.name, "avx512")) return by_halves(e, wide, x, n);
  return ts_emit_lanes(x) ? vectors(e, wide, x, n) : scalar(e, wide, x, n);
}
