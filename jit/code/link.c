/* A linker of one AMD object. See jit/code/link.h. What is made is what ld.lld -shared makes,
 * without the tables that no loader reads: sections that are only read, then code, then the table
 * of the dynamic linker, each in pages of their own; kernels and their descriptors by name. */
#include "jit/code/link.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
  EM_AMD = 224,
  REL32_LO = 10, /* relocations, of LLVM's document of the AMDGPU back end */
  REL32_HI = 11,
  REL32 = 4,
  REL64 = 5,
  MAX_SECTIONS = 256,
  PAGE = 4096,
  NSEGMENT = 6,
  NDYNAMIC = 6,
  LARGEST = 1 << 28
};

/* Tables that are made here, behind the object's own sections. */
enum { SYMBOLS, HASH, NAMES, DYNAMIC, HEADS, NTABLE };
static const char *const table_name[NTABLE] = {".dynsym", ".hash", ".dynstr", ".dynamic",
                                               ".shstrtab"};

typedef struct Place {
  uint64_t offset, address, size;
  int index; /* of its head in what is made; 0: none */
} Place;

typedef struct Link {
  const char *elf;
  size_t nbytes;
  const Elf64_Ehdr *head;
  const Elf64_Shdr *sec;
  const Elf64_Sym *sym;
  size_t nsym;
  uint32_t symbols;          /* their section */
  const char *names, *words; /* of symbols, of sections */
  size_t nnames, nwords;
  Place place[MAX_SECTIONS], table[NTABLE];
  uint64_t end[3];         /* in the file: of what is read, of code, of the dynamic table */
  uint64_t exported, text; /* symbols, bytes of their names */
  int nhead;
  char *out;
  uint64_t size;
  TsError *err;
} Link;

static int bad(Link *l, const char *what, const char *name) {
  return ts_error_set(l->err, TS_ERR_device, "jit: link: %s%s%s", what, name ? " " : "",
                      name ? name : "");
}

/* ---- what comes in */
static bool inside(const Link *l, uint64_t at, uint64_t n) {
  return at <= l->nbytes && n <= l->nbytes - at;
}

/* A table of names, which ends with a zero. */
static bool strings(const Link *l, uint32_t i, const char **at, size_t *n) {
  if (i >= l->head->e_shnum || l->sec[i].sh_type != SHT_STRTAB || !l->sec[i].sh_size)
    return false;
  *at = l->elf + l->sec[i].sh_offset, *n = l->sec[i].sh_size;
  return !(*at)[*n - 1];
}

static int read_head(Link *l) {
  const Elf64_Ehdr *h = l->head = (const void *)l->elf;
  if (l->nbytes < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) ||
      h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
      h->e_ident[EI_VERSION] != EV_CURRENT || h->e_machine != EM_AMD || h->e_type != ET_REL)
    return bad(l, "not an object of AMD's", NULL);
  if (h->e_shnum > MAX_SECTIONS - NTABLE || h->e_shoff % 8 ||
      h->e_shentsize != sizeof *l->sec || h->e_ehsize != sizeof *h ||
      !inside(l, h->e_shoff, (uint64_t)h->e_shnum * sizeof *l->sec))
    return bad(l, "sections out of bounds", NULL);
  l->sec = (const void *)(l->elf + h->e_shoff);
  for (int i = 0; i < h->e_shnum; i++) {
    const Elf64_Shdr *s = &l->sec[i];
    uint64_t align = s->sh_addralign ? s->sh_addralign : 1;
    if (s->sh_type != SHT_NOBITS && !inside(l, s->sh_offset, s->sh_size))
      return bad(l, "section out of bounds", NULL);
    if (s->sh_size > LARGEST || align > PAGE || align & (align - 1) ||
        (s->sh_type == SHT_SYMTAB && (s->sh_offset % 8 || s->sh_entsize != sizeof *l->sym)) ||
        (s->sh_type == SHT_RELA && (s->sh_offset % 8 || s->sh_entsize != sizeof(Elf64_Rela))))
      return bad(l, "section out of order", NULL);
  }
  for (int i = 0; i < h->e_shnum; i++) {
    const Elf64_Shdr *s = &l->sec[i];
    if (s->sh_type != SHT_SYMTAB) continue;
    if (l->sym) return bad(l, "two tables of symbols", NULL);
    l->symbols = (uint32_t)i;
    l->sym = (const void *)(l->elf + s->sh_offset), l->nsym = s->sh_size / sizeof *l->sym;
    if (!strings(l, s->sh_link, &l->names, &l->nnames)) return bad(l, "no names", NULL);
  }
  if (!l->sym || !strings(l, h->e_shstrndx, &l->words, &l->nwords))
    return bad(l, "no symbols", NULL);
  return 0;
}

