/* Plans as text: all of them, and in short. */
#include <string.h>

#include "ir/mesh/order.h"

static void put_join(const TsMeshPlan *p, const TsMeshStep *s, TsText *t) {
  static const char *const kind[] = {"move", "sum", "fold", "send", "draw"};
  const TsMeshJoin *j = &p->join[s->at];
  const TsMeshSlot *to = &p->slot[j->to], *from = &p->slot[j->from];
  char a[TS_META_TEXT], b[TS_META_TEXT];
  static const char *const does[] = {"", "start ", "done "};
  ts_text_format(t, "  %s%s %%%d %s -> %%%d %s", does[s->does], kind[j->kind], j->from,
                 ts_meta_text(&from->meta, a), j->to, ts_meta_text(&to->meta, b));
  if (s->k >= 0) ts_text_format(t, " micro %d", s->k);
  if (j->kind == TS_JOIN_send && to->place >= 0)
    ts_text_format(t, " to %s=%d", p->space.real->axis[p->space.axis], to->place);
  if (s->again) ts_text_str(t, " again");
  ts_text_format(t, "%s%s\n", j->node ? "  // " : "", j->node ? ts_node_name(j->node) : "");
}

static void put_group(const TsMeshPlan *p, const TsMeshStep *s, TsText *t) {
  static const char *const phase[] = {"data", "forward", "backward", "update"};
  const TsMeshGroup *g = &p->group[s->at];
  for (int part = 0; part < p->space.n; part++) {
    int at = ts_mesh_piece(p, s->at, part, s->k < 0 ? 0 : s->k);
    const TsMeshPiece *piece = &p->piece[at];
    if (!piece->g) continue;
    ts_text_format(t, "stage %d part %d", g->stage, ts_space_part(&p->space, g->place, part));
    if (p->how.chunks) ts_text_format(t, " chunk %d %s", g->chunk, phase[g->phase]);
    if (s->k >= 0) ts_text_format(t, " micro %d", s->k);
    if (s->again) ts_text_str(t, " again");
    bool before = piece->like != at || (p->alike && s->k > 0);
    if (before) ts_text_str(t, " as before");
    ts_text_char(t, '\n');
    if (!before && !s->again) ts_graph_text(piece->g, t);
  }
}

void ts_mesh_plan_text(const TsMeshPlan *p, TsText *t) {
  for (int i = 0; i < p->nstep; i++)
    (p->step[i].join ? put_join : put_group)(p, &p->step[i], t);
}

/* ---- in short */
static void put_bytes(TsText *t, int64_t n) {
  static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double x = (double)n;
  int u = 0;
  while (x >= 1024 && u < 4) x /= 1024, u++;
  ts_text_format(t, u ? "%.3g %s" : "%.0f %s", x, unit[u]);
}

static void put_chunks(const TsMeshPlan *p, TsText *t) {
  for (int c = 0; c < p->how.chunks; c++) {
    int n = 0;
    int64_t bytes = 0;
    for (int i = 0; i < p->g->nparam; i++) {
      if (p->chunk[i] != c || p->slot[p->param[i]].place < 0) continue;
      n++, bytes += ts_meta_nbytes(&p->g->param[i]->meta);
    }
    ts_text_format(t, "  chunk %d on %s=%d: %d tensors, ", c,
                   p->space.real->axis[p->space.axis], c % p->space.nplace, n);
    put_bytes(t, bytes);
    ts_text_str(t, p->how.again[c] ? ", computed again\n" : "\n");
  }
}

/* F2.1 is chunk 2 forward of micro-batch 1; the number of the chunk is left out where there is one a place. */
static void put_turns(const TsMeshPlan *p, TsText *t) {
  int nplace = p->space.nplace;
  bool several = p->how.chunks > nplace;
  for (int place = 0; place < nplace; place++) {
    if (p->how.chunks) ts_text_format(t, "  %s=%d ", p->space.real->axis[p->space.axis], place);
    int phase = -1, chunk = -1, k = -1;
    for (int i = 0; i < p->nstep; i++) {
      const TsMeshStep *s = &p->step[i];
      const TsMeshGroup *g = s->join ? NULL : &p->group[s->at];
      if (!g || !g->micro || g->place != place || s->again) continue;
      if (g->phase != TS_PHASE_forward && g->phase != TS_PHASE_backward) continue;
      if ((int)g->phase == phase && g->chunk == chunk && s->k == k) continue;
      phase = (int)g->phase, chunk = g->chunk, k = s->k;
      ts_text_format(t, " %c", phase == TS_PHASE_forward ? 'F' : 'B');
      if (several) ts_text_format(t, "%d.", chunk);
      ts_text_format(t, "%d", k);
    }
    ts_text_char(t, '\n');
  }
}

/* Of many devices how many behind this one have as much. */
static int devices_like(const TsMeshPlan *p, int r) {
  enum { FEW = 16 };
  int n = p->space.real->n, more = 0;
  while (n > FEW && r + more + 1 < n && p->held[r + more + 1] == p->held[r] &&
         p->peak[r + more + 1] == p->peak[r])
    more++;
  return more;
}

void ts_mesh_plan_summary(const TsMeshPlan *p, TsText *t) {
  static const char *const turns[] = {"gpipe", "1f1b", "interleaved"};
  const TsMeshSpace *s = &p->space;
  if (p->how.chunks)
    ts_text_format(t, "pipeline of %d chunks over %s=%d, %s, ", p->how.chunks,
                   s->real->axis[s->axis], s->nplace, turns[p->how.turns]);
  ts_text_format(t, "%d micro-batch%s\n", s->nmicro, s->nmicro == 1 ? "" : "es");
  put_chunks(p, t);
  if (s->nmicro > 1) put_turns(p, t);
  if (p->how.chunks) ts_text_format(t, "  places wait %.0f%% of the time\n", 100 * p->bubble);
  if (p->turned)
    ts_text_str(t, "  turns come out of their order: micro-batches meet in between\n");
  for (int r = 0, more; r < s->real->n; r += 1 + more) {
    more = devices_like(p, r);
    ts_text_str(t, "  ");
    for (int a = 0; a < s->real->naxis; a++)
      ts_text_format(t, "%s=%d ", s->real->axis[a], ts_mesh_coordinate(s->real, r, a));
    ts_text_str(t, "begins with ");
    put_bytes(t, p->held[r]);
    ts_text_str(t, ", has at most ");
    put_bytes(t, p->peak[r]);
    if (more) ts_text_format(t, ", and so have the next %d", more);
    ts_text_char(t, '\n');
  }
}
