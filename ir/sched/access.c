/* Operands of a group in memory: along which of the group's axes they move, parameters of the
 * kernel for them, tiles of a round. */
#include <stdio.h>
#include <string.h>

#include "ir/sched/lower.h"

enum { STREAM = 12 << 20 }; /* bytes of a result that goes past the caches */

int ts_lower_refuse(TsLower *l, const char *why) {
  return ts_error_set(l->err, TS_ERR_value, "%s", why);
}

static bool weak(TsVal v) { return v->node->op == TS_NODE_number; }

bool ts_access_inside(const TsLower *l, TsVal v) {
  return l->s->of[ts_sched_root(v)->node->id] == l->g->index;
}

bool ts_access_full(const TsLower *l, const TsMeta *m) {
  return ts_sched_extent(l->g, m) == TS_EXTENT_full;
}

bool ts_access_again(const TsLower *l, const TsNode *n) {
  if (!ts_access_full(l, ts_sched_at(n))) return false;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && n->in[i]->node->op != TS_NODE_number && ts_access_inside(l, n->in[i]) &&
        !ts_access_full(l, &n->in[i]->meta))
      return true;
  return false;
}

static TsSpaceAxes axes_of(const TsLower *l) {
  TsSpaceAxes a = {.naxis = l->g->naxis, .nrow = l->g->nrow};
  a.columns = l->g->kind == TS_GROUP_columns; /* whatever a round of it has */
  memcpy(a.axis, l->g->axis, sizeof a.axis);
  return a;
}

static int moves_of(TsLower *l, const TsMeta *at, TsVal v, int64_t *moves) {
  TsSpaceAxes a = axes_of(l);
  int64_t stride[TS_MAX_RANK];
  ts_sched_strides(l->layout, l->arg, v, stride);
  if (ts_space_strides(&a, at, &v->meta, stride, moves)) return 0;
  return ts_lower_refuse(l, "the axes of an operand do not divide those of the group");
}

static TsAccess *find_access(TsLower *l, TsVal v, const int64_t *moves) {
  for (int i = 0; i < l->naccess; i++)
    if (!l->access[i].written && l->access[i].v == v &&
        !memcmp(l->access[i].from, moves, sizeof *moves * (size_t)l->g->naxis))
      return &l->access[i];
  return NULL;
}

static int add_access(TsLower *l, TsVal v, const int64_t *moves, bool written) {
  if (!written && find_access(l, v, moves)) return 0;
  if (l->naccess == TS_SCHED_PARAMS)
    return ts_lower_refuse(l, "more operands than a kernel takes");
  TsAccess *a = &l->access[l->naccess++];
  *a = (TsAccess){.v = v, .written = written};
  memcpy(a->from, moves, sizeof *moves * (size_t)l->g->naxis);
  return 0;
}

static int find_reads(TsLower *l) {
  int64_t moves[TS_TILE_RANK];
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    for (int i = 0; i < n->nin; i++) {
      TsVal v = n->in[i];
      if (!v || weak(v) || ts_access_inside(l, v)) continue;
      if (moves_of(l, ts_sched_operand_at(n, v), v, moves) || add_access(l, v, moves, false))
        return -1;
    }
  }
  return 0;
}

static int find_writes(TsLower *l) {
  int64_t moves[TS_TILE_RANK];
  TsSpaceAxes a = axes_of(l);
  for (int i = 0; i < l->g->nout; i++) {
    TsVal v = l->g->out[i];
    int64_t stride[TS_MAX_RANK];
    ts_space_own(&a, ts_access_full(l, &v->meta), moves);
    if (ts_sched_extent(l->g, &v->meta) == TS_EXTENT_number)
      memset(moves, 0, sizeof moves);
    else if (l->layout && l->layout(l->arg, v, stride) &&
             !ts_space_strides(&a, &v->meta, &v->meta, stride, moves))
      return ts_lower_refuse(l, "the axes of a result do not divide those of the group");
    if (add_access(l, v, moves, true)) return -1;
  }
  return 0;
}

