/* Software pipelining of rows: passes of several rows in one walk.
 *
 * A round of softmax or of a norm goes over its row once for each reduction and once more to
 * write the result. While it computes, memory rests; while it writes, arithmetic does; and a
 * row that is read in several passes is no stream that a processor's prefetcher would follow.
 * So rounds are taken together in blocks, and the passes of one row become stages of rounds:
 * round r has stage 0 of row r, stage 1 of row r - 1, and so on, all in one walk along the
 * axis. What a stage leaves to the next ones is carried round the loop: results of reductions
 * and what is made of them, each as many rounds as it is wanted, and a tile that is dear and
 * wanted by two stages in a row. Other tiles are computed again from memory, which is in the
 * caches by then.
 *
 * Every pass is a stage where one between the first and the last is dear, as the exps of a
 * softmax are: it takes so long that memory must not rest beside it. Else there are two stages:
 * the last pass goes with the next row's first one, so that reading and writing are at one
 * time, and the passes between, which are short, are the row's own and find it in the first
 * cache (4096 rows of 4096 f32, layernorm(x + y) on one thread of a Zen 5: 50 GB/s, 41 row by
 * row, 28 with three stages, whose rows come from the second cache). The carried tile, x + y
 * here, is renewed where it lies. Where a vector is a line, the row by itself is better if what
 * the two passes need of it all does not fit in the first cache, or, on AMD's processors, if
 * they are all that there are and rows of several memories meet: it asks for the next row at
 * the pace of memory (ir/tile/pass/vec_prefetch.c; rmsnorm(x + y) of 1024 columns on one thread
 * of a Zen 5: 58 GB/s, 54 in two stages; of x alone 48 and 59). A kernel's `stages` says how
 * many at most: 1 a row by itself, 2 as above, 3 and more every pass.
 *
 * At the ends of a block a stage stands outside of it. There it does the first or the last row
 * once more, or what was never begun, and its stores go to position -1, where they are dropped.
 * Rejected: code of its own for the first and the last rows (twice the code to compile), and
 * two stages of a softmax (30 instead of 55 GB/s). */
#include <stdlib.h>
#include <string.h>

#include "ir/tile/copy.h"
#include "ir/tile/pass/vec.h"

enum {
  STAGES = 6,
  CARRIED = 48,
  LINE = 64,   /* bytes */
  SHORT = 256, /* elements of a row that is worth it, at least */
  BLOCK = 128, /* rows of a block */
  BLOCKS = 16, /* blocks that there are, at least, where the number of rows is known */
};

typedef struct Fact {
  bool inside; /* made in the loop's body */
  bool moves;  /* depends on the loop's counter: of positions */
  int level;   /* tiles: the first pass, then stage, that can compute it; scalars: one more */
  int cost;
  int streams;   /* rows that it is made of and that come from memory */
  bool kept;     /* a tile that the next stage finds carried */
  uint32_t need; /* tiles: the stages that want it */
  int far;       /* scalars: the most rounds that it is wanted later */
  int slot;      /* its first among the carried ones */
} Fact;

typedef struct Pipe {
  const TsTile *k;
  const TsTarget *target;
  const TsTileRegion *body;
  Fact *fact;
  int64_t n; /* elements of a row */
  int last;  /* pass, then stage */
  bool two;  /* stages */
  bool few;  /* stages: two passes, over rows of several streams */
  int64_t block;
  /* the copy */
  TsTileCopy *c;
  TsTileVal *at; /* by stage and id: what a stage has computed */
  TsTileVal row[STAGES], valid[STAGES], *carry;
} Pipe;

static Fact *of(const Pipe *p, TsTileVal x) { return &p->fact[x->id]; }
static bool is_tile(TsTileVal x) { return !ts_tile_memory(&x->type) && x->type.rank; }
static bool counter(const Pipe *p, TsTileVal x) { return x->region == p->body; }

/* ---- which loops */
static bool fits_op(const TsTileStmt *s) {
  if (s->nregion || s->nout > 1) return false;
  switch (s->op) {
  case TS_TILE_load:
  case TS_TILE_store:
  case TS_TILE_const:
  case TS_TILE_bits:
  case TS_TILE_iota:
  case TS_TILE_broadcast: return true;
  default: return ts_tile_vec_reduces(s->op) || ts_tile_vec_elementwise(s);
  }
}

