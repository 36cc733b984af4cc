//! `hopper-gemm explain`: which configuration the library launches for a shape, and why.

use std::path::PathBuf;

use clap::Args;
use hopper_gemm::model::{self, Bound, Candidate, Exception, Pick, Prediction, clusters_a_turn};
use hopper_gemm::problem::Work;
use hopper_gemm::select::{parse_element, parse_kernel, parse_sizes, shared_name};
use hopper_gemm::tune::{Answer, Cache, ShapeClass};
use hopper_gemm::{Error, Problem, units};
use kernels::catalogue::{self, Config, Kernel};
use serde::Serialize;

use super::failure::Failure;
use super::output::{self, Facts};
use super::said;

/// Say which configuration is launched for a shape, and why.
///
/// Where nothing was tuned, a cost model chooses among the configurations of the kernels gemv, split, parts,
/// persistent, wide and pingpong, unless a measurement is known to contradict it. This prints the choice, what its time is made of,
/// and the runners-up. Times are the model's, of one H200.
#[derive(Args)]
pub struct Arguments {
    /// The shape, as MxNxK, or one number for a square product
    #[arg(value_name = "MxNxK", value_parser = |text: &str| said(parse_sizes(text)))]
    shape: (usize, usize, usize),
    /// Element type
    #[arg(long = "type", value_name = "f16|bf16", default_value = "f16", value_parser = |text: &str| said(parse_element(text)))]
    element: catalogue::Element,
    /// Choose among the configurations of this kernel only: one that the model knows [default: all of them]
    #[arg(long, value_name = "NAME", value_parser = |text: &str| said(parse_kernel(text)))]
    kernel: Option<Kernel>,
    /// How many of the model's best to show
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// The file of tuned answers [default: that of `hopper-gemm tune`]
    #[arg(long, value_name = "FILE")]
    cache: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What is printed, for people or as JSON.
#[derive(Serialize)]
struct Explanation {
    m: usize,
    n: usize,
    k: usize,
    #[serde(rename = "type")]
    element: &'static str,
    choice: Explained,
    /// The product that was measured where a measurement overrules the model.
    exception: Option<[usize; 3]>,
    /// The model's best, the fastest first.
    model: Vec<Explained>,
    tuned: Tuned,
    #[serde(skip)]
    flops: f64,
}

/// A configuration and its predicted time, in seconds.
#[derive(Serialize)]
struct Explained {
    entry: &'static str,
    band: u32,
    parts: u32,
    seconds: f64,
    bound: &'static str,
    clusters: f64,
    clusters_at_once: usize,
    turns: f64,
    last_turn: f64,
    steps: f64,
    step: f64,
    step_tensor_cores: f64,
    step_l2: f64,
    step_straddling: f64,
    step_latency: f64,
    main_loop: f64,
    launch: f64,
    fill: f64,
    epilogue: f64,
    meeting: f64,
    dram: f64,
    dram_bytes: f64,
    #[serde(skip)]
    candidate: Candidate,
}

/// What was tuned for such shapes, on whatever device.
#[derive(Serialize)]
struct Tuned {
    cache: Option<PathBuf>,
    class: String,
    answers: Vec<Answer>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (m, n, k) = arguments.shape;
    let problem = Problem::new(arguments.element, m, n, k)?;
    if problem.work() != Work::Product {
        return Err(Error::EmptyProduct { m, n, k }.into());
    }
    let sizes = [m, n, k];
    let Some(Pick { candidate, exception }) = model::choose(arguments.element, arguments.kernel, sizes) else {
        let value = arguments.kernel.map_or("", Kernel::name).to_owned();
        return Err(Error::Syntax {
            value,
            rule: "the cost model knows the kernels gemv, split, parts, persistent, wide and pingpong",
        }
        .into());
    };
    let best = model::ranked(arguments.element, arguments.kernel, sizes);
    let explanation = Explanation {
        m,
        n,
        k,
        element: arguments.element.name(),
        choice: Explained::new(&candidate),
        exception: exception.map(|&Exception { measured, .. }| measured),
        model: best.iter().take(arguments.top).map(Explained::new).collect(),
        tuned: Tuned::read(arguments, &problem)?,
        flops: problem.flops(),
    };
    if arguments.json {
        output::json(&explanation)?;
    } else {
        output::print(&explanation.text())?;
    }
    Ok(())
}

impl Tuned {
    fn read(arguments: &Arguments, problem: &Problem) -> Result<Tuned, Failure> {
        // A user without a cache folder has no cache; a file that is named must be right.
        let path = arguments.cache.clone().or_else(|| Cache::default_path().ok());
        let class = ShapeClass::of(problem).to_string();
        let Some(path) = path else { return Ok(Tuned { cache: None, class, answers: Vec::new() }) };
        let cache = match Cache::read(&path) {
            Ok((cache, notice)) => {
                if let Some(notice) = notice {
                    output::complain("note", &notice.to_string());
                }
                cache
            }
            Err(error) if arguments.cache.is_none() => {
                output::complain("note", &error.to_string());
                Cache::default()
            }
            Err(error) => return Err(error.into()),
        };
        let kernel = arguments.kernel.map(Kernel::name);
        let fits = |answer: &&Answer| {
            answer.class == class && answer.kernel.as_deref() == kernel && answer.target.is_of_this_program()
        };
        let answers = cache.answers().iter().filter(fits).cloned().collect();
        Ok(Tuned { cache: Some(path), class, answers })
    }

