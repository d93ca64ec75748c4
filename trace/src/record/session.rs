//! One recording, from its preparation to its folder.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::{Child, Command, ExitStatus};
use std::time::Instant;

use super::assemble::{self, Names};
use super::capture::Capture;
use super::census::Census;
use super::error::RecordError;
use super::events::{self, Choice};
use super::folder::Folder;
use super::instance::{self, Instance};
use super::machine;
use super::meta::{FORMAT, Meta};
use super::ringstats::RingStats;
use super::spool::{CpuSpool, PageLayout, Spool};
use super::stop::{self, Signals, Stopped, Wait};
use super::tracefs::{self, Tracefs};
use super::{Options, Progress, Summary, Until};
use crate::dat::write::Head;

/// A recording that is ready to start. The order of the fields is the order in which they are
/// dropped, which matters: an instance can be removed only when nothing reads it any more.
pub struct Session<'a> {
    spool: Spool,
    capture: Capture,
    instance: Instance,
    folder: Folder,
    tracefs: Tracefs,
    signals: Signals,
    options: &'a Options,
    choice: Choice,
    layout: PageLayout,
    names: Names,
}

/// What is known when tracing is off again.
struct Traced {
    window_ns: [u64; 2],
    workload_ns: [u64; 2],
    stopped: Stopped,
    command_pid: Option<u32>,
    status: Option<ExitStatus>,
    tids: Vec<i32>,
    past_page_cache: bool,
    spools: Vec<CpuSpool>,
    stats_text: Vec<String>,
    cpus: Vec<usize>,
    head: Head,
}

