//! Running a launch under a schedule, and under many.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cluster::{Cluster, Status};
use crate::global::Global;
use crate::launch::{Context, Launch, Options};
use crate::memory::Memory;
use crate::program::Program;
use crate::report::{Finding, Kind, Place};
use crate::schedule::{Chooser, Schedule};
use crate::trace::Span;

/// Steps that a cluster takes before another one has its turn, where clusters run together.
const TURN: u64 = 64;

/// What a run without findings did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Warp instructions executed.
    pub instructions: u64,
    /// Clusters run.
    pub clusters: u64,
    /// What went on when, if a trace was asked for.
    pub spans: Vec<Span>,
}

/// What exploring found when nothing was wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Explored {
    /// Orders of events that were tried.
    pub orders: usize,
    /// Whether those were all.
    pub complete: bool,
    /// Warp instructions executed.
    pub instructions: u64,
}

/// How a run is carried out.
#[derive(Clone, Copy, Default)]
pub struct Control<'a> {
    /// Record spans. The clusters then run one after the other.
    pub trace: bool,
    /// Called with the number of clusters that are done and that there are.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
    /// Threads of the host; 0 for as many as it has.
    pub threads: usize,
}

/// Runs a launch.
///
/// Kernel arguments that are addresses refer to buffers of `memory`, which holds the results afterwards.
/// Blocks that share no cluster run in parallel on the host's threads, unless the kernel lets them talk
/// through global memory. The same schedule gives the same run.
///
/// # Errors
/// The first fault found, in the order of the clusters.
pub fn run(
    program: &Program,
    launch: &Launch,
    memory: &mut Memory,
    options: &Options,
    schedule: &Schedule,
    control: Control<'_>,
) -> Result<Outcome, Box<Finding>> {
    run_and_note(program, launch, memory, options, schedule, control).map(|(outcome, _)| outcome)
}

/// As [`run`]; also returns who wrote what in global memory.
pub(crate) fn run_and_note(
    program: &Program,
    launch: &Launch,
    memory: &mut Memory,
    options: &Options,
    schedule: &Schedule,
    control: Control<'_>,
) -> Result<(Outcome, Global), Box<Finding>> {
    launch.check(program, memory).map_err(|message| refused(program, message))?;
    let variables = launch.prepare(program, memory);
    let mut context = launch.context(program, memory, options, variables.clone());
    let result = if program.blocks_talk && options.blocks_talk {
        run_together(&context, schedule, control)
    } else {
        let saved = memory.save();
        let result = run_apart(&context, schedule, control);
        if context.global.clusters_conflict.load(Ordering::Relaxed) {
            // One cluster after the other, so that it is always the same one that finds it.
            memory.restore(&saved);
            context = launch.context(program, memory, options, variables);
            run_apart(&context, schedule, Control { threads: 1, ..control })
        } else {
            result
        }
    };
    match result {
        Ok(outcome) => Ok((outcome, context.global)),
        Err(mut finding) => {
            finding.schedule = schedule.to_string();
            Err(finding)
        }
    }
}

/// The finding for a launch that does not fit its entry.
fn refused(program: &Program, message: String) -> Box<Finding> {
    Box::new(Finding {
        kind: Kind::Launch,
        kernel: program.entry().name.clone(),
        message,
        place: Place::NONE,
        threads: String::new(),
        notes: Vec::new(),
        history: Vec::new(),
        schedule: String::new(),
    })
}

/// Runs clusters independently of each other.
fn run_apart(cx: &Context<'_>, schedule: &Schedule, control: Control<'_>) -> Result<Outcome, Box<Finding>> {
    let total = cx.launch.clusters();
    let hosts =
        if control.threads > 0 { control.threads } else { std::thread::available_parallelism().map_or(1, usize::from) };
    let hosts = if control.trace { 1 } else { hosts.min(total as usize).max(1) };
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    // The lowest cluster with a finding; later ones need not run.
    let limit = AtomicU64::new(total);
    let found: Mutex<Option<(u64, Box<Finding>)>> = Mutex::new(None);
    let outcome = Mutex::new(Outcome::default());
    let work = || {
        loop {
            let id = next.fetch_add(1, Ordering::Relaxed);
            if id >= limit.load(Ordering::Relaxed) {
                return;
            }
            let mut cluster = Cluster::new(cx, id, schedule, control.trace);
            let mut chooser = Chooser::new(schedule, id);
            let result = cluster.run(u64::MAX, &mut |candidates| chooser.choose(candidates));
            match result {
                Ok(_) => {
                    if let Ok(mut outcome) = outcome.lock() {
                        outcome.instructions += cluster.instructions;
                        outcome.clusters += 1;
                        outcome.spans.extend(cluster.spans.unwrap_or_default());
                    }
                }
                Err(finding) => {
                    limit.fetch_min(id, Ordering::Relaxed);
                    if let Ok(mut found) = found.lock()
                        && found.as_ref().is_none_or(|(before, _)| id < *before)
                    {
                        *found = Some((id, finding));
                    }
                }
            }
            let count = done.fetch_add(1, Ordering::Relaxed) + 1;
            if let Some(progress) = control.progress {
                progress(count, total);
            }
        }
    };
    if hosts == 1 {
        work();
    } else {
        std::thread::scope(|scope| {
            for _ in 0..hosts {
                scope.spawn(work);
            }
        });
    }
    match found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some((_, finding)) => Err(finding),
        None => Ok(outcome.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)),
    }
}

