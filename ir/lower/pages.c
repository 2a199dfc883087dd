/* Attention over pages on a device.
 *
 * One query a text, of 16 bits, has a kernel that fetches pages where they lie
 * (ir/tile/gpu/decode.h). All else is done in steps: keys and values are brought together, as
 * numbers of q's type, with zeros where no query looks; then it is attention with a mask. That
 * is the definition, so bits are those of attention of keys side by side. */
#include <math.h>
#include <string.h>

#include "ir/graph/graph.h"
#include "ir/lower/short.h"
#include "ir/lower/steps.h"
#include "ir/sched/attention.h"
#include "ir/tile/gpu/decode.h"

typedef TsTileVal V;

enum { Q, K, VALUES, TABLE, START, SINK, K_SCALE, V_SCALE, INPUTS };
enum { WINDOW, SCALE };
enum { PIECE = 1024 };

typedef struct Pages {
  const TsNode *n;
  const TsMeta *in[INPUTS]; /* NULL: absent */
  TsDtype d;
  int64_t batch, heads, key_heads, queries, count, size, keys, all; /* of the table; of pages */
  int64_t window;
  double scale;
} Pages;

static Pages read_node(const TsNode *n) {
  Pages p = {.n = n};
  for (int i = 0; i < n->nin && i < INPUTS; i++)
    if (n->in[i]) p.in[i] = &n->in[i]->meta;
  const int64_t *q = p.in[Q]->dim, *k = p.in[K]->dim;
  p.d = (TsDtype)p.in[Q]->dtype;
  p.batch = q[0], p.heads = q[1], p.queries = q[2];
  p.key_heads = k[0], p.all = k[1], p.size = k[2];
  p.count = p.in[TABLE]->dim[1], p.keys = p.count * p.size;
  p.window = ts_sched_window(&n->attr[WINDOW], p.keys);
  p.scale =
      n->attr[SCALE].type == TS_ATTR_f ? n->attr[SCALE].f : 1 / sqrt((double)(q[3] ? q[3] : 1));
  return p;
}

/* ---- where pages lie */
static bool good_size(int64_t n) {
  return n < TS_GPU_DECODE_KEYS ? n >= 16 && TS_GPU_DECODE_KEYS % n == 0
                                : n % TS_GPU_DECODE_KEYS == 0 && n <= 1 << 16;
}

static _Atomic bool in_place = true; /* builds ask beside the thread that says so */

bool ts_lower_pages_in_place(int on) {
  bool was = in_place;
  if (on >= 0) in_place = on;
  return was;
}

static double work_of(const Pages *p) {
  return (double)(p->batch * p->heads * p->keys * p->in[Q]->dim[3]);
}

/* Of operands alone. */
static const char *not_taken(const Pages *p) {
  int64_t d = p->in[Q]->dim[3], each = p->heads / p->key_heads;
  if (p->d != TS_DT_bf16 && p->d != TS_DT_f16) return "its numbers have no 16 bits";
  if (p->in[K]->dtype != p->d || p->in[VALUES]->dtype != p->d || p->in[K_SCALE] ||
      p->in[V_SCALE])
    return "pages are of another type than queries";
  if (p->queries != 1) return "there is more than one query a text";
  if ((d != 64 && d != 128) || p->in[VALUES]->dim[3] != d)
    return "heads are not of 64 or 128 numbers";
  if (each > TS_GPU_DECODE_ROWS) return "more than 64 heads share keys";
  if (!good_size(p->size)) return "pages are not of 16, 32, 64 or multiples of 128 positions";
  if (p->all * p->size >= INT32_MAX || p->keys >= INT32_MAX || p->window > INT32_MAX / 2)
    return "positions have more than 31 bits";
  return p->scale > 0 ? NULL : "its scale is not above 0";
}

/* Why pages are brought together; NULL: the kernel reads them in place. */
static const char *together_as(const TsSched *s, const Pages *p) {
  const char *why = not_taken(p);
  if (!ts_target_has(s->target, TS_UNIT_roles)) return "the target has no copy engine";
  if (why) return why;
  if (s->profile == TS_PROFILE_strict) return "sums are those of the CPU in profile strict";
  if (s->plain) return "this kernel is the one that is compiled soonest";
  if (!ts_lower_roles(s, work_of(p))) return "no device is known that would do so much";
  return in_place ? NULL : "tessera.jit.pages is off";
}

const char *ts_lower_pages_together(const TsSched *s, const TsGroup *g) {
  Pages p = read_node(g->node[0]);
  return together_as(s, &p);
}

