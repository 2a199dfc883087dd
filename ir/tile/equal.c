/* Equality of kernels, as far as the text tells them apart: places do not count. */
#include <string.h>

#include "ir/text/name.h"
#include "ir/text/value.h"
#include "ir/tile/text.h"

typedef struct Pair {
  TsTileNames a, b;
  const TsTile *ka, *kb;
  TsTextMap other; /* the value of b by the one of a that was defined beside it */
  TsText *why;
} Pair;

static const char *shown(const char *s) { return !s ? "none" : *s ? s : "unnamed"; }

static bool differ(const Pair *p, const char *what, const char *a, const char *b) {
  if (p->why) ts_text_format(p->why, "%s: %s or %s", what, shown(a), shown(b));
  return false;
}

static bool same_count(const Pair *p, const char *what, int64_t a, int64_t b) {
  if (a != b && p->why)
    ts_text_format(p->why, "%s: %lld or %lld", what, (long long)a, (long long)b);
  return a == b;
}

static bool same_word(const Pair *p, const char *what, const char *a, const char *b) {
  return (a && b ? !strcmp(a, b) : a == b) || differ(p, what, a, b);
}

static bool same_type(const Pair *p, TsTileVal a, TsTileVal b) {
  TsText ta = {0}, tb = {0};
  ts_tile_type_text(p->ka, &a->type, &ta);
  ts_tile_type_text(p->kb, &b->type, &tb);
  bool same = same_word(p, ts_tile_names_of(&p->a, a), ta.at, tb.at);
  ts_text_free(&ta);
  ts_text_free(&tb);
  return same;
}

static bool same_values(Pair *p, const char *what, int na, const TsTileVal *a, int nb,
                        const TsTileVal *b) {
  if (!same_count(p, what, na, nb)) return false;
  for (int i = 0; i < na; i++) {
    TsMapSlot *s = ts_text_map_enter(&p->other, a[i], TS_KEY_ADDRESS);
    if (!s) return differ(p, "out of memory", "equal", "not");
    s->value = b[i];
    if (!same_word(p, what, ts_tile_names_of(&p->a, a[i]), ts_tile_names_of(&p->b, b[i])) ||
        !same_type(p, a[i], b[i]))
      return false;
  }
  return true;
}

static bool same_operands(const Pair *p, const TsTileStmt *a, const TsTileStmt *b) {
  if (!same_count(p, "operands", a->nin, b->nin)) return false;
  for (int i = 0; i < a->nin; i++) {
    const TsMapSlot *s = ts_text_map_find(&p->other, a->in[i], TS_KEY_ADDRESS);
    if (!s || s->value != b->in[i])
      return differ(p, ts_tile_op_name(a->op), ts_tile_names_of(&p->a, a->in[i]),
                    ts_tile_names_of(&p->b, b->in[i]));
  }
  return true;
}

static bool same_attrs(const Pair *p, const TsTileStmt *a, const TsTileStmt *b) {
  if (!same_count(p, "attributes", a->nattr, b->nattr)) return false;
  for (int i = 0; i < a->nattr; i++)
    if (!ts_attr_same(&a->attr[i], &b->attr[i]))
      return differ(p, ts_tile_op_name(a->op), "one attribute", "another");
  return true;
}

static bool same_region(Pair *p, const TsTileRegion *a, const TsTileRegion *b);

static bool same_stmt(Pair *p, const TsTileStmt *a, const TsTileStmt *b) {
  if (a->op != b->op)
    return differ(p, "operation", ts_tile_op_name(a->op), ts_tile_op_name(b->op));
  if (!same_operands(p, a, b) || !same_attrs(p, a, b) ||
      !same_count(p, "regions", a->nregion, b->nregion))
    return false;
  for (int i = 0; i < a->nregion; i++)
    if (!same_region(p, a->region[i], b->region[i])) return false;
  return same_values(p, "result", a->nout, a->out, b->nout, b->out);
}

static bool same_region(Pair *p, const TsTileRegion *a, const TsTileRegion *b) {
  if (!same_values(p, "parameter", a->nparam, a->param, b->nparam, b->param)) return false;
  const TsTileStmt *x = a->first, *y = b->first;
  for (; x && y; x = x->next, y = y->next)
    if (!same_stmt(p, x, y)) return false;
  return x == y || differ(p, "lines", x ? "more" : "less", y ? "more" : "less");
}

static const char *legal(TsTileNames *m, const TsTile *k) {
  return ts_name_legal(&m->arena, k->name && *k->name ? k->name : "_");
}

static bool same_choice(const Pair *p, const TsTile *a, const TsTile *b) {
  if (!same_count(p, "axes of the tile", a->ntile, b->ntile) ||
      !same_count(p, "stages", a->stages, b->stages) ||
      !same_count(p, "threads", a->threads, b->threads) ||
      !same_count(p, "cluster", a->cluster, b->cluster) ||
      !same_count(p, "unroll", a->unroll, b->unroll) ||
      !same_count(p, "vector", a->vector, b->vector) ||
      !same_count(p, "grain", a->grain, b->grain) || !same_count(p, "high", a->high, b->high) ||
      !same_count(p, "depth", a->depth, b->depth) || !same_count(p, "pack", a->pack, b->pack) ||
      !same_word(p, "order", a->order, b->order))
    return false;
  for (int i = 0; i < a->ntile; i++)
    if (!same_count(p, "tile", a->tile[i], b->tile[i])) return false;
  return true;
}

bool ts_tile_same_choice(const TsTile *a, const TsTile *b) {
  const Pair p = {.why = NULL};
  return same_choice(&p, a, b);
}

static bool same_head(Pair *p, const TsTile *a, const TsTile *b) {
  if (!same_word(p, "name", legal(&p->a, a), legal(&p->b, b)) ||
      !same_count(p, "form", a->form, b->form) ||
      !same_word(p, "target", a->target, b->target) || !same_choice(p, a, b) ||
      !same_count(p, "marks", a->marks, b->marks) ||
      !same_count(p, "sizes", a->ndim, b->ndim) ||
      !same_count(p, "parameters that are read", a->nin, b->nin))
    return false;
  for (int i = 0; i < a->ndim; i++)
    if (!same_word(p, "size", a->dim[i], b->dim[i])) return false;
  return same_values(p, "parameter", a->nparam, a->param, b->nparam, b->param);
}

bool ts_tile_equal(const TsTile *a, const TsTile *b, TsText *why) {
  Pair p = {.ka = a, .kb = b, .why = why};
  bool failed = ts_tile_names_open(&p.a, a, false) || ts_tile_names_open(&p.b, b, false);
  bool same = failed ? differ(&p, "out of memory", "equal", "not")
                     : same_head(&p, a, b) && same_region(&p, a->body, b->body);
  ts_tile_names_close(&p.a);
  ts_tile_names_close(&p.b);
  ts_text_map_free(&p.other);
  return same;
}
