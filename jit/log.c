/* What the tiers tell (`tessera -jv`, tessera.jit.v()): a line to stderr for each promotion,
 * refusal, return, new specialisation, side exit, eviction. Each says what, where in the program,
 * why, and the milliseconds that it took. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "devices/device.h"
#include "jit/jit_state.h"

enum { SHOWN_TYPES = 4 };

/* The place of a function is that of its first node that has one. */
static const char *where(const TsGraph *g) {
  for (int i = 0; i < g->nnode; i++)
    if (g->node[i]->nout && *ts_graph_where(g->node[i])) return ts_graph_where(g->node[i]);
  return "";
}

/* "(f32[64,64], f32[64], 48 more)": which specialisation. Captured values are not of the call. */
static void types_text(const TsGraph *g, TsText *t) {
  int n = 0, shown = 0;
  for (int i = 0; i < g->nparam; i++) n += !g->bound[i];
  ts_text_char(t, '(');
  for (int i = 0; i < g->nparam && shown < SHOWN_TYPES; i++) {
    if (g->bound[i]) continue;
    if (shown++) ts_text_str(t, ", ");
    char type[TS_META_TEXT];
    ts_text_str(t, ts_meta_text(&g->param[i]->meta, type));
  }
  if (n > shown) ts_text_format(t, ", %d more", n - shown);
  ts_text_char(t, ')');
}

bool ts_jit_tell(const TsJit *j, const char *what, const char *name, const char *at,
                 const char *text) {
  if (j->verbose)
    fprintf(stderr, "[jit %s %s%s%s: %s]\n", what, name, *at ? " " : "", at, text);
  return j->verbose;
}

void ts_jit_say(TsJitFunction *f, const char *what, const char *format, ...) {
  va_list ap;
  int n = snprintf(f->told, sizeof f->told, "%s: ", what);
  va_start(ap, format);
  vsnprintf(f->told + n, sizeof f->told - (size_t)n, format, ap);
  va_end(ap);
  if (!f->jit->verbose) return;
  TsText name = {0}, at = {0};
  ts_text_str(&name, f->g->name);
  types_text(f->g, &name);
  ts_text_str(&at, where(f->g));
  if (f->device) ts_text_format(&at, "%son %s", at.len ? " " : "", f->device->name);
  ts_jit_tell(f->jit, what, name.at ? name.at : f->g->name, at.at ? at.at : "", f->told + n);
  ts_text_free(&name);
  ts_text_free(&at);
}

void ts_jit_say_lines(const TsJit *j, const char *text) {
  while (j->verbose && text && *text) {
    size_t n = strcspn(text, "\n");
    fprintf(stderr, "[jit      %.*s]\n", (int)n, text);
    text += n + (text[n] == '\n');
  }
}
