/* Frames: how the elements of a tile are spread over the threads. See jit/emit/simt/emit.h. */
#include <string.h>

#include "jit/emit/simt/emit.h"
#include "vm/kernels/rows/reduce.h"

typedef LLVMValueRef V;

bool ts_gpu_frame_fits(const TsGpuFrame *f, const TsTileType *t) {
  if (f->rank != t->rank) return false;
  for (int i = 0; i < t->rank; i++)
    if (f->dim[i] != t->dim[i]) return false;
  return true;
}

static bool is_static(const TsTileType *t) {
  for (int i = 0; i < t->rank; i++)
    if (ts_tile_dim_is(t->dim[i])) return false;
  return true;
}

static int vector_of(const TsGpuEmit *g, const TsTileType *t) {
  int v = g->phase->vector;
  int64_t last = t->rank ? t->dim[t->rank - 1] : 1;
  if (ts_tile_dim_is(last)) return 1;
  while (v > 1 && last % v) v /= 2;
  return v;
}

bool ts_gpu_resident(const TsGpuEmit *g, const TsTileType *t) {
  if (!is_static(t)) return false;
  int64_t span = (int64_t)g->threads * vector_of(g, t), n = ts_tile_numel(t);
  bool twice = g->phase->paired || g->phase->registers == TS_GPU_LARGE;
  int64_t most = TS_GPU_ELEMS * (twice ? 2 : 1);
  return n <= g->phase->most && (n + span - 1) / span * vector_of(g, t) <= most;
}

void ts_gpu_split(TsGpuEmit *g, const TsTileType *t, V linear, TsGpuCoord *at) {
  for (int i = t->rank; i-- > 0;) {
    int64_t n = t->dim[i];
    if (i == 0) {
      at[i] = (TsGpuCoord){linear, 0, 0};
    } else if (ts_tile_dim_is(n)) {
      V by = ts_emit_size(g->e, n);
      at[i] = (TsGpuCoord){LLVMBuildURem(g->e->b, linear, by, ""), 0, 0};
      linear = LLVMBuildUDiv(g->e->b, linear, by, "");
    } else {
      at[i] = (TsGpuCoord){ts_gpu_mod(g, linear, n), 0, 0};
      linear = ts_gpu_div(g, linear, n);
    }
  }
}

/* The vector of chunk k begins at V t + span k, and V t is below span. Where axes divide the
 * span, or it divides them, k adds to the coordinates what is known, and chunks share the
 * rest. */
static bool is_even(const TsTileType *t, int64_t span) {
  for (int i = 0; i < t->rank; i++)
    if (t->dim[i] < 1) return false;
  for (int i = t->rank; i-- > 1 && span > 1; span /= t->dim[i]) {
    if (span < t->dim[i]) return t->dim[i] % span == 0;
    if (span % t->dim[i]) return false;
  }
  return true;
}

static void chunk_coords(TsGpuEmit *g, const TsTileType *t, TsGpuFrame *f, V first, int k,
                         TsGpuCoord *at) {
  int64_t span = ts_gpu_frame_span(g, f);
  memset(at, 0, sizeof *at * TS_TILE_RANK);
  if (!is_even(t, span)) {
    ts_gpu_split(g, t, ts_gpu_add(g, first, ts_gpu_i64(g, span * k)), at);
    return;
  }
  for (int i = t->rank; i-- > 0;) {
    int64_t n = t->dim[i];
    if (i == 0) {
      at[i] = (TsGpuCoord){first, span * k, 0};
    } else if (span % n == 0) {
      at[i] = (TsGpuCoord){ts_gpu_mod(g, first, n), 0, 0};
      first = ts_gpu_div(g, first, n);
      span /= n;
    } else { /* the axes before are known */
      at[i] = (TsGpuCoord){first, span * (k % (n / span)), 0};
      first = NULL, k /= (int)(n / span), span = 1;
    }
  }
}

int64_t ts_gpu_frame_span(const TsGpuEmit *g, const TsGpuFrame *f) {
  return (int64_t)g->threads * f->vector;
}

TsGpuFrame *ts_gpu_frame_of(TsGpuEmit *g, const TsTileType *t, int vector, int chunks) {
  TsEmit *e = g->e;
  TsGpuFrame *f = ts_emit_take(e, sizeof *f);
  *f = (TsGpuFrame){.rank = t->rank, .vector = vector, .chunks = chunks};
  memcpy(f->dim, t->dim, sizeof f->dim);
  size_t slots = (size_t)(f->vector * chunks);
  f->valid = ts_emit_take(e, sizeof *f->valid * (size_t)chunks);
  f->at = ts_emit_take(e, sizeof *f->at * slots);
  f->memo = ts_emit_take(e, sizeof *f->memo * (e->k->nvalue + 1));
  memset(f->valid, 0, sizeof *f->valid * (size_t)chunks);
  memset(f->memo, 0, sizeof *f->memo * (e->k->nvalue + 1));
  return f;
}

TsGpuFrame *ts_gpu_frame_new(TsGpuEmit *g, const TsTileType *t, int chunks) {
  return ts_gpu_frame_of(g, t, vector_of(g, t), chunks);
}

/* Elements of a chunk differ along the last axis alone. */
static void spread_chunk(TsGpuFrame *f, int k, const TsGpuCoord *at) {
  for (int v = 0; v < f->vector; v++) {
    TsGpuCoord *to = f->at[k * f->vector + v];
    memcpy(to, at, sizeof *at * TS_TILE_RANK);
    if (f->rank) to[f->rank - 1].off += v, to[f->rank - 1].multiple = f->vector;
  }
}