/* Tiles are whole rows of one length. */
static bool fits_type(Pipe *p, TsTileVal x) {
  if (!is_tile(x)) return true;
  if (x->type.rank != 1 || ts_tile_dim_is(x->type.dim[0])) return false;
  if (!p->n) p->n = x->type.dim[0];
  return x->type.dim[0] == p->n;
}

static bool is_zero(TsTileVal x) {
  const TsTileStmt *s = x->stmt;
  return s && s->op == TS_TILE_const && ts_tile_attr(s, "value")->f == 0;
}

/* The stage in which a store is made: scalars are there behind the walk. */
static int stage_of_store(const Pipe *p, const TsTileStmt *s) {
  TsTileVal x = s->in[s->nin - 1];
  int level = of(p, x)->level;
  return is_tile(x) || !level ? level : level - 1;
}

/* Memory that is written is not read, and written once. */
static bool alone(const Pipe *p, const TsTileStmt *store) {
  for (const TsTileStmt *s = p->body->first; s; s = s->next)
    if (s != store && s->nin && s->in[0] == store->in[0]) return false;
  return true;
}

static int count_streams(const Pipe *p, const TsTileStmt *s) {
  int n = s->op == TS_TILE_load && is_tile(s->out[0]) && of(p, s->out[0])->moves;
  for (int i = 0; i < s->nin && s->op != TS_TILE_load; i++)
    if (is_tile(s->in[i]) && (i == 0 || s->in[i] != s->in[0])) n += of(p, s->in[i])->streams;
  return n;
}

static bool find_levels(Pipe *p) {
  bool streams = false;
  p->last = 0;
  for (const TsTileStmt *s = p->body->first; s; s = s->next) {
    int level = 0, cost = ts_tile_vec_cost(s->op);
    bool moves = false, places = false;
    if (!fits_op(s) || (s->nout && !fits_type(p, s->out[0]))) return false;
    for (int i = 0; i < s->nin; i++) {
      const Fact *f = of(p, s->in[i]);
      bool position =
          (s->op == TS_TILE_load || s->op == TS_TILE_store) && i && i <= s->in[0]->type.rank;
      if (position && f->level) return false;
      if (f->level > level) level = f->level;
      moves |= f->moves || counter(p, s->in[i]);
      if (position) places |= f->moves || counter(p, s->in[i]);
      if (is_tile(s->in[i])) cost += f->cost;
    }
    if (s->op == TS_TILE_store) {
      int stage = stage_of_store(p, s);
      if (!places || !alone(p, s)) return false;
      if (stage > p->last) p->last = stage;
      streams |= stage > 0 && ts_tile_attr(s, "stream")->i;
      continue;
    }
    level += ts_tile_vec_reduces(s->op);
    if (level >= STAGES) return false;
    *of(p, s->out[0]) = (Fact){.inside = true, .moves = moves, .level = level, .cost = cost};
    of(p, s->out[0])->streams = count_streams(p, s);
  }
  return streams;
}

/* ---- how many stages */
static bool computes(const Pipe *p, int first, int last) {
  for (const TsTileStmt *s = p->body->first; s; s = s->next)
    if (s->nout && is_tile(s->out[0]) && ts_tile_vec_cost(s->op) >= VEC_DEAR &&
        of(p, s->out[0])->level >= first && of(p, s->out[0])->level <= last)
      return true;
  return false;
}

static bool several_streams(const Pipe *p) {
  for (const TsTileStmt *s = p->body->first; s; s = s->next)
    if (s->nout && is_tile(s->out[0]) && of(p, s->out[0])->streams > 1) return true;
  return false;
}

/* Passes become stages: the first ones share one where there are to be fewer. */
static void share_stages(Pipe *p) {
  int most = p->k->stages ? p->k->stages : computes(p, 1, p->last - 1) ? STAGES : 2;
  int fewer = most <= p->last ? p->last + 1 - most : 0;
  for (const TsTileStmt *s = p->body->first; s && fewer; s = s->next) {
    Fact *f = s->nout ? of(p, s->out[0]) : NULL;
    if (!f || !f->level) continue;
    int least = is_tile(s->out[0]) ? 0 : 1;
    f->level = f->level - fewer > least ? f->level - fewer : least;
  }
  p->few = p->last == 1 && several_streams(p);
  p->last -= fewer;
  p->two = most == 2;
}

