/* A run of the debugger: what is done around each statement. See ir/tile/debug/debug.h. */
#include "ir/tile/debug/debug.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/debug/state.h"

/* ---- around statements */
static bool is_peeked(TsTileDebug *d, const TsTileStmt *s) {
  const TsTilePeek *p = d->peek;
  int64_t round[TS_DEBUG_LOOPS];
  if (p->line && ts_debug_line(d, s) != p->line) return false;
  if (p->ncoord && ts_debug_at_tile(d, s, p->ncoord, p->coord) != 1) return false;
  int n = p->stage < 0 ? 0 : ts_debug_rounds(d, s, round, TS_DEBUG_LOOPS);
  return p->stage < 0 || (n && round[n - 1] == p->stage);
}

/* What the line makes, or stores. */
static TsTileVal of_line(const TsTileStmt *s) {
  if (s->nout) return s->out[0];
  bool stores =
      s->op == TS_TILE_store || s->op == TS_TILE_store_below || s->op == TS_TILE_scatter;
  return stores ? s->in[s->nin - 1] : s->nin ? s->in[0] : NULL;
}

static bool is_wanted(const TsTilePeek *p, TsTileVal v) {
  return v && (!p->name || (v->name && !strcmp(v->name, p->name)));
}

/* Rows that are not primitive are several statements of a line, of which the last one counts;
 * what a value is afterwards, in another tile, does not. */
static int keep_peeked(TsTileDebug *d, const TsTileStmt *s) {
  const TsTilePeek *p = d->peek;
  TsTileVal v = of_line(s);
  if (!p->line && !is_wanted(p, v)) return 0;
  if (!is_peeked(d, s)) return 0;
  if (p->name && p->line && ts_debug_value(d, s, p->name, (int)strlen(p->name), &v)) return 0;
  if (!v) return 0;
  void *copy = NULL;
  TsTileSeen seen;
  if (ts_debug_see(d, v, &seen, &copy)) return 0;
  int64_t n = d->run->place[v->id].n * ts_tile_run_size(v);
  void *own = realloc(d->seen_at, (size_t)n + 1);
  if (!own) {
    free(copy);
    return d->out_of_memory = true, -1;
  }
  memcpy(own, seen.at, (size_t)n);
  free(copy);
  d->seen = seen;
  d->seen.at = d->seen_at = own;
  bool more = s->next && s->next->line == s->line;
  d->over = !more;
  return more ? 0 : -1;
}

static int before(void *with, TsTileRun *r, const TsTileStmt *s) {
  TsTileDebug *d = with;
  d->run = r;
  if (d->over || d->quit) return -1;
  bool loop = s->op == TS_TILE_for || s->op == TS_TILE_repeat;
  if (loop && s->region[0]->nparam) d->at_round[s->region[0]->param[0]->id] = -1;
  if (d->silent) {
    ts_debug_place_store(d, s);
    return d->out_of_memory ? -1 : 0;
  }
  ts_debug_suspect_before(d, s);
  int wrong = ts_debug_accesses(d, s);
  ts_debug_order_before(d, s);
  if (wrong) d->over = true;
  if (ts_debug_prompt_before(d, s)) d->quit = true;
  return d->over || d->quit || d->out_of_memory ? -1 : 0;
}

static int after(void *with, TsTileRun *r, const TsTileStmt *s) {
  TsTileDebug *d = with;
  d->run = r;
  if (d->over || d->quit) return -1;
  if (d->silent) return 0;
  if (s->op == TS_TILE_alloc) ts_debug_cells_new(d, s);
  ts_debug_order_after(d, s);
  ts_debug_suspect_after(d, s);
  return d->peek ? keep_peeked(d, s) : 0;
}

static int enter(void *with, TsTileRun *r, const TsTileRegion *region) {
  TsTileDebug *d = with;
  d->run = r;
  ts_debug_place_enter(d, region);
  return d->out_of_memory ? -1 : 0;
}

static void failed(void *with, TsTileRun *r, const TsTileStmt *s, const char *text) {
  TsTileDebug *d = with;
  d->run = r;
  if (d->over || d->quit || d->silent || d->out_of_memory) return;
  ts_debug_tell_all(d);
  ts_debug_say_failure(d, s, text);
  ts_debug_prompt_before(d, s);
}