/// Runs clusters at the same time, a few steps each in turn: as many as the options say are resident.
fn run_together(cx: &Context<'_>, schedule: &Schedule, control: Control<'_>) -> Result<Outcome, Box<Finding>> {
    let total = cx.launch.clusters();
    let mut outcome = Outcome::default();
    let mut waiting = 0..total;
    let mut running: VecDeque<(Cluster<'_>, Chooser)> = VecDeque::new();
    loop {
        while running.len() < cx.options.resident_clusters.max(1)
            && let Some(id) = waiting.next()
        {
            running.push_back((Cluster::new(cx, id, schedule, control.trace), Chooser::new(schedule, id)));
        }
        let Some((mut cluster, mut chooser)) = running.pop_front() else { return Ok(outcome) };
        let before = cluster.progress;
        match cluster.run(TURN, &mut |candidates| chooser.choose(candidates))? {
            Status::Done => {
                outcome.instructions += cluster.instructions;
                outcome.clusters += 1;
                outcome.spans.extend(cluster.spans.take().unwrap_or_default());
                if let Some(progress) = control.progress {
                    progress(outcome.clusters, total);
                }
            }
            Status::Running => {
                if cluster.progress != before {
                    // Something changed that a spinning cluster may be looking for.
                    for (other, _) in &mut running {
                        other.note_outside_progress();
                    }
                }
                running.push_back((cluster, chooser));
            }
        }
    }
}

/// Every order of events of a tiny launch, up to a bound.
///
/// Orders are tried by how often they depart from "one agent runs until it waits": first never, then once
/// at every step and for every other agent, then twice, and so on, until `most` have been tried. `prepare`
/// makes a fresh memory and launch; `check` looks at the results of each run.
///
/// # Errors
/// The first fault, or what `check` returns.
pub fn explore(
    program: &Program,
    options: &Options,
    most: usize,
    mut prepare: impl FnMut() -> (Memory, Launch),
    mut check: impl FnMut(&Memory, &Schedule) -> Result<(), Box<Finding>>,
) -> Result<Explored, Box<Finding>> {
    let mut queue = VecDeque::from([Vec::new()]);
    let mut explored = Explored { orders: 0, complete: true, instructions: 0 };
    while let Some(steps) = queue.pop_front() {
        if explored.orders == most {
            explored.complete = false;
            break;
        }
        explored.orders += 1;
        let (mut memory, launch) = prepare();
        launch.check(program, &memory).map_err(|message| refused(program, message))?;
        let variables = launch.prepare(program, &mut memory);
        let context = launch.context(program, &memory, options, variables);
        let schedule = Schedule::Steps(steps.clone());
        let mut widths = Vec::new();
        for id in 0..launch.clusters() {
            let mut cluster = Cluster::new(&context, id, &schedule, false);
            let mut chooser = Chooser::new(&schedule, id);
            chooser.widths = Some(Vec::new());
            let result = cluster.run(u64::MAX, &mut |candidates| chooser.choose(candidates));
            result.map_err(|mut finding| {
                finding.schedule = schedule.to_string();
                finding
            })?;
            explored.instructions += cluster.instructions;
            let new = chooser.widths.unwrap_or_default();
            if new.len() > widths.len() {
                widths = new;
            }
        }
        check(&memory, &schedule)?;
        let from = steps.last().map_or(0, |step: &(u32, u32)| step.0 + 1);
        for (step, &width) in widths.iter().enumerate().skip(from as usize) {
            for choice in 1..width {
                if queue.len() + explored.orders >= most {
                    explored.complete = false;
                    break;
                }
                let mut next = steps.clone();
                next.push((step as u32, choice));
                queue.push_back(next);
            }
        }
    }
    Ok(explored)
}
