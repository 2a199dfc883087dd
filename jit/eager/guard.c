/* Indices that only a device has, looked at by the device. A kernel writes the first number
 * that is out of range, if there is one, into memory of the device; the host looks there before
 * it reads anything else, and raises the error of the operator then. Until that, what is read
 * at such an index is some element, and nothing is written there.
 *
 * Rejected: fetching the index before each launch (the host waits, and no function can be
 * replayed), and a flag that every kernel writes (each would have one parameter more). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/lower/index/index.h"
#include "ir/lower/short.h"
#include "jit/build/build.h"
#include "jit/eager/state.h"
#include "jit/launch/profile.h"
#include "vm/drive/index.h"

typedef TsTileVal V;

/* Guards that are told apart; parts of an index, which blocks look at; numbers of a part. */
enum { SLOTS = 8, PARTS = 512, NUMBERS = 3, PIECE = 1024 };

typedef struct TsGuards {
  int device, n;
  bool telling;
  TsTensor *found; /* [SLOTS, PARTS, NUMBERS]: place, number, the next one; place -1: none */
  TsGuard of[SLOTS];
  TsDeviceKernel *kernel[TS_DT_COUNT][2][3]; /* of the table of kernels, by what it looks at */
} TsGuards;

/* ---- the kernel */
typedef struct Look {
  TsDtype index;
  bool wraps;
  enum { LOOK_range, LOOK_loss, LOOK_offsets } kind;
} Look;

/* Numbers behind those at `at`; of the last one itself. */
static V following(TsTileBuild *b, V index, V at, V last) {
  V next = ts_tile_op2(b, TS_OP_minimum, ts_short_by(b, TS_OP_add, at, 1), last);
  return ts_tile_cast(b, ts_short_gather(b, index, next, true), TS_DT_i64);
}

/* The first is 0, the last the size, and none is greater than the next one. */
static V falls(TsTileBuild *b, V index, V at, V v) {
  if (!v || !at) return NULL;
  V one = ts_tile_index(b, 1), end = ts_tile_op2(b, TS_OP_sub, ts_short_dim(b, 0), one);
  V last = ts_short_splat(b, &at->type, end),
    size = ts_short_splat(b, &at->type, ts_short_dim(b, 2));
  V down = ts_tile_op2(b, TS_OP_lt, following(b, index, at, last), v);
  V begins = ts_tile_op2(b, TS_OP_logical_and, ts_short_by(b, TS_OP_eq, at, 0),
                         ts_short_by(b, TS_OP_ne, v, 0));
  V ends = ts_tile_op2(b, TS_OP_logical_and, ts_tile_op2(b, TS_OP_eq, at, last),
                       ts_tile_op2(b, TS_OP_ne, v, size));
  return ts_tile_op2(b, TS_OP_logical_or, down, ts_tile_op2(b, TS_OP_logical_or, begins, ends));
}

static V outside(TsTileBuild *b, const Look *k, V index, V place, V v) {
  if (!v) return NULL;
  if (k->kind == LOOK_offsets) return falls(b, index, place, v);
  V size = ts_short_splat(b, &v->type, ts_short_dim(b, 2)), at = v;
  V below = ts_short_by(b, TS_OP_lt, v, 0);
  if (k->wraps) at = ts_tile_op3(b, TS_OP_where, below, ts_tile_op2(b, TS_OP_add, v, size), v);
  V wrong = ts_tile_op1(b, TS_OP_logical_not, ts_tile_op2(b, TS_TILE_ult, at, size));
  V ignored = ts_short_splat(b, &v->type, ts_short_dim(b, 3));
  return k->kind == LOOK_loss
             ? ts_tile_op2(b, TS_OP_logical_and, wrong, ts_tile_op2(b, TS_OP_ne, v, ignored))
             : wrong;
}

/* The least place of what is outside among `each` numbers from `first` on; count: none. */
static V first_wrong(TsTileBuild *b, const Look *k, V index, V first) {
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE), own = ts_tile_vector(k->index, PIECE);
  TsTileAccess edge = {.edge = true};
  V count = ts_short_dim(b, 0), none = ts_short_splat(b, &t, count), least = NULL;
  TsTileLoop l =
      ts_tile_for(b, ts_tile_index(b, 0), ts_short_dim(b, 1), PIECE, false, 1, &none);
  if (!l.stmt) return NULL;
  V start = ts_tile_op2(b, TS_OP_add, first, l.i);
  V at = ts_tile_op2(b, TS_OP_add, ts_short_iota(b, &t, 0), ts_short_splat(b, &t, start));
  V v = ts_tile_cast(b, ts_tile_load(b, index, &start, &own, &edge), TS_DT_i64);
  V in = ts_tile_op2(b, TS_OP_lt, at, ts_short_splat(b, &t, count));
  V wrong = ts_tile_op2(b, TS_OP_logical_and, in, outside(b, k, index, at, v));
  at = ts_tile_op3(b, TS_OP_where, wrong, at, l.carry[0]);
  V next = ts_tile_op2(b, TS_OP_minimum, at, l.carry[0]);
  ts_tile_for_end(b, &l, &next, &least);
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  TsTileType one = ts_tile_scalar(TS_DT_i64);
  return least ? ts_tile_emit1(b, TS_TILE_min, 1, &least, &axis, &one) : NULL;
}

