/* Copies into a ring of stages in shared memory (`copy_async`), waits for them, and halves of a block
 * that take turns. See jit/emit/simt/matrix.h.
 *
 * Where the maker copies past registers, an instruction puts what its lanes read one behind the other:
 * lanes' places are the instruction's, so it is addresses of the memory that is read which are turned,
 * the way rows of a matrix unit's operands lie (matrix_operand.c). A ring counts its instructions: so
 * many may be under way when a wait ends. LLVM, which sees shared memory written and read, is told that
 * what is under way is not what is read; else it waits for all before each read.
 *
 * Elsewhere, and where addresses are not whole, threads copy element by element. */
#include <string.h>

#include "ir/tile/square.h"
#include "jit/emit/simt/memory.h"

typedef LLVMValueRef V;

enum { OUTSIDE = INT32_MIN /* bytes from a matrix on, beyond all that is read */ };

static LLVMTypeRef int_type(TsGpuEmit *g, int bits) { return ts_emit_int_type(g->e, bits, 0); }
static V i32_of(TsGpuEmit *g, int64_t i) { return ts_emit_int(g->e, int_type(g, 32), i); }
static V narrow(TsGpuEmit *g, V x) { return LLVMBuildTrunc(g->e->b, x, int_type(g, 32), ""); }

/* ---- what LLVM is told */
static V scope(TsGpuEmit *g, const char *name) {
  LLVMContextRef ctx = g->e->ctx;
  LLVMMetadataRef of = LLVMMDStringInContext2(ctx, "stages", 6);
  LLVMMetadataRef domain = LLVMMDNodeInContext2(ctx, &of, 1);
  LLVMMetadataRef in[2] = {LLVMMDStringInContext2(ctx, name, strlen(name)), domain};
  LLVMMetadataRef self = LLVMMDNodeInContext2(ctx, in, 2);
  return LLVMMetadataAsValue(ctx, LLVMMDNodeInContext2(ctx, &self, 1));
}

void ts_gpu_apart(TsGpuEmit *g, V instruction, bool copies) {
  static const char *const kind[2] = {"alias.scope", "noalias"};
  for (int i = 0; i < 2; i++) {
    unsigned id = LLVMGetMDKindIDInContext(g->e->ctx, kind[i], (unsigned)strlen(kind[i]));
    LLVMSetMetadata(instruction, id, scope(g, (i == 0) == copies ? "copied" : "read"));
  }
}

/* ---- rings */
const TsGpuMatrixRing *ts_gpu_ring_of(const TsGpuEmit *g, TsTileVal memory) {
  for (const TsGpuMatrixRing *r = g->rings; r; r = r->next)
    if (r->memory == memory) return r;
  return NULL;
}

static const TsTileStmt *load_of(const TsTileVal v) {
  return v->stmt && v->stmt->op == TS_TILE_load ? v->stmt : NULL;
}

static bool is_stage(TsTileVal v, TsTileVal memory) {
  if (v->stmt && v->stmt->op == TS_TILE_transpose) v = v->stmt->in[0];
  return load_of(v) && v->stmt->in[0] == memory;
}

/* Whether stages go to products of the unit alone; how they come there, 1: k is their first axis. */
static bool is_multiplied(const TsTileRegion *r, TsTileVal memory, bool ways[2]) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nin; i++) {
      bool turned;
      if (!is_stage(s->in[i], memory) || s->op == TS_TILE_transpose) continue;
      if (i > 1 || !ts_tile_square_of(s)) return false;
      if (!is_stage(ts_gpu_matrix_operand(s, i, &turned), memory)) return false;
      ways[turned] = true;
    }
    for (int i = 0; i < s->nregion; i++)
      if (!is_multiplied(s->region[i], memory, ways)) return false;
  }
  return true;
}

/* Whether a copy to the ring has whole addresses, and waves whole rows. */
static bool is_direct(const TsGpuEmit *g, const TsTileStmt *s, const TsGpuMatrixRing *r) {
  const TsTileType *m = &s->in[1]->type;
  const TsAttr *bytes = ts_tile_attr(s, "bytes"), *shape = ts_tile_attr(s, "shape");
  int64_t turn = bytes->type == TS_ATTR_int ? g->threads * bytes->i : 0;
  if (!turn || shape->type != TS_ATTR_ints || shape->n != 2 || g->e->target->direct < bytes->i)
    return false;
  bool along = m->rank > 1 && (!m->strided || m->stride[m->rank - 1] == 1);
  return along && ts_gpu_alignment(s) * ts_dtypes[m->dtype].nbytes >= bytes->i &&
         turn % r->rows.pitch == 0 && shape->ints[0] * r->rows.pitch % turn == 0;
}