/* ---- axes */
static bool merges(const TsLower *l, int i) {
  for (int k = 0; k < l->naccess; k++)
    if (l->access[k].from[i] != l->access[k].from[i + 1] * l->g->axis[i + 1]) return false;
  return true;
}

static int count_rows(TsLower *l, int boundary) {
  int64_t row = 1, product = 1;
  int nrow = 0, n = l->space.naxis;
  for (int i = boundary; i < l->g->naxis; i++) row *= l->g->axis[i];
  for (int i = n; i-- > 0 && product < row;) product *= l->space.axis[i], nrow++;
  l->space.nrow = nrow;
  if (l->columns)
    return n - nrow == 1 ? 0 : ts_lower_refuse(l, "the axes of a column do not lie evenly");
  return nrow > 1
             ? ts_lower_refuse(l, "the axes of a row are not one after the other in memory")
             : 0;
}

static int merge_axes(TsLower *l) {
  const TsGroup *g = l->g;
  int n = 0, boundary = g->naxis - g->nrow;
  int64_t moves[TS_SCHED_PARAMS][TS_TILE_RANK];
  for (int i = 0; i < g->naxis; i++) {
    bool joins = n > 0 && i != boundary && merges(l, i - 1);
    if (joins) n--;
    l->space.axis[n] = joins ? l->space.axis[n] * g->axis[i] : g->axis[i];
    for (int k = 0; k < l->naccess; k++) moves[k][n] = l->access[k].from[i];
    n++;
  }
  if (n == 0) { /* one number */
    l->space.axis[n++] = 1;
    for (int k = 0; k < l->naccess; k++) moves[k][0] = 0;
  }
  for (int k = 0; k < l->naccess; k++) memcpy(l->access[k].moves, moves[k], sizeof moves[k]);
  l->space.naxis = n;
  l->row = g->nrow > 0 && !l->columns;
  return count_rows(l, boundary);
}

int ts_access_find(TsLower *l) {
  return find_reads(l) || find_writes(l) || merge_axes(l) ? -1 : 0;
}

/* ---- parameters */
static bool moves_along(const TsAccess *a, int axis) { return a->moves[axis] != 0; }

/* A group of rows without an axis before has one row; columns are of one length, and so are
 * rows that are counted. */
bool ts_access_symbolic(const TsLower *l, int axis) {
  if (axis || l->g->kind == TS_GROUP_columns || l->one_size) return false;
  return !(l->row && l->space.naxis == 1);
}

static TsTileType param_type(const TsLower *l, const TsAccess *a, int64_t size) {
  TsTileType t = {.dtype = a->v->meta.dtype};
  int64_t step = 1;
  for (int i = 0; i < l->space.naxis; i++) {
    if (!moves_along(a, i)) continue;
    t.dim[t.rank] = ts_access_symbolic(l, i) ? size : l->space.axis[i];
    t.stride[t.rank++] = a->moves[i];
  }
  for (int i = t.rank, axis = l->space.naxis; i-- > 0;) {
    if (t.stride[i] != step) t.strided = true;
    while (!moves_along(a, --axis)) {
    }
    step *= l->space.axis[axis];
  }
  if (!t.strided) memset(t.stride, 0, sizeof t.stride);
  return t;
}

void ts_access_params(TsLower *l) {
  bool any = ts_access_symbolic(l, 0);
  int64_t size = any ? ts_tile_size(l->k, l->space.naxis == 1 ? "N" : "M") : 0;
  for (int pass = 0, count = 0; pass < 2; pass++)
    for (int i = 0; i < l->naccess; i++) {
      TsAccess *a = &l->access[i];
      if (a->written != (pass == 1)) continue;
      char name[16];
      snprintf(name, sizeof name, pass ? "y%d" : "x%d", pass ? count++ : i);
      TsTileType t = param_type(l, a, size);
      a->param = ts_tile_param(l->k, a->v->name ? a->v->name : name, &t, a->written);
    }
}