/* Sizes: count, numbers of a part, size of the axis, the number that is ignored. */
static TsTile *build(const Look *how) {
  static const char *const name[] = {"N", "each", "size", "ignored"};
  TsTile *k = ts_tile_new("indices");
  int64_t size[4];
  if (!k) return NULL;
  for (int i = 0; i < 4; i++) size[i] = ts_tile_size(k, name[i]);
  TsTileType ti = ts_tile_vector(how->index, size[0]);
  TsTileType tf = ts_tile_type(TS_DT_i64, 2, (int64_t[]){PARTS, NUMBERS});
  V index = ts_tile_param(k, "index", &ti, false), found = ts_tile_param(k, "found", &tf, true);
  TsTileBuild b = ts_tile_build(k);
  k->threads = 256, k->vector = 8;
  TsTileLoop l =
      ts_tile_for(&b, ts_tile_index(&b, 0), ts_tile_index(&b, PARTS), 1, true, 0, NULL);
  V first = ts_tile_op2(&b, TS_OP_mul, l.i, ts_short_dim(&b, 1));
  V place = first_wrong(&b, how, index, first), count = ts_short_dim(&b, 0);
  V some = ts_tile_cast(&b, ts_tile_op2(&b, TS_OP_lt, place, count), TS_DT_i64);
  TsTileLoop once = ts_tile_for(&b, ts_tile_index(&b, 0), some, 1, false, 0, NULL);
  TsTileType one = ts_tile_scalar(how->index);
  V value = ts_tile_cast(&b, ts_tile_load(&b, index, &place, &one, NULL), TS_DT_i64);
  V zero = ts_tile_index(&b, 0);
  ts_tile_store(&b, found, (V[]){l.i, zero}, place, NULL);
  ts_tile_store(&b, found, (V[]){l.i, ts_tile_index(&b, 1)}, value, NULL);
  if (how->kind == LOOK_offsets) {
    V end = ts_tile_op2(&b, TS_OP_sub, count, ts_tile_index(&b, 1));
    V next = ts_tile_op2(&b, TS_OP_add, place, ts_tile_index(&b, 1));
    next = ts_tile_op2(&b, TS_OP_minimum, next, end);
    value = ts_tile_cast(&b, ts_tile_load(&b, index, &next, &one, NULL), TS_DT_i64);
    ts_tile_store(&b, found, (V[]){l.i, ts_tile_index(&b, 2)}, value, NULL);
  }
  ts_tile_for_end(&b, &once, NULL, NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

/* ---- what was found */
static int forget(TsGuards *g) {
  int64_t *at = ts_tensor_write(g->found);
  if (at) memset(at, 0xff, SLOTS * PARTS * NUMBERS * sizeof *at);
  g->n = 0;
  return at ? 0 : -1;
}

static TsGuards *open(TsOffloader *o, int device) {
  TsGuards *g = o->guards[device];
  TsMeta m = {.dtype = TS_DT_i64, .ndim = 1, .device = (uint8_t)device};
  if (g) return g;
  if (!(g = calloc(1, sizeof *g))) return NULL;
  g->device = device;
  m.dim[0] = SLOTS * PARTS * NUMBERS;
  g->found = ts_tensor_new(o->c, &m);
  if (g->found && !forget(g)) return o->guards[device] = g;
  ts_tensor_unref(g->found);
  free(g);
  return NULL;
}

void ts_offload_guards_drop(TsOffloader *o) {
  for (int d = 0; d < TS_MAX_DEVICES; d++) {
    if (o->guards[d]) ts_tensor_unref(o->guards[d]->found);
    free(o->guards[d]);
    o->guards[d] = NULL;
  }
  o->launches.guarded = false;
}

/* The first wrong number of a slot. */
static const int64_t *wrong_of(const int64_t *found, int slot) {
  const int64_t *at = found + slot * PARTS * NUMBERS;
  for (int i = 0; i < PARTS; i++)
    if (at[i * NUMBERS] >= 0) return at + i * NUMBERS;
  return NULL;
}

/* What one device has found. */
static int tell(TsOffloader *o, TsGuards *g) {
  if (!g->n || g->telling) return 0;
  g->telling = true; /* what is read for it is told of later */
  const int64_t *found = ts_tensor_read(g->found), *wrong = NULL;
  TsGuard of = g->of[0];
  int64_t at[NUMBERS] = {0};
  for (int i = 0; found && i < g->n && !wrong; i++)
    if ((wrong = wrong_of(found, i))) of = g->of[i];
  if (wrong) memcpy(at, wrong, sizeof at);
  int failed = !found || (wrong && forget(g)) ? -1 : 0;
  g->telling = false;
  return failed || !wrong ? failed : ts_guard_wrong(&of, o->c, at[0], at[1], at[2]);
}

int ts_offload_guards_tell(TsOffloader *o) {
  int failed = 0;
  if (!o->launches.guarded) return 0;
  o->launches.guarded = false;
  for (int d = 0; d < TS_MAX_DEVICES && !failed; d++)
    if (o->guards[d]) failed = tell(o, o->guards[d]);
  o->launches.guarded = failed;
  o->c->waiting = o->launches.window.on || failed;
  return failed;
}

/* ---- looking */
static bool same(const TsGuard *x, const TsGuard *y) {
  return x->op == y->op && x->axis == y->axis && x->size == y->size &&
         x->ignored == y->ignored && x->x.dtype == y->x.dtype &&
         ts_meta_same_shape(&x->x, &y->x) && !strcmp(x->place, y->place) &&
         !strcmp(x->function, y->function);
}

/* A slot's number; -1 with the error, which may be that of a number that was wrong before. */
static int slot_of(TsOffloader *o, TsGuards *g, const TsGuard *guard) {
  for (int i = 0; i < g->n; i++)
    if (same(&g->of[i], guard)) return i;
  if (g->n == SLOTS && (ts_offload_guards_tell(o) || forget(g))) return -1;
  g->of[g->n] = *guard;
  return g->n++;
}

/* NULL: there is none, or it is compiled in the background and the CPU may look as well. */
static TsDeviceKernel *kernel_of(TsOffloader *o, TsGuards *g, const Look *how, TsOp op) {
  TsDeviceKernel **k = &g->kernel[how->index][how->wraps][how->kind];
  TsError err = {0};
  TsTile *t = *k && !o->shows ? NULL : build(how);
  if (t && o->shows)
    ts_build_kernel_text(ts_device_at(g->device), NULL, t, o->level, &o->shown, &err);
  if (t && !*k && !t->failed) *k = ts_offload_kernel(o, ts_device_at(g->device), t, &err);
  ts_tile_free(t);
  return *k && ts_offload_can(o, op, g->device, k) ? *k : NULL;
}

/* 1; 0: the CPU looks; -1. index: row-major. */
static int look(TsOffloader *o, TsGuards *g, int slot, TsTensor *index) {
  const TsGuard *guard = &g->of[slot];
  int64_t n = ts_tensor_numel(index), each = (n + PARTS - 1) / PARTS;
  int64_t bytes = (int64_t)PARTS * NUMBERS * 8;
  Look how = {ts_tensor_dtype(index), ts_guard_wraps(guard), LOOK_range};
  if (ts_guard_of_loss(guard)) how.kind = LOOK_loss;
  if (ts_guard_of_offsets(guard)) how.kind = LOOK_offsets;
  bool outermost = ts_offload_begin(o, (Meanwhile){.dst = index});
  TsDeviceKernel *k = kernel_of(o, g, &how, guard->op);
  ts_offload_end(o, outermost);
  if (!k) return 0;
  int64_t dim[4] = {n, (each + PIECE - 1) / PIECE * PIECE, guard->size, guard->ignored};
  void *arg[2] = {ts_tensor_read_on(index, g->device),
                  ts_tensor_write_on(g->found, g->device, false)};
  if (!arg[0] || !arg[1]) return -1;
  arg[1] = (char *)arg[1] + slot * bytes;
  ts_launch_touch(o->c, index, arg[0], false);
  ts_launch_touch_bytes(o->c, arg[1], bytes, true);
  if (ts_profile_on()) ts_profile_label("indices", (double)ts_meta_nbytes(&index->meta), 0);
  return ts_launch(o->c, k, 2, arg, 4, dim) ? -1 : 1;
}

/* Eager calls say where they stand: the error comes later. */
static TsGuard placed(TsContext *c, const TsGuard *guard) {
  TsGuard g = *guard;
  const char *place = c->where && !*g.function ? c->where(c->where_arg) : NULL;
  if (place) snprintf(g.place, sizeof g.place, "%s", place);
  return g;
}

int ts_offload_guard(TsContext *c, const TsGuard *guard, TsTensor *index) {
  TsOffloader *o = c->offloader;
  TsGuard own = placed(c, guard);
  if (!ts_tensor_numel(index) || !ts_index_takes(&index->meta) || !o->on) return 0;
  TsGuards *g = open(o, index->meta.device);
  TsTensor *lines = g ? ts_tensor_contiguous(c, index) : NULL;
  if (!lines) return g ? -1 : 0;
  int slot = slot_of(o, g, &own), done = slot < 0 ? -1 : look(o, g, slot, lines);
  ts_tensor_unref(lines);
  if (done == 1) o->launches.guarded = c->waiting = true;
  return done;
}
