/* What could be chosen for products and attention, and for kernels whose rounds are given.
 *
 * Of a product the block of a round, the register tile, the steps of k between two visits of a
 * sum, and whether rows are packed are free: each sum stays one chain of multiply-adds in
 * increasing k. Of attention it is the number of query rows of a round. */
#include <string.h>

#include "ir/sched/attention.h"
#include "ir/sched/choice.h"
#include "ir/sched/conv.h"
#include "ir/sched/prologue.h"
#include "ir/sched/product/product.h"

enum { LEAST_STEPS = 128, MOST_STEPS = 2048, LEAST_COLUMNS = 64 };

/* ---- products */
static void add_registers(TsChoiceList *l, const TsTarget *t) {
  for (int i = 0, high; (high = ts_tile_product_high(t, i)); i++)
    ts_sched_choice_add(l, (TsSchedChoice){.high = high});
}

static void add_steps(TsChoiceList *l, int64_t k) {
  for (int steps = LEAST_STEPS; steps <= MOST_STEPS; steps *= 2)
    if (steps != TS_PRODUCT_STEPS && (steps < k || steps / 2 < k))
      ts_sched_choice_add(l, (TsSchedChoice){.depth = steps});
}

static void add_pack(TsChoiceList *l) {
  for (int pack = 1; pack <= 2; pack++) ts_sched_choice_add(l, (TsSchedChoice){.pack = pack});
}

/* What makes A is computed while it is packed. */
static bool packs_anyway(const TsChoiceList *l) {
  const TsNode *p = ts_sched_product_of(l->g);
  return l->s->of[p->in[TS_SIDE_a]->node->id] == l->g->index;
}

/* Half and double the usual block both ways. */
static void add_blocks(TsChoiceList *l, const TsProductSize *s, TsDtype d) {
  int64_t b[2];
  ts_tile_product_block(l->s->target, d, s, b);
  for (int rows = -1; rows <= 1; rows++)
    for (int cols = -1; cols <= 1; cols++) {
      int64_t m = rows < 0 ? b[0] / 2 : rows ? b[0] * 2 : b[0];
      int64_t n = cols < 0 ? b[1] / 2 : cols ? b[1] * 2 : b[1];
      if ((!rows && !cols) || (rows > 0 && b[0] >= s->m) || (cols > 0 && b[1] >= s->n))
        continue;
      if (m < 1 || (cols < 0 && n < LEAST_COLUMNS)) continue;
      ts_sched_choice_add(l, (TsSchedChoice){.rows = (int)m, .columns = (int)n});
    }
}

double ts_sched_choice_product_usec(const TsSched *s, const TsGroup *g,
                                    const TsSchedChoice *c) {
  TsProductSize size;
  TsDtype d;
  int64_t block[2];
  if (!ts_sched_product_size(s, g, &size, &d)) return g->usec;
  size.high = size.steps = 0;
  ts_tile_product_block(s->target, d, &size, block);
  double usual = ts_tile_product_cost(s->target, d, &size, block);
  size.high = c->high, size.steps = c->depth;
  ts_tile_product_near(s->target, d, &size, c->rows, c->columns, block);
  double now = ts_tile_product_cost(s->target, d, &size, block);
  return g->usec * now / usual * (c->pack == 2 ? 1.02 : c->pack == 1 ? 1.01 : 1);
}

/* ---- attention */
static void add_queries(TsChoiceList *l) {
  const TsMeta *q = &l->g->node[0]->in[0]->meta;
  int64_t s = q->dim[q->ndim - 2];
  for (int rows = 8; rows <= 64; rows *= 2)
    if (rows < s) ts_sched_choice_add(l, (TsSchedChoice){.rows = rows});
}

void ts_sched_choice_blocks(TsChoiceList *l) {
  TsProductSize size;
  TsDtype d;
  add_registers(l, l->s->target);
  if (l->g->kind == TS_GROUP_attention) {
    if (!ts_sched_is_attention_grad(l->g->node[0])) add_queries(l);
    return;
  }
  if (!ts_sched_product_size(l->s, l->g, &size, &d)) return;
  size.high = size.steps = 0;
  add_blocks(l, &size, d);
  add_steps(l, size.k);
  if (!packs_anyway(l)) add_pack(l);
}

/* ---- convolutions */
void ts_sched_choice_conv(TsChoiceList *l) {
  const TsNode *n = NULL;
  for (int i = 0; i < l->g->nnode; i++)
    if (ts_sched_is_conv(l->g->node[i])) n = l->g->node[i];
  if (!n) return;
  const TsMeta *y = &n->out[0].meta;
  int64_t rows = y->ndim > 3 ? y->dim[y->ndim - 2] : 1, maps = y->dim[1];
  for (int some = 1; some <= 32 && some <= rows; some *= 2)
    ts_sched_choice_add(l, (TsSchedChoice){.rows = some});
  for (int some = 12; some <= 96 && some < 2 * maps; some *= 2)
    ts_sched_choice_add(l, (TsSchedChoice){.columns = some});
  add_registers(l, l->s->target);
}

/* ---- kernels whose rounds are given */
static bool multiplies(const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op == TS_TILE_mma || s->op == TS_TILE_outer) return true;
    for (int i = 0; i < s->nregion; i++)
      if (multiplies(s->region[i])) return true;
  }
  return false;
}

/* The sizes of tiles are numbers here, or the kernel takes any. */
static int64_t steps_of(const TsTileRegion *r, const int64_t *dim) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op == TS_TILE_mma) return ts_tile_extent(&s->in[0]->type, 1, dim);
    int64_t inside = 0;
    for (int i = 0; i < s->nregion && !inside; i++) inside = steps_of(s->region[i], dim);
    if (inside) return inside;
  }
  return 0;
}

int ts_sched_choices_tile(const TsTile *k, const TsTarget *t, int threads, const int64_t *dim,
                          TsSchedChoice out[TS_SCHED_CHOICES]) {
  TsChoiceList l = {.at = out};
  ts_sched_choice_add(&l, (TsSchedChoice){0});
  if (k->form != TS_FORM_block) return l.n;
  bool product = ts_tile_is_product(k, t);
  if (multiplies(k->body)) add_registers(&l, t);
  if (product) add_steps(&l, steps_of(k->body, dim));
  if (product) add_pack(&l);
  for (int unroll = 4; unroll && !product; unroll = unroll == 4   ? 2
                                                    : unroll == 2 ? 8
                                                                  : unroll == 8)
    ts_sched_choice_add(&l, (TsSchedChoice){.unroll = unroll});
  int wide = t->vector_bytes / 2;
  if (wide >= 16 && !product) ts_sched_choice_add(&l, (TsSchedChoice){.vector = wide});
  for (int grain = 1; grain <= 64 && threads > 1; grain *= 8)
    ts_sched_choice_add(&l, (TsSchedChoice){.grain = grain});
  return l.n;
}
