/* Generalising two graphs, and making the result concrete. */
#include "ir/graph/symbolic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/graph/custom.h"
#include "ir/graph/copy.h"

typedef struct Join {
  const TsGraph *a, *b;
  TsSymbolic *s;
  int64_t va[TS_SYMBOLS], vb[TS_SYMBOLS];
  TsText *why;
} Join;

static bool differ(Join *j, const TsNode *n, const char *what) {
  if (j->why && !j->why->len) {
    const char *where = ts_graph_where(n);
    ts_text_format(j->why, "%s%s%s: %s", ts_node_name(n), *where ? " at " : "", where, what);
  }
  return false;
}

/* ---- symbols: sizes of parameters that differ, equal pairs being one symbol */
static int symbol_of(Join *j, int64_t a, int64_t b) {
  for (int i = 0; i < j->s->nsymbol; i++)
    if (j->va[i] == a && j->vb[i] == b) return i;
  return -1;
}

static bool find_symbols(Join *j) {
  for (int i = 0; i < j->a->nparam; i++) {
    const TsMeta *x = &j->a->param[i]->meta, *y = &j->b->param[i]->meta;
    if (x->dtype != y->dtype || x->ndim != y->ndim)
      return differ(j, j->a->param[i]->node, "another type");
    for (int k = 0; k < x->ndim; k++) {
      if (x->dim[k] == y->dim[k] || symbol_of(j, x->dim[k], y->dim[k]) >= 0) continue;
      if (x->dim[k] <= 1 || y->dim[k] <= 1)
        return differ(j, j->a->param[i]->node, "sizes 0 and 1 stay as they are");
      if (j->s->nsymbol == TS_SYMBOLS)
        return differ(j, j->a->param[i]->node, "too many sizes differ");
      j->va[j->s->nsymbol] = x->dim[k];
      j->vb[j->s->nsymbol++] = y->dim[k];
    }
  }
  return true;
}

/* ---- integers, types, attributes, numbers */
static bool join_int(Join *j, const TsNode *n, int64_t a, int64_t b, int64_t *out) {
  TsSize s;
  *out = a;
  if (a == b) return true;
  if (!ts_size_fit(j->s->nsymbol, j->va, j->vb, a, b, &s))
    return differ(j, n, "a number that does not follow from the sizes");
  *out = ts_size_pack(&s);
  return true;
}

static bool join_meta(Join *j, const TsNode *n, const TsMeta *a, const TsMeta *b, TsMeta *out) {
  *out = *a;
  if (a->dtype != b->dtype || a->ndim != b->ndim || a->weak != b->weak)
    return differ(j, n, "another type");
  for (int i = 0; i < a->ndim; i++)
    if (!join_int(j, n, a->dim[i], b->dim[i], &out->dim[i])) return false;
  return true;
}

static bool join_number(Join *j, const TsNode *n, double a, double b, double *out) {
  TsSize s;
  *out = a;
  if (!memcmp(&a, &b, 8)) return true;
  double x = a, y = b;
  bool inverse = fabs(a) < 1 && fabs(b) < 1;
  if (inverse) x = 1 / a, y = 1 / b;
  x = rint(x), y = rint(y);
  bool whole = inverse ? 1 / x == a && 1 / y == b : x == a && y == b;
  if (!whole || fabs(x) > 9e15 || fabs(y) > 9e15 ||
      !ts_size_fit(j->s->nsymbol, j->va, j->vb, (int64_t)x, (int64_t)y, &s))
    return differ(j, n, "a number that does not follow from the sizes");
  s.inverse = inverse;
  *out = ts_number_pack(&s);
  return true;
}