/* The kernel over pages; NULL with the error. dim: its sizes. */
static TsTile *kernel(const Pages *p, int64_t nsm, int stages, int64_t *dim, int *has,
                      TsError *err) {
  int64_t j = p->batch * p->key_heads, each = p->heads / p->key_heads;
  int64_t chunk = TS_GPU_DECODE_CHUNK;
  if (nsm > TS_GPU_DECODE_BLOCKS) nsm = TS_GPU_DECODE_BLOCKS;
  TsGpuDecode x = {.queries = 1, .window = p->window, .last = true};
  int64_t chunks = ts_gpu_decode_chunks(&x, j, p->keys, chunk);
  TsGpuDecodeSplits splits = ts_gpu_decode_splits(&x, j, p->keys, chunk, nsm);
  x = ts_gpu_decode(p->d, (int)p->in[Q]->dim[3], (int)each, chunks);
  x.causal = x.last = true, x.window = p->window, x.sink = p->in[SINK] != NULL;
  x.scale = p->scale;
  x.pages = (TsGpuPages){(int)p->size, p->key_heads, p->all * p->size, p->count};
  if (stages > 1 && stages < x.stages) x.stages = stages;
  *has = x.stages;
  int64_t blocks = splits.all < nsm ? splits.all : nsm;
  int64_t all[9] = {j,        each,     p->keys, chunk, splits.n, splits.longs,
                    p->heads, p->batch, blocks};
  memcpy(dim, all, sizeof all);
  return ts_tile_gpu_decode(&x, err);
}

static int where_they_lie(TsSteps *x, const Pages *p, int64_t nsm, int stages, int *has) {
  int64_t dim[TS_TILE_DIMS] = {0};
  int arg[7] = {ts_steps_in(x, Q, NULL), ts_steps_in(x, K, NULL), ts_steps_in(x, VALUES, NULL),
                ts_steps_in_as(x, TABLE, NULL, TS_DT_i64),
                ts_steps_in_as(x, START, NULL, TS_DT_i64)};
  int n = 5;
  if (p->in[SINK]) arg[n++] = ts_steps_in_as(x, SINK, NULL, TS_DT_f32);
  arg[n] = ts_steps_out(x, 0, NULL);
  ts_steps_add(x, kernel(p, nsm, stages, dim, has, x->err), arg, dim);
  return 0;
}

/* ---- together */
/* Element e of [B,Hk,T,D] as batch, key head, key, column. */
typedef struct Place {
  V batch, head, key, column;
} Place;

static V by(TsTileBuild *b, int op, V x, int64_t n) { return ts_short_by(b, op, x, n); }
static V op2(TsTileBuild *b, int op, V x, V y) { return ts_tile_op2(b, op, x, y); }

static Place place_of(TsTileBuild *b, const Pages *p, int64_t d, V e) {
  Place at;
  at.column = by(b, TS_OP_mod, e, d);
  V rest = by(b, TS_OP_floordiv, e, d);
  at.key = by(b, TS_OP_mod, rest, p->keys);
  rest = by(b, TS_OP_floordiv, rest, p->keys);
  at.head = by(b, TS_OP_mod, rest, p->key_heads);
  at.batch = by(b, TS_OP_floordiv, rest, p->key_heads);
  return at;
}

/* Which keys some query of the text sees. */
static V is_read(TsTileBuild *b, const Pages *p, V key, V first) {
  V is = op2(b, TS_OP_lt, key, by(b, TS_OP_add, first, p->queries));
  if (!p->window) return is;
  return op2(b, TS_OP_logical_and, is,
             op2(b, TS_OP_gt, key, by(b, TS_OP_sub, first, p->window)));
}

static V row_at(TsTileBuild *b, const Pages *p, const Place *at, V table, V inside) {
  V none = ts_short_int(b, &at->key->type, -1);
  V index = op2(b, TS_OP_add, by(b, TS_OP_mul, at->batch, p->count),
                by(b, TS_OP_floordiv, at->key, p->size));
  V page = ts_short_gather(b, table, ts_tile_op3(b, TS_OP_where, inside, index, none), true);
  page = ts_tile_op3(b, TS_OP_where, by(b, TS_OP_lt, page, 0), by(b, TS_OP_add, page, p->all),
                     page);
  V row = op2(b, TS_OP_add, by(b, TS_OP_mul, at->head, p->all), page);
  row = op2(b, TS_OP_add, by(b, TS_OP_mul, row, p->size), by(b, TS_OP_mod, at->key, p->size));
  return ts_tile_op3(b, TS_OP_where, inside, row, none);
}

/* @pages(pool, table, start, scale?) -> y, all of them lines. What lies nowhere is read as
 * 0. */
