/* What could be chosen for a group's kernel, and what the cost model thinks of it.
 *
 * The numbers come from the target and the group: powers of two around what the passes do, as
 * far as they change anything. Times are ratios to the roofline of the group (ir/sched/cost.c);
 * they order what is measured first (jit/tune/tune.c) and nothing else. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "ir/sched/choice.h"

enum {
  USUAL_PIECE = 4096, /* of ir/sched/lower.c */
  USUAL_WHOLE = 16384,
  USUAL_STREAM = 12 << 20,
  ROUND_NS = 12, /* of a round: its position, the call of a range */
  LIVE = 6,      /* vectors of a chunk that live at once, beside operands */
};

/* ---- words */
void ts_sched_choice_text(const TsSchedChoice *c, TsText *text) {
  bool any = false;
  for (int i = 0; i < TS_CHOICE_FIELDS; i++) {
    if (!ts_choice_value(c, i)) continue;
    ts_text_format(text, "%s%s %d", any ? " " : "", ts_choice_name(i), ts_choice_value(c, i));
    any = true;
  }
}

bool ts_sched_choice_parse(const char *text, TsSchedChoice *c) {
  *c = (TsSchedChoice){0};
  while (*text) {
    char word[16];
    int n = 0, i = 0, number = 0;
    if (sscanf(text, "%15[a-z] %9d%n", word, &number, &n) != 2 || number < 1) return false;
    while (i < TS_CHOICE_FIELDS && strcmp(ts_choice_name(i), word)) i++;
    if (i == TS_CHOICE_FIELDS || *ts_choice_at(c, i)) return false;
    *ts_choice_at(c, i) = number;
    text += n;
    if (*text == ' ' && text[1])
      text++;
    else if (*text)
      return false;
  }
  return true;
}

bool ts_sched_choice_same(const TsSchedChoice *a, const TsSchedChoice *b) {
  for (int i = 0; i < TS_CHOICE_FIELDS; i++)
    if (ts_choice_value(a, i) != ts_choice_value(b, i)) return false;
  return true;
}

void ts_sched_choice_head(const TsSchedChoice *c, TsTile *k) {
  k->unroll = c->unroll, k->grain = c->grain;
  if (c->stages) k->stages = c->stages;
  if (c->vector) k->vector = c->vector;
  k->high = c->high, k->depth = c->depth, k->pack = c->pack;
  k->threads = c->threads;
}

/* ---- the shape of a group's rounds */
static double product(const TsGroup *g, int from, int to) {
  double n = 1;
  for (int i = from; i < to; i++) n *= (double)g->axis[i];
  return n;
}

static double points(const TsGroup *g) { return product(g, 0, g->naxis); }

/* Elements of a round. */
static double round_of(const TsGroup *g, const TsSchedChoice *c) {
  if (g->nrow) return product(g, g->naxis - g->nrow, g->naxis);
  double last = g->naxis ? (double)g->axis[g->naxis - 1] : 1, all = points(g);
  double reach = g->naxis > 1 ? last : all;
  if (c->piece) return c->piece < reach ? c->piece : reach;
  return g->naxis > 1 && last <= USUAL_WHOLE ? last : USUAL_PIECE < all ? USUAL_PIECE : all;
}

static double written(const TsGroup *g) {
  double n = 0;
  for (int i = 0; i < g->nout; i++) n += (double)ts_meta_nbytes(&g->out[i]->meta);
  return n;
}

static bool streams(const TsGroup *g, const TsSchedChoice *c) {
  return c->stream ? c->stream == 2 : written(g) >= USUAL_STREAM;
}

/* ---- what the model expects */
/* The part of the threads' time that is work: ranges are spread evenly but for the last. */
static double balance(const TsSched *s, double rounds, double grain) {
  double ranges = rounds / grain, threads = s->threads;
  if (s->threads < 2 || ranges < 2) return 1;
  double shares = (double)(int64_t)((ranges + threads - 1) / threads);
  return ranges / (shares * threads);
}

/* Turns of a loop cost; vectors that do not fit in registers cost more. */
static double vectors_factor(const TsSched *s, const TsGroup *g, const TsSchedChoice *c) {
  const TsTarget *t = s->target;
  double unroll = c->unroll ? c->unroll : g->nnode <= 4 ? 4 : 2;
  double live = (LIVE + g->nin) * unroll, registers = t->registers;
  double factor = 1 + 0.12 / unroll;
  if (live > registers) factor += 0.05 * (live / registers - 1);
  if (c->vector) factor += 0.25 * ((double)t->vector_bytes / c->vector - 1);
  return factor;
}

/* Bytes that move: a line is read before it is written, unless stores go past the caches; then
 * whoever reads the result finds nothing there. */
static double bytes_factor(const TsSched *s, const TsGroup *g, const TsSchedChoice *c) {
  double y = written(g), all = g->bytes > 0 ? g->bytes : 1;
  bool large = y > (double)s->target->cache[2];
  if (streams(g, c)) return large ? 1 : 1 + 2 * y / all;
  return large ? 1 + y / all : 1;
}