static bool join_attr(Join *j, const TsNode *n, const TsAttr *a, const TsAttr *b, TsAttr *out,
                      TsArena *arena) {
  *out = *a;
  if (a->type != b->type || a->n != b->n) return differ(j, n, "another option");
  switch (a->type) {
  case TS_ATTR_none: return true;
  case TS_ATTR_int: return join_int(j, n, a->i, b->i, &out->i);
  case TS_ATTR_f: return join_number(j, n, a->f, b->f, &out->f);
  case TS_ATTR_str: return !strcmp(a->str, b->str) || differ(j, n, "another option");
  case TS_ATTR_floats:
    return !memcmp(a->floats, b->floats, 8 * (size_t)a->n) || differ(j, n, "another option");
  case TS_ATTR_ints: {
    int64_t *list = ts_arena_alloc(arena, 8 * (size_t)a->n + 8);
    if (!list) return false;
    for (int i = 0; i < a->n; i++)
      if (!join_int(j, n, a->ints[i], b->ints[i], &list[i])) return false;
    out->ints = list;
    return true;
  }
  default: return a->i == b->i || differ(j, n, "another option");
  }
}

/* ---- nodes, in step */
static bool join_graph(Join *j, TsGraph *g, const TsGraph *a, const TsGraph *b);

static bool join_region(Join *j, TsGraph *to, const TsNode *n, const TsGraph *a,
                        const TsGraph *b, TsGraph **out) {
  TsGraph *r = *out = ts_graph_region(to, a->name);
  if (!r || a->nparam != b->nparam) return r ? differ(j, n, "another function") : false;
  for (int i = 0; i < a->nparam; i++) {
    TsMeta m;
    if (!join_meta(j, n, &a->param[i]->meta, &b->param[i]->meta, &m)) return false;
    if (!ts_graph_param(r, &m, a->param[i]->name, NULL)) return false;
  }
  return join_graph(j, r, a, b);
}

static bool join_node(Join *j, TsGraphMap *m, const TsNode *x, const TsNode *y) {
  TsGraph *g = m->to;
  TsArena *arena = &g->module->arena;
  if (x->op != y->op || x->nin != y->nin || x->nout != y->nout || x->nattr != y->nattr ||
      x->nregion != y->nregion || !ts_custom_same(x->ref, y->ref))
    return differ(j, x, "another operator");
  TsVal *in = ts_arena_alloc(arena, sizeof *in * (size_t)(x->nin + 1));
  TsAttr *attr = ts_arena_alloc(arena, sizeof *attr * (size_t)(x->nattr + 1));
  TsMeta *out = ts_arena_alloc(arena, sizeof *out * (size_t)(x->nout + 1));
  TsGraph *region[4];
  double number;
  if (!x->choice != !y->choice || (x->choice && strcmp(x->choice, y->choice)))
    return differ(j, x, "another choice for its kernel");
  if (!in || !attr || !out || x->nregion > 4) return false;
  for (int i = 0; i < x->nin; i++) {
    if (!x->in[i] != !y->in[i] || (x->in[i] && (x->in[i]->node->id != y->in[i]->node->id ||
                                                x->in[i]->index != y->in[i]->index)))
      return differ(j, x, "other operands");
    in[i] = ts_graph_mapped(m, x->in[i]);
  }
  for (int i = 0; i < x->nattr; i++)
    if (!join_attr(j, x, &x->attr[i], &y->attr[i], &attr[i], arena)) return false;
  for (int i = 0; i < x->nout; i++)
    if (!join_meta(j, x, &x->out[i].meta, &y->out[i].meta, &out[i])) return false;
  if (!join_number(j, x, x->number, y->number, &number)) return false;
  for (int i = 0; i < x->nregion; i++)
    if (!join_region(j, g, x, x->region[i], y->region[i], &region[i])) return false;
  TsNode *made = ts_graph_raw(g, x, in, region, attr, number, out);
  for (int i = 0; made && i < x->nout; i++)
    ts_graph_map_set(m, (TsVal)(uintptr_t)&x->out[i], &made->out[i]);
  return made != NULL;
}

static bool same_value(TsVal x, TsVal y) {
  return !x == !y && (!x || (x->node->id == y->node->id && x->index == y->index));
}

static bool same_option(const TsAttr *a, const TsAttr *b) {
  if (a->type != b->type || a->n != b->n) return false;
  if (a->type == TS_ATTR_ints || a->type == TS_ATTR_floats)
    return !a->n || !memcmp(a->ints, b->ints, 8 * (size_t)a->n);
  if (a->type == TS_ATTR_str) return !strcmp(a->str, b->str);
  return a->type == TS_ATTR_none || a->i == b->i;
}

