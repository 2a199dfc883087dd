/* Indentation of Lua as it is typed: two blanks more behind what opens a block, two less for
   what closes one. It looks at the ends of lines only; a wrong guess costs the user two keys.
 */
#include "repl/edit/state.h"

#include <ctype.h>
#include <string.h>

#define STEP 2

typedef struct Line {
  const char *text; /* without leading and trailing blanks */
  size_t size, indent;
} Line;

static Line last_line(const char *text, size_t size) {
  size_t start = size, indent = 0;
  while (start > 0 && text[start - 1] != '\n') start--;
  while (start + indent < size && text[start + indent] == ' ') indent++;
  while (size > start + indent && isspace((unsigned char)text[size - 1])) size--;
  return (Line){text + start + indent, size - start - indent, indent};
}

static int is_letter(char c) { return c == '_' || isalnum((unsigned char)c); }

static int ends_with(Line line, const char *word) {
  size_t size = strlen(word);
  if (line.size < size || memcmp(line.text + line.size - size, word, size) != 0) return 0;
  return line.size == size || !is_letter(word[0]) ||
         !is_letter(line.text[line.size - size - 1]);
}

static int begins_with(Line line, const char *word) {
  size_t size = strlen(word);
  if (line.size < size || memcmp(line.text, word, size) != 0) return 0;
  return line.size == size || !is_letter(word[0]) || !is_letter(line.text[size]);
}

/* `function name(...)` with nothing behind it. */
static int function_head(Line line) {
  size_t open = line.size;
  while (open > 0 && line.text[open - 1] != '(') open--;
  if (open == 0 || memchr(line.text + open, ')', line.size - open) != line.text + line.size - 1)
    return 0;
  for (Line head = {line.text, open - 1, 0}; head.size > 0; head.size--) {
    char c = head.text[head.size - 1];
    if (ends_with(head, "function")) return 1;
    if (!is_letter(c) && c != '.' && c != ':' && c != ' ') return 0;
  }
  return 0;
}

static int opens(Line line) {
  static const char *const words[] = {"do", "then", "else", "repeat", "{", "(", "["};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (ends_with(line, words[i])) return 1;
  return function_head(line);
}

static int closes(Line line) {
  static const char *const words[] = {"end", "else", "elseif", "until", "}", ")", "]"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (begins_with(line, words[i])) return 1;
  return 0;
}

size_t ts_edit_indent_after(const char *text, size_t size) {
  Line line = last_line(text, size);
  return line.indent + (opens(line) ? STEP : 0);
}

void ts_edit_indent_close(TsEditText *t) {
  size_t start = ts_edit_text_line_start(t, t->cursor),
         stop = ts_edit_text_line_end(t, t->cursor);
  if (start == 0 || stop != t->cursor) return;
  Line line = last_line(t->data, stop);
  size_t suggested = ts_edit_indent_after(t->data, start - 1);
  if (closes(line) && line.indent >= STEP && line.indent == suggested)
    ts_edit_text_erase(t, start, start + STEP);
}
