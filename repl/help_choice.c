/* What may be chosen for an operator's kernel, in its help: from ir/sched/choice.def. */
#include "ir/sched/sched.h"
#include "repl/help.h"

static void names(unsigned families, bool gpu, TsText *t) {
  bool any = false;
  for (int i = 0; i < TS_CHOICE_FIELDS; i++) {
    if (!ts_choice_has(i, gpu, families)) continue;
    ts_text_format(t, "%s%s", any ? ", " : "", ts_choice_name(i));
    any = true;
  }
}

void ts_help_choices(TsOp op, TsText *line) {
  unsigned families = ts_choice_of_op(op);
  TsText cpu = {0}, gpu = {0};
  names(families, false, &cpu);
  names(families, true, &gpu);
  ts_text_take(line, "on a CPU ", &cpu);
  if (line->len && gpu.len) ts_text_str(line, "; ");
  ts_text_take(line, "on a GPU ", &gpu);
  if (!line->len) return;
  if (ts_choice_has(TS_CHOICE_rows, true, families))
    ts_text_str(line, "; or tile_shape = {rows, columns, depth}");
  ts_text_str(line,
              ": they choose how its kernel is cut, rounded to what there is; no bit depends "
              "on them (? :choose)");
}