double ts_sched_choice_usec(const TsSched *s, const TsGroup *g, const TsSchedChoice *c) {
  if (g->kind == TS_GROUP_matmul) return ts_sched_choice_product_usec(s, g, c);
  double each = round_of(g, c), rounds = points(g) / (each > 1 ? each : 1);
  double grain = c->grain ? c->grain : each > 16384 ? 1 : 16384 / each + 1;
  double reach = each * (g->bytes / (points(g) > 1 ? points(g) : 1));
  double usec = g->usec * vectors_factor(s, g, c) * bytes_factor(s, g, c);
  if (reach > (double)s->target->cache[1] / 2) usec *= 1.05;
  return usec / balance(s, rounds, grain) + rounds * ROUND_NS / 1000 / s->threads;
}

/* ---- the list */
typedef TsChoiceList List;

static void add(List *l, TsSchedChoice c) { ts_sched_choice_add(l, c); }

void ts_sched_choice_add(List *l, TsSchedChoice c) {
  for (int i = 0; i < l->n; i++)
    if (ts_sched_choice_same(&l->at[i], &c)) return;
  if (l->n < TS_SCHED_CHOICES) l->at[l->n++] = c;
}

static void add_grains(List *l, TsSchedChoice c) {
  if (l->g->kind == TS_GROUP_columns) return;
  double each = round_of(l->g, &c), rounds = points(l->g) / (each > 1 ? each : 1);
  if (l->s->threads < 2 || rounds < 4) return;
  double usual = each > 16384 ? 1 : 16384 / each + 1;
  for (double times = 0.25; times <= 4; times *= 16) {
    double n = usual * times;
    if (n >= 1 && n < rounds)
      add(l, (TsSchedChoice){.piece = c.piece,
                             .unroll = c.unroll,
                             .vector = c.vector,
                             .grain = (int)n,
                             .stream = c.stream});
  }
  if (rounds <= 2 * usual && rounds >= 2) { /* all threads, however short it is */
    c.grain = (int)(rounds / l->s->threads);
    if (c.grain > 0) add(l, c);
  }
}

static void add_pieces(List *l) {
  TsSchedChoice usual = {0};
  for (int piece = 32; l->g->kind == TS_GROUP_columns && piece <= 1024; piece *= 2)
    if (l->g->naxis && piece < l->g->axis[l->g->naxis - 1])
      add(l, (TsSchedChoice){.piece = piece});
  if (l->g->nrow) return;
  double now = round_of(l->g, &usual);
  for (int piece = 1024; piece <= 16384; piece *= 4) {
    TsSchedChoice c = {.piece = piece};
    if (round_of(l->g, &c) != now) add(l, c);
  }
}

static int by_usec(const List *l, const TsSchedChoice *a, const TsSchedChoice *b) {
  double x = ts_sched_choice_usec(l->s, l->g, a), y = ts_sched_choice_usec(l->s, l->g, b);
  return (x > y) - (x < y);
}

static void order(List *l) {
  for (int i = 2; i < l->n; i++)
    for (int k = i; k > 1 && by_usec(l, &l->at[k - 1], &l->at[k]) > 0; k--) {
      TsSchedChoice c = l->at[k];
      l->at[k] = l->at[k - 1];
      l->at[k - 1] = c;
    }
}

int ts_sched_choices(const TsSched *s, const TsGroup *g, TsSchedChoice out[TS_SCHED_CHOICES]) {
  List l = {.s = s, .g = g, .at = out};
  if (ts_target_gpu(s->target)) return ts_sched_choices_gpu(s->target, g, out);
  add(&l, (TsSchedChoice){0});
  if (!s->target || g->kind == TS_GROUP_vm) return l.n;
  if (g->kind == TS_GROUP_conv) return ts_sched_choice_conv(&l), l.n;
  if (g->kind == TS_GROUP_matmul || g->kind == TS_GROUP_attention) {
    ts_sched_choice_blocks(&l);
    order(&l);
    return l.n;
  }
  for (int unroll = 1; unroll <= 8; unroll *= 2) add(&l, (TsSchedChoice){.unroll = unroll});
  add_pieces(&l);
  int wide = s->target->vector_bytes;
  if (wide > 16) add(&l, (TsSchedChoice){.vector = wide / 2});
  if (wide > 16) add(&l, (TsSchedChoice){.vector = wide / 2, .unroll = 4});
  if (written(g) >= 1 << 20) add(&l, (TsSchedChoice){.stream = streams(g, &out[0]) ? 1 : 2});
  for (int stages = 1; stages <= 3 && g->nrow && streams(g, &out[0]); stages++)
    add(&l, (TsSchedChoice){.stages = stages});
  add_grains(&l, (TsSchedChoice){0});
  if (!g->nrow) add_grains(&l, (TsSchedChoice){.piece = 1024});
  order(&l);
  return l.n;
}
