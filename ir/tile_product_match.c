/* A product recognised: its loop, its operands, the size of a round, and that what follows is
 * something that can be done with pieces of rows. See ir/tile_product.h for the form. */
#include "ir/tile_product_state.h"

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
static bool good_end(const TsTileStmt *s, const TsProductMatch *x) {
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

static bool match_product(const TsTileStmt *s, TsProductMatch *x) {
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
    if (s->op != TS_TILE_mma && x->mma && !good_end(s, x)) return false;
  }
  return x->mma != NULL;
}

bool ts_tile_is_product(const TsTile *k) {
  TsProductMatch x;
  return ts_tile_product_match(k, &x);
}
