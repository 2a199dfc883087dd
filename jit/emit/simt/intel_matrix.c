/* Products of tiles by the matrix unit of Intel's GPUs (DPAS), in block form: ir/tile/square.h says
 * what it computes.
 *
 * An instruction of a sub-group of 16 makes D = A B + C with 8 rows of D, 16 columns and 32 bytes
 * of k. Of D and C a lane has its column, of B the numbers of its column along k in words; the
 * numbers of A along k are spread over the lanes, 16 bits each, row after row.
 *
 * 2D block loads give boxes of a matrix in memory just so (intel_boxes.c). Where both operands can come
 * that way they do, each sub-group its own, and nobody meets: the caches hold what several read.
 * Lanes are columns of our sums then.
 *
 * Else operands come in frames as all tiles do and go to shared memory as they lie, with some bytes
 * between rows. D is given 8 columns of our sums, turned: a lane has a row of the tile, of which 8 sums
 * are neighbours, as an epilogue wants them; its numbers of the left operand are neighbours along
 * k, and those of the right one are 8 neighbours of a row, as they lie in memory. No operand is
 * turned on its way then. Sub-groups stand in rows and columns of the tile. Where rows are reduced or
 * what is computed is multiplied, a sub-group has whole rows: intel_rows.c. */
#include <string.h>

#include "ir/tile/square.h"
#include "jit/emit/simt/intel.h"
#include "jit/gpu/boxes.h"

typedef LLVMValueRef V;

enum {
  LANES = TS_INTEL_LANES,
  RUN = TS_INTEL_RUN,
  BYTES = TS_INTEL_STEP_BYTES,
  GAP = 16, /* bytes between rows */
  MOST = 64
};

static bool has_unit(const TsGpuEmit *g) { return ts_target_by_groups(g->e->target); }

static LLVMTypeRef int_type(TsGpuEmit *g, int bits) { return ts_emit_int_type(g->e, bits, 0); }
static LLVMTypeRef i32(TsGpuEmit *g) { return int_type(g, 32); }
static LLVMTypeRef words(TsGpuEmit *g, int n, int bits) {
  return LLVMVectorType(int_type(g, bits), (unsigned)n);
}

static bool by_unit(const TsGpuEmit *g, const TsTileStmt *s) {
  return ts_tile_square_of(s) ==
         (ts_gpu_cooperative(g) ? TS_SQUARE_cooperative : TS_SQUARE_dpas);
}

/* A product by the unit, of sums of this shape, or as many rows; NULL: of any. */
static const TsTileStmt *find(const TsGpuEmit *g, const TsTileRegion *r, const TsTileType *t) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    const TsTileType *y = by_unit(g, s) ? &s->out[0]->type : NULL;
    bool fits = y && (!t || y->dim[0] == t->dim[0]);
    if (fits && (!t || t->rank == 1 || y->dim[1] == t->dim[1])) return s;
    for (int i = 0; i < s->nregion; i++) {
      const TsTileStmt *found = find(g, s->region[i], t);
      if (found) return found;
    }
  }
  return NULL;
}

int ts_gpu_intel_lanes(const TsGpuEmit *g) {
  return has_unit(g) && find(g, g->phase->loop->region[0], NULL) ? LANES : 0;
}

static bool is_dpas(const TsGpuEmit *g) {
  return g->maker->matrix_product && g->e->target->matrix == TS_MATRIX_dpas;
}

/* Lanes have whole rows of sums: intel_rows.c. */
static bool has_rows(const TsGpuEmit *g) {
  return is_dpas(g) && ts_gpu_whole_rows(g->phase->loop->region[0]);
}

bool ts_gpu_intel_boxes(const TsGpuEmit *g) {
  return g->aligned && is_dpas(g) &&
         (has_rows(g) || ts_gpu_boxes_all(g->phase->loop->region[0]));
}

bool ts_gpu_intel_box(const TsGpuEmit *g, TsTileVal v) {
  return v->stmt && v->stmt->op == TS_TILE_load && ts_gpu_intel_boxes(g) &&
         ts_gpu_boxes_only(v->stmt);
}

