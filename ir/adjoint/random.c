/* Adjoints of drawing and of triangles. */
#include "ir/adjoint/adjoint.h"

/* The same mask, drawn again from the same place. */
int ts_adjoint_dropout(TsAdjoint *a) {
  TsBuild *b = a->b;
  const TsAttr *p = &a->attr[0], *seed = &a->attr[1], *stream = &a->attr[2];
  if (seed->type == TS_ATTR_none && stream->type == TS_ATTR_none)
    return ts_build_fail(b, TS_ERR_value,
                         "dropout: its derivative needs the seed and stream of its mask");
  a->grad_in[0] = ts_build(b, TS_OP_dropout, TS_IN(a->grad[0]),
                           TS_ATTRS({"p", *p}, {"seed", *seed}, {"stream", *stream}), NULL);
  return 0;
}

static int triangle(TsAdjoint *a) {
  a->grad_in[0] =
      ts_build(a->b, a->op, TS_IN(a->grad[0]), TS_ATTRS({"diagonal", a->attr[0]}), NULL);
  return 0;
}

int ts_adjoint_tril(TsAdjoint *a) { return triangle(a); }
int ts_adjoint_triu(TsAdjoint *a) { return triangle(a); }
