brink_bpf_object(timerlat_action timerlat_action.bpf.c)
