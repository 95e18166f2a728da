brink_bpf_object(sample sample.bpf.c)