static const char *name_of(const Link *l, const Elf64_Sym *s) {
  return s->st_name < l->nnames ? l->names + s->st_name : "";
}

static const char *word_of(const Link *l, int i) {
  return l->sec[i].sh_name < l->nwords ? l->words + l->sec[i].sh_name : "";
}

static bool is_placed(const Link *l, uint32_t section) {
  return section < l->head->e_shnum && l->place[section].index;
}

/* Who loads it may ask for it by name. */
static bool is_exported(const Link *l, const Elf64_Sym *s) {
  int visible = ELF64_ST_VISIBILITY(s->st_other);
  return ELF64_ST_BIND(s->st_info) != STB_LOCAL && is_placed(l, s->st_shndx) &&
         visible != STV_HIDDEN && visible != STV_INTERNAL;
}

/* ---- places: an address is the offset and a page for each segment before */
static void put(Link *l, Place *p, uint64_t size, uint64_t align, int segment) {
  l->size = (l->size + align - 1) & -align;
  *p = (Place){.offset = l->size,
               .address = l->size + (uint64_t)segment * PAGE,
               .size = size,
               .index = l->nhead++};
  l->size += size;
}

static void put_sections(Link *l, bool notes, bool code) {
  for (int i = 0; i < l->head->e_shnum; i++) {
    const Elf64_Shdr *s = &l->sec[i];
    if (!(s->sh_flags & SHF_ALLOC) || !s->sh_size || (s->sh_type == SHT_NOTE) != notes ||
        !!(s->sh_flags & SHF_EXECINSTR) != code)
      continue;
    put(l, &l->place[i], s->sh_size, s->sh_addralign ? s->sh_addralign : 1, code);
  }
}

static void count_exported(Link *l) {
  l->exported = 0, l->text = 1;
  for (size_t i = 0; i < l->nsym; i++)
    if (is_exported(l, &l->sym[i]))
      l->exported++, l->text += strlen(name_of(l, &l->sym[i])) + 1;
}

static int64_t words_bytes(const Link *l) {
  size_t n = 1;
  for (int i = 0; i < l->head->e_shnum; i++)
    if (l->place[i].index) n += strlen(word_of(l, i)) + 1;
  for (int i = 0; i < NTABLE; i++) n += strlen(table_name[i]) + 1;
  return (int64_t)n;
}

/* Which symbols there are is known when all sections have been placed, so these go twice. */
static int place(Link *l) {
  for (int i = 0; i < l->head->e_shnum; i++) {
    const Elf64_Shdr *s = &l->sec[i];
    if ((s->sh_flags & SHF_ALLOC) && s->sh_size &&
        (s->sh_type == SHT_NOBITS || (s->sh_flags & SHF_WRITE)))
      return bad(l, "memory that is written has no place:", word_of(l, i));
  }
  for (int again = 0; again < 2; again++) {
    uint64_t n = l->exported;
    l->size = sizeof(Elf64_Ehdr) + NSEGMENT * sizeof(Elf64_Phdr), l->nhead = 1;
    put_sections(l, true, false);
    put(l, &l->table[SYMBOLS], (n + 1) * sizeof(Elf64_Sym), 8, 0);
    put(l, &l->table[HASH], (2 + n + n + 1) * sizeof(uint32_t), 4, 0);
    put(l, &l->table[NAMES], l->text, 1, 0);
    put_sections(l, false, false);
    l->end[0] = l->size;
    put_sections(l, false, true);
    l->end[1] = l->size;
    count_exported(l);
  }
  put(l, &l->table[DYNAMIC], NDYNAMIC * sizeof(Elf64_Dyn), 8, 2);
  l->end[2] = l->size;
  put(l, &l->table[HEADS], (uint64_t)words_bytes(l), 1, 0);
  l->table[HEADS].address = 0;
  l->size = (l->size + 7) & ~(uint64_t)7;
  return l->size > LARGEST ? bad(l, "too large", NULL) : 0;
}

