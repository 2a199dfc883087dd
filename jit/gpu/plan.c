/* Threads, vectors, phases of a kernel. The numbers follow measurements on an H200: one vector
 * of 16 bytes a thread and operand for maps, 64 bytes a thread for rows. */
#include "jit/gpu/plan.h"

#include <string.h>

#include "ir/tile/find.h"
#include "jit/gpu/boxes.h"
#include "vm/kernels/rows/reduce.h"

enum {
  WARP = 32,
  MOST_THREADS = 1024,
  MAP_VECTOR = 4,   /* elements of 4 bytes */
  BLOCK = 64,       /* threads that a block has at least, if there are rounds for it */
  LANED = 512,      /* elements of a row above which threads have lanes */
  TRANSPOSED = 4,   /* vectors of a thread, where tiles are transposed */
  LARGE = 512,      /* threads where tiles are walked in loops */
  OWN = 64,         /* bytes of a tile in one thread, with reductions */
  LOOPED = 32,      /* with loops alone: what goes round them is a tile more each */
  LOADS = 4,        /* from so many on, that nothing waits for, a thread has room for all */
  LOADED = 64,      /* elements of all that are loaded, in a thread, at most */
  ROOM = 96,        /* registers, then; a transform of 64 numbers a thread would spill */
  HEAVY = 24,       /* operations on a tile, from which on a map computes much */
  RESIDENT = 65536, /* bytes of a tile that registers hold */
  PAIRED =
      4 * RESIDENT, /* with twice as many threads, each of which has twice as many of them */
  WARPS = 16,       /* of a row that is walked */
  MOST_LEAVES = 64, /* and leaves of it */
};

/* ---- what positions are multiples of */
static int low_bit(int64_t v) {
  int n = 1;
  while (n < 16 && v % (2 * n) == 0) n *= 2;
  return n;
}

int ts_gpu_divisor(const TsTileValue *v, int depth) {
  const TsTileStmt *s = v->stmt;
  if (depth > 12) return 1;
  if (v->region && v->region->owner && v->region->owner->op == TS_TILE_for && v->index == 0) {
    int lo = ts_gpu_divisor(v->region->owner->in[0], depth + 1);
    int step = low_bit(ts_tile_attr(v->region->owner, "step")->i);
    return lo < step ? lo : step;
  }
  if (!s) return 1;
  int a = s->nin > 0 ? ts_gpu_divisor(s->in[0], depth + 1) : 1;
  int b = s->nin > 1 ? ts_gpu_divisor(s->in[1], depth + 1) : 1;
  switch (s->op) {
  case TS_TILE_const: return low_bit((int64_t)ts_tile_attr(s, "value")->f);
  case TS_OP_mul: return a * b < 16 ? a * b : 16;
  case TS_OP_add:
  case TS_OP_sub:
  case TS_OP_mod:
  case TS_OP_minimum:
  case TS_OP_maximum: return a < b ? a : b;
  default: return 1;
  }
}

/* The static part of the stride of a memory's axis, which divides it. */
static int64_t stride_of(const TsTileType *m, int axis) {
  int64_t n = 1;
  if (m->strided) return m->stride[axis];
  for (int i = axis + 1; i < m->rank; i++) n *= ts_tile_dim_is(m->dim[i]) ? 1 : m->dim[i];
  return n;
}

static bool unit_stride(const TsTileType *m, int axis) {
  if (m->strided) return m->stride[axis] == 1;
  for (int i = axis + 1; i < m->rank; i++)
    if (m->dim[i] != 1) return false;
  return true;
}

/* Of a copy the memory that is read. */
static int copy_alignment(const TsTileStmt *s) {
  const TsTileType *m = &s->in[1]->type;
  int size = ts_dtypes[m->dtype].nbytes, w = size < 16 ? 16 / size : 1, n = m->rank;
  const TsTileVal *at = s->in + s->nin - n;
  if (n < 2 || !unit_stride(m, n - 1)) return 1;
  for (int a = 0; a < n; a++) {
    int64_t step = a == n - 1 ? ts_gpu_divisor(at[a], 0) : stride_of(m, a);
    while (w > 1 && step % w) w /= 2;
  }
  return w;
}

int ts_gpu_alignment(const TsTileStmt *s) {
  if (s->op == TS_TILE_copy_async) return copy_alignment(s);
  const TsTileType *m = &s->in[0]->type;
  const TsTileType *t = s->op == TS_TILE_load ? &s->out[0]->type : &s->in[s->nin - 1]->type;
  const TsAttr *axes = ts_tile_attr(s, "axes");
  int size = ts_dtypes[m->dtype].nbytes, w = size < 16 ? 16 / size : 1;
  bool within[TS_TILE_RANK] = {false};
  if (!t->rank) return 1;
  int last = m->rank - 1;
  for (int i = 0; i < t->rank; i++) {
    int a = axes->type == TS_ATTR_ints && axes->n ? (int)axes->ints[i] : m->rank - t->rank + i;
    within[a] = true;
    if (i == t->rank - 1) last = a;
  }
  if (!unit_stride(m, last)) return 1;
  for (int a = 0; a < m->rank; a++) {
    int64_t step = stride_of(m, a);
    int at = ts_gpu_divisor(s->in[1 + a], 0);
    if (a == last) step = 1;
    if (within[a] && a != last) at = 1;
    while (w > 1 && step * at % w) w /= 2;
  }
  return w;
}

