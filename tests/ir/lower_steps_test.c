/* Copies of operators in steps (ir/lower/steps.h) read and write whole lines: where the
 * fastest axis changes, on either side of the operator, they have tiles of both axes. */
#include <stdio.h>
#include <string.h>

#include "ir/compose/build.h"
#include "ir/graph/graph.h"
#include "ir/lower/lower.h"
#include "ir/tile/sequence.h"

static int failed;

static int transposed(const TsTile *k) {
  int n = 0;
  for (int i = 0; k->sequence && i < k->sequence->n; i++) {
    TsText text = {0};
    ts_tile_text(k->sequence->step[i].k, &text);
    n += text.at && strstr(text.at, "= transpose") != NULL;
    ts_text_free(&text);
  }
  return n;
}

static void check(TsOp op, int nin, const TsMeta *in, const TsAttr *attr, int want) {
  TsError err = {0};
  TsVal x[2], y[TS_MAX_OUT];
  int nout = 0;
  TsSchedKernel k = {.tile = NULL};
  TsGraph *g = ts_graph_new("f", &err);
  g->apart = true;
  for (int i = 0; i < nin; i++) x[i] = ts_graph_param(g, &in[i], NULL, NULL);
  ts_graph_emit(g, op, nin, x, attr, y, &nout);
  ts_graph_results(g, nout, y);
  TsSched *s = ts_sched_new(g, ts_target_with(TS_UNIT_roles), 1, &err);
  s->processors = 100, s->profile = TS_PROFILE_deterministic;
  int made = ts_lower_group(s, s->group[0], NULL, NULL, &k, &err),
      n = made ? -1 : transposed(k.tile);
  if (n != want)
    failed++, printf("%s: %d turned copies, %d expected %s\n", ts_op_info(op)->name, n, want,
                     err.message);
  ts_tile_free(k.tile);
  ts_sched_free(s);
  ts_graph_free(g);
}

int main(void) {
  TsMeta rows = {.dtype = TS_DT_f32, .ndim = 2, .dim = {512, 64}};
  TsMeta image[2] = {{.dtype = TS_DT_bf16, .ndim = 4, .dim = {2, 64, 24, 24}},
                     {.dtype = TS_DT_bf16, .ndim = 4, .dim = {64, 64, 3, 3}}};
  int64_t one[2] = {1, 1};
  TsAttr along[TS_MAX_ATTR] = {{.type = TS_ATTR_int, .i = 0}, {.type = TS_ATTR_bool}};
  TsAttr conv[TS_MAX_ATTR] = {ts_b_ints(one, 1),
                              ts_b_ints(one, 1),
                              ts_b_ints(one, 1),
                              {.type = TS_ATTR_int, .i = 1},
                              {.type = TS_ATTR_choice}};
  check(TS_OP_sort, 1, &rows, along, 3);  /* in, values, places */
  check(TS_OP_conv2d, 2, image, conv, 3); /* image, weights, result */
  return failed != 0;
}
