/* Keeping the order of loads and multiply-adds in loops that carry most of the registers.
 *
 * The sums of a register tile leave room for a few operands. LLVM's schedulers move the loads
 * of a whole turn of the loop, four steps of k, in front of its arithmetic where their
 * addresses look dear, and then spill: a product of 384x1536 by 1536x128 took 1250 instead of
 * 670 us. So before a load of a single element, with which a row of multiply-adds begins,
 * stands an empty instruction that LLVM does not look into: no load passes it, and the row
 * before goes through it. Rejected: turning scheduling off, which is a switch for the whole
 * process that row kernels lose a fifth by. */
#include <stdio.h>
#include <string.h>

#include "jit/emit/cpu/emit.h"

enum { MANY = 12 }; /* carried vectors that leave few registers */

bool ts_emit_is_crowded(const TsTileStmt *loop) {
  return loop->nout >= MANY && loop->out[0]->type.rank;
}

static bool fits_register(const TsEmit *e, const TsTileType *t) {
  TsDtype d = (TsDtype)t->dtype;
  return t->rank == 1 && (d == TS_DT_f32 || d == TS_DT_f64) &&
         t->dim[0] * ts_dtypes[d].nbytes == e->target->vector_bytes;
}

void ts_emit_computed(TsEmit *e, TsTileVal v) {
  if (e->crowded && e->nheld < TS_EMIT_HELD && fits_register(e, &v->type))
    e->held[e->nheld++] = v;
}

static void constraints(int n, char *text, size_t room) {
  size_t at = 0;
  for (int i = 0; i < n; i++) at += (size_t)snprintf(text + at, room - at, "=v,");
  for (int i = 0; i < n; i++) at += (size_t)snprintf(text + at, room - at, "%d,", i);
  snprintf(text + at, room - at, "~{memory}");
}

void ts_emit_hold(TsEmit *e) {
  LLVMTypeRef type[TS_EMIT_HELD], result = LLVMVoidTypeInContext(e->ctx);
  LLVMValueRef in[TS_EMIT_HELD];
  char text[TS_EMIT_HELD * 8 + 16];
  int n = e->nheld;
  for (int i = 0; i < n; i++) {
    in[i] = ts_emit_registers(e, e->held[i])[0];
    type[i] = LLVMTypeOf(in[i]);
  }
  if (n == 1) result = type[0];
  if (n > 1) result = LLVMStructTypeInContext(e->ctx, type, (unsigned)n, 0);
  constraints(n, text, sizeof text);
  LLVMTypeRef fn = LLVMFunctionType(result, type, (unsigned)n, 0);
  LLVMValueRef nothing = LLVMGetInlineAsm(fn, "", 0, text, strlen(text), true, false,
                                          LLVMInlineAsmDialectATT, false);
  LLVMValueRef y = LLVMBuildCall2(e->b, fn, nothing, in, (unsigned)n, "");
  for (int i = 0; i < n; i++)
    *ts_emit_registers(e, e->held[i]) =
        n == 1 ? y : LLVMBuildExtractValue(e->b, y, (unsigned)i, "");
  e->nheld = 0;
}
