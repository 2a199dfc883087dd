/* Collapsed jets: what is found in a graph, and the values that are computed again with it. */
#include "ir/jets/jets.h"

#include <stdlib.h>
#include <string.h>

#include "ir/adjoint/adjoint.h"

/* ---- what is known of values */
void *ts_jets_alloc(TsJets *j, size_t nbytes) {
  void *p = ts_arena_alloc(&j->arena, nbytes);
  if (!p) j->failed = true;
  return p;
}

static size_t slot_of(const TsJets *j, const void *value, int about) {
  size_t h = ((size_t)value >> 4) * 0x9e3779b97f4a7c15u + (size_t)about * 0x85ebca6bu;
  size_t i = (h ^ h >> 29) & (j->capentry - 1);
  while (j->entry[i].value && (j->entry[i].value != value || j->entry[i].about != about))
    i = (i + 1) & (j->capentry - 1);
  return i;
}

TsJetEntry *ts_jets_entry(TsJets *j, const void *value, int about) {
  if (2 * j->nentry >= j->capentry) {
    size_t cap = j->capentry;
    TsJetEntry *old = j->entry, *more = calloc(cap ? 2 * cap : 1024, sizeof *more);
    if (!more) return j->failed = true, NULL;
    j->entry = more;
    j->capentry = cap ? 2 * cap : 1024;
    for (size_t i = 0; i < cap; i++)
      if (old[i].value) more[slot_of(j, old[i].value, old[i].about)] = old[i];
    free(old);
  }
  TsJetEntry *e = &j->entry[slot_of(j, value, about)];
  if (!e->value) e->value = value, e->about = about, j->nentry++;
  return e;
}

static const TsDerived *noted(TsJets *j, TsVal v, int *direction) {
  for (int i = 0; i < j->g->nderived; i++)
    if (j->g->derived[i].value == v && j->along[i] >= 0) {
      if (direction) *direction = j->along[i];
      return &j->g->derived[i];
    }
  return NULL;
}

static bool is_moved(const TsJets *j, TsVal v) {
  for (int d = 0; d < j->ndirection; d++)
    for (int i = 0; i < j->direction[d]->nx; i++)
      if (j->direction[d]->x[i] == v) return true;
  return false;
}

static unsigned marks_of(TsJets *j, const TsNode *n) {
  unsigned m = 0;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i]) m |= j->mark[n->in[i]->node->id];
  if (n->op < TS_OP_COUNT && ts_adjoint_table[n->op] == ts_adjoint_zero)
    m &= ~(unsigned)TS_JET_moves; /* full_like: its operand says a shape */
  for (int i = 0; i < n->nout; i++) {
    if (is_moved(j, (TsVal)(uintptr_t)&n->out[i])) m |= TS_JET_moves;
    if (noted(j, (TsVal)(uintptr_t)&n->out[i], NULL)) m |= TS_JET_reads;
  }
  return m;
}

unsigned ts_jets_mark(TsJets *j, TsVal v) {
  if (j->capmark < j->g->nnode) {
    int cap = 2 * j->g->nnode;
    unsigned char *more = realloc(j->mark, (size_t)cap);
    if (!more) return j->failed = true, 0;
    j->mark = more;
    j->capmark = cap;
  }
  for (; j->nmark < j->g->nnode; j->nmark++)
    j->mark[j->nmark] = (unsigned char)marks_of(j, j->g->node[j->nmark]);
  return j->mark[v->node->id];
}

int ts_jets_operator(TsJets *j, const TsOperator *p) {
  for (int i = 0; i < j->noperator; i++)
    if (ts_operator_equal(j->operators[i], p)) return i;
  if (j->noperator == j->capoperator) {
    int cap = j->capoperator ? 2 * j->capoperator : 64;
    TsOperator **more = ts_jets_alloc(j, sizeof *more * (size_t)cap);
    if (!more) return 0;
    if (j->noperator) memcpy(more, j->operators, sizeof *more * (size_t)j->noperator);
    j->operators = more;
    j->capoperator = cap;
  }
  TsOperator *own = ts_jets_alloc(j, sizeof *own);
  if (!own) return 0;
  *own = *p;
  j->operators[j->noperator] = own;
  return j->noperator++;
}

/* ---- the directions of what the values are computed from */
static bool same_direction(const TsDerived *a, const TsDerived *b) {
  size_t size = sizeof *a->x * (size_t)a->nx;
  return a->nx == b->nx && !memcmp(a->x, b->x, size) && !memcmp(a->v, b->v, size);
}

