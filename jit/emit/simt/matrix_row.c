/* Rows of a matrix unit's sums: what is reduced over columns stays with the lanes that have the row.
 * See jit/emit/simt/matrix.h.
 *
 * In a phase that reduces rows of sums a wave has whole rows, and all lanes that have columns of one have
 * its number as well: vectors over rows have such a frame, too. So online softmax computes where the
 * sums are, and nothing goes through shared memory but operands. Halves are those of the canonical
 * order: columns a power of two apart are a lane's own or another's. */
#include <string.h>

#include "jit/emit/simt/emit.h"
#include "jit/emit/simt/fold.h"

typedef LLVMValueRef V;

enum { SQUARE = 16, MOST = 256 /* columns of one leaf */ };

static bool is_reduction(const TsTileStmt *s) {
  return s->op == TS_TILE_max || s->op == TS_TILE_min || s->op == TS_TILE_sum;
}

static bool is_pow2(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

/* Over the columns of a tile of this shape; of any, where the result has it. */
static const TsTileStmt *find(const TsTileRegion *r, const TsTileType *t) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    const TsTileType *x = is_reduction(s) ? &s->in[0]->type : NULL;
    bool over = x && x->rank == 2 && ts_tile_attr(s, "axis")->i == 1 && x->dtype == TS_DT_f32;
    if (over && x->dim[0] == t->dim[0] && (t->rank == 1 || x->dim[1] == t->dim[1])) return s;
    for (int i = 0; i < s->nregion; i++) {
      const TsTileStmt *found = find(s->region[i], t);
      if (found) return found;
    }
  }
  return NULL;
}

bool ts_gpu_matrix_rows(const TsGpuEmit *g, const TsTileType *t) {
  TsTileType rows = {.rank = 1, .dim = {t->dim[0]}};
  const TsTileStmt *s = find(g->phase->loop->region[0], &rows);
  return s && is_pow2(s->in[0]->type.dim[1]) && s->in[0]->type.dim[1] <= MOST;
}

TsGpuFrame *ts_gpu_matrix_row_frame(TsGpuEmit *g, const TsTileType *t) {
  const TsTileStmt *s = find(g->phase->loop->region[0], t);
  return s ? ts_gpu_matrix_rows_of(g, t, ts_gpu_matrix_frame(g, &s->in[0]->type)) : NULL;
}

TsGpuFrame *ts_gpu_matrix_rows_of(TsGpuEmit *g, const TsTileType *t, const TsGpuFrame *of) {
  if (!of || !of->whole || !of->squares) return NULL;
  TsGpuFrame *f = ts_gpu_frame_of(g, t, 1, of->squares);
  int each = of->vector * of->chunks / of->squares;
  f->of_rows = true;
  for (int r = 0; r < f->chunks; r++) {
    memset(f->at[r], 0, sizeof f->at[r]);
    f->at[r][0] = of->at[r * each][0];
  }
  return f;
}

/* ---- reductions */
typedef struct Fold {
  TsGpuEmit *g;
  TsGpuFold how;
  const TsGpuMatrix *u;
} Fold;

static V both(const Fold *f, V x, V y) {
  return ts_gpu_fold_two(f->g, &f->how, (TsGpuItem){.x = x}, (TsGpuItem){.x = y}).x;
}

/* One square's columns that are `by` apart: sums of the lane, or of lanes. */
static void halve(const Fold *f, int by, V *x) {
  for (int j = 1; j < f->u->sums; j *= 2)
    for (int i = 0; i < f->u->sums && j * f->u->col == by; i++)
      if (!(i & j) && x[i] && x[i + j]) x[i] = both(f, x[i], x[i + j]), x[i + j] = NULL;
  for (int j = 1; j < f->u->lanes / SQUARE; j *= 2)
    for (int i = 0; i < f->u->sums && j * f->u->col_group == by; i++)
      if (x[i]) x[i] = both(f, x[i], ts_gpu_shuffle(f->g, x[i], SQUARE * j));
}

/* The largest of n numbers of f32 by their bits: as whole numbers with a sign they are in order from +0 on,
 * without one below -0 the other way round. What is negative and beyond -inf is NaN. */