/* ---- sub-groups: of their rows and columns those for which least is read */
typedef TsIntelGroups Groups;
typedef TsIntelPlace Place;
typedef TsIntelSide Side;

static bool divide(const TsGpuEmit *g, const TsTileType *t, Groups *best) {
  int n = g->threads / LANES, least = 0;
  bool rows = has_rows(g), columns = ts_gpu_cooperative(g) || (!rows && ts_gpu_intel_boxes(g));
  int high = columns ? RUN : LANES, wide = columns ? LANES : RUN;
  for (int across = 1; n * LANES == g->threads && across <= (rows ? 1 : n); across *= 2) {
    int64_t down = (int64_t)(n / across) * high, cols = (int64_t)across * wide;
    if (n % across || t->dim[0] % down || t->dim[1] % cols) continue;
    Groups w = {n / across, across, (int)(t->dim[0] / down), (int)(t->dim[1] / cols), high,
                wide,       columns};
    int reads = w.bands * high + w.strips * wide;
    if (least && reads >= least) continue;
    least = reads, *best = w;
  }
  return least && best->strips <= MOST && best->bands <= MOST;
}

/* The sub-group's number is told by its first lane: boxes are of all lanes alike. */
V ts_gpu_intel_group(TsGpuEmit *g) {
  V group = ts_gpu_div(g, g->tid64, LANES);
  V number = LLVMBuildTrunc(g->e->b, group, i32(g), ""), first = ts_emit_int(g->e, i32(g), 0);
  number =
      ts_gpu_spirv_call(g, "_Z23intel_sub_group_shufflejj", i32(g), 2, (V[]){number, first});
  return LLVMBuildZExt(g->e->b, number, int_type(g, 64), "");
}

Place ts_gpu_intel_place(TsGpuEmit *g, const Groups *w) {
  bool boxes = w->columns || ts_gpu_intel_boxes(g);
  V group = boxes ? ts_gpu_intel_group(g) : ts_gpu_div(g, g->tid64, LANES);
  V lane = ts_gpu_mod(g, g->tid64, LANES);
  V high = ts_gpu_div(g, group, w->across), across = ts_gpu_mod(g, group, w->across);
  return (Place){ts_gpu_mul(g, high, (int64_t)w->bands * w->rows),
                 ts_gpu_mul(g, across, (int64_t)w->strips * w->cols), lane};
}

/* A number of each row is one of the lane that has it. */
static TsGpuFrame *row_frame(TsGpuEmit *g, const TsTileType *t) {
  const TsTileStmt *s = has_rows(g) ? find(g, g->phase->loop->region[0], t) : NULL;
  TsGpuFrame *of = s ? ts_gpu_intel_frame(g, &s->out[0]->type) : NULL;
  return ts_gpu_matrix_rows_of(g, t, of);
}

TsGpuFrame *ts_gpu_intel_frame(TsGpuEmit *g, const TsTileType *t) {
  Groups w;
  if (t->rank == 1) return row_frame(g, t);
  const TsTileStmt *s =
      has_unit(g) && t->rank == 2 ? find(g, g->phase->loop->region[0], t) : NULL;
  if (!s || !divide(g, t, &w)) return NULL;
  int vector = w.columns ? 1 : RUN;
  TsGpuFrame *f = ts_gpu_frame_of(g, t, vector, w.bands * w.strips * RUN / vector);
  f->whole = RUN, f->whole_of = s->out[0]->type.dtype;
  f->squares = has_rows(g) ? w.bands : 0;
  ts_gpu_matrix_keep_wholes(g, f);
  Place p = ts_gpu_intel_place(g, &w);
  V row = w.columns ? p.row : ts_gpu_add(g, p.row, p.lane);
  V col = w.columns ? ts_gpu_add(g, p.col, p.lane) : p.col;
  for (int r = 0, k = 0; r < w.bands; r++)
    for (int c = 0; c < w.strips; c++)
      for (int v = 0; v < RUN; v++, k++) {
        TsGpuCoord *at = f->at[k];
        memset(at, 0, sizeof *at * TS_TILE_RANK);
        at[0] = (TsGpuCoord){row, (int64_t)r * w.rows + (w.columns ? v : 0), 0};
        at[1] =
            (TsGpuCoord){col, (int64_t)c * w.cols + (w.columns ? 0 : v), w.columns ? 0 : RUN};
      }
  return f;
}