/* All copies to the ring, so that each wait counts as many. */
static bool are_direct(const TsGpuEmit *g, const TsTileRegion *in, const TsGpuMatrixRing *r) {
  for (const TsTileStmt *s = in->first; s; s = s->next) {
    bool copies = s->op == TS_TILE_copy_async && s->in[0] == r->memory;
    if (copies && !is_direct(g, s, r)) return false;
    for (int i = 0; i < s->nregion; i++)
      if (!are_direct(g, s->region[i], r)) return false;
  }
  return true;
}

void ts_gpu_ring_begin(TsGpuEmit *g, TsTileVal memory, int64_t at) {
  const TsTileType *t = &memory->type;
  TsDtype d = (TsDtype)t->dtype;
  int size = ts_dtypes[d].nbytes;
  bool ways[2] = {false};
  if (!(g->uses[memory->id] & TS_GPU_COPIED) || t->rank != 3) return;
  TsGpuMatrixRing *r = ts_emit_take(g->e, sizeof *r);
  *r = (TsGpuMatrixRing){.memory = memory, .next = g->rings};
  r->rows = (TsGpuMatrixRows){.at = at, .pitch = t->dim[2] * size, .of = d, .copied = true};
  r->unit = ts_gpu_matrix_of(g, d) && r->rows.pitch == ts_gpu_matrix_pitch(d, t->dim[2]) &&
            is_multiplied(g->phase->loop->region[0], memory, ways) && ways[0] != ways[1];
  r->rows.across = ways[1];
  if (ways[1] && (!g->maker->read_turned || !g->e->target->turns || size != 2)) r->unit = false;
  r->direct = r->unit && g->maker->direct && g->aligned && g->phase->rounds == 1 &&
              g->threads % g->e->target->lanes == 0 &&
              are_direct(g, g->phase->loop->region[0], r);
  g->rings = r;
}

bool ts_gpu_ring_rows(TsGpuEmit *g, TsTileVal v, TsGpuMatrixRows *rows) {
  const TsTileStmt *s = load_of(v);
  const TsGpuMatrixRing *r = s ? ts_gpu_ring_of(g, s->in[0]) : NULL;
  if (!r || !r->unit) return false;
  *rows = r->rows;
  rows->stage = ts_gpu_mul(g, ts_gpu_scalar(g, s->in[1]), r->rows.pitch * v->type.dim[0]);
  return true;
}

/* ---- what is copied */
typedef struct Copy {
  const TsTileStmt *s;
  const TsGpuMatrixRing *ring;
  TsGpuAccess from;
  int64_t rows, cols, size; /* of the tile; bytes of an element */
  V stage;                  /* bytes that its slot adds */
} Copy;

static Copy copy_of(TsGpuEmit *g, const TsTileStmt *s) {
  const TsAttr *shape = ts_tile_attr(s, "shape");
  const TsTileType *m = &s->in[1]->type;
  Copy c = {.s = s, .ring = ts_gpu_ring_of(g, s->in[0]), .size = ts_dtypes[m->dtype].nbytes};
  if (!c.ring || shape->type != TS_ATTR_ints || shape->n != 2 || m->rank < 2 ||
      s->nin != 2 + 3 + m->rank)
    ts_emit_fail(g->e, "copy_async: in block form a matrix goes to a ring of stages");
  c.rows = shape->ints[0], c.cols = shape->ints[1];
  c.from =
      (TsGpuAccess){.memory = s->in[1], .at = s->in + 5, .rank = 2, .d = (TsDtype)m->dtype};
  c.from.part = g->memory[s->in[1]->id];
  c.from.axis[0] = m->rank - 2, c.from.axis[1] = m->rank - 1;
  c.stage = ts_gpu_mul(g, ts_gpu_scalar(g, s->in[2]), c.ring->rows.pitch * c.rows);
  return c;
}