impl<'a> Session<'a> {
    /// Makes everything that a recording needs, but does not trace yet.
    ///
    /// # Errors
    /// When anything is missing; what was made is undone.
    pub fn prepare(
        options: &'a Options,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Session<'a>, RecordError> {
        let signals = Signals::catch()?;
        let tracefs = Tracefs::find_or_mount()?;
        if tracefs.mounted_here() {
            let place = tracefs.root().display();
            progress(Progress::Note(&format!("mounted tracefs on {place} for the recording")));
        }
        for path in instance::stale(&tracefs) {
            let left = format!(
                "{} was left by a killed recorder: `pageyard record --clean` removes it",
                path.display()
            );
            progress(Progress::Note(&left));
        }
        let choice = events::resolve(&options.events, tracefs.root())?;
        let folder = Folder::create(&options.out)?;
        for (name, text) in machine::files() {
            if !text.is_empty() {
                folder.write(name, text.as_bytes())?;
            }
        }
        let instance = Instance::create(&tracefs)?;
        configure(&instance, options)?;
        events::enable(&choice, &instance)?;
        let layout = page_layout(&tracefs)?;
        let mut names = Names::new();
        assemble::add_living(&mut names);
        let capture = Capture::prepare(&instance, options.clock, options.kpageflags)
            .map_err(|reason| RecordError::file("compress", "kpageflags", 0, reason))?;
        let spool = Spool::start(&instance, folder.path(), layout)?;
        Ok(Session {
            spool,
            capture,
            instance,
            folder,
            tracefs,
            signals,
            options,
            choice,
            layout,
            names,
        })
    }

    /// Records and completes the folder.
    ///
    /// # Errors
    /// When the command does not start, a reader fails, the disk is full or a second signal comes.
    pub fn run(
        mut self,
        watched: bool,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Summary, RecordError> {
        let clock = self.options.clock;
        let began = Instant::now();
        let on_ns = clock.now_ns();
        self.instance.write("tracing_on", "1", "turn tracing on")?;
        self.capture.take("before");
        let workload_on_ns = clock.now_ns();
        let (stopped, command_pid, status) = self.workload(began, watched, progress)?;
        let workload_off_ns = clock.now_ns();
        self.capture.take("after");
        self.instance.write("tracing_on", "0", "turn tracing off")?;
        let window_ns = [on_ns, clock.now_ns()];

        // In this order: what is named last is dropped first when a step below fails.
        let Session { signals, tracefs, folder, instance, mut capture, spool, .. } = self;
        capture.close();
        let mut tids = spool.tids();
        tids.push(rustix::thread::gettid().as_raw_nonzero().get());
        tids.sort_unstable();
        let (cpus, past_page_cache) = (instance.cpus()?, spool.past_cache());
        let spools = spool.finish()?;
        let stats_text = stats(&instance, &cpus)?;
        let root = tracefs.root();
        let head = assemble::describe(root, &instance, &self.choice, self.layout.page_bytes)?;
        let mut names = self.names;
        assemble::add_saved(&mut names, root);
        assemble::add_living(&mut names);
        instance.remove()?;
        drop(tracefs);

        let workload_ns = [workload_on_ns, workload_off_ns];
        let traced = Traced {
            window_ns,
            workload_ns,
            stopped,
            command_pid,
            status,
            tids,
            past_page_cache,
            spools,
            stats_text,
            cpus,
            head,
        };
        let desk = Desk { options: self.options, choice: &self.choice, layout: self.layout };
        desk.complete(traced, &names, &capture, folder, &signals, progress)
    }

    fn workload(
        &mut self,
        began: Instant,
        watched: bool,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(Stopped, Option<u32>, Option<ExitStatus>), RecordError> {
        let spool = &self.spool;
        let mut tick = || {
            let (bytes, lost) = (spool.bytes(), spool.lost());
            progress(Progress::Recording { elapsed: began.elapsed(), bytes, lost });
        };
        let mut child = match &self.options.until {
            Until::Command(command) => Some(spawn(command)?),
            _ => None,
        };
        let until = match &self.options.until {
            Until::Duration(duration) => Instant::now().checked_add(*duration),
            _ => None,
        };
        let mut wait = Wait {
            signals: &self.signals,
            alarm: spool.alarm(),
            until,
            progress: if watched { Some(&mut tick) } else { None },
        };
        let pid = child.as_ref().map(|child| child.0.id());
        let (stopped, status) = wait.wait(child.as_mut().map(|child| &mut child.0))?;
        if let Some(child) = &mut child {
            child.1 = status.is_some();
        }
        Ok((stopped, pid, status))
    }
}

/// A child process and whether it has ended; one that has not is killed on drop.
struct Running(Child, bool);

impl Drop for Running {
    fn drop(&mut self) {
        if !self.1 {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn spawn(command: &[OsString]) -> Result<Running, RecordError> {
    let (program, arguments) = command.split_first().expect("the caller gave a program");
    let child = Command::new(program).args(arguments).spawn();
    let child = child.map_err(|reason| RecordError::Command {
        program: program.to_string_lossy().into_owned(),
        reason,
    })?;
    Ok(Running(child, false))
}

fn configure(instance: &Instance, options: &Options) -> Result<(), RecordError> {
    let clock = options.clock.name();
    let known = instance.read("trace_clock", "list the trace clocks")?;
    if !known.split_whitespace().any(|word| word.trim_matches(['[', ']']) == clock) {
        return Err(RecordError::UnknownClock { clock, known: known.trim().to_string() });
    }
    instance.write("trace_clock", clock, "set the trace clock")?;
    let size = options.buffer_kb.to_string();
    instance.write(
        "buffer_size_kb",
        &size,
        "get memory for ring buffers of this size: lower --buffer-kb",
    )?;
    let percent = options.buffer_percent.to_string();
    // Kernels before 5.0 have no such setting: readers are woken more often then.
    let _ = instance.write("buffer_percent", &percent, "set when readers are woken");
    Ok(())
}

fn page_layout(tracefs: &Tracefs) -> Result<PageLayout, RecordError> {
    let path = tracefs.root().join("events/header_page");
    let doing = "understand the layout of a ring-buffer page";
    let text = tracefs::read(&path).map_err(|reason| RecordError::Tracefs {
        doing,
        path: path.clone(),
        reason,
    })?;
    PageLayout::parse(&String::from_utf8_lossy(&text)).ok_or_else(|| {
        let reason = std::io::ErrorKind::InvalidData.into();
        RecordError::Tracefs { doing, path, reason }
    })
}

fn stats(instance: &Instance, cpus: &[usize]) -> Result<Vec<String>, RecordError> {
    let read = |cpu: &usize| {
        instance.read(&format!("per_cpu/cpu{cpu}/stats"), "read the counts of lost events")
    };
    cpus.iter().map(read).collect()
}

/// What is done at leisure, when the kernel is no longer traced.
struct Desk<'a> {
    options: &'a Options,
    choice: &'a Choice,
    layout: PageLayout,
}

impl Desk<'_> {
    fn complete(
        &self,
        mut traced: Traced,
        names: &Names,
        capture: &Capture,
        folder: Folder,
        signals: &Signals,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Summary, RecordError> {
        let own: BTreeSet<i32> = traced.tids.iter().copied().collect();
        let mut census = Census::default();
        for spool in &traced.spools {
            check_signals(signals)?;
            census
                .add(&spool.path, self.layout, &own)
                .map_err(|reason| RecordError::file("read", &spool.path, spool.bytes, reason))?;
        }
        // Only of tasks in the recording: what else runs on the machine is nobody's business.
        traced.head.cmdlines = names
            .iter()
            .filter(|(pid, _)| census.pids.contains(pid) && **pid != 0)
            .flat_map(|(pid, name)| format!("{pid} {name}\n").into_bytes())
            .collect();
        traced.head.cpu_stats = stats_by_cpu(&traced);
        let total = traced.spools.iter().map(|spool| spool.bytes).sum();
        let name = if self.options.zstd_level.is_some() { "trace.dat.zst" } else { "trace.dat" };
        let mut watch = |done| {
            progress(Progress::Writing { done, total });
            check_signals(signals)
        };
        let path = folder.path().join(name);
        let level = self.options.zstd_level;
        assemble::write(&path, &traced.head, &traced.spools, level, &mut watch)?;
        for shot in capture.shots() {
            let bytes = assemble::repack(shot, self.options.zstd_level)
                .map_err(|reason| RecordError::file("compress", &shot.name, total, reason))?;
            folder.write(&shot.name, &bytes)?;
        }
        folder.write("snapshots", capture.times().as_bytes())?;
        let stats = traced.stats_text.iter().map(|text| RingStats::parse(text).text());
        folder.write("ringstats", stats.collect::<String>().as_bytes())?;
        folder.write("command", format!("{}\n", self.command_text(&traced)).as_bytes())?;
        let meta = self.meta(&traced, &census, capture);
        let text = serde_json::to_string_pretty(&meta).expect("a plain struct becomes JSON");
        folder.write("meta", format!("{text}\n").as_bytes())?;
        check_signals(signals)?;
        Ok(Summary {
            folder: folder.complete()?,
            meta,
            // One that was stopped by us, or together with us, has not failed.
            command_succeeded: traced.stopped != Stopped::Command
                || traced.status.is_none_or(|status| status.success()),
        })
    }

    /// The command as a shell would take it, or in words what was recorded.
    fn command_text(&self, traced: &Traced) -> String {
        match &self.options.until {
            Until::Command(command) => {
                let words: Vec<String> =
                    command.iter().map(|word| quoted(&word.to_string_lossy())).collect();
                words.join(" ")
            }
            _ => {
                let [begin, end] = traced.workload_ns;
                let seconds = (end - begin) as f64 / 1e9;
                format!("(no command: whatever ran on the machine for {seconds:.1} s)")
            }
        }
    }

    fn meta(&self, traced: &Traced, census: &Census, capture: &Capture) -> Meta {
        let uname = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let ids = assemble::event_ids(&traced.head);
        let mut events: std::collections::BTreeMap<String, u64> =
            self.choice.events.iter().map(|event| (event.clone(), 0)).collect();
        for (id, count) in &census.by_id {
            let name = ids.get(id).cloned().unwrap_or_else(|| format!("unknown:{id}"));
            *events.entry(name).or_default() += count;
        }
        let command = match &self.options.until {
            Until::Command(command) => command.as_slice(),
            _ => &[],
        };
        let lost = traced.stats_text.iter().map(|text| RingStats::parse(text).lost());
        Meta {
            format: FORMAT,
            pageyard: env!("CARGO_PKG_VERSION").to_string(),
            kernel: [text(uname.release()), text(uname.version()), text(uname.machine())],
            page_bytes: rustix::param::page_size() as u64,
            clock: self.options.clock.name().to_string(),
            window_ns: traced.window_ns,
            workload_ns: traced.workload_ns,
            command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            command_pid: traced.command_pid,
            command_end: traced.status.map(stop::describe),
            stopped: traced.stopped.text(),
            recorder_tids: traced.tids.clone(),
            events,
            recorder_events: census.own_events,
            events_missing: self.choice.missing.iter().cloned().collect(),
            files_missing: capture.missing().to_vec(),
            buffer_kb: self.options.buffer_kb,
            buffer_percent: self.options.buffer_percent,
            cpus: traced.cpus.clone(),
            trace_bytes: traced.spools.iter().map(|spool| spool.bytes).sum(),
            event_bytes: census.event_bytes,
            lost_events: lost.sum(),
            pages_after_loss: census.pages_after_loss,
            past_page_cache: traced.past_page_cache,
        }
    }
}

/// A signal now is the second one, or one while the file is put together: give up.
fn check_signals(signals: &Signals) -> Result<(), RecordError> {
    match signals.pending() {
        Some(_) => Err(RecordError::Aborted),
        None => Ok(()),
    }
}

/// The statistics at the place of their CPU: numbers may have gaps.
fn stats_by_cpu(traced: &Traced) -> Vec<String> {
    let mut texts = vec![String::new(); traced.cpus.last().map_or(0, |last| last + 1)];
    for (cpu, text) in traced.cpus.iter().zip(&traced.stats_text) {
        texts[*cpu].clone_from(text);
    }
    texts
}

/// A word of a command line, in single quotes where a shell would take it apart.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_as_a_shell_needs_them() {
        assert_eq!(quoted("--size=1G"), "--size=1G");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