/* The order of directions does not hang on who asked first. */
static int compare_directions(const void *a, const void *b) {
  const TsDerived *d = *(const TsDerived *const *)a, *e = *(const TsDerived *const *)b;
  if (d->x[0] != e->x[0]) return d->x[0]->node->id < e->x[0]->node->id ? -1 : 1;
  return d->v[0]->node->id < e->v[0]->node->id ? -1 : d->v[0]->node->id > e->v[0]->node->id;
}

static int direction_of(TsJets *j, const TsDerived *d) {
  for (int i = 0; i < j->ndirection; i++)
    if (same_direction(j->direction[i], d)) return i;
  if (j->ndirection == TS_JET_DIRECTIONS) return j->unfit = true, 0;
  j->direction[j->ndirection] = d;
  return j->ndirection++;
}

/* What the values need: live[id]. A derivative stands behind what it is one of. */
static void find_live(TsJets *j, int n, const TsVal *v, unsigned char *live) {
  TsGraph *g = j->g;
  for (int i = 0; i < n; i++) live[v[i]->node->id] = 1;
  for (int i = g->nnode; i-- > 0;) {
    if (!live[i]) continue;
    for (int k = 0; k < g->node[i]->nin; k++)
      if (g->node[i]->in[k]) live[g->node[i]->in[k]->node->id] = 1;
    for (int k = 0; k < g->nderived; k++)
      if (g->derived[k].value->node->id == (uint32_t)i) live[g->derived[k].of->node->id] = 1;
  }
}

/* Fills j->along with the directions that are needed; gives the highest order. */
static int find_directions(TsJets *j, int n, const TsVal *v) {
  TsGraph *g = j->g;
  unsigned char *live = ts_jets_alloc(j, (size_t)g->nnode + 1),
                *order = ts_jets_alloc(j, (size_t)g->nnode + 1);
  int most = 0;
  j->along = ts_jets_alloc(j, sizeof *j->along * (size_t)g->nderived);
  j->direction = ts_jets_alloc(j, sizeof *j->direction * TS_JET_DIRECTIONS);
  if (j->failed) return 0;
  find_live(j, n, v, live);
  for (int i = 0; i < g->nderived; i++) {
    const TsDerived *d = &g->derived[i];
    bool first = d->of->node->id < d->value->node->id;
    for (int k = 0; k < i; k++) first &= g->derived[k].value != d->value;
    j->along[i] = first && live[d->value->node->id] ? direction_of(j, d) : -1;
  }
  qsort(j->direction, (size_t)j->ndirection, sizeof *j->direction, compare_directions);
  for (int i = 0; i < g->nderived; i++)
    if (j->along[i] >= 0) j->along[i] = direction_of(j, &g->derived[i]);
  for (int i = 0; i < g->nnode; i++) {
    for (int k = 0; k < g->node[i]->nin; k++) {
      TsVal in = g->node[i]->in[k];
      if (in && order[in->node->id] > order[i]) order[i] = order[in->node->id];
    }
    for (int k = 0; k < g->nderived; k++) {
      const TsDerived *d = &g->derived[k];
      if (d->value->node->id != (uint32_t)i || j->along[k] < 0) continue;
      int below = order[d->of->node->id];
      if (below >= order[i]) order[i] = (unsigned char)(below < 200 ? below + 1 : below);
    }
    if (live[i] && order[i] > most) most = order[i];
  }
  return most;
}

/* Derivatives along directions may change places where what moves depends on nothing that moves,
 * and moves everywhere the same. */
static bool independent(TsJets *j) {
  for (int d = 0; d < j->ndirection; d++)
    for (int i = 0; i < j->direction[d]->nx; i++) {
      const TsNode *n = j->direction[d]->x[i]->node;
      if (ts_jets_mark(j, j->direction[d]->v[i])) return false;
      for (int k = 0; k < n->nin; k++)
        if (n->in[k] && ts_jets_mark(j, n->in[k])) return false;
    }
  return true;
}

/* The program may go on to differentiate by what moves, and by what has nothing to do with it. */
static bool apart(TsJets *j, int nx, const TsVal *x) {
  for (int i = 0; i < nx; i++)
    if (!is_moved(j, x[i]) && ts_jets_mark(j, x[i])) return false;
  return true;
}

