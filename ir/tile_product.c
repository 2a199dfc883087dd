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
 * Pointwise rows that follow are done on the registers where they are a few instructions, else
 * row by row from memory: elementary functions on a dozen rows at once are thousands of
 * instructions. Edges in m and n have register tiles of their own; edges in k do not exist,
 * since a product with zeros may change the sign of a zero sum. */
#include "ir/tile_product.h"

#include <string.h>

#include "ir/tile_copy.h"
#include "ir/tile_marks.h"

enum {
  FAR_ROWS = 512,   /* rows further apart are no stream for the processor */
  AHEAD_A = 16,     /* steps that turned rows are asked for ahead */
  AHEAD_B = 8,      /* and columns */
  AHEAD_ENDS = 8,   /* rows that what follows the product reads and writes */
  ROWS = 224 << 10, /* bytes of packed rows */
  MOST_ROWS = 12,
  MOST_FAR = 8, /* ways of a set of the first cache */
  MOST_VECTORS = 4,
  MOST_TOGETHER = 4, /* vectors of what follows the product */
  CHEAP = 10,        /* pointwise rows that are done in registers */
};

typedef struct Match {
  const TsTileStmt *loop, *mma, *a, *b;
  const TsTileValue *m0, *n0;
  int64_t m, n, k, mb, nb;
} Match;

typedef struct Product {
  Match x;
  const TsTarget *t;
  const TsTile *from;
  TsDtype d;
  int lanes, mr, nv, nr;
  int64_t sub;             /* rows that are packed at a time */
  int64_t kc, kpad, panel; /* panel: elements of a packed panel of turned rows */
  bool blocks;             /* of k: more than one */
  bool pack_a, turned_a, turned_b, registers;
  bool on_the_way; /* the first rows pack the columns */
  bool ask_rows;   /* rows in place, far apart, are asked for */
  TsTileCopy *c;
  TsTileBuild *b;
  TsTileVal m0, n0, rows, cols; /* of this round */
  TsTileVal pa, pb, acc;        /* local memory */
  TsTileVal pc, nk;             /* step of k: where it begins, how many */
  TsTileVal r0, near;           /* rows that are packed now: the first in the block, how many */
} Product;

static int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return div_up(a, b) * b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- recognising */
static bool is_zero(const TsTileValue *v) {
  return v->stmt && v->stmt->op == TS_TILE_const && ts_tile_attr(v->stmt, "value")->f == 0;
}

static const TsTileStmt *load_of(const TsTileValue *v) {
  while (v->stmt && v->stmt->op == TS_TILE_cast) v = v->stmt->in[0];
  return v->stmt && v->stmt->op == TS_TILE_load ? v->stmt : NULL;
}

static bool has_axes(const TsTileStmt *s) {
  const TsAttr *a = ts_tile_attr(s, "axes");
  return a->type == TS_ATTR_ints && a->n;
}

static bool known(const TsTileType *t) {
  for (int i = 0; i < t->rank; i++)
    if (ts_tile_dim_is(t->dim[i])) return false;
  return true;
}

/* A load of all of one axis, at position 0, and of a block of another. */
static bool good_load(const TsTileStmt *s, int whole) {
  const TsTileType *m = &s->in[0]->type, *t = &s->out[0]->type;
  if (m->rank < 2 || t->rank != 2 || !known(m) || has_axes(s)) return false;
  int axis = m->rank - 2 + whole;
  return is_zero(s->in[1 + axis]) && t->dim[whole] == m->dim[axis];
}

/* What follows the product, in terms of a block: [mb,nb], [nb], [mb] or a number. */
static bool good_end(const TsTileStmt *s, const Match *x) {
  bool writes = s->op == TS_TILE_store, reads = s->op == TS_TILE_load;
  bool plain = s->op < TS_OP_COUNT || s->op == TS_TILE_cast || s->op == TS_TILE_const ||
               s->op == TS_TILE_bits || s->op == TS_TILE_broadcast || s->op == TS_TILE_bitcast;
  if (!writes && !reads && !plain) return false;
  if ((writes || reads) && has_axes(s)) return false;
  const TsTileType *t = writes ? &s->in[s->nin - 1]->type : &s->out[0]->type;
  if (writes && t->rank != 2) return false;
  if (t->rank == 2) return t->dim[0] == x->mb && t->dim[1] == x->nb;
  return t->rank == 0 || (t->rank == 1 && (t->dim[0] == x->nb || t->dim[0] == x->mb));
}

static bool match_product(const TsTileStmt *s, Match *x) {
  x->mma = s;
  x->a = load_of(s->in[0]);
  x->b = load_of(s->in[1]);
  if (!x->a || !x->b || !is_zero(s->in[2])) return false;
  if (!good_load(x->a, 1) || !good_load(x->b, 0)) return false;
  const TsTileType *ma = &x->a->in[0]->type, *mb = &x->b->in[0]->type;
  x->m = ma->dim[ma->rank - 2], x->k = ma->dim[ma->rank - 1], x->n = mb->dim[mb->rank - 1];
  x->mb = s->out[0]->type.dim[0], x->nb = s->out[0]->type.dim[1];
  x->m0 = x->a->in[ma->rank - 1], x->n0 = x->b->in[mb->rank];
  /* A tile that is as long both ways is told apart by nothing else. */
  return x->m0 != x->n0 && x->mb != x->nb && x->k > 0;
}

