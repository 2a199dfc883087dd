/* Kept results of inner calls: a table with chains, bounded in bytes. */
#include "vm/code/memo.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 256 << 20, ENTRY_BYTES = 256 };

typedef struct Entry {
  TsMemoKey key;
  struct Entry *next;
  int nin, nout;
  int64_t nbytes;
  TsTensor *t[]; /* arguments as they were, then results */
} Entry;

struct TsMemo {
  Entry **bucket;
  size_t nbucket, n;
  int64_t nbytes;
  Entry *last; /* kept last: what does not change from level to level is kept once */
};

static size_t place_of(const TsMemo *m, const TsMemoKey *k) {
  uint64_t h = (uint64_t)(uintptr_t)k->code ^ k->stream_base;
  h = (h ^ h >> 29) * 0x9e3779b97f4a7c15u + (uint64_t)k->stream_depth;
  h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u + (uint64_t)k->site;
  return (h ^ h >> 32) & (m->nbucket - 1);
}

static bool same_key(const TsMemoKey *a, const TsMemoKey *b) {
  return a->code == b->code && a->stream_base == b->stream_base &&
         a->stream_depth == b->stream_depth && a->site == b->site;
}

/* kept is row-major. */
static bool same_bits(TsTensor *kept, TsTensor *t) {
  if (kept == t) return true;
  if (kept->meta.dtype != t->meta.dtype || !ts_meta_same_shape(&kept->meta, &t->meta) ||
      !t->contiguous)
    return false;
  size_t nbytes = (size_t)ts_meta_nbytes(&t->meta);
  if (!nbytes) return true;
  const void *a = ts_tensor_read(kept), *b = ts_tensor_read(t);
  return a && b && !memcmp(a, b, nbytes);
}

static bool same_call(const Entry *e, const TsMemoKey *k, int nin, TsTensor *const *in) {
  if (!same_key(&e->key, k) || e->nin != nin) return false;
  for (int i = 0; i < nin; i++)
    if (!same_bits(e->t[i], in[i])) return false;
  return true;
}

static void free_entry(TsMemo *m, Entry *e) {
  for (int i = 0; i < e->nin + e->nout; i++) ts_tensor_unref(e->t[i]);
  if (m->last == e) m->last = NULL;
  m->nbytes -= e->nbytes;
  m->n--;
  free(e);
}

static Entry **find(TsMemo *m, const TsMemoKey *k, int nin, TsTensor *const *in) {
  Entry **at = &m->bucket[place_of(m, k)];
  while (*at && !same_call(*at, k, nin, in)) at = &(*at)->next;
  return at;
}

bool ts_memo_find(TsMemo *m, const TsMemoKey *k, int nin, TsTensor *const *in, int nout,
                  TsTensor **out, bool take) {
  Entry **at = m ? find(m, k, nin, in) : NULL, *e = at ? *at : NULL;
  if (!e || e->nout != nout) return false;
  for (int i = 0; i < nout; i++) out[i] = ts_tensor_ref(e->t[nin + i]);
  if (take) {
    *at = e->next;
    free_entry(m, e);
  }
  return true;
}

static bool grow(TsMemo *m) {
  if (m->n < m->nbucket) return true;
  size_t old = m->nbucket, size = old ? old * 2 : 64;
  Entry **had = m->bucket, **b = calloc(size, sizeof *b);
  if (!b) return false;
  m->bucket = b;
  m->nbucket = size;
  for (size_t i = 0; i < old; i++)
    for (Entry *e = had[i], *next; e; e = next) {
      next = e->next;
      Entry **at = &b[place_of(m, &e->key)];
      e->next = *at;
      *at = e;
    }
  free(had);
  return true;
}

/* The last entry's copy where it has the same bits. */
static TsTensor *copy_of(TsContext *c, const TsMemo *m, int i, TsTensor *t, int64_t *nbytes) {
  const Entry *last = m->last;
  if (last && i < last->nin && same_bits(last->t[i], t)) return ts_tensor_ref(last->t[i]);
  *nbytes += ts_meta_nbytes(&t->meta);
  return ts_tensor_copy(c, t);
}

void ts_memo_keep(TsContext *c, TsMemo **memo, const TsMemoKey *k, int nin, TsTensor *const *in,
                  int nout, TsTensor *const *out) {
  TsMemo *m = *memo ? *memo : (*memo = calloc(1, sizeof *m));
  if (!m || !grow(m) || m->nbytes > MOST_BYTES || *find(m, k, nin, in)) return;
  Entry *e = calloc(1, sizeof *e + sizeof *e->t * (size_t)(nin + nout));
  if (!e) return;
  *e = (Entry){.key = *k, .nin = nin, .nout = nout, .nbytes = ENTRY_BYTES};
  bool whole = true;
  for (int i = 0; i < nin && whole; i++)
    whole = (e->t[i] = copy_of(c, m, i, in[i], &e->nbytes)) != NULL;
  for (int i = 0; i < nout && whole; i++) {
    e->t[nin + i] = ts_tensor_ref(out[i]);
    e->nbytes += ts_meta_nbytes(&out[i]->meta);
  }
  m->n++;
  m->nbytes += e->nbytes;
  if (!whole) {
    ts_error_clear(&c->err);
    free_entry(m, e);
    return;
  }
  Entry **at = &m->bucket[place_of(m, k)];
  e->next = *at;
  m->last = *at = e;
}

void ts_memo_free(TsMemo *m) {
  if (!m) return;
  for (size_t i = 0; i < m->nbucket; i++)
    while (m->bucket[i]) {
      Entry *e = m->bucket[i];
      m->bucket[i] = e->next;
      free_entry(m, e);
    }
  free(m->bucket);
  free(m);
}
