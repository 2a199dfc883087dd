/* sort, argsort, topk on a device: which kernel a call has. Rows along other axes are turned
 * first. */
#include "jit/eager/family/sort.h"

enum {
  SHORT = 512,   /* elements of a row up to which the network is faster */
  MOST = 16384,  /* of a row in a block */
  WIDE = 8192,   /* the same of 64 bits */
  BLOCK = 512,   /* elements of a block of short rows, about */
  CHOSEN = 1024, /* results of a row that are found and sorted alone */
  WARPS = 8,
};

/* The first k are worth finding where they are few. */
static TsTile *(*kernel_of(const TsSort *s))(const void *) {
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

int ts_sort_rows(TsOffloader *o, TsCall *call, int device, TsTensor *x, TsSort *s, TsTensor *y,
                 TsTensor *place) {
  TsOwn k = {.build = kernel_of(s), .arg = s, .nin = 1, .in = {x}, .ndim = 2};
  if (y) k.out[k.nout++] = y;
  k.out[k.nout++] = place;
  k.dim[0] = s->count, k.dim[1] = ts_tensor_numel(x), k.dim[2] = s->count * s->k;
  if (k.build == ts_sort_network)
    size_rows(s);
  else
    size_tile(s), k.ndim = 3;
  ts_own_word(&k, s->dtype | s->descending << 8 | s->value << 9);
  ts_own_word(&k, s->n);
  ts_own_word(&k, s->k);
  ts_own_word(&k, s->rows);
  ts_own_word(&k, s->pieces > 1 ? s->whole : 0);
  return ts_own_run(o, call, device, &k);
}

/* Rows that a block has no room for. */
static int run_long(TsOffloader *o, TsCall *call, int device, TsTensor *x, TsSort *s,
                    TsTensor *y, TsTensor *place) {
  int64_t pieces = (s->n + MOST - 1) / MOST;
  bool few = s->k <= CHOSEN && pieces * s->k <= MOST && ts_dtypes[s->dtype].nbytes <= 4;
  return few ? ts_sort_pieces(o, call, device, x, s, y, place, MOST)
             : ts_sort_long(o, call, device, x, s, y, place);
}

/* Results along another axis are made with it last, then copied. */
int ts_offload_sort(TsOffloader *o, TsCall *call, int device) {
  TsOp op = call->op;
  if (op != TS_OP_sort && op != TS_OP_argsort && op != TS_OP_topk) return 0;
  bool top = op == TS_OP_topk;
  TsTensor *x = call->in[0], *out[2] = {NULL, NULL}, *row = NULL, *view = NULL;
  TsTensor *value = op == TS_OP_argsort ? NULL : call->out[0];
  TsTensor *place = op == TS_OP_argsort ? call->out[0] : call->out[1];
  TsDtype d = ts_tensor_dtype(x);
  int nd = x->meta.ndim, done = -1;
  if (!nd || !ts_tensor_numel(place) || !ts_order_has(d)) return 0;
  int64_t at = call->attr[top ? 1 : 0].i;
  int axis = (int)(at < 0 ? at + nd : at);
  TsSort s = {
      .op = op, .dtype = d, .value = value != NULL, .pieces = 1, .n = x->meta.dim[axis]};
  s.descending = call->attr[top ? 2 : 1].i;
  s.k = top ? call->attr[0].i : s.n;
  bool long_rows = s.n > (ts_dtypes[d].nbytes > 4 ? WIDE : MOST);
  if (!s.k || s.n > INT32_MAX) return 0;
  s.count = ts_tensor_numel(x) / s.n;
  view = ts_own_turned(x, axis);
  if (view) row = ts_own_ready(call, view);
  bool last = axis == nd - 1;
  for (int i = 0; row && i < 2; i++) {
    TsTensor *to = i ? place : value;
    if (!to) continue;
    TsMeta m = to->meta;
    for (int a = 0; a < nd; a++)
      m.dim[a] = to->meta.dim[a == nd - 1 ? axis : a < axis ? a : a + 1];
    out[i] = last && to->contiguous ? ts_tensor_ref(to) : ts_tensor_new(call->ctx, &m);
  }
  if (row && out[1] && (out[0] || !value))
    done = (long_rows ? run_long : ts_sort_rows)(o, call, device, row, &s, out[0], out[1]);
  if (done == 1 && value && out[0] != value && ts_own_turn_back(call, out[0], value, axis))
    done = -1;
  if (done == 1 && out[1] != place && ts_own_turn_back(call, out[1], place, axis)) done = -1;
  ts_tensor_unref(out[0]), ts_tensor_unref(out[1]);
  ts_tensor_unref(row), ts_tensor_unref(view);
  return done;
}