/* ---- distances */
static int relocate_one(Link *l, const Elf64_Rela *r, const Place *in) {
  uint64_t index = ELF64_R_SYM(r->r_info), type = ELF64_R_TYPE(r->r_info);
  const Elf64_Sym *s = index < l->nsym ? &l->sym[index] : NULL;
  uint64_t bytes = type == REL64 ? 8 : 4;
  if (!s || r->r_offset > in->size || bytes > in->size - r->r_offset)
    return bad(l, "relocation out of bounds", NULL);
  if (!is_placed(l, s->st_shndx)) return bad(l, "nothing defines", name_of(l, s));
  uint64_t to = l->place[s->st_shndx].address + s->st_value + (uint64_t)r->r_addend;
  uint64_t by = to - (in->address + r->r_offset);
  switch (type) {
  case REL32_LO:
  case REL64: break;
  case REL32_HI: by >>= 32; break;
  case REL32:
    if ((int64_t)by != (int32_t)by) return bad(l, "too far:", name_of(l, s));
    break;
  default: return bad(l, "an unknown relocation of", name_of(l, s));
  }
  memcpy(l->out + in->offset + r->r_offset, &by, bytes);
  return 0;
}

static int relocate(Link *l) {
  for (int i = 0; i < l->head->e_shnum; i++) {
    const Elf64_Shdr *s = &l->sec[i];
    if (s->sh_type == SHT_REL && is_placed(l, s->sh_info))
      return bad(l, "an unknown form of relocations", NULL);
    if (s->sh_type != SHT_RELA || !is_placed(l, s->sh_info)) continue;
    if (s->sh_link != l->symbols) return bad(l, "relocations by other symbols", NULL);
    const Elf64_Rela *r = (const void *)(l->elf + s->sh_offset);
    for (uint64_t n = s->sh_size / sizeof *r; n; n--, r++)
      if (relocate_one(l, r, &l->place[s->sh_info])) return -1;
  }
  return 0;
}

/* ---- what goes out */
static void *table(Link *l, int i) { return l->out + l->table[i].offset; }

/* As the System V ABI has it. */
static uint32_t hash_of(const char *name) {
  uint32_t h = 0;
  for (; *name; name++) {
    h = (h << 4) + (uint8_t)*name;
    uint32_t high = h & 0xf0000000;
    h = (h ^ high >> 24) & ~high;
  }
  return h;
}

static void write_symbols(Link *l) {
  Elf64_Sym *to = table(l, SYMBOLS);
  char *names = table(l, NAMES);
  uint32_t *hash = table(l, HASH), n = (uint32_t)l->exported, at = 1, number = 1;
  hash[0] = n, hash[1] = n + 1;
  for (size_t i = 0; i < l->nsym; i++) {
    const Elf64_Sym *s = &l->sym[i];
    if (!is_exported(l, s)) continue;
    const Place *p = &l->place[s->st_shndx];
    const char *name = name_of(l, s);
    to[number] = *s;
    to[number].st_name = at;
    to[number].st_value = p->address + s->st_value;
    to[number].st_shndx = (uint16_t)p->index;
    strcpy(names + at, name), at += (uint32_t)strlen(name) + 1;
    uint32_t *bucket = &hash[2 + hash_of(name) % n];
    hash[2 + n + number] = *bucket, *bucket = number++;
  }
}

static void write_dynamic(Link *l) {
  const Elf64_Dyn d[NDYNAMIC] = {
      {DT_SYMTAB, {l->table[SYMBOLS].address}}, {DT_SYMENT, {sizeof(Elf64_Sym)}},
      {DT_STRTAB, {l->table[NAMES].address}},   {DT_STRSZ, {l->table[NAMES].size}},
      {DT_HASH, {l->table[HASH].address}},      {DT_NULL, {0}}};
  memcpy(table(l, DYNAMIC), d, sizeof d);
}

static Elf64_Phdr segment(uint32_t type, uint32_t flags, uint64_t from, uint64_t to, int pages,
                          uint64_t align) {
  return (Elf64_Phdr){.p_type = type,
                      .p_flags = flags,
                      .p_offset = from,
                      .p_vaddr = from + (uint64_t)pages * PAGE,
                      .p_paddr = from + (uint64_t)pages * PAGE,
                      .p_filesz = to - from,
                      .p_memsz = to - from,
                      .p_align = align};
}

static uint64_t first_of(const Link *l, uint64_t type, uint64_t flags, uint64_t end) {
  uint64_t first = end;
  for (int i = 0; i < l->head->e_shnum; i++)
    if (l->place[i].index && (!type || l->sec[i].sh_type == type) &&
        (l->sec[i].sh_flags & flags) == flags && l->place[i].offset < first)
      first = l->place[i].offset;
  return first;
}

