/* The walk: phases, statements, loops and branches. See jit/emit/simt/emit.h. */
#include "jit/emit/simt/emit.h"

#include <string.h>

#include "ir/tile/find.h"
#include "jit/emit/simt/task.h"
#include "jit/gpu/code.h"

typedef LLVMValueRef V;

static bool is_tile(const TsTileValue *v) {
  return !ts_tile_memory(&v->type) && v->type.rank > 0;
}

void ts_gpu_define(TsGpuEmit *g, TsTileVal v, V *slots) {
  if (!v->type.rank)
    g->scalar[v->id] = slots[0];
  else
    ts_gpu_frame(g, &v->type)->memo[v->id] = slots;
}

/* ---- statements */
static void scalar_row(TsGpuEmit *g, const TsTileStmt *s) {
  TsTileVal v = s->out[0];
  TsDtype d = (TsDtype)v->type.dtype;
  TsEmit *e = g->e;
  V in[4], x = NULL;
  if (s->nin > 4) ts_emit_fail(e, "%s has %d operands", ts_tile_op_name(s->op), s->nin);
  if (s->op == TS_TILE_reshape || s->op == TS_TILE_part || s->op == TS_TILE_broadcast ||
      s->op == TS_TILE_transpose) {
    TsGpuCoord at[TS_TILE_RANK] = {{0}};
    ts_gpu_prepare(g, s->in[0]);
    x = ts_gpu_elem_at(g, s->in[0], at);
    g->scalar[v->id] = x;
    return;
  }
  for (int i = 0; i < s->nin; i++) in[i] = ts_gpu_scalar(g, s->in[i]);
  switch (s->op) {
  case TS_TILE_const: x = ts_emit_number(e, d, 0, ts_tile_attr(s, "value")->f); break;
  case TS_TILE_bits: {
    int bits = d == TS_DT_bool ? 1 : 8 * ts_dtypes[d].nbytes;
    x = ts_emit_int(e, ts_emit_int_type(e, bits, 0), ts_tile_attr(s, "value")->i);
    x = LLVMBuildBitCast(e->b, x, ts_emit_elem(e, d), "");
    break;
  }
  default: x = ts_gpu_compute(g, s, in);
  }
  g->scalar[v->id] = x;
}

static void put_alloc(TsGpuEmit *g, const TsTileStmt *s) {
  TsTileVal v = s->out[0];
  if (v->type.space == TS_SPACE_scratch) return; /* a parameter of the phase */
  if (v->type.space != TS_SPACE_local && v->type.space != TS_SPACE_shared)
    ts_emit_fail(g->e, "alloc: no such memory in block form");
  for (int i = 0; i < v->type.rank; i++)
    if (ts_tile_dim_is(v->type.dim[i])) ts_emit_fail(g->e, "alloc: of symbolic size");
  int64_t at = ts_gpu_shared_take(g, ts_tile_numel(&v->type) * ts_dtypes[v->type.dtype].nbytes);
  ts_gpu_memory_begin(g, v, ts_gpu_shared_at(g, at, NULL, NULL));
  ts_gpu_ring_begin(g, v, at);
}

static void program(TsGpuEmit *g, const TsTileStmt *s) {
  int axis = (int)ts_tile_attr(s, "axis")->i;
  if (axis >= g->phase->nloop) ts_emit_fail(g->e, "program: no such axis");
  g->scalar[s->out[0]->id] = g->number[axis];
}

static void meet(TsGpuEmit *g, const TsTileStmt *s) {
  int n = s->nin - 3;
  if (!g->maker->meet)
    ts_emit_fail(g->e, "meet: kernels of %s see no words of other devices", g->e->target->name);
  if (n > g->threads)
    ts_emit_fail(g->e, "meet: %d devices, and blocks of %d threads", n, g->threads);
  V *word = ts_emit_take(g->e, sizeof *word * (size_t)n);
  for (int i = 0; i < n; i++) word[i] = g->memory[s->in[i]->id][0];
  V where[3];
  for (int i = 0; i < 3; i++) where[i] = ts_gpu_scalar(g, s->in[n + i]);
  g->maker->meet(g, n, word, where, ts_tile_attr(s, "patience")->i);
}