/* ---- sums of derivatives */
static TsOperator *part_of(TsJets *j, TsLinear *l, TsVal of) {
  for (int i = 0; i < l->n; i++)
    if (l->part[i].of == of) return &l->part[i].p;
  if (l->n == l->cap) {
    int cap = l->cap ? 2 * l->cap : 4;
    TsJetPart *more = ts_jets_alloc(j, sizeof *more * (size_t)cap);
    if (!more) return NULL;
    if (l->n) memcpy(more, l->part, sizeof *more * (size_t)l->n);
    l->part = more;
    l->cap = cap;
  }
  l->part[l->n] = (TsJetPart){of, {.arena = &j->arena}};
  return &l->part[l->n++].p;
}

static void add_terms(TsJets *j, TsLinear *to, TsVal of, const TsOperator *p,
                      const TsMonomial *m, double c) {
  TsOperator *q = part_of(j, to, of);
  for (int i = 0; q && i < p->n; i++) {
    TsMonomial both;
    if (!ts_monomial_product(&p->term[i].m, m, &both)) {
      j->unfit = true;
      return;
    }
    ts_operator_add(q, &both, c * p->term[i].c);
    j->failed |= q->failed;
  }
}

static bool number_of(TsVal v, double *c) {
  if (!v || v->node->op != TS_NODE_number) return false;
  *c = v->node->number;
  return true;
}

static void add_form(TsJets *j, TsLinear *to, TsVal v, const TsMonomial *m, double c) {
  double number;
  if (number_of(v, &number) && number == 0) return; /* where a program begins to add up */
  const TsLinear *l = ts_jets_form(j, v);
  for (int i = 0; l && i < l->n; i++) add_terms(j, to, l->part[i].of, &l->part[i].p, m, c);
}

static bool alike(const TsNode *n, TsVal v) {
  const TsMeta *m = &n->out[0].meta;
  return v && (v->node->op == TS_NODE_number ||
               (v->meta.dtype == m->dtype && ts_meta_same_shape(&v->meta, m)));
}

/* What of a node's operands its result is the sum of: how many, with their factors. */
static int summands(const TsNode *n, TsVal v[2], double c[2]) {
  double k;
  c[0] = c[1] = 1;
  for (int i = 0; i < 2; i++) v[i] = i < n->nin ? n->in[i] : NULL;
  switch (n->op) {
  case TS_OP_neg: c[0] = -1; return alike(n, v[0]);
  case TS_OP_sub: c[1] = -1; /* fallthrough */
  case TS_OP_add: return alike(n, v[0]) && alike(n, v[1]) ? 2 : 0;
  case TS_OP_mul:
    if (number_of(v[0], &k))
      v[0] = v[1];
    else if (!number_of(v[1], &k))
      return 0;
    c[0] = k;
    return alike(n, v[0]);
  case TS_OP_div:
    if (!number_of(v[1], &k)) return 0;
    c[0] = 1 / k;
    return alike(n, v[0]);
  default: return 0;
  }
}

static bool moves_only(const TsNode *n) {
  return n->op < TS_OP_COUNT && ts_op_info((TsOp)n->op)->moves && n->nin == 1 && n->nout == 1 &&
         n->op != TS_OP_bitcast && n->op != TS_OP_stop_gradient;
}

/* What a derivative that the pass itself made is one of. */
static const TsJetPart *origin_of(TsJets *j, TsVal v) {
  const TsJetEntry *e = ts_jets_entry(j, v, TS_JET_origin);
  return e && e->known ? e->is : NULL;
}

bool ts_jets_has(TsJets *j, TsVal v) {
  if (origin_of(j, v) || noted(j, v, NULL)) return true;
  if (!(ts_jets_mark(j, v) & TS_JET_reads) && !(ts_jets_mark(j, v) & TS_JET_moves))
    return false;
  TsJetEntry *e = ts_jets_entry(j, v, TS_JET_has);
  if (!e || e->known) return e && e->is;
  TsVal of[2];
  double c[2];
  bool has = false;
  int n = summands(v->node, of, c);
  for (int i = 0; i < n; i++) has |= ts_jets_has(j, of[i]);
  if (moves_only(v->node)) has = ts_jets_has(j, v->node->in[0]);
  if (!(e = ts_jets_entry(j, v, TS_JET_has))) return false;
  e->known = true;
  e->is = has ? j : NULL;
  return has;
}

static void form_of_view(TsJets *j, TsLinear *l, const TsNode *n) {
  const TsMonomial none = {.n = 0};
  const TsLinear *inner = ts_jets_form(j, n->in[0]);
  for (int i = 0; inner && i < inner->n; i++) {
    TsNode *again = ts_graph_again(j->g, n, &inner->part[i].of, NULL, NULL);
    if (again) add_terms(j, l, &again->out[0], &inner->part[i].p, &none, 1);
  }
}