/* ---- a run */
static int run(TsTileDebug *d, void *const *arg, TsError *err) {
  const TsTileWatch watch = {d, before, after, enter, failed};
  TsError own = {0};
  memset(d->at_round, 0xff, sizeof *d->at_round * (d->k->nvalue + 1));
  d->block = d->first_block = 1;
  d->over = d->quit = false;
  int bad = ts_tile_run_watched(d->k, arg, d->dim, &d->as, &watch, &own);
  d->run = NULL;
  if (d->out_of_memory) return ts_error_memory(err);
  if (!bad || d->over || d->quit || d->nfinding || d->silent) return 0;
  *err = own;
  return -1;
}

static int64_t bytes_of(const TsTileDebug *d, int i, int64_t *below) {
  int64_t above;
  ts_tile_reach(&d->k->param[i]->type, d->dim, below, &above);
  return *below + above;
}

int ts_debug_find_tiles(TsTileDebug *d) {
  const TsTile *k = d->k;
  TsTileRun *outer = d->run;
  uint32_t block = d->block, first = d->first_block;
  if (d->tiles_known) return 0;
  d->tiles_known = true;
  int64_t *rounds = malloc(sizeof *rounds * (k->nvalue + 1)), below;
  void **copy = calloc((size_t)k->nparam + 1, sizeof *copy);
  void **own = calloc((size_t)k->nparam + 1, sizeof *own);
  bool bad = !rounds || !copy || !own;
  for (int i = 0; i < k->nparam && !bad; i++) {
    int64_t n = bytes_of(d, i, &below);
    copy[i] = d->arg[i] ? malloc((size_t)n + 1) : NULL;
    bad = d->arg[i] && !copy[i];
    if (copy[i]) memcpy(copy[i], (char *)d->arg[i] - below, (size_t)n);
    own[i] = copy[i] ? (char *)copy[i] + below : NULL;
  }
  TsError ignored = {0};
  if (!bad) {
    memcpy(rounds, d->at_round, sizeof *rounds * (k->nvalue + 1));
    d->silent = true;
    bad = run(d, own, &ignored);
    d->silent = false;
    memcpy(d->at_round, rounds, sizeof *rounds * (k->nvalue + 1));
  }
  for (int i = 0; copy && i < k->nparam; i++) free(copy[i]);
  free(rounds);
  free(copy);
  free(own);
  d->tiles_known = !bad;
  d->run = outer, d->block = block, d->first_block = first;
  return bad ? -1 : 0;
}

static int prepare(TsTileDebug *d, void *const *arg, const int64_t *dim, TsError *err) {
  d->dim = dim, d->arg = arg;
  ts_debug_order_close(d);
  ts_debug_cells_close(d);
  ts_debug_suspect_close(d);
  for (int i = 0; i < d->nfinding; i++) free(d->finding[i].text);
  d->nfinding = 0, d->ntile = 0;
  d->partly = NULL, d->tiles_known = false;
  if (ts_debug_order_open(d) || ts_debug_cells_open(d) || ts_debug_suspect_open(d))
    return ts_error_memory(err);
  return 0;
}

int ts_tile_debug_run(TsTileDebug *d, void *const *arg, const int64_t *dim, TsError *err) {
  return prepare(d, arg, dim, err) || run(d, arg, err) ? -1 : 0;
}

/* The value of a name has a line in the text. */
static bool has_name(const TsTileRegion *r, const char *name) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nout; i++)
      if (s->out[i]->name && !strcmp(s->out[i]->name, name)) return true;
    for (int i = 0; i < s->nregion; i++)
      if (has_name(s->region[i], name)) return true;
  }
  return false;
}