    fn text(&self) -> Vec<String> {
        let Some(cache) = &self.cache else { return vec!["nothing is remembered".to_owned()] };
        if self.answers.is_empty() {
            return vec![format!("no answer for {} in {}", self.class, cache.display())];
        }
        let line = |Answer { entry, band, parts, seconds, target, .. }: &Answer| {
            let (time, shared) = (units::seconds(*seconds), shared_by(*parts));
            format!("{entry}, bands of {band}{shared}, {time} measured; it comes first on {}", target.device)
        };
        self.answers.iter().map(line).collect()
    }
}

/// `, 7 clusters a tile`; nothing for one.
fn shared_by(parts: u32) -> String {
    if parts == 1 { String::new() } else { format!(", {parts} clusters a tile") }
}

impl Explained {
    fn new(candidate: &Candidate) -> Explained {
        let Candidate { config, band, parts, prediction } = *candidate;
        let Prediction { seconds, launch, fill, clusters, turns, last_turn, steps, step, .. } = prediction;
        let Prediction { tensor, l2, straddling, latency, epilogue, meeting, dram_bytes, dram, .. } = prediction;
        Explained {
            entry: config.entry,
            band,
            parts,
            seconds,
            bound: prediction.bound().name(),
            clusters,
            clusters_at_once: clusters_a_turn(config),
            turns,
            last_turn,
            steps,
            step,
            step_tensor_cores: tensor,
            step_l2: l2,
            step_straddling: straddling,
            step_latency: latency,
            main_loop: prediction.main_loop(),
            launch,
            fill,
            epilogue,
            meeting,
            dram,
            dram_bytes,
            candidate: *candidate,
        }
    }

    fn turns_text(&self) -> String {
        let what = match (self.candidate.config.cluster_blocks(), self.parts) {
            (1, 1) => "tiles",
            (1, _) => "blocks",
            _ => "clusters",
        };
        let last = self.last_turn * 100.0;
        match self.turns {
            1.0 => format!("1 of {} {what}, {last:.0} % full", self.clusters_at_once),
            turns => format!("{turns} of {} {what}, the last {last:.0} % full", self.clusters_at_once),
        }
    }

    fn bound_text(&self) -> String {
        match self.candidate.prediction.bound() {
            Bound::Dram => {
                let rate = self.dram_bytes / self.dram * 1e-12;
                format!("DRAM: {} at {rate:.2} TB/s", units::bytes(self.dram_bytes as u128))
            }
            Bound::Latency => {
                // Without a ring all of them are.
                let Config { kernel, stages, .. } = *self.candidate.config;
                let on_their_way = if kernel == Kernel::Gemv { stages } else { stages - 1 };
                format!("latency: {on_their_way} stages on their way")
            }
            bound => bound.name().to_owned(),
        }
    }

    /// What the stages of a kernel with a ring take, and what comes beside them.
    fn add_stages(&self, facts: &mut Facts) {
        facts.add(
            "stages",
            format!(
                "{} a turn, {} each: tensor cores {}, L2 {},{} latency {}",
                self.steps,
                units::seconds(self.step),
                units::seconds(self.step_tensor_cores),
                units::seconds(self.step_l2),
                match self.step_straddling {
                    0.0 => String::new(),
                    straddling => format!(" rows that straddle lines {},", units::seconds(straddling)),
                },
                units::seconds(self.step_latency),
            ),
        );
        facts.add(
            "on chip",
            format!(
                "{} in stages, {} to fill the rings, {} to store C, {} for blocks to meet",
                units::seconds(self.main_loop),
                units::seconds(self.fill),
                units::seconds(self.epilogue),
                units::seconds(self.meeting),
            ),
        );
    }

    fn row(&self, best: f64) -> Vec<String> {
        vec![
            shared_name(self.entry, self.parts),
            self.band.to_string(),
            units::seconds(self.seconds),
            format!("{:.1} %", (self.seconds / best - 1.0) * 100.0),
            self.turns_text(),
            self.bound_text(),
        ]
    }
}

impl Explanation {
    fn text(&self) -> String {
        let Explanation { m, n, k, element, choice, exception, .. } = self;
        let mut facts = Facts::default();
        facts.add("product", format!("{m}×{n}×{k}, {element}"));
        facts.add("choice", format!("{}, bands of {} rows{}", choice.entry, choice.band, shared_by(choice.parts)));
        facts.add(
            "time",
            format!("{} predicted, {}", units::seconds(choice.seconds), units::flops(self.flops / choice.seconds)),
        );
        match exception {
            Some([m, n, k]) => facts.add("because", format!("it measured best for {m}×{n}×{k}, against the model")),
            None => facts.add("because", "the model predicts the shortest time"),
        }
        facts.add("bound by", choice.bound_text());
        facts.add("turns", choice.turns_text());
        if choice.candidate.config.kernel == Kernel::Gemv {
            let (steps, step) = (choice.steps, units::seconds(choice.step));
            facts.add("rounds", format!("{steps} a turn, {step} each: a load's latency"));
        } else {
            choice.add_stages(&mut facts);
        }
        let bytes = units::bytes(choice.dram_bytes as u128);
        facts.add("DRAM", format!("{bytes}, {} on its own", units::seconds(choice.dram)));
        for line in self.tuned.text() {
            facts.add("tuned", line);
        }
        let best = self.model.first().map_or(choice.seconds, |first| first.seconds);
        let header = ["the model's best", "band", "predicted", "behind", "turns", "bound by"];
        let table = output::table(&header, self.model.iter().map(|explained| explained.row(best)));
        if self.model.is_empty() { facts.text() } else { format!("{}\n{table}", facts.text()) }
    }
}
