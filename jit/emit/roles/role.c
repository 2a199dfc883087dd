/* Roles: which warps do what, each role a way of its own from the same branch to the same end. See
 * jit/emit/roles/emit.h. */
#include "jit/emit/roles/emit.h"

#include <stdio.h>

typedef LLVMValueRef V;

enum { WARP = 32, GROUP = 128, GROUP_WARPS = 4 };

const TsTileStmt *ts_roles_find(const TsTileRegion *r, int op) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op == op) return s;
    for (int i = 0; i < s->nregion; i++) {
      const TsTileStmt *inner = ts_roles_find(s->region[i], op);
      if (inner) return inner;
    }
  }
  return NULL;
}

/* Of the block: those of a persistent kernel are more. */
static int threads_of(const TsRoles *m) { return m->task ? m->task : m->info->threads; }

/* The pool has what threads get at the start; a role that wants fewer gives some back. */
static void set_registers(TsRoles *m) {
  const TsTileStmt *s = ts_roles_find(m->role->region[0], TS_TILE_registers);
  char text[80];
  if (!s || (m->task && m->part >= 0)) return;
  int64_t count = ts_tile_attr(s, "count")->i;
  snprintf(text, sizeof text, "setmaxnreg.%s.sync.aligned.u32 %d;",
           count < 65536 / threads_of(m) ? "dec" : "inc", (int)count);
  ts_roles_asm(m, NULL, text, "~{memory}", 0, NULL, true);
}

/* In a persistent kernel the group of warps goes on with what it began with. */
static void restore_registers(TsRoles *m, const TsTileStmt *role) {
  const TsTileStmt *s = ts_roles_find(role->region[0], TS_TILE_registers);
  char text[80];
  if (!m->task) return;
  ts_roles_asm(m, NULL, "bar.warp.sync 0xffffffff;", "~{memory}", 0, NULL, true);
  if (!s || m->part >= 0) return;
  int begun = 65536 / m->task / 8 * 8;
  snprintf(text, sizeof text, "setmaxnreg.%s.sync.aligned.u32 %d;",
           ts_tile_attr(s, "count")->i < begun ? "inc" : "dec", begun);
  ts_roles_asm(m, NULL, text, "~{memory}", 0, NULL, true);
}

static void begin_role(TsRoles *m, const TsTileStmt *s, int first) {
  m->role = s;
  m->warps = (int)ts_tile_attr(s, "warps")->i;
  m->mma = ts_roles_find(s->region[0], TS_TILE_mma);
  m->single = ts_roles_is_single(s);
  m->npending = m->ngroup = 0;
  m->copied = 16;
  m->turned = false;
  m->t = ts_roles_addi(m, m->tid, -(int64_t)first * WARP);
  m->group = ts_roles_shri(m, m->t, 7);
  m->lane = ts_roles_andi(m, m->t, WARP - 1);
  m->warp = ts_roles_andi(m, ts_roles_shri(m, m->t, 5), 3);
  m->leader = ts_roles_flag(m, ts_roles_equal(m, ts_roles_andi(m, m->t, GROUP - 1), 0));
  m->unit = TS_ROLES_none;
  if (m->warps % GROUP_WARPS == 0) set_registers(m);
}

static void role(TsRoles *m, const TsTileStmt *s, int first, LLVMBasicBlockRef end) {
  LLVMBuilderRef b = m->e->b;
  begin_role(m, s, first);
  if (m->single) {
    LLVMBasicBlockRef body = ts_roles_block(m);
    LLVMBuildCondBr(b, ts_roles_equal(m, m->t, 0), body, end);
    LLVMPositionBuilderAtEnd(b, body);
  } else {
    if (ts_roles_has_lanes(s))
      ts_roles_lanes_layout(m);
    else
      ts_roles_layout(m);
    if (ts_roles_find(s->region[0], TS_TILE_turn)) ts_roles_first_turn(m);
  }
  ts_roles_region(m, s->region[0]);
  LLVMBuildBr(b, end);
}

/* Roles that make up whole groups of four warps from s on: their warps. */
static int together(const TsTileStmt *s, int *count) {
  int warps = 0;
  for (*count = 0; s && s->op == TS_TILE_role; s = s->next) {
    warps += (int)ts_tile_attr(s, "warps")->i, ++*count;
    if (warps % GROUP_WARPS == 0) break;
  }
  return warps;
}

/* Whether warps from first to below behind are in this group of four. */
static bool is_of_part(const TsRoles *m, int first, int behind) {
  return first < (m->part + 1) * GROUP_WARPS && behind > m->part * GROUP_WARPS;
}

/* A role that asks for more than the others gave back waits for ever. */
static void check_registers(TsRoles *m, const TsTileStmt *s) {
  int64_t begun = 65536 / m->info->threads / 8 * 8, all = 0;
  int count;
  while (!m->task && s && s->op == TS_TILE_role) {
    const TsTileStmt *own = ts_roles_find(s->region[0], TS_TILE_registers);
    int warps = together(s, &count);
    all += (own ? ts_tile_attr(own, "count")->i : begun) * warps * WARP;
    for (; count > 0; count--) s = s->next;
  }
  if (all > begun * m->info->threads)
    ts_emit_fail(m->e, "roles want %d registers, a block of %d threads has %d", (int)all,
                 m->info->threads, (int)(begun * m->info->threads));
}

void ts_roles_emit(TsRoles *m, const TsTileStmt *s, LLVMBasicBlockRef end) {
  LLVMBuilderRef b = m->e->b;
  V warp = ts_roles_shri(m, m->tid, 5);
  int first = 0, count;
  check_registers(m, s);
  while (s && s->op == TS_TILE_role) {
    int behind = first + together(s, &count);
    if (m->task && m->part >= 0 && !is_of_part(m, first, behind)) {
      for (; count > 0; count--) s = s->next;
      first = behind;
      continue;
    }
    LLVMBasicBlockRef mine = ts_roles_block(m), next = ts_roles_block(m);
    V in = LLVMBuildICmp(b, LLVMIntULT, warp, ts_roles_int(m, behind), "");
    LLVMBuildCondBr(b, in, mine, next);
    LLVMPositionBuilderAtEnd(b, mine);
    const TsTileStmt *leads = m->role = s;
    LLVMBasicBlockRef done = m->task ? ts_roles_block(m) : end;
    if (count > 1) set_registers(m); /* by the whole group */
    for (; count > 0; count--, s = s->next) {
      int warps = (int)ts_tile_attr(s, "warps")->i;
      LLVMBasicBlockRef one = ts_roles_block(m), others = count > 1 ? ts_roles_block(m) : done;
      in = LLVMBuildICmp(b, LLVMIntULT, warp, ts_roles_int(m, first + warps), "");
      LLVMBuildCondBr(b, in, one, others);
      LLVMPositionBuilderAtEnd(b, one);
      role(m, s, first, done);
      LLVMPositionBuilderAtEnd(b, others);
      first += warps;
    }
    if (m->task) {
      LLVMPositionBuilderAtEnd(b, done);
      restore_registers(m, leads);
      LLVMBuildBr(b, end);
    }
    LLVMPositionBuilderAtEnd(b, next);
  }
  if (s) ts_emit_fail(m->e, "%s stands behind the roles", ts_tile_op_name(s->op));
  if (first * WARP != m->info->threads) ts_emit_fail(m->e, "roles of %d warps", first);
  LLVMBuildBr(b, end);
}
