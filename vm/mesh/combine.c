/* See vm/mesh/combine.h. Kernels of GPUs that meet add up what they can (TsOffload.sum), unless copy
 * engines are to (by_engines). All else goes in three steps, each for all sums: devices fetch the
 * summands of what they are to add, by kernels that read them where they lie or by copies (wire.h);
 * they add; and they fetch from each other what they have not added themselves. Who
 * adds what makes no difference to the bits, since the tree is always the same. In memory of the
 * host the first part adds. GPUs add all of a small sum, each for itself, which saves the third
 * step, and of a large one each a range of its elements, which saves bytes. */
#include "vm/mesh/combine.h"

#include <stdlib.h>

#include "devices/device.h"
#include "vm/core/offload.h"
#include "vm/mesh/wire.h"

enum { SMALL_NBYTES = 256 << 10 }; /* of a sum that more than two GPUs add, each for itself */

typedef enum Share { WHOLE, RANGE, PIECE, NOTHING } Share;

/* What one part adds of one sum. */
typedef struct Adder {
  const TsMeshSum *s;
  int p, first, place, n; /* place p of n in the group that begins with part `first` */
  Share share;
  TsLeafSum *list;
  int nlist;
  TsTensor *made;   /* what it has added */
  TsTensor **other; /* then what the others have, by part */
} Adder;

bool ts_mesh_sum_joins(const TsMeshSum *s, int p, int q) {
  const TsMesh *m = s->from->mesh;
  for (int a = 0; a < m->naxis; a++)
    if (!(s->axes >> a & 1) && ts_mesh_coordinate(m, p, a) != ts_mesh_coordinate(m, q, a))
      return false;
  return true;
}

static TsWireEnd end_of(const TsMeshSum *s, int p) { return ts_wire_end_of(s->from->mesh, p); }

static Adder adder_of(const TsMeshSum *s, int p) {
  Adder a = {.s = s, .p = p, .first = -1};
  TsMeta part = ts_layout_part(s->from, s->whole, p);
  for (int q = 0; q < s->from->mesh->n; q++) {
    if (!ts_mesh_sum_joins(s, p, q)) continue;
    if (a.first < 0) a.first = q;
    if (q == p) a.place = a.n;
    a.n++;
  }
  bool pieces = ts_layout_of(s->whole) != s->from;
  bool all = a.n <= 2 || ts_meta_nbytes(&part) <= SMALL_NBYTES;
  a.share = pieces              ? PIECE
            : end_of(s, p).host ? (p == a.first ? WHOLE : NOTHING)
            : all               ? WHOLE
                                : RANGE;
  return a;
}

/* ---- views of what is fetched; all of them are read alone */
/* Elements lo..hi of t, which is row-major. */
static TsTensor *range_of(TsTensor *t, int64_t lo, int64_t hi) {
  TsMeta m = t->meta;
  m.ndim = 1, m.dim[0] = hi - lo;
  return ts_tensor_view(t, &m, (int64_t[]){1},
                        t->offset + ts_dtype_nbytes((TsDtype)m.dtype, lo));
}

static TsTensor *range_of_place(TsContext *c, TsTensor *t, int place, int n) {
  TsTensor *rows = ts_tensor_contiguous(c, t);
  int64_t size = ts_tensor_numel(t);
  TsTensor *y = rows ? range_of(rows, size * place / n, size * (place + 1) / n) : NULL;
  ts_tensor_unref(rows);
  return y;
}

static TsTensor *piece_of(const Adder *a, TsTensor *summand) {
  const TsMeta *whole = a->s->whole;
  const TsLayout *to = ts_layout_of(whole);
  TsMeta m = summand->meta;
  int64_t offset = summand->offset;
  for (int d = 0; d < whole->ndim; d++) {
    int64_t have = 0, all = 0, want = 0, count = 0;
    ts_layout_run(a->s->from, d, whole->dim[d], a->p, 0, &have, &all);
    if (!ts_layout_run(to, d, whole->dim[d], a->p, 0, &want, &count)) want = have, count = 0;
    offset += ts_dtype_nbytes((TsDtype)m.dtype, (want - have) * summand->stride[d]);
    m.dim[d] = count;
  }
  return ts_tensor_view(summand, &m, summand->stride, offset);
}

