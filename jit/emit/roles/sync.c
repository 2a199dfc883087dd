/* Barriers that count, groups of copies, and the threads' own meetings. */
#include <stdio.h>
#include <string.h>

#include "jit/emit/roles/emit.h"
#include "ir/tile/find.h"

typedef LLVMValueRef V;

enum {
  OF_COPIES,
  OF_PRODUCTS,
  OF_STORES,
  OF_WRITES,
  WARP = 32,
  GROUP = 128,
  FEW_WARPS = 7 /* the named barrier of a role of less than a group of warps */
};

static void plain(TsRoles *m, const char *text) {
  ts_roles_asm(m, NULL, text, "~{memory}", 0, NULL, true);
}

/* ---- how many arrive */
static bool same_unit(const TsTileStmt *mma, const char *unit) {
  const TsAttr *a = ts_tile_attr(mma, "unit");
  return a->type == TS_ATTR_str && a->str && !strcmp(a->str, unit);
}

static const TsTileStmt *product_of(const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op == TS_TILE_mma) return s;
    for (int i = 0; i < s->nregion; i++) {
      const TsTileStmt *inner = product_of(s->region[i]);
      if (inner) return inner;
    }
  }
  return NULL;
}

static bool has(const TsTileRegion *r, int op, int operand, TsTileVal v) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op == op && (!v || s->in[operand] == v)) return true;
    for (int i = 0; i < s->nregion; i++)
      if (has(s->region[i], op, operand, v)) return true;
  }
  return false;
}

static const TsTileStmt *arrival_at(const TsTileRegion *r, TsTileVal barrier) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op == TS_TILE_arrive && s->in[0] == barrier) return s;
    for (int i = 0; i < s->nregion; i++) {
      const TsTileStmt *inner = arrival_at(s->region[i], barrier);
      if (inner) return inner;
    }
  }
  return NULL;
}

bool ts_roles_is_single(const TsTileStmt *role) {
  return !ts_tile_find_fragment(role->region[0], false);
}

/* Whether those wait for it who copy to every block of the cluster. */
static bool is_told_to_all(const TsRoles *m, TsTileVal barrier) {
  if (m->info->cluster == 1) return false;
  for (const TsTileStmt *s = barrier->stmt; s; s = s->next)
    if (s->op == TS_TILE_role && ts_roles_is_single(s) &&
        has(s->region[0], TS_TILE_await, 0, barrier))
      return true;
  return false;
}

/* One arrival of a role: of its one thread; of each group of warps, at every block of the
 * cluster if copies to all of them wait for it; of each warp. */
static int arrivals(const TsRoles *m, const TsTileStmt *role, const TsTileStmt *arrive) {
  const TsTileStmt *mma = product_of(role->region[0]);
  int warps = (int)ts_tile_attr(role, "warps")->i;
  if (ts_roles_is_single(role)) return 1;
  if (ts_tile_attr(arrive, "apart")->i || (mma && !same_unit(mma, "wgmma"))) return warps;
  return (warps + 3) / 4 * (is_told_to_all(m, arrive->in[0]) ? m->info->cluster : 1);
}

static int count_of(TsRoles *m, const TsTileStmt *alloc) {
  int each = 0;
  for (const TsTileStmt *s = alloc->next; s; s = s->next) {
    const TsTileStmt *arrive =
        s->op == TS_TILE_role ? arrival_at(s->region[0], alloc->out[0]) : NULL;
    if (!arrive) continue;
    int n = arrivals(m, s, arrive);
    if (each && n != each) ts_emit_fail(m->e, "roles that arrive in different ways");
    each = n;
  }
  return each * alloc->out[0]->type.count;
}

/* Each thread of a warp begins one: a line of code for each of them would be a tenth of what the
 * driver compiles of a small kernel. */
