/* Adjoints of solvers and decompositions, as products and solves with what the row has
 * computed. Real formulas: M. B. Giles, "Collected matrix derivative results" (2008), and
 * for qr S. F. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra
 * functions" (2010); conjugate transposes make them complex. Where matrices are said to be
 * Hermitian the gradient is that of all Hermitian changes, itself Hermitian.
 *
 * Vectors of svd and eigh are defined but for a sign, or a phase where they are complex,
 * and not at all where values coincide: gradients are right for what does not depend on
 * the phase, and infinite or NaN for coinciding values, unless only values are used. */
#include "ir/adjoint/linalg.h"

/* ---- short forms */
static TsVal mm(TsBuild *b, TsVal x, TsVal y) { return ts_build_matmul(b, x, y); }
static TsVal dagger(TsBuild *b, TsVal x) { return ts_build_dagger(b, x); }
static TsMeta meta_of(TsAdjoint *a, int i) { return *a->b->meta(a->b, a->in[i]); }

static TsVal unsqueeze(TsBuild *b, TsVal x, int axis) {
  return ts_build(b, TS_OP_unsqueeze, TS_IN(x), TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
}

/* Numbers along the last axis as factors of columns, and of rows. */
static TsVal as_row(TsBuild *b, TsVal s) { return unsqueeze(b, s, -2); }
static TsVal as_column(TsBuild *b, TsVal s) { return unsqueeze(b, s, -1); }

static TsVal triangle(TsBuild *b, TsVal x, bool lower, int64_t diagonal) {
  return ts_build(b, lower ? TS_OP_tril : TS_OP_triu, TS_IN(x),
                  TS_ATTRS({"diagonal", ts_b_int(diagonal)}), NULL);
}

typedef struct Flags {
  bool lower, transpose, unit;
} Flags;

static TsVal tri_solve(TsBuild *b, TsVal a, TsVal x, Flags f) {
  return ts_build(b, TS_OP_tri_solve, TS_IN(a, x),
                  TS_ATTRS({"lower", ts_b_bool(f.lower)}, {"transpose", ts_b_bool(f.transpose)},
                           {"unit", ts_b_bool(f.unit)}),
                  NULL);
}

/* l^-H x of a lower l. */
static TsVal solve_lower(TsBuild *b, TsVal l, TsVal x, bool unit) {
  Flags f = {.lower = true, .transpose = true, .unit = unit};
  return tri_solve(b, ts_build_conj(b, l), x, f);
}

/* x u^-H of an upper u. */
static TsVal divide_upper(TsBuild *b, TsVal x, TsVal u) {
  return dagger(b, tri_solve(b, u, dagger(b, x), (Flags){.lower = false}));
}

static TsVal add(TsBuild *b, TsVal x, TsVal y) {
  return !x ? y : !y ? x : ts_build_add(b, x, y);
}

static TsVal sub(TsBuild *b, TsVal x, TsVal y) {
  return !y ? x : !x ? ts_build_neg(b, y) : ts_build_sub(b, x, y);
}

/* Twice the Hermitian matrix with the lower triangle of x and the real diagonal of x. */
static TsVal from_lower(TsBuild *b, TsVal x) {
  TsVal l = ts_build_add(b, triangle(b, x, true, 0), triangle(b, x, true, -1));
  return ts_build_add(b, l, dagger(b, l));
}

static TsVal hermitian_part(TsBuild *b, TsVal x) {
  return ts_build_scale(b, ts_build_add(b, x, dagger(b, x)), 0.5);
}

static TsVal skew(TsBuild *b, TsVal x) { return ts_build_sub(b, x, dagger(b, x)); }

static TsVal columns(TsBuild *b, TsVal x, int64_t start, int64_t n) {
  return b->failed ? NULL : ts_build_narrow(b, x, b->meta(b, x)->ndim - 1, start, n);
}

static TsVal rows(TsBuild *b, TsVal x, int64_t start, int64_t n) {
  return b->failed ? NULL : ts_build_narrow(b, x, b->meta(b, x)->ndim - 2, start, n);
}

static TsVal join(TsBuild *b, TsVal x, TsVal y, int axis) {
  return ts_build(b, TS_OP_concat, TS_IN(x, y), TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
}

static TsVal eye(TsBuild *b, TsVal like) {
  if (b->failed) return NULL;
  const TsMeta *m = b->meta(b, like);
  return ts_build(
      b, TS_OP_eye, 0, NULL,
      TS_ATTRS({"n", ts_b_int(m->dim[m->ndim - 1])}, {"dtype", ts_b_dtype((TsDtype)m->dtype)}),
      NULL);
}

/* 1 / (values_j - values_i), 0 on the diagonal; times 1 / (values_j + values_i) of squares. */
static TsVal gaps(TsBuild *b, TsVal values, TsVal one, bool squares) {
  TsVal row = as_row(b, values), column = as_column(b, values);
  TsVal gap = ts_build_sub(b, row, column);
  if (squares) gap = ts_build_mul(b, gap, ts_build_add(b, row, column));
  return ts_build_div(b, ts_build_sub(b, b->number(b, 1), one), ts_build_add(b, gap, one));
}

/* ---- solvers */

/* What solve and tri_solve share: vectors as columns. */
typedef struct Solve {
  bool vector;
  TsVal x, g; /* result and its gradient, [.., n, k] */
} Solve;

static Solve open_solve(TsAdjoint *a) {
  Solve s = {.vector = meta_of(a, 1).ndim == 1, .x = a->out[0], .g = a->grad[0]};
  if (s.vector) s.x = unsqueeze(a->b, s.x, -1), s.g = unsqueeze(a->b, s.g, -1);
  return s;
}

static TsVal close_solve(TsBuild *b, const Solve *s, TsVal g) {
  int64_t last = -1;
  if (!s->vector) return g;
  return ts_build(b, TS_OP_squeeze, TS_IN(g), TS_ATTRS({"axis", ts_b_ints(&last, 1)}), NULL);
}

int ts_adjoint_tri_solve(TsAdjoint *a) {
  TsBuild *b = a->b;
  Solve s = open_solve(a);
  Flags f = {.lower = a->attr[0].i, .transpose = !a->attr[1].i, .unit = a->attr[2].i};
  TsVal g = tri_solve(b, ts_build_conj(b, a->in[0]), s.g, f);
  if (ts_wanted(a, 1)) a->grad_in[1] = close_solve(b, &s, g);
  if (!ts_wanted(a, 0)) return 0;
  TsVal d = f.transpose
                ? ts_build_product_for(b, g, s.x, false, true, a->in[0])
                : ts_build_conj(b, ts_build_product_for(b, s.x, g, false, true, a->in[0]));
  d = triangle(b, d, f.lower, !f.unit ? 0 : f.lower ? -1 : 1);
  a->grad_in[0] = ts_build_neg(b, d);
  return 0;
}

int ts_adjoint_solve(TsAdjoint *a) {
  TsBuild *b = a->b;
  Solve s = open_solve(a);
  TsVal g = ts_build2(b, TS_OP_solve, dagger(b, a->in[0]), s.g);
  if (ts_wanted(a, 1)) a->grad_in[1] = close_solve(b, &s, g);
  if (ts_wanted(a, 0))
    a->grad_in[0] = ts_build_neg(b, ts_build_product_for(b, g, s.x, false, true, a->in[0]));
  return 0;
}

int ts_adjoint_inv(TsAdjoint *a) {
  TsVal y = dagger(a->b, a->out[0]);
  a->grad_in[0] = ts_build_neg(a->b, mm(a->b, mm(a->b, y, a->grad[0]), y));
  return 0;
}

/* Cofactors exist where the inverse does not. */
int ts_adjoint_det(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal c = ts_build_conj(b, ts_build1(b, TS_OP_cofactor, a->in[0]));
  a->grad_in[0] = ts_build_mul(b, as_column(b, as_column(b, a->grad[0])), c);
  return 0;
}

static int define_cofactor(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal det = ts_build1(b, TS_OP_det, k->in[0]), inv = ts_build1(b, TS_OP_inv, k->in[0]);
  k->out[0] =
      ts_build_mul(b, as_column(b, as_column(b, det)), ts_build1(b, TS_OP_transpose, inv));
  return b->failed ? -1 : 0;
}

/* Only of regular matrices: inv refuses others. */
int ts_adjoint_cofactor(TsAdjoint *a) { return ts_adjoint_by_definition(a, define_cofactor); }

/* ---- decompositions */
int ts_adjoint_cholesky(TsAdjoint *a) {
  TsBuild *b = a->b;
  bool upper = a->attr[0].i;
  TsVal l = upper ? dagger(b, a->out[0]) : a->out[0];
  TsVal g = upper ? dagger(b, a->grad[0]) : a->grad[0];
  TsVal p = solve_lower(b, l, from_lower(b, mm(b, dagger(b, l), g)), false);
  a->grad_in[0] = ts_build_scale(b, solve_lower(b, l, dagger(b, p), false), 0.25);
  return 0;
}

/* q r = a with r square: (gq + q h) r^-H, h Hermitian from the lower r gr^H - gq^H q. */
static TsVal of_square_qr(TsBuild *b, TsVal q, TsVal r, TsVal gq, TsVal gr) {
  TsVal m = gr ? mm(b, r, dagger(b, gr)) : NULL;
  m = sub(b, m, gq ? mm(b, dagger(b, gq), q) : NULL);
  TsVal h = ts_build_scale(b, from_lower(b, m), 0.5);
  return divide_upper(b, add(b, mm(b, q, h), gq), r);
}

/* A wide r: its right part is q^H times the right part of a. */
int ts_adjoint_qr(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsMeta m = meta_of(a, 0);
  int64_t nr = m.dim[m.ndim - 2], nc = m.dim[m.ndim - 1];
  TsVal q = a->out[0], r = a->out[1], gq = a->grad[0], gr = a->grad[1];
  if (nr > nc && a->attr[0].i)
    return ts_build_fail(b, TS_ERR_value,
                         "qr: the columns of q beyond those of a are not "
                         "determined and have no derivative: use mode=\"reduced\"");
  if (nr >= nc) {
    a->grad_in[0] = of_square_qr(b, q, r, gq, gr);
    return 0;
  }
  TsVal right = gr ? columns(b, gr, nr, nc - nr) : NULL;
  if (gr) {
    gq = add(b, mm(b, columns(b, a->in[0], nr, nc - nr), dagger(b, right)), gq);
    gr = columns(b, gr, 0, nr);
  }
  TsVal left = of_square_qr(b, q, columns(b, r, 0, nr), gq, gr);
  right = gr ? mm(b, q, right) : ts_build_zeros_like(b, columns(b, a->in[0], nr, nc - nr));
  a->grad_in[0] = join(b, left, right, -1);
  return 0;
}

/* p l u = a. L^H gL below and gU U^H above the diagonal make the square part; a wide u or
 * a tall l has a further part that is a plain solve. */
int ts_adjoint_lu(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsMeta m = meta_of(a, 0);
  int64_t nr = m.dim[m.ndim - 2], nc = m.dim[m.ndim - 1], k = nr < nc ? nr : nc;
  TsVal p = a->out[0], l = a->out[1], u = a->out[2], more = NULL;
  TsVal gl = a->grad[1] ? a->grad[1] : ts_build_zeros_like(b, l);
  TsVal gu = a->grad[2] ? a->grad[2] : ts_build_zeros_like(b, u);
  if (!a->grad[1] && !a->grad[2]) return 0; /* p is constant */
  TsVal l1 = nr > k ? rows(b, l, 0, k) : l, gl1 = nr > k ? rows(b, gl, 0, k) : gl;
  TsVal u1 = nc > k ? columns(b, u, 0, k) : u, gu1 = nc > k ? columns(b, gu, 0, k) : gu;
  TsVal below = mm(b, dagger(b, l1), gl1), above = mm(b, gu1, dagger(b, u1));
  if (nc > k) {
    TsVal gu2 = columns(b, gu, k, nc - k);
    below = ts_build_sub(b, below, mm(b, gu2, dagger(b, columns(b, u, k, nc - k))));
    more = solve_lower(b, l1, gu2, true);
  } else if (nr > k) {
    TsVal gl2 = rows(b, gl, k, nr - k);
    above = ts_build_sub(b, above, mm(b, dagger(b, rows(b, l, k, nr - k)), gl2));
    more = divide_upper(b, gl2, u1);
  }
  TsVal x = ts_build_add(b, triangle(b, below, true, -1), triangle(b, above, false, 0));
  x = divide_upper(b, solve_lower(b, l1, x, true), u1);
  if (more) x = join(b, x, more, nc > k ? -1 : -2);
  a->grad_in[0] = mm(b, p, x);
  return 0;
}

/* v (diag(gw) + skew(v^H gv) / (w_j - w_i) / 2) v^H */
int ts_adjoint_eigh(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal w = a->out[0], v = a->out[1], gw = a->grad[0] ? as_row(b, a->grad[0]) : NULL, x;
  if (!a->grad[1]) {
    x = ts_build_mul(b, v, gw);
  } else {
    TsVal one = eye(b, w), f = ts_build_scale(b, gaps(b, w, one, false), 0.5);
    TsVal middle = ts_build_mul(b, skew(b, mm(b, dagger(b, v), a->grad[1])), f);
    x = mm(b, v, add(b, middle, gw ? ts_build_mul(b, one, gw) : NULL));
  }
  a->grad_in[0] = mm(b, x, dagger(b, v));
  return 0;
}

/* What a real input gets of a complex gradient. */
static TsVal fitting(TsAdjoint *a, TsVal g) {
  bool complex = ts_dtype_is((TsDtype)meta_of(a, 0).dtype, TS_KIND_C);
  return complex ? g : ts_build1(a->b, TS_OP_real, g);
}

/* v^-H x v^H: the change x in the basis of eigenvectors. */
static TsVal from_basis(TsAdjoint *a, TsVal v, TsVal x) {
  TsVal vh = dagger(a->b, v);
  return fitting(a, ts_build2(a->b, TS_OP_solve, vh, mm(a->b, x, vh)));
}

/* With m = v^H gv, less what changes the norm of a vector, (m_ij - (v^H v)_ij Re m_jj) / conj(w_j -
 * w_i), and gw on the diagonal. */
int ts_adjoint_eig(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal w = a->out[0], v = a->out[1], one = eye(b, w), x = NULL;
  if (a->grad[1]) {
    int64_t rows = -2;
    TsVal vh = dagger(b, v), m = mm(b, vh, a->grad[1]);
    TsVal d = ts_build1(b, TS_OP_real, ts_build_mul(b, m, one));
    x = ts_build_sub(b, m, ts_build_mul(b, mm(b, vh, v), ts_build_sum(b, d, &rows, 1, true)));
    x = ts_build_mul(b, x, gaps(b, ts_build_conj(b, w), one, false));
  }
  if (a->grad[0]) x = add(b, x, ts_build_mul(b, one, as_row(b, a->grad[0])));
  a->grad_in[0] = from_basis(a, v, x);
  return 0;
}

int ts_adjoint_eigvals(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal part[2] = {NULL};
  ts_build(b, TS_OP_eig, TS_IN(a->in[0]), TS_NO_ATTRS, part);
  if (b->failed) return -1;
  TsVal x = ts_build_mul(b, eye(b, part[0]), as_row(b, a->grad[0]));
  a->grad_in[0] = from_basis(a, part[1], x);
  return 0;
}

/* With p the pseudoinverse of a constant rank, dp = -p da p + p p^H da^H (1 - a p) + (1 - p a) da^H
 * p^H p (G. H. Golub and V. Pereyra, "The differentiation of pseudo-inverses", 1973). */
int ts_adjoint_pinv(TsAdjoint *a) {
  TsBuild *b = a->b;
  bool hermitian = a->attr[1].i;
  TsVal x = hermitian ? hermitian_part(b, a->in[0]) : a->in[0], p = a->out[0];
  TsVal ph = dagger(b, p), gh = dagger(b, a->grad[0]);
  TsVal pg = mm(b, p, gh), gp = mm(b, gh, p), phpg = mm(b, ph, pg), gpph = mm(b, gp, ph);
  TsVal left = ts_build_sub(b, phpg, mm(b, mm(b, phpg, p), x));
  TsVal right = ts_build_sub(b, gpph, mm(b, x, mm(b, p, gpph)));
  TsVal own = dagger(b, mm(b, p, gp));
  TsVal g = ts_build_sub(b, ts_build_add(b, left, right), own);
  a->grad_in[0] = hermitian ? hermitian_part(b, g) : g;
  return 0;
}

/* With U = u^H gu, V = v^H gv: the middle is (skew(U) s_j + s_i skew(V)) / (s_j^2 - s_i^2)
 * and diag(gs); complex vectors add the common phase, skew(U) / (2 s) on the diagonal. */
static TsVal svd_middle(TsBuild *b, TsVal s, TsVal gs, TsVal uu, TsVal vv, bool complex) {
  TsVal one = eye(b, s), f = gaps(b, s, one, true), row = as_row(b, s), x = NULL;
  if (uu) uu = skew(b, uu);
  if (uu) x = ts_build_mul(b, ts_build_mul(b, uu, f), row);
  if (vv) x = add(b, x, ts_build_mul(b, ts_build_mul(b, skew(b, vv), f), as_column(b, s)));
  if (gs) x = add(b, x, ts_build_mul(b, one, as_row(b, gs)));
  if (uu && vv && complex)
    x = add(b, x, ts_build_mul(b, uu, ts_build_div(b, ts_build_scale(b, one, 0.5), row)));
  return x;
}

static int only_reduced(TsBuild *b) {
  return ts_build_fail(b, TS_ERR_value,
                       "svd: vectors without a singular value are not "
                       "determined and have no derivative: use full=false");
}

int ts_adjoint_svd(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsMeta m = meta_of(a, 0);
  int64_t nr = m.dim[m.ndim - 2], nc = m.dim[m.ndim - 1], k = nr < nc ? nr : nc;
  TsVal u = a->out[0], s = a->out[1], vh = a->out[2];
  TsVal gu = a->grad[0], gs = a->grad[1], gvh = a->grad[2], more = NULL;
  if (a->attr[0].i && nr > k) u = columns(b, u, 0, k);
  if (a->attr[0].i && nc > k) vh = rows(b, vh, 0, k);
  if (a->attr[0].i && ((gu && nr > k) || (gvh && nc > k))) return only_reduced(b);
  if (!gu && !gvh) {
    a->grad_in[0] = mm(b, ts_build_mul(b, u, as_row(b, gs)), vh);
    return 0;
  }
  TsVal uu = gu ? mm(b, dagger(b, u), gu) : NULL, vv = gvh ? mm(b, vh, dagger(b, gvh)) : NULL;
  TsVal x = mm(b, u, svd_middle(b, s, gs, uu, vv, ts_dtype_is((TsDtype)m.dtype, TS_KIND_C)));
  if (gu && nr > k) /* what of gu is orthogonal to u */
    x = ts_build_add(b, x, ts_build_div(b, ts_build_sub(b, gu, mm(b, u, uu)), as_row(b, s)));
  if (gvh && nc > k) {
    more = ts_build_sub(b, gvh, mm(b, dagger(b, vv), vh));
    more = mm(b, u, ts_build_div(b, more, as_column(b, s)));
  }
  a->grad_in[0] = add(b, mm(b, x, vh), more);
  return 0;
}