static bool match(const TsTile *k, Match *x) {
  *x = (Match){.loop = NULL};
  if (k->form != TS_FORM_block) return false;
  for (const TsTileStmt *s = k->body->first; s; s = s->next) {
    if (s->nregion && (s->op != TS_TILE_for || x->loop)) return false;
    if (s->op == TS_TILE_for) x->loop = s;
  }
  if (!x->loop || x->loop->nout || !ts_tile_attr(x->loop, "parallel")->i) return false;
  for (const TsTileStmt *s = x->loop->region[0]->first; s; s = s->next) {
    if (s->nregion) return false;
    if (s->op == TS_TILE_mma && (x->mma || !match_product(s, x))) return false;
    if (s->op != TS_TILE_mma && x->mma && !good_end(s, x)) return false;
  }
  return x->mma != NULL;
}

bool ts_tile_is_product(const TsTile *k) {
  Match x;
  return match(k, &x);
}

/* ---- sizes */
static int lanes_of(const TsTarget *t, TsDtype d) {
  return t->vector_bytes / ts_dtypes[d].nbytes;
}

static int64_t line_of(const Product *p) { return 64 / ts_dtypes[p->d].nbytes; }

static int64_t even(int64_t n, int64_t most, int64_t unit) {
  int64_t pieces = div_up(n, most > unit ? most : unit);
  return round_up(div_up(n, pieces), unit);
}

static int64_t stride_of(const TsTileType *t, int axis) {
  int64_t step = 1;
  if (t->strided) return t->stride[axis];
  for (int i = t->rank; --i > axis;) step *= t->dim[i];
  return step;
}