static void begin_barriers(TsRoles *m, const TsTileStmt *s) {
  int64_t slots = s->out[0]->type.dim[0];
  V count = ts_roles_int(m, count_of(m, s));
  for (int64_t first = 0; first < slots; first += WARP) {
    V slot = ts_roles_addi(m, m->tid, first);
    V in[4] = {ts_roles_slot(m, s->out[0], slot), count, slot, ts_roles_int(m, slots)};
    ts_roles_asm(m, NULL,
                 "{\n\t.reg .pred p;\n\tsetp.lt.u32 p, $2, $3;\n\t"
                 "@p mbarrier.init.shared::cta.b64 [$0], $1;\n\t}",
                 "r,r,r,r,~{memory}", 4, in, true);
  }
}

static void end_barriers(TsRoles *m, const TsTileStmt *s) {
  int64_t slots = s->out[0]->type.dim[0];
  V in[3] = {ts_roles_slot(m, s->out[0], m->tid), m->tid, ts_roles_int(m, slots)};
  if (slots > m->info->threads) ts_emit_fail(m->e, "more barriers than threads");
  ts_roles_asm(m, NULL,
               "{\n\t.reg .pred p;\n\tsetp.lt.u32 p, $1, $2;\n\t"
               "@p mbarrier.inval.shared::cta.b64 [$0];\n\t}",
               "r,r,r,~{memory}", 3, in, true);
}

static void meet_all(TsRoles *m) {
  char text[32];
  snprintf(text, sizeof text, "bar.sync 0, %d;", m->info->threads);
  plain(m, m->task ? text : "bar.sync 0;");
}

static bool has_barriers(const TsTileRegion *block) {
  for (const TsTileStmt *s = block->first; s; s = s->next)
    if (s->op == TS_TILE_alloc && s->out[0]->type.space == TS_SPACE_barrier) return true;
  return false;
}

/* By the first warp, before anybody goes on. */
void ts_roles_barriers(TsRoles *m, const TsTileRegion *block) {
  TsEmit *e = m->e;
  if (!has_barriers(block) && m->info->cluster == 1) return;
  if (m->task && m->part > 0) { /* the first group begins them */
    meet_all(m);
    return;
  }
  LLVMBasicBlockRef begin = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
  LLVMBasicBlockRef all = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
  V first = LLVMBuildICmp(e->b, LLVMIntULT, m->tid, ts_roles_int(m, WARP), "");
  LLVMBuildCondBr(e->b, first, begin, all);
  LLVMPositionBuilderAtEnd(e->b, begin);
  for (const TsTileStmt *s = block->first; s; s = s->next)
    if (s->op == TS_TILE_alloc && s->out[0]->type.space == TS_SPACE_barrier)
      begin_barriers(m, s);
  plain(m, "fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;");
  LLVMBuildBr(e->b, all);
  LLVMPositionBuilderAtEnd(e->b, all);
  if (m->info->cluster > 1)
    plain(m,
          "barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;");
  else
    meet_all(m);
}

/* Where threads of other tasks belong to the block, so many meet. */
void ts_roles_barriers_end(TsRoles *m, const TsTileRegion *block) {
  if (!has_barriers(block)) return;
  plain(m, "bar.warp.sync 0xffffffff;");
  meet_all(m);
  for (const TsTileStmt *s = m->part > 0 ? NULL : block->first; s; s = s->next)
    if (s->op == TS_TILE_alloc && s->out[0]->type.space == TS_SPACE_barrier) end_barriers(m, s);
}

void ts_roles_meet(TsRoles *m) {
  plain(m, "bar.warp.sync 0xffffffff;");
  plain(m, "barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;");
}

/* ---- barriers */
void ts_roles_await(TsRoles *m, const TsTileStmt *s) {
  V in[2] = {ts_roles_slot(m, s->in[0], ts_emit_scalar(m->e, s->in[1])),
             ts_emit_scalar(m->e, s->in[2])};
  ts_roles_asm(m, NULL,
               "{\n\t.reg .pred P1;\n\tLW_${:uid}:\n\t"
               "mbarrier.try_wait.parity.shared::cta.b64 P1, [$0], $1;\n\t"
               "@P1 bra LD_${:uid};\n\tbra LW_${:uid};\n\tLD_${:uid}:\n\t}",
               "r,r,~{memory}", 2, in, true);
}

static V both(TsRoles *m, V flag) {
  return m->only_if ? LLVMBuildAnd(m->e->b, flag, m->only_if, "") : flag;
}