static void put_loop(TsGpuEmit *g, const TsTileStmt *s);
static void put_branch(TsGpuEmit *g, const TsTileStmt *s);

static void statement(TsGpuEmit *g, const TsTileStmt *s) {
  switch (s->op) {
  case TS_TILE_for: put_loop(g, s); return;
  case TS_TILE_if: put_branch(g, s); return;
  case TS_TILE_alloc: put_alloc(g, s); return;
  case TS_TILE_view: ts_gpu_memory_begin(g, s->out[0], g->memory[s->in[0]->id][0]); return;
  case TS_TILE_load: ts_gpu_load(g, s); return;
  case TS_TILE_store:
  case TS_TILE_store_below: ts_gpu_store(g, s); return;
  case TS_TILE_gather: ts_gpu_gather(g, s); return;
  case TS_TILE_scatter: ts_gpu_scatter(g, s); return;
  case TS_TILE_prefetch:
  case TS_TILE_yield: return;
  case TS_TILE_mark: ts_gpu_marks_put(&g->marks, s); return;
  case TS_TILE_dim: g->scalar[s->out[0]->id] = g->e->dim[ts_tile_attr(s, "index")->i]; return;
  case TS_TILE_program: program(g, s); return;
  case TS_TILE_sum:
  case TS_TILE_pairs:
  case TS_TILE_prod:
  case TS_TILE_max:
  case TS_TILE_min:
  case TS_TILE_argmax:
  case TS_TILE_argmin: ts_gpu_reduce(g, s); return;
  case TS_TILE_places: ts_gpu_places(g, s); return;
  case TS_TILE_meet: meet(g, s); return;
  case TS_TILE_mma:
  case TS_TILE_outer: ts_gpu_contract(g, s); return;
  case TS_TILE_copy_async: ts_gpu_ring_copy(g, s); return;
  case TS_TILE_commit: ts_gpu_ring_commit(g); return;
  case TS_TILE_wait: ts_gpu_ring_wait(g, s); return;
  case TS_TILE_barrier: ts_gpu_ring_meet(g); return;
  case TS_TILE_turn: ts_gpu_ring_turn(g, s); return;
  case TS_TILE_role:
  case TS_TILE_copy_bulk:
  case TS_TILE_expect:
  case TS_TILE_arrive:
  case TS_TILE_await:
  case TS_TILE_fence:
  case TS_TILE_await_launch:
  case TS_TILE_registers:
    ts_emit_fail(g->e, "%s has no place in block form", ts_tile_op_name(s->op));
  default: break;
  }
  if (s->nout == 1 && !s->out[0]->type.rank) scalar_row(g, s);
}

void ts_gpu_region(TsGpuEmit *g, const TsTileRegion *r) {
  g->depth++;
  for (const TsTileStmt *s = r->first; s; s = s->next) statement(g, s);
  g->depth--;
}

/* ---- regions inside */
/* What a region inside wants of values around it must be there before. */
static void force_outer(TsGpuEmit *g, const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nin; i++) {
      TsTileVal v = s->in[i];
      if (is_tile(v) && g->seen[v->id] && !ts_gpu_intel_box(g, v)) ts_gpu_force(g, v);
    }
    for (int i = 0; i < s->nregion; i++) force_outer(g, s->region[i]);
  }
}

static void see(TsGpuEmit *g, const TsTileRegion *r, const TsTileStmt *until) {
  for (int i = 0; i < r->nparam; i++) g->seen[r->param[i]->id] = true;
  for (const TsTileStmt *s = r->first; s && s != until; s = s->next)
    for (int i = 0; i < s->nout; i++) g->seen[s->out[i]->id] = true;
}

typedef struct Scope {
  TsGpuHome *homes;
  int64_t used, most;
  int meetings, staged;
  typeof(((TsGpuEmit *)0)->rows) rows;
} Scope;