static TsTensor *wanted_of(TsContext *c, const Adder *a, TsTensor *summand) {
  return a->share == WHOLE   ? ts_tensor_ref(summand)
         : a->share == RANGE ? range_of_place(c, summand, a->place, a->n)
                             : piece_of(a, summand);
}

/* ---- steps */
static int fetch_summands(TsWire *w, Adder *a) {
  const TsMeshSum *s = a->s;
  int all = 0, failed = 0;
  for (int q = 0; q < s->from->mesh->n; q++)
    all += ts_mesh_sum_joins(s, a->p, q) ? s->nsum[q] : 0;
  if (!(a->list = malloc(sizeof *a->list * (size_t)(all + 1))))
    return ts_error_memory(&w->c->err);
  for (int q = 0; q < s->from->mesh->n; q++)
    for (int k = 0; k < s->nsum[q] && ts_mesh_sum_joins(s, a->p, q) && !failed; k++) {
      TsTensor *x = wanted_of(w->c, a, s->sum[q][k].value);
      TsLeafSum *to = &a->list[a->nlist];
      *to = s->sum[q][k];
      failed = !x || ts_wire_fetch(w, x, end_of(s, q), end_of(s, a->p), &to->value);
      a->nlist += !failed;
      ts_tensor_unref(x);
    }
  return failed;
}

/* The sum of one summand is that; but what lies elsewhere, or is a view of more, has to be copied. */
static TsTensor *own(TsContext *c, TsTensor *y) {
  if (!y ||
      (y->contiguous && !y->storage->release && y->storage->nbytes == ts_meta_nbytes(&y->meta)))
    return y;
  TsTensor *copy = ts_tensor_copy(c, y);
  ts_tensor_unref(y);
  return copy;
}

static int add(TsContext *c, Adder *a) {
  TsAttr dtype = ts_attr_dtype((TsDtype)a->s->whole->dtype);
  int n = a->nlist;
  a->nlist = 0; /* they are used up */
  TsTensor *y = ts_leaves_root(c, a->s->kind, a->s->leaves, n, a->list);
  if (y && ts_tensor_dtype(y) != (TsDtype)a->s->whole->dtype) {
    TsTensor *rounded = ts_vm_call1(c, TS_OP_cast, 1, &y, &dtype);
    ts_tensor_unref(y);
    y = rounded;
  }
  a->made = own(c, y);
  return a->made ? 0 : -1;
}

static int fetch_sums(TsWire *w, Adder *all, Adder *a) {
  int n = a->s->from->mesh->n, failed = 0;
  if (a->share == WHOLE || a->share == PIECE) return 0;
  if (!(a->other = calloc((size_t)n, sizeof *a->other))) return ts_error_memory(&w->c->err);
  for (int q = 0; q < n && !failed; q++)
    if (q != a->p && ts_mesh_sum_joins(a->s, a->p, q) && all[q].made)
      failed = ts_wire_fetch(w, all[q].made, end_of(a->s, q), end_of(a->s, a->p), &a->other[q]);
  return failed;
}

/* Ranges of all, side by side. */
static int join_ranges(TsContext *c, const Adder *all, const Adder *a, TsTensor *y) {
  int64_t size = ts_tensor_numel(y);
  int failed = 0;
  for (int q = 0; q < a->s->from->mesh->n && !failed; q++) {
    TsTensor *x = q == a->p ? a->made : a->other[q];
    int64_t lo = size * all[q].place / a->n, hi = size * (all[q].place + 1) / a->n;
    TsTensor *into = x && hi > lo ? range_of(y, lo, hi) : NULL;
    failed = into ? ts_vm_assign(c, into, x) : x && hi > lo;
    ts_tensor_unref(into);
  }
  return failed;
}