/* Element e of leaf b is lane e mod `lanes`: each of the leaf's threads has V lanes. */
static TsGpuFrame *frame_laned(TsGpuEmit *g, const TsTileType *t) {
  const TsGpuPhasePlan *p = g->phase;
  int64_t n = p->row, leaves = (n + TS_RED_LEAF - 1) / TS_RED_LEAF;
  int64_t end = leaves > 1 ? TS_RED_LEAF : n;
  TsGpuFrame *f = ts_gpu_frame_new(g, t, (int)((end + p->lanes - 1) / p->lanes));
  V first = ts_gpu_mul(g, ts_gpu_mod(g, g->tid64, p->each), f->vector);
  if (leaves > 1)
    first = ts_gpu_add(g, first, ts_gpu_mul(g, ts_gpu_div(g, g->tid64, p->each), TS_RED_LEAF));
  f->laned = true;
  for (int k = 0; k < f->chunks; k++) {
    int64_t off = (int64_t)p->lanes * k;
    TsGpuCoord at[TS_TILE_RANK] = {{first, off, 0}};
    spread_chunk(f, k, at);
    if ((leaves - 1) * TS_RED_LEAF + off + p->lanes > n)
      f->valid[k] = ts_gpu_below(g, first, ts_gpu_i64(g, n > off ? n - off : 0));
  }
  return f;
}

static TsGpuFrame *resident_frame(TsGpuEmit *g, const TsTileType *t) {
  int64_t n = ts_tile_numel(t), span = (int64_t)g->threads * vector_of(g, t);
  if (g->phase->row && t->rank == 1 && n == g->phase->row) return frame_laned(g, t);
  TsGpuFrame *f =
      ts_gpu_frame_new(g, t, (int)((n + span - 1) / span ? (n + span - 1) / span : 1));
  V first = ts_gpu_mul(g, g->tid64, f->vector);
  for (int k = 0; k < f->chunks; k++) {
    TsGpuCoord at[TS_TILE_RANK];
    chunk_coords(g, t, f, first, k, at);
    spread_chunk(f, k, at);
    if (span * (k + 1) <= n) continue;
    f->valid[k] = ts_gpu_below(g, first, ts_gpu_i64(g, n - span * k > 0 ? n - span * k : 0));
  }
  return f;
}

TsGpuFrame *ts_gpu_frame_loose(TsGpuEmit *g, const TsTileType *t, V chunk) {
  TsGpuFrame *f = ts_gpu_frame_new(g, t, 1);
  TsGpuCoord at[TS_TILE_RANK] = {{0}};
  V n = ts_gpu_i64(g, 1);
  for (int i = 0; i < t->rank; i++)
    n = LLVMBuildNSWMul(g->e->b, n, ts_emit_size(g->e, t->dim[i]), "");
  V first = ts_gpu_add(g, ts_gpu_mul(g, g->tid64, f->vector),
                       ts_gpu_mul(g, chunk, ts_gpu_frame_span(g, f)));
  ts_gpu_split(g, t, first, at);
  spread_chunk(f, 0, at);
  f->valid[0] = ts_gpu_below(g, first, n);
  f->loose = true;
  return f;
}

TsGpuFrame *ts_gpu_frame_at(TsGpuEmit *g, const TsTileType *t, const TsGpuCoord *at) {
  TsGpuFrame *f = ts_gpu_frame_new(g, t, 1);
  spread_chunk(f, 0, at);
  f->loose = true;
  return f;
}

TsGpuFrame *ts_gpu_frame_row(TsGpuEmit *g, const TsTileType *t, V first, int vector) {
  TsGpuFrame *f = ts_gpu_frame_of(g, t, vector, 1);
  TsGpuCoord at[TS_TILE_RANK] = {{first, 0, 0}};
  spread_chunk(f, 0, at);
  f->loose = true;
  return f;
}

void ts_gpu_slot_at(TsGpuEmit *g, const TsGpuFrame *f, int slot, TsGpuCoord *at) {
  V valid = f->valid[slot / f->vector], zero = ts_gpu_i64(g, 0);
  memcpy(at, f->at[slot], sizeof f->at[slot]);
  for (int k = 0; valid && k < f->rank; k++)
    at[k] =
        (TsGpuCoord){LLVMBuildSelect(g->e->b, valid, ts_gpu_coord(g, at[k]), zero, ""), 0, 0};
}

bool ts_gpu_is_tile(const TsTileValue *v) {
  return !ts_tile_memory(&v->type) && v->type.rank > 0;
}

TsGpuFrame *ts_gpu_frame_found(TsGpuEmit *g, const TsTileType *t) {
  for (TsGpuFrame *f = g->frames; f; f = f->next)
    if (ts_gpu_frame_fits(f, t)) return f;
  return NULL;
}

static void add_frame(TsGpuEmit *g, TsTileVal v) {
  if (!ts_gpu_is_tile(v) || ts_gpu_frame_found(g, &v->type) || !ts_gpu_resident(g, &v->type))
    return;
  TsGpuFrame *f = ts_gpu_matrix_frame(g, &v->type);
  if (!f) f = resident_frame(g, &v->type);
  f->next = g->frames;
  g->frames = f;
}

/* All at the beginning of a function, so that they are seen everywhere in it. */
void ts_gpu_frames_make(TsGpuEmit *g, const TsTileRegion *r) {
  for (int i = 0; i < r->nparam; i++) add_frame(g, r->param[i]);
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nout; i++) add_frame(g, s->out[i]);
    for (int i = 0; i < s->nregion; i++) ts_gpu_frames_make(g, s->region[i]);
  }
}

TsGpuFrame *ts_gpu_frame(TsGpuEmit *g, const TsTileType *t) {
  TsGpuFrame *f = ts_gpu_frame_found(g, t);
  if (!f) ts_emit_fail(g->e, "a tile is too large for registers");
  return f;
}
