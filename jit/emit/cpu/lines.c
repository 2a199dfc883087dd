/* Lines of the program in the text of LLVM IR and assembly. While a kernel is emitted for people,
 * each instruction has a debug location whose line is the number of a place of the kernel
 * (TsTile.place). What LLVM says of them then becomes comments, so that the text has no tables to
 * look up and stays what other tools read. Kernels that run have none of it. */
#include <llvm-c/DebugInfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/emit/cpu/emit.h"

/* Locations in assembly, and no sections about them; llvm-c has no word for it. */
enum { DIRECTIVES_ONLY = 3 };

void ts_emit_lines_begin(TsEmit *e, const char *name) {
  if (!e->lines) return;
  LLVMDIBuilderRef b = LLVMCreateDIBuilder(e->module);
  LLVMMetadataRef file = LLVMDIBuilderCreateFile(b, "kernel", 6, "", 0);
  LLVMDIBuilderCreateCompileUnit(b, LLVMDWARFSourceLanguageC, file, "", 0, 0, "", 0, 0, "", 0,
                                 (LLVMDWARFEmissionKind)DIRECTIVES_ONLY, 0, 0, 0, "", 0, "", 0);
  LLVMMetadataRef type = LLVMDIBuilderCreateSubroutineType(b, file, NULL, 0, LLVMDIFlagZero);
  e->scope = LLVMDIBuilderCreateFunction(b, file, name, strlen(name), "", 0, file, 0, type, 0,
                                         1, 0, LLVMDIFlagZero, 0);
  LLVMSetSubprogram(e->fn, e->scope);
  LLVMDIBuilderFinalize(b);
  LLVMDisposeDIBuilder(b);
  ts_emit_line(e, 0);
}

void ts_emit_line(TsEmit *e, int line) {
  if (!e->lines) return;
  LLVMSetCurrentDebugLocation2(
      e->b, LLVMDIBuilderCreateDebugLocation(e->ctx, (unsigned)line, 0, e->scope, NULL));
}

/* ---- text */
typedef struct Lines {
  const TsTile *k;
  TsText *out;
  int *line; /* of node !n of the metadata, 0: unknown */
  int n;
} Lines;

static void say(Lines *l, int line, const char *mark) {
  if (line > 0 && line < l->k->nplace) ts_text_format(l->out, "%s%s", mark, l->k->place[line]);
}

static bool begins(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

/* "!12 = !DILocation(line: 7, ..": of node 12 */
static void note_location(Lines *l, const char *s) {
  int node, line;
  if (sscanf(s, "!%d = !DILocation(line: %d,", &node, &line) != 2 || node < 0) return;
  if (node >= l->n) {
    int n = 2 * node + 64;
    int *more = realloc(l->line, (size_t)n * sizeof *more);
    if (!more) {
      l->out->failed = 1;
      return;
    }
    memset(more + l->n, 0, (size_t)(n - l->n) * sizeof *more);
    l->line = more, l->n = n;
  }
  l->line[node] = line;
}

static bool of_debugging(const char *s) {
  const char *is = *s == '!' ? strstr(s, " = ") : NULL;
  if (!is) return false;
  is += 3;
  return begins(s, "!llvm.dbg.cu") || begins(is, "!DI") || begins(is, "distinct !DI") ||
         !strcmp(is, "!{}");
}

/* Without ", !dbg !12", whose place stands behind the line. */
static void ir_line(Lines *l, char *s) {
  int node = -1, after = 0;
  bool blank = !*s && l->out->len > 1 && l->out->at[l->out->len - 2] == '\n';
  if (of_debugging(s) || blank) return;
  char *at = strstr(s, " !dbg !");
  if (!at || sscanf(at, " !dbg !%d%n", &node, &after) != 1)
    return ts_text_str(l->out, s), ts_text_char(l->out, '\n');
  bool comma = at > s && at[-1] == ',';
  ts_text_add(l->out, s, (size_t)(at - comma - s));
  ts_text_str(l->out, at + after);
  if (comma && node >= 0 && node < l->n) say(l, l->line[node], "  ; ");
  ts_text_char(l->out, '\n');
}

/* Locations become comments where they change; what else is there for debuggers goes. */
static void asm_line(Lines *l, const char *s, int *last) {
  int line;
  if (begins(s, "\t.cfi_") || begins(s, ".Ltmp") || begins(s, ".Lfunc_begin") ||
      begins(s, "\t.file\t1 "))
    return;
  if (sscanf(s, "\t.loc\t1 %d ", &line) != 1)
    return ts_text_str(l->out, s), ts_text_char(l->out, '\n');
  if (line == *last || line <= 0 || line >= l->k->nplace) return;
  *last = line;
  say(l, line, "\t# ");
  ts_text_char(l->out, '\n');
}

void ts_emit_lines_text(const TsTile *k, bool assembly, const char *raw, size_t n,
                        TsText *out) {
  char *text = malloc(n + 1), *next;
  Lines l = {.k = k, .out = out};
  int last = 0;
  if (!text) {
    out->failed = 1;
    return;
  }
  memcpy(text, raw, n);
  text[n] = 0;
  for (const char *s = text; !assembly && s && *s; s = (s = strchr(s, '\n')) ? s + 1 : NULL)
    note_location(&l, s);
  for (char *s = text; *s; s = next) {
    next = s + strcspn(s, "\n");
    if (*next) *next++ = 0;
    if (assembly)
      asm_line(&l, s, &last);
    else
      ir_line(&l, s);
  }
  free(l.line);
  free(text);
}
