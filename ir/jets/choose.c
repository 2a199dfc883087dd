/* Which derivatives are computed one by one, and which only as sums: before anything is emitted,
 * from the operators that are wanted alone. Whatever the network is, its activations ask for the
 * same lower operators. */
#include <string.h>

#include "ir/jets/jets.h"

enum { MOST = 256 }; /* operators; with more, all monomials are computed one by one */

typedef struct Choice {
  TsJets *j;
  const TsOperator *p[MOST];
  int n;
} Choice;

static bool has_term(const TsOperator *p, const TsMonomial *m) {
  for (int i = 0; i < p->n; i++)
    if (!ts_monomial_compare(&p->term[i].m, m)) return true;
  return false;
}

static void alone(TsJets *j, const TsMonomial *m) {
  if (m->n && !has_term(&j->alone, m)) ts_operator_add(&j->alone, m, 1);
  j->failed |= j->alone.failed;
}

/* What of p is not computed one by one, without its common factor. */
static TsOperator rest_of(TsJets *j, const TsOperator *p) {
  TsOperator rest = {.arena = &j->arena};
  for (int i = 0; i < p->n; i++)
    if (p->term[i].m.n && !has_term(&j->alone, &p->term[i].m))
      ts_operator_add(&rest, &p->term[i].m, p->term[i].c);
  ts_operator_normal(&rest);
  j->failed |= rest.failed;
  return rest;
}

static void want(Choice *c, const TsOperator *p) {
  TsOperator own = {.arena = &c->j->arena};
  if (!p->n || c->n == MOST) return;
  for (int i = 0; i < p->n; i++) ts_operator_add(&own, &p->term[i].m, p->term[i].c);
  ts_operator_normal(&own);
  for (int i = 0; i < c->n; i++)
    if (ts_operator_equal(c->p[i], &own)) return;
  TsOperator *kept = ts_jets_alloc(c->j, sizeof *kept);
  if (!kept) return;
  *kept = own;
  c->p[c->n++] = kept;
}

static void want_groups(Choice *c, const TsJetGroups *all) {
  c->j->failed |= all->failed;
  for (int i = 0; i < all->n && !c->j->failed; i++) {
    const TsJetGroup *g = &all->group[i];
    for (int k = 0; k < g->nbeside; k++) alone(c->j, &g->beside[k]);
    if (g->nbeside) want(c, &g->lead);
  }
}

/* Operators that are connected by common monomials: sums of them save nothing where there are as
 * many sums as monomials. */
static bool spread(TsJets *j, int n, TsOperator *rest) {
  bool changed = false;
  unsigned char seen[MOST] = {0};
  for (int first = 0; first < n; first++) {
    int count = 0, grown = 1;
    TsOperator all = {.arena = &j->arena};
    if (seen[first] || !rest[first].n) continue;
    seen[first] = 2;
    while (grown) {
      grown = 0;
      for (int i = 0; i < n; i++) {
        bool touches = seen[i] == 2;
        for (int k = 0; k < rest[i].n && !touches && !seen[i]; k++)
          touches = has_term(&all, &rest[i].term[k].m);
        if (!touches || seen[i] == 1) continue;
        seen[i] = 1, grown = 1, count++;
        for (int k = 0; k < rest[i].n; k++)
          if (!has_term(&all, &rest[i].term[k].m)) ts_operator_add(&all, &rest[i].term[k].m, 1);
      }
    }
    j->failed |= all.failed;
    if (count < all.n) continue;
    for (int k = 0; k < all.n; k++) alone(j, &all.term[k].m);
    changed = true;
  }
  return changed;
}

static int rests_of(const Choice *c, TsOperator *rest) {
  int n = 0;
  for (int i = 0; i < c->n; i++) {
    TsOperator r = rest_of(c->j, c->p[i]);
    int k = 0;
    while (k < n && !ts_operator_equal(&rest[k], &r)) k++;
    if (k == n && r.n) rest[n++] = r;
  }
  return n;
}

void ts_jets_choose(TsJets *j, int n, const TsOperator *const *wanted) {
  Choice *c = ts_jets_alloc(j, sizeof *c);
  TsOperator *rest = ts_jets_alloc(j, sizeof *rest * MOST);
  if (!c || !rest) return;
  c->j = j;
  for (int i = 0; i < n; i++) want(c, wanted[i]);
  for (int i = 0; i < c->n && !j->failed; i++) {
    TsJetGroups functions = {.arena = &j->arena}, products = {.arena = &j->arena};
    ts_operator_compose(c->p[i], &functions);
    want_groups(c, &functions);
    ts_operator_product(c->p[i], &products);
    want_groups(c, &products);
  }
  if (c->n == MOST)
    for (int i = 0; i < c->n; i++)
      for (int k = 0; k < c->p[i]->n; k++) alone(j, &c->p[i]->term[k].m);
  while (!j->failed && spread(j, rests_of(c, rest), rest)) continue;
}
