/* See ir/sched/why.h. */
#include "ir/sched/why.h"

#include <stdlib.h>
#include <string.h>

static const TsWhyRow rows[] = {
    {NULL, 0, "", "", ""},
#define WHY(name, rank, a, b, text) {#name, rank, a, b, text},
#include "ir/sched/why.def"
#undef WHY
};

const TsWhyRow *ts_why_row(int name) { return name ? &rows[name] : NULL; }

TsWhy ts_why_space(TsWhyName name, const TsSpaceAxes *a) {
  TsWhy w = ts_why(name, 0, 0);
  w.naxis = a->naxis;
  memcpy(w.axis, a->axis, sizeof w.axis);
  return w;
}

/* ---- the book */
struct TsWhyBook {
  const TsGraph *g;
  int *start;     /* by node: its first input's place in apart */
  TsWhy **apart;  /* by input; NULL: nothing was said */
  TsWhy **member; /* by node */
  TsArena *arena;
};

TsWhyBook *ts_why_book(TsSched *s) {
  const TsGraph *g = s->g;
  int n = 0;
  for (int i = 0; i < g->nnode; i++) n += g->node[i]->nin;
  TsWhyBook *b = ts_arena_alloc(&s->arena, sizeof *b);
  if (!b) return NULL;
  *b = (TsWhyBook){.g = g, .arena = &s->arena};
  b->start = ts_arena_alloc(&s->arena, sizeof *b->start * ((size_t)g->nnode + 1));
  b->apart = ts_arena_alloc(&s->arena, sizeof *b->apart * ((size_t)n + 1));
  b->member = ts_arena_alloc(&s->arena, sizeof *b->member * ((size_t)g->nnode + 1));
  if (!b->start || !b->apart || !b->member) return NULL;
  for (int i = n = 0; i < g->nnode; n += g->node[i++]->nin) b->start[i] = n;
  return s->why = b;
}

static const TsNode *origin(TsVal v) {
  while (ts_sched_is_view(v->node)) v = v->node->in[0];
  return v->node;
}

static int rank(const TsWhy *w) { return w ? rows[w->name].rank : -1; }

/* Reasons are for people: without memory for one there is none. */
static void put(TsWhyBook *b, TsWhy **at, const TsWhy *w) {
  if (!*at) *at = ts_arena_alloc(b->arena, sizeof **at);
  if (*at) **at = *w;
}

void ts_why_apart(TsWhyBook *b, const TsNode *n, int i, const TsWhy *w) {
  if (!b || !w->name || rank(b->apart[b->start[n->id] + i]) >= rank(w)) return;
  TsWhy own = *w;
  if (!own.from) own.from = origin(n->in[i]);
  if (!own.to) own.to = n;
  put(b, &b->apart[b->start[n->id] + i], &own);
}

void ts_why_in_place(TsWhyBook *b, const TsNode *n, int i) {
  TsWhy w = ts_why(TS_WHY_in_place, 0, 0);
  if (b) b->apart[b->start[n->id] + i] = NULL;
  ts_why_apart(b, n, i, &w);
}

void ts_why_apart_groups(const TsSched *s, const TsGroup *from, const TsGroup *to,
                         const TsWhy *w) {
  for (int k = 0; k < to->nnode; k++)
    for (int i = 0; i < to->node[k]->nin; i++)
      if (to->node[k]->in[i] && s->of[origin(to->node[k]->in[i])->id] == from->index)
        ts_why_apart(s->why, to->node[k], i, w);
}

void ts_why_member(TsWhyBook *b, const TsNode *n, const TsWhy *w) {
  if (b && w->name) put(b, &b->member[n->id], w);
}

const TsWhy *ts_why_of(const TsSched *s, const TsNode *n) {
  return s->why ? s->why->member[n->id] : NULL;
}