/* Whether what follows is done in registers: a few instructions for each. */
static bool is_cheap(const TsTileStmt *s) {
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

static void plan(Product *p) {
  const Match *x = &p->x;
  const TsTileType *a = &x->a->in[0]->type, *b = &x->b->in[0]->type;
  p->d = (TsDtype)x->mma->out[0]->type.dtype;
  p->lanes = lanes_of(p->t, p->d);
  ts_tile_product_registers(p->t, p->lanes, x->m, x->n, p->from->high, &p->mr, &p->nv);
  p->nr = p->nv * p->lanes;
  p->turned_a = stride_of(a, a->rank - 2) == 1 && stride_of(a, a->rank - 1) != 1;
  p->turned_b = stride_of(b, b->rank - 2) == 1 && stride_of(b, b->rank - 1) != 1;
  bool far = stride_of(a, a->rank - 2) > FAR_ROWS;
  p->pack_a = a->dtype != p->d || (!p->turned_a && stride_of(a, a->rank - 1) != 1) ||
              (far && p->mr > MOST_FAR);
  bool must = a->dtype != p->d || (!p->turned_a && stride_of(a, a->rank - 1) != 1);
  if (p->from->pack) p->pack_a = must || p->from->pack == 2;
  p->ask_rows = !p->pack_a && !p->turned_a && far;
  int64_t most = p->from->steps ? p->from->steps : TS_PRODUCT_STEPS;
  p->kc = least(even(x->k, most, p->lanes), x->k);
  p->kpad = round_up(p->kc, p->lanes);
  p->panel = p->mr * p->kc + 16;
  p->sub = round_up(x->mb, p->mr);
  if (p->pack_a) p->sub = even(p->sub, ROWS / (p->kc * ts_dtypes[p->d].nbytes), p->mr);
  p->blocks = p->kc < x->k;
  p->registers = !p->blocks && is_cheap(x->mma);
  int64_t last = x->m % x->mb;
  p->on_the_way = !p->turned_b && stride_of(b, b->rank - 1) == 1 && x->n >= p->nr &&
                  least(x->m, x->mb) >= p->mr && (last == 0 || last >= p->mr);
}

/* ---- small words */
static TsTileVal at(Product *p, int64_t i) { return ts_tile_index(p->b, i); }
static bool number(const TsTileValue *x, int64_t *i) {
  if (!x || !x->stmt || x->stmt->op != TS_TILE_const) return false;
  *i = (int64_t)ts_tile_attr(x->stmt, "value")->f;
  return true;
}
static TsTileVal plus(Product *p, TsTileVal x, TsTileVal y) {
  int64_t i, j;
  if (number(x, &i) && number(y, &j)) return at(p, i + j);
  return ts_tile_op2(p->b, TS_OP_add, x, y);
}
static TsTileVal plus_int(Product *p, TsTileVal x, int64_t i) {
  return i ? plus(p, x, at(p, i)) : x;
}
static TsTileVal minus(Product *p, TsTileVal x, int64_t i) {
  int64_t n;
  if (!i) return x;
  return number(x, &n) ? at(p, n - i) : ts_tile_op2(p->b, TS_OP_sub, x, at(p, i));
}
static TsTileVal times(Product *p, TsTileVal x, int64_t i) {
  int64_t n;
  if (number(x, &n)) return at(p, n * i);
  return ts_tile_op2(p->b, TS_OP_mul, x, at(p, i));
}
static TsTileVal down_to(Product *p, TsTileVal x, int64_t unit) { /* a multiple of unit */
  int64_t n;
  if (number(x, &n)) return at(p, n / unit * unit);
  return times(p, ts_tile_op2(p->b, TS_OP_floordiv, x, at(p, unit)), unit);
}

static TsTileLoop loop(Product *p, TsTileVal lo, TsTileVal hi, int64_t step) {
  return ts_tile_for(p->b, lo, hi, step, false, 0, NULL);
}
static void end(Product *p, TsTileLoop *l) { ts_tile_for_end(p->b, l, NULL, NULL); }

static void unroll(TsTileStmt *s, int64_t times) {
  if (s) ((TsAttr *)(uintptr_t)ts_tile_attr(s, "unroll"))->i = times;
}

static TsTileVal local(Product *p, TsDtype d, int rank, const int64_t *dim) {
  TsTileType t = ts_tile_type(d, rank, dim);
  return ts_tile_alloc(p->b, TS_SPACE_local, &t);
}

/* The tile of an operand at rows (or steps) i and columns j: the axes before are the
 * round's. */
static TsTileVal operand(Product *p, const TsTileStmt *s, TsTileVal i, TsTileVal j,
                         const TsTileType *tile, const int64_t *axes, bool edge) {
  TsTileVal where[TS_TILE_RANK];
  const TsTileType *m = &s->in[0]->type;
  for (int x = 0; x + 2 < m->rank; x++) where[x] = ts_tile_copy_get(p->c, s->in[1 + x]);
  where[m->rank - 2] = i, where[m->rank - 1] = j;
  TsTileType t = *tile;
  t.dtype = m->dtype;
  int64_t own[2];
  for (int x = 0; axes && x < t.rank; x++) own[x] = m->rank - 2 + axes[x];
  TsTileAccess how = {.edge = edge, .naxis = axes ? t.rank : 0, .axes = own};
  TsTileVal v = ts_tile_load(p->b, ts_tile_copy_get(p->c, s->in[0]), where, &t, &how);
  return ts_tile_cast(p->b, v, p->d);
}

static TsTileVal panel_of_columns(Product *p, TsTileVal j) {
  return ts_tile_op2(p->b, TS_OP_floordiv, j, at(p, p->nr));
}

/* ---- packing */
/* Columns of B as panels [panel][k][nr]; `full` of them, then a part of one. */
static void copy_columns(Product *p, TsTileVal k, TsTileVal j, int vectors, bool edge) {
  TsTileType t = ts_tile_vector(p->d, p->lanes);
  TsTileVal row = plus(p, p->pc, k), panel = panel_of_columns(p, j);
  for (int u = 0; u < vectors; u++) {
    TsTileVal col = plus_int(p, plus(p, p->n0, j), u * p->lanes);
    TsTileVal x = operand(p, p->x.b, row, col, &t, NULL, edge && u == vectors - 1);
    ts_tile_store(p->b, p->pb, (TsTileVal[]){panel, k, at(p, u * p->lanes)}, x, NULL);
  }
}

static int edge_vectors(const Product *p) { return (int)div_up(p->x.n % p->nr, p->lanes); }

static void pack_columns(Product *p) {
  if (p->on_the_way && p->x.n % p->nr == 0) return;
  TsTileVal full = down_to(p, p->cols, p->nr);
  TsTileLoop k = loop(p, at(p, 0), p->nk, 1);
  if (p->x.n >= p->nr && !p->on_the_way) {
    TsTileLoop j = loop(p, at(p, 0), full, p->nr);
    unroll(j.stmt, 2);
    copy_columns(p, k.i, j.i, p->nv, false);
    end(p, &j);
  }
  if (p->x.n % p->nr) {
    TsTileLoop rest = loop(p, full, p->cols, p->nr);
    copy_columns(p, k.i, rest.i, edge_vectors(p), p->x.n % p->lanes);
    end(p, &rest);
  }
  end(p, &k);
}

/* Squares of lanes x lanes, transposed. */
static void turn_square(Product *p, TsTileVal k, TsTileVal j, int u, bool edge) {
  static const int64_t axes[2] = {1, 0}, perm[2] = {1, 0};
  TsTileType t = ts_tile_type(p->d, 2, (int64_t[]){p->lanes, p->lanes});
  TsAttr turn = {.type = TS_ATTR_ints, .n = 2, .ints = perm};
  TsTileVal row = plus(p, p->pc, k), col = plus_int(p, plus(p, p->n0, j), u * p->lanes);
  TsTileVal x = operand(p, p->x.b, row, col, &t, axes, edge);
  x = ts_tile_emit1(p->b, TS_TILE_transpose, 1, &x, &turn, &t);
  TsTileVal panel = panel_of_columns(p, j);
  ts_tile_store(p->b, p->pb, (TsTileVal[]){panel, k, at(p, u * p->lanes)}, x, NULL);
}

/* u: the vector of a panel that begins at j. */
static void turn_steps(Product *p, TsTileVal j, int u, bool edge) {
  TsTileVal whole = down_to(p, p->nk, p->lanes);
  if (p->x.k >= p->lanes) {
    TsTileLoop k = loop(p, at(p, 0), whole, p->lanes);
    turn_square(p, k.i, j, u, edge);
    end(p, &k);
  }
  if (p->x.k % p->lanes) {
    TsTileLoop rest = loop(p, whole, p->nk, p->lanes);
    turn_square(p, rest.i, j, u, true);
    end(p, &rest);
  }
}

static void turn_columns(Product *p) {
  TsTileVal full = down_to(p, p->cols, p->nr);
  if (p->x.n >= p->nr) {
    TsTileLoop j = loop(p, at(p, 0), full, p->nr);
    for (int u = 0; u < p->nv; u++) turn_steps(p, j.i, u, false);
    end(p, &j);
  }
  if (p->x.n % p->nr) {
    int vectors = edge_vectors(p);
    TsTileLoop rest = loop(p, full, p->cols, p->nr);
    for (int u = 0; u < vectors; u++)
      turn_steps(p, rest.i, u, u == vectors - 1 && p->x.n % p->lanes);
    end(p, &rest);
  }
}

static TsTileVal row_of(Product *p, TsTileVal i) { return plus(p, plus(p, p->m0, p->r0), i); }

/* Rows as they are, one behind the other. */
static void copy_row(Product *p, TsTileVal r, TsTileVal k, bool edge) {
  TsTileType t = ts_tile_vector(p->d, p->lanes);
  TsTileVal x = operand(p, p->x.a, row_of(p, r), plus(p, p->pc, k), &t, NULL, edge);
  ts_tile_store(p->b, p->pa, (TsTileVal[]){r, k}, x, NULL);
}

static void copy_rows(Product *p) {
  TsTileLoop r = loop(p, at(p, 0), p->near, 1);
  TsTileVal whole = down_to(p, p->nk, p->lanes);
  if (p->x.k >= p->lanes) {
    TsTileLoop k = loop(p, at(p, 0), whole, p->lanes);
    unroll(k.stmt, 4);
    copy_row(p, r.i, k.i, false);
    end(p, &k);
  }
  if (p->x.k % p->lanes) {
    TsTileLoop rest = loop(p, whole, p->nk, p->lanes);
    copy_row(p, r.i, rest.i, true);
    end(p, &rest);
  }
  end(p, &r);
}

/* Elements that are stored for mr rows. */
static int64_t reach_of(const Product *p) {
  int64_t n = 1;
  while (n < p->mr) n *= 2;
  return n;
}

/* Panels of mr rows, for each step of k one vector of which mr are the panel's: the next step
 * writes over the rest. */
static TsTileVal panel_at(Product *p, TsTileVal i, TsTileVal k) {
  TsTileVal panel = times(p, ts_tile_op2(p->b, TS_OP_floordiv, i, at(p, p->mr)), p->panel);
  return plus(p, panel, times(p, k, p->mr));
}

static void turn_rows_part(Product *p, TsTileVal k, TsTileVal i, bool edge) {
  static const int64_t axes[1] = {0};
  TsTileType t = ts_tile_vector(p->d, reach_of(p));
  TsTileVal x = operand(p, p->x.a, row_of(p, i), plus(p, p->pc, k), &t, axes, edge);
  TsTileVal where = panel_at(p, i, k);
  ts_tile_store(p->b, p->pa, &where, x, NULL);
}

static void turn_rows(Product *p) {
  /* Vectors that begin below this lie inside, whatever the block. */
  TsTileVal most = plus_int(p, ts_tile_op2(p->b, TS_OP_sub, at(p, p->x.m), row_of(p, at(p, 0))),
                            p->mr - reach_of(p));
  TsTileVal inside = ts_tile_op2(p->b, TS_OP_minimum, p->near, most);
  inside = ts_tile_op2(p->b, TS_OP_maximum, inside, at(p, 0));
  inside = down_to(p, inside, p->mr);
  TsTileLoop k = loop(p, at(p, 0), p->nk, 1);
  if (p->x.m >= reach_of(p)) {
    TsTileLoop i = loop(p, at(p, 0), inside, p->mr);
    unroll(i.stmt, 4);
    turn_rows_part(p, k.i, i.i, false);
    end(p, &i);
  }
  TsTileLoop rest = loop(p, inside, p->near, p->mr);
  turn_rows_part(p, k.i, rest.i, true);
  end(p, &rest);
  end(p, &k);
}

/* ---- what follows the product */
/* A piece of the block: w elements of one row. */
typedef struct Piece {
  int64_t w;
  TsTileVal m, n;
  bool edge;
} Piece;

static TsTileType piece_type(const Product *p, const Piece *e, const TsTileType *t) {
  TsTileType y = *t;
  if (t->rank == 2 || (t->rank == 1 && t->dim[0] == p->x.nb)) {
    y.rank = 1;
    y.dim[0] = e->w;
    y.dim[1] = 0;
  } else {
    y.rank = 0;
  }
  return y;
}

static int positions(Product *p, const TsTileStmt *s, const Piece *e, TsTileVal *where) {
  int n = s->in[0]->type.rank;
  for (int i = 0; i < n; i++) {
    TsTileVal old = s->in[1 + i];
    where[i] = old == p->x.m0 ? e->m : old == p->x.n0 ? e->n : ts_tile_copy_get(p->c, old);
  }
  return n;
}

static bool along_columns(const Product *p, const TsTileType *t) {
  return t->rank && t->dim[t->rank - 1] == p->x.nb;
}

static void put_load(Product *p, const TsTileStmt *s, const Piece *e) {
  TsTileVal where[TS_TILE_RANK], memory = ts_tile_copy_get(p->c, s->in[0]);
  TsTileType t = piece_type(p, e, &s->out[0]->type);
  TsTileAccess how = {.edge = e->edge && along_columns(p, &s->out[0]->type)};
  positions(p, s, e, where);
  p->c->map[s->out[0]->id] = ts_tile_load(p->b, memory, where, &t, &how);
}

static void put_store(Product *p, const TsTileStmt *s, const Piece *e) {
  TsTileVal where[TS_TILE_RANK], memory = ts_tile_copy_get(p->c, s->in[0]);
  TsTileAccess how = {.stream = ts_tile_attr(s, "stream")->i};
  TsTileVal x = ts_tile_copy_get(p->c, s->in[s->nin - 1]);
  positions(p, s, e, where);
  if (x &&
      e->edge) { /* so many columns are inside: no mask is needed, which stores are slow with */
    static const int64_t zero[2] = {0, 0};
    TsTileType t = x->type;
    TsAttr start = {.type = TS_ATTR_ints, .n = t.rank, .ints = zero};
    t.dim[t.rank - 1] = p->x.n % e->w;
    x = ts_tile_emit1(p->b, TS_TILE_part, 1, &x, &start, &t);
  }
  ts_tile_store(p->b, memory, where, x, &how);
}

static void put_broadcast(Product *p, const TsTileStmt *s, const Piece *e) {
  TsTileType t = piece_type(p, e, &s->out[0]->type);
  TsTileVal x = ts_tile_copy_get(p->c, s->in[0]);
  if (x && x->type.rank < t.rank) x = ts_tile_broadcast(p->b, x, &t, NULL);
  p->c->map[s->out[0]->id] = x;
}

static void put_end(Product *p, const Piece *e, TsTileVal sum) {
  p->c->map[p->x.mma->out[0]->id] = sum;
  for (const TsTileStmt *s = p->x.mma->next; s; s = s->next) {
    p->b->line = s->line;
    if (s->op == TS_TILE_load)
      put_load(p, s, e);
    else if (s->op == TS_TILE_store)
      put_store(p, s, e);
    else if (s->op == TS_TILE_broadcast)
      put_broadcast(p, s, e);
    else {
      TsTileVal in[TS_MAX_IN + TS_MAX_ATTR];
      TsTileType t = piece_type(p, e, &s->out[0]->type);
      for (int i = 0; i < s->nin; i++) in[i] = ts_tile_copy_get(p->c, s->in[i]);
      p->c->map[s->out[0]->id] = ts_tile_emit1(p->b, s->op, s->nin, in, s->attr, &t);
    }
  }
  p->b->line = p->x.mma->line;
}

/* What the rows behind the product read and write of a row of the result: it lies in lines that
 * nobody else reads, too few of them beside each other for the processor to ask by itself. */
static void ask_for_ends(Product *p, TsTileVal m, TsTileVal n, bool far) {
  Piece e = {.m = m, .n = n};
  for (const TsTileStmt *s = p->x.mma->next; s; s = s->next) {
    TsTileVal in[TS_TILE_RANK + 1];
    TsAttr hint[2] = {{.type = TS_ATTR_bool}, {.type = TS_ATTR_bool, .i = far}};
    const TsTileType *t = s->op == TS_TILE_load ? &s->out[0]->type : &s->in[s->nin - 1]->type;
    if ((s->op != TS_TILE_load && s->op != TS_TILE_store) || t->rank != 2) continue;
    in[0] = ts_tile_copy_get(p->c, s->in[0]);
    int rank = positions(p, s, &e, in + 1);
    ts_tile_emit(p->b, TS_TILE_prefetch, rank + 1, in, hint, 0, NULL);
  }
}

/* `rows` rows of sums in memory from row `first` of the block on. */
static void end_columns(Product *p, TsTileVal row, TsTileVal m, TsTileVal j, int64_t w,
                        bool edge) {
  TsTileType t = ts_tile_vector(p->d, w);
  TsTileVal sum = ts_tile_load(p->b, p->acc, (TsTileVal[]){row, j}, &t, NULL);
  Piece e = {.w = w, .m = m, .n = plus(p, p->n0, j), .edge = edge};
  for (int64_t u = 0; u < w && p->blocks; u += line_of(p))
    ask_for_ends(p, plus_int(p, m, AHEAD_ENDS), plus_int(p, e.n, u), true);
  put_end(p, &e, sum);
}

/* Vectors at once, whose chains interleave: as many as a block's columns are made of. */
static int64_t together(const Product *p) {
  int64_t w = MOST_TOGETHER * (int64_t)p->lanes;
  while (w > p->lanes && (w > p->x.n || (p->x.nb % w && p->x.nb < p->x.n))) w /= 2;
  return w;
}

static void end_rows(Product *p, TsTileVal first, TsTileVal rows) {
  int64_t w = together(p);
  ts_tile_mark(p->b, TS_STAGE_epilogue, "rows", false);
  TsTileVal full = down_to(p, p->cols, w);
  TsTileLoop r = loop(p, at(p, 0), rows, 1);
  TsTileVal m = plus(p, plus(p, p->m0, first), r.i);
  if (p->x.n >= w) {
    TsTileLoop j = loop(p, at(p, 0), full, w);
    end_columns(p, r.i, m, j.i, w, false);
    end(p, &j);
  }
  if (p->x.n % w) {
    TsTileLoop rest = loop(p, full, p->cols, w);
    end_columns(p, r.i, m, rest.i, w, true);
    end(p, &rest);
  }
  end(p, &r);
  ts_tile_mark(p->b, TS_STAGE_epilogue, "rows", true);
}

/* ---- the register tile */
/* The element of A in row i + r of the block and step k, in every lane. */
static TsTileVal row_at(Product *p, TsTileVal i, TsTileVal k, int r) {
  TsTileType one = ts_tile_scalar(p->d), vector = ts_tile_vector(p->d, p->lanes);
  TsTileVal x;
  if (!p->pack_a) {
    TsTileVal row = plus_int(p, row_of(p, i), r);
    x = operand(p, p->x.a, row, plus(p, p->pc, k), &one, NULL, false);
  } else if (!p->turned_a) {
    x = ts_tile_load(p->b, p->pa, (TsTileVal[]){plus_int(p, i, r), k}, &one, NULL);
  } else {
    TsTileVal where = plus_int(p, panel_at(p, i, k), r);
    x = ts_tile_load(p->b, p->pa, &where, &one, NULL);
  }
  return ts_tile_broadcast(p->b, x, &vector, NULL);
}

static void ask(Product *p, const TsTileStmt *s, TsTileVal i, TsTileVal j, bool far) {
  TsTileVal in[TS_TILE_RANK + 1];
  const TsTileType *m = &s->in[0]->type;
  TsAttr hint[2] = {{.type = TS_ATTR_bool}, {.type = TS_ATTR_bool, .i = far}};
  in[0] = ts_tile_copy_get(p->c, s->in[0]);
  for (int x = 0; x + 2 < m->rank; x++) in[1 + x] = ts_tile_copy_get(p->c, s->in[1 + x]);
  in[m->rank - 1] = i, in[m->rank] = j;
  ts_tile_emit(p->b, TS_TILE_prefetch, m->rank + 1, in, hint, 0, NULL);
}

/* A vector of a panel: packed, or where B lies and then packed. */
static TsTileVal column_at(Product *p, TsTileVal panel, TsTileVal j, TsTileVal k, int u,
                           bool first) {
  TsTileType vector = ts_tile_vector(p->d, p->lanes);
  TsTileVal where[3] = {panel, k, at(p, u * p->lanes)};
  if (!first) return ts_tile_load(p->b, p->pb, where, &vector, NULL);
  TsTileVal row = plus(p, p->pc, k), col = plus_int(p, plus(p, p->n0, j), u * p->lanes);
  TsTileVal x = operand(p, p->x.b, row, col, &vector, NULL, false);
  ask(p, p->x.b, plus_int(p, row, AHEAD_B), col, false);
  ts_tile_store(p->b, p->pb, where, x, NULL);
  return x;
}

/* One step of k. Row by row: the vectors of B stay in registers, an element of A needs one at a
 * time. */
static void step(Product *p, TsTileVal i, TsTileVal panel, TsTileVal j, TsTileVal k, int rows,
                 int vectors, bool first, TsTileVal *sum) {
  TsTileVal b[MOST_VECTORS];
  for (int u = 0; u < vectors; u++) b[u] = column_at(p, panel, j, k, u, first);
  if (!p->pack_a && p->turned_a)
    ask(p, p->x.a, row_of(p, i), plus_int(p, plus(p, p->pc, k), AHEAD_A), false);
  for (int r = 0; r < rows; r++) {
    TsTileVal a = row_at(p, i, k, r), *s = sum + r * vectors;
    for (int u = 0; u < vectors; u++) s[u] = ts_tile_op3(p->b, TS_OP_fma, a, b[u], s[u]);
  }
}

/* The part of the next rows that the tile at column j asks for. */
static void ask_for_rows(Product *p, TsTileVal i, TsTileVal j) {
  int64_t line = line_of(p), tiles = div_up(p->x.nb, p->nr);
  int64_t share = round_up(div_up(p->kc, tiles), line);
  TsTileVal from = plus(p, p->pc, times(p, panel_of_columns(p, j), share));
  TsTileLoop l = loop(p, at(p, 0), at(p, share), line);
  for (int r = 0; r < p->mr; r++)
    ask(p, p->x.a, plus_int(p, row_of(p, i), p->mr + r), plus(p, from, l.i), true);
  end(p, &l);
}

/* i, j: row and column in the block; row: of the sums in memory. */
static void tile(Product *p, TsTileVal i, TsTileVal row, TsTileVal j, int rows, int vectors,
                 bool edge, bool first) {
  TsTileVal sum[MOST_ROWS * MOST_VECTORS], column[MOST_VECTORS];
  TsTileType vector = ts_tile_vector(p->d, p->lanes);
  int n = rows * vectors;
  for (int u = 0; u < vectors; u++) column[u] = plus_int(p, j, u * p->lanes);
  for (int x = 0; x < n; x++) {
    TsTileVal where[2] = {plus_int(p, row, x / vectors), column[x % vectors]};
    sum[x] = p->blocks ? ts_tile_load(p->b, p->acc, where, &vector, NULL)
                       : ts_tile_const(p->b, 0, &vector);
  }
  TsTileVal panel = panel_of_columns(p, j);
  if (p->ask_rows && rows == p->mr) ask_for_rows(p, i, j);
  for (int x = 0; x < n && !p->blocks; x++)
    if (x % vectors * p->lanes % line_of(p) == 0)
      ask_for_ends(p, plus_int(p, row_of(p, i), x / vectors),
                   plus(p, p->n0, column[x % vectors]), !p->registers);
  ts_tile_mark(p->b, TS_STAGE_mma, NULL, false);
  TsTileLoop l = ts_tile_for(p->b, at(p, 0), p->nk, 1, false, n, sum);
  if (!l.carry) return;
  unroll(l.stmt, first ? 1 : 4);
  for (int x = 0; x < n; x++) sum[x] = l.carry[x];
  step(p, i, panel, j, l.i, rows, vectors, first, sum);
  ts_tile_for_end(p->b, &l, sum, sum);
  ts_tile_mark(p->b, TS_STAGE_mma, NULL, true);
  TsTileStage after = p->registers ? TS_STAGE_epilogue : TS_STAGE_mma;
  ts_tile_mark(p->b, after, "sums", false);
  for (int x = 0; x < n; x++) {
    int r = x / vectors, u = x % vectors;
    TsTileVal where[2] = {plus_int(p, row, r), column[u]};
    if (!p->registers) {
      ts_tile_store(p->b, p->acc, where, sum[x], NULL);
      continue;
    }
    Piece e = {.w = p->lanes,
               .m = plus_int(p, row_of(p, i), r),
               .n = plus(p, p->n0, column[u]),
               .edge = edge && u == vectors - 1};
    put_end(p, &e, sum[x]);
  }
  ts_tile_mark(p->b, after, "sums", true);
}

/* The columns of a panel of rows, tile by tile; none if it is not `wanted` (NULL: it is). */
static void columns_of(Product *p, TsTileVal i, int rows, bool first, TsTileVal wanted) {
  TsTileVal row = p->blocks ? plus(p, p->r0, i) : at(p, 0), full = down_to(p, p->cols, p->nr);
  TsTileVal most = full, from = full;
  if (wanted) {
    most = ts_tile_op3(p->b, TS_OP_where, wanted, full, at(p, 0));
    from = ts_tile_op3(p->b, TS_OP_where, wanted, full, p->cols);
  }
  if (p->x.n >= p->nr) {
    TsTileLoop j = loop(p, at(p, 0), most, p->nr);
    tile(p, i, row, j.i, rows, p->nv, false, first);
    end(p, &j);
  }
  if (p->x.n % p->nr) {
    TsTileLoop rest = loop(p, from, p->cols, p->nr);
    tile(p, i, row, rest.i, rows, edge_vectors(p), p->x.n % p->lanes != 0, false);
    end(p, &rest);
  }
}

static void panel_of(Product *p, TsTileVal i, int rows, bool first) {
  columns_of(p, i, rows, first, NULL);
  if (!p->registers && !p->blocks) end_rows(p, plus(p, p->r0, i), at(p, rows));
}

/* Whether panels of all kinds, the first one, whole ones and the last, stand in one loop: what
 * follows them is most of the code to compile, and then there once. */
static bool in_one_loop(const Product *p) {
  return !p->registers && !p->blocks && (p->on_the_way || p->x.m % p->mr);
}

static void all_panels(Product *p) {
  TsTileLoop i = loop(p, at(p, 0), p->near, p->mr);
  TsTileVal left = ts_tile_op2(p->b, TS_OP_sub, p->near, i.i), whole = NULL;
  if (p->x.m % p->mr) whole = ts_tile_op2(p->b, TS_OP_ge, left, at(p, p->mr));
  if (p->x.m >= p->mr && p->on_the_way) {
    TsTileVal row = plus(p, p->r0, i.i);
    TsTileVal first = ts_tile_op2(p->b, TS_OP_eq, row, at(p, 0));
    TsTileVal later = ts_tile_op2(p->b, TS_OP_gt, row, at(p, 0));
    if (whole) later = ts_tile_op2(p->b, TS_OP_logical_and, later, whole);
    columns_of(p, i.i, p->mr, true, first);
    columns_of(p, i.i, p->mr, false, later);
  } else if (p->x.m >= p->mr) {
    columns_of(p, i.i, p->mr, false, whole);
  }
  if (p->x.m % p->mr) {
    TsTileVal last = ts_tile_op2(p->b, TS_OP_lt, left, at(p, p->mr));
    columns_of(p, i.i, (int)(p->x.m % p->mr), false, last);
  }
  TsTileVal rows = whole ? ts_tile_op2(p->b, TS_OP_minimum, left, at(p, p->mr)) : at(p, p->mr);
  end_rows(p, plus(p, p->r0, i.i), rows);
  end(p, &i);
}

static void panels(Product *p) {
  if (in_one_loop(p)) {
    all_panels(p);
    return;
  }
  TsTileVal full = down_to(p, p->near, p->mr);
  if (p->x.m >= p->mr) {
    TsTileLoop i = loop(p, at(p, 0), full, p->mr);
    panel_of(p, i.i, p->mr, false);
    end(p, &i);
  }
  if (p->x.m % p->mr) {
    TsTileLoop rest = loop(p, full, p->near, p->mr);
    panel_of(p, rest.i, (int)(p->x.m % p->mr), false);
    end(p, &rest);
  }
}

/* ---- a round */
static void clear(Product *p) {
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

static void memory(Product *p) {
  int64_t nb = round_up(p->x.nb, p->nr), mb = round_up(p->x.mb, p->mr);
  int64_t sub = least(mb, p->sub);
  p->pb = local(p, p->d, 3, (int64_t[]){nb / p->nr, p->kpad, p->nr});
  if (p->pack_a && p->turned_a)
    p->pa = local(p, p->d, 1, (int64_t[]){sub / p->mr * p->panel + 16});
  else if (p->pack_a) /* a line more, so that rows are no power of two apart */
    p->pa = local(p, p->d, 2, (int64_t[]){sub, p->kpad + p->lanes});
  if (!p->registers)
    p->acc = local(
        p, p->d, 2,
        (int64_t[]){p->blocks ? mb : p->mr, round_up(nb, MOST_TOGETHER * (int64_t)p->lanes)});
}

/* Of `size` from `from` on, at most block. */
static TsTileVal left_of(Product *p, TsTileVal size, TsTileVal from, int64_t block) {
  int64_t n;
  bool given = number(size, &n);
  if (given && n <= block) return size;
  TsTileVal rest = ts_tile_op2(p->b, TS_OP_sub, size, from);
  return given && n % block == 0 ? at(p, block)
                                 : ts_tile_op2(p->b, TS_OP_minimum, rest, at(p, block));
}

static void pack_rows(Product *p) {
  if (!p->pack_a) return;
  ts_tile_mark(p->b, TS_STAGE_load, "pack rows", false);
  if (p->turned_a)
    turn_rows(p);
  else
    copy_rows(p);
  ts_tile_mark(p->b, TS_STAGE_load, "pack rows", true);
}

static void steps(Product *p) {
  bool all = p->turned_b || !p->on_the_way || p->x.n % p->nr;
  if (all) ts_tile_mark(p->b, TS_STAGE_load, "pack columns", false);
  if (p->turned_b)
    turn_columns(p);
  else
    pack_columns(p);
  if (all) ts_tile_mark(p->b, TS_STAGE_load, "pack columns", true);
  bool apart = p->on_the_way && !in_one_loop(p);
  if (apart) {
    p->r0 = at(p, 0), p->near = at(p, p->mr);
    pack_rows(p);
    panel_of(p, p->r0, p->mr, true);
  }
  int64_t begin = apart ? p->mr : 0;
  TsTileVal rest = minus(p, p->rows, begin);
  TsTileLoop l = loop(p, at(p, 0), rest, p->sub);
  p->r0 = plus_int(p, l.i, begin);
  p->near = left_of(p, rest, l.i, p->sub);
  pack_rows(p);
  panels(p);
  end(p, &l);
}

static void round_of(Product *p) {
  p->m0 = ts_tile_copy_get(p->c, (TsTileVal)(uintptr_t)p->x.m0);
  p->n0 = ts_tile_copy_get(p->c, (TsTileVal)(uintptr_t)p->x.n0);
  p->rows = left_of(p, at(p, p->x.m), p->m0, p->x.mb);
  p->cols = left_of(p, at(p, p->x.n), p->n0, p->x.nb);
  memory(p);
  if (!p->blocks) {
    p->pc = at(p, 0), p->nk = at(p, p->x.k);
    steps(p);
    return;
  }
  clear(p);
  TsTileLoop l = loop(p, at(p, 0), at(p, p->x.k), p->kc);
  p->pc = l.i;
  p->nk = left_of(p, at(p, p->x.k), l.i, p->kc);
  steps(p);
  end(p, &l);
  end_rows(p, at(p, 0), p->rows);
}

static int each(TsTileCopy *c, const TsTileStmt *s, void *arg) {
  Product *p = arg;
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

/* Needs: block form, legal, ts_tile_is_product. Keeps: every bit of the results. Gives: a new
 * kernel in explicit form, pointwise rows not yet expanded, or NULL with the error. */
TsTile *ts_tile_product(const TsTile *k, const TsTarget *target, TsError *err) {
  Product p = {.t = target, .from = k};
  if (!match(k, &p.x) || target->vector_bytes < 16)
    return ts_error_set(err, TS_ERR_value, "%s: no product that is known", k->name), NULL;
  plan(&p);
  if ((p.x.mb < p.x.m && p.x.mb % p.mr) || (p.x.nb < p.x.n && p.x.nb % p.nr))
    return ts_error_set(err, TS_ERR_value,
                        "%s: blocks of %lldx%lld for register tiles of %dx%d", k->name,
                        (long long)p.x.mb, (long long)p.x.nb, p.mr, p.nr),
           NULL;
  TsTile *y = ts_tile_copy(k, each, &p, err);
  if (!y) return NULL;
  y->form = TS_FORM_explicit;
  y->target = ts_arena_text(&y->arena, target->name);
  if (y->target) return ts_tile_dce(y), y;
  ts_tile_free(y);
  return ts_error_set(err, TS_ERR_memory, "out of memory"), NULL;
}