static TsVal *mapped_list(const TsGraphMap *m, int n, const TsVal *v) {
  TsVal *to = ts_arena_alloc(&m->to->module->arena, sizeof *to * (size_t)(n + 1));
  for (int i = 0; to && i < n; i++) to[i] = ts_graph_mapped(m, v[i]);
  return to;
}

/* The program's composed calls, whose options do not follow from sizes. */
static bool join_calls(Join *j, TsGraphMap *m, const TsGraph *a, const TsGraph *b) {
  TsGraph *g = m->to;
  if (!(g->called =
            ts_arena_alloc(&g->module->arena, sizeof *g->called * (size_t)(a->ncalled + 1))))
    return false;
  bool fine = a->ncalled == b->ncalled;
  for (int i = 0; i < a->ncalled && fine; i++) {
    const TsCalled *x = &a->called[i], *y = &b->called[i];
    fine = x->op == y->op && x->nin == y->nin && x->nout == y->nout;
    for (int k = 0; k < x->nin && fine; k++) fine = same_value(x->in[k], y->in[k]);
    for (int k = 0; k < x->nout && fine; k++) fine = same_value(x->out[k], y->out[k]);
    for (int k = 0; k < ts_op_info(x->op)->nattr && fine; k++)
      fine = same_option(&x->attr[k], &y->attr[k]);
    TsCalled c = *x;
    c.in = mapped_list(m, c.nin, x->in), c.out = mapped_list(m, c.nout, x->out);
    if (!c.in || !c.out) return false;
    g->called[g->ncalled++] = c;
  }
  if (!fine && j->why && !j->why->len) ts_text_str(j->why, "other calls");
  return fine;
}

/* Parameters of g are there; values by the map from a. */
static bool join_graph(Join *j, TsGraph *g, const TsGraph *a, const TsGraph *b) {
  TsGraphMap m;
  if (a->nnode != b->nnode || a->nresult != b->nresult || a->nupdate != b->nupdate) {
    if (j->why && !j->why->len) ts_text_str(j->why, "other operators");
    return false;
  }
  if (ts_graph_map_open(&m, g, a)) return false;
  for (int i = 0; i < a->nparam; i++) ts_graph_map_set(&m, a->param[i], g->param[i]);
  bool fine = true;
  for (int i = 0; i < a->nnode && fine; i++)
    if (a->node[i]->op != TS_NODE_param || b->node[i]->op != TS_NODE_param)
      fine = join_node(j, &m, a->node[i], b->node[i]);
  for (int i = 0; i < a->nresult && fine; i++)
    fine = (a->result[i]->node->id == b->result[i]->node->id &&
            a->result[i]->index == b->result[i]->index) ||
           differ(j, a->result[i]->node, "another result");
  for (int i = 0; i < a->nresult && fine; i++)
    fine = (!a->bytes && !b->bytes) || (a->bytes && b->bytes && a->bytes[i] == b->bytes[i]) ||
           differ(j, a->result[i]->node, "a result that shares other bytes");
  for (int i = 0; i < a->nupdate && fine; i++)
    fine = (a->update[i].param == b->update[i].param &&
            a->update[i].value->node->id == b->update[i].value->node->id &&
            a->update[i].value->index == b->update[i].value->index) ||
           differ(j, a->update[i].value->node, "another update");
  if (fine) fine = join_calls(j, &m, a, b) && !ts_graph_map_finish(&m);
  ts_graph_map_close(&m);
  return fine;
}

static TsGraph *join_whole(Join *j) {
  const TsGraph *a = j->a, *b = j->b;
  TsGraph *g = ts_graph_new(a->name, a->err);
  bool fine = g != NULL && a->nparam == b->nparam;
  for (int i = 0; fine && i < a->nparam; i++) {
    TsMeta m;
    fine = a->bound[i] == b->bound[i] &&
           join_meta(j, a->param[i]->node, &a->param[i]->meta, &b->param[i]->meta, &m) &&
           ts_graph_param(g, &m, a->param[i]->name, a->bound[i]);
  }
  if (fine) g->module->nrandom = a->module->nrandom;
  if (fine && join_graph(j, g, a, b)) return g;
  ts_graph_free(g);
  return NULL;
}

