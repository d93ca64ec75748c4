//! netperf on localhost in a cell.

use super::super::cell::{CellError, Ready};
use super::super::outcome::CellResult;
use super::super::workload::{Adapter, Cpus, OwnFigure, Parameter, Unit};
use super::{pairs, unbuilt};
use crate::cells::netperf::{Config, Test, run as run_cell};

/// Think time of a datagram where nothing says more: as found on the baseline of the published
/// table of Ice Lake (experiments/f26b3fa046_nr_pcp_high.toml).
const THINK_PS: u64 = 1_680_000;
/// The same for SCTP: 64 senders on that machine were published with 9078 Mbps each, 9 us a message
/// (report on 4890b686f4 of 2022), of which copies and allocator take about 3.
const SCTP_THINK_PS: u64 = 6_000_000;

const fn messages(name: &'static str, about: &'static str, quick: u64) -> Parameter {
    Parameter { name, about, default: 2000, quick, range: 1..=10_000_000 }
}

/// Parameters of a test that sends so many messages with `--quick`, to warm up and to be measured.
const fn parameters(quick: u64) -> [Parameter; 3] {
    [
        messages("warm", "messages of each pair before measuring", quick),
        messages("messages", "messages of each pair that are measured", quick),
        Parameter {
            name: "holes",
            about: "free blocks of order 3 of each node whose neighbours are taken",
            default: 0,
            quick: 0,
            range: 0..=4096,
        },
    ]
}

const FIGURES: &[OwnFigure] = &[
    OwnFigure { name: "dropped-pct", about: "messages that were dropped", unit: Unit::Pct },
    OwnFigure {
        name: "distinct-blocks",
        about: "different blocks that were taken",
        unit: Unit::Count,
    },
    OwnFigure {
        name: "most-used-block",
        about: "how often the block was taken that was taken most",
        unit: Unit::Count,
    },
];

/// UDP_STREAM.
pub const UDP: Adapter = Adapter {
    name: "netperf_udp_stream",
    about: "netperf UDP_STREAM on localhost: one CPU sends 65507 bytes at a time to another",
    unit: "10^6 bits",
    cpus: Cpus::Two,
    think_ps: THINK_PS,
    argument: None,
    parameters: &parameters(1000),
    figures: FIGURES,
    run: udp,
};

/// TCP_STREAM.
pub const TCP: Adapter = Adapter {
    name: "netperf_tcp_stream",
    about: "netperf TCP_STREAM on localhost: one CPU sends 16384 bytes at a time to another",
    run: tcp,
    ..UDP
};

/// SCTP_STREAM_MANY.
pub const SCTP: Adapter = Adapter {
    name: "netperf_sctp_stream_many",
    about: "netperf SCTP_STREAM_MANY on localhost: half of the CPUs send, 10 KiB at a time",
    cpus: Cpus::Half,
    think_ps: SCTP_THINK_PS,
    // 32 pairs at once.
    parameters: &parameters(500),
    run: sctp,
    ..UDP
};

fn udp(ready: &Ready) -> Result<CellResult, CellError> {
    run(ready, Test::Udp)
}

fn tcp(ready: &Ready) -> Result<CellResult, CellError> {
    run(ready, Test::Tcp)
}

fn sctp(ready: &Ready) -> Result<CellResult, CellError> {
    run(ready, Test::Sctp)
}

fn run(ready: &Ready, test: Test) -> Result<CellResult, CellError> {
    let config = Config {
        test,
        pairs: pairs(ready)?,
        think_ps: ready.cell.think_ps,
        holes: ready.parameter("holes"),
        messages: (ready.parameter("warm"), ready.parameter("messages")),
        seed: ready.cell.seed,
    };
    let outcome = run_cell(ready.machine(), ready.policy(), &config)
        .map_err(|error| unbuilt(ready, &error))?;
    let measured = &outcome.measured;
    let mut result = CellResult::of_measured(measured);
    // As netperf tells it: of one sender, the mean.
    result.score_per_s = outcome.mbps();
    result.set("dropped-pct", outcome.dropped * 100_000 / measured.work.max(1));
    result.set("distinct-blocks", outcome.distinct * 1000);
    let most = outcome.most_used.first().copied().unwrap_or(0);
    result.set("most-used-block", most * 1000);
    Ok(result)
}