int ts_tile_debug_peek(TsTileDebug *d, const TsTilePeek *peek, void *const *arg,
                       const int64_t *dim, TsTileSeen *seen, TsError *err) {
  if (prepare(d, arg, dim, err)) return -1;
  if (peek->name && !peek->line && !has_name(d->k->body, peek->name))
    return ts_error_set(err, TS_ERR_argument, "%s: no line makes %%%s", d->k->name, peek->name),
           ts_error_hint(err,
                         "values have the names that level tile shows, such as %%3 or %%acc");
  if (peek->line > d->nline || peek->line < 0)
    return ts_error_set(err, TS_ERR_argument, "%s: the text has %d lines, no line %d",
                        d->k->name, d->nline, peek->line),
           ts_error_hint(err,
                         "lines are those of level tile, from 1 on, without comments in front");
  if (peek->ncoord && ts_debug_find_tiles(d)) return ts_error_memory(err);
  d->seen.at = NULL;
  d->peek = peek;
  int bad = run(d, arg, err);
  d->peek = NULL;
  if (bad) return -1;
  if (!d->seen.at)
    return ts_error_set(err, TS_ERR_value, "%s: nothing comes there: line %d, stage %lld%s",
                        d->k->name, peek->line, (long long)peek->stage,
                        peek->ncoord ? ", of this tile" : "");
  *seen = d->seen;
  return 0;
}

/* ---- making */
/* Of a line without its place, "// model.lua:3". */
static size_t length_of(const char *line, size_t n) {
  size_t at = n, digits = 0;
  while (digits < n && isdigit((unsigned char)line[n - 1 - digits])) digits++;
  if (!digits || digits == n || line[n - 1 - digits] != ':') return n;
  for (at = n; at-- > 1;)
    if (line[at] == '/' && line[at - 1] == '/') break;
  if (at < 2) return n;
  for (at--; at > 0 && isspace((unsigned char)line[at - 1]);) at--;
  return at;
}

static int split(TsTileDebug *d, const char *text) {
  int n = 1;
  for (const char *p = text; *p; p++) n += *p == '\n';
  if (!(d->line = calloc((size_t)n + 2, sizeof *d->line))) return -1;
  for (const char *p = text; *p;) {
    size_t len = strcspn(p, "\n"), kept = length_of(p, len);
    char *copy = malloc(kept + 1);
    if (!copy) return -1;
    memcpy(copy, p, kept);
    copy[kept] = 0;
    d->line[++d->nline] = copy;
    p += len + (p[len] == '\n');
  }
  return 0;
}

TsTileDebug *ts_tile_debug_open(const char *text, TsError *err) {
  TsTileDebug *d = calloc(1, sizeof *d);
  if (!d) return ts_error_memory(err), NULL;
  d->text = ts_tile_parse_lines(text, err);
  bool bad =
      !d->text || ts_tile_check(d->text, NULL, err) || !(d->k = ts_tile_expand(d->text, err));
  if (!bad) {
    d->at_round = calloc(d->k->nvalue + 1, sizeof *d->at_round);
    bad = !d->at_round || split(d, text);
    if (bad) ts_error_memory(err);
  }
  if (!bad) return d;
  ts_tile_debug_close(d);
  return NULL;
}

void ts_tile_debug_close(TsTileDebug *d) {
  if (!d) return;
  ts_debug_prompt_close(d);
  ts_debug_order_close(d);
  if (d->k) ts_debug_cells_close(d), ts_debug_suspect_close(d);
  for (int i = 0; i < d->nfinding; i++) free(d->finding[i].text);
  for (int i = 1; i <= d->nline; i++) free(d->line[i]);
  free(d->line);
  free(d->at_round);
  free(d->tile);
  free(d->seen_at);
  ts_tile_free(d->k);
  ts_tile_free(d->text);
  free(d);
}

const TsTile *ts_tile_debug_kernel(const TsTileDebug *d) { return d->text; }
void ts_tile_debug_as(TsTileDebug *d, const TsTileRunAs *as) { d->as = *as; }
void ts_tile_debug_results(TsTileDebug *d, bool written) { d->results_written = written; }
int ts_tile_debug_count(const TsTileDebug *d) { return d->nfinding; }
const TsTileFinding *ts_tile_debug_finding(const TsTileDebug *d, int i) {
  return &d->finding[i];
}
const char *ts_tile_debug_partly(const TsTileDebug *d) { return d->partly; }
bool ts_tile_debug_quit(const TsTileDebug *d) { return d->quit; }

void ts_tile_debug_talk(TsTileDebug *d, const TsTileDebugTalk *talk) {
  ts_debug_prompt_close(d);
  if (ts_debug_prompt_open(d, talk)) d->out_of_memory = true;
}
