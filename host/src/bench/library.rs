//! cuBLAS as arms.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::arm::{Arm, Tools};
use super::inputs::Inputs;
use super::regimes::{burst, products_for};
use super::stats::median;
use crate::cublas::{Algorithm, Cublas, Operands, Product};
use crate::cuda::{Event, Stream};
use crate::element::Element;
use crate::error::{Error, Result};

/// Rounds in which the proposals are compared.
const ROUNDS: usize = 3;
/// Pause before each burst: enough that no proposal inherits much of another's heat.
const PAUSE: Duration = Duration::from_millis(40);
/// Length of a burst.
const BURST: Duration = Duration::from_millis(8);

/// The library, which the caller made when an arm asks for it.
fn cublas<'a>(tools: &Tools<'a>) -> Result<&'a Cublas> {
    tools.cublas.ok_or(Error::NotBuilt { what: "cuBLAS", feature: "cublas" })
}

fn operands<T: Element>(inputs: &Inputs<T>) -> Vec<Operands> {
    (0..inputs.sets())
        .map(|set| Operands { a: inputs.a(set).address(), b: inputs.b(set).address(), c: inputs.c(set).address() })
        .collect()
}

/// cuBLASLt with the proposal of its heuristics that is fastest here.
pub struct CublasLtArm<'a> {
    product: Product<'a>,
    operands: Vec<Operands>,
    best: Algorithm,
    tried: Vec<Value>,
}

impl<'a> CublasLtArm<'a> {
    /// Asks for proposals and measures each: in short bursts after a pause, in rounds, from first to last and
    /// back by turns, so that none profits from its place.
    pub fn new<T: Element>(tools: &Tools<'a>, inputs: &'a Inputs<T>) -> Result<Self> {
        let product = cublas(tools)?.product(inputs.problem())?;
        let operands = operands(inputs);
        let proposals = product.proposals(tools.proposals)?;
        let stream = tools.stream;
        let events = (Event::new(stream.device())?, Event::new(stream.device())?);
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); proposals.len()];
        for round in 0..ROUNDS {
            for place in 0..proposals.len() {
                let index = if round % 2 == 0 { place } else { proposals.len() - 1 - place };
                let mut set = 0;
                let mut launch = || {
                    set = (set + 1) % operands.len();
                    product.run(&proposals[index], stream, &operands[set])
                };
                // A proposal that does not run is no candidate.
                let Ok(first) = burst(stream, &events, 2, &mut launch) else { continue };
                std::thread::sleep(PAUSE);
                let timed = burst(stream, &events, products_for(BURST, first.seconds), &mut launch)?;
                times[index].push(timed.seconds);
            }
        }
        let medians: Vec<Option<f64>> = times.into_iter().map(median).collect();
        let tried = proposals
            .iter()
            .zip(&medians)
            .map(|(algorithm, seconds)| json!({ "algorithm": algorithm.facts(), "seconds": seconds }))
            .collect();
        let best = medians
            .iter()
            .zip(&proposals)
            .filter_map(|(seconds, algorithm)| Some(((*seconds)?, algorithm)))
            .min_by(|one, other| one.0.total_cmp(&other.0))
            .map(|(_, algorithm)| algorithm.clone())
            .ok_or(Error::LibraryCall {
                call: "cublasLtMatmulAlgoGetHeuristic",
                status: String::from("no proposal that runs"),
            })?;
        Ok(CublasLtArm { product, operands, best, tried })
    }
}

impl Arm for CublasLtArm<'_> {
    fn facts(&self) -> BTreeMap<String, Value> {
        BTreeMap::from([
            (String::from("call"), Value::from("cublasLtMatmul")),
            (String::from("algorithm"), json!(self.best.facts())),
            (String::from("proposals"), Value::from(self.tried.clone())),
        ])
    }

    fn rounds_once(&self) -> bool {
        false
    }

    fn launch(&mut self, stream: &Stream, set: usize) -> Result<()> {
        self.product.run(&self.best, stream, &self.operands[set])
    }
}

/// `cublasGemmEx`, which chooses for itself.
pub struct GemmExArm<'a> {
    product: Product<'a>,
    operands: Vec<Operands>,
}

impl<'a> GemmExArm<'a> {
    /// For `inputs`.
    pub fn new<T: Element>(tools: &Tools<'a>, inputs: &'a Inputs<T>) -> Result<Self> {
        Ok(GemmExArm { product: cublas(tools)?.product(inputs.problem())?, operands: operands(inputs) })
    }
}

impl Arm for GemmExArm<'_> {
    fn facts(&self) -> BTreeMap<String, Value> {
        BTreeMap::from([(String::from("call"), Value::from("cublasGemmEx"))])
    }

    fn rounds_once(&self) -> bool {
        false
    }

    fn launch(&mut self, stream: &Stream, set: usize) -> Result<()> {
        self.product.run_gemm_ex(stream, &self.operands[set])
    }
}
