/* Matrix products as loops over register tiles.
 *
 * A round has a block of rows and one of columns. Along k it goes in steps of
 * TS_PRODUCT_STEPS: so much of B's columns is packed as panels of the register tile's width,
 * which stay in the second cache. The first rows pack them on the way: a store for each vector
 * costs nothing between multiply-adds. A's rows stay where they lie, unless they have to be
 * widened, and are asked for ahead where the processor would not by itself. Then a panel of
 * rows meets panel after panel of columns, each time with all sums in registers. Sums wait
 * between the steps of k in memory of the thread: each is still one chain of fused
 * multiply-adds in increasing k. Rounds share nothing, so that there is one phase and no
 * barrier.
 *
 * Pointwise rows that make an operand are computed on what is packed, once for each packed
 * element: A is packed then, and B before the rows come, since between the multiply-adds
 * registers are few.
 *
 * Pointwise rows that follow are done on the registers where they are a few instructions, else
 * row by row from memory: elementary functions on a dozen rows at once are thousands of
 * instructions. Edges in m and n have register tiles of their own; edges in k do not exist,
 * since a product with zeros may change the sign of a zero sum. */
#include "ir/tile/product/state.h"

enum {
  FAR_ROWS = 512,   /* rows further apart are no stream for the processor */
  ROWS = 224 << 10, /* bytes of packed rows */
  MOST_FAR = 8,     /* ways of a set of the first cache */
  CHEAP = 10,       /* pointwise rows that are done in registers */
  LINE = 64
};

/* ---- sizes */
static int lanes_of(const TsTarget *t, TsDtype d) {
  return t->vector_bytes / ts_dtypes[d].nbytes;
}

static int64_t even(int64_t n, int64_t most, int64_t unit) {
  int64_t pieces = div_up(n, most > unit ? most : unit);
  return round_up(div_up(n, pieces), unit);
}

bool ts_tile_product_is_cheap(const TsTileStmt *s) {
  int n = 0;
  for (s = s->next; s; s = s->next) {
    if (s->op >= TS_OP_COUNT) continue;
    switch (s->op) {
    case TS_OP_add:
    case TS_OP_sub:
    case TS_OP_mul:
    case TS_OP_neg:
    case TS_OP_fma:
    case TS_OP_relu:
    case TS_OP_abs:
    case TS_OP_square: n++; break;
    default: return false;
    }
  }
  return n <= CHEAP;
}

static void plan(TsProduct *p) {
  const TsProductMatch *x = &p->x;
  const TsTileType *a = &x->of[TS_PRODUCT_a]->in[0]->type;
  const TsTileType *b = &x->of[TS_PRODUCT_b]->in[0]->type;
  bool prologue_b = x->prologue[TS_PRODUCT_b];
  p->d = p->factor = p->packed = (TsDtype)x->mma->out[0]->type.dtype;
  p->words = ts_tile_pairs_of(x->mma) == TS_PAIRS_avx512_bf16;
  p->deep = p->words ? div_up(x->k, 2) : x->k;
  if (p->words) p->factor = TS_DT_bf16, p->packed = TS_DT_i32;
  p->lanes = lanes_of(p->t, p->d);
  ts_tile_product_registers(p->t, p->lanes, x->m, x->n, p->from->high, &p->mr, &p->nv);
  p->nr = p->nv * p->lanes;
  p->transposed_a = stride_of(a, a->rank - 2) == 1 && stride_of(a, a->rank - 1) != 1;
  p->transposed_b =
      !prologue_b && stride_of(b, b->rank - 2) == 1 && stride_of(b, b->rank - 1) != 1;
  bool far = stride_of(a, a->rank - 2) > FAR_ROWS;
  /* Of transposed rows a line is read at each step for a few numbers of it, and has left a first
   * cache of 32 KiB before the next rows come. */
  bool must = x->prologue[TS_PRODUCT_a] || a->dtype != p->packed ||
              (!p->transposed_a && stride_of(a, a->rank - 1) != 1);
  p->pack_a =
      must || (far && p->mr > MOST_FAR) || (p->transposed_a && p->t->vector_bytes < LINE);
  if (p->from->pack) p->pack_a = must || p->from->pack == 2;
  p->ask_rows = !p->pack_a && !p->transposed_a && far;
  int64_t most = TS_PRODUCT_STEPS;
  if (p->from->depth) most = div_up(p->from->depth, 1 + p->words);
  p->kc = least(even(p->deep, most, p->lanes), p->deep);
  p->kpad = round_up(p->kc, p->lanes);
  p->panel = p->mr * p->kc + 16;
  p->sub = round_up(x->mb, p->mr);
  if (p->pack_a) p->sub = even(p->sub, ROWS / (p->kc * ts_dtypes[p->d].nbytes), p->mr);
  p->blocks = p->kc < p->deep;
  p->registers = !p->blocks && ts_tile_product_is_cheap(x->mma);
  int64_t last = x->m % x->mb;
  p->on_the_way = !prologue_b && !p->transposed_b && stride_of(b, b->rank - 1) == 1 &&
                  x->n >= p->nr && least(x->m, x->mb) >= p->mr && (last == 0 || last >= p->mr);
}