static Scope enter(TsGpuEmit *g, const TsTileStmt *s) {
  see(g, s->in_region, s);
  for (int i = 0; i < s->nregion; i++) force_outer(g, s->region[i]);
  for (int i = 0; i < s->nin; i++)
    if (is_tile(s->in[i])) ts_gpu_force(g, s->in[i]);
  if (g->wrote || g->read) ts_gpu_sync(g);
  return (Scope){g->homes, g->shared_used, g->shared_most, g->meetings, g->staged, g->rows};
}

/* Stages that take turns are all that threads share: what one writes nobody reads that has not
 * met the others since. */
static bool takes_turns(const TsGpuEmit *g, const Scope *s) {
  int n = g->staged - s->staged;
  return n && g->meetings - s->meetings == n && !g->wrote && !g->read && g->homes == s->homes;
}

/* Threads meet at the end, so that memory can be used again; where they never met, they share
 * none. */
static void leave(TsGpuEmit *g, const Scope *s) {
  if (!takes_turns(g, s) &&
      (g->wrote || g->read || g->meetings > s->meetings || g->shared_used > s->used))
    ts_gpu_sync(g);
  g->homes = s->homes;
  g->shared_used = s->used;
  g->rows = s->rows;
}

static int slots_of(TsGpuEmit *g, TsTileVal v) {
  if (!v->type.rank) return 1;
  TsGpuFrame *f = ts_gpu_frame(g, &v->type);
  return f->vector * f->chunks;
}

static V *values_of(TsGpuEmit *g, TsTileVal v) {
  V *one = ts_emit_take(g->e, sizeof *one);
  if (v->type.rank) return ts_gpu_slots(g, ts_gpu_frame(g, &v->type), v);
  *one = ts_gpu_scalar(g, v);
  return one;
}

static V *phis(TsGpuEmit *g, int n, V *x, LLVMBasicBlockRef from) {
  V *y = ts_emit_take(g->e, sizeof *y * (size_t)n);
  for (int i = 0; i < n; i++) {
    y[i] = LLVMBuildPhi(g->e->b, LLVMTypeOf(x[i]), "");
    LLVMAddIncoming(y[i], &x[i], &from, 1);
  }
  return y;
}

static void incoming(int n, V *phi, V *x, LLVMBasicBlockRef from) {
  for (int i = 0; i < n; i++) LLVMAddIncoming(phi[i], &x[i], &from, 1);
}

static const TsTileStmt *yield_of(const TsTileRegion *r) {
  return r->last && r->last->op == TS_TILE_yield ? r->last : NULL;
}

/* What a loop carries of a value: its slots, or the vectors of a matrix unit. */
typedef struct Carried {
  int n;
  bool whole;
  V *x;
} Carried;

static Carried carried(TsGpuEmit *g, TsTileVal v) {
  Carried c = {.whole = true};
  if ((c.x = ts_gpu_matrix_wholes(g, v, &c.n))) return c;
  return (Carried){.n = slots_of(g, v), .x = values_of(g, v)};
}

/* Behind all of them, as they come first in a block. */
static void define(TsGpuEmit *g, TsTileVal v, const Carried *c, V *phi) {
  if (c->whole)
    ts_gpu_matrix_define(g, v, phi);
  else
    ts_gpu_define(g, v, phi);
}

