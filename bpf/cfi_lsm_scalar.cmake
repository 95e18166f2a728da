brink_bpf_object(cfi_lsm_scalar cfi_lsm_scalar.bpf.c)
