/* From what the program wants of a kernel to what there is: see ts_lower_settle. */
#include <string.h>

#include "ir/lower/lower.h"
#include "ir/tile/product/product.h"

typedef struct Settling {
  TsSched *s;
  TsGroup *g;
  TsLayoutFn *layout;
  void *arg;
  TsText remarks;
} Settling;

static void remark(Settling *x, int field, int64_t value) {
  if (x->remarks.len) ts_text_char(&x->remarks, '\n');
  ts_text_format(&x->remarks, "%s = %lld", ts_choice_name(field), (long long)value);
}

/* There is no such choice: what there is. */
static void has_none(Settling *x, int field) {
  const char *family = ts_choice_family(x->s, x->g);
  remark(x, field, ts_choice_value(&x->g->want, field));
  if (!family) {
    ts_text_str(&x->remarks, " has no effect: nothing can be chosen for this operator");
    return;
  }
  ts_text_format(&x->remarks, " has no effect: %s for %s has no such choice", family,
                 x->s->target->name);
  TsText fields = {0};
  ts_choice_fields_text(x->s, x->g, &fields);
  if (fields.len) ts_text_str(&x->remarks, "; it has ");
  ts_text_take(&x->remarks, "", &fields);
}

static void becomes(Settling *x, int field, int64_t value, int64_t now) {
  remark(x, field, value);
  ts_text_format(&x->remarks, " becomes %lld: ", (long long)now);
}

/* The register tiles that there are. */
static int64_t nearest_high(const Settling *x, int64_t value) {
  int64_t best = 0;
  for (int i = 0, high; (high = ts_tile_product_high(x->s->target, i)); i++) {
    int64_t away = high > value ? high - value : value - high;
    if (!best || away < (best > value ? best - value : value - best)) best = high;
  }
  return best;
}

static void high_text(const Settling *x, TsText *t) {
  ts_text_str(t, "register tiles have");
  for (int i = 0, high; (high = ts_tile_product_high(x->s->target, i)); i++)
    ts_text_format(t, "%s %d", i ? "," : "", high);
  ts_text_str(t, " rows");
}

/* By the table alone. */
static void round_fields(Settling *x) {
  TsGroup *g = x->g;
  g->choice = (TsSchedChoice){0};
  for (int i = 0; i < TS_CHOICE_FIELDS; i++) {
    TsChoiceRange r;
    int64_t want = ts_choice_value(&g->want, i), v;
    if (!want) continue;
    if (!ts_choice_range(x->s, g, i, &r)) {
      has_none(x, i);
      continue;
    }
    v = i == TS_CHOICE_high ? nearest_high(x, want) : ts_choice_nearest(&r, want);
    *ts_choice_at(&g->choice, i) = (int)v;
    if (v == want) continue;
    becomes(x, i, want, v);
    if (i == TS_CHOICE_high)
      high_text(x, &x->remarks);
    else
      ts_choice_range_text(&r, &x->remarks);
  }
}

/* Why a kernel has another number than it was given. */
static void kernel_reason(Settling *x, int field, const TsSchedKernel *k, int usual) {
  const TsTarget *t = x->s->target;
  bool gpu = ts_target_gpu(t);
  bool attention = x->g->node[0]->op == TS_OP_attention;
  if (attention && gpu && usual == ts_choice_value(&k->took, field))
    ts_text_format(&x->remarks, "the least or most that this kernel for %s has", t->name);
  else if (field == TS_CHOICE_stages && gpu)
    ts_text_format(&x->remarks,
                   "at least 2, and as many as help and fit into %lld KB of shared memory",
                   (long long)(t->shared_bytes >> 10));
  else if (field == TS_CHOICE_high)
    ts_text_str(&x->remarks, "the register tile for operands of these types and sizes");
  else if (!gpu && (field == TS_CHOICE_rows || field == TS_CHOICE_columns))
    ts_text_str(&x->remarks, x->g->kind == TS_GROUP_attention
                                 ? "there are no more queries"
                                 : "whole register tiles, as far as the result goes");
  else
    ts_text_format(&x->remarks, "the nearest that this kernel for %s has", t->name);
}