TsAccess *ts_access_of(TsLower *l, const TsNode *n, TsVal v) {
  int64_t moves[TS_TILE_RANK];
  return moves_of(l, ts_sched_operand_at(n, v), v, moves) ? NULL : find_access(l, v, moves);
}

/* ---- tiles of a round */
/* The place of a tile in memory, whose axes are those along which the operand moves. */
typedef struct Place {
  TsTileVal at[TS_TILE_RANK];
  int64_t axes[2], dim[2];
  int rank; /* of the tile */
  TsTileAccess how;
} Place;

/* A part of a whole counts as that, between whose first and last row it lies. GPUs take no such
 * hint: it would make two kernels of one. */
static bool streams(const TsLower *l, const TsAccess *a) {
  int chosen = l->g->choice.stream;
  int64_t span = 1;
  if (ts_target_gpu(l->s->target)) return false;
  for (int i = 0; i < l->space.naxis; i++) span += (l->space.axis[i] - 1) * a->moves[i];
  return chosen ? chosen == 2 : span * ts_dtypes[a->v->meta.dtype].nbytes >= STREAM;
}

static void place_of(const TsLower *l, const TsAccess *a, Place *p) {
  int last = l->space.naxis - 1, n = 0;
  bool ends = ts_access_symbolic(l, last) || l->space.axis[last] % l->n;
  *p = (Place){.rank = 0};
  for (int i = 0; i <= last; i++) {
    if (!moves_along(a, i)) continue;
    bool tiled = i == last || i == l->across;
    if (tiled) p->axes[p->rank] = n, p->dim[p->rank++] = i == last ? l->n : l->m;
    p->at[n++] = l->at[i];
  }
  p->how.edge = moves_along(a, last) && !l->row && ends;
  if (l->across > 0 || (l->across == 0 && !l->columns)) /* all of a column is in its tile */
    p->how.edge |= moves_along(a, l->across) &&
                   (ts_access_symbolic(l, l->across) || l->space.axis[l->across] % l->m);
  p->how.stream = a->written && streams(l, a);
  if (p->rank && p->axes[0] != n - p->rank) p->how.naxis = p->rank;
}

/* The tile as it lies in memory, then the other way round. */
static TsTileVal load_transposed(TsLower *l, TsAccess *a, Place *p) {
  TsDtype d = (TsDtype)a->v->meta.dtype;
  TsTileType there = ts_tile_type(d, 2, (int64_t[]){p->dim[1], p->dim[0]});
  p->how.naxis = 2, p->how.axes = (int64_t[]){p->axes[1], p->axes[0]};
  return ts_tile_transposed(&l->b, ts_tile_load(&l->b, a->param, p->at, &there, &p->how));
}

TsTileVal ts_access_load(TsLower *l, TsAccess *a) {
  Place p;
  if (a->tile) return a->tile;
  place_of(l, a, &p);
  p.how.axes = p.axes;
  bool transposed = l->transposed && p.rank == 2 && a->moves[l->across] == 1 &&
                    a->moves[l->space.naxis - 1] != 1;
  if (transposed) return a->tile = load_transposed(l, a, &p);
  TsTileType t = ts_tile_type((TsDtype)a->v->meta.dtype, p.rank, p.dim);
  TsTileVal x = ts_tile_load(&l->b, a->param, p.at, &t, &p.how);
  if (l->across >= 0 && p.rank == 1 && moves_along(a, l->across)) { /* one for each row */
    t = ts_nodes_type(l, (TsDtype)t.dtype, 2);
    x = ts_tile_broadcast(&l->b, x, &t, (int64_t[]){0});
  }
  return a->tile = x;
}

void ts_access_store(TsLower *l, TsAccess *a, TsTileVal x) {
  Place p;
  place_of(l, a, &p);
  p.how.axes = p.axes;
  ts_tile_store(&l->b, a->param, p.at, ts_nodes_spread(l, x, p.rank), &p.how);
}
