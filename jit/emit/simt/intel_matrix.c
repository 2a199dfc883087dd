/* Products of tiles by the matrix unit of Intel's GPUs (DPAS), in block form: ir/tile/square.h says
 * what it computes.
 *
 * An instruction of a sub-group of 16 makes D = A B + C with 8 rows of D, 16 columns and 16 steps
 * of k. Of D and C a lane has its column, of B the numbers of its column along k in words of two;
 * the numbers of A along k are spread over the lanes, row after row. So D is given 8 columns of
 * our sums, turned: a lane has a row of the tile, of which 8 sums are neighbours, as an epilogue
 * wants them; its numbers of the left operand are neighbours along k, and those of the right one
 * are 8 neighbours of a row, as they lie in memory. No operand is turned on its way then.
 *
 * Sub-groups stand in rows and columns of the tile. Operands come in frames as all tiles do and go
 * to shared memory as they lie, with some bytes between rows. */
#include <string.h>

#include "ir/tile/square.h"
#include "jit/emit/simt/emit.h"

typedef LLVMValueRef V;

enum {
  LANES = 16,
  RUN = 8, /* sums of a lane of an instruction */
  DEPTH = 16,
  BYTES = 2,
  GAP = 8, /* numbers between rows */
  MOST = 64
};

static bool has_unit(const TsGpuEmit *g) { return g->e->target->matrix == TS_MATRIX_dpas; }

static LLVMTypeRef i32(TsGpuEmit *g) { return ts_emit_int_type(g->e, 32, 0); }
static LLVMTypeRef i16(TsGpuEmit *g) { return ts_emit_int_type(g->e, 16, 0); }

/* A product by the unit, of sums of this shape; NULL: of any. */
static const TsTileStmt *find(const TsTileRegion *r, const TsTileType *t) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    const TsTileType *y = ts_tile_square_of(s) ? &s->out[0]->type : NULL;
    if (y && (!t || (t->rank == 2 && y->dim[0] == t->dim[0] && y->dim[1] == t->dim[1])))
      return s;
    for (int i = 0; i < s->nregion; i++) {
      const TsTileStmt *found = find(s->region[i], t);
      if (found) return found;
    }
  }
  return NULL;
}

int ts_gpu_intel_lanes(const TsGpuEmit *g) {
  return has_unit(g) && find(g->phase->loop->region[0], NULL) ? LANES : 0;
}

/* ---- sub-groups: of their rows and columns those for which least is read */
typedef struct Groups {
  int high, across;
  int bands, strips; /* of one: of LANES rows, of RUN columns */
} Groups;

static bool divide(const TsGpuEmit *g, const TsTileType *t, Groups *best) {
  int n = g->threads / LANES, least = 0;
  for (int across = 1; n * LANES == g->threads && across <= n; across *= 2) {
    int64_t rows = (int64_t)(n / across) * LANES, cols = (int64_t)across * RUN;
    if (n % across || t->dim[0] % rows || t->dim[1] % cols) continue;
    Groups w = {n / across, across, (int)(t->dim[0] / rows), (int)(t->dim[1] / cols)};
    int reads = w.bands * DEPTH + w.strips * RUN;
    if (least && reads >= least) continue;
    least = reads, *best = w;
  }
  return least && best->strips <= MOST;
}

/* Where this thread is: its first row and column, its lane. */
typedef struct Place {
  V row, col, lane;
} Place;

static Place place_of(TsGpuEmit *g, const Groups *w) {
  V group = ts_gpu_div(g, g->tid64, LANES), lane = ts_gpu_mod(g, g->tid64, LANES);
  V high = ts_gpu_div(g, group, w->across), across = ts_gpu_mod(g, group, w->across);
  return (Place){ts_gpu_add(g, ts_gpu_mul(g, high, (int64_t)w->bands * LANES), lane),
                 ts_gpu_mul(g, across, (int64_t)w->strips * RUN), lane};
}

TsGpuFrame *ts_gpu_intel_frame(TsGpuEmit *g, const TsTileType *t) {
  Groups w;
  if (!has_unit(g) || t->rank != 2 || !find(g->phase->loop->region[0], t) || !divide(g, t, &w))
    return NULL;
  TsGpuFrame *f = ts_gpu_frame_of(g, t, RUN, w.bands * w.strips);
  f->whole = RUN, f->whole_of = TS_DT_f32;
  f->wholes = ts_emit_take(g->e, sizeof *f->wholes * (g->e->k->nvalue + 1));
  memset(f->wholes, 0, sizeof *f->wholes * (g->e->k->nvalue + 1));
  Place p = place_of(g, &w);
  for (int r = 0, k = 0; r < w.bands; r++)
    for (int c = 0; c < w.strips; c++, k++)
      for (int v = 0; v < RUN; v++) {
        TsGpuCoord *at = f->at[k * RUN + v];
        memset(at, 0, sizeof *at * TS_TILE_RANK);
        at[0] = (TsGpuCoord){p.row, (int64_t)r * LANES, 0};
        at[1] = (TsGpuCoord){p.col, (int64_t)c * RUN + v, RUN};
      }
  return f;
}