/* ---- what is carried */
static bool is_dear(const Pipe *p, const Fact *f) {
  return f->cost > VEC_CHEAP || (p->two && f->streams > 1);
}

static bool one_dear_operand(const Pipe *p, const TsTileStmt *s) {
  int dear = 0;
  for (int i = 0; i < s->nin; i++)
    dear +=
        is_tile(s->in[i]) && is_dear(p, of(p, s->in[i])) && (i == 0 || s->in[i] != s->in[0]);
  return dear == 1;
}

static bool worth_keeping(const Pipe *p, const TsTileStmt *s, const Fact *f) {
  if (!(f->need & (f->need - 1)) || !is_dear(p, f)) return false;
  return ts_tile_vec_cost(s->op) > 2 || !one_dear_operand(p, s);
}

static void want_scalar(Fact *f, int stage) {
  if (f->level && stage - f->level + 1 > f->far) f->far = stage - f->level + 1;
}

static void want(const Pipe *p, const TsTileStmt *s, int stage) {
  for (int i = 0; i < s->nin; i++) {
    Fact *f = of(p, s->in[i]);
    if (!f->inside) continue;
    if (is_tile(s->in[i]))
      f->need |= 1u << stage;
    else
      want_scalar(f, stage);
  }
}

static bool want_tile(Pipe *p, const TsTileStmt *s) {
  Fact *f = of(p, s->out[0]);
  uint32_t need = f->need, own = 1u << f->level;
  if (need && worth_keeping(p, s, f)) {
    f->kept = true;
    if (need & ~(own | own << 1)) return false;
    need = own;
  }
  for (int t = 0; t < STAGES; t++)
    if (need >> t & 1) want(p, s, t);
  return true;
}

static bool find_needs(Pipe *p) {
  int n = 0;
  for (const TsTileStmt *s = p->body->last; s; s = s->prev) {
    if (s->op == TS_TILE_store)
      want(p, s, stage_of_store(p, s));
    else if (ts_tile_vec_reduces(s->op))
      want(p, s, of(p, s->out[0])->level - 1);
    else if (is_tile(s->out[0])) {
      if (!want_tile(p, s)) return false;
    } else if (of(p, s->out[0])->level)
      want(p, s, of(p, s->out[0])->level - 1);
  }
  for (const TsTileStmt *s = p->body->first; s; s = s->next) {
    Fact *f = s->nout ? of(p, s->out[0]) : NULL;
    if (!f) continue;
    f->slot = n;
    n += f->kept ? 1 : f->far;
  }
  return n <= CARRIED;
}

/* Of rows that are met again: those that all rounds read, those that are carried, and of the
 * others one for each stage. With two stages what one of them alone reads passes by. */
static int64_t bytes_of_rows(const Pipe *p) {
  int64_t bytes = 0;
  for (const TsTileStmt *s = p->body->first; s; s = s->next) {
    const Fact *f = s->nout ? of(p, s->out[0]) : NULL;
    if (!f || !is_tile(s->out[0])) continue;
    int times = s->op != TS_TILE_load ? (p->two ? f->kept : 0)
                : !f->moves           ? 1
                : !p->two             ? p->last + 1
                : f->need == 3        ? 2
                                      : 0;
    bytes += times * p->n * ts_dtypes[s->out[0]->type.dtype].nbytes;
  }
  return bytes;
}

static bool pays(const Pipe *p) {
  int64_t first = p->target->cache[0], second = p->target->cache[1], bytes = bytes_of_rows(p);
  if (second && bytes > second / 2) return false;
  if (p->k->stages || p->target->vector_bytes < LINE || !first) return true;
  if (p->few && p->target->drops) return computes(p, 0, p->last);
  return computes(p, 0, p->last) || bytes <= first * 2 / 3;
}