static void put_loop(TsGpuEmit *g, const TsTileStmt *s) {
  LLVMBuilderRef b = g->e->b;
  const TsTileRegion *r = s->region[0];
  int n = s->nout;
  Carried *first = ts_emit_take(g->e, sizeof *first * (size_t)(n + 1));
  Carried *next = ts_emit_take(g->e, sizeof *next * (size_t)(n + 1));
  V **now = ts_emit_take(g->e, sizeof *now * (size_t)(n + 1));
  Scope scope = enter(g, s);
  for (int i = 0; i < n; i++) first[i] = carried(g, s->in[2 + i]);
  struct TsGpuMatrixKept *kept = g->kept;
  ts_gpu_matrix_before(g, r);
  ts_gpu_ring_turns(g, s, false);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b), last;
  TsGpuLoop l = ts_gpu_loop(g, ts_gpu_scalar(g, s->in[0]), ts_gpu_scalar(g, s->in[1]),
                            ts_gpu_i64(g, ts_tile_attr(s, "step")->i));
  g->scalar[r->param[0]->id] = l.i;
  for (int i = 0; i < n; i++) now[i] = phis(g, first[i].n, first[i].x, before);
  for (int i = 0; i < n; i++) define(g, r->param[1 + i], &first[i], now[i]);
  ts_gpu_region(g, r);
  const TsTileStmt *yield = yield_of(r);
  for (int i = 0; i < n; i++) next[i] = carried(g, yield->in[i]);
  bool turns = takes_turns(g, &scope);
  leave(g, &scope);
  last = LLVMGetInsertBlock(b);
  for (int i = 0; i < n; i++) incoming(first[i].n, now[i], next[i].x, last);
  ts_gpu_loop_end(g, &l);
  for (int i = 0; i < n; i++) {
    now[i] = phis(g, first[i].n, first[i].x, before);
    incoming(first[i].n, now[i], next[i].x, last);
  }
  ts_gpu_ring_turns(g, s, true);
  if (turns) ts_gpu_sync(g);
  g->kept = kept;
  for (int i = 0; i < n; i++) define(g, s->out[i], &first[i], now[i]);
}

static void put_branch(TsGpuEmit *g, const TsTileStmt *s) {
  LLVMBuilderRef b = g->e->b;
  LLVMBasicBlockRef side[2], end, last[2];
  V **yield[2];
  Scope scope = enter(g, s);
  for (int i = 0; i < 2; i++) side[i] = LLVMAppendBasicBlockInContext(g->e->ctx, g->e->fn, "");
  end = LLVMAppendBasicBlockInContext(g->e->ctx, g->e->fn, "");
  LLVMBuildCondBr(b, ts_gpu_scalar(g, s->in[0]), side[0], side[1]);
  for (int i = 0; i < 2; i++) {
    const TsTileStmt *y;
    yield[i] = ts_emit_take(g->e, sizeof *yield[i] * (size_t)(s->nout + 1));
    LLVMPositionBuilderAtEnd(b, side[i]);
    ts_gpu_region(g, s->region[i]);
    y = yield_of(s->region[i]);
    for (int k = 0; k < s->nout; k++) yield[i][k] = values_of(g, y->in[k]);
    leave(g, &scope);
    last[i] = LLVMGetInsertBlock(b);
    LLVMBuildBr(b, end);
  }
  LLVMMoveBasicBlockAfter(end, LLVMGetLastBasicBlock(g->e->fn));
  LLVMPositionBuilderAtEnd(b, end);
  for (int k = 0; k < s->nout; k++) {
    int n = slots_of(g, s->out[k]);
    V *y = phis(g, n, yield[0][k], last[0]);
    incoming(n, y, yield[1][k], last[1]);
    ts_gpu_define(g, s->out[k], y);
  }
}

/* ---- phases */
static int64_t step_of(const TsTileStmt *loop) { return ts_tile_attr(loop, "step")->i; }

static V rounds_of(TsGpuEmit *g, const TsTileStmt *loop) {
  LLVMBuilderRef b = g->e->b;
  V n = LLVMBuildSub(b, ts_gpu_scalar(g, loop->in[1]), ts_gpu_scalar(g, loop->in[0]), "");
  n = LLVMBuildSDiv(b, ts_gpu_add(g, n, ts_gpu_i64(g, step_of(loop) - 1)),
                    ts_gpu_i64(g, step_of(loop)), "");
  return ts_emit_call2(g->e, "llvm.smax", n, ts_gpu_i64(g, 0));
}

