//! Products that succeed.

use half::{bf16, f16};
use hopper_gemm::npy::Options;
use hopper_gemm::{Element, Matrix};

use crate::support::{Folder, run};

/// Small whole numbers, whose products and sums every type here holds exactly.
fn a(i: usize, k: usize) -> f32 {
    ((i * 3 + k) % 5) as f32 - 2.0
}

fn b(j: usize, k: usize) -> f32 {
    ((j + 2 * k) % 3) as f32
}

fn product(i: usize, j: usize, k: usize) -> f32 {
    (0..k).map(|at| a(i, at) * b(j, at)).sum()
}

fn assert_is_product<T: Element>(c: &Matrix<T>, m: usize, n: usize, k: usize) {
    assert_eq!((c.rows(), c.cols()), (m, n));
    for i in 0..m {
        for j in 0..n {
            assert_eq!(c.view().row(i)[j].to_f32(), product(i, j, k), "row {i}, column {j}");
        }
    }
}

/// The bytes of a matrix in the given order.
fn bytes<const N: usize>(
    fortran: bool,
    rows: usize,
    cols: usize,
    value: impl Fn(usize, usize) -> f32,
    encode: impl Fn(f32) -> [u8; N],
) -> Vec<u8> {
    let at = |index: usize| if fortran { (index % rows, index / rows) } else { (index / cols, index % cols) };
    (0..rows * cols).map(at).flat_map(|(i, j)| encode(value(i, j))).collect()
}

#[test]
fn files_of_every_type_and_order() {
    let folder = Folder::new();
    let (m, n, k) = (5, 4, 7);
    folder.matrix("b.npy", n, k, b);
    for fortran in [false, true] {
        for (descriptor, data) in [
            ("<f2", bytes(fortran, m, k, a, |v| f16::from_f32(v).to_le_bytes())),
            ("<f4", bytes(fortran, m, k, a, f32::to_le_bytes)),
            (">f4", bytes(fortran, m, k, a, f32::to_be_bytes)),
            ("<f8", bytes(fortran, m, k, a, |v| f64::from(v).to_le_bytes())),
        ] {
            folder.npy("a.npy", descriptor, fortran, "(5, 7)", &data);
            let run = folder.run("matmul --a a.npy --b b.npy --out c.npy --check --device cpu").succeeded();
            assert_eq!(run.stdout.contains("rounded to f16"), descriptor != "<f2", "{}", run.stdout);
            assert_is_product(&folder.read::<f16>("c.npy", Options::default()), m, n, k);
        }
    }
}

#[test]
fn bf16_as_words_and_as_f32() {
    let folder = Folder::new();
    let (m, n, k) = (5, 4, 7);
    folder.npy("a.npy", "<u2", false, "(5, 7)", &bytes(false, m, k, a, |v| bf16::from_f32(v).to_le_bytes()));
    folder.npy("b.npy", "|V2", true, "(4, 7)", &bytes(true, n, k, b, |v| bf16::from_f32(v).to_le_bytes()));
    folder.run("matmul --a a.npy --b b.npy --out c.npy --bf16-as-u16 --check --device cpu").succeeded();
    let words = Options { bf16_as_u16: true, ..Options::default() };
    assert_is_product(&folder.read::<bf16>("c.npy", words), m, n, k);

    folder.npy("a.npy", "<f4", false, "(5, 7)", &bytes(false, m, k, a, f32::to_le_bytes));
    folder.matrix("b.npy", n, k, b);
    let run = folder.run("matmul --a a.npy --b b.npy --out c.npy --type bf16 --device cpu").succeeded();
    assert!(run.stdout.contains("c.npy, f32"), "{}", run.stdout);
    assert_is_product(&folder.read::<bf16>("c.npy", Options::default()), m, n, k);
}

#[test]
fn b_may_be_stored_as_its_transpose() {
    let folder = Folder::new();
    let (m, n, k) = (5, 4, 7);
    folder.matrix("a.npy", m, k, a);
    folder.matrix("b.npy", k, n, |at, j| b(j, at));
    folder.run("matmul --a a.npy --b b.npy --b-layout kn --out c.npy --device cpu").succeeded();
    assert_is_product(&folder.read::<f16>("c.npy", Options::default()), m, n, k);
}

#[test]
fn empty_products() {
    let folder = Folder::new();
    folder.matrix("k0.npy", 5, 0, a);
    folder.matrix("k0b.npy", 3, 0, a);
    folder.run("matmul --a k0.npy --b k0b.npy --out c.npy --check --device cpu").succeeded();
    let c = folder.read::<f16>("c.npy", Options::default());
    assert_eq!((c.rows(), c.cols(), c.data()), (5, 3, &[f16::ZERO; 15][..]));

    folder.matrix("m0.npy", 0, 7, a);
    folder.matrix("b.npy", 4, 7, b);
    folder.run("matmul --a m0.npy --b b.npy --out c.npy --check --device cpu").succeeded();
    let c = folder.read::<f16>("c.npy", Options::default());
    assert_eq!((c.rows(), c.cols()), (0, 4));
    folder.run("matmul --a b.npy --b m0.npy --out c.npy --check --device cpu").succeeded();
    let c = folder.read::<f16>("c.npy", Options::default());
    assert_eq!((c.rows(), c.cols()), (4, 0));
}

#[test]
fn random_products_repeat_and_differ_by_seed() {
    let folder = Folder::new();
    for (seed, out) in [(1, "first.npy"), (1, "again.npy"), (2, "other.npy")] {
        folder
            .run(&format!("matmul --random 33x17x65 --seed {seed} --type bf16 --out {out} --check --device cpu"))
            .succeeded();
    }
    let read = |name| std::fs::read(folder.path(name)).unwrap();
    assert_eq!(read("first.npy"), read("again.npy"));
    assert_ne!(read("first.npy"), read("other.npy"));
}

#[test]
fn json_says_everything() {
    let json = run("matmul --random 20x30x40 --seed 7 --check --json --device cpu").succeeded().json();
    assert_eq!((&json["m"], &json["n"], &json["k"]), (&20.into(), &30.into(), &40.into()));
    assert_eq!(json["type"], "f16");
    assert_eq!(json["a"]["random"]["seed"], 7);
    assert_eq!(json["device"]["option"], "cpu");
    assert!(json["kernel"].is_null() && json["out"].is_null());
    assert!(json["seconds"].as_f64().unwrap() > 0.0);
    let check = &json["check"];
    assert_eq!(check["passed"], true);
    assert!(check["relative_error"].as_f64().unwrap() < check["relative_error_bound"].as_f64().unwrap());
    assert!(check["max_ulp"].as_f64().unwrap() < check["max_ulp_bound"].as_f64().unwrap());
}

#[test]
fn quiet_prints_nothing() {
    let run = run("matmul --random 8 --check --quiet --device cpu").succeeded();
    assert_eq!(run.stdout, "");
}

#[test]
fn auto_says_why() {
    let json = run("matmul --random 8 --json").json();
    assert!(json["device"]["why"].as_str().is_some_and(|why| !why.is_empty()), "{json}");
}

#[test]
fn kernel_options_are_named_where_no_kernel_runs() {
    let run = run("matmul --random 8 --device cpu --kernel v3 --tile 128x128x64 --stages 3").succeeded();
    assert!(run.stdout.contains("v3_f16_128x128x64_s3 was not used"), "{}", run.stdout);
}
