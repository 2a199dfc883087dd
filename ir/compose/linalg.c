/* Contractions that are products in disguise. */
#include <ctype.h>
#include <string.h>

#include "ir/compose/compose.h"

static TsVal matmul(TsBuild *b, TsVal x, TsVal y) {
  return ts_build(b, TS_OP_matmul, TS_IN(x, y), TS_NO_ATTRS, NULL);
}

static TsVal transposed(TsBuild *b, TsVal x) {
  return ts_build(b, TS_OP_transpose, TS_IN(x), TS_NO_ATTRS, NULL);
}

int ts_compose_dot(TsCompose *k) {
  TsBuild *b = k->b;
  const TsMeta *x = b->meta(b, k->in[0]), *y = b->meta(b, k->in[1]);
  char tx[TS_META_TEXT], ty[TS_META_TEXT];
  if (x->ndim != 1 || y->ndim != 1 || x->dim[0] != y->dim[0])
    return ts_build_fail(b, TS_ERR_shape, "dot: needs two vectors of one length: %s x %s",
                         ts_meta_text(x, tx), ts_meta_text(y, ty));
  return ts_compose_finish(k, matmul(b, k->in[0], k->in[1]));
}

int ts_compose_outer(TsCompose *k) {
  TsBuild *b = k->b;
  const TsMeta *x = b->meta(b, k->in[0]), *y = b->meta(b, k->in[1]);
  char tx[TS_META_TEXT], ty[TS_META_TEXT];
  if (x->ndim != 1 || y->ndim != 1)
    return ts_build_fail(b, TS_ERR_shape, "outer: needs two vectors: %s x %s",
                         ts_meta_text(x, tx), ts_meta_text(y, ty));
  TsVal column =
      ts_build(b, TS_OP_unsqueeze, TS_IN(k->in[0]), TS_ATTRS({"axis", ts_b_int(1)}), NULL);
  return ts_compose_finish(k, ts_build2(b, TS_OP_mul, column, k->in[1]));
}

int ts_compose_factorized_matmul(TsCompose *k) {
  return ts_compose_finish(k, matmul(k->b, matmul(k->b, k->in[0], k->in[1]), k->in[2]));
}

int ts_compose_gemm(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal x = k->attr[2].i ? transposed(b, k->in[0]) : k->in[0];
  TsVal y = k->attr[3].i ? transposed(b, k->in[1]) : k->in[1];
  TsVal c = k->nin > 2 ? k->in[2] : NULL, p = matmul(b, x, y);
  if (k->attr[0].f != 1) p = ts_build2(b, TS_OP_mul, p, b->number(b, k->attr[0].f));
  if (c && k->attr[1].f != 1) c = ts_build2(b, TS_OP_mul, c, b->number(b, k->attr[1].f));
  return ts_compose_finish(k, c ? ts_build2(b, TS_OP_add, p, c) : p);
}

/* ---- einsum: operands are contracted from left to right. Each letter of the pair
 * is a batch letter (in both, and needed later), a letter summed now (needed no
 * more), or a free one; the pair becomes [batch, free, sum] x [batch, sum, free]. */
enum { LETTERS = 128, ELLIPSIS0 = 1 }; /* axes of "..." are letters 1, 2, .. from the right */

typedef struct Term {
  TsVal v;
  unsigned char letter[TS_MAX_RANK];
  int n;
} Term;

static int bad(TsCompose *k, const char *what) {
  return ts_build_fail(k->b, TS_ERR_value, "einsum: \"%s\": %s", k->attr[0].str, what);
}

/* Letters of one operand, the ellipsis standing for as many axes as are left. */
static int read_term(TsCompose *k, const char *s, const char *end, int ndim, Term *t) {
  int letters = 0, extra;
  const char *dots = NULL;
  for (const char *p = s; p < end; p++) {
    if (!strncmp(p, "...", 3))
      dots = p, p += 2;
    else if (isalpha((unsigned char)*p))
      letters++;
    else if (*p != ' ')
      return bad(k, "unexpected character");
  }
  extra = ndim - letters;
  if (extra < 0 || (extra > 0 && !dots)) return bad(k, "letters and axes differ in number");
  t->n = 0;
  for (const char *p = s; p < end; p++) {
    if (p == dots) {
      for (int i = extra; i-- > 0;) t->letter[t->n++] = (unsigned char)(ELLIPSIS0 + i);
      p += 2;
    } else if (*p != ' ') {
      t->letter[t->n++] = (unsigned char)*p;
    }
  }
  return 0;
}

static int place(const Term *t, int letter) {
  for (int i = 0; i < t->n; i++)
    if (t->letter[i] == letter) return i;
  return -1;
}

/* Axes summed away, kept in order. */
static void sum_letters(TsBuild *b, Term *t, const bool *keep) {
  int64_t axes[TS_MAX_RANK];
  int naxes = 0, n = 0;
  for (int i = 0; i < t->n; i++) {
    if (keep[t->letter[i]])
      t->letter[n++] = t->letter[i];
    else
      axes[naxes++] = i;
  }
  if (naxes) t->v = ts_build_sum(b, t->v, axes, naxes, false);
  t->n = n;
}

