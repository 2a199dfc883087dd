/* sort, argsort, topk on a device: which kernels they have. Rows along other axes are brought
 * together first. */
#include "ir/lower/sort/sort.h"

enum {
  SHORT = 512,  /* elements of a row up to which the network is faster */
  MOST = 16384, /* of a row in a block, as far as there is memory for it */
  WIDE = 8192,  /* the same of 64 bits */
  EACH = 6,     /* bytes of an element: key and place; of 64 bits: */
  EACH_WIDE = 10,
  BLOCK = 512,   /* elements of a block of short rows, about */
  CHOSEN = 1024, /* results of a row that are found and sorted alone */
  WARPS = 8,
};

/* The first k are worth finding where they are few. */
static TsTile *(*kernel_of(const TsSort *s))(const TsSort *) {
  bool wide = ts_dtypes[s->dtype].nbytes > 4;
  if (!wide && s->n <= SHORT) return ts_sort_network;
  return !wide && 4 * s->k <= s->n && s->k <= CHOSEN ? ts_sort_chosen : ts_sort_counted;
}

static void size_rows(TsSort *s) {
  for (s->m = 2; s->m < s->n;) s->m *= 2;
  for (s->rows = 1; s->rows * s->m < BLOCK && s->rows * 2 <= s->count;) s->rows *= 2;
}

static void size_tile(TsSort *s) {
  s->rows = 1;
  s->tile.warps = s->n > 4096 ? 2 * WARPS : WARPS;
  int64_t each = 32 * s->tile.warps;
  s->tile.chunks = (int)((s->n + each - 1) / each);
  s->m = each * s->tile.chunks;
}

void ts_sort_rows(TsSteps *steps, TsSort *s, int x, int y, int place) {
  TsTile *(*kernel)(const TsSort *) = kernel_of(s);
  int64_t of_x = s->count / s->pieces * (s->pieces > 1 ? s->whole : s->n);
  int64_t dim[3] = {s->count, of_x, s->count * s->k};
  int valued[] = {x, y, place}, only[] = {x, place};
  if (kernel == ts_sort_network)
    size_rows(s);
  else
    size_tile(s);
  ts_steps_add(steps, kernel(s), s->value ? valued : only, dim);
}

bool ts_sort_takes(const TsSort *s) {
  return ts_order_has(s->dtype) && s->k > 0 && s->n <= INT32_MAX && s->count > 0;
}

/* Elements of a row that a block has room for, beside what it counts. */
static int64_t most_of(const TsTarget *t, bool wide) {
  int64_t counts = 2 * WARPS * TS_ORDER_BINS * (int64_t)sizeof(int32_t);
  int64_t most = wide ? WIDE : MOST, room = t->shared_bytes - counts;
  while (t->shared_bytes && most > SHORT && most * (wide ? EACH_WIDE : EACH) > room) most /= 2;
  return most;
}

void ts_sort_steps(TsSteps *steps, TsSort *s, int x, int y, int place) {
  bool wide = ts_dtypes[s->dtype].nbytes > 4;
  int64_t most = most_of(steps->s->target, wide), pieces = (s->n + most - 1) / most;
  bool few = s->k <= CHOSEN && pieces * s->k <= most && !wide;
  s->pieces = 1;
  if (s->n <= most)
    ts_sort_rows(steps, s, x, y, place);
  else if (few)
    ts_sort_pieces(steps, s, x, y, place, most);
  else
    ts_sort_long(steps, s, x, y, place);
}

/* ---- the operators */
int ts_lower_sort(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                  TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  const TsMeta *m = &n->in[0]->meta;
  bool top = n->op == TS_OP_topk, only = n->op == TS_OP_argsort;
  if (!m->ndim || !ts_meta_numel(m)) return 0;
  TsStepsAxis a = ts_steps_axis(m, n->attr[top ? 1 : 0].i);
  TsSort s = {.op = (TsOp)n->op, .dtype = (TsDtype)m->dtype, .value = !only, .n = a.n};
  s.descending = n->attr[top ? 2 : 1].i;
  s.k = top ? n->attr[0].i : s.n;
  s.count = a.outer * a.inner;
  if (!ts_sort_takes(&s)) return 0;
  TsStepsOrder last = ts_steps_last(m, a.at);
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int in = ts_steps_in(&x, 0, &last), y = only ? 0 : ts_steps_out(&x, 0, &last);
  ts_sort_steps(&x, &s, in, y, ts_steps_out(&x, !only, &last));
  return ts_steps_end(&x, out);
}
