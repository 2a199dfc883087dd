/* A product recognised: its loop, its operands, that its rounds are whole blocks, and that what
 * follows can be done with pieces of rows; all that the pass takes for granted. See ir/tile/product/product.h for the form. */
#include "ir/tile/product/state.h"

static bool is_zero(const TsTileValue *v) {
  return v->stmt && v->stmt->op == TS_TILE_const && ts_tile_attr(v->stmt, "value")->f == 0;
}

/* One cast: several may round in between. */
static const TsTileStmt *load_of(const TsTileValue *v) {
  if (v->stmt && v->stmt->op == TS_TILE_cast) v = v->stmt->in[0];
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

/* The axes before the last n are those of the round, one position each. Vectors of it look for ends
 * of matrices alone, so that these positions have to be inside by themselves. */
static bool good_batch(const TsTileStmt *s, int n) {
  const TsTileType *m = &s->in[0]->type;
  for (int i = 0; i + n < m->rank && ts_tile_attr(s, "edge")->i; i++)
    if (ts_tile_dim_is(m->dim[i]) || !ts_tile_product_whole(s->in[1 + i], m->dim[i], 1))
      return false;
  return true;
}

/* A load of all of one axis, at position 0, and of a block of another. */
static bool good_load(const TsTileStmt *s, int whole) {
  const TsTileType *m = &s->in[0]->type, *t = &s->out[0]->type;
  if (m->rank < 2 || t->rank != 2 || !known(m) || has_axes(s) || !good_batch(s, 2))
    return false;
  int axis = m->rank - 2 + whole;
  return is_zero(s->in[1 + axis]) && t->dim[whole] == m->dim[axis];
}

/* Memory is touched at the block, in matrices and vectors of its sizes. */
static bool at_block(const TsTileStmt *s, const TsTileType *t, const TsProductMatch *x) {
  const TsTileType *m = &s->in[0]->type;
  const TsTileVal *at = s->in + 1;
  int last = m->rank - 1;
  if (!good_batch(s, t->rank)) return false;
  if (t->rank == 1 && t->dim[0] == x->mb) return at[last] == x->m0 && m->dim[last] == x->m;
  if (t->rank && (at[last] != x->n0 || m->dim[last] != x->n)) return false;
  return t->rank < 2 || (at[last - 1] == x->m0 && m->dim[last - 1] == x->m);
}

/* Tiles that are there in pieces: those of the product and of what follows it. */
static bool reads_pieces(const TsTileStmt *s, const TsProductMatch *x) {
  for (int i = 0; i < s->nin; i++) {
    const TsTileValue *v = s->in[i];
    if (!v->type.rank || ts_tile_memory(&v->type)) continue;
    const TsTileStmt *behind = x->mma;
    while (behind && behind != v->stmt) behind = behind->next;
    if (!behind) return false;
  }
  return true;
}

/* What follows the product, in terms of a block: [mb,nb], [nb], [mb] or a number. */
static bool good_end(const TsTileStmt *s, const TsProductMatch *x) {
  bool writes = s->op == TS_TILE_store, reads = s->op == TS_TILE_load;
  bool plain = s->op < TS_OP_COUNT || s->op == TS_TILE_cast || s->op == TS_TILE_const ||
               s->op == TS_TILE_bits || s->op == TS_TILE_broadcast || s->op == TS_TILE_bitcast;
  if (!writes && !reads && !plain) return false;
  if ((writes || reads) && has_axes(s)) return false;
  const TsTileType *t = writes ? &s->in[s->nin - 1]->type : &s->out[0]->type;
  if (writes && t->rank != 2) return false;
  if ((writes || reads) && !at_block(s, t, x)) return false;
  if (!reads_pieces(s, x)) return false;
  if (t->rank == 2) return t->dim[0] == x->mb && t->dim[1] == x->nb;
  return t->rank == 0 || (t->rank == 1 && (t->dim[0] == x->nb || t->dim[0] == x->mb));
}

/* What is written is read again only by who wrote it: at its block. */
static bool good_memory(const TsProductMatch *x) {
  const TsTileStmt *first = x->loop->region[0]->first;
  for (const TsTileStmt *w = x->mma; w; w = w->next)
    for (const TsTileStmt *r = first; r && w->op == TS_TILE_store; r = r->next) {
      bool behind = r == x->mma;
      for (const TsTileStmt *s = x->mma; s && !behind; s = s->next) behind = s == r;
      if (r->op == TS_TILE_load && r->in[0] == w->in[0] &&
          (!behind || r->out[0]->type.rank != 2))
        return false;
    }
  return true;
}

/* ---- prologues: tiles before the product, of which each belongs to one operand by its shape */
static bool is_of(const TsProductMatch *x, const TsTileType *t, TsProductOf of) {
  const TsTileType *whole = &x->mma->in[of]->type;
  return t->rank == 2 && t->dim[0] == whole->dim[0] && t->dim[1] == whole->dim[1];
}

/* Position and size of an axis of an operand: that of k is read from 0 on, all of it. */
static bool good_axis(const TsProductMatch *x, TsProductOf of, int axis, TsTileVal at,
                      int64_t size) {
  if (axis == (of == TS_PRODUCT_a)) return is_zero(at) && size == x->k;
  return of == TS_PRODUCT_a ? at == x->m0 && size == x->m : at == x->n0 && size == x->n;
}

static bool good_whole(const TsTileStmt *s, const TsProductMatch *x) {
  const TsTileType *m = &s->in[0]->type, *t = &s->out[0]->type;
  for (int of = 0; of < 2; of++) {
    if (!is_of(x, t, (TsProductOf)of)) continue;
    bool good = m->rank >= 2 && known(m) && !has_axes(s) && good_batch(s, 2);
    for (int i = 0, axis; i < 2 && good; i++) {
      axis = m->rank - 2 + i;
      good = good_axis(x, (TsProductOf)of, i, s->in[1 + axis], m->dim[axis]);
    }
    return good;
  }
  return false;
}

/* s repeats what is loaded for each row or each column of an operand. */
static bool good_line(const TsTileStmt *s, const TsProductMatch *x) {
  const TsTileStmt *from = s->in[0]->stmt;
  if (!from || from->op != TS_TILE_load || has_axes(from)) return false;
  const TsTileType *m = &from->in[0]->type;
  int axis = (int)ts_tile_attr(s, "axes")->ints[0], last = m->rank - 1;
  for (int of = 0; of < 2; of++)
    if (is_of(x, &s->out[0]->type, (TsProductOf)of))
      return m->rank && known(m) && good_batch(from, 1) &&
             good_axis(x, (TsProductOf)of, axis, from->in[1 + last], m->dim[last]);
  return false;
}

static bool reads_only_round(const TsTileStmt *s) {
  for (int i = 0; i < s->nin; i++) {
    const TsTileValue *v = s->in[i];
    if (v->type.rank && !ts_tile_memory(&v->type) &&
        (!v->stmt || v->stmt->in_region != s->in_region))
      return false;
  }
  return true;
}

static bool good_prologue(const TsTileStmt *s, const TsProductMatch *x) {
  const TsTileType *t = s->nout == 1 ? &s->out[0]->type : NULL;
  if (t && !t->rank) return true;
  if (!t || ts_tile_memory(t) || !reads_only_round(s)) return false;
  if (s->op == TS_TILE_load) return t->rank == 1 || good_whole(s, x);
  if (t->rank != 2) return false;
  if (s->op == TS_TILE_broadcast && s->in[0]->type.rank) return good_line(s, x);
  return s->op < TS_OP_COUNT || s->op == TS_TILE_cast || s->op == TS_TILE_const ||
         s->op == TS_TILE_bits || s->op == TS_TILE_broadcast || s->op == TS_TILE_bitcast;
}

/* The first load of all elements of an operand that has a prologue. */
static const TsTileStmt *first_whole(const TsProductMatch *x, TsProductOf of) {
  for (const TsTileStmt *s = x->loop->region[0]->first; s != x->mma; s = s->next)
    if (s->op == TS_TILE_load && is_of(x, &s->out[0]->type, of)) return s;
  return NULL;
}

static bool good_prologues(const TsProductMatch *x) {
  for (const TsTileStmt *s = x->mma->prev; s; s = s->prev)
    if (!good_prologue(s, x)) return false;
  return true;
}

/* Numbers before the product are the round's, tiles what it is made of, and nothing else happens. */
static bool good_before(const TsTileStmt *s) {
  if (s->op == TS_TILE_mark) return true;
  if (s->nout != 1 || s->op == TS_TILE_alloc || s->op == TS_TILE_view) return false;
  for (int i = 0; i < s->nin && !s->out[0]->type.rank; i++)
    if (s->in[i]->type.rank && !ts_tile_memory(&s->in[i]->type)) return false;
  return true;
}

static bool good_places(const TsProductMatch *x) {
  return ts_tile_product_whole(x->m0, x->m, x->mb) && ts_tile_product_whole(x->n0, x->n, x->nb);
}

/* ---- the product */
static bool match_product(const TsTileStmt *s, TsProductMatch *x) {
  x->mma = s;
  for (int of = 0; of < 2; of++) {
    x->of[of] = load_of(s->in[of]);
    x->prologue[of] = !x->of[of];
    if (x->prologue[of]) x->of[of] = first_whole(x, (TsProductOf)of);
    if (!x->of[of] || !good_load(x->of[of], of == TS_PRODUCT_a)) return false;
  }
  if (!is_zero(s->in[2])) return false;
  const TsTileStmt *a = x->of[TS_PRODUCT_a], *b = x->of[TS_PRODUCT_b];
  const TsTileType *ma = &a->in[0]->type, *mb = &b->in[0]->type;
  x->m = ma->dim[ma->rank - 2], x->k = ma->dim[ma->rank - 1], x->n = mb->dim[mb->rank - 1];
  x->mb = s->out[0]->type.dim[0], x->nb = s->out[0]->type.dim[1];
  x->m0 = a->in[ma->rank - 1], x->n0 = b->in[mb->rank];
  if ((x->prologue[0] || x->prologue[1]) && !good_prologues(x)) return false;
  /* A tile that is as long both ways is told apart by nothing else. */
  return x->m0 != x->n0 && x->mb != x->nb && x->k > 0 && good_places(x);
}

/* Tiles from before the product are its own: what stands behind it reads none of them, since they are
 * made in other pieces there, or not at all. */
static bool reads_before(const TsTileStmt *s, const TsProductMatch *x) {
  for (int i = 0; i < s->nin; i++)
    for (const TsTileStmt *b = x->loop->region[0]->first; b != x->mma; b = b->next)
      if (s->in[i]->stmt == b && s->in[i]->type.rank) return true;
  return false;
}

bool ts_tile_product_match(const TsTile *k, TsProductMatch *x) {
  *x = (TsProductMatch){.loop = NULL};
  if (k->form != TS_FORM_block) return false;
  for (const TsTileStmt *s = k->body->first; s; s = s->next) {
    if (s->nregion && (s->op != TS_TILE_for || x->loop)) return false;
    if (s->op == TS_TILE_for) x->loop = s;
  }
  if (!x->loop || x->loop->nout || !ts_tile_attr(x->loop, "parallel")->i) return false;
  for (const TsTileStmt *s = x->loop->region[0]->first; s; s = s->next) {
    if (s->nregion) return false;
    if (s->op == TS_TILE_mma && (x->mma || !match_product(s, x))) return false;
    if (s->op != TS_TILE_mma && !(x->mma ? good_end(s, x) : good_before(s))) return false;
    if (x->mma && s != x->mma && reads_before(s, x)) return false;
  }
  return x->mma && good_memory(x);
}