/* ---- a phase */
typedef struct Look {
  int vector;
  int64_t most; /* bytes of the largest tile that fits */
  int64_t elems;
  bool transposes; /* tiles are transposed */
  bool gathers;    /* elements meet: reductions, products, loops */
  bool meets;      /* the first two of them */
  bool rare;       /* elements have branches */
  int loads;       /* of tiles */
  int work;        /* operations on tiles */
  int64_t row;     /* the longest one that floats are added up of, and their type */
  TsDtype of;
  bool large;   /* there is a tile that does not fit */
  int64_t walk; /* and it is a row of this length; -1: there are others */
  bool paired;  /* halves of the block take turns */
} Look;

static void look_large(Look *l, const TsTileType *t) {
  bool row = t->rank == 1 && !ts_tile_dim_is(t->dim[0]) && (!l->large || l->walk == t->dim[0]);
  l->large = true;
  l->walk = row ? t->dim[0] : -1;
}

static void look_tile(Look *l, const TsTileValue *v) {
  const TsTileType *t = &v->type;
  int64_t n = 1, size = ts_dtypes[t->dtype].nbytes;
  if (ts_tile_memory(t) || !t->rank) return;
  for (int i = 0; i < t->rank; i++) {
    if (ts_tile_dim_is(t->dim[i]) || (t->dim[i] && n > INT32_MAX / t->dim[i])) {
      look_large(l, t);
      return;
    }
    n *= t->dim[i];
  }
  if (size < 4) size = 4;
  if (n * size > (l->paired ? PAIRED : RESIDENT)) {
    look_large(l, t);
    return;
  }
  if (n * size > l->most) l->most = n * size;
  if (n > l->elems) l->elems = n;
}

static void look_row(Look *l, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type;
  bool sum = s->op == TS_TILE_sum || s->op == TS_TILE_prod;
  if (!sum || t->rank != 1 || ts_tile_dim_is(t->dim[0])) return;
  if (!ts_dtype_is((TsDtype)t->dtype, TS_KIND_F) || t->dim[0] <= l->row) return;
  l->row = t->dim[0], l->of = (TsDtype)t->dtype;
}

static void look(Look *l, const TsTileRegion *r) {
  for (int i = 0; i < r->nparam; i++) look_tile(l, r->param[i]);
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nout; i++) look_tile(l, s->out[i]);
    l->work += s->nout && s->out[0]->type.rank && s->op != TS_TILE_load;
    switch (s->op) {
    case TS_TILE_load:
    case TS_TILE_store:
    case TS_TILE_store_below: {
      int w = ts_gpu_alignment(s);
      if (w > 8) w = 8;
      if (w > l->vector) l->vector = w;
      l->loads += s->op == TS_TILE_load && s->out[0]->type.rank;
      break;
    }
    case TS_TILE_rare: l->rare = true; break;
    case TS_TILE_transpose: l->transposes |= s->out[0]->type.rank > 1; break;
    case TS_TILE_sum:
    case TS_TILE_prod: look_row(l, s); /* fallthrough */
    case TS_TILE_pairs:
    case TS_TILE_max:
    case TS_TILE_min:
    case TS_TILE_argmax:
    case TS_TILE_argmin:
    case TS_TILE_mma:
    case TS_TILE_outer: l->meets = true; /* fallthrough */
    case TS_TILE_for: l->gathers = true; break;
    default: break;
    }
    for (int i = 0; i < s->nregion; i++) look(l, s->region[i]);
  }
}

static int pow2_from(int64_t n, int least, int most) {
  int t = least;
  while (t < n && t < most) t *= 2;
  return t;
}

/* A row that is added up: each thread has whole lanes of a leaf, so that its chains need nobody
 * else. */
static void plan_lanes(TsGpuPhasePlan *p, const Look *l, int most_threads) {
  bool wide = l->of == TS_DT_f64;
  int v = p->vector, most = wide ? 2 : 4;
  if (l->row <= LANED || l->row != l->elems || l->large) return;
  if (v > most) v = most;
  while (l->row % v) v /= 2;
  p->lanes = wide ? TS_RED_LANES_f64 : TS_RED_LANES_f32;
  p->each = p->lanes / v;
  int64_t threads = p->each * ((l->row + TS_RED_LEAF - 1) / TS_RED_LEAF);
  if (threads > most_threads) return;
  p->row = l->row, p->vector = v, p->threads = (int)threads;
}

/* A row that is walked: leaves for all warps alike. */
static void plan_walk(TsGpuPhasePlan *p, const Look *l) {
  int64_t leaves = (l->walk + TS_RED_LEAF - 1) / TS_RED_LEAF;
  if (!l->large || l->walk <= 0 || l->walk % 8 || leaves > MOST_LEAVES) return;
  int64_t times = (leaves + WARPS - 1) / WARPS;
  p->walk = l->walk;
  p->threads = (int)(WARP * ((leaves + times - 1) / times));
}

