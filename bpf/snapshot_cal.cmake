brink_bpf_object(snapshot_cal snapshot_cal.bpf.c)