const TsLinear *ts_jets_form(TsJets *j, TsVal v) {
  const TsMonomial none = {.n = 0};
  const TsOperator itself = {.term = &(TsJetTerm){none, 1}, .n = 1};
  const TsJetPart *origin = origin_of(j, v);
  int d, about = origin ? TS_JET_form_made : TS_JET_form;
  TsJetEntry *e = ts_jets_entry(j, v, about);
  if (!e || e->known) return e ? e->is : NULL;
  TsLinear *l = ts_jets_alloc(j, sizeof *l);
  const TsDerived *derived = origin ? NULL : noted(j, v, &d);
  if (!l || ++j->depth > 2000) return j->unfit = true, NULL;
  if (origin) {
    const TsLinear *inner = ts_jets_form(j, origin->of);
    for (int i = 0; inner && i < inner->n; i++)
      add_terms(j, l, inner->part[i].of, &inner->part[i].p, &origin->p.term[0].m, 1);
  } else if (derived) {
    TsMonomial m = ts_jets_first(d);
    add_form(j, l, derived->of, &m, 1);
  } else if (ts_jets_has(j, v)) {
    TsVal of[2];
    double c[2];
    int n = summands(v->node, of, c);
    for (int i = 0; i < n; i++) add_form(j, l, of[i], &none, c[i]);
    if (!n) form_of_view(j, l, v->node);
  } else {
    add_terms(j, l, v, &itself, &none, 1);
  }
  j->depth--;
  if (!(e = ts_jets_entry(j, v, about))) return NULL;
  e->known = true;
  return e->is = l;
}

/* ---- values once more */
TsVal ts_jets_fit(TsJets *j, TsVal made, const TsMeta *m) {
  TsBuild *b = &j->g->b;
  if (made && (made->meta.weak || made->meta.dtype != m->dtype))
    made = ts_build_cast(b, made, (TsDtype)m->dtype);
  if (made && !ts_meta_same_shape(&made->meta, m))
    made = ts_build_expand(b, made, m->dim, m->ndim);
  return made;
}

TsVal ts_jets_zeros(TsJets *j, const TsMeta *m) {
  return ts_build(
      &j->g->b, TS_OP_zeros, 0, NULL,
      TS_ATTRS({"shape", ts_b_ints(m->dim, m->ndim)}, {"dtype", ts_b_dtype(m->dtype)}), NULL);
}

static TsVal sum_of(TsJets *j, TsVal v) {
  const TsLinear *l = ts_jets_form(j, v);
  TsBuild *b = &j->g->b;
  TsVal sum = NULL;
  for (int i = 0; l && i < l->n && !ts_jets_fails(j); i++) {
    TsOperator rest = {.arena = &j->arena};
    TsVal made = NULL;
    for (int k = 0; k < l->part[i].p.n; k++) {
      const TsJetTerm *t = &l->part[i].p.term[k];
      if (t->m.n)
        ts_operator_add(&rest, &t->m, t->c);
      else
        made = ts_build_scale(b, ts_jets_resolve(j, l->part[i].of), t->c);
    }
    j->failed |= rest.failed;
    if (rest.n > 1) j->sums++, j->terms += rest.n;
    if (rest.n && !j->asked) j->asked = v->node->line;
    TsVal jet = rest.n ? ts_jets_apply(j, l->part[i].of, &rest) : NULL;
    if (jet) made = made ? ts_build_add(b, made, jet) : jet;
    if (made) sum = sum ? ts_build_add(b, sum, made) : made;
  }
  return sum || ts_jets_fails(j) ? ts_jets_fit(j, sum, &v->meta) : ts_jets_zeros(j, &v->meta);
}

TsVal ts_jets_again(TsJets *j, TsVal v) {
  const TsNode *n = v->node;
  TsVal few[16], *in = n->nin <= 16 ? few : ts_jets_alloc(j, sizeof *in * (size_t)n->nin);
  bool changed = false;
  for (int i = 0; in && i < n->nin && !ts_jets_fails(j); i++) {
    in[i] = n->in[i] ? ts_jets_resolve(j, n->in[i]) : NULL;
    changed |= in[i] != n->in[i];
  }
  if (!changed || ts_jets_fails(j)) return v;
  TsNode *made = ts_graph_again(j->g, n, in, n->region, NULL);
  return made ? &made->out[v->index] : NULL;
}

