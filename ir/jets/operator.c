/* Differential operators: sums of monomials, and what they are on products and compositions. */
#include "ir/jets/operator.h"

#include <string.h>

int ts_monomial_compare(const TsMonomial *a, const TsMonomial *b) {
  return a->n != b->n ? a->n - b->n : memcmp(a->d, b->d, a->n);
}

bool ts_monomial_product(const TsMonomial *a, const TsMonomial *b, TsMonomial *c) {
  TsMonomial m = {.n = 0};
  if (a->n + b->n > TS_JET_ORDER) return false;
  for (int i = 0, j = 0; i < a->n || j < b->n;)
    m.d[m.n++] = j == b->n || (i < a->n && a->d[i] <= b->d[j]) ? a->d[i++] : b->d[j++];
  *c = m;
  return true;
}

/* ---- sums */
void ts_operator_add(TsOperator *p, const TsMonomial *m, double c) {
  int i = 0, order = 1;
  while (i < p->n && (order = ts_monomial_compare(&p->term[i].m, m)) < 0) i++;
  if (c == 0) return;
  if (i < p->n && order == 0) {
    p->term[i].c += c;
    if (p->term[i].c != 0) return;
    memmove(&p->term[i], &p->term[i + 1], sizeof *p->term * (size_t)(--p->n - i));
    return;
  }
  if (p->n == p->cap) {
    int cap = p->cap ? 2 * p->cap : 4;
    TsJetTerm *more = ts_arena_alloc(p->arena, sizeof *more * (size_t)cap);
    if (!more) {
      p->failed = true;
      return;
    }
    if (p->n) memcpy(more, p->term, sizeof *more * (size_t)p->n);
    p->term = more;
    p->cap = cap;
  }
  memmove(&p->term[i + 1], &p->term[i], sizeof *p->term * (size_t)(p->n++ - i));
  p->term[i] = (TsJetTerm){*m, c};
}

bool ts_operator_equal(const TsOperator *p, const TsOperator *q) {
  for (int i = 0; i < p->n && p->n == q->n; i++)
    if (ts_monomial_compare(&p->term[i].m, &q->term[i].m) || p->term[i].c != q->term[i].c)
      return false;
  return p->n == q->n;
}

double ts_operator_normal(TsOperator *p) {
  double c = p->n ? p->term[0].c : 1;
  for (int i = 0; i < p->n; i++) p->term[i].c /= c;
  return c;
}

/* ---- groups */
static bool fits(const TsJetGroup *g, const TsJetGroup *like) {
  if (g->nth != like->nth || g->side != like->side || g->nbeside != like->nbeside) return false;
  for (int i = 0; i < g->nbeside; i++)
    if (ts_monomial_compare(&g->beside[i], &like->beside[i])) return false;
  return true;
}

static void put(TsJetGroups *out, const TsJetGroup *like, const TsMonomial *lead, double c) {
  int i = 0;
  while (i < out->n && !fits(&out->group[i], like)) i++;
  if (i == out->cap) {
    int cap = out->cap ? 2 * out->cap : 8;
    TsJetGroup *more = ts_arena_alloc(out->arena, sizeof *more * (size_t)cap);
    if (!more) {
      out->failed = true;
      return;
    }
    if (out->n) memcpy(more, out->group, sizeof *more * (size_t)out->n);
    out->group = more;
    out->cap = cap;
  }
  if (i == out->n) {
    out->group[out->n++] = *like;
    out->group[i].lead = (TsOperator){.arena = out->arena};
  }
  ts_operator_add(&out->group[i].lead, lead, c);
  out->failed |= out->group[i].lead.failed;
}

/* The partitions of the places of a monomial: place i goes to one of the blocks so far, or begins
 * another one. */
static void partition(TsJetGroups *out, const TsJetTerm *t, int i, int nblock,
                      const TsMonomial *block) {
  TsMonomial sorted[TS_JET_ORDER];
  if (i < t->m.n) {
    for (int k = 0; k <= nblock; k++) {
      memcpy(sorted, block, sizeof sorted);
      sorted[k].d[sorted[k].n++] = t->m.d[i];
      partition(out, t, i + 1, nblock + (k == nblock), sorted);
    }
    return;
  }
  TsJetGroup like = {.nth = nblock, .nbeside = nblock - 1};
  memcpy(sorted, block, sizeof sorted);
  for (int k = 1; k < nblock; k++)
    for (int j = k; j > 0 && ts_monomial_compare(&sorted[j - 1], &sorted[j]) > 0; j--) {
      TsMonomial m = sorted[j];
      sorted[j] = sorted[j - 1];
      sorted[j - 1] = m;
    }
  memcpy(like.beside, sorted, sizeof *sorted * (size_t)like.nbeside);
  put(out, &like, &sorted[nblock - 1], t->c);
}

void ts_operator_compose(const TsOperator *p, TsJetGroups *out) {
  const TsMonomial none[TS_JET_ORDER] = {{0}};
  for (int i = 0; i < p->n; i++)
    if (p->term[i].m.n) partition(out, &p->term[i], 0, 0, none);
}

void ts_operator_product(const TsOperator *p, TsJetGroups *out) {
  for (int i = 0; i < p->n; i++) {
    const TsMonomial *m = &p->term[i].m;
    for (unsigned left = 0; left < 1u << m->n; left++) {
      TsMonomial part[2] = {{0}};
      for (int k = 0; k < m->n; k++) {
        TsMonomial *to = &part[left >> k & 1];
        to->d[to->n++] = m->d[k];
      }
      int side = part[1].n >= part[0].n;
      TsJetGroup like = {.side = side, .nbeside = 1, .beside = {part[!side]}};
      put(out, &like, &part[side], p->term[i].c);
    }
  }
}