TsSymbolic *ts_graph_generalise(const TsGraph *a, const TsGraph *b, TsText *why) {
  TsSymbolic *s = calloc(1, sizeof *s);
  Join j = {.a = a, .b = b, .s = s, .why = why};
  const TsGraph *wa = a->module->whole, *wb = b->module->whole;
  if (!s) return NULL;
  bool fine = a->nparam == b->nparam && find_symbols(&j) && !wa == !wb;
  if (fine) fine = (s->g = join_whole(&j)) != NULL;
  if (fine && a->module->recognised.at)
    ts_text_str(&s->g->module->recognised, a->module->recognised.at);
  j.a = wa, j.b = wb;
  if (fine && wa) fine = (s->g->module->whole = join_whole(&j)) != NULL;
  if (fine) return s;
  if (why && !why->len) ts_text_str(why, "other captured tensors");
  ts_symbolic_free(s);
  return NULL;
}

void ts_symbolic_free(TsSymbolic *s) {
  if (s) ts_graph_free(s->g);
  free(s);
}

/* ---- making it concrete */
static int lone_symbol(int64_t size) {
  TsSize s = ts_size_unpack(size);
  int at = -1, n = 0;
  for (int i = 0; i < TS_SYMBOLS; i++)
    if (s.power[i]) at = i, n += s.power[i];
  return n == 1 && s.num == 1 && s.den == 1 && s.off == 0 ? at : -1;
}

bool ts_symbolic_solve(const TsSymbolic *s, int n, const TsMeta *const *arg,
                       int64_t value[TS_SYMBOLS]) {
  int at = 0;
  memset(value, 0, sizeof *value * TS_SYMBOLS);
  for (int i = 0; i < s->g->nparam; i++) {
    const TsMeta *m = &s->g->param[i]->meta;
    if (s->g->bound[i]) continue;
    if (at == n || arg[at]->dtype != m->dtype || arg[at]->ndim != m->ndim) return false;
    for (int k = 0; k < m->ndim; k++) {
      int64_t have = arg[at]->dim[k];
      int symbol = ts_size_is(m->dim[k]) ? lone_symbol(m->dim[k]) : -1;
      if (!ts_size_is(m->dim[k]) && have != m->dim[k]) return false;
      if (symbol >= 0 && value[symbol] && value[symbol] != have) return false;
      if (symbol >= 0 && have <= 1) return false;
      if (symbol >= 0) value[symbol] = have;
    }
    at++;
  }
  return at == n;
}

typedef struct Concrete {
  const int64_t *value;
  TsError *err;
  bool calls; /* composed calls are repeated: nodes that they add mean nothing */
} Concrete;

static bool number_at(const Concrete *c, int64_t v, int64_t *out) {
  TsSize s = ts_size_unpack(v);
  *out = v;
  if (!ts_size_is(v)) return true;
  if (ts_size_value(&s, c->value, out)) return true;
  TsText t = {0};
  ts_size_text(&s, &t);
  ts_error_set(c->err, TS_ERR_shape, "the size %s is not whole for these shapes",
               t.at ? t.at : "");
  ts_text_free(&t);
  return false;
}

static bool meta_at(const Concrete *c, const TsMeta *m, TsMeta *out) {
  *out = *m;
  for (int i = 0; i < m->ndim; i++)
    if (!number_at(c, m->dim[i], &out->dim[i])) return false;
  return true;
}

static bool double_at(const Concrete *c, double v, double *out) {
  int64_t whole;
  *out = v;
  if (!ts_number_is_size(v)) return true;
  TsSize s = ts_number_unpack(v);
  bool inverse = s.inverse;
  s.inverse = false;
  if (!number_at(c, ts_size_pack(&s), &whole)) return false;
  *out = inverse ? 1 / (double)whole : (double)whole;
  return true;
}

