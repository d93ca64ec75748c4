//! Why a sequence of refills or drains parts from the kernel's: what the twin's cache held when
//! it did, and what that says.

use pageyard::{CpuId, ZoneId};
use pageyard_trace::error::TraceError;

use super::infer::Twin;
use super::replay::Placement;
use super::score::Sequence;

/// A cache of the twin at the event at which a sequence parts.
struct Moment {
    event: u64,
    sequence: usize,
    pages: u32,
    limit: u32,
    singles: [u32; 3],
}

/// Gives each sequence that parts a reason.
///
/// # Errors
/// The recording cannot be read again.
pub fn give(twin: &Twin, sequences: &mut [Sequence]) -> Result<(), TraceError> {
    let mut moments: Vec<Moment> = sequences
        .iter()
        .enumerate()
        .filter_map(|(at, sequence)| {
            let event = sequence.parts_at?;
            Some(Moment { event, sequence: at, pages: 0, limit: 0, singles: [0; 3] })
        })
        .collect();
    if moments.is_empty() {
        return Ok(());
    }
    moments.sort_by_key(|moment| moment.event);
    look(twin, sequences, &mut moments)?;
    for moment in moments {
        let sequence = &mut sequences[moment.sequence];
        sequence.reason = Some(reason(sequence, &moment));
    }
    Ok(())
}

/// One more replay that looks at each cache right before its event.
fn look(twin: &Twin, sequences: &[Sequence], moments: &mut [Moment]) -> Result<(), TraceError> {
    let mut replay = twin.begin(twin.policy, Placement::Recorded);
    let (mut number, mut next) = (0u64, 0);
    twin.each_event(|event| {
        while next < moments.len() && moments[next].event <= number {
            let sequence = &sequences[moments[next].sequence];
            let zone = twin.world.zones.iter().position(|zone| zone.name() == sequence.zone);
            let zone = ZoneId(zone.unwrap_or(0) as u8);
            let view = replay.allocator().pcp(zone, CpuId(sequence.cpu));
            let moment = &mut moments[next];
            (moment.pages, moment.limit) = (view.size.count, view.size.high);
            moment.singles = [view.blocks[0], view.blocks[1], view.blocks[2]];
            next += 1;
        }
        number += 1;
        replay.on_event(event);
    })
}

fn reason(sequence: &Sequence, moment: &Moment) -> String {
    let Moment { pages, limit, singles: [unmovable, movable, reclaimable], .. } = moment;
    let held = format!(
        "the twin's cache held {pages} pages under a limit of {limit} just before (single pages: \
         {unmovable} unmovable, {movable} movable, {reclaimable} reclaimable)"
    );
    let why = match sequence.what {
        "refills" => {
            "a list ran empty on one side only: pages left or joined it that no event shows, as \
             bulk allocations do"
        }
        _ => {
            "the count reached the limit on one side only: pages that no event shows, a tick, or \
             reclaim at work moved one of the two"
        }
    };
    format!("{held}; {why}")
}