/* At the same barrier of every block of the cluster, one thread for each. */
static void arrive_everywhere(TsRoles *m, V at) {
  V t = ts_roles_andi(m, m->t, GROUP - 1), n = ts_roles_int(m, m->info->cluster);
  V in[3] = {at, t, both(m, ts_roles_flag(m, LLVMBuildICmp(m->e->b, LLVMIntULT, t, n, "")))};
  ts_roles_asm(m, NULL,
               "{\n\t.reg .pred p;\n\t.reg .b32 r;\n\tsetp.ne.b32 p, $2, 0;\n\t"
               "@p mapa.shared::cluster.u32 r, $0, $1;\n\t"
               "@p mbarrier.arrive.shared::cluster.b64 _, [r];\n\t}",
               "r,r,r,~{memory}", 3, in, true);
}

static void arrive_here(TsRoles *m, V at, V flag) {
  V in[2] = {at, both(m, flag)};
  ts_roles_asm(m, NULL,
               "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $1, 0;\n\t"
               "@p mbarrier.arrive.shared::cta.b64 _, [$0];\n\t}",
               "r,r,~{memory}", 2, in, true);
}

static bool is_pair(const TsTileStmt *expect, const TsTileStmt *arrive) {
  return expect && arrive && expect->op == TS_TILE_expect && arrive->op == TS_TILE_arrive &&
         expect->in[0] == arrive->in[0] && expect->in[1] == arrive->in[1];
}

void ts_roles_arrive(TsRoles *m, const TsTileStmt *s) {
  if (is_pair(s->prev, s)) return; /* one instruction */
  V at = ts_roles_slot(m, s->in[0], ts_emit_scalar(m->e, s->in[1]));
  if (m->single) {
    arrive_here(m, at, ts_roles_int(m, 1));
  } else if (m->unit == TS_ROLES_fma || ts_tile_attr(s, "apart")->i) {
    if (m->info->cluster > 1) ts_emit_fail(m->e, "warps of a cluster that arrive apart");
    /* What was read is in registers: multiply-adds of large tiles have waited for it. */
    bool few = m->unit == TS_ROLES_fma && m->layout.nrow < 8;
    if (m->unit == TS_ROLES_warps || few) plain(m, "membar.cta;");
    plain(m, "bar.warp.sync 0xffffffff;");
    V first = LLVMBuildICmp(m->e->b, LLVMIntEQ, m->lane, ts_roles_int(m, 0), "");
    arrive_here(m, at, ts_roles_flag(m, first));
  } else if (is_told_to_all(m, s->in[0])) {
    arrive_everywhere(m, at);
  } else {
    arrive_here(m, at, m->leader);
  }
}

/* What arrives here of the copies behind it: a part of memory that is split, all of other. */
static int64_t bytes_here(TsRoles *m, const TsTileStmt *s) {
  int64_t all = 0, here = 0;
  for (const TsTileStmt *c = s->next; c; c = c->next) {
    if (c->op != TS_TILE_copy_bulk || c->in[2] != s->in[0]) continue;
    int64_t n = ts_roles_copied_bytes(m, c);
    here += n;
    all += c->in[0]->type.split ? n * m->info->cluster : n;
  }
  if (all != ts_tile_attr(s, "bytes")->i)
    ts_emit_fail(m->e, "%d bytes are expected, %d come", (int)ts_tile_attr(s, "bytes")->i,
                 (int)all);
  return here;
}

void ts_roles_expect(TsRoles *m, const TsTileStmt *s) {
  V in[2] = {ts_roles_slot(m, s->in[0], ts_emit_scalar(m->e, s->in[1])),
             ts_roles_int(m, bytes_here(m, s))};
  ts_roles_asm(m, NULL,
               is_pair(s, s->next) ? "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;"
                                   : "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$0], $1;",
               "r,r,~{memory}", 2, in, true);
}

/* ---- groups */
void ts_roles_commit(TsRoles *m, const TsTileStmt *s) {
  int of = (int)ts_tile_attr(s, "of")->i;
  if (of == OF_COPIES) plain(m, "cp.async.commit_group;");
  if (of == OF_STORES && m->single) plain(m, "cp.async.bulk.commit_group;");
  if (of != OF_PRODUCTS) return;
  plain(m, "wgmma.commit_group.sync.aligned;");
  m->ngroup++;
}