TsVal ts_jets_resolve(TsJets *j, TsVal v) {
  if (!(ts_jets_mark(j, v) & TS_JET_reads)) return v;
  TsJetEntry *e = ts_jets_entry(j, v, TS_JET_resolved);
  if (!e || e->known || ts_jets_fails(j)) return e && e->known ? e->is : v;
  if (++j->depth > 2000) j->unfit = true;
  TsVal made = ts_jets_fails(j) ? v : ts_jets_has(j, v) ? sum_of(j, v) : ts_jets_again(j, v);
  j->depth--;
  if (!(e = ts_jets_entry(j, v, TS_JET_resolved))) return v;
  e->known = true;
  return e->is = made;
}

/* ---- what is wanted, before anything is emitted: as ts_jets_resolve walks */
typedef struct Wanted {
  const TsOperator **p;
  int n, cap;
  unsigned char *seen;
  uint32_t nseen; /* nodes that were there before */
} Wanted;

static void want(TsJets *j, Wanted *w, TsVal v) {
  if (v->node->id >= w->nseen || w->seen[v->node->id] || j->failed || j->unfit) return;
  if (!(ts_jets_mark(j, v) & TS_JET_reads)) return;
  bool has = ts_jets_has(j, v);
  w->seen[v->node->id] = 1;
  for (int i = 0; !has && i < v->node->nin; i++)
    if (v->node->in[i]) want(j, w, v->node->in[i]);
  const TsLinear *l = has ? ts_jets_form(j, v) : NULL;
  for (int i = 0; l && i < l->n; i++) {
    if (w->n == w->cap) {
      int cap = w->cap ? 2 * w->cap : 16;
      const TsOperator **more = ts_jets_alloc(j, sizeof *more * (size_t)cap);
      if (!more) return;
      if (w->n) memcpy(more, w->p, sizeof *more * (size_t)w->n);
      w->p = more;
      w->cap = cap;
    }
    w->p[w->n++] = &l->part[i].p;
    want(j, w, l->part[i].of);
  }
}

static int collapse(TsJets *j, int n, TsVal *v) {
  TsGraph *g = j->g;
  Wanted w = {.seen = ts_jets_alloc(j, (size_t)g->nnode + 1), .nseen = (uint32_t)g->nnode};
  TsVal *made = ts_jets_alloc(j, sizeof *made * (size_t)(n + 1));
  int line = g->line, changed = 0;
  for (int i = 0; i < n && !j->failed; i++) want(j, &w, v[i]);
  if (!ts_jets_fails(j)) ts_jets_choose(j, w.n, w.p);
  for (int i = 0; i < n && !ts_jets_fails(j); i++) made[i] = ts_jets_resolve(j, v[i]);
  g->line = line;
  for (int i = 0; i < n && !ts_jets_fails(j); i++) {
    TsVal old = v[i];
    if (made[i] == old) continue;
    v[i] = made[i];
    changed++;
    if (old->instead) continue;
    old->node->out[old->index].instead = made[i];
    g->replaced = true;
  }
  return changed;
}

static void report(const TsJets *j, TsText *log) {
  if (!log) return;
  const TsModule *u = j->g->module;
  const char *where = j->asked > 0 && j->asked < u->nplace ? u->place[j->asked] : "";
  ts_text_format(log, "collapsed_jets%s%s: ", *where ? " at " : "", where);
  if (j->sums)
    ts_text_format(log, "%d derivatives in %d sum%s, ", j->terms, j->sums, j->sums == 1 ? "" : "s");
  ts_text_format(log, "jets along %d directions instead of nested derivatives (rounding)\n",
                 j->ndirection);
}

/* Needs: values of one graph. Keeps: every value that is there. Gives: how many it replaced. */
int ts_jets_collapse(TsGraph *g, int n, TsVal *v, int nx, const TsVal *x, TsText *log) {
  TsJets j = {.g = g};
  int changed = 0;
  if (g->nderived < 2 || g->b.failed) return 0;
  TsError was = *g->err;
  j.alone.arena = &j.arena;
  if (find_directions(&j, n, v) > 1 && !ts_jets_fails(&j) && independent(&j) &&
      apart(&j, nx, x))
    changed = collapse(&j, n, v);
  bool memory = j.failed || g->err->code == TS_ERR_memory;
  if (ts_jets_fails(&j)) changed = 0;
  /* What cannot be differentiated so was differentiated before: that stays. */
  if (g->b.failed && !memory) *g->err = was, g->b.failed = false;
  if (changed) report(&j, log);
  ts_arena_free(&j.arena);
  free(j.entry);
  free(j.mark);
  return memory ? (g->b.failed = true, ts_error_memory(g->err)) : changed;
}
