/* Programs as text: a line a task. Addresses are left out: they differ from run to run. */
#include "ir/persistent/program.h"

static void bytes(TsText *t, double n) {
  const char *unit = n < 1e3 ? "B" : n < 1e6 ? "kB" : "MB";
  ts_text_format(t, "%.3g %s", n < 1e3 ? n : n < 1e6 ? n / 1e3 : n / 1e6, unit);
}

static void plural(TsText *t, int64_t n, const char *what) {
  ts_text_format(t, "%lld %s%s", (long long)n, what, n == 1 ? "" : "s");
}

static void task_text(const TsPersistent *p, int i, TsText *text) {
  const TsPersistentTask *t = &p->task[i];
  double ahead = 0;
  for (int k = 0; k < t->nahead; k++) ahead += (double)t->ahead[k].nbytes;
  ts_text_format(text, "  task %d = @%s", i, t->k->name);
  if (t->phase) ts_text_format(text, " phase %d", t->phase);
  ts_text_format(text, " code %d {turns=%lld first=%lld", t->code, (long long)t->turns,
                 (long long)t->first);
  if (t->side > 1) ts_text_format(text, " side=%d", t->side);
  if (t->npiece > 1) ts_text_format(text, " counters=%d", t->npiece);
  if (t->chained) ts_text_str(text, " chained=true");
  ts_text_str(text, "}");
  for (int k = 0; k < t->nwait; k++)
    ts_text_format(text, "%s%d%s", k ? ", " : " waits ", t->wait[k].task,
                   t->wait[k].range ? " in parts" : "");
  if (t->nahead) ts_text_str(text, "  // ahead "), bytes(text, ahead);
  ts_text_char(text, '\n');
}

void ts_persistent_text(const TsPersistent *p, TsText *text) {
  ts_text_format(text, "persistent blocks %lld threads %d counters %d {\n",
                 (long long)p->blocks, p->threads, p->ncounter);
  for (int i = 0; i < p->ntask; i++) task_text(p, i, text);
  ts_text_str(text, "}\n");
}

void ts_persistent_summary(const TsPersistent *p, TsText *text) {
  plural(text, p->nrun, "kernel");
  ts_text_str(text, " as ");
  plural(text, p->ntask, "task");
  ts_text_str(text, " in one launch of ");
  plural(text, p->blocks, "block");
  ts_text_format(text, ": %d programs, ", p->ncode);
  if (p->nspare) {
    plural(text, p->nspare, "task");
    ts_text_str(text, " left out as done before, ");
  }
  plural(text, p->nwhole, "wait");
  ts_text_format(text, " for a task, %d for parts of one", p->nfine);
}