/* ---- operands in shared memory */
V ts_gpu_intel_at(TsGpuEmit *g, const Side *o, V row, V col) {
  return ts_gpu_shared_at(g, o->at, o->number,
                          ts_gpu_add(g, ts_gpu_mul(g, row, o->pitch), col));
}

Side ts_gpu_intel_put(TsGpuEmit *g, TsTileVal v) {
  TsGpuFrame *f = ts_gpu_frame(g, &v->type);
  V *x = ts_gpu_slots(g, f, v);
  int nbytes = ts_dtypes[v->type.dtype].nbytes;
  Side o = {.pitch = v->type.dim[1] + GAP / nbytes, .number = int_type(g, 8 * nbytes)};
  o.at = ts_gpu_shared_take(g, v->type.dim[0] * o.pitch * nbytes);
  for (int k = 0; k < f->chunks; k++) {
    const TsGpuCoord *c = f->at[k * f->vector];
    LLVMBasicBlockRef after = f->valid[k] ? ts_gpu_if(g, f->valid[k]) : NULL;
    V y = LLVMGetPoison(LLVMVectorType(o.number, (unsigned)f->vector));
    for (int i = 0; i < f->vector; i++)
      y = LLVMBuildInsertElement(g->e->b, y, x[k * f->vector + i], ts_emit_int(g->e, i32(g), i),
                                 "");
    V to = ts_gpu_intel_at(g, &o, ts_gpu_coord(g, c[0]), ts_gpu_coord(g, c[1]));
    LLVMSetAlignment(LLVMBuildStore(g->e->b, y, to), (unsigned)(nbytes * f->vector));
    if (after) ts_gpu_if_end(g, after);
  }
  return o;
}

static V read(TsGpuEmit *g, const Side *o, V row, V col, LLVMTypeRef t, int align) {
  V x = LLVMBuildLoad2(g->e->b, t, ts_gpu_intel_at(g, o, row, col), "");
  LLVMSetAlignment(x, (unsigned)align);
  return x;
}

/* Of the left operand, a lane's row: words along k. */
static V left(TsGpuEmit *g, const Side *o, V row, int64_t k) {
  return read(g, o, row, ts_gpu_i64(g, k), words(g, RUN, 32), 16);
}

/* Of the right one, of RUN columns: a lane has one step of k of 16 bits, or two of 8. */
static V right(TsGpuEmit *g, const Side *o, TsDtype d, V lane, V col, int64_t k) {
  if (d != TS_DT_i8)
    return read(g, o, ts_gpu_add(g, lane, ts_gpu_i64(g, k)), col, words(g, RUN, 16), 16);
  V row = ts_gpu_add(g, ts_gpu_mul(g, lane, 2), ts_gpu_i64(g, k)), mix[2 * RUN];
  V low = read(g, o, row, col, words(g, RUN, 8), RUN);
  V high = read(g, o, ts_gpu_add(g, row, ts_gpu_i64(g, 1)), col, words(g, RUN, 8), RUN);
  for (int i = 0; i < 2 * RUN; i++) mix[i] = ts_emit_int(g->e, i32(g), i / 2 + i % 2 * RUN);
  V x = LLVMBuildShuffleVector(g->e->b, low, high, LLVMConstVector(mix, 2 * RUN), "");
  return LLVMBuildBitCast(g->e->b, x, words(g, RUN, 16), "");
}

/* ---- the product */
static const char *name_of(TsDtype d) {
  switch (d) {
  case TS_DT_bf16: return "_Z40intel_sub_group_bf16_bf16_matrix_mad_k16Dv8_sDv8_iDv8_f";
  case TS_DT_f16: return "_Z38intel_sub_group_f16_f16_matrix_mad_k16Dv8_sDv8_iDv8_f";
  case TS_DT_i8: return "_Z36intel_sub_group_i8_i8_matrix_mad_k32Dv8_sDv8_iS0_";
  default: return NULL;
  }
}