/* By the kernel, which says what it took. */
static void compare(Settling *x, const TsSchedKernel *k, const TsSchedKernel *usual) {
  TsGroup *g = x->g;
  for (int i = 0; i < TS_CHOICE_FIELDS; i++) {
    int64_t now = ts_choice_value(&k->took, i), v = ts_choice_value(&g->choice, i);
    if (!k->told || !v || !now || now == v) continue;
    if (now < 0) {
      remark(x, i, ts_choice_value(&g->want, i));
      ts_text_str(&x->remarks,
                  " has no effect: the kernel for these operands has no such choice");
      *ts_choice_at(&g->choice, i) = 0;
    } else {
      becomes(x, i, ts_choice_value(&g->want, i), now);
      kernel_reason(x, i, k, ts_choice_value(&usual->took, i));
      *ts_choice_at(&g->choice, i) = (int)now;
    }
  }
}

/* The same arithmetic in another shape, and not another kernel. */
static bool alike(const TsTile *a, const TsTile *b) {
  return a->form == b->form && !a->sequence == !b->sequence && a->nparam == b->nparam;
}

static bool has_any(const TsSchedChoice *c) {
  const TsSchedChoice none = {0};
  return !ts_sched_choice_same(c, &none);
}

static int lower(const Settling *x, const TsSchedChoice *c, TsSchedKernel *k, TsError *err) {
  TsSchedChoice own = x->g->choice;
  memset(k, 0, sizeof *k);
  x->g->choice = *c;
  int failed = ts_lower_group(x->s, x->g, x->layout, x->arg, k, err);
  x->g->choice = own;
  if (failed) k->tile = NULL;
  return failed;
}

/* As it is given, or not at all. */
static void give_up(Settling *x, const char *why) {
  TsText c = {0};
  ts_sched_choice_text(&x->g->choice, &c);
  if (x->remarks.len) ts_text_char(&x->remarks, '\n');
  ts_text_format(&x->remarks, "%s is not possible: %.*s; the default runs", c.at ? c.at : "",
                 (int)strcspn(why, "\n"), why);
  ts_text_free(&c);
  x->g->choice = (TsSchedChoice){0};
}

static void try_kernel(Settling *x) {
  TsSchedKernel usual, k;
  TsError err = {0}, other = {0};
  const TsSchedChoice none = {0};
  if (lower(x, &none, &usual, &err)) {
    give_up(x, err.message);
    return;
  }
  if (lower(x, &x->g->choice, &k, &other))
    give_up(x, other.message);
  else if (!alike(usual.tile, k.tile))
    give_up(x, "these operands have no such kernel");
  else if (!k.tile->sequence && ts_tile_check(k.tile, x->s->target, &other))
    give_up(x, other.message);
  else
    compare(x, &k, &usual);
  ts_tile_free(usual.tile);
  ts_tile_free(k.tile);
}

static void conclude(Settling *x) {
  TsGroup *g = x->g;
  g->origin = has_any(&g->choice) ? TS_CHOICE_user : TS_CHOICE_usual;
  g->remarks =
      x->remarks.len && !x->remarks.failed ? ts_arena_text(&x->s->arena, x->remarks.at) : NULL;
  ts_text_free(&x->remarks);
}

void ts_lower_settle_none(TsSched *s, TsGroup *g) {
  Settling x = {s, g, NULL, NULL, {0}};
  g->choice = (TsSchedChoice){0};
  for (int i = 0; i < TS_CHOICE_FIELDS; i++) {
    if (!ts_choice_value(&g->want, i)) continue;
    remark(&x, i, ts_choice_value(&g->want, i));
    ts_text_str(&x.remarks,
                " has no effect: the VM runs this operator, with kernels of its own");
  }
  conclude(&x);
}

void ts_lower_settle(TsSched *s, TsGroup *g, TsLayoutFn *layout, void *arg) {
  Settling x = {s, g, layout, arg, {0}};
  if (!g->pinned) return;
  round_fields(&x);
  if (has_any(&g->choice)) try_kernel(&x);
  conclude(&x);
}
