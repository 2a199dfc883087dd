/* Diagonals: every (columns + 1)-th element of a matrix that lies in one row. */
#include "ir/compose/compose.h"

/* Where the diagonal number `offset` of n x m elements begins, and how many it has. */
static int64_t diagonal_of(int64_t n, int64_t m, int64_t offset, int64_t *start) {
  offset = offset < -n  ? -n
           : offset > m ? m
                        : offset; /* outside of it all are one, and empty */
  int64_t rows = offset < 0 ? n + offset : n, columns = offset > 0 ? m - offset : m;
  int64_t count = rows < columns ? rows : columns;
  *start = offset < 0 ? -offset * m : offset;
  return count > 0 ? count : 0;
}

/* start, stop, step for all axes: the last one is cut, the others stay. */
typedef struct Cut {
  int64_t start[TS_MAX_RANK], stop[TS_MAX_RANK], step[TS_MAX_RANK];
} Cut;

static void cut_last(Cut *c, const int64_t *dim, int ndim, int64_t start, int64_t count,
                     int64_t step) {
  for (int i = 0; i < ndim; i++) c->start[i] = 0, c->stop[i] = dim[i], c->step[i] = 1;
  c->start[ndim - 1] = start;
  c->stop[ndim - 1] = start + (count - 1) * step + 1;
  c->step[ndim - 1] = step;
}

static TsVal cut(TsBuild *b, TsOp op, int n, TsVal *in, const Cut *c, int ndim) {
  return ts_build(b, op, n, in,
                  TS_ATTRS({"start", ts_b_ints(c->start, ndim)},
                           {"stop", ts_b_ints(c->stop, ndim)},
                           {"step", ts_b_ints(c->step, ndim)}),
                  NULL);
}

/* The diagonal of the last two axes, as the last one. */
static TsVal last_diagonal(TsBuild *b, TsVal x, int64_t offset) {
  if (b->failed) return NULL;
  TsMeta m = *b->meta(b, x);
  int nd = m.ndim;
  int64_t columns = m.dim[nd - 1], start;
  int64_t count = diagonal_of(m.dim[nd - 2], columns, offset, &start);
  if (count == 0) {
    x = ts_build_narrow(b, x, nd - 1, 0, 0);
    m.dim[nd - 2] = 0;
    return ts_build_reshape(b, x, m.dim, nd - 1);
  }
  m.dim[nd - 2] *= columns;
  x = ts_build_reshape(b, x, m.dim, nd - 1);
  Cut c;
  cut_last(&c, m.dim, nd - 1, start, count, columns + 1);
  return cut(b, TS_OP_slice, 1, &x, &c, nd - 1);
}

/* The two axes behind all others. */
static TsVal axes_last(TsBuild *b, TsVal x, int first, int second) {
  int64_t perm[TS_MAX_RANK];
  int nd = b->meta(b, x)->ndim, n = 0;
  if (first == nd - 2 && second == nd - 1) return x;
  for (int i = 0; i < nd; i++)
    if (i != first && i != second) perm[n++] = i;
  perm[n++] = first;
  perm[n++] = second;
  return ts_build_permute(b, x, perm, n);
}

static int too_few(TsCompose *k, int least) {
  char text[TS_META_TEXT];
  return ts_build_fail(k->b, TS_ERR_shape, "%s: at least %d axes are needed, not %s",
                       ts_op_info(k->op)->name, least,
                       ts_meta_text(k->b->meta(k->b, k->in[0]), text));
}

int ts_compose_diagonal(TsCompose *k) {
  TsBuild *b = k->b;
  int nd = b->meta(b, k->in[0])->ndim;
  if (nd < 2) return too_few(k, 2);
  int first = ts_compose_axis(k, k->attr[1].i, nd);
  int second = first < 0 ? -1 : ts_compose_axis(k, k->attr[2].i, nd);
  if (second < 0) return -1;
  if (first == second)
    return ts_build_fail(b, TS_ERR_attribute, "diagonal: axis %d is named twice", first);
  k->out[0] = last_diagonal(b, axes_last(b, k->in[0], first, second), k->attr[0].i);
  return b->failed ? -1 : 0;
}

int ts_compose_trace(TsCompose *k) {
  TsBuild *b = k->b;
  int64_t last = -1;
  if (b->meta(b, k->in[0])->ndim < 2) return too_few(k, 2);
  k->out[0] = ts_build_sum(b, last_diagonal(b, k->in[0], 0), &last, 1, false);
  return b->failed ? -1 : 0;
}

/* Zeros with x on a diagonal of new last axes. */
static TsVal embedded(TsBuild *b, TsOp op, TsVal x, int64_t offset) {
  TsMeta m = *b->meta(b, x);
  int nd = m.ndim;
  const int64_t most = INT32_MAX; /* the square of a side fits into 64 bits */
  int64_t count = m.dim[nd - 1], start;
  if (count > most || offset > most - count || offset < count - most) {
    ts_build_fail(b, TS_ERR_attribute,
                  "%s: offset %lld of %lld elements is too far from the diagonal",
                  ts_op_info(op)->name, (long long)offset, (long long)count);
    return NULL;
  }
  int64_t n = count + (offset < 0 ? -offset : offset);
  diagonal_of(n, n, offset, &start);
  m.dim[nd - 1] = n * n;
  TsVal y;
  if (count) {
    Cut c;
    y = ts_build(
        b, TS_OP_zeros, 0, NULL,
        TS_ATTRS({"shape", ts_b_ints(m.dim, nd)}, {"dtype", ts_b_dtype((TsDtype)m.dtype)}),
        NULL);
    TsVal in[2] = {y, x};
    cut_last(&c, m.dim, nd, start, count, n + 1);
    y = cut(b, TS_OP_slice_update, 2, in, &c, nd);
  } else { /* on the device of x, which lies nowhere in it */
    int64_t pads[2] = {0, n * n};
    y = ts_build(b, TS_OP_pad, TS_IN(x), TS_ATTRS({"pads", ts_b_ints(pads, 2)}), NULL);
  }
  m.dim[nd - 1] = m.dim[nd] = n;
  return ts_build_reshape(b, y, m.dim, nd + 1);
}

int ts_compose_diag_embed(TsCompose *k) {
  int nd = k->b->meta(k->b, k->in[0])->ndim;
  if (nd < 1 || nd >= TS_MAX_RANK) return too_few(k, 1);
  k->out[0] = embedded(k->b, k->op, k->in[0], k->attr[0].i);
  return k->b->failed ? -1 : 0;
}

int ts_compose_diag(TsCompose *k) {
  TsBuild *b = k->b;
  const TsMeta *m = b->meta(b, k->in[0]);
  char text[TS_META_TEXT];
  if (m->ndim < 1 || m->ndim > 2)
    return ts_build_fail(b, TS_ERR_shape, "diag: a vector or a matrix is needed, not %s",
                         ts_meta_text(m, text));
  k->out[0] = m->ndim == 1 ? embedded(b, k->op, k->in[0], k->attr[0].i)
                           : last_diagonal(b, k->in[0], k->attr[0].i);
  return b->failed ? -1 : 0;
}
