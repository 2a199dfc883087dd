/* Byte pair encoding: characters, of which the two neighbours with the least rank become one
 * token, of equal ranks the first, until there are no such two. Short words look for the least
 * among all; long ones keep what can be joined in a heap, so that no text costs more than n
 * log n. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "text/char.h"
#include "text/model.h"

typedef struct TsMerge {
  uint64_t pair; /* left << 32 | right; all ones: nothing here */
  uint32_t rank;
  int32_t id;
} TsMerge;

static const uint64_t EMPTY = UINT64_MAX;
enum { SHORT = 48 };
static const uint32_t NEVER = UINT32_MAX;

typedef struct Symbol {
  int32_t id;
  uint32_t from, to, next, before; /* of neighbours; n where there is none */
  uint32_t rank;                   /* of itself with the next, or NEVER */
  int32_t joined;                  /* what they become */
} Symbol;

typedef struct Entry {
  uint32_t rank, at;
  int32_t id;
} Entry;

static uint64_t slot_of(uint64_t pair, uint32_t mask) {
  pair *= UINT64_C(0x9e3779b97f4a7c15);
  return (pair ^ pair >> 29) >> 8 & mask;
}

/* ---- what two tokens become */
static uint32_t merge_of(const TsModel *m, const char *s, const Symbol *a, const Symbol *b,
                         int32_t *id) {
  if (m->by_vocab) {
    /* Only bytes that stand side by side, as they do unless some were unknown. */
    if (a->to != b->from) return NEVER;
    *id = ts_vocab_find(&m->vocab, s + a->from, b->to - a->from);
    return *id < 0 ? NEVER : m->rank[*id];
  }
  if (!m->nmerge) return NEVER;
  uint64_t pair = (uint64_t)(uint32_t)a->id << 32 | (uint32_t)b->id;
  for (uint64_t i = slot_of(pair, m->nmerge - 1);; i = (i + 1) & (m->nmerge - 1)) {
    const TsMerge *k = &m->merge[i];
    if (k->pair == EMPTY) return NEVER;
    if (k->pair == pair) return *id = k->id, k->rank;
  }
}

static void look(const TsModel *m, const char *s, Symbol *sym, uint32_t i, uint32_t n) {
  uint32_t j = sym[i].next;
  sym[i].rank = j < n ? merge_of(m, s, &sym[i], &sym[j], &sym[i].joined) : NEVER;
}

static void join(const TsModel *m, const char *s, Symbol *sym, uint32_t i, uint32_t n) {
  uint32_t j = sym[i].next;
  sym[i].id = sym[i].joined;
  sym[i].to = sym[j].to;
  sym[i].next = sym[j].next;
  sym[j].id = -1;
  sym[j].rank = NEVER;
  if (sym[i].next < n) sym[sym[i].next].before = i;
  look(m, s, sym, i, n);
  if (sym[i].before < n) look(m, s, sym, sym[i].before, n);
}

/* In a few symbols the least is found by looking at all; those that are left stay side by
 * side. */
static void join_short(const TsModel *m, const char *s, Symbol *sym, uint32_t n) {
  for (;;) {
    uint32_t least = NEVER, at = 0;
    for (uint32_t i = 0; i < n; i = sym[i].next)
      if (sym[i].rank < least) least = sym[i].rank, at = i;
    if (least == NEVER) return;
    join(m, s, sym, at, n);
  }
}