V ts_gpu_intel_multiply(TsGpuEmit *g, TsDtype d, V a, V b, V sum) {
  return ts_gpu_spirv_call(g, name_of(d), LLVMTypeOf(sum), 3, (V[]){a, b, sum});
}

static void by_shared(TsGpuEmit *g, const TsTileStmt *s, const Groups *w, V *sum) {
  const TsTileType *a = &s->in[0]->type;
  TsDtype d = (TsDtype)a->dtype;
  V x[MOST];
  Side l = ts_gpu_intel_put(g, s->in[0]), r = ts_gpu_intel_put(g, s->in[1]);
  ts_gpu_sync(g);
  Place p = ts_gpu_intel_place(g, w);
  V row = ts_gpu_add(g, p.row, p.lane);
  for (int64_t k = 0; k < a->dim[1]; k += BYTES / ts_dtypes[d].nbytes) {
    for (int c = 0; c < w->strips; c++)
      x[c] = right(g, &r, d, p.lane, ts_gpu_add(g, p.col, ts_gpu_i64(g, (int64_t)c * RUN)), k);
    for (int b = 0, i = 0; b < w->bands; b++) {
      V y = left(g, &l, ts_gpu_add(g, row, ts_gpu_i64(g, (int64_t)b * LANES)), k);
      for (int c = 0; c < w->strips; c++, i++)
        sum[i] = ts_gpu_intel_multiply(g, d, x[c], y, sum[i]);
    }
  }
}

/* Two steps of the left operand come at once, so there may be one too many: of zeros, which is
 * not multiplied. */
static void by_boxes(TsGpuEmit *g, const TsTileStmt *s, const Groups *w, V *sum) {
  const TsTileType *a = &s->in[0]->type;
  TsDtype d = (TsDtype)a->dtype;
  int64_t step = BYTES / ts_dtypes[d].nbytes;
  V x[MOST][2];
  TsIntelBoxes l = ts_gpu_intel_boxes_of(g, s, 0), r = ts_gpu_intel_boxes_of(g, s, 1);
  Place p = ts_gpu_intel_place(g, w);
  for (int64_t k = 0; k < a->dim[1]; k += step) {
    int half = (int)(k / step % 2);
    for (int b = 0; b < w->bands && !half; b++)
      ts_gpu_intel_left(g, &l, ts_gpu_add(g, p.row, ts_gpu_i64(g, (int64_t)b * RUN)), k, x[b]);
    for (int c = 0; c < w->strips; c++) {
      V y =
          ts_gpu_intel_right(g, &r, k, ts_gpu_add(g, p.col, ts_gpu_i64(g, (int64_t)c * LANES)));
      for (int b = 0; b < w->bands; b++) {
        V *to = &sum[b * w->strips + c];
        *to = ts_gpu_intel_multiply(g, d, x[b][half], y, *to);
      }
    }
  }
}

bool ts_gpu_intel_product(TsGpuEmit *g, const TsTileStmt *s) {
  Groups w;
  int n = 0;
  if (!has_unit(g) || !by_unit(g, s)) return false;
  const TsTileType *a = &s->in[0]->type;
  TsDtype d = (TsDtype)a->dtype;
  if (!name_of(d) || a->dim[1] % (BYTES / ts_dtypes[d].nbytes) ||
      !divide(g, &s->out[0]->type, &w))
    ts_emit_fail(g->e, "the unit has no product of these tiles");
  V *sum = ts_emit_take(g->e, sizeof *sum * (size_t)(w.bands * w.strips));
  if (has_rows(g)) {
    TsTileVal made = ts_gpu_intel_rows_product(g, s, &w, sum);
    return ts_gpu_matrix_define(g, made, sum), true;
  }
  V *acc = ts_gpu_matrix_wholes(g, s->in[2], &n);
  memcpy(sum, acc, sizeof *sum * (size_t)n);
  (ts_gpu_cooperative(g) ? ts_gpu_cooperative_sums
   : w.columns           ? by_boxes
                         : by_shared)(g, s, &w, sum);
  ts_gpu_matrix_define(g, s->out[0], sum);
  return true;
}
