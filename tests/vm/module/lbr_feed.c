// SPDX-License-Identifier: GPL-2.0-only
/* /dev/brink_lbr; see feed.h. */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "lbr.h"

static DEFINE_MUTEX(feeding);

static int feed_open(struct inode *inode, struct file *file)
{
	if ((file->f_mode & FMODE_WRITE) && (file->f_flags & O_TRUNC)) {
		mutex_lock(&feeding);
		WRITE_ONCE(lbr_canned_count, 0);
		atomic_set(&lbr_samples, 0);
		atomic_set(&lbr_snapshots, 0);
		mutex_unlock(&feeding);
	}
	return 0;
}

static ssize_t feed_write(struct file *file, const char __user *from, size_t size, loff_t *pos)
{
	size_t more = size / sizeof(struct lbr_feed_stack), i;
	ssize_t result = size;

	if (!size || size % sizeof(struct lbr_feed_stack))
		return -EINVAL;
	mutex_lock(&feeding);
	if (more > LBR_FEED_MAX - lbr_canned_count) {
		result = -ENOSPC;
	} else if (copy_from_user(&lbr_canned[lbr_canned_count], from, size)) {
		result = -EFAULT;
	} else {
		for (i = 0; i < more; i++)
			if (lbr_canned[lbr_canned_count + i].nr > LBR_FEED_ENTRIES)
				result = -EINVAL;
		/* Deliverers look at the count first; stacks behind it may still change. */
		if (result > 0)
			smp_store_release(&lbr_canned_count, lbr_canned_count + more);
	}
	mutex_unlock(&feeding);
	return result;
}

static ssize_t feed_read(struct file *file, char __user *to, size_t size, loff_t *pos)
{
	char text[256];
	u64 unexplained = 0, from = 0, to_address = 0;
	unsigned int cpu, select = 0;
	int length;

	if (lbr_bar) {
		for_each_online_cpu(cpu) {
			struct lbr_cpu *registers = (void *)lbr_bar + LBR_BAR_PAGE * (1 + cpu);

			unexplained += registers->unexplained;
			if (registers->unexplained) {
				from = registers->unexplained_from;
				to_address = registers->unexplained_to;
			}
		}
		/* Of this CPU: whoever wants to know has pinned himself. */
		select = READ_ONCE(lbr_registers()->select);
	}
	length = scnprintf(text, sizeof(text), "source %s\nfed %u\nsamples %d\nsnapshots %d\nunexplained %llu\n"
			   "unexplained_from %#llx\nunexplained_to %#llx\nselect %u\n",
			   lbr_bar ? "plugin" : "canned", lbr_canned_count, atomic_read(&lbr_samples),
			   atomic_read(&lbr_snapshots), unexplained, from, to_address, select);
	return simple_read_from_buffer(to, size, pos, text, length);
}

static const struct file_operations feed_operations = {
	.owner = THIS_MODULE,
	.open = feed_open,
	.write = feed_write,
	.read = feed_read,
};

static struct miscdevice feed_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "brink_lbr",
	.fops = &feed_operations,
	.mode = 0600,
};

int lbr_feed_init(void)
{
	int err;

	lbr_canned = vzalloc(array_size(LBR_FEED_MAX, sizeof(*lbr_canned)));
	if (!lbr_canned)
		return -ENOMEM;
	err = misc_register(&feed_device);
	if (err)
		vfree(lbr_canned);
	return err;
}

void lbr_feed_exit(void)
{
	misc_deregister(&feed_device);
	vfree(lbr_canned);
}
