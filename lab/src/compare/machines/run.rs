//! Runs the cells of a side through the pool that published tables use, and its store.

use serde::{Deserialize, Serialize};

use super::ask::Place;
use crate::experiment::cell::{CellError, Ready};
use crate::experiment::outcome::CellResult;
use crate::experiment::pool::{Pool, Stop};

/// Hash of the allocator's sources in this build.
pub const ALLOCATOR: &str = env!("PAGEYARD_ALLOCATOR");
/// Hash of the sources of machines and workloads in this build.
pub const MODEL: &str = env!("PAGEYARD_MACHINES");

/// What became of a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A result for each seed.
    Results(Vec<CellResult>),
    /// Why there is none.
    Failed(String),
}

/// A place, its CPUs and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// The place.
    pub place: Place,
    /// CPUs that ran.
    pub cpus: usize,
    /// What one unit of work is called.
    pub unit: String,
    /// What came out.
    pub answer: Answer,
}

/// One side of a comparison: a policy in a build, over places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// Number of the format; it rises when a field changes its meaning or goes.
    pub format: u32,
    /// Version of Pageyard.
    pub pageyard: String,
    /// Hash of the allocator's sources.
    pub allocator: String,
    /// Hash of the sources of machines and workloads.
    pub model: String,
    /// The policy, as named.
    pub policy: String,
    /// Its keys: the name may be of a file that changes.
    pub keys: String,
    /// Seeds of every place, from 1.
    pub seeds: u64,
    /// The places.
    pub ran: Vec<Ran>,
}

/// Cells of all sides by place and seed, looked up before anything runs.
#[derive(Clone, Debug)]
pub struct Planned {
    policy: String,
    cells: Vec<(Place, Vec<Ready>)>,
}

impl Planned {
    /// Looks up all names.
    ///
    /// # Errors
    /// A name is unknown, or they do not go together.
    pub fn of(policy: &str, places: &[Place], seeds: u64) -> Result<Planned, CellError> {
        let cells = places.iter().map(|place| {
            let ready = (1..=seeds).map(|seed| place.ready(policy, seed));
            Ok((place.clone(), ready.collect::<Result<Vec<_>, CellError>>()?))
        });
        let cells = cells.collect::<Result<_, CellError>>()?;
        Ok(Planned { policy: policy.to_string(), cells })
    }
}

/// Runs sides, all their cells at the same time as far as workers go. A cell that two sides share
/// is run once.
///
/// # Errors
/// The user ended the run.
pub fn sides(pool: &Pool<'_>, planned: &[Planned]) -> Result<Vec<Side>, Stop> {
    let mut unique: Vec<(String, &[Ready])> = Vec::new();
    let mut uses: Vec<Vec<usize>> = Vec::new();
    for side in planned {
        let at = side.cells.iter().map(|(_, cells)| {
            let key: String = cells.iter().map(Ready::key).collect();
            unique.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                unique.push((key, cells));
                unique.len() - 1
            })
        });
        uses.push(at.collect());
    }
    // One question each, so that a place without a result leaves the others theirs.
    let answers: Vec<Result<Vec<CellResult>, Stop>> = std::thread::scope(|scope| {
        let asked: Vec<_> =
            unique.iter().map(|(_, cells)| scope.spawn(|| pool.run(cells))).collect();
        let joined = asked.into_iter().map(|asked| match asked.join() {
            Ok(answer) => answer,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    let mut kept = Vec::new();
    for answer in answers {
        kept.push(match answer {
            Ok(results) => Answer::Results(results),
            Err(Stop::Interrupted) => return Err(Stop::Interrupted),
            Err(Stop::Cell(error)) => Answer::Failed(error.to_string()),
        });
    }
    let sides = planned.iter().zip(uses);
    Ok(sides.map(|(side, uses)| side_of(side, uses.iter().map(|at| kept[*at].clone()))).collect())
}

fn side_of(planned: &Planned, answers: impl Iterator<Item = Answer>) -> Side {
    let first = planned.cells.first().and_then(|(_, cells)| cells.first());
    let keys = first.map_or_else(String::new, |ready| {
        let keys = pageyard::keys::KEYS.iter();
        let keys: Vec<String> =
            keys.map(|key| format!("{}={}", key.name, (key.get)(&ready.policy()))).collect();
        keys.join(",")
    });
    let ran = planned.cells.iter().zip(answers).map(|((place, cells), answer)| Ran {
        place: place.clone(),
        cpus: cells.first().map_or(0, |ready| ready.cell.cpus),
        unit: cells.first().map_or("unit", |ready| ready.cell.workload.unit).to_string(),
        answer,
    });
    Side {
        format: super::kept::FORMAT,
        pageyard: env!("CARGO_PKG_VERSION").to_string(),
        allocator: ALLOCATOR.to_string(),
        model: MODEL.to_string(),
        policy: planned.policy.clone(),
        keys,
        seeds: planned.cells.first().map_or(0, |(_, cells)| cells.len() as u64),
        ran: ran.collect(),
    }
}
