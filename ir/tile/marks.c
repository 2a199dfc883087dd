/* See ir/tile/marks.h. */
#include "ir/tile/marks.h"

#include <string.h>

const char *ts_tile_stage_name(int stage) {
  static const char *const name[] = {"load", "wait", "mma", "epilogue", "store", "other"};
  return stage >= 0 && stage <= TS_STAGE_other ? name[stage] : "?";
}

void ts_tile_mark(TsTileBuild *b, TsTileStage stage, const char *what, bool end) {
  if (!b->k->marks) return;
  TsAttr attr[3] = {{.type = TS_ATTR_choice, .i = stage},
                    {.type = TS_ATTR_bool, .i = end},
                    {.type = TS_ATTR_none}};
  const char *kept = what ? ts_arena_text(&b->k->arena, what) : NULL;
  if (kept) attr[2] = (TsAttr){.type = TS_ATTR_str, .str = kept};
  ts_tile_emit(b, TS_TILE_mark, 0, NULL, attr, 0, NULL);
}

static bool inside(const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op == TS_TILE_mark) return true;
    for (int i = 0; i < s->nregion; i++)
      if (inside(s->region[i])) return true;
  }
  return false;
}

bool ts_tile_has_marks(const TsTile *k) { return inside(k->body); }

static int stage_of(const TsTileStmt *s) { return (int)ts_tile_attr(s, "stage")->i; }

static const char *what_of(const TsTileStmt *s) {
  const TsAttr *a = ts_tile_attr(s, "what");
  return a->type == TS_ATTR_str ? a->str : NULL;
}

int ts_tile_mark_index(int n, const TsTileMark *mark, const TsTileStmt *s) {
  const char *what = what_of(s);
  for (int i = 0; i < n; i++) {
    bool same = what && mark[i].what ? !strcmp(what, mark[i].what) : what == mark[i].what;
    if (same && mark[i].stage == stage_of(s) && mark[i].stmt->line == s->line) return i;
  }
  return -1;
}

static int collect(const TsTileRegion *r, int n, TsTileMark *mark) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    bool begins = s->op == TS_TILE_mark && !ts_tile_attr(s, "end")->i;
    if (begins && n < TS_TILE_MARKS && ts_tile_mark_index(n, mark, s) < 0)
      mark[n++] = (TsTileMark){s, stage_of(s), what_of(s)};
    for (int i = 0; i < s->nregion; i++) n = collect(s->region[i], n, mark);
  }
  return n;
}

int ts_tile_marks(const TsTile *k, TsTileMark mark[TS_TILE_MARKS]) {
  return k->marks ? collect(k->body, 0, mark) : 0;
}