static bool before(Entry a, Entry b) {
  return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

static void push(Entry *heap, uint32_t *n, Entry e) {
  uint32_t i = (*n)++;
  for (; i && before(e, heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
  heap[i] = e;
}

static Entry pop(Entry *heap, uint32_t *n) {
  Entry top = heap[0], last = heap[--*n];
  uint32_t i = 0;
  for (uint32_t c; (c = 2 * i + 1) < *n; i = c) {
    if (c + 1 < *n && before(heap[c + 1], heap[c])) c++;
    if (!before(heap[c], last)) break;
    heap[i] = heap[c];
  }
  heap[i] = last;
  return top;
}

static int join_long(TsModel *m, const char *s, Symbol *sym, uint32_t n, TsError *err) {
  /* Each symbol once at the beginning, and two for each that goes. */
  Entry *heap = ts_model_room(m, 1, (size_t)n * 3 * sizeof *heap, err);
  uint32_t nheap = 0, round = 0;
  if (!heap) return -1;
  for (uint32_t i = 0; i < n; i++)
    if (sym[i].rank != NEVER) push(heap, &nheap, (Entry){sym[i].rank, i, sym[i].joined});
  while (nheap) {
    if (!(++round & 0xfff) && ts_cpu_interrupted())
      return ts_error_set(err, TS_ERR_interrupt, "interrupted");
    Entry e = pop(heap, &nheap);
    uint32_t i = e.at;
    if (sym[i].id < 0 || sym[i].rank != e.rank || sym[i].joined != e.id) continue;
    join(m, s, sym, i, n);
    if (sym[i].rank != NEVER) push(heap, &nheap, (Entry){sym[i].rank, i, sym[i].joined});
    uint32_t b = sym[i].before;
    if (b < n && sym[b].rank != NEVER)
      push(heap, &nheap, (Entry){sym[b].rank, b, sym[b].joined});
  }
  return 0;
}

/* ---- the symbols that a word begins with */
typedef struct Start {
  Symbol *sym;
  uint32_t n, at; /* symbols; bytes they have taken so far */
  bool unknown;   /* unknown bytes that are not a symbol yet */
  uint32_t nunknown;
} Start;

static void add(Start *w, int32_t id, uint32_t nbytes) {
  w->sym[w->n++] = (Symbol){.id = id, .from = w->at, .to = w->at + nbytes};
  w->at += nbytes;
}

static void add_unknown(const TsModel *m, Start *w) {
  if (w->unknown) add(w, m->unk_id, w->nunknown);
  w->unknown = false;
}

/* A character that no token is: as bytes if all of them are tokens; else unknown, or
 * nothing. */
static int no_token(const TsModel *m, Start *w, const char *s, size_t n, uint32_t nbytes,
                    TsError *err) {
  bool bytes = m->byte_fallback;
  for (size_t i = 0; bytes && i < n; i++) bytes = m->byte[(unsigned char)s[i]] >= 0;
  if (bytes) {
    for (size_t i = 0; i < n; i++) add(w, m->byte[(unsigned char)s[i]], 1);
    return 0;
  }
  if (!m->unk) {
    if (m->by_vocab) w->at += nbytes; /* its bytes keep their places */
    return 0;
  }
  if (m->unk_id < 0) return ts_model_no_unknown(m, err);
  if (w->unknown && m->fuse_unk) {
    w->nunknown += nbytes;
    return 0;
  }
  add_unknown(m, w);
  w->unknown = true;
  w->nunknown = nbytes;
  return 0;
}

static int begin(TsModel *m, Start *w, const char *s, uint32_t n, TsError *err) {
  char *with = NULL; /* a character with what its place in the word adds */
  if (m->nprefix || m->nsuffix) {
    with = ts_model_room(m, 2, m->nprefix + m->nsuffix + 4, err);
    if (!with) return -1;
  }
  for (uint32_t i = 0, len; i < n; i += len) {
    len = ts_char_len((unsigned char)s[i]);
    const char *c = s + i;
    size_t nc = len;
    if (with) {
      nc = 0;
      if (i) memcpy(with, m->prefix ? m->prefix : "", m->nprefix), nc = m->nprefix;
      memcpy(with + nc, s + i, len);
      nc += len;
      if (i + len == n)
        memcpy(with + nc, m->suffix ? m->suffix : "", m->nsuffix), nc += m->nsuffix;
      c = with;
    }
    int32_t id = ts_vocab_find(&m->vocab, c, nc);
    if (id >= 0) {
      add_unknown(m, w);
      add(w, id, len);
    } else if (no_token(m, w, c, nc, len, err)) {
      return -1;
    }
  }
  add_unknown(m, w);
  return 0;
}

int ts_bpe_tokens(TsModel *m, const char *s, uint32_t n, TsTokens *to, TsError *err) {
  if (m->ignore_merges) {
    int32_t id = ts_vocab_find(&m->vocab, s, n);
    if (id >= 0) return ts_tokens_add(to, id, 0, n, err);
  }
  /* A character may become as many symbols as it and its prefix and suffix have bytes. */
  size_t room = n + (m->byte_fallback ? (size_t)n * m->nprefix + m->nsuffix : 0);
  Start w = {.sym = ts_model_room(m, 0, room * sizeof(Symbol), err)};
  if (!w.sym || begin(m, &w, s, n, err)) return -1;
  for (uint32_t i = 0; i < w.n; i++) {
    w.sym[i].next = i + 1;
    w.sym[i].before = i ? i - 1 : w.n;
  }
  for (uint32_t i = 0; i < w.n; i++) look(m, s, w.sym, i, w.n);
  if (w.n <= SHORT)
    join_short(m, s, w.sym, w.n);
  else if (join_long(m, s, w.sym, w.n, err))
    return -1;
  for (uint32_t i = 0; i < w.n; i = w.sym[i].next)
    if (ts_tokens_add(to, w.sym[i].id, w.sym[i].from, w.sym[i].to, err)) return -1;
  return 0;
}

/* ---- reading */
static int add_merge(TsModel *m, const char *a, size_t na, const char *b, size_t nb,
                     uint32_t rank, char *both, TsError *err) {
  char name[64];
  int32_t left = ts_vocab_find(&m->vocab, a, na), right = ts_vocab_find(&m->vocab, b, nb);
  if (left < 0 || right < 0)
    return ts_error_set(err, TS_ERR_format, "merge %u has '%s', which is no token", rank,
                        left < 0 ? ts_tree_shown(a, na, name) : ts_tree_shown(b, nb, name));
  if (nb < m->nprefix)
    return ts_error_set(err, TS_ERR_format, "merge %u: '%s' has no prefix", rank,
                        ts_tree_shown(b, nb, name));
  memcpy(both, a, na);
  memcpy(both + na, b + m->nprefix, nb - m->nprefix);
  int32_t id = ts_vocab_find(&m->vocab, both, na + nb - m->nprefix);
  if (id < 0)
    return ts_error_set(err, TS_ERR_format, "merge %u makes '%s', which is no token", rank,
                        ts_tree_shown(both, na + nb - m->nprefix, name));
  uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
  uint64_t i = slot_of(pair, m->nmerge - 1);
  while (m->merge[i].pair != EMPTY && m->merge[i].pair != pair) i = (i + 1) & (m->nmerge - 1);
  m->merge[i] = (TsMerge){pair, rank, id};
  return 0;
}

static int read_merges(TsModel *m, const TsTree *t, TsError *err) {
  const TsTree *list;
  if (ts_tree_find(t, "merges", TS_TREE_list, true, &list, err)) return -1;
  for (m->nmerge = 16; m->nmerge < 2 * (uint64_t)list->n;) m->nmerge *= 2;
  m->merge = malloc(m->nmerge * sizeof *m->merge);
  char *both = malloc((size_t)m->vocab.longest * 2 + 1);
  int bad = m->merge && both ? 0 : ts_error_memory(err);
  for (uint32_t i = 0; !bad && i < m->nmerge; i++) m->merge[i].pair = EMPTY;
  uint32_t rank = 0;
  for (const TsTree *e = list->first; e && !bad; e = e->next) {
    const TsTree *a = e->kind == TS_TREE_list ? e->first : NULL;
    if (e->kind == TS_TREE_string) {
      if (e->n >= 8 && !memcmp(e->s, "#version", 8)) continue;
      const char *space = memchr(e->s, ' ', e->n);
      size_t na = space ? (size_t)(space - e->s) : 0, nb = space ? e->n - na - 1 : 0;
      if (!space || memchr(space + 1, ' ', nb))
        bad = ts_error_set(err, TS_ERR_format, "merge %u is no two tokens", rank);
      else
        bad = add_merge(m, e->s, na, space + 1, nb, rank, both, err);
    } else if (a && e->n == 2 && a->kind == TS_TREE_string && a->next->kind == TS_TREE_string) {
      bad = add_merge(m, a->s, a->n, a->next->s, a->next->n, rank, both, err);
    } else {
      bad = ts_error_set(err, TS_ERR_format, "merge %u is no two tokens", rank);
    }
    rank++;
  }
  free(both);
  return bad;
}

typedef struct Scored {
  double score;
  uint32_t id;
} Scored;

static int by_score(const void *a, const void *b) {
  const Scored *p = a, *q = b;
  return p->score != q->score ? (p->score > q->score ? -1 : 1)
         : p->id < q->id      ? -1
                              : p->id > q->id;
}

/* "scores", a list by id, as GGUF has them: equal ones are of one rank. Without, ids are
 * ranks. */
static int read_ranks(TsModel *m, const TsTree *t, TsError *err) {
  const TsTree *list;
  uint32_t n = m->vocab.end;
  if (ts_tree_find(t, "scores", TS_TREE_list, false, &list, err)) return -1;
  m->rank = malloc((n ? n : 1) * sizeof *m->rank);
  if (!m->rank) return ts_error_memory(err);
  for (uint32_t i = 0; i < n; i++) m->rank[i] = i;
  if (!list) return 0;
  if (list->n != n)
    return ts_error_set(err, TS_ERR_format, "there are %u scores of %u tokens", list->n, n);
  Scored *all = malloc((n ? n : 1) * sizeof *all);
  if (!all) return ts_error_memory(err);
  uint32_t i = 0;
  for (const TsTree *e = list->first; e; e = e->next, i++)
    all[i] = (Scored){e->kind == TS_TREE_number ? e->number : -INFINITY, i};
  qsort(all, n, sizeof *all, by_score);
  for (uint32_t rank = i = 0; i < n; i++) {
    if (i && all[i].score != all[i - 1].score) rank = i;
    m->rank[all[i].id] = rank;
  }
  free(all);
  return 0;
}

/* Is ▁ a token, so that words may be cut in front of it? Notes what stands in front of one. */
static bool is_apart(TsModel *m) {
  static const char mark[] = "\xe2\x96\x81";
  if (m->ignore_merges || m->nprefix || m->nsuffix) return false;
  if (ts_vocab_find(&m->vocab, mark, 3) < 0) return false;
  for (uint32_t id = 0; id < m->vocab.end; id++) {
    const char *s = m->vocab.at[id].s;
    uint32_t n = m->vocab.at[id].n, i = 0;
    if (!s) continue;
    while (n - i >= 3 && !memcmp(s + i, mark, 3)) i += 3;
    for (const char *at; (at = memmem(s + i, n - i, mark, 3)); i = (uint32_t)(at - s) + 3)
      if (at > s && (at - s < 3 || memcmp(at - 3, mark, 3)))
        m->held[(unsigned char)at[-1]] = true;
  }
  return true;
}

int ts_bpe_read(TsModel *m, TsArena *a, const TsTree *t, TsError *err) {
  const TsTree *v;
  if (ts_tree_text(a, t, "unk_token", &m->unk, &m->nunk, err) ||
      ts_tree_text(a, t, "continuing_subword_prefix", &m->prefix, &m->nprefix, err) ||
      ts_tree_text(a, t, "end_of_word_suffix", &m->suffix, &m->nsuffix, err) ||
      ts_tree_flag(t, "fuse_unk", &m->fuse_unk, err) ||
      ts_tree_flag(t, "ignore_merges", &m->ignore_merges, err) ||
      ts_tree_flag(t, "by_vocab", &m->by_vocab, err) ||
      ts_tree_find(t, "dropout", TS_TREE_number, false, &v, err))
    return -1;
  if (v && v->number != 0) {
    ts_error_set(err, TS_ERR_value, "BPE: 'dropout' is %g: tokens would be random", v->number);
    return ts_error_hint(err,
                         "write null in its place: what is tokenized here is not for training");
  }
  if (m->by_vocab ? read_ranks(m, t, err) : read_merges(m, t, err)) return -1;
  m->apart = is_apart(m);
  return 0;
}
