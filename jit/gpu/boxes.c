/* See jit/gpu/boxes.h. */
#include "jit/gpu/boxes.h"

#include "ir/tile/square.h"
#include "jit/gpu/plan.h"

static bool writes(const TsTileRegion *r, const TsTileValue *memory) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if ((s->op == TS_TILE_store || s->op == TS_TILE_scatter) && s->in[0] == memory) return true;
    for (int i = 0; i < s->nregion; i++)
      if (writes(s->region[i], memory)) return true;
  }
  return false;
}

static const TsTileRegion *root_of(const TsTileRegion *r) {
  while (r->outer) r = r->outer;
  return r;
}

static void axes_of(const TsTileStmt *load, int axis[2]) {
  const TsAttr *axes = ts_tile_attr(load, "axes");
  for (int i = 0; i < 2; i++)
    axis[i] = axes->type == TS_ATTR_ints && axes->n ? (int)axes->ints[i]
                                                    : load->in[0]->type.rank - 2 + i;
}

/* The load that an operand is, as it comes or transposed; NULL. */
static const TsTileStmt *load_of(const TsTileStmt *product, int side, bool *transposed) {
  const TsTileStmt *s = product->in[side]->stmt;
  *transposed = s && s->op == TS_TILE_transpose && s->out[0]->type.rank == 2;
  if (*transposed) s = s->in[0]->stmt;
  return s && s->op == TS_TILE_load ? s : NULL;
}

static bool is_within(const TsTileRegion *r, const TsTileRegion *outer) {
  while (r && r != outer) r = r->outer;
  return r;
}

/* Lines are read from a multiple of 4 bytes on, and zeros stand for what is outside. */
bool ts_gpu_box_of(const TsTileStmt *product, int side, TsGpuBox *out) {
  enum { START = 4 };
  bool transposed;
  const TsTileStmt *s = load_of(product, side, &transposed);
  if (ts_tile_square_of(product) != TS_SQUARE_dpas || !s ||
      !is_within(product->in_region, s->in_region) || s->out[0]->type.rank != 2 ||
      ts_tile_attr(s, "fill")->f != 0)
    return false;
  const TsTileValue *memory = s->in[0];
  const TsTileType *m = &memory->type;
  if (m->space != TS_SPACE_global || memory->stmt || m->dtype != s->out[0]->type.dtype ||
      writes(root_of(s->in_region), memory))
    return false;
  out->load = s;
  axes_of(s, out->axis);
  if (transposed) {
    int first = out->axis[0];
    out->axis[0] = out->axis[1], out->axis[1] = first;
  }
  if (!ts_tile_dpas_boxes(m, out->axis[0], out->axis[1], side, &out->along)) return false;
  int at = ts_gpu_divisor(s->in[1 + out->axis[out->along]], 0);
  return at * ts_dtypes[m->dtype].nbytes % START == 0;
}

/* 0: one is not; 1: there is none. */
static int all(const TsTileRegion *r) {
  TsGpuBox box;
  int found = 1;
  for (const TsTileStmt *s = r->first; s && found; s = s->next) {
    if (ts_tile_square_of(s))
      found = ts_gpu_box_of(s, 0, &box) && ts_gpu_box_of(s, 1, &box) ? 2 : 0;
    for (int i = 0; i < s->nregion && found; i++) {
      int inner = all(s->region[i]);
      if (inner != 1) found = inner;
    }
  }
  return found;
}

bool ts_gpu_boxes_all(const TsTileRegion *r) { return all(r) == 2; }

/* ---- sums in whole rows */
static bool is_computed(const TsTileStmt *product) {
  bool transposed;
  const TsTileStmt *s = product->in[0]->stmt;
  return s && s->op != TS_TILE_for && !load_of(product, 0, &transposed);
}

static bool reduces_rows(const TsTileStmt *s) {
  bool folds = s->op == TS_TILE_max || s->op == TS_TILE_min || s->op == TS_TILE_sum;
  return folds && s->in[0]->type.rank == 2 && ts_tile_attr(s, "axis")->i == 1;
}

static void look_rows(const TsTileRegion *r, bool *unit, bool *wanted) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    bool dpas = ts_tile_square_of(s) == TS_SQUARE_dpas;
    *unit |= dpas, *wanted |= (dpas && is_computed(s)) || reduces_rows(s);
    for (int i = 0; i < s->nregion; i++) look_rows(s->region[i], unit, wanted);
  }
}

bool ts_gpu_whole_rows(const TsTileRegion *r) {
  bool unit = false, wanted = false;
  look_rows(r, &unit, &wanted);
  return unit && wanted;
}

static bool some(const TsTileRegion *r) {
  TsGpuBox box;
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (ts_tile_square_of(s) && (ts_gpu_box_of(s, 0, &box) || ts_gpu_box_of(s, 1, &box)))
      return true;
    for (int i = 0; i < s->nregion; i++)
      if (some(s->region[i])) return true;
  }
  return false;
}

/* Phases are looked at each alone. */
bool ts_gpu_boxes_used(const TsTileRegion *body) {
  for (const TsTileStmt *s = body->first; s; s = s->next)
    for (int i = 0; i < s->nregion; i++)
      if (ts_gpu_whole_rows(s->region[i]) ? some(s->region[i]) : ts_gpu_boxes_all(s->region[i]))
        return true;
  return false;
}

/* ---- loads that nobody makes */
static bool used_else(const TsTileStmt *from, const TsTileValue *v) {
  TsGpuBox box;
  for (const TsTileStmt *s = from; s; s = s->next) {
    for (int i = 0; i < s->nin; i++) {
      if (s->in[i] != v) continue;
      bool turned = s->op == TS_TILE_transpose;
      if (turned ? used_else(s->next, s->out[0]) : i > 1 || !ts_gpu_box_of(s, i, &box))
        return true;
    }
    for (int i = 0; i < s->nregion; i++)
      if (used_else(s->region[i]->first, v)) return true;
  }
  return false;
}

bool ts_gpu_boxes_only(const TsTileStmt *load) { return !used_else(load->next, load->out[0]); }