/* ---- a round */
static TsTileVal minus(TsProduct *p, TsTileVal x, int64_t i) {
  int64_t n;
  if (!i) return x;
  return number(x, &n) ? at(p, n - i) : ts_tile_op2(p->b, TS_OP_sub, x, at(p, i));
}

TsTileVal ts_tile_product_local(TsProduct *p, TsDtype d, int rank, const int64_t *dim) {
  TsTileType t = ts_tile_type(d, rank, dim);
  return ts_tile_alloc(p->b, TS_SPACE_local, &t);
}

static void clear(TsProduct *p) {
  int64_t w = p->lanes;
  TsTileType t = ts_tile_vector(p->d, w);
  TsTileLoop r = loop(p, at(p, 0), p->rows, 1);
  TsTileVal zero = ts_tile_const(p->b, 0, &t);
  TsTileLoop j = loop(p, at(p, 0), at(p, p->acc->type.dim[1]), w);
  unroll(j.stmt, 2);
  ts_tile_store(p->b, p->acc, (TsTileVal[]){r.i, j.i}, zero, NULL);
  end(p, &j);
  end(p, &r);
}

static void memory(TsProduct *p) {
  int64_t nb = round_up(p->x.nb, p->nr), mb = round_up(p->x.mb, p->mr);
  int64_t sub = least(mb, p->sub);
  p->pb = ts_tile_product_local(p, p->packed, 3, (int64_t[]){nb / p->nr, p->kpad, p->nr});
  if (p->pack_a && p->transposed_a)
    p->pa = ts_tile_product_local(p, p->packed, 1, (int64_t[]){sub / p->mr * p->panel + 16});
  else if (p->pack_a) /* a line more, so that rows are no power of two apart */
    p->pa = ts_tile_product_local(p, p->packed, 2, (int64_t[]){sub, p->kpad + p->lanes});
  if (!p->registers)
    p->acc = ts_tile_product_local(
        p, p->d, 2,
        (int64_t[]){p->blocks ? mb : p->mr,
                    round_up(nb, TS_PRODUCT_TOGETHER * (int64_t)p->lanes)});
}

TsTileVal ts_tile_product_left(TsProduct *p, TsTileVal size, TsTileVal from, int64_t block) {
  int64_t n;
  bool given = number(size, &n);
  if (given && n <= block) return size;
  TsTileVal rest = ts_tile_op2(p->b, TS_OP_sub, size, from);
  return given && n % block == 0 ? at(p, block)
                                 : ts_tile_op2(p->b, TS_OP_minimum, rest, at(p, block));
}