static bool attrs_at(const Concrete *c, const TsNode *n, TsAttr *attr, TsArena *arena) {
  for (int i = 0; i < n->nattr; i++) {
    attr[i] = n->attr[i];
    if (attr[i].type == TS_ATTR_int && !number_at(c, attr[i].i, &attr[i].i)) return false;
    if (attr[i].type == TS_ATTR_f && !double_at(c, attr[i].f, &attr[i].f)) return false;
    if (attr[i].type != TS_ATTR_ints) continue;
    int64_t *list = ts_arena_alloc(arena, 8 * (size_t)attr[i].n + 8);
    if (!list) return false;
    for (int k = 0; k < attr[i].n; k++)
      if (!number_at(c, n->attr[i].ints[k], &list[k])) return false;
    attr[i].ints = list;
  }
  return true;
}

static bool graph_at(const Concrete *c, TsGraph *g, const TsGraph *from);

static TsNode *control_at(const Concrete *c, TsGraphMap *m, const TsNode *n, const TsVal *in,
                          const TsAttr *attr) {
  TsGraph *region[4];
  TsMeta *out = ts_arena_alloc(&m->to->module->arena, sizeof *out * (size_t)(n->nout + 1));
  if (!out || n->nregion > 4) return NULL;
  for (int i = 0; i < n->nout; i++)
    if (!meta_at(c, &n->out[i].meta, &out[i])) return NULL;
  for (int i = 0; i < n->nregion; i++) {
    const TsGraph *from = n->region[i];
    if (!(region[i] = ts_graph_region(m->to, from->name))) return NULL;
    for (int k = 0; k < from->nparam; k++) {
      TsMeta p;
      if (!meta_at(c, &from->param[k]->meta, &p) ||
          !ts_graph_param(region[i], &p, from->param[k]->name, NULL))
        return NULL;
    }
    if (!graph_at(c, region[i], from)) return NULL;
  }
  return ts_graph_raw(m->to, n, in, region, attr, n->number, out);
}

static bool node_at(const Concrete *c, TsGraphMap *m, const TsNode *n) {
  TsArena *arena = &m->to->module->arena;
  TsVal *in = ts_arena_alloc(arena, sizeof *in * (size_t)(n->nin + n->nout + 2)),
        *out = in + n->nin;
  TsAttr *attr = ts_arena_alloc(arena, sizeof *attr * (size_t)(n->nattr + 1));
  double number;
  if (!in || !attr || !attrs_at(c, n, attr, arena)) return false;
  for (int i = 0; i < n->nin; i++) in[i] = ts_graph_mapped(m, n->in[i]);
  if (n->line > 0) m->to->line = ts_graph_place(m->to->module, ts_graph_where(n));
  m->to->backward = n->backward;
  m->to->choice = n->choice;
  if (n->op == TS_NODE_number) {
    if (!double_at(c, n->number, &number)) return false;
    TsVal v = ts_graph_number(m->to, number);
    if (v) ts_graph_map_set(m, (TsVal)(uintptr_t)&n->out[0], v);
    return v != NULL;
  }
  if (n->op >= TS_OP_COUNT) {
    TsNode *made = control_at(c, m, n, in, attr);
    for (int i = 0; made && i < n->nout; i++)
      ts_graph_map_set(m, (TsVal)(uintptr_t)&n->out[i], &made->out[i]);
    return made != NULL;
  }
  /* The operator's rules check that the case is one. */
  if (!ts_graph_emit(m->to, (TsOp)n->op, n->nin, in, attr, out, NULL)) return false;
  for (int i = 0; i < n->nout; i++) {
    TsMeta want;
    if (!meta_at(c, &n->out[i].meta, &want)) return false;
    if (!ts_meta_same_shape(&want, &out[i]->meta) || want.dtype != out[i]->meta.dtype) {
      ts_error_set(c->err, TS_ERR_shape, "%s: another shape than expected for these sizes",
                   ts_node_name(n));
      return false;
    }
    ts_graph_map_set(m, (TsVal)(uintptr_t)&n->out[i], out[i]);
  }
  return true;
}

/* The numbers in what a composed call became were fitted to a few cases. The call itself says what
 * they are for these sizes: repeated it gives the values that are there, or the fit was wrong, as
 * it is for what rounds a size up or down. */