/* Everything at the top but loops: sizes, positions, constants, scratch. */
static void put_top(TsGpuEmit *g, const TsTileStmt *end) {
  int scratch = 0;
  for (const TsTileStmt *s = g->e->k->body->first; s && s != end; s = s->next) {
    if (s->op == TS_TILE_for) continue;
    if (s->op == TS_TILE_alloc && s->out[0]->type.space == TS_SPACE_scratch)
      ts_gpu_memory_begin(g, s->out[0], ts_gpu_scratch(g, scratch++));
    else
      statement(g, s);
  }
}

static void between(TsGpuEmit *g, int axis) {
  const TsGpuPhasePlan *p = g->phase;
  if (!axis) return;
  for (const TsTileStmt *s = p->axis[axis - 1]->region[0]->first; s && s != p->axis[axis];
       s = s->next)
    statement(g, s);
}

/* Bounds of inner loops do not depend on outer positions; what else stands between them is made
 * when the positions are known. */
static const TsTileRegion *open_axes(TsGpuEmit *g) {
  const TsGpuPhasePlan *p = g->phase;
  V count[4], rest = g->round, all = ts_gpu_i64(g, 1);
  for (int i = 0; i < p->nloop; i++) {
    between(g, i);
    count[i] = rounds_of(g, p->axis[i]);
    all = LLVMBuildNSWMul(g->e->b, all, count[i], "");
    g->scalar[p->axis[i]->region[0]->param[0]->id] = ts_gpu_i64(g, 0);
  }
  if (p->rounds > 1) { /* groups without a round leave */
    V some = LLVMBuildICmp(g->e->b, LLVMIntSLT, g->round, all, "");
    LLVMBasicBlockRef go = LLVMAppendBasicBlockInContext(g->e->ctx, g->e->fn, "");
    LLVMBasicBlockRef out = LLVMAppendBasicBlockInContext(g->e->ctx, g->e->fn, "");
    LLVMBuildCondBr(g->e->b, some, go, out);
    LLVMPositionBuilderAtEnd(g->e->b, out);
    LLVMBuildRetVoid(g->e->b);
    LLVMPositionBuilderAtEnd(g->e->b, go);
  }
  for (int i = p->nloop; i-- > 0;) {
    V n = rest;
    if (i) {
      n = LLVMBuildURem(g->e->b, rest, count[i], "");
      rest = LLVMBuildUDiv(g->e->b, rest, count[i], "");
    }
    g->number[i] = n;
    g->scalar[p->axis[i]->region[0]->param[0]->id] = ts_gpu_add(
        g, ts_gpu_scalar(g, p->axis[i]->in[0]), ts_gpu_mul(g, n, step_of(p->axis[i])));
  }
  for (int i = 1; i < p->nloop; i++) between(g, i);
  return p->axis[p->nloop - 1]->region[0];
}

static void put_rounds(TsGpuEmit *g) {
  put_top(g, g->phase->loop);
  if (!g->phase->nloop) {
    ts_gpu_frames_make(g, g->phase->loop->region[0]);
    put_loop(g, g->phase->loop);
  } else {
    const TsTileRegion *r = open_axes(g);
    ts_gpu_frames_make(g, r);
    ts_gpu_region(g, r);
  }
  ts_gpu_thread_end(g);
}

/* Blocks without a list of turns run code that has none: a kernel with marks has all twice. */
static void put_code(TsGpuEmit *g) {
  size_t n = g->e->k->nvalue + 1;
  LLVMContextRef ctx = g->e->ctx;
  if (g->marks.listed) {
    LLVMBasicBlockRef with = LLVMAppendBasicBlockInContext(ctx, g->e->fn, "");
    LLVMBasicBlockRef without = LLVMAppendBasicBlockInContext(ctx, g->e->fn, "");
    TsGpuEmit *was = ts_emit_take(g->e, sizeof *was);
    V *scalar = ts_emit_take(g->e, sizeof *scalar * n);
    V **memory = ts_emit_take(g->e, sizeof *memory * n);
    *was = *g;
    memcpy(scalar, g->scalar, sizeof *scalar * n);
    memcpy(memory, g->memory, sizeof *memory * n);
    LLVMBuildCondBr(g->e->b, g->marks.listed, with, without);
    LLVMPositionBuilderAtEnd(g->e->b, with);
    ts_gpu_marks_open(&g->marks);
    put_rounds(g);
    was->visits = g->visits;
    *g = *was;
    memcpy(g->scalar, scalar, sizeof *scalar * n);
    memcpy(g->memory, memory, sizeof *memory * n);
    memset(g->seen, 0, sizeof *g->seen * n);
    LLVMPositionBuilderAtEnd(g->e->b, without);
  }
  put_rounds(g);
}

