/* Adjoint of matmul: dA = dY B^H, dB = A^H dY, in as few products as there can be. An
 * operand without a batch of its own meets the whole batch in one product, whose sums run
 * over the batch too, instead of a product for each and a sum of them afterwards. */
#include "ir/adjoint/linalg.h"
#include "ir/adjoint/common.h"

TsVal ts_build_matmul(TsBuild *b, TsVal x, TsVal y) { return ts_build2(b, TS_OP_matmul, x, y); }

TsVal ts_build_dagger(TsBuild *b, TsVal x) {
  return ts_build_conj(b, ts_build1(b, TS_OP_transpose, x));
}

static int64_t batch_of(const TsMeta *m) {
  int64_t n = 1;
  for (int i = 0; i + 2 < m->ndim; i++) n *= m->dim[i];
  return n;
}

/* [.., r, c] -> [.. r, c] */
static TsVal tall(TsBuild *b, TsVal x) {
  TsMeta m = *b->meta(b, x);
  int64_t dim[2] = {batch_of(&m) * m.dim[m.ndim - 2], m.dim[m.ndim - 1]};
  return ts_build_reshape(b, x, dim, 2);
}

/* [.., r, c] -> [r, .. c] */
static TsVal wide(TsBuild *b, TsVal x) {
  TsMeta m = *b->meta(b, x);
  int64_t perm[TS_MAX_RANK], dim[2] = {m.dim[m.ndim - 2], batch_of(&m) * m.dim[m.ndim - 1]};
  perm[0] = m.ndim - 2, perm[m.ndim - 1] = m.ndim - 1;
  for (int i = 0; i + 2 < m.ndim; i++) perm[i + 1] = i;
  return ts_build_reshape(b, ts_build_permute(b, x, perm, m.ndim), dim, 2);
}

TsVal ts_build_product_for(TsBuild *b, TsVal x, TsVal y, bool x_dagger, bool y_dagger,
                           TsVal to) {
  if (b->failed) return NULL;
  TsMeta mx = *b->meta(b, x), my = *b->meta(b, y), mt = *b->meta(b, to);
  bool one = batch_of(&mt) == 1, merge = one && batch_of(&mx) != 1;
  if (merge && batch_of(&mx) != batch_of(&my)) one = merge = false;
  if (merge) {
    x = x_dagger ? tall(b, x) : wide(b, x);
    y = y_dagger ? wide(b, y) : tall(b, y);
  }
  if (x_dagger) x = ts_build_dagger(b, x);
  if (y_dagger) y = ts_build_dagger(b, y);
  TsVal p = ts_build_matmul(b, x, y);
  if (!one || b->failed || b->meta(b, p)->ndim == mt.ndim) return p;
  return ts_build_reshape(b, p, mt.dim, mt.ndim);
}

/* ---- the epilogue */
/* The call with its activations as operators after it: what comes before the first one
 * stays in the product. */
static int definition(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal in[4] = {k->in[0], k->in[1]}, v;
  TsAttr attr[3] = {k->attr[0], k->attr[1], {.type = TS_ATTR_none}};
  TsEpilogueWord word[TS_EPILOGUE_WORDS + 1], *w = word;
  ts_epilogue_words(&k->attr[2], k->nin > 2 && k->in[2], k->nin > 3 && k->in[3], word);
  for (; *w && *w < TS_EPILOGUE_relu; w++) {
    int i = *w == TS_EPILOGUE_bias ? 2 : 3;
    in[i] = k->in[i];
  }
  v = b->emit(b, TS_OP_matmul, in[3] ? 4 : in[2] ? 3 : 2, in, attr, NULL);
  for (; *w; w++) {
    if (*w >= TS_EPILOGUE_relu)
      v = ts_epilogue_activation(b, *w, v);
    else
      v = ts_build_add(b, v, k->in[*w == TS_EPILOGUE_bias ? 2 : 3]);
  }
  k->out[0] = v;
  return b->failed ? -1 : 0;
}

/* ---- the product */

/* x with an axis of size 1 at `axis`: vectors as rows or columns. */
static TsVal widened(TsBuild *b, TsVal x, bool vector, int axis) {
  if (!vector) return x;
  return ts_build(b, TS_OP_unsqueeze, TS_IN(x), TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
}

/* A gradient of the widened x back in x's shape; a vector has no batch. */
static TsVal narrowed(TsBuild *b, TsVal g, bool vector, TsVal x) {
  if (!vector || b->failed) return g;
  return ts_build_reshape(b, g, b->meta(b, x)->dim, 1);
}

static int of_vectors(TsAdjoint *a, TsVal g) {
  for (int i = 0; i < 2; i++)
    if (a->wanted[i]) a->grad_in[i] = ts_build_mul(a->b, g, ts_build_conj(a->b, a->in[1 - i]));
  return 0;
}

static int of_product(TsAdjoint *a, TsVal g) {
  TsBuild *b = a->b;
  bool row = b->meta(b, a->in[0])->ndim == 1, column = b->meta(b, a->in[1])->ndim == 1;
  if (row && column) return of_vectors(a, g);
  TsVal x = widened(b, a->in[0], row, 0), y = widened(b, a->in[1], column, 1);
  g = widened(b, widened(b, g, column, -1), row, -2);
  if (a->wanted[0])
    a->grad_in[0] = narrowed(b, ts_build_product_for(b, g, y, false, true, x), row, a->in[0]);
  if (a->wanted[1])
    a->grad_in[1] =
        narrowed(b, ts_build_product_for(b, x, g, true, false, y), column, a->in[1]);
  return 0;
}

int ts_adjoint_matmul(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal g = a->grad[0];
  TsEpilogueWord word[TS_EPILOGUE_WORDS + 1];
  ts_epilogue_words(&a->attr[2], ts_input(a, 2), ts_input(a, 3), word);
  int n = 0;
  while (word[n] && word[n] < TS_EPILOGUE_relu) n++;
  if (word[n] && (word[n] != TS_EPILOGUE_relu || word[n + 1]))
    return ts_adjoint_by_definition(a, definition);
  if (word[n]) g = ts_common_open(b, a->out[0], g); /* relu came last: the result tells where */
  if (ts_wanted(a, 2)) a->grad_in[2] = g;
  if (ts_wanted(a, 3)) a->grad_in[3] = g;
  return b->failed ? -1 : of_product(a, g);
}