/* Needs: a loop over rows at the top of a kernel in block form. */
static bool pipelines(Pipe *p, const TsTileStmt *loop) {
  int64_t rows = 0;
  if (p->k->stages == 1) return false;
  if (loop->op != TS_TILE_for || !ts_tile_attr(loop, "parallel")->i) return false;
  if (ts_tile_attr(loop, "step")->i != 1 || !is_zero(loop->in[0]) || loop->nout) return false;
  const TsTileStmt *hi = loop->in[1]->stmt;
  if (hi && hi->op == TS_TILE_const) rows = (int64_t)ts_tile_attr(hi, "value")->f;
  p->body = loop->region[0];
  p->n = 0;
  p->block = p->k->grain ? p->k->grain : BLOCK;
  if (rows && rows < p->block * BLOCKS) p->block = rows / BLOCKS;
  if (p->block < 2) return false;
  if (!find_levels(p) || !p->last || p->n < SHORT) return false;
  share_stages(p);
  return find_needs(p) && pays(p);
}

/* ---- the copy */
static TsTileVal value(Pipe *p, TsTileVal x, int stage);

/* An operand of what a stage does: of the walk, or of scalars behind it. */
static TsTileVal operand(Pipe *p, TsTileVal x, int stage) {
  const Fact *f = of(p, x);
  if (counter(p, x)) return p->row[stage];
  if (!f->inside) return ts_tile_copy_get(p->c, x);
  if (is_tile(x)) {
    if (f->kept && stage > f->level) return p->carry[f->slot];
  } else if (f->level && stage >= f->level) {
    return p->carry[f->slot + stage - f->level];
  }
  return value(p, x, stage);
}

static TsTileStmt *copy(Pipe *p, const TsTileStmt *s, int stage, const TsAttr *attr) {
  TsTileVal in[TS_TILE_RANK + 4];
  TS_ASSERT(s->nin <= TS_TILE_RANK + 4);
  for (int i = 0; i < s->nin; i++) in[i] = operand(p, s->in[i], stage);
  p->c->b.line = s->line;
  if (s->op == TS_TILE_store)
    for (int i = 1; i <= in[0]->type.rank; i++)
      if (of(p, s->in[i])->moves || counter(p, s->in[i])) {
        in[i] = ts_tile_op3(&p->c->b, TS_OP_where, p->valid[stage], in[i],
                            ts_tile_index(&p->c->b, -1));
        break;
      }
  return ts_tile_emit(&p->c->b, ts_tile_vec_row(s), s->nin, in, attr, s->nout,
                      s->nout ? &s->out[0]->type : NULL);
}

static TsTileVal value(Pipe *p, TsTileVal x, int stage) {
  TsTileVal *is = &p->at[(size_t)stage * p->k->nvalue + x->id];
  if (*is) return *is;
  TsTileStmt *s = copy(p, x->stmt, stage, x->stmt->attr);
  return *is = s ? s->out[0] : NULL;
}

static void store(Pipe *p, const TsTileStmt *s) {
  TsAttr attr[8];
  int n;
  const TsAttrSpec *spec = ts_tile_op_attrs(TS_TILE_store, &n);
  TS_ASSERT(n <= 8);
  memcpy(attr, s->attr, sizeof *attr * (size_t)n);
  for (int i = 0; i < n; i++)
    if (spec[i].namelen == 4 && !memcmp(spec[i].name, "edge", 4))
      attr[i] = (TsAttr){.type = TS_ATTR_bool, .i = true};
  copy(p, s, stage_of_store(p, s), attr);
}

/* The oldest row first. */
static void stages(Pipe *p) {
  for (int t = p->last; t >= 0; t--)
    for (const TsTileStmt *s = p->body->first; s; s = s->next)
      if (s->op == TS_TILE_store) {
        if (stage_of_store(p, s) == t) store(p, s);
      } else if (ts_tile_vec_reduces(s->op) && of(p, s->out[0])->level == t + 1) {
        value(p, s->out[0], t);
      }
}

/* The rows of a round's stages: r is its number in the block. */
static void place_rows(Pipe *p, TsTileVal first, TsTileVal count, TsTileVal r) {
  TsTileBuild *b = &p->c->b;
  TsTileVal zero = ts_tile_index(b, 0);
  TsTileVal most = ts_tile_op2(b, TS_OP_sub, count, ts_tile_index(b, 1));
  for (int t = 0; t <= p->last; t++) {
    TsTileVal at = t ? ts_tile_op2(b, TS_OP_sub, r, ts_tile_index(b, t)) : r;
    TsTileVal near = ts_tile_op2(b, TS_OP_minimum, at, most);
    if (t) near = ts_tile_op2(b, TS_OP_maximum, near, zero);
    p->row[t] = ts_tile_op2(b, TS_OP_add, first, near);
    p->valid[t] = ts_tile_op2(b, TS_OP_eq, at, near);
  }
}