static V is_inside(TsGpuEmit *g, const Copy *c, const TsGpuCoord *at) {
  V in = NULL;
  for (int i = 0; i < 2 && !ts_tile_attr(c->s, "inside")->i; i++) {
    int axis = c->from.axis[i];
    V p = ts_gpu_axis_position(g, &c->from, axis, at);
    in = ts_gpu_and(g, in, ts_gpu_below(g, p, ts_gpu_axis_size(g, &c->from, axis)));
  }
  return in;
}

/* ---- element by element */
static V place_of(TsGpuEmit *g, const Copy *c, V row, V col) {
  TsGpuMatrixRows rows = c->ring->rows;
  V in = ts_gpu_mul(g, col, c->size);
  rows.stage = c->stage;
  if (c->ring->unit) return ts_gpu_matrix_place(g, &rows, (TsGpuCoord){row, 0, 0}, in);
  V by = ts_gpu_add(g, ts_gpu_add(g, ts_gpu_mul(g, row, rows.pitch), in), c->stage);
  return ts_gpu_shared_at(g, rows.at, int_type(g, 8), by);
}

static void copy_elements(TsGpuEmit *g, const Copy *c) {
  LLVMBuilderRef b = g->e->b;
  LLVMTypeRef t = int_type(g, (int)(8 * c->size));
  TsGpuLoop l =
      ts_gpu_loop(g, g->tid64, ts_gpu_i64(g, c->rows * c->cols), ts_gpu_i64(g, g->threads));
  V row = ts_gpu_div(g, l.i, c->cols), col = ts_gpu_mod(g, l.i, c->cols);
  TsGpuCoord at[TS_TILE_RANK] = {{row, 0, 0}, {col, 0, 0}};
  V in = is_inside(g, c, at), x = NULL, zero = LLVMConstInt(t, 0, 0);
  LLVMBasicBlockRef none = LLVMGetInsertBlock(b), some = none;
  LLVMBasicBlockRef after = in ? ts_gpu_if(g, in) : NULL;
  x = LLVMBuildLoad2(b, t, ts_gpu_pointer(g, &c->from, at), "");
  LLVMSetAlignment(x, (unsigned)c->size);
  if (after) {
    some = LLVMGetInsertBlock(b);
    ts_gpu_if_end(g, after);
    V y = LLVMBuildPhi(b, t, "");
    LLVMAddIncoming(y, &x, &some, 1), LLVMAddIncoming(y, &zero, &none, 1);
    x = y;
  }
  LLVMSetAlignment(LLVMBuildStore(b, x, place_of(g, c, row, col)), (unsigned)c->size);
  ts_gpu_loop_end(g, &l);
}

/* ---- past registers */
/* A position that is another in each round of the loop that the copy stands in. */
static bool moves(const TsTileStmt *s, TsTileVal p) {
  const TsTileStmt *loop = s->in_region->owner;
  bool stays = !loop || loop->op != TS_TILE_for || ts_tile_attr(loop, "parallel")->i;
  return !stays && (p->stmt ? p->stmt->in_region : p->region) == s->in_region &&
         !(p->stmt && p->stmt->op == TS_TILE_const);
}

/* Where the matrix is read from on; bytes that the loop adds in *by. */
static V begin_of(TsGpuEmit *g, const Copy *c, V *by) {
  V stays = NULL, more = NULL;
  for (int k = 0; k < c->from.memory->type.rank; k++) {
    V p = ts_gpu_times(g, ts_gpu_scalar(g, c->from.at[k]), c->from.part[1 + k]);
    if (moves(c->s, c->from.at[k]))
      more = ts_gpu_add(g, more, p);
    else
      stays = ts_gpu_add(g, stays, p);
  }
  *by = more ? narrow(g, ts_gpu_mul(g, more, c->size)) : i32_of(g, 0);
  return ts_gpu_moved(g, &c->from, c->from.part[0], stays);
}