/* "ii": the diagonal, as a strided view of rows and columns flattened. */
static int take_diagonals(TsCompose *k, Term *t) {
  TsBuild *b = k->b;
  for (int i = 0; i < t->n; i++) {
    for (int j = i + 1; j < t->n; j++) {
      if (t->letter[i] != t->letter[j]) continue;
      TsMeta m = *b->meta(b, t->v);
      int64_t n = m.dim[i], perm[TS_MAX_RANK], dim[TS_MAX_RANK], count = 0;
      if (m.dim[j] != n) return bad(k, "a repeated letter has two sizes");
      for (int a = 0; a < t->n; a++)
        if (a != i && a != j) perm[count++] = a;
      for (int a = 0; a < count; a++) dim[a] = m.dim[perm[a]];
      perm[count] = i, perm[count + 1] = j;
      TsVal v = ts_build_permute(b, t->v, perm, t->n);
      dim[count] = n * n;
      v = ts_build_reshape(b, v, dim, (int)count + 1);
      int64_t start[TS_MAX_RANK], stop[TS_MAX_RANK], step[TS_MAX_RANK];
      for (int a = 0; a <= count; a++) start[a] = stop[a] = INT64_MIN, step[a] = 1;
      step[count] = n + 1;
      t->v = ts_build(b, TS_OP_slice, TS_IN(v),
                      TS_ATTRS({"start", ts_b_ints(start, (int)count + 1)},
                               {"stop", ts_b_ints(stop, (int)count + 1)},
                               {"step", ts_b_ints(step, (int)count + 1)}),
                      NULL);
      unsigned char kept = t->letter[i], old[TS_MAX_RANK];
      memcpy(old, t->letter, sizeof old);
      for (int a = 0; a < count; a++) t->letter[a] = old[perm[a]];
      t->letter[count] = kept;
      t->n = (int)count + 1;
      return take_diagonals(k, t);
    }
  }
  return 0;
}

static int64_t size_of(TsBuild *b, const Term *t, int letter) {
  int at = place(t, letter);
  return at < 0 ? 1 : b->meta(b, t->v)->dim[at];
}

/* The operand with its letters in the given order, sizes collected by group. */
static TsVal arranged(TsBuild *b, const Term *t, const unsigned char *order, int n,
                      const int64_t *dim, int ndim) {
  int64_t perm[TS_MAX_RANK];
  for (int i = 0; i < n; i++) perm[i] = place(t, order[i]);
  return ts_build_reshape(b, ts_build_permute(b, t->v, perm, n), dim, ndim);
}

static int contract_pair(TsCompose *k, Term *x, const Term *y, const bool *later) {
  TsBuild *b = k->b;
  unsigned char batch[TS_MAX_RANK], sum[TS_MAX_RANK], fx[TS_MAX_RANK], fy[TS_MAX_RANK];
  unsigned char ox[TS_MAX_RANK], oy[TS_MAX_RANK];
  int nb = 0, ns = 0, nx = 0, ny = 0;
  int64_t pb = 1, ps = 1, px = 1, py = 1, dim[TS_MAX_RANK];
  for (int i = 0; i < x->n; i++) {
    int l = x->letter[i];
    int64_t n = size_of(b, x, l), m = size_of(b, y, l);
    bool both = place(y, l) >= 0;
    if (both && n != m) return bad(k, "a letter has two sizes");
    if (!both)
      fx[nx++] = (unsigned char)l, px *= n;
    else if (later[l])
      batch[nb++] = (unsigned char)l, pb *= n;
    else
      sum[ns++] = (unsigned char)l, ps *= n;
  }
  for (int i = 0; i < y->n; i++)
    if (place(x, y->letter[i]) < 0) fy[ny++] = y->letter[i], py *= size_of(b, y, y->letter[i]);
  if (nb + nx + ny > TS_MAX_RANK) return bad(k, "too many letters");
  memcpy(ox, batch, (size_t)nb), memcpy(ox + nb, fx, (size_t)nx),
      memcpy(ox + nb + nx, sum, (size_t)ns);
  memcpy(oy, batch, (size_t)nb), memcpy(oy + nb, sum, (size_t)ns),
      memcpy(oy + nb + ns, fy, (size_t)ny);
  int n = 0;
  for (int i = 0; i < nb; i++) dim[n++] = size_of(b, x, batch[i]);
  for (int i = 0; i < nx; i++) dim[n++] = size_of(b, x, fx[i]);
  for (int i = 0; i < ny; i++) dim[n++] = size_of(b, y, fy[i]);
  int64_t dx[3] = {pb, px, ps}, dy[3] = {pb, ps, py};
  TsVal p = matmul(b, arranged(b, x, ox, nb + nx + ns, dx, 3),
                   arranged(b, y, oy, nb + ns + ny, dy, 3));
  x->v = ts_build_reshape(b, p, dim, n);
  memcpy(x->letter, batch, (size_t)nb);
  memcpy(x->letter + nb, fx, (size_t)nx);
  memcpy(x->letter + nb + nx, fy, (size_t)ny);
  x->n = n;
  return 0;
}