static void write_segments(Link *l) {
  uint64_t dynamic = l->table[DYNAMIC].offset, heads = sizeof(Elf64_Ehdr);
  uint64_t code = first_of(l, 0, SHF_EXECINSTR, l->end[1]);
  uint64_t notes = l->table[SYMBOLS].offset, note = first_of(l, SHT_NOTE, 0, notes);
  for (int i = 0; i < l->head->e_shnum; i++) /* up to the last of them */
    if (l->place[i].index && l->sec[i].sh_type == SHT_NOTE)
      notes = l->place[i].offset + l->place[i].size;
  const Elf64_Phdr p[NSEGMENT] = {segment(PT_PHDR, PF_R, heads, heads + sizeof p, 0, 8),
                                  segment(PT_LOAD, PF_R, 0, l->end[0], 0, PAGE),
                                  segment(PT_LOAD, PF_R | PF_X, code, l->end[1], 1, PAGE),
                                  segment(PT_LOAD, PF_R | PF_W, dynamic, l->end[2], 2, PAGE),
                                  segment(PT_DYNAMIC, PF_R | PF_W, dynamic, l->end[2], 2, 8),
                                  segment(PT_NOTE, PF_R, note, notes, 0, 4)};
  memcpy(l->out + heads, p, sizeof p);
}

static void write_head(Link *l, char **word, const char *name, const Place *p, Elf64_Shdr of) {
  Elf64_Shdr *h = (Elf64_Shdr *)(void *)(l->out + l->size) + p->index;
  char *words = table(l, HEADS);
  of.sh_name = (uint32_t)(*word - words);
  of.sh_addr = p->address, of.sh_offset = p->offset, of.sh_size = p->size;
  *h = of;
  strcpy(*word, name), *word += strlen(name) + 1;
}

static void write_heads(Link *l) {
  char *word = (char *)table(l, HEADS) + 1;
  uint32_t names = (uint32_t)l->table[NAMES].index, symbols = (uint32_t)l->table[SYMBOLS].index;
  const Elf64_Shdr of[NTABLE] = {
      {.sh_type = SHT_DYNSYM,
       .sh_flags = SHF_ALLOC,
       .sh_link = names,
       .sh_info = 1,
       .sh_addralign = 8,
       .sh_entsize = sizeof(Elf64_Sym)},
      {.sh_type = SHT_HASH,
       .sh_flags = SHF_ALLOC,
       .sh_link = symbols,
       .sh_addralign = 4,
       .sh_entsize = 4},
      {.sh_type = SHT_STRTAB, .sh_flags = SHF_ALLOC, .sh_addralign = 1},
      {.sh_type = SHT_DYNAMIC,
       .sh_flags = SHF_ALLOC | SHF_WRITE,
       .sh_link = names,
       .sh_addralign = 8,
       .sh_entsize = sizeof(Elf64_Dyn)},
      {.sh_type = SHT_STRTAB, .sh_addralign = 1}};
  for (int i = 0; i < l->head->e_shnum; i++) {
    Elf64_Shdr s = l->sec[i];
    s.sh_link = s.sh_info = 0;
    if (l->place[i].index) write_head(l, &word, word_of(l, i), &l->place[i], s);
  }
  for (int i = 0; i < NTABLE; i++) write_head(l, &word, table_name[i], &l->table[i], of[i]);
}

static int write_all(Link *l) {
  Elf64_Ehdr h = *l->head;
  l->out = calloc(1, (size_t)l->size + (size_t)l->nhead * sizeof(Elf64_Shdr));
  if (!l->out) return ts_error_set(l->err, TS_ERR_memory, "jit: out of memory for code");
  h.e_type = ET_DYN;
  h.e_phoff = sizeof h, h.e_phentsize = sizeof(Elf64_Phdr), h.e_phnum = NSEGMENT;
  h.e_shoff = l->size, h.e_shnum = (uint16_t)l->nhead;
  h.e_shstrndx = (uint16_t)l->table[HEADS].index;
  memcpy(l->out, &h, sizeof h);
  for (int i = 0; i < l->head->e_shnum; i++)
    if (l->place[i].index)
      memcpy(l->out + l->place[i].offset, l->elf + l->sec[i].sh_offset, l->place[i].size);
  write_segments(l), write_symbols(l), write_dynamic(l), write_heads(l);
  return relocate(l);
}

int ts_link_amd(const void *object, size_t nbytes, char **out, size_t *size, TsError *err) {
  Link l = {.elf = object, .nbytes = nbytes, .err = err};
  *out = NULL, *size = 0;
  if (read_head(&l) || place(&l)) return -1;
  if (!l.exported) return bad(&l, "no kernel is in it", NULL);
  if (write_all(&l)) return free(l.out), -1;
  *out = l.out, *size = (size_t)l.size + (size_t)l.nhead * sizeof(Elf64_Shdr);
  return 0;
}