static void copy_direct(TsGpuEmit *g, const Copy *c) {
  LLVMBuilderRef b = g->e->b;
  int bytes = (int)ts_tile_attr(c->s, "bytes")->i;
  int64_t pitch = c->ring->rows.pitch, turn = (int64_t)g->threads * bytes, down = turn / pitch;
  V by, from = begin_of(g, c, &by), line = c->from.part[1 + c->from.axis[0]];
  V mine = ts_gpu_mul(g, g->tid64, bytes), row = ts_gpu_div(g, mine, pitch);
  V in = ts_gpu_mod(g, mine, pitch);
  V wave = LLVMBuildAnd(b, narrow(g, g->tid64), i32_of(g, -g->e->target->lanes), "");
  wave = LLVMBuildMul(b, g->maker->uniform(g, wave), i32_of(g, bytes), "");
  V to = ts_gpu_add(g, LLVMBuildZExt(b, wave, int_type(g, 64), ""), c->stage);
  for (int64_t n = 0; n < c->rows / down; n++) {
    TsGpuCoord at[TS_TILE_RANK] = {{row, n * down, 0}};
    V col = ts_gpu_matrix_turned_in(g, &c->ring->rows, at[0], in);
    V lane = ts_gpu_add(g, ts_gpu_mul(g, ts_gpu_times(g, row, line), c->size), col);
    lane = narrow(g, lane);
    at[1] = (TsGpuCoord){ts_gpu_div(g, col, c->size), 0, 0};
    V is = is_inside(g, c, at);
    if (is) lane = LLVMBuildSelect(b, is, lane, i32_of(g, OUTSIDE), "");
    V below = narrow(g, ts_gpu_mul(g, ts_gpu_times(g, ts_gpu_i64(g, n * down), line), c->size));
    V p = ts_gpu_shared_at(g, c->ring->rows.at + n * turn, int_type(g, 8), to);
    g->maker->direct(g, p, from, lane, LLVMBuildAdd(b, by, below, ""), bytes);
    g->copies++;
  }
}

void ts_gpu_ring_copy(TsGpuEmit *g, const TsTileStmt *s) {
  Copy c = copy_of(g, s);
  if (c.ring->direct)
    copy_direct(g, &c);
  else
    copy_elements(g, &c);
}

/* Groups have as many copies each, or one that is unlike the others is waited for as all. */
void ts_gpu_ring_commit(TsGpuEmit *g) {
  g->of_group = !g->ngroup || g->of_group == g->copies ? g->copies : 0;
  g->copies = 0, g->ngroup++;
}

void ts_gpu_ring_wait(TsGpuEmit *g, const TsTileStmt *s) {
  if (ts_tile_attr(s, "of")->i) ts_emit_fail(g->e, "wait: block form has no such groups");
  /* What is multiplied next is read meanwhile. */
  const TsTileStmt *turn = s->next && s->next->op == TS_TILE_turn ? s->next : NULL;
  if (turn && !ts_tile_attr(turn, "end")->i && turn->next) ts_gpu_matrix_fetch(g, turn->next);
  if (g->maker->direct)
    g->maker->wait_direct(g, (int)ts_tile_attr(s, "pending")->i * g->of_group);
}

/* ---- meetings */
void ts_gpu_ring_meet(TsGpuEmit *g) {
  if (g->maker->sync_direct && g->phase->rounds == 1 && !g->wrote)
    g->meetings++, g->read = false, g->maker->sync_direct(g);
  else
    ts_gpu_sync(g);
  g->staged++;
}

void ts_gpu_ring_turn(TsGpuEmit *g, const TsTileStmt *s) {
  bool end = ts_tile_attr(s, "end")->i;
  if (g->maker->first && end) g->maker->first(g, false);
  ts_gpu_ring_meet(g);
  if (g->maker->first && !end) g->maker->first(g, true);
}

static bool has_turns(const TsTileStmt *loop) {
  for (const TsTileStmt *s = loop->region[0]->first; s; s = s->next)
    if (s->op == TS_TILE_turn) return true;
  return false;
}

void ts_gpu_ring_turns(TsGpuEmit *g, const TsTileStmt *loop, bool end) {
  if (!g->maker->first || !has_turns(loop) || g->phase->rounds > 1 ||
      g->threads % (2 * g->e->target->lanes))
    return;
  V half = ts_gpu_div(g, g->tid64, g->threads / 2);
  V who = LLVMBuildICmp(g->e->b, end ? LLVMIntEQ : LLVMIntNE,
                        g->maker->uniform(g, narrow(g, half)), i32_of(g, 0), "");
  LLVMBasicBlockRef after = ts_gpu_if(g, who);
  g->maker->sync_direct(g);
  ts_gpu_if_end(g, after);
}
