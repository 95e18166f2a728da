brink_bpf_object(cfi_scalar cfi_scalar.bpf.c)
