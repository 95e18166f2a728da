/* Finds the slot of probe_me in the table of the dynamic linker (A16). */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

#include "attack.h"

extern int probe_me(int);
word *slot_of_probe_me(void);

static int look(struct dl_phdr_info *info, size_t size, void *out)
{
	const Elf64_Rela *rela = 0;
	const Elf64_Sym *symbols = 0;
	const char *strings = 0;
	size_t bytes = 0, i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Dyn *d;

		if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
			continue;
		for (d = (const Elf64_Dyn *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr); d->d_tag; d++) {
			if (d->d_tag == DT_JMPREL)
				rela = (const void *)d->d_un.d_ptr;
			if (d->d_tag == DT_PLTRELSZ)
				bytes = d->d_un.d_val;
			if (d->d_tag == DT_SYMTAB)
				symbols = (const void *)d->d_un.d_ptr;
			if (d->d_tag == DT_STRTAB)
				strings = (const void *)d->d_un.d_ptr;
		}
	}
	for (i = 0; rela && symbols && strings && i < bytes / sizeof(*rela); i++) {
		if (!strcmp(strings + symbols[ELF64_R_SYM(rela[i].r_info)].st_name, "probe_me"))
			*(word **)out = (word *)(info->dlpi_addr + rela[i].r_offset);
	}
	return 1; /* the program itself comes first */
}

word *slot_of_probe_me(void)
{
	word *slot = 0;

	dl_iterate_phdr(look, &slot);
	return slot;
}