enum { MAX_TERMS = 32 };

/* Sizes of 1 under the ellipsis broadcast: such axes are expanded to the largest. */
static void expand_ellipsis(TsBuild *b, Term *t, int nterm) {
  int64_t want[TS_MAX_RANK + ELLIPSIS0] = {0};
  for (int i = 0; i < nterm; i++)
    for (int a = 0; a < t[i].n; a++)
      if (t[i].letter[a] < TS_MAX_RANK + ELLIPSIS0) {
        int64_t n = b->meta(b, t[i].v)->dim[a], *w = &want[t[i].letter[a]];
        if (*w < 2) *w = n;
      }
  for (int i = 0; i < nterm; i++) {
    TsMeta m = *b->meta(b, t[i].v);
    bool change = false;
    for (int a = 0; a < t[i].n; a++)
      if (t[i].letter[a] < TS_MAX_RANK + ELLIPSIS0 && m.dim[a] != want[t[i].letter[a]])
        m.dim[a] = want[t[i].letter[a]], change = true;
    if (change)
      t[i].v = ts_build(b, TS_OP_broadcast_to, TS_IN(t[i].v),
                        TS_ATTRS({"shape", ts_b_ints(m.dim, m.ndim)}), NULL);
  }
}

/* Without "->" the result has the letters that occur once, in alphabetical order. */
static void implied_result(const int *count, Term *out) {
  out->n = 0;
  for (int l = TS_MAX_RANK + ELLIPSIS0; l-- > ELLIPSIS0;)
    if (count[l]) out->letter[out->n++] = (unsigned char)l;
  for (int l = 'A'; l < LETTERS && out->n < TS_MAX_RANK; l++)
    if (count[l] == 1) out->letter[out->n++] = (unsigned char)l;
}

static int read_equation(TsCompose *k, Term *t, Term *result) {
  int count[LETTERS] = {0}; /* how often each letter stands in the terms */
  const char *s = k->attr[0].str, *arrow = strstr(s, "->"),
             *end = arrow ? arrow : s + strlen(s);
  if (k->nin > MAX_TERMS) return bad(k, "too many tensors");
  for (int i = 0; i < k->nin; i++) {
    const char *comma = memchr(s, ',', (size_t)(end - s)), *stop = comma ? comma : end;
    if (!comma && i + 1 < k->nin) return bad(k, "fewer terms than tensors");
    t[i].v = k->in[i];
    if (read_term(k, s, stop, k->b->meta(k->b, k->in[i])->ndim, &t[i])) return -1;
    for (int a = 0; a < t[i].n; a++) count[t[i].letter[a]]++;
    if (take_diagonals(k, &t[i])) return -1;
    s = stop + 1;
  }
  if (s <= end) return bad(k, "more terms than tensors");
  expand_ellipsis(k->b, t, k->nin);
  if (!arrow) {
    implied_result(count, result);
    return 0;
  }
  int dots = 0, letters = 0;
  for (int i = 0; i < k->nin; i++)
    for (int a = 0; a < t[i].n; a++)
      if (t[i].letter[a] < TS_MAX_RANK + ELLIPSIS0 && t[i].letter[a] > dots)
        dots = t[i].letter[a];
  for (const char *p = arrow + 2; *p; p++) letters += isalpha((unsigned char)*p) != 0;
  bool has_dots = strstr(arrow + 2, "...") != NULL;
  if (read_term(k, arrow + 2, arrow + 2 + strlen(arrow + 2), letters + (has_dots ? dots : 0),
                result))
    return -1;
  for (int i = 0; i < result->n; i++) {
    bool found = false;
    for (int j = 0; j < k->nin; j++) found |= place(&t[j], result->letter[i]) >= 0;
    if (!found) return bad(k, "a letter of the result stands in no term");
  }
  return 0;
}

int ts_compose_einsum(TsCompose *k) {
  TsBuild *b = k->b;
  Term t[MAX_TERMS], result = {0};
  int64_t perm[TS_MAX_RANK];
  if (read_equation(k, t, &result)) return -1;
  for (int i = 0; i < k->nin; i++) {
    /* Letters that this operand must still have: of the result and of others. */
    bool keep[LETTERS] = {false};
    for (int a = 0; a < result.n; a++) keep[result.letter[a]] = true;
    for (int j = 0; j < k->nin; j++)
      for (int a = 0; j != i && a < t[j].n; a++) keep[t[j].letter[a]] = true;
    sum_letters(b, &t[i], keep);
  }
  for (int i = 1; i < k->nin; i++) {
    bool later[LETTERS] = {false};
    for (int a = 0; a < result.n; a++) later[result.letter[a]] = true;
    for (int j = i + 1; j < k->nin; j++)
      for (int a = 0; a < t[j].n; a++) later[t[j].letter[a]] = true;
    if (contract_pair(k, &t[0], &t[i], later)) return -1;
  }
  if (t[0].n != result.n) return bad(k, "a letter of the result is repeated");
  for (int i = 0; i < result.n; i++) perm[i] = place(&t[0], result.letter[i]);
  return ts_compose_finish(k, ts_build_permute(b, t[0].v, perm, result.n));
}
