/* Help on operators, from the table. */
#include "lib/text.h"
#include "repl/lua_api.h"

int ts_help_operator(const char *name, int width, TsText *text) {
  TsOp op = ts_op_find(name);
  (void)width;
  if (op == TS_OP_COUNT) return -1;
  ts_text_format(text, "%s(%s) %s\n%s\n", name, ts_op_info(op)->inputs, ts_op_info(op)->attrs,
                 ts_op_info(op)->help);
  return 0;
}
