#!/bin/sh
# Fills a small machine's memory with page cache, then asks for pages that cannot be moved, for huge
# pages and for more than is free: fallback between migratetypes, compaction, kswapd, direct reclaim.
set -e
# A file of holes: reading it fills the page cache without a disk.
cat /data/holes > /dev/null
traffic pipes 300
traffic huge 16 2
cat /data/holes > /dev/null &
traffic small 150 1 &
traffic huge 24 1 &
wait
# Reclaimable pages: inodes and directory entries.
mkdir /tmp/many
i=0
while [ $i -lt 40 ]; do
	mkdir /tmp/many/$i
	(cd /tmp/many/$i && : > a && : > b && : > c && : > d && : > e && : > f)
	i=$((i + 1))
done
traffic pipes 200
rm -r /tmp/many
