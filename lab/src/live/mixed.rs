//! Small faults beside huge ones on this machine, in memory that was handed out page by page.

use pageyard::CpuId;
use pageyard_host::plain::set_thread_cpu;

use super::runs::{finish, parts_ps, per_second};
use super::stage::{Live, Pace};
use super::watch::Done;
use super::{LiveError, Plan, Round, cpus};
use crate::cells::mixed::ROOM;
use crate::cells::work::Stage;
use crate::cells::work::area::Area;
use crate::cells::work::mixed::{HAD, Kind, MISSED, Process, break_up};

/// Runs it once. Processes begin with nothing, as those of page_fault1.
pub(super) fn mixed(plan: &Plan) -> Result<Round, LiveError> {
    let size = plan.process_pages;
    let ground = plan.ground(ROOM * (plan.cpus * size) as u64, true)?;
    let allowed = cpus()?;
    let stage = Live::new(&ground, Pace::take());
    let set_up_as = |cpu: usize| set_thread_cpu(Some(CpuId(allowed[cpu])));
    let give = |page| stage.free(page);
    plan.set_up(|| break_up(plan.cpus, set_up_as, |page| stage.try_take(page), give))?;
    set_thread_cpu(None);
    ground.host.settle();
    let kind_of = |cpu| Kind::of(cpu, plan.cpus);
    let (done, mut round) = plan.timed(&ground, plan.times, |part| {
        let (stage, file, think_ps) = (&part.stage, &Vec::new(), plan.think_ps);
        let area = Area { stage, file, size, think_ps, held: Vec::new(), waiting: 0 };
        let left = Process { area, kind: kind_of(part.cpu) }.run(&part.eye, false);
        stage.unlist(&left);
    })?;
    plan.settle(&ground, &mut round)?;
    for (kind, name) in [(Kind::Small, "small"), (Kind::Huge, "huge")] {
        let of_kind = done.iter().enumerate().filter(|(cpu, _)| kind_of(*cpu) == kind);
        let of_kind: Vec<Done> = of_kind.map(|(_, done)| done.clone()).collect();
        let mut own = |what: &str, value: u64| round.own.insert(format!("{name}-{what}"), value);
        own("per-s", per_second(&of_kind) * 1000);
        let [map_ps, unmap_ps, _] = parts_ps(&of_kind);
        for (what, ps) in [("map-ns", map_ps), ("unmap-ns", unmap_ps)] {
            if ps > 0 {
                own(what, ps);
            }
        }
    }
    for (name, what) in [("huge-had", HAD), ("huge-missed", MISSED)] {
        let times: u64 = done.iter().map(|done| done.notes[what]).sum();
        round.own.insert(name.to_string(), times * 1000);
    }
    Ok(finish(round, &done))
}
