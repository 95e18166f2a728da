brink_bpf_object(snap_side snap_side.bpf.c)