static bool calls_agree(TsGraphMap *m, const TsGraph *from) {
  for (int i = 0; i < from->ncalled; i++) {
    const TsCalled *k = &from->called[i];
    TsVal out[1024], *in = mapped_list(m, k->nin, k->in);
    int nout = 0;
    m->to->choice = k->choice;
    if (!in || !ts_graph_emit(m->to, k->op, k->nin, in, k->attr, out, &nout)) return false;
    bool same = nout == k->nout;
    for (int n = 0; n < nout && same; n++) same = out[n] == ts_graph_mapped(m, k->out[n]);
    if (same) continue;
    ts_error_set(m->to->err, TS_ERR_shape, "%s does not follow from the sizes as expected",
                 ts_op_info(k->op)->name);
    return false;
  }
  return true;
}

static bool graph_at(const Concrete *c, TsGraph *g, const TsGraph *from) {
  TsGraphMap m;
  if (ts_graph_map_open(&m, g, from)) return false;
  for (int i = 0; i < from->nparam; i++) ts_graph_map_set(&m, from->param[i], g->param[i]);
  bool fine = true;
  for (int i = 0; i < from->nnode && fine; i++)
    if (from->node[i]->op != TS_NODE_param) fine = node_at(c, &m, from->node[i]);
  if (fine && c->calls) fine = calls_agree(&m, from);
  if (fine) fine = !ts_graph_map_finish(&m);
  ts_graph_map_close(&m);
  return fine;
}

static TsGraph *whole_at(const Concrete *c, const TsGraph *from) {
  TsGraph *g = ts_graph_new(from->name, c->err);
  bool fine = g != NULL;
  for (int i = 0; fine && i < from->nparam; i++) {
    TsMeta m;
    fine = meta_at(c, &from->param[i]->meta, &m) &&
           ts_graph_param(g, &m, from->param[i]->name, from->bound[i]);
  }
  if (fine) g->module->nrandom = from->module->nrandom;
  if (fine && graph_at(c, g, from)) return g;
  if (!c->err->code) ts_error_memory(c->err);
  ts_graph_free(g);
  return NULL;
}

TsGraph *ts_symbolic_at(const TsSymbolic *s, const int64_t value[TS_SYMBOLS], TsError *err) {
  const TsGraph *whole = s->g->module->whole ? s->g->module->whole : s->g;
  Concrete c = {value, err, true};
  TsGraph *g = whole_at(&c, whole);
  if (!g) return NULL;
  ts_graph_free(g);
  c.calls = false;
  if ((g = whole_at(&c, s->g)) && s->g->module->recognised.at)
    ts_text_str(&g->module->recognised, s->g->module->recognised.at);
  return g;
}

/* ---- what must divide: products of symbols, each by the least multiple of its divisors */
enum { CONSTRAINTS = 16 };

typedef struct Constraints {
  TsSize of[CONSTRAINTS]; /* powers and den */
  int n;
} Constraints;

static int common_multiple(int a, int b) {
  int most = a;
  while (most % b) most += a;
  return most;
}

static void add_constraint(Constraints *c, int64_t v) {
  TsSize s = ts_size_unpack(v);
  int i = 0;
  if (!ts_size_is(v) || s.den == 1) return;
  while (i < c->n && memcmp(c->of[i].power, s.power, sizeof s.power)) i++;
  if (i == CONSTRAINTS) return;
  s.num = 1, s.off = 0;
  if (i == c->n)
    c->of[c->n++] = s;
  else
    c->of[i].den = common_multiple(c->of[i].den, s.den);
}

static void collect(Constraints *c, const TsGraph *g) {
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    for (int k = 0; k < n->nout; k++)
      for (int d = 0; d < n->out[k].meta.ndim; d++) add_constraint(c, n->out[k].meta.dim[d]);
    for (int k = 0; k < n->nregion; k++) collect(c, n->region[k]);
  }
}

void ts_symbolic_constraints(const TsSymbolic *s, TsText *t) {
  Constraints c = {.n = 0};
  collect(&c, s->g);
  for (int i = 0; i < c.n; i++) {
    int den = c.of[i].den;
    c.of[i].den = 1;
    ts_text_str(t, i ? ", " : "where ");
    ts_size_text(&c.of[i], t);
    ts_text_format(t, " %% %d == 0", den);
  }
}
