/* How tensors look in a terminal. */
#include "lib/text.h"
#include "repl/lua_api.h"

void ts_display_tensor(TsContext *c, TsTensor *x, int width, TsText *text) {
  char m[TS_META_TEXT];
  (void)c, (void)width;
  ts_text_str(text, ts_meta_text(&x->meta, m));
  for (int64_t i = 0; i < ts_tensor_numel(x) && i < 64; i++)
    ts_text_format(text, " %g", ts_tensor_get(x, i));
}
