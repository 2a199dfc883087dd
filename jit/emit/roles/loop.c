/* Loops and branches of a kernel with roles: registers of what they carry are phis, and sums
 * of products under way are known by the name that they have in the loop. See
 * jit/emit/roles/emit.h. */
#include "jit/emit/roles/emit.h"

#include <string.h>

typedef LLVMValueRef V;

/* Whether the loop has a round whatever the sizes are: a sum that products are added to while
 * it is carried must not meet another value at the end. */
static bool runs(const TsTileStmt *s) {
  const TsTileStmt *lo = s->in[0]->stmt, *hi = s->in[1]->stmt;
  if (!lo || !hi || lo->op != TS_TILE_const) return false;
  if (hi->op == TS_TILE_const)
    return ts_tile_attr(hi, "value")->f > ts_tile_attr(lo, "value")->f;
  if (hi->op != TS_OP_maximum) return false;
  for (int i = 0; i < 2; i++) {
    const TsTileStmt *x = hi->in[i]->stmt;
    if (x && x->op == TS_TILE_const &&
        ts_tile_attr(x, "value")->f > ts_tile_attr(lo, "value")->f)
      return true;
  }
  return false;
}

/* Sums that begin as zero begin as nothing: the first product does not read them. */
static bool begins_empty(const TsRoles *m, TsTileVal v) {
  return m->unit == TS_ROLES_wgmma && v->type.space == TS_SPACE_fragment && v->stmt &&
         v->stmt->op == TS_TILE_const && ts_tile_attr(v->stmt, "value")->f == 0;
}

static void swap_pending(TsRoles *m, TsTileVal was, TsTileVal now) {
  for (int i = 0; i < m->npending; i++)
    if (m->pending[i] == was) m->pending[i] = now;
}

LLVMBasicBlockRef ts_roles_block(TsRoles *m) {
  return LLVMAppendBasicBlockInContext(m->e->ctx, m->e->fn, "");
}

/* One phi for every register of a carried value. */
static V *enter_phis(TsRoles *m, TsTileVal param, TsTileVal first, LLVMBasicBlockRef from) {
  int n = ts_roles_registers(m, param);
  V *in = ts_emit_registers(m->e, first), *now = ts_roles_define(m, param, n);
  V *phi = ts_emit_take(m->e, sizeof *phi * (size_t)n);
  for (int i = 0; i < n; i++) {
    phi[i] = LLVMBuildPhi(m->e->b, LLVMTypeOf(in[i]), "");
    V v = begins_empty(m, first) ? LLVMGetPoison(LLVMTypeOf(in[i])) : in[i];
    LLVMAddIncoming(phi[i], &v, &from, 1);
    now[i] = phi[i]; /* until a wait replaces it */
  }
  return phi;
}

static void close_phis(TsRoles *m, V *phi, TsTileVal last, LLVMBasicBlockRef from) {
  V *in = ts_emit_registers(m->e, last);
  for (int i = 0, n = ts_roles_registers(m, last); i < n; i++)
    LLVMAddIncoming(phi[i], &in[i], &from, 1);
}

static void define_as(TsRoles *m, TsTileVal to, TsTileVal from) {
  int n = ts_roles_registers(m, to);
  V *in = ts_emit_registers(m->e, from);
  memcpy(ts_roles_define(m, to, n), in, sizeof *in * (size_t)n);
}