static void put_phase(TsGpuEmit *g, int index) {
  const TsTile *k = g->e->k;
  size_t n = k->nvalue + 1;
  g->phase = &g->plan->phase[index];
  memset(g->scalar, 0, sizeof *g->scalar * n);
  memset(g->memory, 0, sizeof *g->memory * n);
  memset(g->seen, 0, sizeof *g->seen * n);
  g->frames = NULL, g->homes = NULL, g->kept = NULL, g->rings = NULL, g->fetched = NULL;
  g->copies = g->of_group = g->ngroup = 0;
  ts_gpu_note_uses(g);
  g->wrote = g->read = false;
  memset(&g->rows, 0, sizeof g->rows);
  g->rows.leaf = g->rows.warps[0] = g->rows.warps[1] = -1;
  g->rows.walk[0] = g->rows.walk[1] = -1;
  ts_gpu_thread_begin(g, index);
  put_code(g);
  ts_gpu_thread_close(g);
}

static void prepare(TsGpuEmit *g) {
  TsEmit *e = g->e;
  size_t n = e->k->nvalue + 1;
  g->scalar = ts_emit_take(e, sizeof *g->scalar * n);
  g->memory = ts_emit_take(e, sizeof *g->memory * n);
  g->uses = ts_emit_take(e, n);
  g->seen = ts_emit_take(e, sizeof *g->seen * n);
  g->visit = ts_emit_take(e, sizeof *g->visit * n);
  memset(g->visit, 0, sizeof *g->visit * n);
  for (const TsTileStmt *s = e->k->body->first; s; s = s->next)
    g->nscratch += s->op == TS_TILE_alloc && s->out[0]->type.space == TS_SPACE_scratch;
}

int64_t ts_gpu_task(TsEmit *e, const TsGpuPlan *plan, int phase, const char *name, int from) {
  TsGpuEmit *g = ts_emit_take(e, sizeof *g);
  *g = (TsGpuEmit){.e = e, .plan = plan, .task = name, .task_from = from};
  g->aligned = g->meets = true;
  g->maker = ts_gpu_task_maker(e);
  prepare(g);
  put_phase(g, phase);
  return g->shared_bytes[phase] * plan->phase[phase].rounds;
}

static const TsGpuMaker *const maker[] = {[TS_MAKER_nvidia] = &ts_gpu_nvidia,
                                          [TS_MAKER_amd] = &ts_gpu_amd,
                                          [TS_MAKER_spirv] = &ts_gpu_spirv};

void ts_gpu_emit(TsEmit *e, void *arg) {
  const TsGpuJob *job = arg;
  TsGpuEmit *g = ts_emit_take(e, sizeof *g);
  *g = (TsGpuEmit){.e = e, .plan = job->plan, .lean = job->lean, .crowded = job->crowded};
  g->maker = job->host ? &ts_gpu_host : maker[e->target->maker];
  g->aligned = job->form != TS_GPU_loose, g->batch = job->form == TS_GPU_batch;
  g->meets = ts_tile_find(e->k->body, TS_TILE_meet) != NULL;
  prepare(g);
  for (int i = 0; i < g->plan->nphase; i++) put_phase(g, i);
  for (int i = 0; i < g->plan->nphase; i++) job->shared[i] = g->shared_bytes[i];
}
