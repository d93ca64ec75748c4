//! The entries of the manual, in the order in which a policy is printed.

use super::Entry;
use super::Takes::{Range, Values, ZeroOr};

/// `on` and `off` with a meaning each.
macro_rules! switch {
    ($on:literal, $off:literal) => {
        Values(&[("on", $on), ("off", $off)])
    };
}

/// One entry a key.
pub const ENTRIES: &[Entry] = &[
    Entry {
        key: "batch_cap_pages",
        meaning: "Upper bound of a zone's batch before rounding, in pages. The batch is a quarter \
            of this or of a thousandth of the zone, whichever is less, rounded to 2^n - 1: 128 \
            gives 31 pages, 256 gives 63.",
        takes: Range(4, 65536),
        only_with: Some(("batch_pages", &["0"])),
        source: "d8a759b57035 (4.19)",
    },
    Entry {
        key: "batch_pages",
        meaning: "The batch itself, in pages: the unit of refills and bulk frees of a per-CPU \
            list.",
        takes: ZeroOr("computed from the size of the zone and batch_cap_pages", 1, 16384),
        only_with: None,
        source: "a free parameter; no release has one",
    },
    Entry {
        key: "pcp_high",
        meaning: "How many pages a CPU may keep of a zone before it gives some back.",
        takes: Values(&[
            ("6*batch", "six batches"),
            (
                "low/cpus",
                "the low mark of the zone shared by the CPUs of its node, at least four batches",
            ),
            (
                "auto",
                "moves between that value and an eighth of the zone shared by the CPUs: up with \
                 refills and long frees, down when idle or when memory is short",
            ),
        ]),
        only_with: None,
        source: "b92ca18e8ca5 (5.14); 90b41691b988, 51a755c56dc0, 57c0419c5f0e (6.7)",
    },
    Entry {
        key: "pcp_high_pages",
        meaning: "The limit of a per-CPU list as a number of pages, in place of the rule of \
            pcp_high.",
        takes: ZeroOr("computed by pcp_high", 1, u32::MAX),
        only_with: None,
        source: "a free parameter; no release has one",
    },
    Entry {
        key: "high_fraction",
        meaning: "vm.percpu_pagelist_high_fraction: a CPU keeps at most this fraction of the \
            zone, shared by the CPUs of the node, and nothing is tuned any more. With \
            pcp_high=6*batch it is the older vm.percpu_pagelist_fraction: not shared, and the \
            batch becomes a quarter of the limit, 1 to 96.",
        takes: ZeroOr("off, pcp_high decides", 8, u32::MAX),
        only_with: None,
        source: "74f44822097c (5.14)",
    },
    Entry {
        key: "pcp_lists",
        meaning: "Which orders are kept per CPU, and on how many lists.",
        takes: Values(&[
            ("3", "order 0, a list for each of three types"),
            ("13", "orders 0 to 3 by type, and one list of whole pageblocks"),
            ("14", "orders 0 to 3 by type, and two lists of whole pageblocks, movable apart"),
        ]),
        only_with: None,
        source: "44042b449872 (5.14); bf14ed81f571 (6.10)",
    },
    Entry {
        key: "alloc_scale",
        meaning: "How the size of a refill grows while refills follow each other.",
        takes: Values(&[
            ("none", "always one batch"),
            ("factor", "doubles with each refill, up to batch << scale_max"),
        ]),
        only_with: None,
        source: "c0a242394cb9 (6.7)",
    },
    Entry {
        key: "free_scale",
        meaning: "How the size of a bulk free grows while frees follow each other.",
        takes: Values(&[
            ("none", "always one batch"),
            ("factor", "doubles with each bulk free"),
            ("count", "the pages freed in a row, up to batch << scale_max"),
        ]),
        only_with: None,
        source: "3b12e7e97938 (5.14); 6ccdcb6d3a74 (6.7)",
    },
    Entry {
        key: "scale_max",
        meaning: "Doublings of a refill or bulk free at the most \
            (CONFIG_PCP_BATCH_SCALE_MAX).",
        takes: Range(0, 6),
        only_with: None,
        source: "52166607ecc9 (6.7)",
    },
    Entry {
        key: "factor_bounded",
        meaning: "Whether scale_max bounds the factor of free_scale=factor as well.",
        takes: switch!("bounded", "the factor grows as long as the limit leaves room"),
        only_with: Some(("free_scale", &["factor"])),
        source: "52166607ecc9 (6.7), carried back to stable releases",
    },
    Entry {
        key: "free_high",
        meaning: "What a run of frees of order 1 to 3 does to the per-CPU list, so that such \
            blocks reach the CPU that allocates them.",
        takes: Values(&[
            ("never", "nothing special"),
            ("all", "empties the list above free_high_limit"),
            ("capped", "gives back at most batch << scale_max pages"),
        ]),
        only_with: None,
        source: "f26b3fa04611 (5.18); 6ccdcb6d3a74 (6.7)",
    },
    Entry {
        key: "free_high_limit",
        meaning: "What such a run leaves on the list.",
        takes: Values(&[
            ("0", "nothing"),
            ("batch", "one batch (proposed, not merged)"),
            ("4*batch", "four batches, or the limit if that is less (proposed, not merged)"),
        ]),
        only_with: Some(("free_high", &["all"])),
        source: "f26b3fa04611 (5.18); proposals in the mail of 2022-04-29",
    },
    Entry {
        key: "free_high_run",
        meaning: "How many pages freed in a row make a run.",
        takes: Values(&[
            ("batch", "one batch"),
            ("batch+high_min/2", "one batch and half of the lowest limit"),
        ]),
        only_with: Some(("free_high", &["capped"])),
        source: "6ccdcb6d3a74 (6.7); c544a952ba61 (6.16)",
    },
    Entry {
        key: "bulk_order",
        meaning: "In which order a bulk free empties the per-CPU lists.",
        takes: Values(&[
            ("round-robin", "in turns, more from a list the more empty ones were met"),
            ("single-pass", "list after list, beginning with the one just freed to"),
        ]),
        only_with: None,
        source: "8b10b465d0e1 (5.18)",
    },
    Entry {
        key: "collect",
        meaning: "Where the pages of a bulk free are chosen.",
        takes: Values(&[
            ("under-lock", "under the zone lock"),
            ("outside-lock", "before the zone lock is taken, onto a list of their own"),
        ]),
        only_with: None,
        source: "the bulk-free series of 2018 (4.17); 8b10b465d0e1 (5.18)",
    },
    Entry {
        key: "prefetch",
        meaning: "Whether the record of each page's buddy is prefetched, for the first batch of \
            a bulk free.",
        takes: Values(&[
            ("none", "no"),
            ("t0", "into every level of cache"),
            ("t2", "into the second level"),
            ("nta", "non-temporal, what the kernel's prefetch compiled to"),
        ]),
        only_with: None,
        source: "the bulk-free series of 2018 (4.17); removed by 2a791f4412cb (5.18)",
    },
    Entry {
        key: "free_chunk",
        meaning: "How many pages a bulk free gives back under one hold of the zone lock.",
        takes: Values(&[
            ("whole", "all of them"),
            ("scaled", "batch << scale_max"),
            ("batch", "one batch, then both locks are dropped for a moment"),
        ]),
        only_with: None,
        source: "the batched-freeing series of 2025 (6.19)",
    },
    Entry {
        key: "drain_chunk",
        meaning: "The same for drains and for the decay of lists that are too long.",
        takes: Values(&[
            ("whole", "all of them"),
            ("scaled", "batch << scale_max"),
            ("batch", "one batch"),
        ]),
        only_with: None,
        source: "6.7, carried back to stable releases from 6.1 on; the batched-freeing series of \
            2025 (6.19), carried back from 6.12 on",
    },
    Entry {
        key: "pcp_lock",
        meaning: "What guards a per-CPU list.",
        takes: Values(&[
            ("irq-off", "interrupts are off; nobody else reaches it"),
            ("local-lock", "a local lock; other CPUs are asked to drain themselves"),
            (
                "spin",
                "a spin lock, entered by try-lock: who finds it held goes to the zone; drained \
                 from afar",
            ),
        ]),
        only_with: None,
        source: "5.14; 4b23a68f9536 and 01b44456a7aa (6.0)",
    },
    Entry {
        key: "zone_lock_line",
        meaning: "Where the zone lock lies. Read by modelled machines; it changes no decision.",
        takes: Values(&[
            ("shared", "on a cache line with the free areas, as before 4.1"),
            ("own", "on a cache line of its own"),
        ]),
        only_with: None,
        source: "a368ab67aa55 (4.1)",
    },
    Entry {
        key: "spinlock",
        meaning: "How CPUs wait for a spin lock. Read by modelled machines; it changes no \
                  decision.",
        takes: Values(&[
            ("queued", "each on a word of its own; the lock is handed to the first"),
            (
                "ticket",
                "all on the lock's own word, as on x86 before 4.2: each release takes the line \
                 from all who wait, and they fetch it again one after another",
            ),
        ]),
        only_with: None,
        source: "d73a33973f16 (4.2)",
    },
    Entry {
        key: "merge",
        meaning: "When a freed block joins its buddy.",
        takes: Values(&[
            ("eager", "at once"),
            (
                "deferred",
                "larger blocks at once; single pages stay apart until a larger block is wanted \
                 and none is there, and then a pageblock at a time joins, that of the page freed \
                 longest ago first",
            ),
        ]),
        only_with: None,
        source: "every release; RFC v4 of 2018-10-17, patches 2 and 5, not merged, which joins \
                 pages where compaction's migrate scanner meets them",
    },
    Entry {
        key: "storage",
        meaning: "How free blocks are kept.",
        takes: Values(&[("lists", "linked lists threaded through the page records")]),
        only_with: None,
        source: "every release",
    },
    Entry {
        key: "fallback",
        meaning: "Whose memory a type takes when its own lists are empty.",
        takes: Values(&[
            (
                "a",
                "from the largest block down; the free pages of a pageblock move even where the \
                 pageblock keeps its type",
            ),
            ("b", "as a, but the lists and the types of pageblocks never disagree"),
            ("c", "as b, but a single page comes from the smallest block, not the largest"),
            (
                "d",
                "claims pageblocks, then steals the smallest block; remembers over one refill \
                 which of the two worked",
            ),
        ]),
        only_with: None,
        source: "e0932b6c1f94 (6.10); c2f6ea38fc1b (6.14); 90abee6d7895 (6.15)",
    },
    Entry {
        key: "nofragment",
        meaning: "Whether types are kept apart at a price.",
        takes: Values(&[
            ("off", "no"),
            ("on", "a lower zone of the node is used before types mix"),
            ("strict", "not before reclaim and compaction were tried (vm.defrag_mode=1, 6.15 on)"),
        ]),
        only_with: None,
        source: "6bb154504f8b (5.0); e3aa7df331bc (6.15)",
    },
    Entry {
        key: "boost_factor",
        meaning: "vm.watermark_boost_factor: how far the marks of a zone may be raised when types \
            mix in a pageblock, in 1/10000 of its high mark.",
        takes: ZeroOr("never", 1, u32::MAX),
        only_with: None,
        source: "1c30844d2dfe (5.0)",
    },
    Entry {
        key: "highatomic",
        meaning: "Whether pageblocks are set aside for high-order requests that cannot wait.",
        takes: switch!("one pageblock for each such success, up to 1 % of the zone", "no"),
        only_with: None,
        source: "0aaa29a56e4f (4.4)",
    },
    Entry {
        key: "highatomic_discount",
        meaning: "Which pages of that reserve a watermark test leaves out for everybody else.",
        takes: Values(&[
            ("reserved", "all that are reserved, in use or not"),
            ("free", "those that are free"),
        ]),
        only_with: Some(("highatomic", &["on"])),
        source: "c928807f6f6b (6.12)",
    },
    Entry {
        key: "numa_stat",
        meaning: "How the NUMA counters (numa_hit and the other five) are kept.",
        takes: Values(&[
            ("off", "not at all (vm.numa_stat=0)"),
            ("ordinary", "as zone counters with their threshold, as before 4.14"),
            ("threshold", "per-CPU differences, spilled into the zone above numa_threshold"),
            ("event", "per-CPU counts, summed by whoever reads them"),
        ]),
        only_with: None,
        source: "1d90ca897cb0 (4.14); f19298b9516c (5.14)",
    },
    Entry {
        key: "numa_threshold",
        meaning: "The difference above which it is spilled.",
        takes: Range(1, 65533),
        only_with: Some(("numa_stat", &["threshold"])),
        source: "1d90ca897cb0 (4.14): the largest 16-bit number less two",
    },
];
