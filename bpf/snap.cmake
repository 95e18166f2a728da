brink_bpf_object(snap snap.bpf.c)