/* A loop that is all that stands in another but for numbers is a further axis of the grid. */
static const TsTileStmt *inner_axis(const TsTileStmt *loop) {
  const TsTileStmt *found = NULL;
  for (const TsTileStmt *s = loop->region[0]->first; s; s = s->next) {
    if (s->op == TS_TILE_yield) continue;
    if (found) return NULL;
    if (s->op == TS_TILE_for && ts_tile_attr(s, "parallel")->i)
      found = s;
    else if (s->nregion || s->nout != 1 || s->out[0]->type.rank ||
             ts_tile_memory(&s->out[0]->type) || s->op == TS_TILE_load)
      return NULL;
  }
  return found;
}

/* What the head of a kernel says is no choice of ours. Of vectors first: lanes follow them. */
static void obey_vector(TsGpuPhasePlan *p, const TsTile *k, const Look *l) {
  int64_t wide = l->elems ? l->most / l->elems : 4;
  while (k->vector && p->vector > 1 && p->vector * wide > k->vector) p->vector /= 2;
}

static void obey_threads(TsGpuPhasePlan *p, const TsTile *k) {
  if (!k->threads) return;
  p->threads = k->threads;
  p->row = p->walk = 0;
}

/* Threads of a warp meet without those of others; they do as well where a CPU stands for the GPU. */
static bool has_warps(const TsTarget *t) { return !ts_target_gpu(t) || t->lanes >= WARP; }

/* Where a vector has to wait for its own long chain of operations, a thread has two of them under
 * way, or four half ones of three operands and more: f32 bias, gelu, product and sum of 8192 x
 * 8192 take 223 us with one vector, 210 and 204 with those. */
static bool computes(const TsGpuPhasePlan *p, const Look *l, int64_t wide) {
  return !l->gathers && !l->transposes && wide == 4 && p->vector == MAP_VECTOR &&
         l->work >= HEAVY;
}

static void plan_phase(TsGpuPhasePlan *p, const TsTile *k, const TsTarget *t,
                       const TsTileStmt *loop, bool aligned) {
  Look l = {.vector = 1};
  int most = t->threads ? t->threads : MOST_THREADS;
  *p = (TsGpuPhasePlan){.loop = loop};
  for (const TsTileStmt *s = loop; s && p->nloop < 4 && ts_tile_attr(s, "parallel")->i;
       s = inner_axis(s))
    p->axis[p->nloop++] = s;
  l.paired = p->paired = ts_tile_find(loop->region[0], TS_TILE_turn) != NULL;
  look(&l, (p->nloop ? p->axis[p->nloop - 1] : loop)->region[0]);
  p->vector = aligned ? l.vector : 1;
  obey_vector(p, k, &l);
  int64_t each = p->vector, wide = l.elems ? l.most / l.elems : 4;
  if (l.gathers) each = (l.meets ? OWN : LOOPED) / (wide > 4 ? wide : 4);
  if (each < p->vector) each = p->vector;
  if (l.transposes && !l.gathers) each = TRANSPOSED * p->vector;
  if (computes(p, &l, wide)) {
    if (l.loads > 2) p->vector /= 2;
    each = 2 * MAP_VECTOR;
  }
  int64_t want = (l.elems + each - 1) / each;
  p->threads = pow2_from(want, WARP, most);
  if (l.large && p->threads < LARGE) p->threads = LARGE;
  plan_lanes(p, &l, most);
  plan_walk(p, &l);
  obey_threads(p, k);
  p->rounds = p->threads < BLOCK && p->nloop && has_warps(t) ? BLOCK / p->threads : 1;
  p->most = l.elems;
  bool fit = l.loads * l.elems <= (int64_t)LOADED * p->threads;
  if (l.loads >= LOADS && fit && !l.meets && !l.rare) p->registers = ROOM;
  bool rows = t->matrix == TS_MATRIX_dpas && ts_gpu_whole_rows(loop->region[0]);
  if (rows && l.elems >= (int64_t)TS_GPU_ELEMS * p->threads) p->registers = TS_GPU_LARGE;
}

int ts_gpu_plan(const TsTile *k, const TsTarget *t, bool aligned, TsGpuPlan *plan,
                TsError *err) {
  *plan = (TsGpuPlan){0};
  for (const TsTileStmt *s = k->body->first; s; s = s->next) {
    if (s->op != TS_TILE_for) continue;
    if (plan->nphase == TS_GPU_PHASES)
      return ts_error_set(err, TS_ERR_device, "jit: @%.40s has more than %d phases", k->name,
                          TS_GPU_PHASES),
             ts_error_hint(
                 err, "each loop over the grid is a phase: join some, or make several kernels");
    plan_phase(&plan->phase[plan->nphase++], k, t, s, aligned);
    if (t->threads && plan->phase[plan->nphase - 1].threads > t->threads)
      return ts_error_set(err, TS_ERR_device,
                          "jit: a block of %s has %d threads at most, not %d", t->name,
                          t->threads, plan->phase[plan->nphase - 1].threads);
  }
  return 0;
}