static void steps(TsProduct *p) {
  ts_tile_product_pack_columns(p);
  bool apart = p->on_the_way && !ts_tile_product_in_one_loop(p);
  if (apart) {
    p->r0 = at(p, 0), p->near = at(p, p->mr);
    ts_tile_product_pack_rows(p);
    ts_tile_product_panel(p, p->r0, p->mr, true);
  }
  int64_t begin = apart ? p->mr : 0;
  TsTileVal rest = minus(p, p->rows, begin);
  TsTileLoop l = loop(p, at(p, 0), rest, p->sub);
  p->r0 = plus_int(p, l.i, begin);
  p->near = ts_tile_product_left(p, rest, l.i, p->sub);
  ts_tile_product_pack_rows(p);
  ts_tile_product_panels(p);
  end(p, &l);
}

static void end_all(TsProduct *p) { ts_tile_product_end_rows(p, at(p, 0), p->rows); }

static const TsProductWay usual = {plan, memory, clear, steps, end_all};

static const TsProductWay *way_of(const TsProduct *p) {
  bool unit = ts_tile_pairs_of(p->x.mma) == TS_PAIRS_amx_bf16;
  return unit ? &ts_tile_product_amx : &usual;
}

static void round_of(TsProduct *p) {
  const TsProductWay *way = way_of(p);
  p->m0 = ts_tile_copy_get(p->c, (TsTileVal)(uintptr_t)p->x.m0);
  p->n0 = ts_tile_copy_get(p->c, (TsTileVal)(uintptr_t)p->x.n0);
  p->rows = ts_tile_product_left(p, at(p, p->x.m), p->m0, p->x.mb);
  p->cols = ts_tile_product_left(p, at(p, p->x.n), p->n0, p->x.nb);
  way->memory(p);
  if (!p->blocks) {
    p->pc = at(p, 0), p->nk = at(p, p->deep);
    way->step(p);
    return;
  }
  way->clear(p);
  TsTileLoop l = loop(p, at(p, 0), at(p, p->deep), p->kc);
  p->pc = l.i;
  p->nk = ts_tile_product_left(p, at(p, p->deep), l.i, p->kc);
  way->step(p);
  end(p, &l);
  way->end(p);
}

static int each(TsTileCopy *c, const TsTileStmt *s, void *arg) {
  TsProduct *p = arg;
  if (s->in_region != p->x.loop->region[0]) return 0;
  if (s == p->x.mma) {
    p->c = c, p->b = &c->b;
    round_of(p);
    return 1;
  }
  /* Tiles before it are what it reads, all behind it was done with it. */
  for (const TsTileStmt *x = p->x.mma; x; x = x->next)
    if (x == s) return 1;
  return s->nout && s->out[0]->type.rank ? 1 : 0;
}

/* Matches and plans. Blocks that do not end with the matrix end with a register tile. */
static bool planned(TsProduct *p, const TsTile *k) {
  if (!ts_tile_product_match(k, &p->x) || p->t->vector_bytes < 16) return false;
  way_of(p)->plan(p);
  const TsProductMatch *x = &p->x;
  return (x->mb >= x->m || x->mb % p->mr == 0) && (x->nb >= x->n || x->nb % p->nr == 0);
}

bool ts_tile_is_product(const TsTile *k, const TsTarget *target) {
  return planned(&(TsProduct){.t = target, .from = k}, k);
}

/* Needs: block form, legal, ts_tile_is_product. Keeps: every bit of the results. Gives: a new
 * kernel in explicit form, pointwise rows not yet expanded, or NULL with the error. */
TsTile *ts_tile_product(const TsTile *k, const TsTarget *target, TsError *err) {
  TsProduct p = {.t = target, .from = k};
  if (!planned(&p, k))
    return ts_error_set(err, TS_ERR_value, "%s: no product that is known", k->name), NULL;
  TsTile *y = ts_tile_copy(k, each, &p, err);
  if (!y) return NULL;
  y->form = TS_FORM_explicit;
  y->target = ts_arena_text(&y->arena, target->name);
  if (!y->target) ts_error_memory(err);
  if (y->target && ts_tile_dce(y, err) >= 0) return y;
  ts_tile_free(y);
  return NULL;
}
