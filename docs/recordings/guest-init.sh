#!/bin/sh
# Process 1 of the guest of make.sh: records the workload onto its own disk and turns the guest off.
export PATH=/bin HOME=/
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs none /tmp
ulimit -c 0
# Direct compaction on a huge page fault: fragmentation is then seen and not avoided.
echo madvise > /sys/kernel/mm/transparent_hugepage/enabled
echo madvise > /sys/kernel/mm/transparent_hugepage/defrag
pageyard record -o /out/recording --buffer-kb 4096 --zstd=1 -- /bin/guest-workload.sh
echo "guest: recorder ended with $?"
cat /proc/meminfo | head -3
sync
mount -o remount,ro /
poweroff -f
