/* Fragments of one type from those of another. See jit/emit/roles/emit.h. */
#include "jit/emit/roles/emit.h"

typedef LLVMValueRef V;

static V narrowed(TsRoles *m, TsDtype d, V low, V high) {
  V in[2] = {high, low};
  return ts_roles_asm(m, ts_roles_i32(m),
                      d == TS_DT_bf16 ? "cvt.rn.bf16x2.f32 $0, $1, $2;"
                                      : "cvt.rn.f16x2.f32 $0, $1, $2;",
                      "=r,f,f", 2, in, false);
}

static V widened(TsRoles *m, TsDtype d, V pair, bool high) {
  TsEmit *e = m->e;
  LLVMTypeRef f32 = ts_emit_elem(e, TS_DT_f32);
  if (d == TS_DT_bf16) {
    V x = high ? ts_roles_andi(m, pair, 0xffff0000)
               : LLVMBuildShl(e->b, pair, ts_roles_int(m, 16), "");
    return LLVMBuildBitCast(e->b, x, f32, "");
  }
  V x = LLVMBuildTrunc(e->b, high ? ts_roles_shri(m, pair, 16) : pair,
                       ts_emit_int_type(e, 16, 0), "");
  return LLVMBuildFPExt(e->b, LLVMBuildBitCast(e->b, x, LLVMHalfTypeInContext(e->ctx), ""), f32,
                        "");
}

static void cast_pairs(TsRoles *m, const TsTileStmt *s) {
  TsTileVal x = s->in[0], y = s->out[0];
  int n = ts_roles_count(m, ts_roles_is_pairs(&x->type) ? &y->type : &x->type, 1);
  V *in = ts_emit_registers(m->e, x), *to = ts_roles_define(m, y, n);
  if (ts_roles_is_pairs(&y->type) && x->type.dtype == TS_DT_f32)
    for (int i = 0; i < n / 2; i++)
      to[i] = narrowed(m, (TsDtype)y->type.dtype, in[2 * i], in[2 * i + 1]);
  else if (ts_roles_is_pairs(&x->type) && y->type.dtype == TS_DT_f32)
    for (int i = 0; i < n; i++) to[i] = widened(m, (TsDtype)x->type.dtype, in[i / 2], i % 2);
  else
    ts_emit_fail(m->e, "a conversion between %s and %s", ts_dtype_name((TsDtype)x->type.dtype),
                 ts_dtype_name((TsDtype)y->type.dtype));
}

/* Positions have 32 bits here and 64 in the kernel. */
static V cast_one(TsRoles *m, TsDtype to, TsDtype from, V x) {
  if (to == TS_DT_i64 && from == TS_DT_bool) return ts_roles_flag(m, x);
  if (to == TS_DT_i64 || from == TS_DT_i64) ts_emit_fail(m->e, "a conversion of positions");
  return ts_emit_cast(m->e, to, from, x);
}

void ts_roles_cast(TsRoles *m, const TsTileStmt *s) {
  TsTileVal x = s->in[0], y = s->out[0];
  if (m->unit != TS_ROLES_fma && (ts_roles_is_pairs(&x->type) || ts_roles_is_pairs(&y->type))) {
    cast_pairs(m, s);
    return;
  }
  int n = ts_roles_count(m, &x->type, m->axis[x->id] ? m->axis[x->id] - 1 : 1);
  V *in = ts_emit_registers(m->e, x), *to = ts_roles_define(m, y, n);
  for (int i = 0; i < n; i++)
    to[i] = cast_one(m, (TsDtype)y->type.dtype, (TsDtype)x->type.dtype, in[i]);
}