/* A loop that runs tests behind its body, others before it. */
void ts_roles_loop(TsRoles *m, const TsTileStmt *s) {
  LLVMBuilderRef b = m->e->b;
  const TsTileRegion *r = s->region[0];
  bool behind = runs(s);
  V lo = ts_emit_scalar(m->e, s->in[0]), hi = ts_emit_scalar(m->e, s->in[1]);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b), head = ts_roles_block(m),
                    body = behind ? head : ts_roles_block(m), after = ts_roles_block(m);
  LLVMBuildBr(b, head);
  LLVMPositionBuilderAtEnd(b, head);
  V i = LLVMBuildPhi(b, ts_roles_i32(m), "");
  LLVMAddIncoming(i, &lo, &before, 1);
  *ts_roles_define(m, r->param[0], 1) = i;
  V **phi = ts_emit_take(m->e, sizeof *phi * (size_t)(s->nout + 1));
  for (int c = 0; c < s->nout; c++) {
    phi[c] = enter_phis(m, r->param[1 + c], s->in[2 + c], before);
    if (behind) swap_pending(m, s->in[2 + c], r->param[1 + c]);
  }
  if (!behind) {
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, i, hi, ""), body, after);
    LLVMPositionBuilderAtEnd(b, body);
  }
  ts_roles_region(m, r);
  V next = ts_roles_addi(m, i, ts_tile_attr(s, "step")->i);
  LLVMBasicBlockRef last = LLVMGetInsertBlock(b);
  if (behind)
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, next, hi, ""), head, after);
  else
    LLVMBuildBr(b, head);
  LLVMAddIncoming(i, &next, &last, 1);
  for (int c = 0; c < s->nout; c++) {
    TsTileVal y = r->last->in[c];
    close_phis(m, phi[c], y, last);
    define_as(m, s->out[c], behind ? y : r->param[1 + c]);
    swap_pending(m, y, s->out[c]);
  }
  LLVMPositionBuilderAtEnd(b, after);
}

/* The body, and a test behind it. */
void ts_roles_repeat(TsRoles *m, const TsTileStmt *s) {
  LLVMBuilderRef b = m->e->b;
  const TsTileRegion *r = s->region[0];
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b), body = ts_roles_block(m),
                    after = ts_roles_block(m);
  LLVMBuildBr(b, body);
  LLVMPositionBuilderAtEnd(b, body);
  V **phi = ts_emit_take(m->e, sizeof *phi * (size_t)(s->nout + 1));
  for (int c = 0; c < s->nout; c++) phi[c] = enter_phis(m, r->param[c], s->in[c], before);
  ts_roles_region(m, r);
  LLVMBasicBlockRef last = LLVMGetInsertBlock(b);
  LLVMBuildCondBr(b, ts_emit_scalar(m->e, r->last->in[0]), body, after);
  for (int c = 0; c < s->nout; c++) {
    close_phis(m, phi[c], r->last->in[1 + c], last);
    define_as(m, s->out[c], r->last->in[1 + c]);
  }
  LLVMPositionBuilderAtEnd(b, after);
}

static bool only_arrives(const TsTileStmt *s) {
  for (const TsTileStmt *x = s->region[0]->first; x; x = x->next)
    if (x->op != TS_TILE_arrive) return false;
  return !s->region[1]->first;
}

/* One way or the other, for all threads of a group; never products. */
static void choice(TsRoles *m, const TsTileStmt *s) {
  LLVMBuilderRef b = m->e->b;
  LLVMBasicBlockRef way[2] = {ts_roles_block(m), ts_roles_block(m)}, end[2],
                    after = ts_roles_block(m);
  LLVMBuildCondBr(b, ts_emit_scalar(m->e, s->in[0]), way[0], way[1]);
  for (int i = 0; i < 2; i++) {
    LLVMPositionBuilderAtEnd(b, way[i]);
    ts_roles_region(m, s->region[i]);
    end[i] = LLVMGetInsertBlock(b);
    LLVMBuildBr(b, after);
  }
  LLVMPositionBuilderAtEnd(b, after);
  for (int c = 0; c < s->nout; c++) {
    int n = ts_roles_registers(m, s->out[c]);
    V *to = ts_roles_define(m, s->out[c], n);
    V *x = ts_emit_registers(m->e, s->region[0]->last->in[c]);
    V *y = ts_emit_registers(m->e, s->region[1]->last->in[c]);
    for (int i = 0; i < n; i++) {
      to[i] = LLVMBuildPhi(b, LLVMTypeOf(x[i]), "");
      LLVMAddIncoming(to[i], (V[]){x[i], y[i]}, end, 2);
    }
  }
}

/* A branch that only arrives is a predicate. */
void ts_roles_branch(TsRoles *m, const TsTileStmt *s) {
  if (!only_arrives(s)) {
    choice(m, s);
    return;
  }
  m->only_if = ts_roles_flag(m, ts_emit_scalar(m->e, s->in[0]));
  ts_roles_region(m, s->region[0]);
  m->only_if = NULL;
}