static void wait_stores(TsRoles *m, int pending, bool written) {
  char text[160];
  snprintf(text, sizeof text,
           "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $0, 0;\n\t"
           "@p cp.async.bulk.wait_group%s %d;\n\t}",
           written ? "" : ".read", pending);
  ts_roles_asm(m, NULL, text, "r,~{memory}", 1, &m->leader, true);
}

/* Sums of groups that are done are there: their registers go through the wait. What a loop
 * carries while it is added to has the group of its last product. */
static void wait_products(TsRoles *m, int pending) {
  char text[64];
  int left = 0, through = 0;
  snprintf(text, sizeof text, "wgmma.wait_group.sync.aligned %d;", pending);
  for (int i = 0; i < m->npending; i++) {
    TsTileVal v = m->pending[i];
    if (pending && m->pending_group[i] >= m->ngroup - pending) {
      m->pending_group[left] = m->pending_group[i];
      m->pending[left++] = v;
      continue;
    }
    ts_roles_through(m, ts_roles_count(m, &v->type, 1), ts_emit_registers(m->e, v),
                     through++ ? "" : text);
  }
  if (!through) plain(m, text);
  m->npending = left;
}

static void wait_copies(TsRoles *m, int pending) {
  char text[40];
  snprintf(text, sizeof text, "cp.async.wait_group %d;", pending);
  plain(m, text);
}

void ts_roles_wait(TsRoles *m, const TsTileStmt *s) {
  int of = (int)ts_tile_attr(s, "of")->i, pending = (int)ts_tile_attr(s, "pending")->i;
  if (of == OF_STORES || of == OF_WRITES)
    wait_stores(m, pending, of == OF_WRITES);
  else if (of == OF_PRODUCTS)
    wait_products(m, pending);
  else
    wait_copies(m, pending);
}

/* Of the group of warps that stores together. */
void ts_roles_sync(TsRoles *m) {
  V in = ts_roles_addi(m, m->group, m->warps < 4 ? FEW_WARPS : 1);
  char text[32];
  snprintf(text, sizeof text, "bar.sync $0, %d;", m->warps < 4 ? 32 * m->warps : GROUP);
  ts_roles_asm(m, NULL, text, "r,~{memory}", 1, &in, true);
}

/* Of threads of several groups. */
void ts_roles_barrier(TsRoles *m, const TsTileStmt *s) {
  const TsAttr *threads = ts_tile_attr(s, "threads");
  char text[64];
  if (m->single || threads->type != TS_ATTR_int)
    ts_emit_fail(m->e, "roles meet with so many threads");
  snprintf(text, sizeof text, "bar.sync %d, %d;", (int)ts_tile_attr(s, "name")->i,
           (int)threads->i);
  plain(m, text);
}

/* ---- signals: numbers of the device. Copies by the copy engine stand behind a proxy. */
static V signal_at(TsRoles *m, const TsTileStmt *s) {
  LLVMBuilderRef b = m->e->b;
  if (s->in[0]->type.rank != 1) ts_emit_fail(m->e, "signals are a line of numbers");
  V at = LLVMBuildSExt(b, ts_emit_scalar(m->e, s->in[1]), ts_emit_int_type(m->e, 64, 0), "");
  at = LLVMBuildMul(b, at, ts_emit_i64(m->e, 4), "");
  return LLVMBuildGEP2(b, ts_emit_int_type(m->e, 8, 0), ts_emit_registers(m->e, s->in[0])[0],
                       &at, 1, "");
}

void ts_roles_until(TsRoles *m, const TsTileStmt *s) {
  V in[2] = {signal_at(m, s), ts_emit_scalar(m->e, s->in[2])};
  ts_roles_asm(m, NULL,
               "{\n\t.reg .pred p;\n\t.reg .b32 v;\n\tLS_${:uid}:\n\t"
               "ld.acquire.gpu.global.s32 v, [$0];\n\tsetp.lt.s32 p, v, $1;\n\t"
               "@p bra LS_${:uid};\n\tfence.proxy.async;\n\t}",
               "l,r,~{memory}", 2, in, true);
}

