/* Operators on values: split into what is computed one by one and the sums that are not, passed
 * on to what the value is computed from. */
#include "ir/jets/jets.h"

#include <string.h>

static TsVal plus(TsJets *j, TsVal a, TsVal b) {
  if (!a || !b) return a ? a : b;
  return ts_build_add(&j->g->b, a, b);
}

static TsVal times(TsJets *j, TsVal a, double c) {
  TsBuild *b = &j->g->b;
  if (!a || c == 1) return a;
  return c == -1 ? ts_build_neg(b, a) : ts_build_scale(b, a, c);
}

/* What moves: its first derivatives are its directions, and it has no second ones. */
static bool moved(TsJets *j, TsVal v, const TsOperator *p, TsVal *made) {
  bool found = false;
  *made = NULL;
  for (int d = 0; d < j->ndirection; d++)
    for (int i = 0; i < j->direction[d]->nx; i++) {
      TsMonomial m = ts_jets_first(d);
      if (j->direction[d]->x[i] != v) continue;
      found = true;
      for (int k = 0; k < p->n; k++)
        if (!ts_monomial_compare(&p->term[k].m, &m))
          *made = plus(j, *made, times(j, j->direction[d]->v[i], p->term[k].c));
    }
  return found;
}

/* p on what is itself a sum of derivatives. */
static TsVal of_sum(TsJets *j, TsVal v, const TsOperator *p) {
  const TsLinear *l = ts_jets_form(j, v);
  TsVal sum = NULL;
  for (int i = 0; l && i < l->n && !ts_jets_fails(j); i++) {
    const TsOperator *q = &l->part[i].p;
    TsOperator both = {.arena = &j->arena};
    for (int a = 0; a < p->n; a++)
      for (int b = 0; b < q->n; b++) {
        TsMonomial m;
        if (!ts_monomial_product(&p->term[a].m, &q->term[b].m, &m))
          return j->unfit = true, NULL;
        ts_operator_add(&both, &m, p->term[a].c * q->term[b].c);
      }
    j->failed |= both.failed;
    sum = plus(j, sum, ts_jets_apply(j, l->part[i].of, &both));
  }
  return sum;
}

/* p without a common factor, nothing of which is computed alone, or a single monomial. */
static TsVal whole(TsJets *j, TsVal v, const TsOperator *p) {
  int about = ts_jets_operator(j, p), line = j->g->line;
  TsJetEntry *e = ts_jets_entry(j, v, about);
  TsVal made = NULL;
  if (!e || ts_jets_fails(j) || e->known) return e && e->known ? e->is : NULL;
  if (++j->depth > 2000) return j->unfit = true, NULL;
  if (v->node->line > 0) j->g->line = v->node->line;
  if (!moved(j, v, p, &made) && ts_jets_mark(j, v))
    made = ts_jets_has(j, v) ? of_sum(j, v, p) : ts_jets_node(j, v, p);
  j->g->line = line;
  j->depth--;
  if (!(e = ts_jets_entry(j, v, about))) return NULL;
  e->known = true;
  return e->is = made;
}

static bool is_alone(const TsJets *j, const TsMonomial *m) {
  for (int i = 0; i < j->alone.n; i++)
    if (!ts_monomial_compare(&j->alone.term[i].m, m)) return true;
  return false;
}

TsVal ts_jets_apply(TsJets *j, TsVal v, const TsOperator *p) {
  TsOperator rest = {.arena = &j->arena};
  TsVal sum = NULL;
  for (int i = 0; i < p->n && !ts_jets_fails(j); i++) {
    const TsJetTerm *t = &p->term[i];
    const TsOperator one = {.term = &(TsJetTerm){t->m, 1}, .n = 1};
    if (t->m.n == 0)
      sum = plus(j, sum, times(j, ts_jets_resolve(j, v), t->c));
    else if (is_alone(j, &t->m)) {
      TsOperator *own = ts_jets_alloc(j, sizeof *own);
      if (!own) return NULL;
      *own = (TsOperator){.arena = &j->arena};
      ts_operator_add(own, &one.term[0].m, 1);
      sum = plus(j, sum, times(j, whole(j, v, own), t->c));
    } else
      ts_operator_add(&rest, &t->m, t->c);
  }
  j->failed |= rest.failed;
  if (!rest.n || ts_jets_fails(j)) return sum;
  double c = ts_operator_normal(&rest);
  return plus(j, sum, times(j, whole(j, v, &rest), c));
}