/* Where nothing is carried yet, numbers that trap nowhere. */
static int begin_carry(Pipe *p, TsTileVal *list) {
  TsTileBuild *b = &p->c->b;
  int n = 0;
  for (const TsTileStmt *s = p->body->first; s; s = s->next) {
    const Fact *f = s->nout ? of(p, s->out[0]) : NULL;
    for (int i = 0; f && i < (f->kept ? 1 : f->far); i++) {
      TsTileType t = ts_tile_scalar((TsDtype)s->out[0]->type.dtype);
      list[n] = ts_tile_const(b, 1, &t);
      if (f->kept) list[n] = ts_tile_broadcast(b, list[n], &s->out[0]->type, NULL);
      n++;
    }
  }
  return n;
}

static void next_carry(Pipe *p, TsTileVal *list) {
  int n = 0;
  for (const TsTileStmt *s = p->body->first; s; s = s->next) {
    const Fact *f = s->nout ? of(p, s->out[0]) : NULL;
    for (int i = 0; f && i < (f->kept ? 1 : f->far); i++, n++)
      list[n] = i ? p->carry[n - 1] : value(p, s->out[0], f->kept ? f->level : f->level - 1);
  }
}

static int rewrite(Pipe *p, const TsTileStmt *loop) {
  TsTileBuild *b = &p->c->b;
  TsTileVal list[CARRIED];
  TsTileVal rows = ts_tile_copy_get(p->c, loop->in[1]), zero = ts_tile_index(b, 0);
  TsTileVal block = ts_tile_index(b, p->block);
  TsTileVal up = ts_tile_op2(b, TS_OP_add, rows, ts_tile_index(b, p->block - 1));
  TsTileLoop blocks =
      ts_tile_for(b, zero, ts_tile_op2(b, TS_OP_floordiv, up, block), 1, true, 0, NULL);
  if (p->c->to->failed) return -1;
  TsTileVal first = ts_tile_op2(b, TS_OP_mul, blocks.i, block);
  TsTileVal count =
      ts_tile_op2(b, TS_OP_minimum, ts_tile_op2(b, TS_OP_sub, rows, first), block);
  int n = begin_carry(p, list);
  TsTileVal end = ts_tile_op2(b, TS_OP_add, count, ts_tile_index(b, p->last));
  TsTileLoop l = ts_tile_for(b, zero, end, 1, false, n, list);
  if (p->c->to->failed) return -1;
  p->carry = l.carry;
  place_rows(p, first, count, l.i);
  stages(p);
  next_carry(p, list);
  ts_tile_for_end(b, &l, list, NULL);
  ts_tile_for_end(b, &blocks, NULL, NULL);
  return p->c->to->failed ? -1 : 1;
}

static int each(TsTileCopy *c, const TsTileStmt *s, void *arg) {
  Pipe *p = arg;
  p->c = c;
  if (s->in_region != p->k->body || !pipelines(p, s)) return 0;
  memset(p->at, 0, sizeof *p->at * STAGES * p->k->nvalue);
  return rewrite(p, s);
}

static bool any(Pipe *p) {
  bool found = false;
  for (const TsTileStmt *s = p->k->body->first; s; s = s->next) found |= pipelines(p, s);
  memset(p->fact, 0, sizeof *p->fact * p->k->nvalue);
  return found;
}

/* Needs: block form, legal, target one of a CPU. Keeps: every bit of the results. Gives: a new
 * kernel in block form, or NULL, without an error where no loop is worth it. */
TsTile *ts_tile_pipeline(const TsTile *k, const TsTarget *target, TsError *err) {
  Pipe p = {.k = k, .target = target};
  TsTile *piped = NULL;
  p.fact = calloc((size_t)k->nvalue + 1, sizeof *p.fact);
  p.at = calloc((size_t)k->nvalue + 1, sizeof *p.at * STAGES);
  if (!p.fact || !p.at)
    ts_error_memory(err);
  else if (any(&p))
    piped = ts_tile_copy(k, each, &p, err);
  if (piped && k->grain) piped->grain = 1;
  free(p.fact);
  free(p.at);
  return piped;
}