/* ---- operands in shared memory */
typedef struct Side {
  int64_t at, pitch; /* bytes from the group's memory; numbers of a row */
} Side;

static V at(TsGpuEmit *g, const Side *o, V row, V col) {
  return ts_gpu_shared_at(g, o->at, i16(g), ts_gpu_add(g, ts_gpu_mul(g, row, o->pitch), col));
}

static Side put(TsGpuEmit *g, TsTileVal v) {
  TsGpuFrame *f = ts_gpu_frame(g, &v->type);
  V *x = ts_gpu_slots(g, f, v);
  Side o = {.pitch = v->type.dim[1] + GAP};
  o.at = ts_gpu_shared_take(g, v->type.dim[0] * o.pitch * BYTES);
  for (int k = 0; k < f->chunks; k++) {
    const TsGpuCoord *c = f->at[k * f->vector];
    LLVMBasicBlockRef after = f->valid[k] ? ts_gpu_if(g, f->valid[k]) : NULL;
    V y = LLVMGetPoison(LLVMVectorType(i16(g), (unsigned)f->vector));
    for (int i = 0; i < f->vector; i++)
      y = LLVMBuildInsertElement(g->e->b, y, x[k * f->vector + i], ts_emit_int(g->e, i32(g), i),
                                 "");
    V to = at(g, &o, ts_gpu_coord(g, c[0]), ts_gpu_coord(g, c[1]));
    LLVMSetAlignment(LLVMBuildStore(g->e->b, y, to), (unsigned)(BYTES * f->vector));
    if (after) ts_gpu_if_end(g, after);
  }
  return o;
}

static V read(TsGpuEmit *g, const Side *o, V row, V col, int n) {
  V x = LLVMBuildLoad2(g->e->b, LLVMVectorType(i16(g), (unsigned)n), at(g, o, row, col), "");
  LLVMSetAlignment(x, 16);
  return x;
}

/* Of the left operand, a lane's row: words of two along k. */
static V left(TsGpuEmit *g, const Side *o, V row, int64_t k) {
  V x = read(g, o, row, ts_gpu_i64(g, k), DEPTH);
  return LLVMBuildBitCast(g->e->b, x, LLVMVectorType(i32(g), RUN), "");
}

/* Of the right one, of RUN columns: a lane has one step of k. */
static V right(TsGpuEmit *g, const Side *o, V lane, V col, int64_t k) {
  return read(g, o, ts_gpu_add(g, lane, ts_gpu_i64(g, k)), col, RUN);
}

/* ---- the product */
bool ts_gpu_intel_product(TsGpuEmit *g, const TsTileStmt *s) {
  Groups w;
  int n = 0;
  if (!has_unit(g) || !ts_tile_square_of(s)) return false;
  const TsTileType *a = &s->in[0]->type;
  bool half = a->dtype == TS_DT_bf16 || a->dtype == TS_DT_f16;
  if (!half || a->dim[1] % DEPTH || !divide(g, &s->out[0]->type, &w))
    ts_emit_fail(g->e, "the unit has no product of these tiles");
  const char *name = a->dtype == TS_DT_bf16
                         ? "_Z40intel_sub_group_bf16_bf16_matrix_mad_k16Dv8_sDv8_iDv8_f"
                         : "_Z38intel_sub_group_f16_f16_matrix_mad_k16Dv8_sDv8_iDv8_f";
  V *acc = ts_gpu_matrix_wholes(g, s->in[2], &n);
  V *sum = ts_emit_take(g->e, sizeof *sum * (size_t)n), x[MOST];
  memcpy(sum, acc, sizeof *sum * (size_t)n);
  Side l = put(g, s->in[0]), r = put(g, s->in[1]);
  ts_gpu_sync(g);
  Place p = place_of(g, &w);
  for (int64_t k = 0; k < a->dim[1]; k += DEPTH) {
    for (int c = 0; c < w.strips; c++)
      x[c] = right(g, &r, p.lane, ts_gpu_add(g, p.col, ts_gpu_i64(g, (int64_t)c * RUN)), k);
    for (int b = 0, i = 0; b < w.bands; b++) {
      V y = left(g, &l, ts_gpu_add(g, p.row, ts_gpu_i64(g, (int64_t)b * LANES)), k);
      for (int c = 0; c < w.strips; c++, i++)
        sum[i] = ts_gpu_spirv_call(g, name, LLVMTypeOf(sum[i]), 3, (V[]){x[c], y, sum[i]});
    }
  }
  ts_gpu_matrix_define(g, s->out[0], sum);
  return true;
}
