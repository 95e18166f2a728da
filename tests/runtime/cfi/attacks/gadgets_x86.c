/* The pieces that attacks are made of: fixed, in assembler, each in the middle of a function with unwind tables. */
#include "attack.h"

#define FUNCTION(name) ".globl " #name "\n.type " #name ", @function\n" #name ":\n.cfi_startproc\n"
#define END(name) ".cfi_endproc\n.size " #name ", . - " #name "\n"
#define LABEL(name) ".globl " #name "\n" #name ":\n"

__asm__(
	".text\n"
	FUNCTION(lib_one) "nop\nmov %rdi, %rax\n" LABEL(g_pop_rdi) "pop %rdi\nret\n" END(lib_one)
	FUNCTION(lib_two) "nop\nmov %rsi, %rax\n" LABEL(g_pop_rsi) "pop %rsi\nret\n" END(lib_two)
	FUNCTION(lib_three) "nop\nmov %rdx, %rax\n" LABEL(g_pop_rdx) "pop %rdx\nret\n" END(lib_three)
	FUNCTION(lib_four) "nop\nmov %rcx, %rax\n" LABEL(g_pop_rax) "pop %rax\nret\n" END(lib_four)
	FUNCTION(lib_five) "nop\nmov %rcx, %rdx\n" LABEL(g_syscall) "syscall\nret\n" END(lib_five)
	FUNCTION(lib_six) "xor %eax, %eax\n" LABEL(g_nops) ".rept 25\nnop\n.endr\nret\n" END(lib_six)
	FUNCTION(lib_seven) "push %rbp\nmov %rsp, %rbp\n" LABEL(g_leave) "leave\nret\n" END(lib_seven)
	/* pop %rdi; ret is hidden in a constant */
	FUNCTION(lib_eight) "nop\n.byte 0xb8\n" LABEL(g_hidden) ".byte 0x5f, 0xc3, 0x11, 0x22\nret\n" END(lib_eight)

	/* the same behind calls */
	FUNCTION(lib_dummy) "ret\n" END(lib_dummy)
	FUNCTION(lib_cp_one) "sub $8, %rsp\ncall lib_dummy\n" LABEL(cp_pop_rdi) "pop %rdi\nret\n" END(lib_cp_one)
	FUNCTION(lib_cp_two) "sub $8, %rsp\ncall lib_dummy\n" LABEL(cp_pop_rsi) "pop %rsi\nret\n" END(lib_cp_two)
	FUNCTION(lib_cp_three) "sub $8, %rsp\ncall lib_dummy\n" LABEL(cp_pop_rdx) "pop %rdx\nret\n" END(lib_cp_three)
	FUNCTION(lib_cp_four) "sub $8, %rsp\ncall lib_dummy\n" LABEL(cp_pop_rax) "pop %rax\nret\n" END(lib_cp_four)
	FUNCTION(lib_cp_five) "nop\ncall lib_dummy\n" LABEL(cp_syscall) "syscall\nret\n" END(lib_cp_five)
	FUNCTION(lib_cp_six) "nop\ncall lib_dummy\n" LABEL(cp_exit) "mov $42, %edi\nmov $231, %eax\nsyscall\nhlt\n" END(lib_cp_six)

	/* rbx walks over a table of pieces that each come back to the dispatcher */
	FUNCTION(lib_jop) "nop\n" LABEL(jop_dispatch) "add $8, %rbx\njmp *(%rbx)\n" END(lib_jop)
	FUNCTION(lib_jop_one) "nop\n" LABEL(jop_rdi) "mov page(%rip), %rdi\njmp jop_dispatch\n" END(lib_jop_one)
	FUNCTION(lib_jop_two) "nop\n" LABEL(jop_rsi) "mov page_size(%rip), %rsi\njmp jop_dispatch\n" END(lib_jop_two)
	FUNCTION(lib_jop_three) "nop\n" LABEL(jop_rdx) "mov $5, %edx\njmp jop_dispatch\n" END(lib_jop_three)
	FUNCTION(lib_jop_four) "nop\n" LABEL(jop_rax) "mov $10, %eax\njmp jop_dispatch\n" END(lib_jop_four)
	FUNCTION(lib_jop_five) "nop\n" LABEL(jop_syscall) "syscall\njmp jop_dispatch\n" END(lib_jop_five)
	FUNCTION(lib_jop_six) "nop\n" LABEL(jop_exit) "mov $42, %edi\nmov $231, %eax\nsyscall\nhlt\n" END(lib_jop_six)
	FUNCTION(jop_start) "mov %rdi, %rbx\njmp *(%rbx)\n" END(jop_start)

	FUNCTION(exit42) "mov $42, %edi\nmov $231, %eax\nsyscall\nhlt\n" END(exit42)
	FUNCTION(win_other) "push %rbp\n.cfi_adjust_cfa_offset 8\nmov %rsp, %rbp\n" LABEL(win_middle)
	"mov page(%rip), %rdi\nmov page_size(%rip), %rsi\nmov $5, %edx\nmov $10, %eax\nsyscall\npop %rbp\n.cfi_adjust_cfa_offset -8\nret\n" END(win_other)
	/* A21 */
	FUNCTION(patch_me) "nop\n" LABEL(patch_jump) ".byte 0xe9\n.long patch_there - . - 4\nnop\npatch_there:\nret\n" END(patch_me)
	".section .note.GNU-stack,\"\",@progbits\n.text\n");