static TsTile *build_together(const Pages *p, int which) {
  const TsMeta *m = p->in[which], *scale = p->in[which - K + K_SCALE];
  TsTile *k = ts_tile_new("pages");
  if (!k) return NULL;
  int64_t d = m->dim[3], rows = p->key_heads * p->all * p->size;
  int64_t n = p->batch * p->key_heads * p->keys * d;
  bool moves = (TsDtype)m->dtype == p->d && !scale;
  TsDtype of = moves ? ts_short_bits(p->d) : (TsDtype)m->dtype;
  V pool = ts_short_param(k, "pool", of, rows * d, false);
  V table = ts_short_param(k, "table", TS_DT_i64, p->batch * p->count, false);
  V start = ts_short_param(k, "start", TS_DT_i64, p->batch, false);
  V scales = scale ? ts_short_param(k, "scale", TS_DT_f32, rows, false) : NULL;
  V y = ts_short_param(k, "y", moves ? of : p->d, n, true);
  TsTileBuild build = ts_tile_build(k), *b = &build;
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE);
  TsTileAccess edge = {.edge = true};
  k->threads = PIECE / 4, k->vector = 8;
  TsTileLoop l = ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, n), PIECE, true, 0, NULL);
  V e = ts_short_positions(b, &t, l.i), inside = by(b, TS_TILE_ult, e, n);
  Place at = place_of(b, p, d, e);
  V none = ts_short_int(b, &t, -1);
  V text = ts_tile_op3(b, TS_OP_where, inside, at.batch, none);
  V is = op2(b, TS_OP_logical_and, inside,
             is_read(b, p, at.key, ts_short_gather(b, start, text, true)));
  V row = row_at(b, p, &at, table, is);
  V from = op2(b, TS_OP_add, by(b, TS_OP_mul, row, d), at.column);
  V x = ts_short_gather(b, pool, ts_tile_op3(b, TS_OP_where, is, from, none), true);
  if (scales) {
    V s = ts_short_gather(b, scales, row, true);
    x = op2(b, TS_OP_mul, ts_tile_cast(b, x, TS_DT_f32), s);
  }
  if (x && !moves) x = ts_tile_cast(b, x, p->d);
  ts_tile_store(b, y, &l.i, x, &edge);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* @seen(start) -> y: which keys each query sees, [B,1,S,T] as a line. */
static TsTile *build_seen(const Pages *p) {
  TsTile *k = ts_tile_new("seen");
  if (!k) return NULL;
  int64_t n = p->batch * p->queries * p->keys;
  V start = ts_short_param(k, "start", TS_DT_i64, p->batch, false);
  V y = ts_short_param(k, "y", TS_DT_bool, n, true);
  TsTileBuild build = ts_tile_build(k), *b = &build;
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE);
  TsTileAccess edge = {.edge = true};
  k->threads = PIECE / 4, k->vector = 8;
  TsTileLoop l = ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, n), PIECE, true, 0, NULL);
  V e = ts_short_positions(b, &t, l.i), none = ts_short_int(b, &t, -1);
  V key = by(b, TS_OP_mod, e, p->keys), rest = by(b, TS_OP_floordiv, e, p->keys);
  V text = by(b, TS_OP_floordiv, rest, p->queries);
  text = ts_tile_op3(b, TS_OP_where, by(b, TS_TILE_ult, e, n), text, none);
  V row = op2(b, TS_OP_add, ts_short_gather(b, start, text, true),
              by(b, TS_OP_mod, rest, p->queries));
  V is = op2(b, TS_OP_le, key, row);
  if (p->window)
    is = op2(b, TS_OP_logical_and, is, op2(b, TS_OP_gt, key, by(b, TS_OP_sub, row, p->window)));
  ts_tile_store(b, y, &l.i, is, &edge);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* ---- attention of what is together, by itself in a graph */
typedef struct Whole {
  TsGraph *g;
  TsSched *s;
  TsVal in[5], y;
} Whole;

static TsVal operand(TsGraph *g, TsDtype d, int n, const int64_t *dim) {
  TsMeta m = {.dtype = (uint8_t)d, .ndim = (uint8_t)n};
  memcpy(m.dim, dim, sizeof *dim * (size_t)n);
  return ts_graph_param(g, &m, NULL, NULL);
}