static V largest(TsGpuEmit *g, const V *x, int n) {
  enum { SIGNED, NEGATIVE, BEYOND, ORDERS };
  static const char *const name[ORDERS] = {"llvm.smax", "llvm.umin", "llvm.umax"};
  LLVMBuilderRef b = g->e->b;
  LLVMTypeRef word = ts_emit_int_type(g->e, 32, 0);
  V best[ORDERS];
  for (int k = 0; k < n; k++) {
    V y = LLVMBuildBitCast(b, x[k], word, "");
    for (int i = 0; i < ORDERS; i++) best[i] = k ? ts_emit_call2(g->e, name[i], best[i], y) : y;
  }
  V none = LLVMBuildICmp(b, LLVMIntSLT, best[SIGNED], LLVMConstNull(word), "");
  V z = LLVMBuildSelect(b, none, best[NEGATIVE], best[SIGNED], "");
  V below = LLVMConstInt(word, 0xff800000, 0);
  V wrong = LLVMBuildICmp(b, LLVMIntUGT, best[BEYOND], below, "");
  z = LLVMBuildSelect(b, wrong, best[BEYOND], z, "");
  return LLVMBuildBitCast(b, z, LLVMTypeOf(x[0]), "");
}

/* Of a unit whose lanes have all columns of their rows (intel_rows.c). */
static V *own_rows(const Fold *f, const TsTileStmt *s, TsGpuFrame *from) {
  int n = from->vector * from->chunks / from->squares;
  V *x = ts_gpu_slots(f->g, from, s->in[0]);
  V *out = ts_emit_take(f->g->e, sizeof *out * (size_t)from->squares);
  for (int r = 0; r < from->squares; r++, x += n) {
    if (s->op == TS_TILE_max && f->how.plain) x[0] = largest(f->g, x, n);
    for (int half = s->op == TS_TILE_max && f->how.plain ? 0 : n / 2; half; half /= 2)
      for (int i = 0; i < half; i++) x[i] = both(f, x[i], x[i + half]);
    out[r] = ts_gpu_fold_result(f->g, &f->how, (TsGpuItem){.x = x[0]});
  }
  return out;
}

bool ts_gpu_matrix_reduce(TsGpuEmit *g, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type;
  if (!is_reduction(s) || t->rank != 2 || !ts_gpu_frame_found(g, t)) return false;
  TsGpuFrame *from = ts_gpu_frame(g, t), *to = ts_gpu_frame_found(g, &s->out[0]->type);
  if (!from->whole || !from->squares || !to || !to->of_rows || t->dtype != TS_DT_f32)
    return false;
  const TsGpuMatrix *u = ts_gpu_matrix_of(g, (TsDtype)from->factor);
  Fold f = {g, ts_gpu_fold(g, s), u};
  if (!u) {
    ts_gpu_define(g, s->out[0], own_rows(&f, s, from));
    return true;
  }
  int cols = from->vector * from->chunks / from->squares / u->sums;
  V *all = ts_gpu_slots(g, from, s->in[0]);
  V *out = ts_emit_take(g->e, sizeof *out * (size_t)from->squares);
  V *x = ts_emit_take(g->e, sizeof *x * (size_t)(cols * u->sums));
  for (int r = 0; r < from->squares; r++) {
    memcpy(x, all + r * cols * u->sums, sizeof *x * (size_t)(cols * u->sums));
    for (int half = cols / 2; half; half /= 2)
      for (int i = 0; i < half * u->sums; i++) x[i] = both(&f, x[i], x[i + half * u->sums]);
    for (int by = SQUARE / 2; by; by /= 2) halve(&f, by, x);
    out[r] = ts_gpu_fold_result(g, &f.how, (TsGpuItem){.x = x[0]});
  }
  ts_gpu_define(g, s->out[0], out);
  return true;
}

/* ---- a number for each row, over its columns */
TsGpuFrame *ts_gpu_matrix_spread(TsGpuEmit *g, const TsTileStmt *s, const TsGpuFrame *f) {
  if (s->op != TS_TILE_broadcast || !f || !f->whole || !f->squares || s->in[0]->type.rank != 1)
    return NULL;
  TsGpuFrame *rows = ts_gpu_frame_found(g, &s->in[0]->type);
  bool down = ts_tile_attr(s, "axes")->ints[0] == 0;
  return rows && rows->of_rows && down && rows->chunks == f->squares ? rows : NULL;
}

int ts_gpu_matrix_row_of(const TsGpuFrame *f, int slot) {
  return slot / (f->vector * f->chunks / f->squares);
}