static int finish(TsContext *c, const Adder *all, Adder *a) {
  TsTensor **y = &a->s->out[a->p];
  if (a->share == RANGE) {
    TsMeta m = ts_layout_part(a->s->from, a->s->whole, a->p);
    *y = ts_tensor_new(c, &m);
    return !*y || join_ranges(c, all, a, *y) ? -1 : 0;
  }
  *y = a->share == NOTHING ? ts_tensor_copy(c, a->other[a->first]) : a->made;
  if (a->share != NOTHING) a->made = NULL;
  return *y ? 0 : -1;
}

static void drop(Adder *a) {
  for (int i = 0; i < a->nlist; i++) ts_tensor_unref(a->list[i].value);
  for (int q = 0; a->other && q < a->s->from->mesh->n; q++) ts_tensor_unref(a->other[q]);
  ts_tensor_unref(a->made);
  free(a->other);
  free(a->list);
}

/* Step by step, of all at once. */
static int combine(TsWire *w, int n, const TsMeshSum *s) {
  TsContext *c = w->c;
  int total = 0, failed = 0, k = 0;
  for (int i = 0; i < n; i++) total += s[i].from->mesh->n;
  Adder *a = calloc((size_t)total + 1, sizeof *a);
  if (!a) return ts_error_memory(&c->err);
  for (int i = 0; i < n; i++)
    for (int p = 0; p < s[i].from->mesh->n; p++) a[k++] = adder_of(&s[i], p);
  for (int i = 0; i < total && !failed; i++)
    if (a[i].share != NOTHING) failed = fetch_summands(w, &a[i]);
  failed = failed || ts_wire_flush(w);
  for (int i = 0; i < total && !failed; i++)
    if (a[i].share != NOTHING) failed = add(c, &a[i]);
  for (int i = 0; i < total && !failed; i++) failed = fetch_sums(w, a + i - a[i].p, &a[i]);
  failed = failed || ts_wire_flush(w);
  for (int i = 0; i < total && !failed; i++) failed = finish(c, a + i - a[i].p, &a[i]);
  for (int i = 0; i < total; i++) drop(&a[i]);
  free(a);
  return failed ? -1 : 0;
}

/* Kernels that wait for other devices would keep those that compute from some of the processors all the
 * while; copy engines keep none, and what adds then waits for nobody. */
static bool by_engines(const TsContext *c, const TsMeshSum *s) {
  TsMeta part = ts_layout_part(s->from, s->whole, 0);
  return c->engines && !c->on_host && ts_meta_nbytes(&part) >= c->engines &&
         ts_layout_of(s->whole) == s->from;
}

/* Those of devices whose kernels meet are done by these; apart[] gets the others. */
static int meet(TsContext *c, int n, const TsMeshSum *s, int *napart, TsMeshSum *apart) {
  bool can = c->offload && c->offload->sum && !c->on_host;
  for (int i = *napart = 0; i < n; i++) {
    int done = can && !by_engines(c, &s[i]) ? c->offload->sum(c, &s[i], i, n) : 0;
    if (done < 0) return -1;
    if (!done) apart[(*napart)++] = s[i];
  }
  return 0;
}

static void forget(int n, const TsMeshSum *s) {
  for (int i = 0; i < n; i++)
    for (int p = 0; p < s[i].from->mesh->n; p++) {
      ts_tensor_unref(s[i].out[p]);
      s[i].out[p] = NULL;
    }
}

int ts_mesh_combine(TsContext *c, int n, const TsMeshSum *s) {
  TsMeshSum *apart = malloc(sizeof *apart * (size_t)(n + 1));
  int napart = 0;
  if (!apart) return ts_error_memory(&c->err);
  TsWire w = ts_wire_begin(c);
  w.engines = c->engines > 0;
  int failed = w.failed || meet(c, n, s, &napart, apart);
  if (!failed && napart) failed = combine(&w, napart, apart);
  failed = ts_wire_end(&w, failed);
  if (failed) forget(n, s);
  free(apart);
  return failed;
}