static bool make(Whole *w, const Pages *p, const TsSched *s, TsError *err) {
  const int64_t *q = p->in[Q]->dim;
  int64_t kv[4] = {p->batch, p->key_heads, p->keys, q[3]},
          see[4] = {p->batch, 1, q[2], p->keys};
  if (!(w->g = ts_graph_new("pages", err))) return false;
  w->g->apart = true;
  w->in[0] = operand(w->g, p->d, 4, q), w->in[1] = operand(w->g, p->d, 4, kv);
  kv[3] = p->in[VALUES]->dim[3];
  w->in[2] = operand(w->g, p->d, 4, kv), w->in[3] = operand(w->g, TS_DT_bool, 4, see);
  TsDtype sum = p->d == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32;
  if (p->in[SINK]) w->in[4] = operand(w->g, sum, 1, q + 1);
  TsAttr attr[TS_MAX_ATTR];
  ts_op_defaults(TS_OP_attention, attr);
  attr[2] = (TsAttr){.type = TS_ATTR_f, .f = p->scale};
  int nout = 0;
  for (int i = 0; i < (p->in[SINK] ? 5 : 4); i++)
    if (!w->in[i]) return false;
  if (!ts_graph_emit(w->g, TS_OP_attention, p->in[SINK] ? 5 : 4, w->in, attr, &w->y, &nout) ||
      ts_graph_results(w->g, 1, &w->y))
    return false;
  return (w->s = ts_steps_schedule(s, w->g, err)) != NULL;
}

/* Steps behind each other, of which attention is the last. */
static bool put(TsSteps *x, const Pages *p, const Whole *w, TsSchedKernel *k) {
  int arg[6], at[5] = {ts_steps_in(x, Q, NULL)};
  int table = ts_steps_in_as(x, TABLE, NULL, TS_DT_i64);
  int start = ts_steps_in_as(x, START, NULL, TS_DT_i64);
  for (int i = K; i <= VALUES; i++) {
    int scale = i - K + K_SCALE;
    int64_t n = p->batch * p->key_heads * p->keys * p->in[i]->dim[3];
    at[i] = ts_steps_temp(x, n * ts_dtypes[p->d].nbytes);
    int from[5] = {ts_steps_in(x, i, NULL), table, start}, count = 3;
    if (p->in[scale]) from[count++] = ts_steps_in(x, scale, NULL);
    from[count] = at[i];
    ts_steps_add(x, build_together(p, i), from, NULL);
  }
  at[3] = ts_steps_temp(x, p->batch * p->queries * p->keys);
  ts_steps_add(x, build_seen(p), (int[]){start, at[3]}, NULL);
  TsDtype sum = p->d == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32;
  if (p->in[SINK]) at[4] = ts_steps_in_as(x, SINK, NULL, sum);
  for (int i = 0; i < k->tile->nparam; i++) {
    int in = 0;
    while (in < 5 && (!w->in[in] || w->in[in] != k->value[i])) in++;
    if (in == 5 && k->value[i] != w->y) return false;
    arg[i] = in < 5 ? at[in] : ts_steps_out(x, 0, NULL);
  }
  ts_steps_add_kernel(x, k->tile, arg, k->dim);
  k->tile = NULL;
  return true;
}

static int in_steps(TsSteps *x, const Pages *p, TsSchedKernel *k) {
  Whole w = {.g = NULL};
  bool made = make(&w, p, x->s, x->err) &&
              !ts_lower_group(w.s, w.s->group[0], NULL, NULL, k, x->err) && !k->nguard &&
              k->tile->nparam <= 6 && ts_steps_takes(k) && put(x, p, &w, k);

  if (!made && k->tile) ts_tile_free(k->tile);
  ts_sched_free(w.s);
  if (w.g) ts_graph_free(w.g);
  return made ? 0 : -1;
}

int ts_lower_pages(const TsSched *s, const TsGroup *group, TsLayoutFn *layout, void *arg,
                   TsSchedKernel *out, TsError *err) {
  const TsNode *n = group->node[0];
  Pages p = read_node(n);
  if (!ts_meta_numel(&n->out[0].meta) || !p.keys || !ts_meta_numel(p.in[K])) return 0;
  int64_t nsm = together_as(s, &p) ? 0 : ts_lower_roles(s, work_of(&p));
  TsSteps x;
  TsSchedKernel k = {.tile = NULL};
  int stages = group->choice.stages;
  ts_steps_begin(&x, s, layout, arg, n, err);
  ts_steps_guard(&x, TABLE), ts_steps_guard(&x, START);
  int failed = nsm ? where_they_lie(&x, &p, nsm, stages, &stages) : in_steps(&x, &p, &k);
  int done = ts_steps_end(&x, out);
  if (done == 1 && failed) {
    ts_tile_free(out->tile), out->tile = NULL;
    return ts_lower_refused(err);
  }
  if (done == 1 && nsm)
    out->told = true, out->took = (TsSchedChoice){.rows = -1, .stages = stages};
  return done;
}
