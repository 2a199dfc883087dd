/* Rows of a slot of shared memory that become zeros. The pattern moves 16 bytes within a row of
 * a panel, so it does not matter to them. */
#include "jit/emit/roles/emit.h"

#include <stdio.h>

typedef LLVMValueRef V;

/* A row of a panel, `bytes` of it, if `is`. */
static void line(TsRoles *m, V at, V is, int bytes) {
  char text[800];
  int used = snprintf(text, sizeof text,
                      "{\n\t.reg .pred p;\n\t.reg .b32 z;\n\tsetp.ne.b32 p, $1, 0;\n\t"
                      "mov.b32 z, 0;");
  for (int i = 0; i < bytes; i += 16)
    used += snprintf(text + used, sizeof text - (size_t)used,
                     "\n\t@p st.shared.v4.b32 [$0+%d], {z, z, z, z};", i);
  snprintf(text + used, sizeof text - (size_t)used, "\n\t}");
  V in[2] = {at, is};
  ts_roles_asm(m, NULL, text, "r,r,~{memory}", 2, in, true);
}

void ts_roles_blank(TsRoles *m, const TsTileStmt *s) {
  LLVMBuilderRef b = m->e->b;
  const TsTileType *t = &s->in[0]->type;
  int64_t wide = t->dim[2] * ts_dtypes[t->dtype].nbytes, rows = t->dim[1];
  int64_t panel = t->swizzle && t->swizzle < wide ? t->swizzle : wide;
  bool fits =
      !m->single && t->split == 0 && panel <= 128 && wide % panel == 0 && panel % 16 == 0;
  if (!fits) ts_emit_fail(m->e, "rows of patterns become zeros, by all threads of a role");
  V slot = ts_roles_slot(m, s->in[0], ts_emit_scalar(m->e, s->in[1]));
  V low = ts_emit_scalar(m->e, s->in[2]), end = ts_emit_scalar(m->e, s->in[3]);
  for (int64_t first = 0; first < rows; first += 32 * m->warps) {
    V row = ts_roles_addi(m, m->t, first), n = ts_roles_int(m, rows);
    V out = LLVMBuildOr(b, LLVMBuildICmp(b, LLVMIntSLT, row, low, ""),
                        LLVMBuildICmp(b, LLVMIntSGE, row, end, ""), "");
    out = LLVMBuildAnd(b, out, LLVMBuildICmp(b, LLVMIntSLT, row, n, ""), "");
    V is = ts_roles_flag(m, out), at = ts_roles_add(m, slot, ts_roles_muli(m, row, panel));
    for (int64_t p = 0; p < wide / panel; p++)
      line(m, ts_roles_addi(m, at, p * panel * rows), is, (int)panel);
  }
}
