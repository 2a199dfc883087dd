/* What a code object of AMD's says of itself: the processor, and what its kernels take. Of
 * tests alone: nothing of it is believed, and a damaged one has no kernels. */
#ifndef TESTS_DEVICES_CODE_OBJECT_H
#define TESTS_DEVICES_CODE_OBJECT_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { OBJECT_MOST_ARGS = 192, OBJECT_MOST_KERNELS = 16, OBJECT_AMDGPU = 224, OBJECT_HSA = 64 };

typedef struct ObjectArg {
  uint32_t offset, size;
  bool pointer;
} ObjectArg;

typedef struct ObjectKernel {
  char name[64];
  uint32_t arguments; /* bytes */
  uint32_t threads;   /* of a block, at most */
  uint32_t shared;    /* bytes that a block has without asking */
  int narg;
  ObjectArg arg[OBJECT_MOST_ARGS];
} ObjectKernel;

typedef struct CodeObject {
  uint32_t flags; /* of the file's head */
  int version;    /* of the form: 5, 6 */
  int nkernel;
  ObjectKernel kernel[OBJECT_MOST_KERNELS];
} CodeObject;

/* ---- MessagePack, as much of it as the note has */
typedef struct Pack {
  const uint8_t *at, *end;
} Pack;

static uint64_t pack_big(Pack *p, int n) {
  uint64_t x = 0;
  for (int i = 0; i < n; i++) x = x << 8 | (p->at < p->end ? *p->at++ : 0);
  return x;
}

typedef enum PackKind { PACK_end, PACK_number, PACK_text, PACK_list, PACK_map } PackKind;

/* The head of what comes next: n is the number, or bytes of a text, or how many there are. */
static PackKind pack_next(Pack *p, uint64_t *n) {
  if (p->at >= p->end) return PACK_end;
  uint8_t c = *p->at++;
  *n = c;
  if (c < 0x80 || c >= 0xe0 || (c >= 0xc0 && c <= 0xc3)) return PACK_number;
  if (c < 0x90) return *n = c & 15, PACK_map;
  if (c < 0xa0) return *n = c & 15, PACK_list;
  if (c < 0xc0) return *n = c & 31, PACK_text;
  if (c >= 0xca && c <= 0xd3)
    return *n = pack_big(p, c == 0xca ? 4 : c == 0xcb ? 8 : 1 << (c & 3)), PACK_number;
  if (c >= 0xd9 && c <= 0xdb) return *n = pack_big(p, 1 << (c - 0xd9)), PACK_text;
  if (c == 0xdc || c == 0xdd) return *n = pack_big(p, c == 0xdc ? 2 : 4), PACK_list;
  if (c == 0xde || c == 0xdf) return *n = pack_big(p, c == 0xde ? 2 : 4), PACK_map;
  return PACK_end;
}

static void pack_skip(Pack *p) {
  uint64_t n = 0;
  PackKind kind = pack_next(p, &n);
  if (kind == PACK_end) p->at = p->end;
  if (kind == PACK_text) p->at = n < (uint64_t)(p->end - p->at) ? p->at + n : p->end;
  if (kind == PACK_map) n *= 2;
  if (kind == PACK_list || kind == PACK_map)
    for (; n && p->at < p->end; n--) pack_skip(p);
}

/* The value of a key of the map at p. */
static Pack pack_of(Pack p, const char *key) {
  uint64_t n, len;
  if (pack_next(&p, &n) != PACK_map) return (Pack){p.end, p.end};
  for (; n && p.at < p.end; n--) {
    Pack word = p;
    bool is = pack_next(&word, &len) == PACK_text && len == strlen(key) &&
              len <= (uint64_t)(word.end - word.at) && !memcmp(word.at, key, len);
    pack_skip(&p);
    if (is) return p;
    pack_skip(&p);
  }
  return (Pack){p.end, p.end};
}

static uint32_t pack_number(Pack p, const char *key) {
  uint64_t n = 0;
  p = pack_of(p, key);
  return pack_next(&p, &n) == PACK_number ? (uint32_t)n : 0;
}

static void pack_text(Pack p, const char *key, char *out, size_t room) {
  uint64_t n = 0;
  p = pack_of(p, key);
  bool is = pack_next(&p, &n) == PACK_text && n < room && n <= (uint64_t)(p.end - p.at);
  if (is) memcpy(out, p.at, n);
  out[is ? n : 0] = 0;
}

/* ---- kernels */
static void object_kernel(Pack p, ObjectKernel *k) {
  uint64_t n = 0;
  pack_text(p, ".name", k->name, sizeof k->name);
  k->arguments = pack_number(p, ".kernarg_segment_size");
  k->threads = pack_number(p, ".max_flat_workgroup_size");
  k->shared = pack_number(p, ".group_segment_fixed_size");
  Pack args = pack_of(p, ".args");
  if (pack_next(&args, &n) != PACK_list) return;
  for (; n && k->narg < OBJECT_MOST_ARGS; n--) {
    char kind[32];
    ObjectArg *a = &k->arg[k->narg++];
    a->offset = pack_number(args, ".offset"), a->size = pack_number(args, ".size");
    pack_text(args, ".value_kind", kind, sizeof kind);
    a->pointer = !strcmp(kind, "global_buffer");
    pack_skip(&args);
  }
}

static void object_note(Pack p, CodeObject *o) {
  uint64_t n = 0;
  Pack kernels = pack_of(p, "amdhsa.kernels");
  if (pack_next(&kernels, &n) != PACK_list) return;
  for (; n && o->nkernel < OBJECT_MOST_KERNELS; n--) {
    object_kernel(kernels, &o->kernel[o->nkernel++]);
    pack_skip(&kernels);
  }
}

/* NULL, or what is wrong. */
static const char *object_read(const void *code, CodeObject *o) {
  enum { NOTE = 32 };
  const char *base = code;
  const Elf64_Ehdr *h = code;
  memset(o, 0, sizeof *o);
  if (memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_ident[EI_CLASS] != ELFCLASS64)
    return "no ELF of 64 bits";
  if (h->e_machine != OBJECT_AMDGPU) return "of another machine";
  if (h->e_ident[EI_OSABI] != OBJECT_HSA) return "for another system than HSA";
  if (h->e_type != ET_DYN) return "that is not linked";
  o->flags = h->e_flags, o->version = h->e_ident[EI_ABIVERSION] + 2;
  for (int i = 0; i < h->e_phnum; i++) {
    const Elf64_Phdr *s = (const void *)(base + h->e_phoff + (size_t)i * h->e_phentsize);
    if (s->p_type != PT_NOTE) continue;
    for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= s->p_filesz;) {
      const Elf64_Nhdr *note = (const void *)(base + s->p_offset + at);
      const char *name = (const char *)(note + 1);
      const uint8_t *text = (const uint8_t *)name + ((note->n_namesz + 3) & ~3u);
      if (note->n_type == NOTE && !strcmp(name, "AMDGPU"))
        object_note((Pack){text, text + note->n_descsz}, o);
      at += sizeof *note + ((note->n_namesz + 3) & ~3u) + ((note->n_descsz + 3) & ~3u);
    }
  }
  return o->nkernel ? NULL : "that tells of no kernel";
}

#endif