/* ---- pairs */
static void meet(TsWhyPair *p, TsVal v, const TsWhy *w) {
  TsVal made = v;
  while (ts_sched_is_view(made->node)) made = made->node->in[0];
  if (!p->nvalue || p->value != made) {
    if (!p->nvalue) p->value = made;
    p->nvalue++;
    p->bytes += (double)ts_meta_nbytes(&made->meta);
  }
  if (rank(w) > rank(p->why)) p->why = w;
}

typedef struct Pairs {
  TsWhyPair *at;
  int n, cap;
} Pairs;

static TsWhyPair *pair_of(Pairs *all, int first, int from, int to) {
  for (int i = first; i < all->n; i++)
    if (all->at[i].from == from) return &all->at[i];
  if (all->n == all->cap) {
    int cap = all->cap ? 2 * all->cap : 64;
    TsWhyPair *more = realloc(all->at, sizeof *more * (size_t)cap);
    if (!more) return NULL;
    all->at = more, all->cap = cap;
  }
  all->at[all->n] = (TsWhyPair){.from = from, .to = to};
  return &all->at[all->n++];
}

static int by_from(const void *a, const void *b) {
  return ((const TsWhyPair *)a)->from - ((const TsWhyPair *)b)->from;
}

static bool pairs_of(const TsSched *s, const TsGroup *g, Pairs *all) {
  int first = all->n;
  for (int k = 0; k < g->nnode; k++) {
    const TsNode *n = g->node[k];
    for (int i = 0; i < n->nin; i++) {
      int from = n->in[i] ? s->of[origin(n->in[i])->id] : -1;
      if (from < 0 || from == g->index) continue;
      TsWhyPair *p = pair_of(all, first, from, g->index);
      if (!p) return false;
      meet(p, n->in[i], s->why ? s->why->apart[s->why->start[n->id] + i] : NULL);
    }
  }
  qsort(all->at + first, (size_t)(all->n - first), sizeof *all->at, by_from);
  return true;
}

TsWhyPair *ts_why_pairs(const TsSched *s, int *n) {
  Pairs all = {.at = malloc(sizeof *all.at * 64), .cap = 64};
  bool whole = all.at != NULL;
  for (int i = 0; i < s->ngroup && whole; i++) whole = pairs_of(s, s->group[i], &all);
  if (!whole) free(all.at), all.at = NULL;
  *n = all.n;
  return all.at;
}

/* ---- text */
static void list(TsText *t, int n, const int64_t *dim) {
  for (int i = 0; i < n; i++) ts_text_format(t, "%s%lld", i ? "," : "[", (long long)dim[i]);
  ts_text_str(t, n > 0 ? "]" : "[]");
}

static void amount(TsText *t, double n) {
  static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  int k = 0;
  while (n >= 1024 && k < 4) n /= 1024, k++;
  ts_text_format(t, "%.4g %s", n, unit[k]);
}

static void name(TsText *t, const TsNode *n) { ts_text_str(t, n ? ts_node_name(n) : "it"); }

static void word(const TsWhy *w, const char *at, size_t n, TsText *t) {
  int64_t v = *at == 'a' ? w->a : w->b;
  if (!strncmp(at, "from", n)) return name(t, w->from);
  if (!strncmp(at, "to", n)) return name(t, w->to);
  if (!strncmp(at, "other", n)) return name(t, w->other);
  if (!strncmp(at, "space", n)) return list(t, w->naxis, w->axis);
  if (n > 1 && strncmp(at, "shape", n)) return amount(t, (double)v);
  if (n == 1) return ts_text_format(t, "%lld", (long long)v);
  const TsMeta *m = w->to ? ts_sched_at(w->to) : NULL;
  if (m) list(t, m->ndim, m->dim);
}

void ts_why_text(const TsWhy *w, TsText *text) {
  for (const char *s = rows[w->name].text; *s;) {
    const char *open = strchr(s, '{'), *close = open ? strchr(open, '}') : NULL;
    if (!close) return ts_text_str(text, s);
    ts_text_add(text, s, (size_t)(open - s));
    word(w, open + 1, (size_t)(close - open - 1), text);
    s = close + 1;
  }
}