void ts_roles_signal(TsRoles *m, const TsTileStmt *s) {
  V in[2] = {signal_at(m, s), ts_emit_scalar(m->e, s->in[2])};
  if (!m->single) ts_emit_fail(m->e, "one thread gives a signal");
  ts_roles_asm(m, NULL, "fence.proxy.async;\n\tst.release.gpu.global.s32 [$0], $1;",
               "l,r,~{memory}", 2, in, true);
}

/* ---- keeping step */
static V counter(TsRoles *m, V clock, V index) {
  V at = LLVMBuildZExt(m->e->b, ts_roles_muli(m, index, 4), ts_emit_int_type(m->e, 64, 0), "");
  return LLVMBuildGEP2(m->e->b, ts_emit_int_type(m->e, 8, 0), clock, &at, 1, "");
}

static V first_block(TsRoles *m) {
  V first = LLVMBuildICmp(m->e->b, LLVMIntEQ, m->rank, ts_roles_int(m, 0), "");
  return ts_roles_flag(m, first);
}

/* The last round that says so leaves zeros. */
static void pace_end(TsRoles *m, V clock, V rounds) {
  V in[4] = {clock, rounds, first_block(m)};
  ts_roles_asm(
      m, NULL,
      "{\n\t.reg .pred p;\n\t.reg .b32 n, last;\n\tsetp.eq.b32 p, $2, 0;\n\t"
      "@p bra LE_${:uid};\n\tsub.u32 last, $1, 1;\n\t"
      "atom.acq_rel.gpu.global.add.u32 n, [$0+8], 1;\n\t"
      "setp.ne.u32 p, n, last;\n\t@p bra LE_${:uid};\n\t"
      "mov.b32 n, 0;\n\tst.relaxed.gpu.global.u32 [$0], n;\n\t"
      "st.relaxed.gpu.global.u32 [$0+4], n;\n\tst.relaxed.gpu.global.u32 [$0+8], n;\n\t"
      "LE_${:uid}:\n\t}",
      "l,r,r,~{memory}", 3, in, true);
}

/* Two counters take turns: nobody comes to step j + 1 before all came to step j - 1, so that
 * arrivals of steps of one parity add up to the steps that all have done. The wait ends after
 * a while in any case: blocks that do not run at the same time must not wait for ever. */
void ts_roles_pace(TsRoles *m, const TsTileStmt *s) {
  V clock = ts_emit_registers(m->e, s->in[0])[0], rounds = ts_emit_scalar(m->e, s->in[2]);
  if (!m->single) ts_emit_fail(m->e, "one thread keeps step");
  if (ts_tile_attr(s, "end")->i) {
    pace_end(m, clock, rounds);
    return;
  }
  V step = ts_emit_scalar(m->e, s->in[1]);
  V steps = ts_roles_shri(m, ts_roles_addi(m, step, 1), 1);
  V odd = ts_roles_andi(m, step, 1), other = ts_roles_andi(m, ts_roles_addi(m, step, 1), 1);
  V in[4] = {counter(m, clock, odd), counter(m, clock, other),
             LLVMBuildMul(m->e->b, steps, rounds, ""), first_block(m)};
  ts_roles_asm(m, NULL,
               "{\n\t.reg .pred p, q;\n\t.reg .b32 v, n;\n\tsetp.eq.b32 p, $3, 0;\n\t"
               "@p bra LP_${:uid};\n\tred.relaxed.gpu.global.add.u32 [$0], 1;\n\t"
               "mov.b32 n, 512;\n\tLQ_${:uid}:\n\tsub.u32 n, n, 1;\n\t"
               "ld.relaxed.gpu.global.u32 v, [$1];\n\tsetp.lt.u32 q, v, $2;\n\t"
               "setp.ne.and.b32 q, n, 0, q;\n\t@q bra LQ_${:uid};\n\tLP_${:uid}:\n\t}",
               "l,l,r,r,~{memory}", 4, in, true);
}
